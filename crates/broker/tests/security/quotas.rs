//! Clients beyond their quotas: what they are told, how long they are not read, and that nobody else waits.
//!
//! A connection that is throttled stays so for a while, so that what follows mostly comes over another one.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use wire::Records;
use wire::api::alter_client_quotas::{AlterClientQuotasRequest, AlterationEntry, EntityData, OpData};
use wire::api::create_partitions::{CreatePartitionsRequest, CreatePartitionsTopic};
use wire::api::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::api::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::api::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use wire::api::metadata::MetadataRequestTopic;
use wire::api::produce::{PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData};
use wire::batch::{Batch, BatchBuilder};

use super::*;

/// Names topics, so that no id has to be carried about.
const PRODUCE_VERSION: i16 = 12;
const FETCH_VERSION: i16 = 12;
const METADATA_VERSION: i16 = 12;

const USER: (&str, Option<&str>) = ("user", Some("alice"));
/// The client id of all clients of these tests.
const CLIENT: (&str, Option<&str>) = ("client-id", Some("test"));

/// A broker with the topic `t`, and a connection of somebody without quotas.
fn start(settings: &[(&str, &str)]) -> (TestBroker, TestClient) {
    let broker = broker(settings);
    let mut admin = broker.connect();
    assert_eq!(create(&mut admin, 7, "t", 1).0, ErrorCode::NONE);
    (broker, admin)
}

fn connect(broker: &TestBroker, token: &[u8]) -> TestClient {
    let mut client = broker.connect_to(1);
    assert_eq!(log_in(&mut client, token).error_code, ErrorCode::NONE);
    client
}

/// Sets a quota, or removes it.
fn set(admin: &mut TestClient, entity: &[(&str, Option<&str>)], key: &str, value: Option<f64>) {
    let part = |(entity_type, name): &(&str, Option<&str>)| EntityData {
        entity_type: (*entity_type).to_owned(),
        entity_name: name.map(str::to_owned),
    };
    let op = OpData { key: key.to_owned(), value: value.unwrap_or(0.0), remove: value.is_none() };
    let entry = AlterationEntry { entity: entity.iter().map(part).collect(), ops: vec![op] };
    let response = admin.ask(&AlterClientQuotasRequest { entries: vec![entry], ..Default::default() });
    assert_eq!(response.entries[0].error_code, ErrorCode::NONE, "{response:?}");
}

fn produce_request(acks: i16, bytes: usize) -> ProduceRequest {
    let mut builder = BatchBuilder::new();
    builder.push(1_700_000_000_000, None, Some(&vec![b'x'; bytes]), &[]);
    request_of(acks, &builder.build())
}

fn request_of(acks: i16, batch: &Batch) -> ProduceRequest {
    let records = Some(Records::Inline(batch.bytes.clone()));
    let partition_data = vec![PartitionProduceData { index: 0, records }];
    let topic = TopicProduceData { name: "t".to_owned(), partition_data, ..Default::default() };
    ProduceRequest { acks, timeout_ms: 10_000, topic_data: vec![topic], ..Default::default() }
}

/// Produces a record of so many bytes, which arrives. Returns how long its client is throttled.
fn produce(client: &mut TestClient, bytes: usize) -> i32 {
    let response: ProduceResponse = client.call(PRODUCE_VERSION, &produce_request(-1, bytes));
    assert_eq!(response.responses[0].partition_responses[0].error_code, ErrorCode::NONE);
    response.throttle_time_ms
}

fn fetch(client: &mut TestClient, session: (i32, i32), offset: i64) -> FetchResponse {
    let partition = FetchPartition { fetch_offset: offset, partition_max_bytes: 1 << 20, ..Default::default() };
    let topics = vec![FetchTopic { topic: "t".to_owned(), partitions: vec![partition], ..Default::default() }];
    let (session_id, session_epoch) = session;
    let request = FetchRequest {
        replica_id: -1,
        min_bytes: 1,
        max_bytes: 1 << 20,
        topics,
        session_id,
        session_epoch,
        ..Default::default()
    };
    client.call(FETCH_VERSION, &request)
}

