//! DescribeQuorum (key 55), versions 0-2: the voters of the metadata log and how far each of them is.
//!
//! Behaviour:
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
    let status = broker.quorum.status().borrow().clone();
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
