//! What consumers have read, and what groups have committed, before a power loss and after it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use configuration::{BrokerConfig, ConfigMap, TopicConfig};
use storage::simdisk::Rng;
use storage::{Log, OpenOptions, SimDisk};
use wire::batch::{BatchBuilder, Batches};
use wire::{ErrorCode, Uuid};

use super::*;

const DIR: &str = "/data/t-0";

/// A partition without other replicas, on a disk that is synced when the test says so.
struct Node {
    disk: SimDisk,
    env: Env,
    syncer: Arc<Syncer>,
    partition: Arc<Partition>,
    leader_epoch: i32,
}

impl Node {
    fn new(seed: u64, durability: &str) -> Self {
        let disk = SimDisk::new(seed);
        let env = Env { disk: Arc::new(disk.clone()), ..Env::real() };
        let (log, _) =
            Log::create(env.disk.clone(), DIR.into(), settings(durability).log.clone(), Uuid([1; 16]), env.clock.now())
                .expect("an empty disk");
        let syncer = Syncer::idle();
        let partition = lead(&env, &syncer, log, durability, 0);
        Self { disk, env, syncer, partition, leader_epoch: 0 }
    }

    /// Power loss, and the start after it, with which a new leader epoch begins.
    fn lose_power(&mut self) {
        let durability = self.partition.settings().ack_durability;
        self.disk.crash();
        let options =
            OpenOptions { recovery_point: 0, log_start_offset: 0, clean_shutdown: false, now: self.env.clock.now() };
        let durability = if durability == AckDurability::Disk { "disk" } else { "os" };
        let (log, _) = Log::open(self.env.disk.clone(), PathBuf::from(DIR), settings(durability).log.clone(), options)
            .expect("the log is there");
        self.leader_epoch += 1;
        self.syncer = Syncer::idle();
        self.partition = lead(&self.env, &self.syncer, log, durability, self.leader_epoch);
    }

    fn produce(&self, value: u64, acks: Acks) -> Arc<ProduceCompletion> {
        let mut builder = BatchBuilder::new();
        builder.push(0, None, Some(&value.to_be_bytes()), &[]);
        let (completion, mut commits) = (Arc::new(ProduceCompletion::new(1)), PendingCommits::default());
        self.partition.enqueue(builder.build(), acks, &completion, 0, &mut commits);
        commits.commit();
        completion
    }

    fn end(&self) -> i64 {
        self.partition.end_offset(Isolation::ReadUncommitted)
    }

    /// Whole batches from an offset on, as far as consumers may read.
    fn read(&self, offset: i64) -> Vec<Batch> {
        let end = self.end();
        if offset >= end {
            return Vec::new();
        }
        let bytes = self.partition.view().read(offset, end, u32::MAX).expect("what is below the end can be read");
        Batches::new(bytes).map(|batch| batch.expect("the batch is whole")).collect()
    }
}

fn settings(durability: &str) -> Arc<Settings> {
    let config = BrokerConfig::default();
    let map = ConfigMap::from_iter([("ack.durability".to_owned(), durability.to_owned())]);
    Arc::new(Settings::new(&TopicConfig::resolve(&config, &map).expect("the settings are in order"), &config))
}

fn lead(env: &Env, syncer: &Arc<Syncer>, log: Log, durability: &str, leader_epoch: i32) -> Arc<Partition> {
    let shared = Shared::new(env.clone(), 1, 30_000, Arc::clone(syncer));
    let identity = Identity { topic: "t".into(), topic_id: Uuid([1; 16]), index: 0, traffic: Arc::default() };
    let partition = Partition::new(identity, log, 0, settings(durability), shared);
    let alone = metadata::Partition {
        replicas: vec![1],
        isr: vec![1],
        leader: 1,
        leader_epoch,
        ..metadata::Partition::default()
    };
    partition.take_role(&alone, &|_| None);
    partition
}