fn record_bytes(response: &FetchResponse) -> usize {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| partition.records.as_ref().map_or(0, Records::len)).sum()
}

/// The code of a topic's creation, and how long the client is throttled.
fn create(client: &mut TestClient, version: i16, name: &str, num_partitions: i32) -> (ErrorCode, i32) {
    let topic = CreatableTopic { name: name.to_owned(), num_partitions, replication_factor: 1, ..Default::default() };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let response = client.call(version, &request);
    (response.topics[0].error_code, response.throttle_time_ms)
}

/// Asks for something, and nothing comes of it yet.
fn is_muted(client: &mut TestClient) -> bool {
    client.stream.set_nonblocking(true).expect("the socket takes its options");
    let peeked = client.stream.peek(&mut [0]).map_err(|error| error.kind());
    client.stream.set_nonblocking(false).expect("the socket takes its options");
    peeked == Err(ErrorKind::WouldBlock)
}

#[test]
fn a_producer_beyond_its_quota_is_told_and_not_read_for_so_long() {
    let (broker, mut admin) = start(&[]);
    // Ten seconds' worth may come at once.
    set(&mut admin, &[USER], "producer_byte_rate", Some(10_000.0));
    let [mut alice, mut bob] = [ALICE, b"\0bob\0bob-secret"].map(|token| connect(&broker, token));
    let began = Instant::now();
    let throttle_time_ms = produce(&mut alice, 103_000);
    assert!((200..400).contains(&throttle_time_ms), "{throttle_time_ms}");
    alice.send(METADATA_VERSION, &MetadataRequest::default());
    assert_eq!(produce(&mut bob, 103_000), 0, "it is not bob's quota");
    alice.receive::<MetadataRequest>(METADATA_VERSION);
    assert!(began.elapsed() >= Duration::from_millis(throttle_time_ms as u64));
    let throttled = |name: &str| broker.metric(&format!("parshall_quota_{name}{{quota=\"producer_byte_rate\"}}"));
    assert_eq!(throttled("throttles_total"), Some(1.0));
    assert_eq!(throttled("throttle_seconds_total"), Some(f64::from(throttle_time_ms) / 1000.0));
    assert_eq!(broker.metric("parshall_quota_buckets"), Some(1.0));
    assert!(record_bytes(&fetch(&mut admin, (0, -1), 0)) > 2 * 103_000, "both have arrived");
}

#[test]
fn a_producer_that_wants_no_answer_is_not_read_either() {
    let (broker, mut admin) = start(&[]);
    set(&mut admin, &[USER], "producer_byte_rate", Some(10_000.0));
    let mut alice = connect(&broker, ALICE);
    let began = Instant::now();
    alice.send(PRODUCE_VERSION, &produce_request(0, 105_000));
    alice.send(METADATA_VERSION, &MetadataRequest::default());
    alice.receive::<MetadataRequest>(METADATA_VERSION);
    assert!(began.elapsed() >= Duration::from_millis(500));
}

#[test]
fn a_connection_that_is_throttled_is_not_idle() {
    let (broker, mut admin) = start(&[("connections.max.idle.ms", "300")]);
    set(&mut admin, &[USER], "producer_byte_rate", Some(10_000.0));
    let mut alice = connect(&broker, ALICE);
    let throttle_time_ms = produce(&mut alice, 115_000);
    assert!(throttle_time_ms > 1000, "{throttle_time_ms}");
    // The beginning of a request is no frame that is late, whatever comes of it later.
    alice.send(METADATA_VERSION, &MetadataRequest::default());
    alice.receive::<MetadataRequest>(METADATA_VERSION);
    // Afterwards it is idle as others are.
    assert!(alice.is_closed());
}

