//! ListPartitionReassignments (key 46), versions 0-0: partitions that are moving to other brokers.
//!
//! Behaviour:
//! - Needs: DESCRIBE on the cluster (CLUSTER_AUTHORIZATION_FAILED).
//! - All of them (null), or those of the partitions that are named. A topic or partition that does not exist is no
//!   error, as in Kafka.
//! - Its timeout is not looked at, as in Kafka (`ReplicationControlManager.listPartitionReassignments`).
//! - The controller answers: a client finds a move that it has just begun at any broker.

use std::sync::Arc;

use wire::ErrorCode;
use wire::api::list_partition_reassignments::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    let answer = context.ask_controller(broker, request).await;
    answer.unwrap_or_else(|error| ListPartitionReassignmentsResponse { error_code: error.code(), ..Default::default() })
}

/// The answer to who may not.
pub(super) fn refused(
    _: &ListPartitionReassignmentsRequest,
    error_code: ErrorCode,
) -> ListPartitionReassignmentsResponse {
    ListPartitionReassignmentsResponse { error_code, ..Default::default() }
}
