//! Produce: acknowledgements, order, idempotence, refusals.

use std::time::Duration;

use wire::ErrorCode;
use wire::api::init_producer_id::InitProducerIdRequest;
use wire::batch::{Attributes, Batch, BatchBuilder};
use wire::compress::Codec;

use crate::common::{TestBroker, TestClient};
use crate::{answer, append, batch, batches, create, fetch, filled, produce, read, request, send};

/// What a batch looks like after the broker has changed the two fields that are its to change.
fn stamped(batch: &Batch, base_offset: i64, leader_epoch: i32) -> Vec<u8> {
    let mut header = batch.header;
    (header.base_offset, header.partition_leader_epoch) = (base_offset, leader_epoch);
    [&header.to_bytes(), &batch.bytes[wire::batch::HEADER_BYTES..]].concat()
}

#[test]
fn batches_are_stored_as_they_came_in_every_codec() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    let long = "abc".repeat(1000);
    let mut expected = Vec::new();
    for (offset, codec) in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd].into_iter().enumerate() {
        let batch = filled(BatchBuilder::new().compression(codec, None), &[&long, ""]);
        assert_eq!(append(&mut client, &batch), (ErrorCode::NONE, 2 * offset as i64));
        expected.push(stamped(&batch, 2 * offset as i64, 0));
    }
    let stored = batches(&fetch(&mut client, 0));
    assert_eq!(stored.iter().map(|batch| batch.bytes.to_vec()).collect::<Vec<_>>(), expected);
}

#[test]
fn every_version_of_produce_is_served() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    for (offset, version) in (3..=12).enumerate() {
        let response = client.call(version, &request(1, 0, &batch(&["v"])));
        let partition = &response.responses[0].partition_responses[0];
        assert_eq!((partition.error_code, partition.base_offset), (ErrorCode::NONE, offset as i64), "{version}");
    }
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    let acks = [1, -1, 0, -1, 1, 0, 1];
    for acks in acks {
        send(&mut client, acks, &batch(&["a", "b"]));
    }
    for (n, _) in acks.iter().enumerate().filter(|(_, acks)| **acks != 0) {
        assert_eq!(answer(&mut client).base_offset, 2 * n as i64);
    }
    assert_eq!(read(&mut client, 0).len(), 2 * acks.len());
}

#[test]
fn requests_that_share_their_way_are_counted_each() {
    const REQUESTS: usize = 60;
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    for n in 0..REQUESTS {
        send(&mut client, if n % 7 == 0 { -1 } else { 1 }, &batch(&["v"]));
    }
    for _ in 0..REQUESTS {
        answer(&mut client);
    }
    let of = |family: &str, label: &str| broker.metric(&format!(r#"{family}{{api="Produce"{label}}}"#)).unwrap_or(0.0);
    // An answer is counted when it has left, and its last stage last.
    let left = || of("parshall_request_stage_seconds_count", r#",stage="response""#);
    assert!((0..1000).any(|_| left() == REQUESTS as f64), "{} are counted", left());
    let mut seconds = 0.0;
    for (stage, requests) in [("queue", REQUESTS), ("append", REQUESTS), ("sync", 9), ("response", REQUESTS)] {
        let label = format!(r#",stage="{stage}""#);
        assert_eq!(of("parshall_request_stage_seconds_count", &label), requests as f64, "{stage}");
        seconds += of("parshall_request_stage_seconds_sum", &label);
    }
    let replication = of("parshall_request_stage_seconds_sum", r#",stage="replication""#);
    let total = of("parshall_request_seconds_sum", "");
    assert!((seconds + replication - total).abs() < 1e-6, "{seconds} and {replication} are not {total}");
}

#[test]
fn a_failed_produce_without_acknowledgement_closes_the_connection() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    client.send(9, &request(0, 7, &batch(&["nobody has partition 7"])));
    assert!(client.is_closed());
}

#[test]
fn one_bad_batch_fails_its_partition_only() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 2, &[]);
    let mut bad = batch(&["x"]).bytes.to_vec();
    *bad.last_mut().expect("a batch has bytes") ^= 1;
    let bad = Batch { bytes: bad.into(), ..batch(&["x"]) };
    let mut both = request(1, 0, &bad);
    both.topic_data[0].partition_data.extend(request(1, 1, &batch(&["y"])).topic_data[0].partition_data.clone());
    let response = client.call(9, &both);
    let codes: Vec<_> = response.responses[0].partition_responses.iter().map(|p| p.error_code).collect();
    assert_eq!(codes, [ErrorCode::CORRUPT_MESSAGE, ErrorCode::NONE]);
}

#[test]
fn acknowledgements_must_be_possible() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[("min.insync.replicas", "2")]);
    assert_eq!(produce(&mut client, 2, &batch(&["x"])).error_code, ErrorCode::INVALID_REQUIRED_ACKS);
    let all = produce(&mut client, -1, &batch(&["x"]));
    assert_eq!(all.error_code, ErrorCode::NONE, "no more replicas are wanted than the partition has, as in Kafka 4");
    assert_eq!(produce(&mut client, 1, &batch(&["x"])).error_code, ErrorCode::NONE);
    assert_eq!(read(&mut client, 0).len(), 2, "what is refused is not appended");
}

