//! DescribeGroups (key 15), versions 0-6: groups with their members and what they are assigned.
//!
//! Behaviour:
//! - Needs: DESCRIBE on each group (GROUP_AUTHORIZATION_FAILED).
//! - A group that does not exist is in state Dead, from version 6 on with GROUP_ID_NOT_FOUND (KIP-1043).
//! - Members' metadata and the protocol are told only while the group is stable.
//! - A group that is named twice is answered once. Groups beyond 16 MiB of members' data are POLICY_VIOLATION. Kafka
//!   has no such bound.

use std::collections::HashSet;
use std::sync::Arc;

use metadata::acl::{AclOperation, ResourceType};
use wire::ErrorCode;
use wire::api::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup};

use super::{Pace, RequestContext};
use crate::Broker;
use crate::memory::{DESCRIBED_BYTES_MAX, LargeAnswer};

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let access = context.access(broker);
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
        if let Err(error_code) = access.check_group(AclOperation::Describe, group_id) {
            groups.push(DescribedGroup { error_code, group_id: group_id.clone(), ..Default::default() });
            pace.step(1).await;
            continue;
        }
        let mut group = broker.groups.describe_group(context.api_version, group_id);
        if request.include_authorized_operations && group.error_code.is_none() {
            group.authorized_operations = access.operations(ResourceType::Group, group_id);
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

#[cfg(test)]
mod tests {
    use wire::api::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};

    use super::*;
    use crate::api::offset_commit;
    use crate::api::test_support::{TestBroker, context};

    /// A group that has an offset, and no members.
    async fn start() -> TestBroker {
        let broker = TestBroker::start().await;
        broker.serve_groups().await;
        let partition = OffsetCommitRequestPartition { committed_offset: 3, ..Default::default() };
        let topic = OffsetCommitRequestTopic {
            name: "__consumer_offsets".to_owned(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: "g".to_owned(),
            generation_id_or_member_epoch: -1,
            topics: vec![topic],
            ..Default::default()
        };
        let response = offset_commit::handle(&broker, &context(9), request).await;
        assert_eq!(response.topics[0].partitions[0].error_code, ErrorCode::NONE);
        broker
    }

    async fn ask(broker: &TestBroker, version: i16, groups: &[&str]) -> Vec<DescribedGroup> {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let request = DescribeGroupsRequest { groups, include_authorized_operations: true };
        handle(broker, &context(version), request).await.groups
    }

    #[tokio::test]
    async fn each_group_is_answered_once_in_the_order_of_the_request() {
        let broker = start().await;
        let groups = ask(&broker, 6, &["nope", "g", "nope", "g"]).await;
        let told: Vec<_> = groups.iter().map(|group| (&*group.group_id, &*group.group_state)).collect();
        assert_eq!(told, [("nope", "Dead"), ("g", "Empty")]);
    }

    #[tokio::test]
    async fn operations_are_told_of_groups_without_an_error() {
        let broker = start().await;
        for (version, code, operations) in [(5, ErrorCode::NONE, 3400), (6, ErrorCode::GROUP_ID_NOT_FOUND, i32::MIN)] {
            let groups = ask(&broker, version, &["nope", "g"]).await;
            assert_eq!((groups[0].error_code, groups[0].authorized_operations), (code, operations), "{version}");
            assert_eq!((groups[1].error_code, groups[1].authorized_operations), (ErrorCode::NONE, 3400));
        }
        let request = DescribeGroupsRequest { groups: vec!["g".to_owned()], include_authorized_operations: false };
        let unasked = handle(&broker, &context(6), request).await;
        assert_eq!(unasked.groups[0].authorized_operations, i32::MIN);
    }
}
