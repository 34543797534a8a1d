//! Fetch: bounds, waiting, sessions, damage.

use wire::ErrorCode;
use wire::api::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::api::fetch::{FetchRequest, FetchResponse};

use crate::common::{TestBroker, TestClient};
use crate::{FETCH_VERSION, append, batch, batches, create, fetch, fetch_request, produce, read};

/// Longer than any test may take: only what a test does ends a wait for so long.
const FOREVER_MS: i32 = 25_000;

#[test]
fn every_version_of_fetch_is_served() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    append(&mut client, &batch(&["x"]));
    for version in 4..=12 {
        let response = client.call(version, &fetch_request(0));
        assert_eq!(batches(&response.responses[0].partitions[0]).len(), 1, "{version}");
    }
}

#[test]
fn topics_are_named_by_id_from_version_13_on() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    append(&mut client, &batch(&["x"]));
    let topic_id = broker_topic_id(&mut client);
    for version in 13..=18 {
        let mut request = fetch_request(0);
        request.topics[0].topic_id = topic_id;
        let response = client.call(version, &request);
        assert_eq!(batches(&response.responses[0].partitions[0]).len(), 1, "{version}");
        request.topics[0].topic_id = wire::Uuid([9; 16]);
        let response = client.call(version, &request);
        assert_eq!(response.responses[0].partitions[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID);
    }
}

fn broker_topic_id(client: &mut TestClient) -> wire::Uuid {
    let topics = Some(vec![wire::api::metadata::MetadataRequestTopic { name: Some("t".into()), ..Default::default() }]);
    client.ask(&wire::api::metadata::MetadataRequest { topics, ..Default::default() }).topics[0].topic_id
}

#[test]
fn an_offset_outside_of_the_log_is_refused() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    append(&mut client, &batch(&["x"]));
    assert_eq!(fetch(&mut client, 2).error_code, ErrorCode::OFFSET_OUT_OF_RANGE);
    assert_eq!(fetch(&mut client, -1).error_code, ErrorCode::OFFSET_OUT_OF_RANGE);
    let at_end = fetch(&mut client, 1);
    assert_eq!((at_end.error_code, at_end.high_watermark, batches(&at_end).len()), (ErrorCode::NONE, 1, 0));
}

#[test]
fn the_first_batch_is_whole_however_small_the_limits() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    for _ in 0..3 {
        append(&mut client, &batch(&[&"x".repeat(5000)]));
    }
    let mut request = fetch_request(1);
    request.max_bytes = 1;
    request.topics[0].partitions[0].partition_max_bytes = 1;
    let response = client.call(FETCH_VERSION, &request);
    let found = batches(&response.responses[0].partitions[0]);
    assert_eq!((found.len(), found[0].header.base_offset), (1, 1));
}

#[test]
fn a_leader_epoch_of_the_future_or_the_past_is_refused() {
    let mut broker = TestBroker::start();
    create(&mut broker.connect(), 1, &[]);
    let code = |client: &mut TestClient, epoch| {
        let mut request = fetch_request(0);
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        client.call(FETCH_VERSION, &request).responses[0].partitions[0].error_code
    };
    let mut client = broker.connect();
    assert_eq!(code(&mut client, 0), ErrorCode::NONE);
    assert_eq!(code(&mut client, 1), ErrorCode::UNKNOWN_LEADER_EPOCH);
    // A stop without the marker of a clean one is a crash: the next start leads in a new epoch.
    broker.stop();
    std::fs::remove_file(broker.data_dir().join(".kafka_cleanshutdown")).expect("the marker is there");
    broker.restart();
    let mut client = broker.connect();
    assert_eq!(code(&mut client, 0), ErrorCode::FENCED_LEADER_EPOCH);
    assert_eq!(code(&mut client, 1), ErrorCode::NONE);
}

