//! DescribeGroups (key 15), versions 0-6: groups with their members and what they are assigned.
//!
//! Behaviour:
//! - A group that does not exist is in state Dead, from version 6 on with GROUP_ID_NOT_FOUND (KIP-1043).
//! - Members' metadata and the protocol are told only while the group is stable.
//! - A group that is named twice is answered once. Groups beyond 16 MiB of members' data are POLICY_VIOLATION. Kafka
//!   has no such bound.

use std::collections::HashSet;
use std::sync::Arc;

use wire::ErrorCode;
use wire::api::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup};

use super::{Pace, RequestContext};
use crate::Broker;
use crate::memory::{DESCRIBED_BYTES_MAX, LargeAnswer};

/// What may be done to a group, as bits (KIP-430): read, delete, describe, describe and alter configs.
const GROUP_OPERATIONS: i32 = 0b1101_0100_1000;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let mut size = context.answer_size(broker, LargeAnswer::Described);
    let (mut named, mut described_bytes) = (HashSet::new(), 0);
    let mut groups = Vec::with_capacity(request.groups.len());
    let mut pace = Pace::default();
    for group_id in request.groups.iter().filter(|group_id| named.insert(group_id.as_str())) {
        if described_bytes >= DESCRIBED_BYTES_MAX {
            groups.push(DescribedGroup {
                error_code: ErrorCode::POLICY_VIOLATION,
                error_message: Some("Too many groups at once.".to_owned()),
                group_id: group_id.clone(),
                ..Default::default()
            });
            continue;
        }
        let mut group = broker.groups.describe_group(context.api_version, group_id);
        if request.include_authorized_operations && group.error_code.is_none() {
            group.authorized_operations = GROUP_OPERATIONS;
        }
        // Members' data are shared with the group until the answer is written.
        let group_bytes = size_bytes(&group);
        size.add(group_bytes).await;
        described_bytes += group_bytes;
        pace.step(1 + group.members.len()).await;
        groups.push(group);
    }
    DescribeGroupsResponse { groups, ..Default::default() }
}

/// About what a group takes in the answer.
fn size_bytes(group: &DescribedGroup) -> usize {
    let members = group.members.iter().map(|member| {
        let names = member.member_id.len() + member.client_id.len() + member.client_host.len();
        names + member.member_metadata.len() + member.member_assignment.len()
    });
    members.sum::<usize>() + group.group_id.len()
}
