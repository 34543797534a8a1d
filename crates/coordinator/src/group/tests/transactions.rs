//! Offsets in transactions: what is answered when, what can be seen, and what markers do.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use storage::{Disk, Log, LogConfig, OpenOptions, SimDisk, Verification, VerificationGuard};
use tokio::task::JoinHandle;
use wire::api::offset_delete::{OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::api::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic, TxnOffsetCommitResponse,
};
use wire::batch::Batches;
use wire::record::RecordReader;
use wire::{ErrorCode, Uuid};

use super::api::{CALLER, offset, settle};
use super::fake::{World, topic_id};
use crate::group::{GroupConfig, Marker, Now};

/// The first guard of a log.
fn guard() -> Option<VerificationGuard> {
    const START: Now = Now { monotonic_ms: 0, wall_ms: 0 };
    let disk = SimDisk::new(1);
    disk.create_dir_all(Path::new("t-0")).unwrap();
    let options = OpenOptions { recovery_point: 0, log_start_offset: 0, clean_shutdown: false, now: START };
    let (mut log, _) = Log::open(Arc::new(disk), "t-0".into(), LogConfig::default(), options).unwrap();
    match log.start_verification(7, 3, -1, 2, START).unwrap() {
        Verification::Needed(guard) => Some(guard),
        Verification::NotNeeded => None,
    }
}

pub(super) fn request(producer_id: i64, group_id: &str, offsets: &[(&str, i32, i64)]) -> TxnOffsetCommitRequest {
    let topics = offsets.iter().map(|(topic, partition, offset)| TxnOffsetCommitRequestTopic {
        name: (*topic).to_owned(),
        partitions: vec![TxnOffsetCommitRequestPartition {
            partition_index: *partition,
            committed_offset: *offset,
            committed_leader_epoch: 4,
            committed_metadata: Some("note".to_owned()),
        }],
    });
    TxnOffsetCommitRequest {
        transactional_id: format!("transaction-{producer_id}"),
        group_id: group_id.to_owned(),
        producer_id,
        producer_epoch: 3,
        topics: topics.collect(),
        ..Default::default()
    }
}

pub(super) fn errors(response: &TxnOffsetCommitResponse) -> Vec<ErrorCode> {
    response.topics.iter().flat_map(|topic| topic.partitions.iter().map(|p| p.error_code)).collect()
}

pub(super) fn marker(producer_id: i64, is_committed: bool) -> Marker {
    Marker { producer_id, producer_epoch: 3, is_committed, coordinator_epoch: 9, transaction_version: 2 }
}

impl World {
    async fn ask(
        &self,
        api_version: i16,
        request: TxnOffsetCommitRequest,
        verified: Result<Option<VerificationGuard>, ErrorCode>,
    ) -> Vec<ErrorCode> {
        let verification = std::future::ready(verified);
        errors(&self.groups.txn_offset_commit(api_version, CALLER.client_host, request, verification).await)
    }

    pub(super) async fn commit_in(
        &self,
        producer_id: i64,
        group_id: &str,
        offsets: &[(&str, i32, i64)],
    ) -> Vec<ErrorCode> {
        self.ask(5, request(producer_id, group_id, offsets), Ok(guard())).await
    }

    fn spawn_commit_in(
        &self,
        producer_id: i64,
        group_id: &str,
        offsets: &[(&str, i32, i64)],
    ) -> JoinHandle<Vec<ErrorCode>> {
        let (groups, request) = (self.groups.clone(), request(producer_id, group_id, offsets));
        tokio::spawn(async move {
            let verification = std::future::ready(Ok(guard()));
            errors(&groups.txn_offset_commit(5, CALLER.client_host, request, verification).await)
        })
    }

    pub(super) async fn end(&self, producer_id: i64, is_committed: bool) -> Result<(), ErrorCode> {
        self.groups.write_marker(0, marker(producer_id, is_committed)).await
    }

    /// How many transactions are remembered as having something in a group.
    fn transaction_count(&self) -> usize {
        self.groups.shard("").unwrap().state.lock().transaction_count()
    }

