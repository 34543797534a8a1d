//! Appends of many threads with all kinds of acknowledgements, on a disk that works and on one that fails.

use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use configuration::{BrokerConfig, ConfigMap, TopicConfig};
use parking_lot::Mutex;
use rustix::io::Errno;
use storage::simdisk::SimOp;
use storage::{Log, SimDisk};
use wire::batch::BatchBuilder;
use wire::{ErrorCode, Uuid};

use super::replica::Promised;
use super::*;

const THREADS: usize = 6;
const ROUNDS: usize = 40;
const IN_FLIGHT: usize = 5;

fn partition(disk: &SimDisk) -> Arc<Partition> {
    let config = BrokerConfig::default();
    let topic = TopicConfig::resolve(&config, &ConfigMap::new()).expect("the defaults are in order");
    let settings = Arc::new(Settings::new(&topic, &config));
    let env = Env { disk: Arc::new(disk.clone()), ..Env::real() };
    let dir = PathBuf::from("/data/t-0");
    let (log, _) = Log::create(env.disk.clone(), dir, settings.log.clone(), Uuid([1; 16]), env.clock.now())
        .expect("an empty disk");
    let (syncer, _) = Syncer::start();
    let shared = Shared::new(env, 1, 30_000, syncer);
    let partition = Partition::new(
        Identity { topic: "t".into(), topic_id: Uuid([1; 16]), index: 0, traffic: Arc::default() },
        log,
        0,
        settings,
        shared,
    );
    let alone = metadata::Partition { replicas: vec![1], isr: vec![1], leader: 1, ..metadata::Partition::default() };
    partition.take_role(&alone, &|_| None);
    partition
}

fn batch() -> Batch {
    let mut builder = BatchBuilder::new();
    builder.push(0, None, Some(b"value"), &[]);
    builder.build()
}

/// Waits until a completion of one slot is filled.
fn wait(completion: &ProduceCompletion) -> ProduceOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let filled = async { tokio::time::timeout(Duration::from_secs(60), poll_fn(|cx| completion.poll(cx))).await };
    runtime.block_on(filled).expect("every append is answered").remove(0)
}

/// Several senders with a few requests in flight each, of which some wait for the disk and some only for the page
/// cache. Returns the outcomes of each, in the order of its requests.
fn senders(partition: &Arc<Partition>) -> Vec<Vec<ProduceOutcome>> {
    let by_sender = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for sender in 0..THREADS {
            let by_sender = &by_sender;
            scope.spawn(move || {
                let mut outcomes = Vec::new();
                for round in 0..ROUNDS {
                    let sent: Vec<_> = (0..IN_FLIGHT)
                        .map(|n| {
                            let acks = if (sender * round + n) % 3 == 0 { Acks::Leader } else { Acks::All };
                            let (completion, mut commits) =
                                (Arc::new(ProduceCompletion::new(1)), PendingCommits::default());
                            partition.enqueue(batch(), acks, &completion, 0, &mut commits);
                            commits.commit();
                            (acks, completion)
                        })
                        .collect();
                    for (acks, completion) in sent {
                        let outcome = wait(&completion);
                        if let (Acks::All, ProduceOutcome::Appended { base_offset, .. }) = (acks, &outcome) {
                            assert!(
                                partition.view().synced_offset() > *base_offset,
                                "acknowledged before it was on disk"
                            );
                        }
                        outcomes.push(outcome);
                    }
                }
                by_sender.lock().push(outcomes);
            });
        }
    });
    by_sender.into_inner()
}

fn offset(outcome: &ProduceOutcome) -> Option<i64> {
    match outcome {
        ProduceOutcome::Appended { base_offset, .. } => Some(*base_offset),
        ProduceOutcome::Refused(_) => None,
    }
}