#[test]
fn a_fetch_waits_for_its_bytes_and_no_longer() {
    let broker = TestBroker::start();
    let (mut reader, mut writer) = (broker.connect(), broker.connect());
    create(&mut writer, 1, &[]);
    let size = batch(&["x"]).bytes.len() as i32;
    let mut request = fetch_request(0);
    (request.min_bytes, request.max_wait_ms) = (2 * size, FOREVER_MS);
    reader.send(FETCH_VERSION, &request);
    append(&mut writer, &batch(&["x"]));
    append(&mut writer, &batch(&["y"]));
    let response = reader.receive::<FetchRequest>(FETCH_VERSION);
    assert_eq!(batches(&response.responses[0].partitions[0]).len(), 2, "one batch was not enough");
}

#[test]
fn a_fetch_whose_time_is_over_answers_what_is_there() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    append(&mut client, &batch(&["x"]));
    let mut request = fetch_request(0);
    (request.min_bytes, request.max_wait_ms) = (1 << 20, 50);
    let response = client.call(FETCH_VERSION, &request);
    assert_eq!(batches(&response.responses[0].partitions[0]).len(), 1);
}

#[test]
fn a_waiting_fetch_learns_that_its_topic_is_gone() {
    let broker = TestBroker::start();
    let (mut reader, mut admin) = (broker.connect(), broker.connect());
    create(&mut admin, 1, &[]);
    let mut request = fetch_request(0);
    request.max_wait_ms = FOREVER_MS;
    reader.send(FETCH_VERSION, &request);
    let topics = vec![DeleteTopicState { name: Some("t".into()), ..Default::default() }];
    admin.ask(&DeleteTopicsRequest { topics, timeout_ms: 10_000, ..Default::default() });
    let response = reader.receive::<FetchRequest>(FETCH_VERSION);
    // The second where it had found the partition and did not wait yet. Both have a client ask for metadata.
    let code = response.responses[0].partitions[0].error_code;
    assert!([ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::NOT_LEADER_OR_FOLLOWER].contains(&code), "{code}");
}

#[test]
fn a_session_sends_only_what_is_new() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 2, &[]);
    let mut request = fetch_request(0);
    let mut second = request.topics[0].partitions[0].clone();
    second.partition = 1;
    request.topics[0].partitions.push(second);
    request.session_epoch = 0;
    let full = client.call(FETCH_VERSION, &request);
    assert_eq!(full.responses[0].partitions.len(), 2);
    let session_id = full.session_id;
    assert_ne!(session_id, 0);
    let mut epoch = 0;
    let mut next = |client: &mut TestClient| -> FetchResponse {
        epoch += 1;
        let request = FetchRequest { session_id, session_epoch: epoch, topics: Vec::new(), ..fetch_request(0) };
        client.call(FETCH_VERSION, &request)
    };
    assert!(next(&mut client).responses.is_empty());
    append(&mut client, &batch(&["x"]));
    let incremental = next(&mut client);
    assert_eq!(incremental.responses[0].partitions.len(), 1);
    assert_eq!(batches(&incremental.responses[0].partitions[0]).len(), 1);
}

#[test]
fn a_flipped_bit_costs_its_batch_and_nothing_else() {
    let mut broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    for value in ["first", "second", "third"] {
        assert_eq!(produce(&mut client, -1, &batch(&[value])).error_code, ErrorCode::NONE);
    }
    broker.stop();
    let path = broker.data_dir().join("t-0/00000000000000000000.log");
    let mut bytes = std::fs::read(&path).expect("the segment is there");
    let position = bytes.windows(6).position(|window| window == b"second").expect("the record is in the segment");
    bytes[position] ^= 1;
    std::fs::write(&path, bytes).expect("the segment can be written");
    for name in [".kafka_cleanshutdown", "recovery-point-offset-checkpoint"] {
        std::fs::remove_file(broker.data_dir().join(name)).expect("the file is there");
    }
    broker.restart();
    let mut client = broker.connect();
    assert_eq!(batches(&fetch(&mut client, 0)).len(), 1);
    assert_eq!(fetch(&mut client, 1).error_code, ErrorCode::CORRUPT_MESSAGE);
    assert_eq!(read(&mut client, 2), [(2, "third".to_owned())]);
    assert_eq!(append(&mut client, &batch(&["fourth"])), (ErrorCode::NONE, 3));
}