    /// The offset of a partition for a reader that wants it stable.
    pub(super) async fn stable(&self, group_id: &str, topic: &str, partition: i32) -> Result<i64, ErrorCode> {
        let topics = vec![OffsetFetchRequestTopics {
            name: topic.to_owned(),
            partition_indexes: vec![partition],
            ..Default::default()
        }];
        let group =
            OffsetFetchRequestGroup { group_id: group_id.to_owned(), topics: Some(topics), ..Default::default() };
        let request = OffsetFetchRequest { groups: vec![group], require_stable: true, ..Default::default() };
        let fetched = self.groups.offset_fetch(9, request).await.groups.remove(0);
        if !fetched.error_code.is_none() {
            return Err(fetched.error_code);
        }
        let partition = &fetched.topics[0].partitions[0];
        if partition.error_code.is_none() {
            return Ok(partition.committed_offset);
        }
        let shown = (partition.committed_offset, partition.committed_leader_epoch, partition.metadata.as_deref());
        assert_eq!(shown, (-1, -1, Some("")), "an error hides the rest");
        Err(partition.error_code)
    }
}

const UNSTABLE: Result<i64, ErrorCode> = Err(ErrorCode::UNSTABLE_OFFSET_COMMIT);

#[tokio::test(start_paused = true)]
async fn offsets_of_a_transaction_are_pending_until_its_marker() {
    let world = World::new(GroupConfig::default()).await;
    world.commit("g", &[("t1", 0, 1), ("t1", 1, 1)]).await;
    assert_eq!(world.commit_in(7, "g", &[("t1", 0, 2), ("t2", 0, 2)]).await, [ErrorCode::NONE; 2]);
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 1), offset("t1", 1, 1)]);
    assert_eq!((world.stable("g", "t1", 0).await, world.stable("g", "t1", 1).await), (UNSTABLE, Ok(1)));
    assert_eq!(world.stable("g", "t2", 0).await, UNSTABLE, "it has no offset yet");
    // All offsets of a group are those that it has.
    assert_eq!(world.fetch_request("g", true).await, Ok(vec![offset("t1", 0, -1), offset("t1", 1, 1)]));

    assert_eq!(world.end(7, true).await, Ok(()));
    assert_eq!(world.stable("g", "t1", 0).await, Ok(2));
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 2), offset("t1", 1, 1), offset("t2", 0, 2)]);
    assert_eq!(world.commit_in(7, "g", &[("t1", 0, 3)]).await, [ErrorCode::NONE]);
    assert_eq!(world.end(7, false).await, Ok(()));
    assert_eq!(world.stable("g", "t1", 0).await, Ok(2));
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn transactions_are_stored_as_kafka_does() {
    let world = World::new(GroupConfig::default()).await;
    world.commit_in(7, "g", &[("t1", 0, 2)]).await;
    world.end(7, true).await.unwrap();
    world.end(7, false).await.unwrap();
    let batches: Vec<_> = Batches::new(world.log.bytes(0)).map(Result::unwrap).collect();
    for (batch, is_control) in batches.iter().zip([false, true, true]) {
        let header = &batch.header;
        assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (7, 3, -1));
        assert!(header.attributes.is_transactional() && header.attributes.is_control() == is_control);
    }
    let record = |index: usize| {
        let section = batches[index].records(1_000).unwrap();
        let mut records = RecordReader::new(&batches[index].header, &section);
        let record = records.next().unwrap().unwrap();
        assert!(records.next().is_none());
        (record.key.unwrap().to_vec(), record.value.unwrap().to_vec())
    };
    assert_eq!(record(1), (vec![0, 0, 0, 1], vec![0, 0, 0, 0, 0, 9]));
    assert_eq!(record(2), (vec![0, 0, 0, 0], vec![0, 0, 0, 0, 0, 9]));
    assert_eq!((world.log.guards(), world.log.marker_versions()), (vec![guard()], vec![2, 2]));
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_in_a_transaction() {
    let world = World::new(GroupConfig::default()).await;
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    let with = |change: &dyn Fn(&mut TxnOffsetCommitRequest)| {
        let mut request = request(7, "g", &[("t1", 0, 1), ("zz", 0, 1), ("t1", 3, 1)]);
        change(&mut request);
        request
    };
    for (request, error) in [
        (with(&|r| r.group_id.clear()), ErrorCode::INVALID_GROUP_ID),
        (with(&|r| r.group_id = "g".repeat(5_000)), ErrorCode::INVALID_GROUP_ID),
        (with(&|r| r.generation_id = 0), ErrorCode::ILLEGAL_GENERATION),
    ] {
        assert_eq!(world.ask(5, request, Ok(None)).await, [error, unknown, unknown]);
    }
    assert!(world.list().is_empty(), "nothing was left behind");
    let joined = world.admit("g").await;
    let of_member = with(&|r| (r.member_id, r.generation_id) = (joined.member_id.clone(), joined.generation_id));
    assert_eq!(world.ask(5, of_member.clone(), Ok(None)).await, [ErrorCode::NONE, unknown, unknown]);
    for (request, error) in [
        (TxnOffsetCommitRequest { generation_id: 9, ..of_member.clone() }, ErrorCode::ILLEGAL_GENERATION),
        (TxnOffsetCommitRequest { member_id: "m".to_owned(), ..of_member.clone() }, ErrorCode::UNKNOWN_MEMBER_ID),
        (with(&|_| {}), ErrorCode::NONE),
    ] {
        assert_eq!(world.ask(5, request, Ok(None)).await[0], error);
    }
    let mut long = with(&|_| {});
    long.topics[0].partitions[0].committed_metadata = Some("x".repeat(4_097));
    assert_eq!(world.ask(5, long, Ok(None)).await[0], ErrorCode::OFFSET_METADATA_TOO_LARGE);
}