#[test]
fn every_append_is_answered_with_an_offset_of_its_own_in_the_order_of_its_sender() {
    let partition = partition(&SimDisk::new(1));
    let by_sender = senders(&partition);
    for outcomes in &by_sender {
        assert!(outcomes.iter().map(offset).is_sorted(), "{outcomes:?}");
    }
    let mut offsets: Vec<i64> = by_sender.iter().flatten().filter_map(offset).collect();
    offsets.sort_unstable();
    assert!(offsets.into_iter().eq(0..(THREADS * ROUNDS * IN_FLIGHT) as i64));
}

#[test]
fn a_disk_that_fails_leaves_nobody_without_an_answer() {
    for syncs in 0..20 {
        let disk = SimDisk::new(2);
        let partition = partition(&disk);
        disk.fail(SimOp::Sync, syncs, Errno::IO);
        let refused: Vec<_> = senders(&partition).into_iter().flatten().filter(|o| offset(o).is_none()).collect();
        assert!(partition.is_offline());
        assert!(!refused.is_empty());
        for outcome in refused {
            let ProduceOutcome::Refused(refusal) = outcome else { panic!("{outcome:?}") };
            assert_eq!(refusal.code, ErrorCode::KAFKA_STORAGE_ERROR);
        }
    }
}

fn led_by(leader: i32, leader_epoch: i32) -> metadata::Partition {
    metadata::Partition { replicas: vec![1, 2], isr: vec![1], leader, leader_epoch, ..metadata::Partition::default() }
}

fn send(partition: &Arc<Partition>, leader_epoch: Option<i32>, acks: Acks) -> (Arc<ProduceCompletion>, PendingCommits) {
    let (completion, mut commits) = (Arc::new(ProduceCompletion::new(1)), PendingCommits::default());
    partition.enqueue_on(Terms { leader_epoch, ..Terms::CLIENT }, batch(), acks, &completion, 0, &mut commits);
    (completion, commits)
}

#[test]
fn nothing_of_an_older_leadership_is_appended() {
    let partition = partition(&SimDisk::new(3));
    let refused = ProduceOutcome::from(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    let (queued, commits) = send(&partition, None, Acks::Leader);
    partition.take_role(&led_by(2, 1), &|_| None);
    assert_eq!(wait(&queued), refused);
    partition.take_role(&led_by(1, 2), &|_| None);
    commits.commit();
    let (queued, commits) = send(&partition, None, Acks::Leader);
    partition.take_role(&led_by(1, 3), &|_| None);
    commits.commit();
    assert_eq!(wait(&queued), refused, "its own, but another one");
    let (of_before, commits) = send(&partition, Some(0), Acks::Leader);
    commits.commit();
    assert_eq!(wait(&of_before), refused);
    let (of_now, commits) = send(&partition, Some(3), Acks::Leader);
    commits.commit();
    assert_eq!(offset(&wait(&of_now)), Some(0));
}

#[test]
fn a_follower_takes_from_the_leader_of_its_epoch_only() {
    let partition = partition(&SimDisk::new(4));
    let promises = Promised { high_watermark: 1, durable_offset: 0 };
    let from_leader = |epoch| partition.append_from_leader(epoch, 0, &batch().bytes, promises, 0);
    assert!(matches!(from_leader(0), Err(FollowError::RoleChanged)), "it leads");
    partition.take_role(&led_by(2, 5), &|_| None);
    assert!(matches!(from_leader(4), Err(FollowError::RoleChanged)));
    from_leader(5).expect("it follows in this epoch");
    assert_eq!((partition.view().log_end_offset(), partition.high_watermark()), (1, 1));
    assert_eq!(partition.durable_offset(), 0);
    let (refused, _) = send(&partition, None, Acks::Leader);
    assert_eq!(wait(&refused), ErrorCode::NOT_LEADER_OR_FOLLOWER.into());
    assert_eq!(partition.check_leader_in_epoch(4), Err(ErrorCode::FENCED_LEADER_EPOCH));
    assert_eq!(partition.check_leader_in_epoch(5), Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    assert_eq!(partition.check_leader_in_epoch(6), Err(ErrorCode::UNKNOWN_LEADER_EPOCH));
}