fn is_answered(completion: &ProduceCompletion) -> bool {
    completion.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_record_is_visible_when_its_producer_hears_of_it() {
    let node = Node::new(1, "disk");
    let completion = node.produce(1, Acks::Leader);
    assert!(is_answered(&completion) && node.end() == 1, "at once");
    let waiting = node.produce(2, Acks::All);
    node.partition.append_queued();
    let behind = node.produce(3, Acks::Leader);
    assert!(is_answered(&behind));
    assert_eq!((node.partition.view().log_end_offset(), node.end()), (3, 1), "what is behind it waits for it");
    assert!(!is_answered(&waiting));
    node.syncer.run_pending();
    assert!(is_answered(&waiting));
    assert_eq!(node.end(), 3);
    node.produce(4, Acks::None);
    assert_eq!(node.end(), 4, "nothing is withheld any more");
}

#[test]
fn with_the_durability_of_the_system_all_is_visible_at_once() {
    let node = Node::new(1, "os");
    let completion = node.produce(1, Acks::All);
    assert!(is_answered(&completion));
    assert_eq!(node.end(), 1);
}

#[test]
fn readers_that_wait_are_woken_when_a_record_becomes_visible() {
    let node = Node::new(1, "disk");
    let wait = FetchWait::new(Reader::Consumer, 1);
    let _registration = Registration::new(&wait, vec![Arc::clone(&node.partition)]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let is_woken = || {
        let waiting = async { tokio::time::timeout(Duration::from_millis(1), wait.wait()).await };
        runtime.block_on(waiting).is_ok()
    };
    node.produce(1, Acks::All);
    node.partition.append_queued();
    assert!(!is_woken(), "there is nothing to read yet");
    node.syncer.run_pending();
    assert!(is_woken());
}

#[test]
fn what_lies_above_the_disk_after_a_kill_is_visible_when_it_is_synced() {
    let mut node = Node::new(1, "disk");
    node.produce(1, Acks::All);
    node.partition.append_queued();
    node.disk.kill();
    let options =
        OpenOptions { recovery_point: 0, log_start_offset: 0, clean_shutdown: false, now: node.env.clock.now() };
    let (log, _) = Log::open(node.env.disk.clone(), DIR.into(), settings("disk").log.clone(), options).expect("a log");
    node.syncer = Syncer::idle();
    node.partition = lead(&node.env, &node.syncer, log, "disk", 1);
    let synced = node.partition.view().synced_offset();
    assert_eq!((node.partition.view().log_end_offset(), node.end()), (1, synced));
    node.syncer.run_pending();
    assert_eq!(node.end(), 1, "although nobody writes");
}

/// One run of a partition with power losses, in which a consumer reads and commits.
pub(crate) fn live(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut node = Node::new(seed, "disk");
    let (mut value, mut committed) = (0, 0);
    for _ in 0..4 {
        // By offset: the value, and whether it was sent with `acks=all`.
        let mut sent = BTreeMap::new();
        let mut seen: BTreeMap<i64, Batch> = node.read(0).into_iter().map(|b| (b.header.base_offset, b)).collect();
        let mut position = node.end();
        let mut acknowledged = Vec::new();
        for _ in 0..rng.below(40) {
            match rng.below(6) {
                0..3 => {
                    value += 1;
                    let acks = [Acks::None, Acks::Leader, Acks::All][rng.below(3) as usize];
                    let completion = node.produce(value, acks);
                    if rng.percent(50) {
                        node.partition.append_queued();
                    }
                    sent.insert(value, acks);
                    acknowledged.push((value, completion));
                }
                3 => {
                    for batch in node.read(position) {
                        position = batch.header.next_offset();
                        seen.insert(batch.header.base_offset, batch);
                    }
                }
                4 => node.syncer.run_pending(),
                _ => {
                    if let Some(completion) = node.partition.make_durable(position) {
                        assert!(!is_answered(&completion), "it is not there before it is synced");
                        node.syncer.run_pending();
                        let mut context = Context::from_waker(Waker::noop());
                        let Poll::Ready(outcomes) = completion.poll(&mut context) else { panic!("the sync is over") };
                        assert!(matches!(outcomes[..], [ProduceOutcome::Appended { .. }]), "{outcomes:?}");
                    }
                    committed = position;
                }
            }
        }
        let epoch_before = node.leader_epoch;
        node.lose_power();
        let end = node.partition.view().log_end_offset();
        node.syncer.run_pending();
        let there: BTreeMap<i64, Batch> = node.read(0).into_iter().map(|b| (b.header.base_offset, b)).collect();
        for (offset, batch) in &seen {
            let value = u64::from_be_bytes(batch.bytes[batch.bytes.len() - 9..][..8].try_into().expect("eight bytes"));
            let is_there = there.get(offset).is_some_and(|found| found.bytes == batch.bytes);
            let is_promised = sent.get(&value).is_none_or(|acks| *acks == Acks::All) || *offset < committed;
            assert!(is_there || !is_promised, "seed {seed}: {value} was read at {offset} and is gone");
        }
        assert!(committed <= end, "seed {seed}: the group goes on at {committed}, and the log at {end}");
        let epoch_end = node.partition.end_offset_for_epoch(epoch_before);
        let notices = epoch_end.epoch < epoch_before || epoch_end.end_offset < position;
        assert!(position <= end || notices, "seed {seed}: {epoch_end:?} tells a reader at {position} nothing");
    }
}

#[test]
fn nobody_reads_two_histories_of_what_producers_waited_for() {
    for seed in 0..300 {
        live(seed);
    }
}

#[test]
fn nothing_has_to_be_synced_for_a_commit_of_what_is_durable() {
    let node = Node::new(1, "disk");
    node.produce(1, Acks::Leader);
    assert!(node.partition.make_durable(0).is_none());
    assert!(node.partition.make_durable(5).is_some(), "as far as the log goes");
    node.syncer.run_pending();
    assert!(node.partition.make_durable(5).is_none());
    node.produce(2, Acks::Leader);
    let completion = node.partition.make_durable(2).expect("one record is not on disk");
    node.partition
        .take_role(&metadata::Partition { leader: 2, leader_epoch: 1, ..metadata::Partition::default() }, &|_| None);
    let mut context = Context::from_waker(Waker::noop());
    let refusal = Refusal { is_appended: true, ..ErrorCode::NOT_LEADER_OR_FOLLOWER.into() };
    assert_eq!(completion.poll(&mut context), Poll::Ready(vec![ProduceOutcome::Refused(refusal)]));
    assert!(node.partition.make_durable(2).is_none(), "another leads");
}
