//! ListPartitionReassignments (key 46), versions 0-0: partitions that are moving to other brokers.
//!
//! Behaviour:
//! - All of them (null), or those of the partitions that are named. A topic or partition that does not exist is no
//!   error, as in Kafka.

use std::sync::Arc;

use wire::api::list_partition_reassignments::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

use super::RequestContext;
use crate::Broker;
use crate::meta::list_reassignments;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    list_reassignments(&broker.metadata.load(), &request)
}
