//! What requests are answered, by version.

use std::time::Duration;

use tokio::time::sleep;
use wire::ErrorCode;
use wire::api::add_partitions_to_txn::AddPartitionsToTxnRequest;
use wire::api::describe_transactions::DescribeTransactionsRequest;
use wire::api::init_producer_id::InitProducerIdRequest;
use wire::api::list_transactions::ListTransactionsRequest;

use super::fake::{CLIENT, Fate, World};
use super::producer::{END_V1, END_V2, Producer, init, init_request, ready, settle};
use crate::txn::core::{State, TransactionVersion};

const CONC: ErrorCode = ErrorCode::CONCURRENT_TRANSACTIONS;
const FENCED: ErrorCode = ErrorCode::PRODUCER_FENCED;
const OLD_FENCED: ErrorCode = ErrorCode::INVALID_PRODUCER_EPOCH;
const MAPPING: ErrorCode = ErrorCode::INVALID_PRODUCER_ID_MAPPING;

#[tokio::test(start_paused = true)]
async fn a_transaction_goes_through_its_states() {
    for (end_version, finalized) in [(END_V1, 0), (END_V1, 1), (END_V2, 2)] {
        let world = World::new().await;
        world.cluster.finalize(TransactionVersion(finalized));
        let mut producer = ready(&world.txn, "id").await;
        assert_eq!((producer.producer_id, producer.epoch), (100, 0));
        producer.add(&world.txn, &[("t0", 0), ("t1", 2)]).await.unwrap();
        producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
        assert_eq!(producer.add_offsets(&world.txn, 4, "four").await, ErrorCode::NONE);
        producer.end(&world.txn, end_version, true).await.unwrap();
        settle().await;
        let records = world.log.records();
        let states: Vec<_> = records.iter().map(|stored| stored.value.as_ref().unwrap().state).collect();
        use State::{CompleteCommit, Empty, Ongoing, PrepareCommit};
        assert_eq!(states, [Empty, Ongoing, Ongoing, PrepareCommit, CompleteCommit]);
        let prepared = records[3].value.as_ref().unwrap();
        let partitions: Vec<_> = prepared.partitions.iter().collect();
        assert_eq!(partitions, [("__consumer_offsets", 4), ("t0", 0), ("t1", 2)]);
        assert!(records[4].value.as_ref().unwrap().partitions.is_empty());
        let bumped = i16::from(end_version >= END_V2);
        let mut markers = world.cluster.markers();
        markers.sort();
        let marker = (100, bumped, true, 5);
        let expected =
            [("__consumer_offsets", 4), ("t0", 0), ("t1", 2)].map(|(topic, p)| (topic.to_owned(), p, marker));
        assert_eq!(markers, expected);
        assert_eq!(producer.epoch, bumped);
        // The same again is answered the same; the next one goes through.
        let again = producer.clone().end(&world.txn, END_V1, true).await;
        assert_eq!(again, Ok(()));
        producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
        producer.end(&world.txn, end_version, false).await.unwrap();
        settle().await;
        assert_eq!(world.log.last("id").unwrap().state, State::CompleteAbort);
    }
}

