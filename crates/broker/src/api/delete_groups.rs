//! DeleteGroups (key 42), versions 0-2: groups without members, and their offsets.
//!
//! Behaviour: a group with members is NON_EMPTY_GROUP, an unknown one GROUP_ID_NOT_FOUND. Answered when the deletion is
//! durable.

use std::sync::Arc;

use wire::api::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse {
    DeleteGroupsResponse { results: broker.groups.delete_groups(request.groups_names).await, ..Default::default() }
}