#[test]
fn a_consumer_beyond_its_quota_gets_nothing_and_goes_on() {
    let (broker, mut admin) = start(&[]);
    (0..3).for_each(|_| _ = produce(&mut admin, 9000));
    set(&mut admin, &[USER], "consumer_byte_rate", Some(1000.0));
    let mut alice = connect(&broker, ALICE);
    let first = fetch(&mut alice, (0, 0), 0);
    assert_eq!((record_bytes(&first), first.throttle_time_ms), (10_000, 0), "ten seconds' worth");
    let second = fetch(&mut alice, (first.session_id, 1), 1);
    assert!(second.responses.is_empty(), "{second:?}");
    assert!((8000..=10_000).contains(&second.throttle_time_ms), "{}", second.throttle_time_ms);
    assert_eq!((second.error_code, second.session_id), (ErrorCode::NONE, first.session_id));
    alice.send(METADATA_VERSION, &MetadataRequest::default());
    // Who has no session gets none as long as there is nothing for it.
    let third = fetch(&mut connect(&broker, ALICE), (0, 0), 1);
    assert_eq!((record_bytes(&third), third.session_id), (0, 0));
    assert!(third.throttle_time_ms > 0);
    let whole = fetch(&mut admin, (0, -1), 0);
    assert_eq!(whole.throttle_time_ms, 0);
    assert!(record_bytes(&whole) > 3 * 9000);
    assert!(is_muted(&mut alice));
    // The session is where it was, and what was not sent did not count.
    set(&mut admin, &[USER], "consumer_byte_rate", Some(10_000.0));
    let fourth = fetch(&mut connect(&broker, ALICE), (first.session_id, 2), 1);
    assert_eq!(fourth.throttle_time_ms, 0);
    assert!(record_bytes(&fourth) > 2 * 9000);
}

#[test]
fn every_answer_says_how_long_the_time_of_requests_is_throttled() {
    let (broker, mut admin) = start(&[]);
    produce(&mut admin, 9000);
    set(&mut admin, &[USER], "request_percentage", Some(1e-9));
    let told = |ask: &dyn Fn(&mut TestClient) -> i32| ask(&mut connect(&broker, ALICE));
    assert_eq!(told(&|alice| alice.ask(&MetadataRequest::default()).throttle_time_ms), 1000, "a window at most");
    assert_eq!(told(&|alice| produce(alice, 10)), 1000);
    // Behind the field are records that leave from their file.
    let fetched = |alice: &mut TestClient| {
        let response = fetch(alice, (0, -1), 0);
        assert!(record_bytes(&response) > 9000);
        response.throttle_time_ms
    };
    assert_eq!(told(&fetched), 1000);
    // Before version 3 there is no such field.
    let mut alice = connect(&broker, ALICE);
    let began = Instant::now();
    (0..2).for_each(|_| _ = alice.call(2, &MetadataRequest::default()));
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(admin.ask(&MetadataRequest::default()).throttle_time_ms, 0);
}

#[test]
fn who_uses_new_producer_ids_all_the_time_waits() {
    let (broker, mut admin) = start(&[]);
    // Ten of them may come at once.
    set(&mut admin, &[USER], "producer_ids_rate", Some(1.0));
    let mut alice = connect(&broker, ALICE);
    let mut produce_as = |producer_id: i64, base_sequence: i32| {
        let mut builder = BatchBuilder::new().producer(producer_id, 0, base_sequence);
        builder.push(1_700_000_000_000, None, Some(b"x"), &[]);
        let response = alice.call(PRODUCE_VERSION, &request_of(1, &builder.build()));
        assert_eq!(response.responses[0].partition_responses[0].error_code, ErrorCode::NONE);
        response.throttle_time_ms
    };
    // One that goes on, or sends something again, is not new.
    assert!((0..50).all(|sequence| produce_as(1, sequence) == 0));
    assert_eq!(produce_as(1, 49), 0);
    assert!((2..11).all(|id| produce_as(id, 0) == 0));
    assert!(produce_as(11, 0) > 0);
}

