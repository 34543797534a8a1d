//! AlterPartitionReassignments (key 45), versions 0-1: move partitions to other brokers, or end a move (KIP-455).
//!
//! Behaviour:
//! - Needs: ALTER on the cluster (CLUSTER_AUTHORIZATION_FAILED).
//! - New replicas are added first, and old ones removed when the new ones are in sync. Null ends a move and goes back.
//! - From version 1 on a request may refuse to change how many replicas a partition has (KIP-860).

use std::sync::Arc;

use wire::ErrorCode;
use wire::api::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ReassignablePartition,
    ReassignablePartitionResponse, ReassignableTopicResponse,
};

use super::{RequestContext, controlled};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    let answer = controlled::within(request.timeout_ms, context.ask_controller(broker, request));
    answer.await.unwrap_or_else(|error_code| AlterPartitionReassignmentsResponse { error_code, ..Default::default() })
}

/// The answer to who may not.
pub(super) fn refused(
    request: &AlterPartitionReassignmentsRequest,
    error_code: ErrorCode,
) -> AlterPartitionReassignmentsResponse {
    let responses = request.topics.iter().map(|topic| {
        let refused = |partition: &ReassignablePartition| ReassignablePartitionResponse {
            partition_index: partition.partition_index,
            error_code,
            error_message: None,
        };
        let partitions = topic.partitions.iter().map(refused).collect();
        ReassignableTopicResponse { name: topic.name.clone(), partitions }
    });
    AlterPartitionReassignmentsResponse { error_code, responses: responses.collect(), ..Default::default() }
}
