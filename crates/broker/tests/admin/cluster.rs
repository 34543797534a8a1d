//! DescribeCluster, DescribeQuorum, DescribeLogDirs, ElectLeaders, ListPartitionReassignments.

use wire::ErrorCode;
use wire::api::describe_cluster::DescribeClusterRequest;
use wire::api::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::api::describe_log_dirs::{DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResponse};
use wire::api::describe_producers;
use wire::api::describe_quorum::{DescribeQuorumRequest, PartitionRequest, TopicRequest};
use wire::api::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::list_partition_reassignments::ListPartitionReassignmentsRequest;
use wire::api::metadata::MetadataRequest;

use crate::common::{TestBroker, TestClient};
use crate::{batch, create, produce, topic};

#[test]
fn the_cluster_is_one_broker() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    for version in 0..=2 {
        let request = DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
        let response = client.call(version, &request);
        assert_eq!((response.error_code, response.controller_id, response.cluster_id.len()), (ErrorCode::NONE, 1, 22));
        assert_eq!(response.cluster_authorized_operations, 8096);
        assert_eq!(response.brokers.len(), 1);
        let node = &response.brokers[0];
        assert_eq!((node.broker_id, node.host.as_str(), node.is_fenced), (1, "127.0.0.1", false));
        assert_eq!(node.port, i32::from(broker.address().port()));
    }
    let response = client.ask(&DescribeClusterRequest::default());
    assert_eq!(response.cluster_authorized_operations, i32::MIN);
    for (endpoint_type, code) in [(2, ErrorCode::MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode::UNSUPPORTED_ENDPOINT_TYPE)] {
        let response = client.ask(&DescribeClusterRequest { endpoint_type, ..Default::default() });
        assert_eq!((response.error_code, response.brokers.len()), (code, 0));
        assert!(response.error_message.is_some());
    }
}

fn asked(name: &str, partitions: &[i32]) -> TopicRequest {
    TopicRequest {
        topic_name: name.to_owned(),
        partitions: partitions.iter().map(|&partition_index| PartitionRequest { partition_index }).collect(),
    }
}

#[test]
fn the_quorum_is_one_voter_that_has_everything() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    let mut last = -1;
    for version in 0..=2 {
        create(&mut client, &[topic(&format!("t{version}"), 1)]);
        let request = DescribeQuorumRequest { topics: vec![asked("__cluster_metadata", &[0])] };
        let response = client.call(version, &request);
        assert_eq!(response.error_code, ErrorCode::NONE);
        let partition = &response.topics[0].partitions[0];
        assert_eq!((partition.error_code, partition.leader_id), (ErrorCode::NONE, 1));
        assert!(partition.leader_epoch >= 0 && partition.high_watermark > last);
        last = partition.high_watermark;
        assert_eq!((partition.current_voters.len(), partition.observers.len()), (1, 0));
        let voter = &partition.current_voters[0];
        assert_eq!((voter.replica_id, voter.log_end_offset), (1, partition.high_watermark));
        assert_eq!(voter.last_caught_up_timestamp > 0, version >= 1);
        assert_eq!(response.nodes.len(), usize::from(version >= 2));
    }
}

#[test]
fn only_the_metadata_log_has_a_quorum() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("t", 1)]);
    for topics in [
        vec![asked("t", &[0])],
        vec![asked("__cluster_metadata", &[1])],
        vec![asked("__cluster_metadata", &[0, 1])],
        vec![asked("__cluster_metadata", &[0]), asked("t", &[0])],
    ] {
        let response = client.ask(&DescribeQuorumRequest { topics });
        assert_eq!((response.error_code, response.nodes.len()), (ErrorCode::NONE, 0));
        let mut partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        assert!(partitions.all(|partition| partition.error_code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    }
    assert!(client.ask(&DescribeQuorumRequest::default()).topics.is_empty());
}

fn sizes(response: &DescribeLogDirsResponse) -> Vec<(&str, i32, i64)> {
    let topics = response.results.iter().flat_map(|dir| &dir.topics);
    topics.flat_map(|t| t.partitions.iter().map(|p| (t.name.as_str(), p.partition_index, p.partition_size))).collect()
}

#[test]
fn log_dirs_have_the_sizes_of_the_logs() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("b", 2), topic("a", 1)]);
    let records = batch(&[1, 2, 3]);
    produce(&mut client, "b", 1, &records);
    let size = records.bytes.len() as i64;

    let response = client.ask(&DescribeLogDirsRequest { topics: None });
    assert_eq!((response.error_code, response.results.len()), (ErrorCode::NONE, 1));
    let dir = &response.results[0];
    assert_eq!((dir.error_code, dir.log_dir.as_str()), (ErrorCode::NONE, broker.data_dir().to_str().unwrap()));
    assert!(dir.usable_bytes > 0 && dir.total_bytes >= dir.usable_bytes && !dir.is_cordoned);
    assert_eq!(sizes(&response), [("a", 0, 0), ("b", 0, 0), ("b", 1, size)]);
    assert!(dir.topics.iter().flat_map(|t| &t.partitions).all(|p| p.offset_lag == 0 && !p.is_future_key));

    let named = |topic: &str, partitions: &[i32]| DescribableLogDirTopic {
        topic: topic.to_owned(),
        partitions: partitions.to_vec(),
    };
    let topics = vec![named("b", &[1, 9, 1]), named("nope", &[0]), named("b", &[1]), named("a", &[])];
    for version in 1..=5 {
        let response = client.call(version, &DescribeLogDirsRequest { topics: Some(topics.clone()) });
        assert_eq!(sizes(&response), [("b", 1, size)]);
    }
    let response = client.ask(&DescribeLogDirsRequest { topics: Some(Vec::new()) });
    assert_eq!((response.results.len(), sizes(&response).len()), (1, 0));
}

