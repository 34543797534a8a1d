//! Reading a partition back: ages, damage, transactions, and what is not understood.

use configuration::BrokerConfig;
use wire::batch::{BatchBuilder, Batches};
use wire::compress::Codec;
use wire::state::group::{GroupRecordKey, OffsetCommitKey, OffsetCommitValue};
use wire::{ErrorCode, Uuid};

use super::api::{offset, settle};
use super::fake::World;
use crate::group::GroupConfig;
use crate::group::core::{CommittedOffset, Offsets};
use crate::group::records::Batcher;

/// A commit record as it was written at `wall_ms`.
fn put_commit(world: &World, group_id: &str, wall_ms: i64) {
    let mut batcher = Batcher::new(wall_ms, 1_000, Codec::None);
    let mut offsets = Offsets::default();
    let committed =
        CommittedOffset { offset: 1, commit_timestamp_ms: wall_ms, expire_timestamp_ms: -1, ..Default::default() };
    batcher.push_offset(group_id, &offsets.begin("t1", 0, Some(committed)));
    for batch in batcher.build() {
        world.log.put(0, batch);
    }
}

#[tokio::test(start_paused = true)]
async fn age_before_a_restart_is_the_logs_own_time() {
    const DAY_MS: i64 = 24 * 3_600_000;
    let world = World::new(GroupConfig::default()).await;
    let start = 1_700_000_000_000;
    put_commit(&world, "old", start);
    // Half a day at a time, for eight days: "old" has outlived its retention of seven.
    for half in 1..=16 {
        put_commit(&world, "busy", start + half * DAY_MS / 2);
    }
    let world = world.restart(0).await;
    world.groups.expire_offsets();
    settle().await;
    assert_eq!(world.list(), [("busy".to_owned(), "Empty".to_owned())]);

    let world = World::new(GroupConfig::default()).await;
    put_commit(&world, "old", start);
    // The clock was wrong for a while, or the broker was down for a year.
    put_commit(&world, "busy", start + 365 * DAY_MS);
    put_commit(&world, "busy", start + 1_000);
    put_commit(&world, "busy", start + 365 * DAY_MS);
    let world = world.restart(0).await;
    world.groups.expire_offsets();
    settle().await;
    assert_eq!(world.list().len(), 2, "steps of a year count as less than a day");
}

