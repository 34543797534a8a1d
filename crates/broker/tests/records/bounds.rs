//! What peers may take of the memory, and how long: requests that do not arrive, answers that are not read.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use platform::Env;
use socket2::{Domain, Socket, Type};
use storage::SimDisk;
use wire::api::Request;
use wire::api::api_versions::ApiVersionsRequest;
use wire::api::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::api::describe_groups::DescribeGroupsRequest;
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::api::metadata::{MetadataRequest, MetadataRequestTopic};
use wire::api::offset_fetch::OffsetFetchRequest;
use wire::api::produce::ProduceRequest;
use wire::{ErrorCode, frame};

use crate::common::{TestBroker, TestClient};
use crate::{PRODUCE_VERSION, append, batch, create, fetch_request, request};

const REQUEST_BYTES_MAX: usize = 8 << 20;

const SMALL: [(&str, &str); 3] =
    [("socket.request.max.bytes", "8388608"), ("queued.max.request.bytes", "1"), ("socket.send.buffer.bytes", "65536")];

/// One whose memory for requests is small: that of the largest request, and 16 MiB. The kernel keeps little for it.
fn small_broker() -> TestBroker {
    TestBroker::start_with(&SMALL)
}

/// The beginning of a Produce that claims to be as large as one may be.
fn claim(broker: &TestBroker, bytes: usize) -> TestClient {
    let mut frame = BytesMut::new();
    frame::write_request(&mut frame, 9, 1, "test", &request(1, 0, &batch(&["v"])));
    frame[..4].copy_from_slice(&(REQUEST_BYTES_MAX as u32).to_be_bytes());
    frame.resize(bytes, 0);
    let mut client = broker.connect();
    client.send_bytes(&frame);
    client
}

fn memory_of_requests(broker: &TestBroker) -> f64 {
    broker.metric("parshall_request_memory_bytes").expect("it is told")
}