#[test]
fn clients_do_not_write_to_internal_topics() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    let find = wire::api::find_coordinator::FindCoordinatorRequest {
        coordinator_keys: vec!["g".into()],
        ..Default::default()
    };
    assert_eq!(client.ask(&find).coordinators[0].error_code, ErrorCode::NONE);
    let mut forged = request(1, 0, &batch(&["x"]));
    forged.topic_data[0].name = "__consumer_offsets".into();
    let code = client.call(9, &forged).responses[0].partition_responses[0].error_code;
    assert_eq!(code, ErrorCode::INVALID_TOPIC_EXCEPTION);
}

#[test]
fn the_broker_sets_the_time_where_the_topic_says_so() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[("message.timestamp.type", "LogAppendTime")]);
    let answer = produce(&mut client, 1, &batch(&["x"]));
    let stored = batches(&fetch(&mut client, 0));
    assert_eq!(stored[0].header.max_timestamp, answer.log_append_time_ms);
    assert!(answer.log_append_time_ms > 1_700_000_000_000);
    assert!(stored[0].header.attributes.is_log_append_time());
    assert_eq!(stored[0].verify_crc(), Ok(()));
}

#[test]
fn a_topic_may_have_a_compression_of_its_own() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[("compression.type", "zstd")]);
    append(&mut client, &batch(&["some text", "and more"]));
    let stored = batches(&fetch(&mut client, 0));
    assert_eq!(stored[0].header.attributes, Attributes(0).with_codec(Codec::Zstd));
    assert_eq!(read(&mut client, 0), [(0, "some text".to_owned()), (1, "and more".to_owned())]);
}

fn producer_id(client: &mut TestClient) -> (i64, i16) {
    let response = client.ask(&InitProducerIdRequest { producer_id: -1, producer_epoch: -1, ..Default::default() });
    assert_eq!(response.error_code, ErrorCode::NONE);
    (response.producer_id, response.producer_epoch)
}

fn sequenced(id: i64, epoch: i16, sequence: i32) -> Batch {
    filled(BatchBuilder::new().producer(id, epoch, sequence), &["a", "b"])
}

#[test]
fn an_idempotent_producer_may_send_its_last_five_batches_again() {
    let mut broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    let (id, epoch) = producer_id(&mut client);
    for n in 0..6 {
        assert_eq!(append(&mut client, &sequenced(id, epoch, 2 * n)), (ErrorCode::NONE, 2 * i64::from(n)));
    }
    let repeated_after_restart = |client: &mut TestClient| {
        for n in 1..6 {
            assert_eq!(append(client, &sequenced(id, epoch, 2 * n)), (ErrorCode::NONE, 2 * i64::from(n)), "{n}");
        }
        assert_eq!(append(client, &sequenced(id, epoch, 14)).0, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert_eq!(read(client, 0).len(), 12, "no record is there twice");
    };
    repeated_after_restart(&mut client);
    broker.restart();
    let mut client = broker.connect();
    repeated_after_restart(&mut client);
    assert_eq!(append(&mut client, &sequenced(id, epoch + 1, 0)), (ErrorCode::NONE, 12));
    assert_eq!(append(&mut client, &sequenced(id, epoch, 12)).0, ErrorCode::INVALID_PRODUCER_EPOCH);
}

#[test]
fn five_batches_in_flight_are_checked_in_order() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    let (id, epoch) = producer_id(&mut client);
    for n in [0, 1, 3, 2, 3] {
        send(&mut client, -1, &sequenced(id, epoch, 2 * n));
    }
    let codes: Vec<_> = (0..5).map(|_| answer(&mut client).error_code).collect();
    let gap = ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::NONE, gap, ErrorCode::NONE, ErrorCode::NONE]);
}

#[test]
fn records_of_any_size_up_to_the_limit() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[("max.message.bytes", "100000")]);
    let empty = batch(&[""]).bytes.len();
    for size in [0, 1, 63, 64, 8191, 8192, 99_000] {
        assert_eq!(append(&mut client, &batch(&[&"x".repeat(size)])).0, ErrorCode::NONE, "{size}");
    }
    let too_large = batch(&[&"x".repeat(100_001 - empty)]);
    assert_eq!(append(&mut client, &too_large).0, ErrorCode::MESSAGE_TOO_LARGE);
    assert_eq!(read(&mut client, 0).len(), 7);
}

#[test]
fn acknowledged_batches_survive_a_restart() {
    let mut broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[("segment.bytes", "1048576")]);
    let value = "v".repeat(10_000);
    for n in 0..300 {
        assert_eq!(produce(&mut client, if n % 2 == 0 { 1 } else { -1 }, &batch(&[&value])).base_offset, n);
    }
    broker.restart();
    let mut client = broker.connect();
    let found = read(&mut client, 0);
    assert_eq!(found.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), (0..300).collect::<Vec<_>>());
    assert_eq!(append(&mut client, &batch(&["next"])), (ErrorCode::NONE, 300));
}

#[test]
fn many_connections_share_a_partition() {
    let broker = TestBroker::start();
    create(&mut broker.connect(), 1, &[]);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let mut client = broker.connect();
            scope.spawn(move || {
                client.stream.set_read_timeout(Some(Duration::from_secs(60))).expect("the socket takes its options");
                for _ in 0..100 {
                    assert_eq!(produce(&mut client, if n % 2 == 0 { 1 } else { -1 }, &batch(&["x"])).error_code.0, 0);
                }
            });
        }
    });
    let offsets: Vec<i64> = read(&mut broker.connect(), 0).iter().map(|(offset, _)| *offset).collect();
    assert_eq!(offsets, (0..800).collect::<Vec<_>>());
}
