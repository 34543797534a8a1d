//! DescribeQuorum (key 55), versions 0-2: the voters of the metadata log and how far each of them is.
//!
//! Behaviour:
//! - Answers for partition 0 of `__cluster_metadata` alone. A request that names anything else, or more, is
//!   UNKNOWN_TOPIC_OR_PARTITION for each partition that it names.
//! - A request of very many partitions is INVALID_REQUEST as a whole: the answer is much larger than the request.
//! - Version 2 has the nodes' endpoints (KIP-853): those for clients, since the quorum has none of its own.
//! - The voter's directory id is zero, as for voters that are configured and not in the metadata log.

use std::sync::Arc;

use wire::api::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, Listener, Node, PartitionData, PartitionRequest, ReplicaState,
    TopicData, TopicRequest,
};
use wire::{ErrorCode, Uuid};

use super::RequestContext;
use crate::Broker;
use crate::meta::{BrokerEndpoint, CLUSTER_METADATA};

/// Partitions of one request, where one is what there is.
const PARTITIONS_MAX: usize = 10_000;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: DescribeQuorumRequest,
) -> DescribeQuorumResponse {
    if request.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>() > PARTITIONS_MAX {
        return DescribeQuorumResponse { error_code: ErrorCode::INVALID_REQUEST, ..Default::default() };
    }
    if !is_metadata_log(&request.topics) {
        return refuse(request.topics);
    }
    // The image is what this node has applied; as the only voter it has committed all that it has.
    let image = broker.metadata.load();
    let end_offset = image.offset() + 1;
    let now_ms = broker.env.clock.now().wall_ms;
    let voter = ReplicaState {
        replica_id: broker.node_id,
        replica_directory_id: Uuid::ZERO,
        log_end_offset: end_offset,
        last_fetch_timestamp: now_ms,
        last_caught_up_timestamp: now_ms,
    };
    let partition = PartitionData {
        partition_index: 0,
        error_message: Some(String::new()),
        leader_id: broker.node_id,
        leader_epoch: image.epoch(),
        high_watermark: end_offset,
        current_voters: vec![voter],
        ..Default::default()
    };
    let listeners = image.broker(broker.node_id).map_or_else(Vec::new, |node| {
        let listener = |endpoint: &BrokerEndpoint| Listener {
            name: endpoint.name.clone(),
            host: endpoint.host.clone(),
            port: endpoint.port,
        };
        node.endpoints.iter().map(listener).collect()
    });
    DescribeQuorumResponse {
        error_message: Some(String::new()),
        topics: vec![TopicData { topic_name: CLUSTER_METADATA.to_owned(), partitions: vec![partition] }],
        nodes: vec![Node { node_id: broker.node_id, listeners }],
        ..Default::default()
    }
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