fn closed(broker: &TestBroker, reason: &str) -> f64 {
    broker.metric(&format!(r#"parshall_connections_closed_total{{reason="{reason}"}}"#)).expect("it is told")
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    wait_until_within(Duration::from_secs(90), what, is_so);
}

fn wait_until_within(timeout: Duration, what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < timeout, "not within {timeout:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_a_waiting_request_holds_is_charged_until_it_is_answered() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    let mut waiting = fetch_request(0);
    (waiting.max_wait_ms, waiting.rack_id) = (60_000, "r".repeat(20_000));
    client.send(12, &waiting);
    wait_until("it is charged", || memory_of_requests(&broker) >= 20_000.0);
    append(&mut broker.connect(), &batch(&["v"]));
    client.receive_frame().expect("it is answered");
    wait_until("nothing is left", || memory_of_requests(&broker) == 0.0);
}

#[test]
fn what_a_large_request_becomes_is_charged_until_it_is_answered() {
    let broker = small_broker();
    create(&mut broker.connect(), 1, &[]);
    let mut waiting = fetch_request(0);
    waiting.max_wait_ms = 60_000;
    let partitions = &mut waiting.topics[0].partitions;
    *partitions = vec![partitions[0].clone(); 20_000];
    let mut clients = [broker.connect(), broker.connect()];
    clients.iter_mut().for_each(|client| client.send(12, &waiting));
    let memory = || broker.metric("parshall_decoding_memory_bytes").expect("it is told");
    wait_until("it is charged", || memory() >= 1_000_000.0);
    append(&mut broker.connect(), &batch(&["v"]));
    // The second waits for the first, where both would be too much.
    clients.iter_mut().for_each(|client| _ = client.receive_frame().expect("it is answered"));
    wait_until("nothing is left", || memory() == 0.0);
}

#[test]
fn requests_that_wait_for_the_disk_are_charged_for_what_they_take_beside_their_bytes() {
    const CONNECTIONS: usize = 100;
    const REQUESTS: usize = 250;
    let disk = SimDisk::new(1);
    let env = Env { disk: Arc::new(disk.clone()), ..Env::real() };
    // Connections share 16 MiB, which is less than what all that they send would take while it waits.
    let broker = TestBroker::start_in(env, &[&SMALL[..], &[("disk.stall.timeout.ms", "600000")]].concat());
    create(&mut broker.connect(), 1, &[]);
    let mut one = BytesMut::new();
    frame::write_request(
        &mut one,
        PRODUCE_VERSION,
        1,
        "test",
        &ProduceRequest { timeout_ms: 600_000, ..request(-1, 0, &batch(&["v"])) },
    );
    let all = one.repeat(REQUESTS);
    disk.set_hangs(true);
    let mut clients: Vec<TestClient> = (0..CONNECTIONS).map(|_| broker.connect()).collect();
    for client in &mut clients {
        client.send_bytes(&all);
    }
    let share = f64::from(16 << 20);
    wait_until_within(Duration::from_secs(30), "they are charged", || memory_of_requests(&broker) >= share * 0.95);
    std::thread::sleep(Duration::from_millis(200));
    let held = memory_of_requests(&broker);
    disk.set_hangs(false);
    assert!(held <= share * 1.25, "{held} bytes are held");
    for client in &mut clients {
        for _ in 0..REQUESTS {
            client.receive_frame().expect("it is answered when the disk goes on");
        }
    }
    wait_until("nothing is left", || memory_of_requests(&broker) == 0.0);
}

#[test]
fn a_frame_that_does_not_go_on_leaves_room_for_others() {
    let broker = small_broker();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    let almost = REQUEST_BYTES_MAX - 100_000;
    let mut first = claim(&broker, almost);
    wait_until("it has arrived", || memory_of_requests(&broker) >= almost as f64);
    assert!(memory_of_requests(&broker) <= (REQUEST_BYTES_MAX + 4) as f64, "a claim costs no more than it is");
    // What is not small, but not large either.
    let value = "v".repeat(500_000);
    assert_eq!(append(&mut client, &batch(&[&value])), (ErrorCode::NONE, 0));
    // Another as large wants the memory that the first does nothing with.
    let mut second = claim(&broker, almost);
    assert!(first.is_closed());
    wait_until("the reason is counted", || closed(&broker, "slow_frame") == 1.0);
    wait_until("the second has arrived", || memory_of_requests(&broker) >= almost as f64);
    second.send_bytes(&vec![0; REQUEST_BYTES_MAX + 4 - almost]);
    let answer = second.receive_frame().expect("it is whole now");
    assert_eq!(answer[..4], 1i32.to_be_bytes());
    wait_until("nothing is left", || memory_of_requests(&broker) == 0.0);
}

/// An answer of some size, again and again.
fn large_answers(requests: usize) -> (BytesMut, usize) {
    let resource = DescribeConfigsResource { resource_type: 4, resource_name: "1".into(), ..Default::default() };
    let configs =
        DescribeConfigsRequest { resources: vec![resource], include_synonyms: true, include_documentation: true };
    let mut bytes = BytesMut::new();
    for _ in 0..requests {
        frame::write_request(&mut bytes, *DescribeConfigsRequest::API.versions.end(), 1, "test", &configs);
    }
    (bytes, requests)
}

/// A connection on which the kernel keeps little of what is not read.
fn connect_with_small_buffer(broker: &TestBroker) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("there is a socket");
    socket.set_recv_buffer_size(4096).expect("the socket takes its options");
    socket.connect(&broker.address().into()).expect("the broker is reachable");
    socket.into()
}

fn memory_of_answers(broker: &TestBroker) -> f64 {
    broker.metric("parshall_answer_memory_bytes").expect("it is told")
}

#[test]
fn a_request_starts_when_most_of_the_answer_before_has_left() {
    let broker = TestBroker::start();
    let (requests, count) = large_answers(300);
    let mut client = broker.connect();
    let mut writer = client.stream.try_clone().expect("a socket has two ends");
    let sender = std::thread::spawn(move || writer.write_all(&requests).expect("the broker takes them in the end"));
    let answer_bytes = client.receive_frame().expect("the first is answered").len() + 4;
    wait_until("answers wait", || memory_of_answers(&broker) > 0.0);
    std::thread::sleep(Duration::from_millis(200));
    let held = memory_of_answers(&broker) as usize;
    assert!(held <= 64 * 1024 + answer_bytes, "{held} bytes are held of answers of {answer_bytes}");
    for _ in 1..count {
        assert_eq!(client.receive_frame().expect("each is answered").len() + 4, answer_bytes);
    }
    sender.join().expect("all was sent");
    wait_until("nothing is left", || memory_of_answers(&broker) == 0.0);
}

/// A request with an answer of a megabyte.
fn huge_answer() -> BytesMut {
    let topic = |n: usize| MetadataRequestTopic { name: Some(format!("{n:0>249}")), ..Default::default() };
    let topics = Some((0..8000).map(topic).collect());
    let metadata = MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
    let mut bytes = BytesMut::new();
    frame::write_request(&mut bytes, 9, 1, "test", &metadata);
    bytes
}

/// Requests that are answered much by brokers that have much, of one that has little.
fn ask_for_little(client: &mut TestClient, n: i64) {
    let topic = MetadataRequestTopic { name: Some("t".to_owned()), ..Default::default() };
    let metadata = client.ask(&MetadataRequest { topics: Some(vec![topic]), ..Default::default() });
    assert_eq!(metadata.topics[0].partitions.len(), 1);
    let resource = DescribeConfigsResource { resource_type: 2, resource_name: "t".into(), ..Default::default() };
    let configs = client.ask(&DescribeConfigsRequest { resources: vec![resource], ..Default::default() });
    assert_eq!(configs.results[0].error_code, ErrorCode::NONE);
    let group_id = format!("group {n}");
    let join = JoinGroupRequest {
        group_id: group_id.clone(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".to_owned(), ..Default::default() }],
        ..Default::default()
    };
    let mut joined = client.call(3, &join);
    while [ErrorCode::COORDINATOR_NOT_AVAILABLE, ErrorCode::NOT_COORDINATOR, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS]
        .contains(&joined.error_code)
    {
        client.ask(&FindCoordinatorRequest { coordinator_keys: vec![group_id.clone()], ..Default::default() });
        joined = client.call(3, &join);
    }
    assert_eq!(joined.error_code, ErrorCode::NONE);
    let described = client.ask(&DescribeGroupsRequest { groups: vec![group_id.clone()], ..Default::default() });
    assert_eq!(described.groups[0].members.len(), 1);
    let offsets = client.call(7, &OffsetFetchRequest { group_id, topics: None, ..Default::default() });
    assert_eq!(offsets.error_code, ErrorCode::NONE);
}

#[test]
fn who_asks_for_little_does_not_wait_for_those_that_read_slowly() {
    let broker = small_broker();
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    let request = huge_answer();
    let mut unread: Vec<TcpStream> = (0..12)
        .map(|_| {
            let mut stream = connect_with_small_buffer(&broker);
            stream.write_all(&request).expect("the broker takes the request");
            stream.set_nonblocking(true).expect("the socket takes its options");
            stream
        })
        .collect();
    // They take a little of their answers now and then, so that they are not closed.
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    let readers = std::thread::spawn(move || {
        while is_over.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
            for stream in &mut unread {
                _ = stream.read(&mut [0; 4096]);
            }
        }
    });
    wait_until("they hold what their address may have", || memory_of_answers(&broker) >= f64::from(8 << 20));
    for n in 0..20 {
        assert_eq!(append(&mut client, &batch(&["v"])), (ErrorCode::NONE, 2 * n));
        assert_eq!(append(&mut client, &batch(&[&"v".repeat(100_000)])), (ErrorCode::NONE, 2 * n + 1));
        client.send(12, &fetch_request(n));
        client.receive_frame().expect("it is answered");
        broker.connect().ask(&ApiVersionsRequest::default());
        ask_for_little(&mut broker.connect(), n);
    }
    drop(over);
    readers.join().expect("those that read slowly go on");
}

#[test]
fn peers_that_read_nothing_give_way_to_those_that_do() {
    let broker = small_broker();
    let limit = broker.metric("parshall_answer_memory_limit_bytes").expect("it is told");
    let request = huge_answer();
    let unread: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = connect_with_small_buffer(&broker);
            stream.write_all(&request).expect("the broker takes the request");
            stream
        })
        .collect();
    // That takes a second or some, and not the half of a minute that requests wait for memory.
    let is_one_closed = || closed(&broker, "slow_reader") > 0.0;
    wait_until_within(Duration::from_secs(20), "those that read nothing are closed", is_one_closed);
    assert!(memory_of_answers(&broker) <= limit);
    broker.connect().ask(&ApiVersionsRequest::default());
    drop(unread);
    wait_until("nothing is left", || memory_of_answers(&broker) == 0.0);
    assert_eq!(closed(&broker, "no_memory"), 0.0);
}
