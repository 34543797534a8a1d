//! What is not written: batches that are in no transaction of their producer, and requests that make no sense.

use super::*;

/// Without a transactional id, of an idempotent producer.
fn plain(producer: &Producer, sequence: i32) -> Batch {
    let mut builder = BatchBuilder::new().producer(producer.producer_id, producer.epoch, sequence);
    builder.push(0, None, Some(b"plain"), &[]);
    builder.build()
}

#[test]
fn a_partition_that_was_not_added_is_not_written_to() {
    for (protocol, error) in [(OLD, ErrorCode::INVALID_TXN_STATE), (VERSION_1, ErrorCode::TRANSACTION_ABORTABLE)] {
        let broker = start(&[]);
        let mut client = broker.connect();
        let mut producer = Producer::start(&mut client, "id", protocol);
        assert_eq!(producer.send(&mut client, 0, &["a"]), error, "{protocol:?}: there is no transaction");
        producer.write(&mut client, 1, &["b"]);
        assert_eq!(producer.send(&mut client, 0, &["a"]), error, "{protocol:?}: it has another partition");
        assert_eq!(producer.add(&mut client, &[0]), ErrorCode::NONE);
        assert_eq!(producer.send(&mut client, 0, &["a"]), ErrorCode::NONE, "{protocol:?}");
        assert_eq!(producer.end(&mut client, true), ErrorCode::NONE);
        assert_eq!(read_when_stable(&mut client, 0).0.len(), 1);
        assert_eq!(producer.send(&mut client, 0, &["late"]), error, "{protocol:?}: the transaction has ended");
        assert_eq!(read_when_stable(&mut client, 0).0.len(), 1);
    }
}