#[tokio::test(start_paused = true)]
async fn what_the_verification_says_is_answered() {
    let world = World::new(GroupConfig::default()).await;
    let asked = Cell::new(0);
    let ask = async |api_version, offsets: &[(&str, i32, i64)], result| {
        let verification = async {
            asked.set(asked.get() + 1);
            result
        };
        let request = request(7, "g", offsets);
        errors(&world.groups.txn_offset_commit(api_version, CALLER.client_host, request, verification).await)
    };
    let one = [("t1", 0, 1)];
    for (said, api_version, answered) in [
        (ErrorCode::NETWORK_EXCEPTION, 2, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode::NETWORK_EXCEPTION, 1, ErrorCode::COORDINATOR_NOT_AVAILABLE),
        (ErrorCode::NOT_ENOUGH_REPLICAS, 5, ErrorCode::COORDINATOR_NOT_AVAILABLE),
        (ErrorCode::INVALID_TXN_STATE, 3, ErrorCode::INVALID_TXN_STATE),
        (ErrorCode::TRANSACTION_ABORTABLE, 5, ErrorCode::TRANSACTION_ABORTABLE),
        (ErrorCode::CONCURRENT_TRANSACTIONS, 5, ErrorCode::CONCURRENT_TRANSACTIONS),
    ] {
        assert_eq!(ask(api_version, &one, Err(said)).await, [answered]);
    }
    assert_eq!((asked.replace(0), world.log.appends()), (6, 0));
    assert_eq!(ask(5, &[("zz", 0, 1)], Ok(None)).await, [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION]);
    world.groups.unload(0);
    assert_eq!(ask(5, &one, Ok(None)).await, [ErrorCode::NOT_COORDINATOR]);
    world.groups.begin_load(0);
    assert_eq!(ask(5, &one, Ok(None)).await, [ErrorCode::COORDINATOR_LOAD_IN_PROGRESS]);
    assert_eq!(ask(1, &one, Ok(None)).await, [ErrorCode::COORDINATOR_NOT_AVAILABLE]);
    assert_eq!(asked.get(), 0, "the transaction gets no partition for nothing");
}

#[tokio::test(start_paused = true)]
async fn a_marker_is_answered_when_it_is_durable_and_its_offsets_are_visible() {
    let world = World::new(GroupConfig::default()).await;
    world.commit_in(7, "g", &[("t1", 0, 2)]).await;
    world.commit_in(7, "h", &[("t1", 0, 3)]).await;
    world.log.hold();
    let ended = tokio::spawn(world.groups.write_marker(0, marker(7, true)));
    settle().await;
    assert!(!ended.is_finished());
    assert_eq!((world.stable("g", "t1", 0).await, world.fetch("g").await), (UNSTABLE, vec![]));
    assert_eq!(world.commit_in(7, "g", &[("t2", 0, 2)]).await, [ErrorCode::COORDINATOR_LOAD_IN_PROGRESS]);
    world.log.release_all();
    assert_eq!(ended.await.unwrap(), Ok(()));
    assert_eq!((world.stable("g", "t1", 0).await, world.stable("h", "t1", 0).await), (Ok(2), Ok(3)));
    assert_eq!(world.commit_in(7, "g", &[("t2", 0, 2)]).await, [ErrorCode::NONE], "the next transaction");
}

