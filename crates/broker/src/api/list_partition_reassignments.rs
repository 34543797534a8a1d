//! ListPartitionReassignments (key 46), versions 0-0: partitions that are moving to other brokers.
//!
//! Behaviour:
//! - On a cluster of one broker nothing can move: the list is empty, whatever is asked for. A topic or partition that
//!   does not exist is no error, as in Kafka.

use std::sync::Arc;

use wire::api::list_partition_reassignments::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    _broker: &Arc<Broker>,
    _context: &RequestContext,
    _request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    ListPartitionReassignmentsResponse::default()
}
