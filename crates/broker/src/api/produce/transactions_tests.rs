//! Which batches of transactions are taken, and what waits for the coordinator's answer.

use std::future::poll_fn;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use wire::ErrorCode;
use wire::api::produce::ProduceRequest;
use wire::batch::Batch;

use crate::api::Started;
use crate::api::test_producer::{
    TOPIC, TestProducer, V1, V2, batch_of, consume, headers, produce_codes, produce_request, produced, start,
    start_produce, wait_for_marker,
};
use crate::api::test_support::TestBroker;
use crate::close_reason::CloseReason;

const NONE: ErrorCode = ErrorCode::NONE;
const MAPPING: ErrorCode = ErrorCode::INVALID_PRODUCER_ID_MAPPING;
const OLD_EPOCH: ErrorCode = ErrorCode::INVALID_PRODUCER_EPOCH;

/// What is in a partition: base offset and base sequence of each batch.
async fn stored(broker: &TestBroker, partition: i32) -> Vec<(i64, i32)> {
    let told = consume(broker, 0, partition, 0, false).await;
    headers(&told).iter().map(|header| (header.base_offset, header.base_sequence)).collect()
}

async fn code(broker: &TestBroker, version: i16, transactional_id: &str, batch: Batch) -> ErrorCode {
    produce_codes(broker, version, produce_request(Some(transactional_id), &[(0, batch)])).await[0]
}

#[tokio::test]
async fn transactional_batches_without_an_id_or_of_several_producers_refuse_the_whole_request() {
    let broker = start(0).await;
    let producer = TestProducer::init(&broker, "id", V1).await;
    assert_eq!(producer.add(&[0, 1]).await, NONE);
    let batch = |epoch, is_transactional| batch_of(producer.producer_id, epoch, 0, is_transactional);
    let unnamed = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    let request = produce_request(None, &[(0, batch(0, false)), (1, batch(0, true))]);
    assert_eq!(produce_codes(&broker, 12, request).await, [unnamed, unnamed]);
    let request = produce_request(Some("id"), &[(0, batch(0, true)), (1, batch(1, true))]);
    assert_eq!(produce_codes(&broker, 12, request).await, [MAPPING, MAPPING]);
    assert_eq!((stored(&broker, 0).await, stored(&broker, 1).await), (vec![], vec![]));
    // The id alone makes no transaction.
    let request = produce_request(Some("id"), &[(0, batch_of(7, 0, 0, false)), (1, batch_of(8, 0, 0, false))]);
    assert_eq!(produce_codes(&broker, 12, request).await, [NONE, NONE]);
}

#[tokio::test]
async fn what_is_of_no_transaction_is_refused_as_the_version_knows() {
    let broker = start(0).await;
    let older = TestProducer::init(&broker, "id", V1).await;
    let producer = TestProducer::init(&broker, "id", V1).await;
    let id = producer.producer_id;
    assert_eq!((producer.producer_epoch, older.producer_epoch), (1, 0));
    let (unadded, abortable) = (ErrorCode::INVALID_TXN_STATE, ErrorCode::TRANSACTION_ABORTABLE);
    for (version, error) in [(3, unadded), (10, unadded), (11, abortable)] {
        assert_eq!(code(&broker, version, "id", batch_of(id, 1, 0, true)).await, error, "{version}");
    }
    // Of epoch 1 the partition has been asked about, and of the others the coordinator is.
    for version in [3, 11, 12] {
        for (transactional_id, batch, error) in [
            ("id", batch_of(id, 0, 0, true), OLD_EPOCH),
            ("id", batch_of(id + 1, 1, 0, true), MAPPING),
            ("other", batch_of(id + 2, 0, 0, true), MAPPING),
            ("", batch_of(id + 3, 0, 0, true), ErrorCode::INVALID_REQUEST),
        ] {
            assert_eq!(code(&broker, version, transactional_id, batch).await, error, "{version} {transactional_id}");
        }
    }
    let too_new = produce_request(Some("id"), &[(1, batch_of(id, 2, 0, true))]);
    assert_eq!(produce_codes(&broker, 11, too_new).await, [OLD_EPOCH]);
    assert_eq!(stored(&broker, 0).await, []);
}