#[test]
fn partitions_beyond_a_quota_are_not_created_or_deleted() {
    let (broker, mut admin) = start(&[]);
    assert_eq!(create(&mut admin, 7, "u", 1).0, ErrorCode::NONE);
    set(&mut admin, &[USER], "controller_mutation_rate", Some(1.0));
    let alice = || connect(&broker, ALICE);
    assert_eq!(create(&mut alice(), 7, "t", 1000).0, ErrorCode::TOPIC_ALREADY_EXISTS, "that counts nothing");
    assert_eq!(create(&mut alice(), 7, "a", 60), (ErrorCode::NONE, 0), "there was something left");
    let (code, throttle_time_ms) = create(&mut alice(), 7, "b", 1);
    assert_eq!(code, ErrorCode::THROTTLING_QUOTA_EXCEEDED);
    assert!(throttle_time_ms > 20_000, "{throttle_time_ms}");
    let (code, throttle_time_ms) = create(&mut alice(), 5, "c", 1);
    assert_eq!(code, ErrorCode::NONE, "an old client does not know the error");
    assert!(throttle_time_ms > 20_000, "{throttle_time_ms}");

    let exceeded = ErrorCode::THROTTLING_QUOTA_EXCEEDED;
    let grown = |version| {
        let topic = CreatePartitionsTopic { name: "t".to_owned(), count: 2, ..Default::default() };
        let request = CreatePartitionsRequest { topics: vec![topic], timeout_ms: 10_000, validate_only: false };
        let response = alice().call(version, &request);
        (response.results[0].error_code, response.throttle_time_ms > 0)
    };
    assert_eq!((grown(3), grown(2)), ((exceeded, true), (ErrorCode::NONE, true)));
    let deleted = |version| {
        let state = |name: &str| DeleteTopicState { name: Some(name.to_owned()), ..Default::default() };
        let (topics, topic_names) = (vec![state("u"), state("nope")], vec!["u".to_owned(), "nope".to_owned()]);
        let response = alice().call(version, &DeleteTopicsRequest { topics, topic_names, timeout_ms: 10_000 });
        let mut codes: Vec<_> = response.responses.iter().map(|topic| topic.error_code).collect();
        codes.sort_by_key(|code| code.0);
        (codes, response.throttle_time_ms > 0)
    };
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(deleted(6), (vec![unknown, exceeded], true));
    assert_eq!(deleted(4), (vec![ErrorCode::NONE, unknown], true));
    // Nor is what comes into being because somebody asks for it.
    let asked = |client: &mut TestClient, name: &str| {
        let topic = MetadataRequestTopic { name: Some(name.to_owned()), ..Default::default() };
        let request =
            MetadataRequest { topics: Some(vec![topic]), allow_auto_topic_creation: true, ..Default::default() };
        (0..2).map(|_| client.ask(&request).topics[0].error_code).last()
    };
    assert_eq!(asked(&mut alice(), "e"), Some(unknown));
    assert_eq!(asked(&mut admin, "e"), Some(ErrorCode::NONE));
    assert_eq!(create(&mut admin, 7, "d", 60), (ErrorCode::NONE, 0), "it is not the admin's quota");
}

#[test]
fn a_quota_of_the_user_and_client_counts_before_that_of_the_user_as_long_as_it_is_there() {
    let (broker, mut admin) = start(&[]);
    let key = "producer_byte_rate";
    set(&mut admin, &[USER], key, Some(1000.0));
    set(&mut admin, &[USER, CLIENT], key, Some(1e9));
    let throttled = || produce(&mut connect(&broker, ALICE), 20_000) > 0;
    assert!(!throttled());
    set(&mut admin, &[USER, CLIENT], key, None);
    assert!(throttled());
    set(&mut admin, &[USER], key, None);
    assert!(!throttled());
}

#[test]
fn an_address_that_connects_too_often_is_not_served() {
    let (broker, mut admin) = start(&[]);
    let entity = ("ip", Some("127.0.0.1"));
    set(&mut admin, &[entity], "connection_creation_rate", Some(1.0));
    for _ in 0..10 {
        assert!(is_served(&mut broker.connect()));
    }
    assert!(broker.connect().is_closed());
    let refused = "parshall_connections_refused_total{limit=\"connection_creation_rate\"}";
    assert_eq!(broker.metric(refused), Some(1.0));
    set(&mut admin, &[entity], "connection_creation_rate", None);
    assert!(is_served(&mut broker.connect()));
}
