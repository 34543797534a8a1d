//! What somebody who reaches the listener of brokers among themselves can do there, and is no broker.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use bytes::{Bytes, BytesMut};
use wire::api::Request;
use wire::api::alter_partition::AlterPartitionRequest;
use wire::api::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use wire::api::broker_heartbeat::BrokerHeartbeatRequest;
use wire::api::broker_registration::BrokerRegistrationRequest;
use wire::api::confirm_sender::{ConfirmSenderRequest, ConfirmSenderResponse, NodeIdentity};
use wire::api::create_topics::{CreatableReplicaAssignment, CreateTopicsRequest};
use wire::api::describe_cluster::DescribeClusterRequest;
use wire::api::describe_node::DescribeNodeRequest;
use wire::api::describe_quorum::{self, DescribeQuorumRequest};
use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic, ReplicaState};
use wire::api::forward::ForwardRequest;
use wire::api::metadata::MetadataRequest;
use wire::api::quorum_hello::QuorumHelloRequest;
use wire::api::quorum_join::{QuorumJoinRequest, VoterNode};
use wire::api::quorum_messages::{QuorumMessage, QuorumMessagesRequest};
use wire::batch::Batches;
use wire::frame::{self, RequestHeader};
use wire::record::RecordReader;
use wire::state::metadata::MetadataRecord;
use wire::{ErrorCode, Reader, Uuid, Writer};

use super::nodes::Nodes;
use super::{batch, create, produce, topic};
use crate::common::TestClient;

const REFUSED: ErrorCode = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;

/// As much of a node as anybody is told.
fn in_the_name_of(node: &VoterNode) -> NodeIdentity {
    NodeIdentity { node_id: node.node_id, directory_id: node.directory_id, incarnation_id: Uuid([7; 16]) }
}

fn raft_id(node: &VoterNode) -> i64 {
    let [a, b, c, d, ..] = node.directory_id.0;
    i64::from(u32::from_be_bytes([a, b, c, d])) << 32 | i64::from(node.node_id + 1)
}

fn forward<R: Request>(sender: &NodeIdentity, request: &R) -> ForwardRequest {
    let version = *R::API.versions.end();
    let mut body = BytesMut::new();
    request.write(&mut Writer::new(&mut body, version, R::API.flexible(version)));
    let (sender, body) = (sender.clone(), body.freeze());
    ForwardRequest { sender, api_key: R::API.key, api_version: version, body, client: None }
}

/// What can be sent in a node's name is refused, and the node at the other end has not heard it.
fn attack(client: &mut TestClient, cluster_id: &str, target: &VoterNode, name: &VoterNode) {
    let sender = in_the_name_of(name);
    let cluster_id = cluster_id.to_owned();
    let (from, to) = (raft_id(name), raft_id(target));
    let heartbeat = QuorumMessage { message_type: 8, from, to, term: 1 << 40, commit: 1 << 40, ..Default::default() };
    let in_bounds = QuorumMessage { term: 1000, commit: 1, ..heartbeat.clone() };
    let vote = QuorumMessage { message_type: 5, commit: 0, is_transfer: true, ..in_bounds.clone() };
    for message in [heartbeat, in_bounds, vote] {
        let messages = vec![message];
        let request = QuorumMessagesRequest { cluster_id: cluster_id.clone(), sender: sender.clone(), messages };
        assert_eq!(client.ask(&request).error_code, REFUSED);
    }
    let topics = CreateTopicsRequest { topics: vec![topic("forged", 1)], timeout_ms: 1000, ..Default::default() };
    let registration = BrokerRegistrationRequest {
        broker_id: name.node_id,
        cluster_id: cluster_id.clone(),
        incarnation_id: sender.incarnation_id,
        log_dirs: vec![name.directory_id],
        ..Default::default()
    };
    let mut forwards = vec![forward(&sender, &topics), forward(&sender, &registration)];
    for broker_epoch in 0..50 {
        let (broker_id, want_shut_down) = (name.node_id, true);
        let leave = BrokerHeartbeatRequest { broker_id, broker_epoch, want_shut_down, ..Default::default() };
        let alter = AlterPartitionRequest { broker_id, broker_epoch, ..Default::default() };
        forwards.extend([forward(&sender, &leave), forward(&sender, &alter)]);
    }
    for request in forwards {
        assert_eq!(client.ask(&request).error_code, REFUSED, "{request:?}");
    }
    let told = client.ask(&DescribeNodeRequest { cluster_id: cluster_id.clone(), sender: sender.clone() });
    assert_eq!((told.error_code, told.metrics.len()), (REFUSED, 0));
    assert_eq!(client.ask(&ConfirmSenderRequest { cluster_id, sender }).error_code, REFUSED);
}

