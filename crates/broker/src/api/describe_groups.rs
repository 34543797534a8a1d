//! DescribeGroups (key 15), versions 0-6: groups with their members and what they are assigned.
//!
//! Behaviour:
//! - A group that does not exist is in state Dead, from version 6 on with GROUP_ID_NOT_FOUND (KIP-1043).
//! - Members' metadata and the protocol are told only while the group is stable.

use std::sync::Arc;

use wire::api::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};

use super::RequestContext;
use crate::Broker;

/// What may be done to a group, as bits (KIP-430): read, delete, describe, describe and alter configs.
const GROUP_OPERATIONS: i32 = 0b1101_0100_1000;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let describe = |group_id: &String| {
        let mut group = broker.groups.describe_group(context.api_version, group_id);
        if request.include_authorized_operations && group.error_code.is_none() {
            group.authorized_operations = GROUP_OPERATIONS;
        }
        group
    };
    DescribeGroupsResponse { groups: request.groups.iter().map(describe).collect(), ..Default::default() }
}
