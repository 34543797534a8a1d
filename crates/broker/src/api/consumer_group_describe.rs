//! ConsumerGroupDescribe (key 69), versions 0-1: consumer groups, what their members have and are to have.
//!
//! Behaviour:
//! - Needs: DESCRIBE on each group (GROUP_AUTHORIZATION_FAILED) and on all topics that its members have or are to have:
//!   else the group is TOPIC_AUTHORIZATION_FAILED, and nothing is told of it.
//! - A group that does not exist, or is of another protocol, is GROUP_ID_NOT_FOUND.
//! - A group that is named twice is answered once. Groups beyond 16 MiB are POLICY_VIOLATION. Kafka has no such bound.
//! - Without group.version 1, or the protocol in `group.coordinator.rebalance.protocols`, all are UNSUPPORTED_VERSION.

use std::collections::HashSet;
use std::sync::Arc;

use metadata::acl::{AclOperation, ResourceType};
use wire::ErrorCode;
use wire::api::consumer_group_describe::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedGroup, TopicPartitions,
};

use super::access::Access;
use super::{Pace, RequestContext, consumer_group_heartbeat};
use crate::Broker;
use crate::memory::{DESCRIBED_BYTES_MAX, LargeAnswer};

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse {
    let is_served = consumer_group_heartbeat::is_served(broker);
    let access = context.access(broker);
    let mut size = context.answer_size(broker, LargeAnswer::Described);
    let (mut named, mut described_bytes) = (HashSet::new(), 0);
    let mut groups = Vec::with_capacity(request.group_ids.len());
    let mut pace = Pace::default();
    for group_id in request.group_ids.iter().filter(|group_id| named.insert(group_id.as_str())) {
        let refusal = if !is_served {
            Some(ErrorCode::UNSUPPORTED_VERSION)
        } else if described_bytes >= DESCRIBED_BYTES_MAX {
            Some(ErrorCode::POLICY_VIOLATION)
        } else {
            access.check_group(AclOperation::Describe, group_id).err()
        };
        if let Some(error_code) = refusal {
            groups.push(DescribedGroup { error_code, group_id: group_id.clone(), ..Default::default() });
            pace.step(1).await;
            continue;
        }
        let mut group = broker.groups.consumer_group_describe(group_id);
        pace.step(1 + group.members.len()).await;
        if !shows_topics(&access, &group, &mut pace).await {
            group = hidden(group_id);
        }
        if request.include_authorized_operations && group.error_code.is_none() {
            group.authorized_operations = access.operations(ResourceType::Group, group_id);
        }
        let group_bytes = size_bytes(&group);
        size.add(group_bytes).await;
        described_bytes += group_bytes;
        groups.push(group);
    }
    ConsumerGroupDescribeResponse { groups, ..Default::default() }
}

/// Whether the client may know of all topics that members of the group have or are to have.
async fn shows_topics(access: &Access<'_>, group: &DescribedGroup, pace: &mut Pace) -> bool {
    if !access.is_restricted() {
        return true;
    }
    let assignments = group.members.iter().flat_map(|member| [&member.assignment, &member.target_assignment]);
    // Most members have partitions of the same topics.
    let mut names = HashSet::new();
    for topic in assignments.flat_map(|assignment| &assignment.topic_partitions) {
        if names.insert(&topic.topic_name) && !access.topic(AclOperation::Describe, &topic.topic_name) {
            return false;
        }
        pace.step(1).await;
    }
    true
}

/// What is told of a group with a topic that the client may not know of (`KafkaApis.handleConsumerGroupDescribe`).
fn hidden(group_id: &str) -> DescribedGroup {
    let message = "The group has described topic(s) that the client is not authorized to describe.";
    DescribedGroup {
        error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED,
        error_message: Some(message.to_owned()),
        group_id: group_id.to_owned(),
        ..Default::default()
    }
}

/// About what a group takes in the answer.
fn size_bytes(group: &DescribedGroup) -> usize {
    const MEMBER_BYTES: usize = 200;
    const NAME_BYTES: usize = 24;
    let topics = |topics: &[TopicPartitions]| {
        topics.iter().map(|topic| NAME_BYTES + topic.topic_name.len() + 4 * topic.partitions.len()).sum::<usize>()
    };
    let members = group.members.iter().map(|member| {
        let names: usize = member.subscribed_topic_names.iter().map(|name| NAME_BYTES + name.len()).sum();
        let ids = member.member_id.len() + member.client_id.len() + member.client_host.len();
        let assigned = topics(&member.assignment.topic_partitions) + topics(&member.target_assignment.topic_partitions);
        MEMBER_BYTES + ids + names + member.subscribed_topic_regex.as_ref().map_or(0, String::len) + assigned
    });
    group.group_id.len() + members.sum::<usize>()
}
