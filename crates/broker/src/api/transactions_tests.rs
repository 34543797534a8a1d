//! Whole transactions, of producers that add their partitions themselves and of those that leave it to brokers
//! (KIP-890).

use wire::ErrorCode;
use wire::api::fetch::AbortedTransaction;
use wire::api::init_producer_id::InitProducerIdRequest;

use super::test_producer::{
    TestProducer, V1, V2, Versions, committed_offset, consume, headers, init_producer_id, stable_offset, start,
    wait_for_marker,
};
use super::test_support::TestBroker;

const NONE: ErrorCode = ErrorCode::NONE;
const UNCOMMITTED: i8 = 0;
const COMMITTED: i8 = 1;

/// Begins a transaction, if the producer has to do so before it writes.
async fn begin(producer: &TestProducer<'_>, versions: Versions) {
    if versions.end_txn < V2.end_txn {
        assert_eq!(producer.add(&[0]).await, NONE);
    }
}

async fn end_offsets(broker: &TestBroker) -> (i64, i64) {
    let told = consume(broker, COMMITTED, 0, 0, false).await;
    (told.last_stable_offset, told.high_watermark)
}

#[tokio::test]
async fn records_are_there_for_committed_readers_when_their_transaction_has_committed() {
    for (versions, finalized) in [(V1, 0), (V1, 2), (V2, 2)] {
        let broker = start(finalized).await;
        let mut producer = TestProducer::init(&broker, "id", versions).await;
        begin(&producer, versions).await;
        assert_eq!((producer.produce(0).await, producer.produce(0).await), (NONE, NONE));
        let told = consume(&broker, COMMITTED, 0, 0, false).await;
        assert_eq!((headers(&told).len(), told.last_stable_offset, told.high_watermark), (0, 0, 2));
        assert_eq!(told.aborted_transactions, Some(vec![]));
        let told = consume(&broker, UNCOMMITTED, 0, 0, false).await;
        assert_eq!((headers(&told).len(), told.aborted_transactions), (2, None));

        let epoch = producer.producer_epoch;
        assert_eq!(producer.end(true).await, NONE);
        assert_eq!(producer.producer_epoch - epoch, i16::from(versions.end_txn >= V2.end_txn));
        wait_for_marker(&broker, 0, 2).await;
        let told = consume(&broker, COMMITTED, 0, 0, false).await;
        let offsets: Vec<_> = headers(&told).iter().map(|h| (h.base_offset, h.attributes.is_control())).collect();
        assert_eq!(offsets, [(0, false), (1, false), (2, true)]);
        assert_eq!((told.last_stable_offset, told.high_watermark), (3, 3));
        assert_eq!(told.aborted_transactions, Some(vec![]));
    }
}

#[tokio::test]
async fn committed_readers_are_told_of_an_aborted_transaction() {
    for (versions, finalized) in [(V1, 0), (V2, 2)] {
        let broker = start(finalized).await;
        let mut producer = TestProducer::init(&broker, "id", versions).await;
        begin(&producer, versions).await;
        assert_eq!((producer.produce(0).await, producer.end(true).await), (NONE, NONE));
        begin(&producer, versions).await;
        assert_eq!(producer.produce(0).await, NONE);
        assert_eq!(end_offsets(&broker).await, (2, 3));
        assert_eq!(producer.end(false).await, NONE);
        wait_for_marker(&broker, 0, 3).await;
        let told = consume(&broker, COMMITTED, 0, 2, false).await;
        assert_eq!((told.last_stable_offset, told.high_watermark), (4, 4));
        let aborted = AbortedTransaction { producer_id: producer.producer_id, first_offset: 2 };
        assert_eq!(told.aborted_transactions, Some(vec![aborted]));
        // Behind its marker it is not named any more, which would hide what the producer commits next.
        assert_eq!(consume(&broker, COMMITTED, 0, 4, false).await.aborted_transactions, Some(vec![]));
        assert_eq!(consume(&broker, UNCOMMITTED, 0, 2, false).await.aborted_transactions, None);
    }
}

#[tokio::test]
async fn offsets_count_when_their_transaction_commits_and_are_gone_when_it_aborts() {
    for (versions, finalized) in [(V1, 0), (V2, 2)] {
        let broker = start(finalized).await;
        let mut producer = TestProducer::init(&broker, "id", versions).await;
        let mut before = -1;
        for (offset, commits) in [(5, true), (9, false), (7, true)] {
            if versions.end_txn < V2.end_txn {
                assert_eq!(producer.add_offsets().await, NONE);
            }
            assert_eq!(producer.commit_offset(offset).await, NONE);
            assert_eq!(committed_offset(&broker, false).await, (before, NONE));
            assert_eq!(committed_offset(&broker, true).await, (-1, ErrorCode::UNSTABLE_OFFSET_COMMIT));
            assert_eq!(producer.end(commits).await, NONE);
            before = if commits { offset } else { before };
            assert_eq!(stable_offset(&broker).await, before);
        }
    }
}

