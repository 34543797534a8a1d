//! ListGroups (key 16), versions 0-5: the groups that this broker coordinates.
//!
//! Behaviour:
//! - Needs: DESCRIBE on the cluster, or else on each group: others are left out.
//! - States (version 4, KIP-518) and types (version 5, KIP-848) are filters that do not look at case; a value that does
//!   not exist matches nothing. All groups here are of type `classic`.
//! - As long as a part of the groups is being loaded, COORDINATOR_LOAD_IN_PROGRESS.

use std::sync::Arc;

use metadata::acl::{AclOperation, CLUSTER_NAME, ResourceType};
use wire::api::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};

use super::{Pace, RequestContext};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: ListGroupsRequest,
) -> ListGroupsResponse {
    match broker.groups.list_groups(&request.states_filter, &request.types_filter) {
        Ok(groups) => ListGroupsResponse { groups: shown(broker, context, groups).await, ..Default::default() },
        Err(error_code) => ListGroupsResponse { error_code, ..Default::default() },
    }
}

/// The groups that the client may know of.
async fn shown(broker: &Broker, context: &RequestContext, groups: Vec<ListedGroup>) -> Vec<ListedGroup> {
    let access = context.access(broker);
    if access.shows(AclOperation::Describe, ResourceType::Cluster, CLUSTER_NAME) {
        return groups;
    }
    let mut pace = Pace::default();
    let mut shown = Vec::new();
    for group in groups {
        if access.shows(AclOperation::Describe, ResourceType::Group, &group.group_id) {
            shown.push(group);
        }
        pace.step(1).await;
    }
    shown
}