#[tokio::test]
async fn a_transactional_batch_of_no_producer_is_not_taken() {
    let broker = start(0).await;
    TestProducer::init(&broker, "id", V1).await;
    for (producer_id, epoch, sequence) in [(-1, -1, -1), (-1, -1, 0), (i64::MIN, 0, 0), (-2, 0, -1)] {
        for version in [11, 12] {
            let refused = code(&broker, version, "id", batch_of(producer_id, epoch, sequence, true)).await;
            assert_eq!(refused, ErrorCode::INVALID_RECORD, "{producer_id} {version}");
        }
    }
    assert_eq!(stored(&broker, 0).await, []);
}

#[tokio::test]
async fn a_batch_outside_of_the_open_transaction_of_its_producer_is_refused() {
    let broker = start(0).await;
    let mut producer = TestProducer::init(&broker, "id", V1).await;
    assert_eq!(producer.add(&[0]).await, NONE);
    assert_eq!(producer.produce(0).await, NONE);
    let outside = || produce_request(None, &[(0, batch_of(producer.producer_id, producer.producer_epoch, 1, false))]);
    assert_eq!(produce_codes(&broker, 12, outside()).await, [ErrorCode::INVALID_TXN_STATE]);
    let outside = outside();
    assert_eq!(producer.end(true).await, NONE);
    wait_for_marker(&broker, 0, 1).await;
    assert_eq!(produce_codes(&broker, 12, outside).await, [NONE]);
}

#[tokio::test]
async fn a_partition_that_fails_costs_the_others_of_its_request_nothing() {
    let broker = start(0).await;
    let mut producer = TestProducer::init(&broker, "id", V1).await;
    assert_eq!(producer.add(&[1]).await, NONE);
    let mut request = |indexes: &[i32]| {
        let batches: Vec<_> = indexes.iter().map(|index| (*index, producer.batch(*index))).collect();
        produce_request(Some("id"), &batches)
    };
    let (unknown, abortable) = (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::TRANSACTION_ABORTABLE);
    assert_eq!(produce_codes(&broker, 11, request(&[0, 1, 5])).await, [abortable, NONE, unknown]);
    assert_eq!(produce_codes(&broker, 11, request(&[5, 1])).await, [unknown, NONE], "it is open there");
    assert_eq!((stored(&broker, 0).await, stored(&broker, 1).await), (vec![], vec![(0, 0), (1, 1)]));
    // A partition that is named twice has both batches, in their order.
    let request = request(&[1, 1]);
    assert_eq!(produce_codes(&broker, 11, request).await, [NONE, NONE]);
    assert_eq!(stored(&broker, 1).await, [(0, 0), (1, 1), (2, 2), (3, 3)]);
}

#[tokio::test]
async fn brokers_add_partitions_only_for_the_first_batch_of_a_transaction() {
    let broker = start(2).await;
    let mut producer = TestProducer::init(&broker, "id", V2).await;
    let (id, epoch) = (producer.producer_id, producer.producer_epoch);
    let overtaking = code(&broker, 12, "id", batch_of(id, epoch, 3, true)).await;
    assert_eq!(overtaking, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, "nothing of this epoch can be deleted");
    assert_eq!((producer.produce(0).await, producer.end(true).await), (NONE, NONE));
    wait_for_marker(&broker, 0, 1).await;
    // The transaction has ended, so that its epoch has nothing to add any more.
    assert_eq!(code(&broker, 12, "id", batch_of(id, epoch, 1, true)).await, OLD_EPOCH);
    assert_eq!(producer.produce(0).await, NONE);
}