#[tokio::test]
async fn offsets_of_a_group_that_was_not_added_are_refused_as_the_version_knows() {
    let broker = start(0).await;
    let producer = TestProducer::init(&broker, "id", V1).await;
    let unadded = [(3, ErrorCode::INVALID_TXN_STATE), (4, ErrorCode::TRANSACTION_ABORTABLE)];
    for (version, error) in unadded {
        assert_eq!(producer.commit_offset_in(version, 5).await, error, "{version}");
    }
    assert_eq!(committed_offset(&broker, true).await, (-1, NONE));
    let mut stranger = producer.clone();
    stranger.producer_id += 1;
    for version in 3..=5 {
        let error = stranger.commit_offset_in(version, 5).await;
        assert_eq!(error, ErrorCode::INVALID_PRODUCER_ID_MAPPING, "{version}");
    }
}

#[tokio::test]
async fn the_newer_producer_of_an_id_aborts_what_the_older_one_has_begun() {
    for (versions, finalized) in [(V1, 0), (V2, 2)] {
        let broker = start(finalized).await;
        let mut older = TestProducer::init(&broker, "id", versions).await;
        begin(&older, versions).await;
        assert_eq!(older.produce(0).await, NONE);
        let mut newer = TestProducer::init(&broker, "id", versions).await;
        assert_eq!(newer.producer_id, older.producer_id);
        assert!(newer.producer_epoch > older.producer_epoch);
        wait_for_marker(&broker, 0, 1).await;
        let told = consume(&broker, COMMITTED, 0, 0, false).await;
        let aborted = AbortedTransaction { producer_id: older.producer_id, first_offset: 0 };
        assert_eq!((told.last_stable_offset, told.aborted_transactions), (2, Some(vec![aborted])));

        assert_eq!(older.produce(0).await, ErrorCode::INVALID_PRODUCER_EPOCH);
        assert_eq!(older.produce(1).await, ErrorCode::INVALID_PRODUCER_EPOCH, "there the coordinator says it");
        assert_eq!(older.add(&[0]).await, ErrorCode::PRODUCER_FENCED);
        for (version, error) in [(1, ErrorCode::INVALID_PRODUCER_EPOCH), (2, ErrorCode::PRODUCER_FENCED)] {
            assert_eq!(older.end_in(version, true).await.error_code, error, "{version}");
        }
        begin(&newer, versions).await;
        assert_eq!((newer.produce(0).await, newer.end(true).await), (NONE, NONE));
        assert_eq!(headers(&consume(&broker, COMMITTED, 0, 2, true).await)[0].base_offset, 2);
    }
}

#[tokio::test]
async fn a_producer_is_refused_that_asks_for_what_there_is_not() {
    let broker = start(0).await;
    let good = TestProducer::init(&broker, "id", V1).await;
    let request = |transactional_id: &str, transaction_timeout_ms| InitProducerIdRequest {
        transactional_id: Some(transactional_id.to_owned()),
        transaction_timeout_ms,
        ..Default::default()
    };
    let too_long = ErrorCode::INVALID_TRANSACTION_TIMEOUT;
    for (request, error) in [
        (request("", 1), ErrorCode::INVALID_REQUEST),
        (request("id", 900_001), too_long),
        (request("id", i32::MAX), too_long),
        (request("id", 0), too_long),
        (request("id", -1), too_long),
        (InitProducerIdRequest { producer_id: 5, ..request("id", 1) }, ErrorCode::INVALID_REQUEST),
        (InitProducerIdRequest { producer_epoch: 5, ..request("id", 1) }, ErrorCode::INVALID_REQUEST),
        (
            InitProducerIdRequest { producer_id: i64::MIN, producer_epoch: i16::MIN, ..request("id", 1) },
            ErrorCode::PRODUCER_FENCED,
        ),
    ] {
        let asked = format!("{request:?}");
        let answer = init_producer_id(&broker, 5, request).await;
        assert_eq!((answer.error_code, answer.producer_id, answer.producer_epoch), (error, -1, -1), "{asked}");
    }
    // None of these has fenced the one that is there.
    assert_eq!(good.add(&[0]).await, NONE);
}
