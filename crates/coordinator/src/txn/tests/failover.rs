//! What another coordinator makes of what this one has left behind.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio::time::sleep;
use wire::ErrorCode;
use wire::batch::BatchBuilder;
use wire::state::transaction_log::{TransactionLogKey, TransactionLogValue};

use super::fake::{Fate, World};
use super::producer::{END_V1, END_V2, Producer, init, ready, settle};
use crate::txn::core::{LAST_CLIENT_EPOCH, State, TransactionVersion};

const CONC: ErrorCode = ErrorCode::CONCURRENT_TRANSACTIONS;

#[tokio::test(start_paused = true)]
async fn an_id_without_a_transaction_goes_on() {
    let world = World::new().await;
    let mut producer = ready(&world.txn, "id").await;
    let (world, _) = world.fail_over(0).await;
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    producer.end(&world.txn, END_V1, true).await.unwrap();
    settle().await;
    let (world, _) = world.fail_over(0).await;
    settle().await;
    assert_eq!(world.cluster.markers().len(), 1);
    assert_eq!(producer.end(&world.txn, END_V1, true).await, Ok(()));
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_another_coordinator_may_know_better_is_not_refused_for_good() {
    let world = World::new().await;
    let mut producer = ready(&world.txn, "id").await;
    world.log.may_have_moved(true);
    // What the other one may have been told since: that there are partitions.
    assert_eq!(producer.end(&world.txn, END_V2, true).await, Err(ErrorCode::NOT_COORDINATOR));
    let mut newer = Producer { epoch: producer.epoch + 1, ..producer.clone() };
    assert_eq!(newer.end(&world.txn, END_V1, true).await, Err(ErrorCode::NOT_COORDINATOR));
    world.log.may_have_moved(false);
    assert_eq!(producer.end(&world.txn, END_V2, true).await, Err(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(newer.end(&world.txn, END_V1, true).await, Err(ErrorCode::PRODUCER_FENCED));
}

#[tokio::test(start_paused = true)]
async fn an_open_transaction_stays_open_and_times_out_in_time() {
    let world = World::new().await;
    let mut producer = ready(&world.txn, "id").await;
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    sleep(Duration::from_secs(40)).await;
    let (world, _) = world.fail_over(0).await;
    producer.add(&world.txn, &[("t0", 1)]).await.unwrap();
    assert!(world.cluster.markers().is_empty());
    // A minute after its start, and at the next look.
    sleep(Duration::from_secs(31)).await;
    assert_eq!(world.log.last("id").unwrap().state, State::CompleteAbort);
    assert_eq!(producer.end(&world.txn, END_V1, true).await, Err(ErrorCode::PRODUCER_FENCED));
}

#[tokio::test(start_paused = true)]
async fn a_decided_transaction_gets_all_its_markers_again() {
    for (committed, version) in [(true, END_V1), (false, END_V1), (true, END_V2), (false, END_V2)] {
        let world = World::new().await;
        world.cluster.finalize(TransactionVersion::V2);
        let before = ready(&world.txn, "id").await;
        before.add(&world.txn, &[("t0", 0), ("t1", 1)]).await.unwrap();
        let mut producer = before.clone();
        world.cluster.cut(1, true);
        producer.end(&world.txn, version, committed).await.unwrap();
        settle().await;
        assert_eq!(world.cluster.markers().len(), 1);
        let (world, _old) = world.fail_over(0).await;
        assert_eq!(producer.add(&world.txn, &[("t0", 0)]).await, Err(CONC));
        world.cluster.cut(1, false);
        sleep(Duration::from_millis(300)).await;
        let epoch = producer.epoch;
        let of_second: Vec<_> = world.cluster.markers().into_iter().filter(|(_, _, marker)| marker.3 == 6).collect();
        let expected = [("t0", 0), ("t1", 1)].map(|(t, p)| (t.to_owned(), p, (100, epoch, committed, 6)));
        assert_eq!(of_second, expected);
        assert!(world.log.last("id").unwrap().state.is_complete());
        // The answer that was given holds, also for one that has not heard of it.
        let mut retry = before.clone();
        assert_eq!(retry.end(&world.txn, version, committed).await, Ok(()));
        assert_eq!(retry, producer);
        producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_was_not_durable_may_come_out_either_way() {
    for kept in [0, 1] {
        let world = World::new().await;
        let producer = ready(&world.txn, "id").await;
        producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
        world.log.set(Fate::Held);
        let ending = tokio::spawn({
            let (txn, mut producer) = (world.txn.clone(), producer.clone());
            async move { producer.end(&txn, END_V1, true).await }
        });
        settle().await;
        world.log.set(Fate::Durable);
        let (world, old) = world.fail_over(kept).await;
        old.unload(0);
        assert_eq!(ending.await.unwrap(), Err(ErrorCode::NOT_COORDINATOR));
        settle().await;
        let expected = if kept == 1 { State::CompleteCommit } else { State::Ongoing };
        assert_eq!(world.log.last("id").unwrap().state, expected);
        assert_eq!(producer.clone().end(&world.txn, END_V1, true).await, Ok(()));
        settle().await;
        assert_eq!(world.log.last("id").unwrap().state, State::CompleteCommit);
    }
}

#[tokio::test(start_paused = true)]
async fn an_overflow_survives_between_its_two_records() {
    let world = World::new().await;
    world.cluster.finalize(TransactionVersion::V2);
    put_value(
        &world,
        "id",
        2,
        TransactionLogValue {
            producer_id: 50,
            producer_epoch: LAST_CLIENT_EPOCH,
            transaction_timeout_ms: 60_000,
            transaction_start_timestamp_ms: -1,
            ..Default::default()
        },
    );
    let (world, _) = world.fail_over(0).await;
    let before = Producer { transactional_id: "id".into(), producer_id: 50, epoch: LAST_CLIENT_EPOCH };
    before.add(&world.txn, &[("t0", 0)]).await.unwrap();
    world.cluster.cut(0, true);
    let mut producer = before.clone();
    producer.end(&world.txn, END_V2, true).await.unwrap();
    assert_eq!((producer.producer_id, producer.epoch), (100, 0));
    let (world, _old) = world.fail_over(0).await;
    assert_eq!(before.clone().end(&world.txn, END_V2, true).await, Err(CONC));
    world.cluster.cut(0, false);
    sleep(Duration::from_millis(300)).await;
    assert!(world.cluster.markers().iter().all(|(_, _, marker)| (marker.0, marker.1) == (50, i16::MAX)));
    let (world, _) = world.fail_over(0).await;
    let mut retry = before.clone();
    assert_eq!((retry.end(&world.txn, END_V2, true).await, &retry), (Ok(()), &producer));
    // With InitProducerId it finds its new self, too.
    let found = init(&world.txn, "id", Some((50, LAST_CLIENT_EPOCH))).await;
    assert_eq!(found, Ok(producer.clone()));
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn while_loading_and_after_unloading_nobody_is_served() {
    let world = World::new().await;
    let mut producer = ready(&world.txn, "id").await;
    let loading = world.txn.load(0, 6);
    assert_eq!(init(&world.txn, "id", None).await, Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
    assert_eq!(producer.end(&world.txn, END_V2, true).await, Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
    assert_eq!(producer.ask(&world.txn, true, ("t0", 0)).await, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    let listed = world.txn.list(&Default::default());
    assert_eq!(listed.error_code, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    world.txn.unload(0);
    assert_eq!(loading.await, Err(ErrorCode::NOT_COORDINATOR));
    assert_eq!(init(&world.txn, "id", None).await, Err(ErrorCode::NOT_COORDINATOR));
    assert_eq!(world.txn.memory_bytes(), 0);
    world.txn.load(0, 7).await.unwrap();
    assert_eq!(init(&world.txn, "id", None).await.map(|producer| producer.epoch), Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_only_the_leader_has_is_not_acted_upon() {
    let world = World::new().await;
    let mut producer = ready(&world.txn, "id").await;
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    world.cluster.cut(0, true);
    producer.end(&world.txn, END_V1, true).await.unwrap();
    world.txn.unload(0);
    world.cluster.cut(0, false);
    for is_replicated in [false, true] {
        let replication = world.log.hold_replication();
        let loading = tokio::spawn(world.txn.load(0, 6));
        sleep(Duration::from_secs(60)).await;
        assert_eq!(init(&world.txn, "id", None).await, Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
        assert!(world.cluster.markers().is_empty());
        let result = if is_replicated { Ok(()) } else { Err(ErrorCode::NOT_LEADER_OR_FOLLOWER) };
        replication.send(result).unwrap();
        assert_eq!(loading.await.unwrap(), result);
        settle().await;
        assert_eq!(world.cluster.markers().len(), usize::from(is_replicated));
    }
}

#[tokio::test(start_paused = true)]
async fn late_news_of_a_former_leadership_changes_nothing_in_the_next() {
    let world = World::new().await;
    let mut producer = ready(&world.txn, "id").await;
    producer.add(&world.txn, &[("t0", 0), ("t0", 1)]).await.unwrap();
    world.cluster.hold();
    producer.end(&world.txn, END_V1, true).await.unwrap();
    settle().await;
    // The same broker leads again. Its first markers are answered now, those of the second leadership are not.
    world.txn.unload(0);
    world.cluster.cut(0, true);
    world.cluster.cut(1, true);
    world.txn.load(0, 6).await.unwrap();
    world.cluster.answer();
    settle().await;
    assert_eq!(world.log.last("id").unwrap().state, State::PrepareCommit);
    world.cluster.cut(0, false);
    world.cluster.cut(1, false);
    sleep(Duration::from_millis(300)).await;
    assert_eq!(world.log.last("id").unwrap().state, State::CompleteCommit);
    // An append of the former leadership that has failed is not tried again in the next.
    world.log.set(Fate::Refused(ErrorCode::REQUEST_TIMED_OUT));
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap_err();
    world.txn.unload(0);
    world.log.heal();
    world.txn.load(0, 7).await.unwrap();
    let records = world.log.records().len();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.log.records().len(), records);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_outlives_the_leadership_is_not_answered_as_done() {
    for is_durable in [true, false] {
        let world = World::new().await;
        let mut producer = ready(&world.txn, "id").await;
        producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
        world.log.set(Fate::Held);
        let txn = world.txn.clone();
        let ending = tokio::spawn(async move { producer.end(&txn, END_V1, true).await });
        settle().await;
        world.txn.unload(0);
        if is_durable {
            world.log.heal();
        } else {
            world.log.move_leadership(0);
        }
        assert_eq!(ending.await.unwrap(), Err(ErrorCode::NOT_COORDINATOR));
        assert!(world.cluster.markers().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn markers_of_an_unloaded_partition_are_dropped() {
    let world = World::new().await;
    world.cluster.cut(0, true);
    let mut producer = ready(&world.txn, "id").await;
    producer.add(&world.txn, &[("t0", 0), ("t1", 1)]).await.unwrap();
    world.cluster.without_leader("t1", 1, true);
    producer.end(&world.txn, END_V1, true).await.unwrap();
    settle().await;
    assert!(!world.txn.markers.is_empty());
    world.txn.unload(0);
    assert!(world.txn.markers.is_empty());
    world.cluster.cut(0, false);
    world.cluster.without_leader("t1", 1, false);
    sleep(Duration::from_secs(10)).await;
    assert!(world.cluster.markers().is_empty());
}

fn put_value(world: &World, transactional_id: &str, level: i16, value: TransactionLogValue) {
    put(world, transactional_id, Some(&value.to_bytes(level)));
}

fn put(world: &World, transactional_id: &str, value: Option<&[u8]>) {
    let key = TransactionLogKey { transactional_id: transactional_id.to_owned() }.to_bytes();
    let mut batch = BatchBuilder::new();
    batch.push(1_700_000_000_000, Some(&key), value, &[]);
    world.log.put(batch.build());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_left_out() {
    let world = World::new().await;
    let value = |transaction_status: i8| TransactionLogValue {
        producer_id: 50,
        transaction_timeout_ms: 60_000,
        transaction_status,
        transaction_partitions: Some(Vec::new()),
        transaction_start_timestamp_ms: -1,
        ..Default::default()
    };
    put_value(&world, "good", 0, value(0));
    put_value(&world, "gone", 1, value(0));
    put(&world, "gone", None);
    put_value(&world, "dead", 1, value(6));
    let mut newer = BytesMut::from(&value(0).to_bytes(1)[..]);
    newer[1] = 2;
    put(&world, "newer", Some(&newer));
    put(&world, "torn", Some(&value(0).to_bytes(1)[..9]));
    // Somebody had this topic in a transaction.
    let mut marker = BatchBuilder::new().producer(7, 0, -1).transactional().control();
    let (mut key, mut control) = (BytesMut::new(), BytesMut::new());
    key.put_slice(&[0, 0, 0, 1]);
    control.put_slice(&[0, 0, 0, 0, 0, 0]);
    marker.push(1_700_000_000_000, Some(&key), Some(&control), &[]);
    world.log.put(marker.build());
    put_value(&world, "last", 1, value(4));
    let (world, _) = world.fail_over(0).await;
    let listed = world.txn.list(&Default::default());
    let ids: Vec<_> = listed.transaction_states.iter().map(|listed| listed.transactional_id.as_str()).collect();
    assert_eq!(ids, ["good", "last"]);
}