#[tokio::test]
async fn what_comes_behind_waits_until_the_batches_before_are_verified() {
    for (versions, finalized) in [(V1, 0), (V2, 2)] {
        let broker = start(finalized).await;
        let mut producer = TestProducer::init(&broker, "id", versions).await;
        assert!(versions.produce >= 12 || producer.add(&[0]).await == NONE);
        let mut request = || produce_request(Some("id"), &[(0, producer.batch(0))]);
        let first = start_produce(&broker, versions.produce, request());
        let mut first = Started::Produce(first);
        assert!(!first.is_queued_produce(), "nothing may overtake it");
        let Started::Produce(pending) = &mut first else { panic!("it is a Produce") };
        poll_fn(|cx| {
            let answered = pending.poll(cx).is_ready();
            if pending.is_queued() || answered { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert!(first.is_queued_produce());
        let mut second = start_produce(&broker, versions.produce, request());
        assert_eq!(produced(versions.produce, &mut second).await, [NONE]);
        assert_eq!(stored(&broker, 0).await, [(0, 0), (1, 1)]);
        // Where a transaction is open nothing is asked.
        let third = start_produce(&broker, versions.produce, request());
        assert!(third.is_queued());
    }
}

#[tokio::test]
async fn a_batch_whose_request_has_timed_out_is_not_appended_when_it_is_verified() {
    let broker = start(2).await;
    let mut producer = TestProducer::init(&broker, "id", V2).await;
    let request = produce_request(Some("id"), &[(0, producer.batch(0))]);
    let mut pending = start_produce(&broker, 12, request);
    let deadline = pending.deadline().expect("it waits for replicas");
    pending.expire(deadline);
    assert_eq!(produced(12, &mut pending).await, [ErrorCode::REQUEST_TIMED_OUT]);
    assert_eq!(stored(&broker, 0).await, []);
}

#[tokio::test]
async fn an_unverified_batch_without_acknowledgement_closes_its_connection() {
    let broker = start(0).await;
    let mut producer = TestProducer::init(&broker, "id", V1).await;
    let request = ProduceRequest { acks: 0, ..produce_request(Some("id"), &[(0, producer.batch(0))]) };
    let mut pending = start_produce(&broker, 11, request);
    let closed = poll_fn(|cx| pending.poll(cx)).await.err();
    assert!(matches!(closed, Some(CloseReason::SilentProduceFailed)));
    assert_eq!(stored(&broker, 0).await, []);
}

#[tokio::test]
async fn a_log_that_another_thread_has_does_not_block_the_thread_that_starts_a_request() {
    let broker = start(2).await;
    let mut producer = TestProducer::init(&broker, "id", V2).await;
    for is_open in [false, true] {
        let partition = broker.partitions.find_by_name(TOPIC, 0).expect("it is here");
        let ((has_log, taken), (release, released)) = (channel(), channel());
        let holder = thread::spawn(move || {
            partition.with_log(|_| {
                has_log.send(()).expect("the test goes on");
                released.recv_timeout(Duration::from_secs(10))
            })
        });
        taken.recv().expect("the log is free");
        let request = produce_request(Some("id"), &[(0, producer.batch(0))]);
        let mut pending = start_produce(&broker, 12, request);
        _ = release.send(());
        assert_eq!(holder.join().expect("it has not panicked"), Ok(()), "the start waited for the log");
        assert!(!pending.is_queued());
        assert_eq!(produced(12, &mut pending).await, [NONE], "{is_open}");
    }
    assert_eq!(stored(&broker, 0).await, [(0, 0), (1, 1)]);
}

#[tokio::test]
async fn bytes_that_are_no_batch_are_in_no_transaction() {
    let broker = start(0).await;
    let garbage = Batch { bytes: vec![0xff; 100].into(), ..batch_of(5, 0, 0, true) };
    assert_eq!(produce_codes(&broker, 11, produce_request(None, &[(0, garbage)])).await, [ErrorCode::CORRUPT_MESSAGE]);
}