#[test]
fn nobody_speaks_in_the_name_of_a_node() {
    let nodes = Nodes::start();
    let mut epoch = 0;
    for address in &nodes.inter_broker {
        let mut client = TestClient::connect(*address);
        let hello = client.ask(&QuorumHelloRequest::default());
        let cluster_id = hello.cluster_id.expect("the cluster has begun");
        let target = hello.voters.iter().find(|voter| voter.node_id == hello.node_id).expect("it votes");
        let stranger = VoterNode { node_id: 9, directory_id: Uuid([9; 16]), ..VoterNode::default() };
        for name in hello.voters.iter().chain([&stranger]) {
            attack(&mut client, &cluster_id, target, name);
        }
        epoch = epoch.max(hello.leader_epoch);
    }
    let mut client = nodes.node(1);
    create(&mut client, &[topic("t", 1)]);
    let hello = TestClient::connect(nodes.inter_broker[0]).ask(&QuorumHelloRequest::default());
    assert!(hello.leader_epoch < epoch + 100, "{hello:?}");
    let metadata = client.ask(&MetadataRequest::default());
    assert_eq!((metadata.brokers.len(), metadata.topics.len()), (3, 1), "{metadata:?}");
}

/// Takes connections and says yes to whoever asks whether it is a sender.
fn accomplice() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it listens");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut prefix = [0; 4];
            while stream.read_exact(&mut prefix).is_ok() {
                let mut body = vec![0; u32::from_be_bytes(prefix) as usize];
                stream.read_exact(&mut body).expect("the request is whole");
                let body = Bytes::from(body);
                let header = RequestHeader::read(&mut Reader::new(&body, 0, false)).expect("it has a header");
                let mut out = BytesMut::new();
                let (version, id) = (header.api_version, header.correlation_id);
                if header.api_key == ApiVersionsRequest::API.key {
                    let api_keys = vec![ApiVersion { api_key: ConfirmSenderRequest::API.key, ..Default::default() }];
                    let answer = ApiVersionsResponse { api_keys, ..Default::default() };
                    frame::write_response(&mut out, &ApiVersionsRequest::API, version, id, &answer).unwrap();
                } else {
                    let answer = ConfirmSenderResponse::default();
                    frame::write_response(&mut out, &ConfirmSenderRequest::API, version, id, &answer).unwrap();
                }
                if stream.write_all(&out).is_err() {
                    break;
                }
            }
        }
    });
    address
}

#[test]
fn a_node_that_is_there_cannot_be_moved_and_nobody_joins_from_nowhere() {
    let nodes = Nodes::start();
    let free = TcpListener::bind("127.0.0.1:0").expect("there is a free port").local_addr().expect("it listens");
    let mut asked_leaders = 0;
    for address in &nodes.inter_broker {
        let mut client = TestClient::connect(*address);
        let hello = client.ask(&QuorumHelloRequest::default());
        let cluster_id = hello.cluster_id.clone().expect("the cluster has begun");
        let at = |node: &VoterNode, address: SocketAddr| VoterNode {
            host: address.ip().to_string(),
            port: address.port(),
            ..node.clone()
        };
        let new = VoterNode { node_id: 9, directory_id: Uuid([9; 16]), ..VoterNode::default() };
        let with_a_new_disk = VoterNode { directory_id: Uuid([8; 16]), ..hello.voters[1].clone() };
        let mut wrong = vec![at(&new, free), at(&new, nodes.inter_broker[1]), with_a_new_disk];
        wrong.extend(hello.voters.iter().map(|voter| at(voter, free)));
        wrong.extend(hello.voters.iter().map(|voter| at(voter, accomplice())));
        for node in wrong {
            let incarnation_id = Uuid([7; 16]);
            let request =
                QuorumJoinRequest { cluster_id: cluster_id.clone(), node, incarnation_id, wants_to_vote: true };
            let answer = client.ask(&request);
            asked_leaders += usize::from(answer.error_code == REFUSED);
            assert!([REFUSED, ErrorCode::NOT_CONTROLLER].contains(&answer.error_code), "{request:?}: {answer:?}");
        }
        assert_eq!(client.ask(&QuorumHelloRequest::default()).voters, hello.voters);
        assert!(client.ask(&QuorumHelloRequest::default()).observers.is_empty());
    }
    assert!(asked_leaders >= 9, "{asked_leaders}");
}