#[tokio::test(start_paused = true)]
async fn an_offset_of_a_transaction_is_as_old_as_its_record() {
    const DAY_MS: i64 = 24 * 3_600_000;
    let world = World::new(GroupConfig::default()).await;
    let start = 1_700_000_000_000;
    let mut batcher = Batcher::new(start, 1_000, Codec::None).transactional(1, 3);
    let value = CommittedOffset { offset: 1, expire_timestamp_ms: -1, ..Default::default() };
    batcher.push_offset("old", &Offsets::default().begin_pending(1, "t1", 0, value));
    for batch in batcher.build() {
        world.log.put(0, batch);
    }
    for half in 1..=16 {
        put_commit(&world, "busy", start + half * DAY_MS / 2);
    }
    let world = world.restart(0).await;
    world.groups.expire_offsets();
    settle().await;
    assert_eq!(world.list().len(), 2, "the transaction is open");
    world.end(1, true).await.unwrap();
    assert_eq!(world.fetch("old").await, [offset("t1", 0, 1)]);
    world.groups.expire_offsets();
    settle().await;
    assert_eq!(world.list(), [("busy".to_owned(), "Empty".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn what_is_written_is_compressed_as_configured() {
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let config = BrokerConfig::new([("offsets.topic.compression.codec".to_owned(), codec.id().to_string())].into());
        let config = GroupConfig {
            offsets_topic_codec: GroupConfig::from(&config.unwrap()).offsets_topic_codec,
            ..GroupConfig::default()
        };
        let world = World::new(config).await;
        world.commit("g", &[("t1", 0, 7)]).await;
        let batches: Vec<_> = Batches::new(world.log.bytes(0)).map(Result::unwrap).collect();
        assert!(!batches.is_empty());
        assert!(batches.iter().all(|batch| batch.header.attributes.codec() == Some(codec)), "{codec:?}");
        let world = world.restart(0).await;
        assert_eq!(world.fetch("g").await, [offset("t1", 0, 7)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_batch_costs_only_itself() {
    let world = World::new(GroupConfig::default()).await;
    for (number, group_id) in ["a", "b", "c"].iter().enumerate() {
        world.commit(group_id, &[("t1", 0, number as i64)]).await;
    }
    world.log.damage(0, 1);
    let world = world.restart(0).await;
    let groups: Vec<_> = world.list().into_iter().map(|(group_id, _)| group_id).collect();
    assert_eq!(groups, ["a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn offsets_of_transactions_count_when_committed() {
    let world = World::new(GroupConfig::default()).await;
    let commit = |producer_id: i64, topic: &str, offset: i64| {
        let key = OffsetCommitKey { group: "g".into(), topic: topic.into(), partition: 0 };
        let value = OffsetCommitValue { offset, ..Default::default() };
        let mut builder = BatchBuilder::new();
        if producer_id >= 0 {
            builder = builder.producer(producer_id, 0, 0).transactional();
        }
        let key = GroupRecordKey::OffsetCommit(key).write();
        builder.push(1, Some(&key), Some(&value.to_bytes()), &[]);
        builder.build()
    };
    let marker = |producer_id: i64, commit: bool| {
        let mut builder = BatchBuilder::new().producer(producer_id, 0, -1).transactional().control();
        builder.push(1, Some(&[0, 0, 0, u8::from(commit)]), Some(&[0, 0, 0, 0, 0, 0]), &[]);
        builder.build()
    };
    for batch in [
        commit(1, "t0", 10),
        commit(2, "t1", 20),
        commit(3, "t2", 30),
        commit(1, "t3", 40),
        commit(-1, "t3", 41),
        marker(1, true),
        marker(2, false),
    ] {
        world.log.put(0, batch);
    }
    let world = world.restart(0).await;
    assert_eq!(world.fetch("g").await, [offset("t0", 0, 10), offset("t3", 0, 41)]);
    assert_eq!(world.stable("g", "t2", 0).await, Err(ErrorCode::UNSTABLE_OFFSET_COMMIT), "its marker may still come");
    assert_eq!(world.stable("g", "t1", 0).await, Ok(-1));
}

#[tokio::test(start_paused = true)]
async fn open_transactions_survive_a_failover_and_are_ended_by_their_markers() {
    let world = World::new(GroupConfig::default()).await;
    world.commit("g", &[("t1", 0, 1), ("t2", 0, 1)]).await;
    world.commit_in(1, "g", &[("t1", 0, 2), ("t2", 0, 2)]).await;
    world.commit("g", &[("t2", 0, 3)]).await;
    world.commit_in(2, "only", &[("t3", 0, 4)]).await;
    world.commit_in(3, "aborted", &[("t3", 1, 5)]).await;
    let sizes = |world: &World| ["g", "only", "aborted"].map(|group_id| world.groups.offsets_size_bytes(group_id));
    let before = sizes(&world);
    let world = world.restart(0).await;
    assert_eq!(sizes(&world), before);
    world.memory_is_counted();
    assert_eq!(world.list().len(), 3, "a group may have nothing but what is pending");
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 1), offset("t2", 0, 3)]);
    for (producer_id, is_committed) in [(1, true), (2, true), (3, false)] {
        assert_eq!(world.end(producer_id, is_committed).await, Ok(()));
    }
    let check = async |world: &World| {
        assert_eq!(world.fetch("g").await, [offset("t1", 0, 2), offset("t2", 0, 3)], "t2 was committed later");
        assert_eq!(world.fetch("only").await, [offset("t3", 0, 4)]);
        assert_eq!(world.list().len(), 2);
        world.memory_is_counted();
    };
    check(&world).await;
    check(&world.restart(0).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_marker_that_is_damaged_does_not_leave_its_offsets_to_the_next() {
    let world = World::new(GroupConfig::default()).await;
    world.commit_in(1, "g", &[("t1", 0, 1)]).await;
    world.end(1, false).await.unwrap();
    world.commit_in(1, "g", &[("t2", 0, 2)]).await;
    world.end(1, true).await.unwrap();
    world.log.damage(0, 1);
    let world = world.restart(0).await;
    assert_eq!(world.fetch("g").await, [offset("t2", 0, 2)]);
}

#[tokio::test(start_paused = true)]
async fn records_that_are_not_understood_are_skipped() {
    let world = World::new(GroupConfig::default()).await;
    let mut builder = BatchBuilder::new();
    builder.push(1, Some(&[0, 3, 0, 1, b'g']), Some(&[0, 0]), &[]);
    builder.push(1, Some(&[0, 1]), Some(&[0, 0]), &[]);
    builder.push(1, None, None, &[]);
    world.log.put(0, builder.build());
    put_commit(&world, "g", 5);
    let world = world.restart(0).await;
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn an_offset_of_a_former_topic_is_not_shown() {
    let world = World::new(GroupConfig::default()).await;
    let mut batcher = Batcher::new(5, 1_000, Codec::None);
    let mut offsets = Offsets::default();
    let former = CommittedOffset { offset: 9, topic_id: Uuid([77; 16]), expire_timestamp_ms: -1, ..Default::default() };
    let unmarked = CommittedOffset { topic_id: Uuid::ZERO, ..former.clone() };
    batcher.push_offset("g", &offsets.begin("t1", 0, Some(former)));
    batcher.push_offset("g", &offsets.begin("t1", 1, Some(unmarked)));
    for batch in batcher.build() {
        world.log.put(0, batch);
    }
    let world = world.restart(0).await;
    assert_eq!(world.fetch("g").await, [offset("t1", 1, 9)]);
}
