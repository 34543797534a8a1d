//! What happens by the clock.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;
use wire::ErrorCode;

use super::fake::{Fate, World};
use super::producer::{END_V1, Producer, init, ready, settle};
use crate::txn::TransactionConfig;
use crate::txn::core::{LAST_CLIENT_EPOCH, State, TransactionVersion};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);

fn state(world: &World, transactional_id: &str) -> State {
    world.log.last(transactional_id).unwrap().state
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_open_for_too_long_is_aborted() {
    for version in 0..=2 {
        let world = World::new().await;
        world.cluster.finalize(TransactionVersion(version));
        let mut producer = ready(&world.txn, "id").await;
        producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
        sleep(Duration::from_secs(59)).await;
        producer.add(&world.txn, &[("t1", 0)]).await.unwrap();
        assert_eq!(state(&world, "id"), State::Ongoing);
        // The wall clock has no say in it.
        world.clock.wall_offset_ms.fetch_sub(3_600_000, Ordering::Relaxed);
        sleep(Duration::from_secs(12)).await;
        assert_eq!(state(&world, "id"), State::CompleteAbort);
        assert_eq!(world.cluster.markers().len(), 2);
        let aborted = world.log.last("id").unwrap();
        assert_eq!((aborted.producer_epoch, aborted.client_version.0), (1, version));
        assert_eq!(producer.add(&world.txn, &[("t0", 0)]).await, Err(ErrorCode::PRODUCER_FENCED));
        assert_eq!(producer.end(&world.txn, END_V1, true).await, Err(ErrorCode::PRODUCER_FENCED));
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_whose_record_is_refused_is_tried_at_the_next_look() {
    let world = World::new().await;
    let producer = ready(&world.txn, "id").await;
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    world.log.set(Fate::Refused(ErrorCode::NOT_ENOUGH_REPLICAS));
    sleep(Duration::from_secs(200)).await;
    assert_eq!(state(&world, "id"), State::Ongoing);
    world.log.heal();
    sleep(Duration::from_secs(10)).await;
    let aborted = world.log.last("id").unwrap();
    // As often as it was tried, it is one bump (KAFKA-9666).
    assert_eq!((aborted.state, aborted.producer_epoch), (State::CompleteAbort, 1));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_gives_up_exhausted_epochs_when_there_are_producer_ids() {
    let world = World::new().await;
    world.cluster.finalize(TransactionVersion::V2);
    let mut producer = ready(&world.txn, "id").await;
    let shard = world.txn.shard("id").unwrap();
    // Thirty thousand transactions later.
    let mut late = shard.state.lock().get("id").unwrap().current().clone();
    late.producer_epoch = LAST_CLIENT_EPOCH;
    let transaction = crate::txn::core::Transaction::restore(world.txn.now(), 0, late);
    shard.state.lock().insert("id".into(), transaction, None);
    producer.epoch = LAST_CLIENT_EPOCH;
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    world.cluster.refuse_producer_ids(true);
    sleep(Duration::from_secs(100)).await;
    assert_eq!(state(&world, "id"), State::Ongoing);
    world.cluster.refuse_producer_ids(false);
    sleep(Duration::from_secs(11)).await;
    let aborted = world.log.last("id").unwrap();
    assert_eq!((aborted.state, aborted.producer_id, aborted.producer_epoch), (State::CompleteAbort, 101, 0));
    assert_eq!(world.cluster.markers(), [("t0".to_owned(), 0, (100, i16::MAX, false, 5))]);
}

#[tokio::test(start_paused = true)]
async fn ids_that_nobody_uses_are_forgotten() {
    let world = World::new().await;
    let idle = ready(&world.txn, "idle").await;
    let mut used = ready(&world.txn, "used").await;
    for _ in 0..6 {
        sleep(DAY).await;
        used.add(&world.txn, &[("t0", 0)]).await.unwrap();
        used.end(&world.txn, END_V1, true).await.unwrap();
    }
    assert_eq!(idle.ask(&world.txn, true, ("t0", 0)).await, ErrorCode::TRANSACTION_ABORTABLE);
    // A tombstone that is not written leaves the id where it is.
    world.log.set(Fate::Refused(ErrorCode::NOT_ENOUGH_REPLICAS));
    sleep(DAY + 2 * HOUR).await;
    assert_eq!(idle.ask(&world.txn, true, ("t0", 0)).await, ErrorCode::TRANSACTION_ABORTABLE);
    world.log.set(Fate::Held);
    sleep(HOUR).await;
    // While it is being written, it is not there for those who look, and in the way of those who want it.
    let listed = world.txn.list(&Default::default());
    assert_eq!(listed.transaction_states.len(), 1);
    assert!(init(&world.txn, "idle", None).await.is_err());
    world.log.heal();
    settle().await;
    assert_eq!(world.log.last("idle"), None);
    assert_eq!(idle.add(&world.txn, &[("t0", 0)]).await, Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    used.add(&world.txn, &[("t0", 0)]).await.unwrap();
    // Whoever comes back is somebody new.
    assert_eq!(init(&world.txn, "idle", None).await.map(|p| (p.producer_id, p.epoch)), Ok((102, 0)));
}

#[tokio::test(start_paused = true)]
async fn many_ids_are_forgotten_in_few_batches() {
    let config = TransactionConfig { abort_timed_out_interval_ms: 3_600_000, ..TransactionConfig::default() };
    let world = World::with(config).await;
    world.log.limit_batches(1 << 20);
    for n in 0..500 {
        ready(&world.txn, &format!("{n:0>100}")).await;
    }
    let appends = world.log.appends();
    sleep(7 * DAY + HOUR).await;
    assert_eq!((world.txn.memory_bytes(), world.log.appends() - appends), (0, 4));
    assert_eq!(world.log.records().iter().filter(|stored| stored.value.is_none()).count(), 500);
}

/// The clock may be wrong at a start. Ids whose last record is the newest of the log are not old.
#[tokio::test(start_paused = true)]
async fn a_jump_of_the_wall_clock_forgets_no_id() {
    let world = World::new().await;
    let idle = ready(&world.txn, "idle").await;
    sleep(4 * DAY).await;
    ready(&world.txn, "other").await;
    world.clock.wall_offset_ms.fetch_add(400 * 24 * 3_600_000, Ordering::Relaxed);
    sleep(HOUR).await;
    ready(&world.txn, "third").await;
    let (world, _) = world.fail_over(0).await;
    sleep(2 * HOUR).await;
    let known = |producer: &Producer| {
        let (txn, producer) = (world.txn.clone(), producer.clone());
        async move { producer.ask(&txn, true, ("t0", 0)).await == ErrorCode::TRANSACTION_ABORTABLE }
    };
    assert!(known(&idle).await);
    sleep(8 * DAY).await;
    assert!(!known(&idle).await);
}

#[tokio::test(start_paused = true)]
async fn transactions_are_shown_with_their_age_and_counted_when_they_are_decided() {
    let world = World::new().await;
    let mut producer = ready(&world.txn, "id").await;
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    let views = || {
        let mut views = Vec::new();
        world.txn.visit(|view| views.push((view.state, view.open_ms)));
        views
    };
    assert_eq!(views(), [("Ongoing", Some(5_000))]);
    let decisions = || {
        let decisions = world.txn.decisions();
        (decisions.committed.get(), decisions.aborted.get())
    };
    assert_eq!(decisions(), (0, 0));
    producer.end(&world.txn, END_V1, true).await.unwrap();
    settle().await;
    assert_eq!((views(), decisions()), (vec![("CompleteCommit", None)], (1, 0)));
    // What is not durable is not decided.
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    world.log.set(Fate::Refused(ErrorCode::NOT_ENOUGH_REPLICAS));
    producer.end(&world.txn, END_V1, false).await.unwrap_err();
    assert_eq!(decisions(), (1, 0));
    world.log.heal();
    sleep(Duration::from_secs(80)).await;
    assert_eq!(decisions(), (1, 1));
}
