//! What nodes do for each other does not wait for clients, however busy these keep the threads that serve them.

use std::io::ErrorKind;
use std::thread::sleep;
use std::time::Duration;

use bytes::BytesMut;
use wire::api::Request;
use wire::api::api_versions::ApiVersionsRequest;
use wire::api::create_topics::CreateTopicsRequest;
use wire::api::fetch::FetchRequest;
use wire::api::metadata::MetadataRequest;
use wire::api::quorum_hello::{QuorumHelloRequest, QuorumHelloResponse};
use wire::frame;

use super::nodes::Nodes;
use super::topic;
use crate::common::TestClient;

/// Longer than a broker may be silent, and than a leader of the quorum may.
const SILENCE: Duration = Duration::from_millis(2500);
/// So often that is tried: a machine that is busy itself may keep anything waiting.
const ATTEMPTS_MAX: usize = 10;

fn hello(nodes: &Nodes, id: i32) -> QuorumHelloResponse {
    TestClient::connect(nodes.inter_broker[id as usize - 1]).ask(&QuorumHelloRequest::default())
}

/// Whether for longer than a node may be silent the quorum keeps its leader and commits, and no node of two is fenced.
fn goes_on(nodes: &Nodes, busy: i32, free: i32, topic_name: &str) -> bool {
    let mut client = nodes.node(free);
    let before = hello(nodes, busy);
    sleep(SILENCE);
    let topics = vec![topic(topic_name, 1)];
    let created = client.ask(&CreateTopicsRequest { topics, timeout_ms: 10_000, ..Default::default() });
    let brokers = client.ask(&MetadataRequest::default()).brokers;
    let after = hello(nodes, busy);
    let is_same =
        before.leader_id >= 0 && (before.leader_id, before.leader_epoch) == (after.leader_id, after.leader_epoch);
    is_same && created.topics[0].error_code.is_none() && brokers.iter().any(|broker| broker.node_id == busy)
}

#[test]
fn a_node_whose_threads_are_busy_with_clients_goes_on_in_its_cluster() {
    let mut nodes = Nodes::start();
    let leader = loop {
        let told = hello(&nodes, 1);
        if told.leader_id >= 0 {
            break told.leader_id;
        }
    };
    let [follower, gone] = [leader % 3 + 1, (leader + 1) % 3 + 1];
    // Now nothing is committed without both of them.
    nodes.stop(gone);
    for (busy, free) in [(follower, leader), (leader, follower)] {
        let occupied = nodes.occupy(busy);
        let mut attempts = 0..ATTEMPTS_MAX;
        let is_well = attempts.any(|attempt| goes_on(&nodes, busy, free, &format!("t-{busy}-{attempt}")));
        assert!(is_well, "node {busy} is lost to its cluster while clients keep it busy");
        drop(occupied);
    }
}

#[test]
fn what_carries_records_between_nodes_is_served_where_clients_are() {
    let nodes = Nodes::start();
    let occupied = nodes.occupy(1);
    let mut follower = TestClient::connect(nodes.inter_broker[0]);
    // Both at once, as a client may that knows the versions.
    let (versions, fetch) = (ApiVersionsRequest::default(), FetchRequest::default());
    let fetch_version = *FetchRequest::API.versions.end();
    let mut both = BytesMut::new();
    frame::write_request(&mut both, 0, 1, "test", &versions);
    frame::write_request(&mut both, fetch_version, 2, "test", &fetch);
    follower.send_bytes(&both);
    assert!(!follower.receive::<ApiVersionsRequest>(0).api_keys.is_empty());
    // By then it would have been answered with these.
    let mut other = TestClient::connect(nodes.inter_broker[0]);
    for _ in 0..100 {
        assert_eq!(other.ask(&QuorumHelloRequest::default()).node_id, 1);
    }
    follower.stream.set_nonblocking(true).expect("the socket takes its options");
    let waits = follower.stream.peek(&mut [0]).expect_err("a Fetch does not wait for the threads of clients");
    assert_eq!(waits.kind(), ErrorKind::WouldBlock);
    follower.stream.set_nonblocking(false).expect("the socket takes its options");
    drop(occupied);
    follower.receive::<FetchRequest>(fetch_version);
    assert_eq!(other.ask(&QuorumHelloRequest::default()).node_id, 1);
}