#[tokio::test(start_paused = true)]
async fn init_producer_id_checks_its_request() {
    let world = World::new().await;
    let ask = async |request: InitProducerIdRequest| {
        let answer = world.txn.init_producer_id(5, CLIENT, request).await;
        (answer.error_code, answer.producer_id, answer.producer_epoch)
    };
    let without = InitProducerIdRequest { transactional_id: None, ..init_request("", None) };
    assert_eq!(ask(without.clone()).await, (ErrorCode::NONE, 100, 0));
    // Without a transaction its timeout does not matter.
    let request = InitProducerIdRequest { transaction_timeout_ms: -1, ..without.clone() };
    assert_eq!(ask(request).await, (ErrorCode::NONE, 101, 0));
    assert_eq!(ask(init_request("", None)).await.0, ErrorCode::INVALID_REQUEST);
    assert_eq!(ask(init_request(&"x".repeat(4_097), None)).await.0, ErrorCode::INVALID_REQUEST);
    for half in [(-1, 3), (3, -1)] {
        assert_eq!(ask(init_request("id", Some(half))).await, (ErrorCode::INVALID_REQUEST, -1, -1));
        let without = InitProducerIdRequest { producer_id: half.0, producer_epoch: half.1, ..without.clone() };
        assert_eq!(ask(without).await.0, ErrorCode::INVALID_REQUEST);
    }
    for (transaction_timeout_ms, error) in [
        (0, ErrorCode::INVALID_TRANSACTION_TIMEOUT),
        (-1, ErrorCode::INVALID_TRANSACTION_TIMEOUT),
        (900_001, ErrorCode::INVALID_TRANSACTION_TIMEOUT),
        (900_000, ErrorCode::NONE),
    ] {
        let request = InitProducerIdRequest { transaction_timeout_ms, ..init_request("id", None) };
        assert_eq!(ask(request).await.0, error, "{transaction_timeout_ms}");
    }
    assert_eq!(world.log.last("id").unwrap().timeout_ms, 900_000);
    // An id of which nothing was written is not there.
    world.cluster.refuse_producer_ids(true);
    assert_eq!(ask(init_request("other", None)).await.0, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    world.cluster.refuse_producer_ids(false);
    world.log.set(Fate::Refused(ErrorCode::NOT_ENOUGH_REPLICAS));
    assert_eq!(ask(init_request("other", None)).await.0, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(world.txn.describe(describe("other")).transaction_states[0].error_code, not_found());
}

fn not_found() -> ErrorCode {
    ErrorCode::TRANSACTIONAL_ID_NOT_FOUND
}

fn describe(transactional_id: &str) -> DescribeTransactionsRequest {
    DescribeTransactionsRequest { transactional_ids: vec![transactional_id.to_owned()] }
}

#[tokio::test(start_paused = true)]
async fn old_versions_know_no_fenced_producers() {
    let world = World::new().await;
    let old = ready(&world.txn, "id").await;
    let new = ready(&world.txn, "id").await;
    assert_eq!((old.producer_id, old.epoch + 1), (new.producer_id, new.epoch));
    for version in 0..=5 {
        let request = init_request("id", Some((old.producer_id, old.epoch)));
        let error = world.txn.init_producer_id(version, CLIENT, request).await.error_code;
        assert_eq!(error, if version < 4 { OLD_FENCED } else { FENCED }, "InitProducerId {version}");
        let told = if version < 2 { OLD_FENCED } else { FENCED };
        assert_eq!(old.clone().end(&world.txn, version, true).await, Err(told), "EndTxn {version}");
        assert_eq!(old.add_offsets(&world.txn, version, "g").await, told, "AddOffsetsToTxn {version}");
        if version <= 3 {
            let answer = world.txn.add_partitions(version, old.add_request(&[("t0", 0)])).await;
            let error = answer.results_by_topic[0].results_by_partition[0].partition_error_code;
            assert_eq!(error, told, "AddPartitionsToTxn {version}");
        }
    }
    assert_eq!(old.ask(&world.txn, false, ("t0", 0)).await, FENCED);
    assert_eq!(old.ask(&world.txn, true, ("t0", 0)).await, FENCED);
}

#[tokio::test(start_paused = true)]
async fn unknown_ids_and_producers_have_no_mapping() {
    let world = World::new().await;
    let known = ready(&world.txn, "id").await;
    let stranger = Producer { producer_id: 1, ..known.clone() };
    let nobody = Producer { transactional_id: "nobody".into(), ..known.clone() };
    for mut producer in [stranger, nobody] {
        assert_eq!(producer.add(&world.txn, &[("t0", 0)]).await, Err(MAPPING));
        assert_eq!(producer.ask(&world.txn, false, ("t0", 0)).await, MAPPING);
        assert_eq!(producer.ask(&world.txn, true, ("t0", 0)).await, MAPPING);
        assert_eq!(producer.add_offsets(&world.txn, 4, "g").await, MAPPING);
        assert_eq!(producer.end(&world.txn, END_V1, true).await, Err(MAPPING));
        assert_eq!(producer.end(&world.txn, END_V2, true).await, Err(MAPPING));
    }
    let mut nameless = Producer { transactional_id: String::new(), ..known };
    assert_eq!(nameless.add(&world.txn, &[("t0", 0)]).await, Err(ErrorCode::INVALID_REQUEST));
    assert_eq!(nameless.ask(&world.txn, true, ("t0", 0)).await, ErrorCode::INVALID_REQUEST);
    assert_eq!(nameless.end(&world.txn, END_V2, true).await, Err(ErrorCode::INVALID_REQUEST));
}

#[tokio::test(start_paused = true)]
async fn one_unknown_partition_keeps_all_from_being_added() {
    let world = World::new().await;
    let producer = ready(&world.txn, "id").await;
    let request = producer.add_request(&[("t0", 0), ("t0", 9), ("x", 0)]);
    let answer = world.txn.add_partitions(3, request).await;
    let brief = |topics: &[wire::api::add_partitions_to_txn::AddPartitionsToTxnTopicResult]| {
        let error = |topic: &wire::api::add_partitions_to_txn::AddPartitionsToTxnTopicResult| {
            (topic.name.clone(), topic.results_by_partition[0].partition_error_code)
        };
        topics.iter().map(error).collect::<Vec<_>>()
    };
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    let expected =
        [("t0", ErrorCode::OPERATION_NOT_ATTEMPTED), ("t0", unknown), ("x", unknown)].map(|(t, e)| (t.to_owned(), e));
    assert_eq!(brief(&answer.results_by_topic), expected);
    // Of brokers, each transaction has its own answer, and all of them at once.
    let other = ready(&world.txn, "other").await;
    let transactions = vec![
        producer.asked(false, &[("t0", 0), ("x", 0)]),
        other.asked(false, &[("t0", 0), ("t1", 1)]),
        other.asked(true, &[("t0", 0)]),
    ];
    let appends = world.log.appends();
    let request = AddPartitionsToTxnRequest { transactions, ..Default::default() };
    let answer = world.txn.add_partitions_batch(request).await;
    let results: Vec<_> = answer.results_by_transaction.iter().map(|result| brief(&result.topic_results)).collect();
    let all = |errors: &[(&str, ErrorCode)]| errors.iter().map(|(t, e)| ((*t).to_owned(), *e)).collect::<Vec<_>>();
    assert_eq!(results[0], all(&[("t0", ErrorCode::OPERATION_NOT_ATTEMPTED), ("x", unknown)]));
    assert_eq!(results[1], all(&[("t0", ErrorCode::NONE), ("t1", ErrorCode::NONE)]));
    assert_eq!(results[2], all(&[("t0", ErrorCode::TRANSACTION_ABORTABLE)]));
    assert_eq!(world.log.appends(), appends + 1);
    assert_eq!(world.log.last("id").unwrap().state, State::Empty);
}

#[tokio::test(start_paused = true)]
async fn verification_tells_what_was_added() {
    let world = World::new().await;
    let mut producer = ready(&world.txn, "id").await;
    assert_eq!(producer.ask(&world.txn, true, ("t0", 0)).await, ErrorCode::TRANSACTION_ABORTABLE);
    world.log.set(Fate::Held);
    let adding = tokio::spawn({
        let (txn, producer) = (world.txn.clone(), producer.clone());
        async move { producer.ask(&txn, false, ("t0", 0)).await }
    });
    settle().await;
    // While it is being written it is not there yet, which is no reason to wait.
    assert_eq!(producer.ask(&world.txn, true, ("t0", 0)).await, ErrorCode::TRANSACTION_ABORTABLE);
    assert_eq!(producer.ask(&world.txn, false, ("t0", 0)).await, CONC);
    assert!(!adding.is_finished());
    world.log.heal();
    assert_eq!(adding.await.unwrap(), ErrorCode::NONE);
    assert_eq!(producer.ask(&world.txn, true, ("t0", 0)).await, ErrorCode::NONE);
    assert_eq!(producer.ask(&world.txn, true, ("t0", 1)).await, ErrorCode::TRANSACTION_ABORTABLE);
    let before = producer.clone();
    world.cluster.hold();
    producer.end(&world.txn, END_V1, true).await.unwrap();
    assert_eq!(before.ask(&world.txn, true, ("t0", 0)).await, CONC);
    world.cluster.answer();
    settle().await;
    assert_eq!(before.ask(&world.txn, true, ("t0", 0)).await, ErrorCode::TRANSACTION_ABORTABLE);
}

/// As Kafka's own records say it of an open transaction, from its first partition on (`TransactionLogValue`).
#[tokio::test(start_paused = true)]
async fn an_open_transaction_is_stored_with_the_version_that_opened_it() {
    let world = World::new().await;
    world.cluster.finalize(TransactionVersion::V2);
    let mut producer = ready(&world.txn, "id").await;
    let version = || world.log.last("id").map(|stored| (stored.state, stored.client_version));
    for (end_version, opened) in [(END_V2, TransactionVersion::V2), (END_V1, TransactionVersion::V1)] {
        if end_version == END_V2 {
            assert_eq!(producer.ask(&world.txn, false, ("t0", 0)).await, ErrorCode::NONE);
        } else {
            producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
        }
        assert_eq!(version(), Some((State::Ongoing, opened)));
        producer.end(&world.txn, end_version, true).await.unwrap();
        settle().await;
        assert_eq!(version(), Some((State::CompleteCommit, opened)));
    }
    assert_eq!(producer.add_offsets(&world.txn, 4, "group").await, ErrorCode::NONE);
    assert_eq!(version(), Some((State::Ongoing, TransactionVersion::V1)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_the_log_and_a_retry_for_the_answer() {
    let world = World::new().await;
    let producer = ready(&world.txn, "id").await;
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    world.log.set(Fate::Held);
    let ending = tokio::spawn({
        let (txn, mut producer) = (world.txn.clone(), producer.clone());
        async move { producer.end(&txn, END_V2, true).await.map(|()| producer.epoch) }
    });
    settle().await;
    assert!(!ending.is_finished());
    assert!(world.cluster.markers().is_empty());
    assert_eq!(producer.clone().end(&world.txn, END_V2, true).await, Err(CONC));
    assert_eq!(init(&world.txn, "id", None).await, Err(CONC));
    world.log.heal();
    assert_eq!(ending.await.unwrap(), Ok(1));
    settle().await;
    // The client that has not heard of it hears the same, and nothing is written.
    let appends = world.log.appends();
    let mut retry = producer.clone();
    assert_eq!((retry.end(&world.txn, END_V2, true).await, retry.epoch), (Ok(()), 1));
    assert_eq!(world.log.appends(), appends);
    assert_eq!(producer.clone().end(&world.txn, END_V2, false).await, Err(ErrorCode::INVALID_TXN_STATE));
}

/// With a new epoch a producer knows that nothing of its former ones comes after (KIP-890).
#[tokio::test(start_paused = true)]
async fn an_abort_without_a_transaction_gives_a_new_epoch() {
    let world = World::new().await;
    world.cluster.finalize(TransactionVersion::V2);
    let mut producer = ready(&world.txn, "id").await;
    for epoch in 1..=3 {
        producer.end(&world.txn, END_V2, false).await.unwrap();
        settle().await;
        assert_eq!(producer.epoch, epoch);
    }
    assert_eq!(producer.end(&world.txn, END_V2, true).await, Err(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(producer.end(&world.txn, END_V1, false).await, Ok(()));
    assert!(world.cluster.markers().is_empty());
    assert_eq!(world.log.last("id").unwrap().state, State::CompleteAbort);
}

#[tokio::test(start_paused = true)]
async fn a_new_producer_aborts_the_open_transaction_of_the_old_one() {
    for (version, end_version) in [(0, END_V1), (2, END_V2)] {
        let world = World::new().await;
        world.cluster.finalize(TransactionVersion(version));
        let mut old = ready(&world.txn, "id").await;
        old.add(&world.txn, &[("t0", 0)]).await.unwrap();
        world.cluster.hold();
        for _ in 0..3 {
            assert_eq!(init(&world.txn, "id", None).await, Err(CONC));
        }
        assert_eq!(world.cluster.markers(), [("t0".to_owned(), 0, (100, 1, false, 5))]);
        world.cluster.answer();
        settle().await;
        let mut new = init(&world.txn, "id", None).await.unwrap();
        assert_eq!(new.epoch, 2);
        assert_eq!(old.end(&world.txn, end_version, true).await, Err(FENCED));
        assert_eq!(old.end(&world.txn, end_version, false).await, Err(FENCED));
        new.add(&world.txn, &[("t0", 0)]).await.unwrap();
        new.end(&world.txn, end_version, true).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn each_failure_of_the_log_has_its_answer() {
    use ErrorCode as E;
    let certain = [
        (E::UNKNOWN_TOPIC_OR_PARTITION, E::COORDINATOR_NOT_AVAILABLE),
        (E::NOT_ENOUGH_REPLICAS, E::COORDINATOR_NOT_AVAILABLE),
        (E::MESSAGE_TOO_LARGE, E::UNKNOWN_SERVER_ERROR),
        (E::RECORD_LIST_TOO_LARGE, E::UNKNOWN_SERVER_ERROR),
    ];
    let uncertain = [
        (E::NOT_ENOUGH_REPLICAS_AFTER_APPEND, E::COORDINATOR_NOT_AVAILABLE),
        (E::REQUEST_TIMED_OUT, E::COORDINATOR_NOT_AVAILABLE),
        (E::NOT_LEADER_OR_FOLLOWER, E::NOT_COORDINATOR),
        (E::KAFKA_STORAGE_ERROR, E::NOT_COORDINATOR),
        (E::UNKNOWN_SERVER_ERROR, E::UNKNOWN_SERVER_ERROR),
    ];
    for (error, told) in certain {
        let world = World::new().await;
        let mut producer = ready(&world.txn, "id").await;
        world.log.set(Fate::Refused(error));
        assert_eq!(producer.add(&world.txn, &[("t0", 0)]).await, Err(told), "{error}");
        // It has not happened.
        world.log.heal();
        assert_eq!(producer.end(&world.txn, END_V1, true).await, Err(E::INVALID_TXN_STATE));
        producer.add(&world.txn, &[("t0", 1)]).await.unwrap();
        producer.end(&world.txn, END_V1, true).await.unwrap();
        settle().await;
        assert_eq!(world.cluster.markers().len(), 1);
    }
    for (error, told) in uncertain {
        let world = World::new().await;
        let mut producer = ready(&world.txn, "id").await;
        producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
        // Whether it is in the log or not, it comes to pass: it may be read by another coordinator.
        for fate in [Fate::Lost(error), Fate::Refused(error)] {
            world.log.set(fate);
            assert_eq!(producer.end(&world.txn, END_V1, true).await, Err(told), "{error}");
            settle().await;
            assert_eq!(producer.end(&world.txn, END_V1, false).await, Err(told));
            assert_eq!(init(&world.txn, "id", None).await, Err(told));
        }
        assert!(world.cluster.markers().is_empty());
        world.log.heal();
        sleep(Duration::from_secs(4)).await;
        assert_eq!(world.log.last("id").unwrap().state, State::CompleteCommit);
        assert_eq!(world.cluster.markers(), [("t0".to_owned(), 0, (100, 0, true, 5))]);
        assert_eq!(producer.end(&world.txn, END_V1, true).await, Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn an_append_that_takes_too_long_is_answered_and_goes_on() {
    let world = World::new().await;
    let mut producer = ready(&world.txn, "id").await;
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    world.log.set(Fate::Held);
    let unavailable = Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(producer.end(&world.txn, END_V1, true).await, unavailable);
    assert_eq!(producer.end(&world.txn, END_V1, true).await, unavailable);
    let appends = world.log.appends();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.log.appends(), appends, "it is in the log's queue, and not written twice");
    world.log.heal();
    settle().await;
    assert_eq!(producer.end(&world.txn, END_V1, true).await, Ok(()));
    assert_eq!(world.cluster.markers().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_is_carried_out() {
    let world = World::new().await;
    let producer = ready(&world.txn, "id").await;
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    world.log.set(Fate::Held);
    let ending = tokio::spawn({
        let (txn, mut producer) = (world.txn.clone(), producer.clone());
        async move { producer.end(&txn, END_V1, true).await }
    });
    settle().await;
    ending.abort();
    world.log.heal();
    settle().await;
    assert_eq!(world.log.last("id").unwrap().state, State::CompleteCommit);
}

#[tokio::test(start_paused = true)]
async fn transactions_are_described() {
    let world = World::new().await;
    let producer = ready(&world.txn, "id").await;
    sleep(Duration::from_millis(100)).await;
    producer.add(&world.txn, &[("t0", 1), ("t1", 0), ("t0", 0)]).await.unwrap();
    let ids = ["id", "nobody", "", "id"].map(str::to_owned).into();
    let described = world.txn.describe(DescribeTransactionsRequest { transactional_ids: ids }).transaction_states;
    let errors: Vec<_> = described.iter().map(|d| (d.transactional_id.as_str(), d.error_code)).collect();
    assert_eq!(errors, [("", ErrorCode::INVALID_REQUEST), ("id", ErrorCode::NONE), ("nobody", not_found())]);
    let found = &described[1];
    assert_eq!((found.producer_id, found.producer_epoch, found.transaction_timeout_ms), (100, 0, 60_000));
    assert_eq!(found.transaction_state, "Ongoing");
    assert!(found.transaction_start_time_ms >= 1_700_000_000_100);
    let topics: Vec<_> = found.topics.iter().map(|topic| (topic.topic.as_str(), topic.partitions.clone())).collect();
    assert_eq!(topics, [("t0", vec![0, 1]), ("t1", vec![0])]);
    world.txn.unload(0);
    let described = world.txn.describe(describe("id")).transaction_states;
    assert_eq!(described[0].error_code, ErrorCode::NOT_COORDINATOR);
}

#[tokio::test(start_paused = true)]
async fn transactions_are_listed_by_filters() {
    let world = World::new().await;
    for id in ["a", "ab", "b"] {
        let producer = ready(&world.txn, id).await;
        if id != "b" {
            producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
        }
        sleep(Duration::from_secs(10)).await;
    }
    let list = |request: ListTransactionsRequest| {
        let answer = world.txn.list(&request);
        let ids = answer.transaction_states.iter().map(|listed| listed.transactional_id.clone());
        (answer.error_code, ids.collect::<Vec<_>>().join(" "), answer.unknown_state_filters)
    };
    let none = || ListTransactionsRequest { duration_filter: -1, ..Default::default() };
    let found = |ids: &str| (ErrorCode::NONE, ids.to_owned(), Vec::new());
    assert_eq!(list(none()), found("a ab b"));
    let states = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(list(ListTransactionsRequest { state_filters: states(&["Ongoing"]), ..none() }), found("a ab"));
    let request = ListTransactionsRequest { state_filters: states(&["Empty", "Dead", "nonsense", "empty"]), ..none() };
    assert_eq!(list(request), (ErrorCode::NONE, "b".to_owned(), states(&["nonsense", "empty"])));
    let request = ListTransactionsRequest { state_filters: states(&["PrepareEpochFence"]), ..none() };
    assert_eq!(list(request), found(""));
    let request = ListTransactionsRequest { producer_id_filters: vec![101, 7], ..none() };
    assert_eq!(list(request), found("ab"));
    // As in Kafka, one that has not begun is very old.
    let request = ListTransactionsRequest { duration_filter: 25_000, ..none() };
    assert_eq!(list(request), found("a b"));
    for (pattern, expected) in
        [("a", "a"), ("a|ab", "a ab"), ("a.*", "a ab"), ("", "a ab b"), (".", "a b"), ("(?i)A", "a")]
    {
        let transactional_id_pattern = Some(pattern.to_owned());
        assert_eq!(list(ListTransactionsRequest { transactional_id_pattern, ..none() }), found(expected), "{pattern}");
    }
    for pattern in ["(", "a)|(b", "a{1000}{1000}{1000}"] {
        let transactional_id_pattern = Some(pattern.to_owned());
        let (error, _, _) = list(ListTransactionsRequest { transactional_id_pattern, ..none() });
        assert_eq!(error, ErrorCode::INVALID_REGULAR_EXPRESSION, "{pattern}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_topic_is_created_once_and_spreads_the_ids() {
    let world = World::new().await;
    world.cluster.set_partition_count(None);
    // As `"g1".hashCode() % 50` of Java.
    assert_eq!(world.txn.partition_for("g1"), 42);
    assert_eq!(world.txn.ensure_topic().await, Ok(()));
    assert_eq!(world.txn.partition_for("g1"), 0);
    world.cluster.set_partition_count(Some(7));
    assert_eq!(world.txn.ensure_topic().await, Ok(()));
    assert_eq!(world.txn.partition_for("g1"), 3_242 % 7);
}
