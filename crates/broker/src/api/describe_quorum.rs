//! DescribeQuorum (key 55), versions 0-2: the voters and observers of the metadata log, and how far each has got.
//!
//! Behaviour:
//! - Needs: DESCRIBE on the cluster (CLUSTER_AUTHORIZATION_FAILED).
//! - Answers for partition 0 of `__cluster_metadata` alone. A request that names anything else, or more, is
//!   UNKNOWN_TOPIC_OR_PARTITION for each partition that it names.
//! - A request of very many partitions is INVALID_REQUEST as a whole: the answer is much larger than the request.
//! - Any broker takes it; the leader of the quorum answers, as only it knows how far the others are.
//! - Version 2 has the nodes' endpoints and directories (KIP-853). A node on its own has no endpoint for other brokers:
//!   it names those for clients.

use std::sync::Arc;

use metadata::{BrokerEndpoint, CLUSTER_METADATA, MetadataImage};
use quorum::Voter;
use wire::ErrorCode;
use wire::api::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, Listener, Node, PartitionData, PartitionRequest, ReplicaState,
    TopicData, TopicRequest,
};

use super::{RequestContext, quorum_leader};
use crate::Broker;

/// Partitions of one request, where one is what there is.
const PARTITIONS_MAX: usize = 10_000;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DescribeQuorumRequest,
) -> DescribeQuorumResponse {
    if request.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>() > PARTITIONS_MAX {
        return DescribeQuorumResponse { error_code: ErrorCode::INVALID_REQUEST, ..Default::default() };
    }
    if !is_metadata_log(&request.topics) {
        return refuse(request.topics);
    }
    if let Some(answer) = quorum_leader::pass_on(broker, context, &request).await {
        return answer.unwrap_or_else(|error_code| DescribeQuorumResponse { error_code, ..Default::default() });
    }
    let Ok(replicas) = broker.quorum.replicas().await else {
        return DescribeQuorumResponse { error_code: ErrorCode::NOT_CONTROLLER, ..Default::default() };
    };
    let status = broker.quorum.status();
    let states = |votes: bool| {
        let replicas = replicas.iter().filter(move |replica| replica.is_voter == votes);
        replicas.map(|replica| ReplicaState {
            replica_id: replica.key.node_id,
            replica_directory_id: replica.key.directory_id,
            log_end_offset: replica.log_end_offset,
            last_fetch_timestamp: replica.last_heard_ms,
            last_caught_up_timestamp: replica.last_caught_up_ms,
        })
    };
    let partition = PartitionData {
        partition_index: 0,
        error_message: Some(String::new()),
        leader_id: status.leader.unwrap_or(-1),
        leader_epoch: status.epoch,
        high_watermark: status.high_watermark,
        current_voters: states(true).collect(),
        observers: states(false).collect(),
        ..Default::default()
    };
    let image = broker.metadata.load();
    let listener = broker.config().inter_broker_listener();
    DescribeQuorumResponse {
        error_message: Some(String::new()),
        topics: vec![TopicData { topic_name: CLUSTER_METADATA.to_owned(), partitions: vec![partition] }],
        nodes: status.voters.members().map(|member| node(member, &listener, &image)).collect(),
        ..Default::default()
    }
}

fn node(member: &Voter, listener: &str, image: &MetadataImage) -> Node {
    let own = Listener { name: listener.to_owned(), host: member.host.clone(), port: member.port };
    let for_clients = |endpoint: &BrokerEndpoint| Listener {
        name: endpoint.name.clone(),
        host: endpoint.host.clone(),
        port: endpoint.port,
    };
    let listeners = match member.host.is_empty() {
        false => vec![own],
        true => {
            image.broker(member.node_id).map_or_else(Vec::new, |node| node.endpoints.iter().map(for_clients).collect())
        }
    };
    Node { node_id: member.node_id, listeners }
}

fn is_metadata_log(topics: &[TopicRequest]) -> bool {
    matches!(topics, [topic] if topic.topic_name == CLUSTER_METADATA
        && matches!(topic.partitions[..], [PartitionRequest { partition_index: 0 }]))
}