#[tokio::test(start_paused = true)]
async fn a_marker_waits_for_the_offsets_before_it() {
    let world = World::new(GroupConfig::default()).await;
    world.log.hold();
    let commit = world.spawn_commit_in(7, "g", &[("t1", 0, 2)]);
    settle().await;
    let ended = tokio::spawn(world.groups.write_marker(0, marker(7, true)));
    settle().await;
    world.log.release_youngest();
    settle().await;
    assert!(!ended.is_finished(), "the offset is durable, too, but does not know it yet");
    world.log.release(1);
    assert_eq!(commit.await.unwrap(), [ErrorCode::NONE]);
    assert_eq!(ended.await.unwrap(), Ok(()));
    assert_eq!(world.stable("g", "t1", 0).await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn a_marker_takes_effect_without_the_connection_that_sent_it() {
    let world = World::new(GroupConfig::default()).await;
    world.commit_in(7, "g", &[("t1", 0, 2)]).await;
    world.log.hold();
    drop(world.groups.write_marker(0, marker(7, true)));
    world.log.release_all();
    settle().await;
    assert_eq!(world.stable("g", "t1", 0).await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn a_marker_that_fails_leaves_the_transaction_open() {
    let world = World::new(GroupConfig::default()).await;
    world.commit_in(7, "g", &[("t1", 0, 2)]).await;
    for error in [
        ErrorCode::NOT_ENOUGH_REPLICAS,
        ErrorCode::INVALID_PRODUCER_EPOCH,
        ErrorCode::TRANSACTION_COORDINATOR_FENCED,
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
    ] {
        world.log.refuse(Some(error));
        assert_eq!(world.end(7, true).await, Err(error));
        assert_eq!(world.stable("g", "t1", 0).await, UNSTABLE);
    }
    world.log.refuse(None);
    assert_eq!(world.end(7, true).await, Ok(()));
    assert_eq!(world.end(7, true).await, Ok(()), "again, as when the answer was lost");
    assert_eq!(world.stable("g", "t1", 0).await, Ok(2));
    world.groups.begin_load(0);
    assert_eq!(world.end(7, true).await, Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    world.groups.unload(0);
    assert_eq!(world.end(7, true).await, Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
}

#[tokio::test(start_paused = true)]
async fn a_marker_is_not_answered_by_a_broker_that_has_lost_the_partition() {
    let world = World::new(GroupConfig::default()).await;
    world.commit_in(7, "g", &[("t1", 0, 2)]).await;
    world.log.hold();
    let ended = tokio::spawn(world.groups.write_marker(0, marker(7, true)));
    settle().await;
    world.groups.unload(0);
    world.log.release_all();
    assert_eq!(ended.await.unwrap(), Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    world.groups.load(0).await.unwrap();
    assert_eq!(world.stable("g", "t1", 0).await, Ok(2), "it is in the log");
}

#[tokio::test(start_paused = true)]
async fn offsets_that_too_few_replicas_have_are_part_of_the_transaction() {
    let world = World::new(GroupConfig::default()).await;
    world.log.hold();
    let commit = world.spawn_commit_in(7, "g", &[("t1", 0, 2)]);
    settle().await;
    world.log.fail_waiting(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND);
    assert_eq!(commit.await.unwrap(), [ErrorCode::COORDINATOR_NOT_AVAILABLE]);
    assert_eq!(world.stable("g", "t1", 0).await, UNSTABLE, "as after a failover");
    let world = world.restart(0).await;
    assert_eq!(world.stable("g", "t1", 0).await, UNSTABLE);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_is_not_part_of_the_transaction() {
    let world = World::new(GroupConfig::default()).await;
    world.log.refuse(Some(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(world.commit_in(7, "g", &[("t1", 0, 2)]).await, [ErrorCode::INVALID_TXN_STATE]);
    assert!(world.list().is_empty());
    assert_eq!(world.transaction_count(), 0);
    world.log.refuse(None);
    assert_eq!(world.end(7, true).await, Ok(()));
    assert!(world.list().is_empty());
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn an_offset_in_a_transaction_waits_until_the_records_before_it_are_durable() {
    let world = World::new(GroupConfig::default()).await;
    world.topics.unsynced_from("t1", 5);
    let commit = world.spawn_commit_in(7, "g", &[("t1", 0, 6)]);
    settle().await;
    assert_eq!(world.log.appends(), 0);
    assert_eq!(world.topics.end_syncs(Ok(())), 1);
    assert_eq!(commit.await.unwrap(), [ErrorCode::NONE]);
}

#[tokio::test(start_paused = true)]
async fn large_commits_in_a_transaction_are_split_and_end_together() {
    let world = World::new(GroupConfig::default()).await;
    let names: Vec<_> = (0..10).map(|number| format!("t{number}")).collect();
    let offsets: Vec<_> = names.iter().flat_map(|name| (0..3).map(|p| (name.as_str(), p, 5))).collect();
    assert_eq!(world.commit_in(7, "g", &offsets).await, [ErrorCode::NONE; 30]);
    let guards = world.log.guards();
    assert!(guard().is_some() && guards.len() > 1 && guards.iter().all(|given| *given == guard()), "{guards:?}");
    let world = world.restart(0).await;
    assert!(world.fetch("g").await.is_empty());
    world.end(7, true).await.unwrap();
    assert_eq!(world.fetch("g").await.len(), 30);
}

#[tokio::test(start_paused = true)]
async fn deletions_take_what_is_pending() {
    let world = World::new(GroupConfig::default()).await;
    world.commit("g", &[("t1", 0, 1)]).await;
    world.commit_in(7, "g", &[("t1", 0, 2), ("t1", 1, 2), ("t2", 0, 2), ("t3", 0, 2)]).await;
    world.commit_in(7, "gone", &[("t1", 0, 2)]).await;
    assert_eq!(world.delete("gone").await, ErrorCode::NONE);
    let topic = OffsetDeleteRequestTopic {
        name: "t1".to_owned(),
        partitions: [0, 1].map(|partition_index| OffsetDeleteRequestPartition { partition_index }).to_vec(),
    };
    let answer =
        world.groups.offset_delete(OffsetDeleteRequest { group_id: "g".to_owned(), topics: vec![topic] }).await;
    assert_eq!(answer.error_code, ErrorCode::NONE);
    world.groups.topics_deleted(&[("t2".to_owned(), topic_id(2)), ("t3".to_owned(), Uuid([77; 16]))]);
    settle().await;
    for topic in ["t1", "t2"] {
        assert_eq!(world.stable("g", topic, 0).await, Ok(-1));
    }
    assert_eq!(world.stable("g", "t3", 0).await, UNSTABLE, "another topic had that name");
    world.end(7, true).await.unwrap();
    let check = async |world: &World| {
        assert_eq!(world.fetch("g").await, [offset("t3", 0, 2)]);
        assert_eq!(world.list(), [("g".to_owned(), "Empty".to_owned())]);
        world.memory_is_counted();
    };
    check(&world).await;
    check(&world.restart(0).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_has_only_pending_offsets_stays_until_they_are_aborted() {
    let config = GroupConfig { offsets_retention_ms: 3_600_000, ..GroupConfig::default() };
    let world = World::new(config).await;
    world.admit("g").await;
    world.commit_in(7, "g", &[("t1", 0, 2)]).await;
    world.commit("simple", &[("t1", 0, 1)]).await;
    world.commit_in(7, "simple", &[("t1", 0, 2)]).await;
    tokio::time::sleep(Duration::from_secs(8_000)).await;
    let empty = |group_id: &str| (group_id.to_owned(), "Empty".to_owned());
    assert_eq!(world.list(), [empty("g"), empty("simple")]);
    assert_eq!(world.fetch("simple").await, [offset("t1", 0, 1)], "the transaction may keep it or replace it");
    assert_eq!(world.groups.describe_group(6, "g").error_code, ErrorCode::NONE);
    world.end(7, false).await.unwrap();
    tokio::time::sleep(Duration::from_secs(601)).await;
    assert_eq!(world.list(), []);
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn memory_of_what_is_pending_is_bounded() {
    let world = World::new(GroupConfig { max_memory_bytes: 200_000, ..GroupConfig::default() }).await;
    let mut refused = 0;
    for producer_id in 0..300 {
        let errors = world.commit_in(producer_id, &format!("g{}", producer_id % 3), &[("t1", 0, 1)]).await;
        refused += usize::from(errors != [ErrorCode::NONE]);
    }
    assert!(refused > 200, "{refused}");
    assert!(world.groups.memory_bytes() < 80_000, "{}", world.groups.memory_bytes());
    world.memory_is_counted();
    for producer_id in 0..300 {
        world.end(producer_id, producer_id % 2 == 0).await.unwrap();
    }
    assert_eq!(world.transaction_count(), 0);
    assert!(world.groups.memory_bytes() < 10_000, "{}", world.groups.memory_bytes());
    world.memory_is_counted();
    assert_eq!(world.commit_in(1, "g1", &[("t1", 0, 1)]).await, [ErrorCode::NONE]);

    let world = World::new(GroupConfig { max_memory_bytes: 40_000, ..GroupConfig::default() }).await;
    let mut answers = Vec::new();
    for producer_id in 0..30 {
        answers.extend(world.commit_in(producer_id, &format!("g{producer_id}"), &[("t1", 0, 1)]).await);
    }
    assert!(answers.contains(&ErrorCode::COORDINATOR_LOAD_IN_PROGRESS), "there may be room later: {answers:?}");
}