#[test]
fn a_late_request_does_not_reach_the_transaction_behind() {
    let broker = start(&[]);
    let mut client = broker.connect();
    let mut producer = Producer::start(&mut client, "id", VERSION_2);
    producer.write(&mut client, 0, &["a"]);
    let mut late = producer.clone();
    assert_eq!(producer.end(&mut client, true), ErrorCode::NONE);
    assert_eq!(read_when_stable(&mut client, 0).0.len(), 1);
    assert_eq!(late.send(&mut client, 0, &["late"]), ErrorCode::INVALID_PRODUCER_EPOCH);
    producer.write(&mut client, 1, &["b"]);
    assert_eq!(late.send(&mut client, 1, &["late"]), ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(late.end(&mut client, false), ErrorCode::PRODUCER_FENCED);
    assert_eq!(producer.end(&mut client, true), ErrorCode::NONE);
    assert_eq!(read_when_stable(&mut client, 1).0.len(), 1);
}

#[test]
fn a_producer_that_comes_back_aborts_and_fences_the_one_before() {
    for (protocol, fenced) in [
        (OLD, ErrorCode::INVALID_PRODUCER_EPOCH),
        (VERSION_1, ErrorCode::PRODUCER_FENCED),
        (VERSION_2, ErrorCode::PRODUCER_FENCED),
    ] {
        let broker = start(&[]);
        let mut client = broker.connect();
        let mut before = Producer::start(&mut client, "id", protocol);
        before.write(&mut client, 0, &["a"]);
        let mut after = Producer::start(&mut client, "id", protocol);
        assert_eq!(after.producer_id, before.producer_id);
        assert!(after.epoch > before.epoch);
        assert_eq!(read_when_stable(&mut client, 0).1, [(before.producer_id, 0)], "{protocol:?}");
        for partition in [0, 1] {
            assert_eq!(before.send(&mut client, partition, &["b"]), ErrorCode::INVALID_PRODUCER_EPOCH, "{protocol:?}");
        }
        assert_eq!(before.end(&mut client, true), fenced, "{protocol:?}");
        after.write(&mut client, 0, &["c"]);
        assert_eq!(after.end(&mut client, true), ErrorCode::NONE);
        assert_eq!(read_when_stable(&mut client, 0).0.len(), 2);
    }
}

#[test]
fn batches_of_a_transaction_have_its_id_and_one_producer() {
    let broker = start(&[]);
    let mut client = broker.connect();
    let producer = Producer::start(&mut client, "id", VERSION_2);
    let other = Producer::start(&mut client, "other", VERSION_2);
    let (first, second) = (producer.batch(0, &["a"]), other.batch(1, &["b"]));
    let without_id = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    assert_eq!(produce(&mut client, 12, None, &[(0, &first)]), [without_id]);
    let mixed = ErrorCode::INVALID_PRODUCER_ID_MAPPING;
    assert_eq!(produce(&mut client, 12, Some("id"), &[(0, &first), (1, &second)]), [mixed; 2]);
    assert_eq!(produce(&mut client, 12, Some("other"), &[(0, &first)]), [mixed], "it is another's id");
    assert_eq!(produce(&mut client, 12, Some("nobody"), &[(0, &first)]), [mixed]);
    assert_eq!(read(&mut client, 0, READ_UNCOMMITTED), [""; 0]);
}

#[test]
fn one_partition_that_is_refused_does_not_keep_the_others() {
    let broker = start(&[]);
    let mut client = broker.connect();
    let mut producer = Producer::start(&mut client, "id", VERSION_1);
    assert_eq!(producer.add(&mut client, &[0]), ErrorCode::NONE);
    let (first, second, nowhere) = (producer.batch(0, &["a"]), producer.batch(1, &["b"]), producer.batch(0, &["c"]));
    let errors = produce(&mut client, 11, Some("id"), &[(1, &second), (0, &first), (5, &nowhere)]);
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(errors, [ErrorCode::TRANSACTION_ABORTABLE, ErrorCode::NONE, unknown]);
    assert_eq!(producer.end(&mut client, true), ErrorCode::NONE);
    assert_eq!(read_when_stable(&mut client, 0).0.len(), 1);
    assert_eq!(read(&mut client, 1, READ_UNCOMMITTED), [""; 0]);
}

#[test]
fn a_batch_outside_of_the_open_transaction_is_refused() {
    let broker = start(&[]);
    let mut client = broker.connect();
    let mut producer = Producer::start(&mut client, "id", VERSION_1);
    producer.write(&mut client, 0, &["a"]);
    let plain = plain(&producer, 1);
    assert_eq!(produce(&mut client, 11, Some("id"), &[(0, &plain)]), [ErrorCode::INVALID_TXN_STATE]);
    assert_eq!(producer.end(&mut client, true), ErrorCode::NONE);
    assert_eq!(read_when_stable(&mut client, 0).0.len(), 1);
}

#[test]
fn what_comes_behind_a_batch_that_is_verified_stays_behind() {
    for protocol in ALL {
        let broker = start(&[]);
        let mut client = broker.connect();
        let mut producer = Producer::start(&mut client, "id", protocol);
        if !producer.is_version_2() {
            assert_eq!(producer.add(&mut client, &[0]), ErrorCode::NONE);
        }
        let mut sent = Vec::new();
        for number in 0..20 {
            let value = number.to_string();
            let records = Some(Records::Inline(producer.batch(0, &[&value]).bytes));
            producer.sequences[0] += 1;
            sent.push(value);
            let data = PartitionProduceData { index: 0, records };
            let topic = TopicProduceData { name: TOPIC.into(), partition_data: vec![data], ..Default::default() };
            let transactional_id = Some("id".to_owned());
            let request = ProduceRequest { transactional_id, acks: -1, timeout_ms: 30_000, topic_data: vec![topic] };
            client.send(protocol.produce, &request);
        }
        for number in 0..20 {
            let response = client.receive::<ProduceRequest>(protocol.produce);
            let error = response.responses[0].partition_responses[0].error_code;
            assert_eq!(error, ErrorCode::NONE, "{protocol:?} {number}");
        }
        assert_eq!(read(&mut client, 0, READ_UNCOMMITTED), sent, "{protocol:?}");
    }
}

#[test]
fn ids_and_timeouts_that_make_no_sense_are_refused() {
    let broker = start(&[("transaction.max.timeout.ms", "1000")]);
    let mut client = broker.connect();
    find_coordinator(&mut client, "id");
    assert_eq!(init(&mut client, "", 1000).error_code, ErrorCode::INVALID_REQUEST);
    for timeout_ms in [1001, 0, -1, i32::MAX, i32::MIN] {
        let error = init(&mut client, "id", timeout_ms).error_code;
        assert_eq!(error, ErrorCode::INVALID_TRANSACTION_TIMEOUT, "{timeout_ms}");
    }
    let producer = Producer::start_with_timeout(&mut client, "id", VERSION_1, 1000);
    for (id, producer_id, epoch, error) in [
        ("nobody", producer.producer_id, producer.epoch, ErrorCode::INVALID_PRODUCER_ID_MAPPING),
        ("id", producer.producer_id + 1, producer.epoch, ErrorCode::INVALID_PRODUCER_ID_MAPPING),
        ("id", -1, -1, ErrorCode::INVALID_PRODUCER_ID_MAPPING),
        ("id", producer.producer_id, producer.epoch + 1, ErrorCode::PRODUCER_FENCED),
        ("id", producer.producer_id, -1, ErrorCode::PRODUCER_FENCED),
    ] {
        let mut other = Producer { id: id.into(), producer_id, epoch, ..producer.clone() };
        assert_eq!(other.add(&mut client, &[0]), error, "{id} {producer_id} {epoch}");
        assert_eq!(other.add_offsets(&mut client, "g"), error, "{id} {producer_id} {epoch}");
        assert_eq!(other.end(&mut client, true), error, "{id} {producer_id} {epoch}");
    }
    let topics = [TOPIC, "missing"].map(|name| AddPartitionsToTxnTopic { name: name.into(), partitions: vec![0] });
    let request = AddPartitionsToTxnRequest {
        transactional_id: "id".into(),
        producer_id: producer.producer_id,
        producer_epoch: producer.epoch,
        topics: topics.into(),
        ..Default::default()
    };
    let response = client.call(3, &request);
    let error = |topic: usize| response.results_by_topic[topic].results_by_partition[0].partition_error_code;
    assert_eq!((error(0), error(1)), (ErrorCode::OPERATION_NOT_ATTEMPTED, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
}
