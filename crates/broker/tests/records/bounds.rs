//! What peers may take of the memory, and how long: requests that do not arrive, answers that are not read.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use bytes::BytesMut;
use socket2::{Domain, Socket, Type};
use wire::api::Request;
use wire::api::api_versions::ApiVersionsRequest;
use wire::api::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::api::metadata::{MetadataRequest, MetadataRequestTopic};
use wire::{ErrorCode, frame};

use crate::common::{TestBroker, TestClient};
use crate::{append, batch, create, fetch_request, request};

const REQUEST_BYTES_MAX: usize = 8 << 20;

/// One whose memory for requests is small: that of the largest request, and 16 MiB. The kernel keeps little for it.
fn small_broker() -> TestBroker {
    TestBroker::start_with(&[
        ("socket.request.max.bytes", "8388608"),
        ("queued.max.request.bytes", "1"),
        ("socket.send.buffer.bytes", "65536"),
    ])
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
    for _ in 0..9000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}");
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
    wait_until("those that read nothing are closed", || closed(&broker, "slow_reader") > 0.0);
    assert!(memory_of_answers(&broker) <= limit);
    broker.connect().ask(&ApiVersionsRequest::default());
    drop(unread);
    wait_until("nothing is left", || memory_of_answers(&broker) == 0.0);
}