#[test]
fn nobody_fetches_in_the_name_of_a_follower() {
    let nodes = Nodes::start();
    let mut client = nodes.node(1);
    let assignments = vec![CreatableReplicaAssignment { partition_index: 0, broker_ids: vec![1, 2, 3] }];
    let fooled = wire::api::create_topics::CreatableTopic {
        num_partitions: -1,
        replication_factor: -1,
        assignments,
        ..topic("fooled", -1)
    };
    let topic_id = create(&mut client, &[fooled])[0];
    let records = batch(&[1]);
    while produce(&mut client, "fooled", 0, &records).0 != ErrorCode::NONE {}

    let request = |version: i16, replica_id: i32, replica_epoch: i64| {
        let fetched = FetchPartition {
            fetch_offset: 1,
            partition_max_bytes: 1000,
            synced_offset: if version >= 17 { 1 } else { -1 },
            ..Default::default()
        };
        let topic = if version >= 13 { String::new() } else { "fooled".to_owned() };
        let topic_id = if version >= 13 { topic_id } else { Uuid::ZERO };
        let is_old = version < 15;
        let state = ReplicaState { replica_id, replica_epoch, ..ReplicaState::default() };
        FetchRequest {
            replica_id: if is_old { replica_id } else { -1 },
            replica_state: if is_old { ReplicaState::default() } else { state },
            topics: vec![FetchTopic { topic, topic_id, partitions: vec![fetched] }],
            ..FetchRequest::default()
        }
    };
    let mut between = TestClient::connect(nodes.inter_broker[0]);
    for version in FetchRequest::API.versions {
        for replica_id in [1, 2, 3, 9] {
            for epoch in if version < 15 { -1..0 } else { -1..60 } {
                let answer = between.call(version, &request(version, replica_id, epoch));
                let code = if version < 7 { ErrorCode::NONE } else { ErrorCode::STALE_BROKER_EPOCH };
                assert_eq!((answer.error_code, answer.responses.len()), (code, 0), "{version} {replica_id} {epoch}");
            }
        }
    }
    let answer = client.call(17, &request(17, 2, 1));
    assert_eq!(answer.error_code, REFUSED, "clients are no brokers");
    // Its followers are what they say they are.
    assert_eq!(produce(&mut client, "fooled", 0, &records).0, ErrorCode::NONE);
}

/// The numbers that the processes of the nodes drew at their starts, as their metadata logs have them.
#[allow(clippy::disallowed_methods)]
fn incarnations(nodes: &Nodes) -> Vec<Uuid> {
    let path = nodes.dirs[0].path().join("__cluster_metadata-0/00000000000000000000.log");
    let mut found = Vec::new();
    for batch in Batches::new(Bytes::from(std::fs::read(path).expect("there is a metadata log"))).flatten() {
        let section = batch.records(batch.bytes.len()).expect("it is not compressed");
        for record in RecordReader::new(&batch.header, &section).flatten() {
            let value = Bytes::copy_from_slice(record.value.unwrap_or_default());
            if let (false, Ok(MetadataRecord::RegisterBroker(broker))) =
                (batch.header.attributes.is_control(), MetadataRecord::read(&value))
            {
                found.push(broker.incarnation_id);
            }
        }
    }
    found
}

/// What brokers are known by to each other is told to nobody else.
#[test]
fn nobody_is_told_what_brokers_are_known_by() {
    let nodes = Nodes::start();
    let mut client = nodes.node(1);
    create(&mut client, &[topic("t", 1)]);
    let incarnations = incarnations(&nodes);
    assert_eq!(incarnations.len(), 3);
    let mut between = TestClient::connect(nodes.inter_broker[0]);
    let asked = describe_quorum::TopicRequest {
        topic_name: "__cluster_metadata".to_owned(),
        partitions: vec![describe_quorum::PartitionRequest { partition_index: 0 }],
    };
    for client in [&mut client, &mut between] {
        client.send(13, &MetadataRequest::default());
        client.send(2, &DescribeClusterRequest { include_fenced_brokers: true, ..Default::default() });
        client.send(2, &DescribeQuorumRequest { topics: vec![asked.clone()] });
        client.send(4, &ApiVersionsRequest::default());
    }
    between.send(0, &QuorumHelloRequest::default());
    let answers = (0..4).map(|_| client.receive_frame().expect("it answers"));
    let told = answers.chain((0..5).map(|_| between.receive_frame().expect("it answers"))).collect::<Vec<_>>();
    let pages = nodes.running.iter().map(|(_, server)| Bytes::from(server.metrics().text()));
    for told in told.into_iter().chain(pages) {
        for id in &incarnations {
            let is_told =
                told.windows(16).any(|bytes| bytes == id.0) || told.windows(22).any(|t| t == id.to_string().as_bytes());
            assert!(!is_told, "{id} in {told:?}");
        }
    }
}
