//! Markers: who gets which, what is tried again, and when a transaction is complete.

use std::time::Duration;

use tokio::time::sleep;
use wire::ErrorCode;

use super::fake::{PARTITION_COUNT, World};
use super::producer::{END_V1, END_V2, init, ready, settle};
use crate::group::OFFSETS_TOPIC;
use crate::txn::core::{State, TransactionVersion};

fn state(world: &World, transactional_id: &str) -> State {
    world.log.last(transactional_id).unwrap().state
}

#[tokio::test(start_paused = true)]
async fn a_broker_gets_one_request_at_a_time_with_all_that_waits() {
    let world = World::new().await;
    world.cluster.hold();
    for n in 0..6 {
        let mut producer = ready(&world.txn, &format!("id{n}")).await;
        producer.add(&world.txn, &[("t0", 0), ("t1", 0), ("t2", 1)]).await.unwrap();
        producer.end(&world.txn, if n == 0 { END_V1 } else { END_V2 }, n % 2 == 0).await.unwrap();
    }
    settle().await;
    assert_eq!(world.cluster.requests().len(), 2);
    world.cluster.answer();
    settle().await;
    let requests = world.cluster.requests();
    let counts: Vec<_> = requests.iter().map(|(node, request)| (*node, request.markers.len())).collect();
    assert_eq!(counts, [(0, 1), (1, 1), (0, 5), (1, 5)]);
    let first = &requests[0].1.markers[0];
    assert_eq!((first.transaction_result, first.coordinator_epoch, first.transaction_version), (true, 5, 0));
    assert_eq!(first.topics.iter().map(|topic| topic.name.as_str()).collect::<Vec<_>>(), ["t0", "t1"]);
    let last = &requests[2].1.markers[4];
    assert_eq!((last.transaction_result, last.producer_epoch, last.transaction_version), (false, 1, 2));
    assert!((0..6).all(|n| state(&world, &format!("id{n}")).is_complete()));
}