#[test]
fn no_election_is_needed() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("t", 2)]);
    let ask =
        |topic: &str, partitions: &[i32]| TopicPartitions { topic: topic.into(), partitions: partitions.to_vec() };
    let asked = Some(vec![ask("t", &[0, 1, 9]), ask("nope", &[0])]);
    let request = |election_type, topic_partitions: &Option<Vec<TopicPartitions>>, timeout_ms| ElectLeadersRequest {
        election_type,
        topic_partitions: topic_partitions.clone(),
        timeout_ms,
    };
    for (version, election_type) in [(0, 0), (1, 0), (2, 0), (2, 1)] {
        let response = client.call(version, &request(election_type, &asked, 1000));
        assert_eq!(response.error_code, ErrorCode::NONE);
        let results = response.replica_election_results.iter().flat_map(|topic| &topic.partition_result);
        let codes: Vec<_> = results.map(|result| result.error_code).collect();
        let (not_needed, unknown) = (ErrorCode::ELECTION_NOT_NEEDED, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        assert_eq!(codes, [not_needed, not_needed, unknown, unknown]);
    }
    let response = client.ask(&request(0, &None, 1000));
    let all: Vec<_> =
        response.replica_election_results.iter().map(|t| (t.topic.as_str(), t.partition_result.len())).collect();
    assert_eq!((response.error_code, all), (ErrorCode::NONE, vec![("t", 0)]));
    for (election_type, timeout_ms, code) in [
        (2, 1000, ErrorCode::INVALID_REQUEST),
        (-1, 1000, ErrorCode::INVALID_REQUEST),
        (0, 0, ErrorCode::REQUEST_TIMED_OUT),
    ] {
        let response = client.ask(&request(election_type, &asked, timeout_ms));
        assert_eq!(response.error_code, code);
        let mut results = response.replica_election_results.iter().flat_map(|topic| &topic.partition_result);
        assert!(results.all(|result| result.error_code == code));
    }
}

#[test]
fn nothing_is_being_moved() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    let response = client.ask(&ListPartitionReassignmentsRequest::default());
    assert_eq!((response.error_code, response.topics.len()), (ErrorCode::NONE, 0));
}

#[test]
fn a_client_is_told_the_address_of_the_listener_that_it_came_to() {
    let broker = TestBroker::start_with(&[
        ("listeners", "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"),
        ("listener.security.protocol.map", "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"),
        ("advertised.listeners", "INSIDE://127.0.0.1:0,OUTSIDE://kafka.example.com:9094"),
    ]);
    let mut inside = broker.connect();
    let mut outside = broker.connect_to(1);
    let told = |client: &mut TestClient| {
        let metadata = client.ask(&MetadataRequest { topics: Some(Vec::new()), ..Default::default() });
        let cluster = client.ask(&DescribeClusterRequest::default());
        let group = FindCoordinatorRequest { coordinator_keys: vec!["g".to_owned()], ..Default::default() };
        let coordinator = client.ask(&group).coordinators.remove(0);
        let address = (coordinator.host, coordinator.port);
        assert_eq!((metadata.brokers[0].host.clone(), metadata.brokers[0].port), address);
        assert_eq!((cluster.brokers[0].host.clone(), cluster.brokers[0].port), address);
        address
    };
    assert_eq!(told(&mut inside), ("127.0.0.1".to_owned(), i32::from(broker.address().port())));
    assert_eq!(told(&mut outside), ("kafka.example.com".to_owned(), 9094));
}

#[test]
fn the_answer_to_an_absurd_request_is_small() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    let indexes: Vec<i32> = (0..200_000).collect();
    let partitions = Some(vec![TopicPartitions { topic: "t".to_owned(), partitions: indexes.clone() }]);
    let request = ElectLeadersRequest { topic_partitions: partitions, timeout_ms: 1000, ..Default::default() };
    let response = client.ask(&request);
    assert_eq!(response.error_code, ErrorCode::INVALID_REQUEST);
    assert!(response.replica_election_results.is_empty());

    let request = DescribeQuorumRequest { topics: vec![asked("__cluster_metadata", &indexes)] };
    let response = client.ask(&request);
    assert_eq!((response.error_code, response.topics.len()), (ErrorCode::INVALID_REQUEST, 0));

    let topics = vec![describe_producers::TopicRequest { name: "t".to_owned(), partition_indexes: indexes }];
    let response = client.ask(&describe_producers::DescribeProducersRequest { topics });
    assert_eq!(response.topics[0].partitions.len(), 200_000);
    assert!(response.topics[0].partitions.iter().all(|partition| partition.error_message.is_none()));

    let resource = |n: usize| DescribeConfigsResource {
        resource_type: 32,
        resource_name: format!("group-{n}"),
        ..Default::default()
    };
    let resources = (0..160_000).map(resource).collect();
    let response = client.ask(&DescribeConfigsRequest { resources, ..Default::default() });
    assert_eq!(response.results[0].error_code, ErrorCode::NONE);
    assert_eq!(response.results[159_999].error_code, ErrorCode::POLICY_VIOLATION);
    let settings: usize = response.results.iter().map(|result| result.configs.len()).sum();
    assert!((150_000..151_000).contains(&settings), "{settings}");

    let request = DescribeConfigsRequest { resources: vec![resource(0); 160_000], ..Default::default() };
    assert_eq!(client.ask(&request).results.len(), 1, "what is named twice is answered once");
}