fn refuse(topics: Vec<TopicRequest>) -> DescribeQuorumResponse {
    let refused = |asked: PartitionRequest| PartitionData {
        partition_index: asked.partition_index,
        error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        error_message: Some("This server does not host this topic-partition.".to_owned()),
        ..Default::default()
    };
    let topics = topics.into_iter().map(|topic| TopicData {
        topic_name: topic.topic_name,
        partitions: topic.partitions.into_iter().map(refused).collect(),
    });
    DescribeQuorumResponse { error_message: Some(String::new()), topics: topics.collect(), ..Default::default() }
}

/// The answer to who may not.
pub(super) fn refused(_: &DescribeQuorumRequest, error_code: ErrorCode) -> DescribeQuorumResponse {
    DescribeQuorumResponse { error_code, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::test_support::{TestBroker, context, endpoint, voter};

    fn asked(topic: &str, partitions: impl IntoIterator<Item = i32>) -> DescribeQuorumRequest {
        let partitions = partitions.into_iter().map(|partition_index| PartitionRequest { partition_index });
        DescribeQuorumRequest {
            topics: vec![TopicRequest { topic_name: topic.to_owned(), partitions: partitions.collect() }],
        }
    }

    #[tokio::test]
    async fn voters_and_observers_are_told_apart() {
        let broker = TestBroker::start().await;
        broker.quorum.join(voter(2), false).await.expect("the quorum takes an observer");
        let response = handle(&broker, &context(2), asked(CLUSTER_METADATA, [0])).await;
        assert_eq!((response.error_code, response.topics.len()), (ErrorCode::NONE, 1));
        let partition = &response.topics[0].partitions[0];
        assert_eq!((partition.error_code, partition.leader_id), (ErrorCode::NONE, 1));
        let keys = |replicas: &[ReplicaState]| {
            replicas.iter().map(|replica| (replica.replica_id, replica.replica_directory_id)).collect::<Vec<_>>()
        };
        assert_eq!(keys(&partition.current_voters), [(1, voter(1).directory_id)]);
        assert_eq!(keys(&partition.observers), [(2, voter(2).directory_id)]);
        assert_eq!(partition.current_voters[0].log_end_offset, partition.high_watermark);
        let silent = &partition.observers[0];
        assert_eq!((silent.last_fetch_timestamp, silent.last_caught_up_timestamp), (-1, -1), "it has never answered");

        let addresses = response.nodes.iter().map(|node| {
            let [listener] = &node.listeners[..] else { panic!("{node:?}") };
            (node.node_id, listener.host.as_str(), listener.port)
        });
        assert_eq!(addresses.collect::<Vec<_>>(), [(1, "node-1", 9093), (2, "node-2", 9093)]);
    }

    #[tokio::test]
    async fn a_node_without_a_listener_for_brokers_names_those_for_clients() {
        let broker = TestBroker::start().await;
        let image = broker.metadata.load();
        let alone = Voter { host: String::new(), port: 0, ..voter(1) };
        let client = endpoint("PLAINTEXT", 1);
        let listener = Listener { name: client.name, host: client.host, port: client.port };
        assert_eq!(node(&alone, "BETWEEN", &image).listeners, [listener]);
        let unknown = Voter { host: String::new(), port: 0, ..voter(2) };
        assert!(node(&unknown, "BETWEEN", &image).listeners.is_empty());
        assert_eq!(node(&voter(1), "BETWEEN", &image).listeners[0].name, "BETWEEN");
    }

    #[tokio::test]
    async fn a_quorum_without_a_leader_tells_nothing() {
        let broker = TestBroker::without_quorum();
        let response = handle(&broker, &context(2), asked(CLUSTER_METADATA, [0])).await;
        assert_eq!((response.error_code, response.topics.len()), (ErrorCode::NOT_CONTROLLER, 0));
        // That a topic is none of the quorum's needs no leader.
        let response = handle(&broker, &context(2), asked("t", [0])).await;
        assert_eq!(response.error_code, ErrorCode::NONE);
        assert_eq!(response.topics[0].partitions[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }

    #[tokio::test]
    async fn a_request_has_so_many_partitions_and_no_more() {
        let broker = TestBroker::without_quorum();
        for (count, code, answered) in [(10_000, ErrorCode::NONE, 10_000), (10_001, ErrorCode::INVALID_REQUEST, 0)] {
            let response = handle(&broker, &context(2), asked("t", 0..count)).await;
            let partitions: usize = response.topics.iter().map(|topic| topic.partitions.len()).sum();
            assert_eq!((response.error_code, partitions), (code, answered));
        }
    }
}
