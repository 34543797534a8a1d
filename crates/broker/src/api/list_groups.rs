//! ListGroups (key 16), versions 0-5: the groups that this broker coordinates.
//!
//! Behaviour:
//! - States (version 4, KIP-518) and types (version 5, KIP-848) are filters that do not look at case; a value that does
//!   not exist matches nothing. All groups here are of type `classic`.
//! - As long as a part of the groups is being loaded, COORDINATOR_LOAD_IN_PROGRESS.

use std::sync::Arc;

use wire::api::list_groups::{ListGroupsRequest, ListGroupsResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: ListGroupsRequest,
) -> ListGroupsResponse {
    match broker.groups.list_groups(&request.states_filter, &request.types_filter) {
        Ok(groups) => ListGroupsResponse { groups, ..Default::default() },
        Err(error_code) => ListGroupsResponse { error_code, ..Default::default() },
    }
}