#[tokio::test(start_paused = true)]
async fn a_request_is_bounded() {
    let world = World::new().await;
    world.log.limit_batches(1 << 20);
    let many: Vec<_> = (0..6_000).map(|n| (OFFSETS_TOPIC, n * PARTITION_COUNT)).collect();
    world.cluster.hold();
    for n in 0..4 {
        let mut producer = ready(&world.txn, &format!("id{n}")).await;
        producer.add(&world.txn, &many).await.unwrap();
        producer.end(&world.txn, END_V1, true).await.unwrap();
    }
    world.cluster.answer();
    settle().await;
    let counts: Vec<_> = world.cluster.requests().iter().map(|(_, request)| request.markers.len()).collect();
    assert_eq!(counts, [1, 2, 1]);
    assert!((0..4).all(|n| state(&world, &format!("id{n}")) == State::CompleteCommit));
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_complete_after_its_last_marker() {
    use ErrorCode as E;
    let retried = [
        E::UNKNOWN_TOPIC_OR_PARTITION,
        E::NOT_LEADER_OR_FOLLOWER,
        E::NOT_ENOUGH_REPLICAS,
        E::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E::REQUEST_TIMED_OUT,
        E::KAFKA_STORAGE_ERROR,
        E::UNKNOWN_SERVER_ERROR,
    ];
    for error in retried {
        let world = World::new().await;
        let mut producer = ready(&world.txn, "id").await;
        producer.add(&world.txn, &[("t0", 0), ("t1", 1)]).await.unwrap();
        world.cluster.refuse("t1", 1, Some(error));
        producer.end(&world.txn, END_V1, true).await.unwrap();
        sleep(Duration::from_secs(30)).await;
        assert_eq!(state(&world, "id"), State::PrepareCommit, "{error}");
        assert_eq!(init(&world.txn, "id", None).await, Err(E::CONCURRENT_TRANSACTIONS));
        world.cluster.refuse("t1", 1, None);
        sleep(Duration::from_millis(200)).await;
        assert_eq!(state(&world, "id"), State::CompleteCommit);
        // The one that was written was not sent again.
        assert_eq!(world.cluster.markers().len(), 2);
        assert!(world.txn.markers.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_answer_is_tried_again_and_keeps_nobody_else_waiting() {
    let world = World::new().await;
    world.cluster.cut(1, true);
    let mut producer = ready(&world.txn, "id").await;
    producer.add(&world.txn, &[("t0", 0), ("t0", 1)]).await.unwrap();
    producer.end(&world.txn, END_V1, false).await.unwrap();
    let mut other = ready(&world.txn, "other").await;
    other.add(&world.txn, &[("t0", 0)]).await.unwrap();
    other.end(&world.txn, END_V1, true).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!((state(&world, "id"), state(&world, "other")), (State::PrepareAbort, State::CompleteCommit));
    let attempts = world.cluster.requests().iter().filter(|(node, _)| *node == 1).count();
    assert!((20..=110).contains(&attempts), "{attempts}");
    world.cluster.cut(1, false);
    sleep(Duration::from_millis(300)).await;
    assert_eq!(state(&world, "id"), State::CompleteAbort);
}

#[tokio::test(start_paused = true)]
async fn markers_wait_for_a_leader_and_not_for_a_deleted_partition() {
    let world = World::new().await;
    let mut producer = ready(&world.txn, "id").await;
    producer.add(&world.txn, &[("t0", 0), ("t1", 1), ("t2", 2)]).await.unwrap();
    world.cluster.without_leader("t1", 1, true);
    world.cluster.delete("t2");
    producer.end(&world.txn, END_V1, true).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(state(&world, "id"), State::PrepareCommit);
    world.cluster.without_leader("t1", 1, false);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(state(&world, "id"), State::CompleteCommit);
    // Of a topic that is deleted while its leader is waited for, too.
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    world.cluster.without_leader("t0", 0, true);
    producer.end(&world.txn, END_V1, false).await.unwrap();
    settle().await;
    assert_eq!(state(&world, "id"), State::PrepareAbort);
    world.cluster.delete("t0");
    sleep(Duration::from_millis(200)).await;
    assert_eq!(state(&world, "id"), State::CompleteAbort);
}

#[tokio::test(start_paused = true)]
async fn partitions_that_know_no_transactions_are_left_out() {
    for error in [ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode::UNSUPPORTED_VERSION] {
        let world = World::new().await;
        world.cluster.refuse("t0", 0, Some(error));
        let mut producer = ready(&world.txn, "id").await;
        producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
        producer.end(&world.txn, END_V1, true).await.unwrap();
        settle().await;
        assert_eq!(state(&world, "id"), State::CompleteCommit);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_marker_stops_its_transaction_and_nothing_else() {
    let reasons = [
        (ErrorCode::TRANSACTION_COORDINATOR_FENCED, ErrorCode::NOT_COORDINATOR),
        (ErrorCode::INVALID_PRODUCER_EPOCH, ErrorCode::PRODUCER_FENCED),
    ];
    for (refusal, told) in reasons {
        let world = World::new().await;
        world.cluster.refuse("t0", 0, Some(refusal));
        world.cluster.refuse("t0", 1, Some(ErrorCode::NOT_LEADER_OR_FOLLOWER));
        let mut producer = ready(&world.txn, "id").await;
        producer.add(&world.txn, &[("t0", 0), ("t0", 1)]).await.unwrap();
        producer.end(&world.txn, END_V1, true).await.unwrap();
        sleep(Duration::from_secs(5)).await;
        assert_eq!(world.cluster.requests().iter().filter(|(node, _)| *node == 0).count(), 1);
        assert_eq!((state(&world, "id"), init(&world.txn, "id", None).await), (State::PrepareCommit, Err(told)));
        // The other partition is not kept in suspense.
        world.cluster.refuse("t0", 1, None);
        sleep(Duration::from_millis(200)).await;
        assert_eq!(world.cluster.markers().len(), 1);
        // It is tried again now and then: what stood in the way may be gone.
        world.cluster.refuse("t0", 0, None);
        sleep(Duration::from_secs(11)).await;
        assert_eq!(state(&world, "id"), State::CompleteCommit);
        assert!(init(&world.txn, "id", None).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_transaction_is_written_until_it_is_durable() {
    use super::fake::Fate;
    let world = World::new().await;
    world.cluster.finalize(TransactionVersion::V2);
    let mut producer = ready(&world.txn, "id").await;
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    world.cluster.hold();
    producer.end(&world.txn, END_V2, true).await.unwrap();
    world.log.set(Fate::Refused(ErrorCode::NOT_ENOUGH_REPLICAS));
    world.cluster.answer();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(state(&world, "id"), State::PrepareCommit);
    world.log.heal();
    sleep(Duration::from_secs(4)).await;
    assert_eq!(state(&world, "id"), State::CompleteCommit);
    assert_eq!(world.cluster.markers().len(), 1);
}
