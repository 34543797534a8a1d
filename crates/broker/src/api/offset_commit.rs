//! OffsetCommit (key 8), versions 2-10: a group's positions.
//!
//! Behaviour:
//! - Needs: READ on the group (GROUP_AUTHORIZATION_FAILED, of all partitions) and READ on each topic
//!   (TOPIC_AUTHORIZATION_FAILED). The other topics are committed.
//! - Answered when the offsets are durable.
//! - Topics are named, from version 10 on by id. A topic or partition that does not exist is an error of its own; the
//!   others are committed.
//! - A generation of -1 commits to a group without members, which is created if need be.
//! - Of a partition that is named twice the last offset counts.
//! - A new offset, or more metadata, for which there is no room is INVALID_COMMIT_OFFSET_SIZE: what all groups, one
//!   group, and the groups that one address has made may take of memory is bounded.
//! - Any offset is taken, also a negative one, as in Kafka.
//! - The retention time of versions 2 to 4 counts from the commit.

use std::sync::Arc;

use metadata::acl::AclOperation;
use wire::ErrorCode;
use wire::api::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestTopic, OffsetCommitResponse, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};

use super::RequestContext;
use super::access::denied;
use crate::Broker;

/// Topics are named by id since.
const TOPIC_IDS_SINCE: i16 = 10;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    mut request: OffsetCommitRequest,
) -> OffsetCommitResponse {
    let access = context.access(broker);
    if let Err(error_code) = access.check_group(AclOperation::Read, &request.group_id) {
        let topics = request.topics.into_iter().map(|topic| refuse(topic, error_code)).collect();
        return OffsetCommitResponse { topics, ..Default::default() };
    }
    let denied = denied(&mut request.topics, |topic| match context.api_version >= TOPIC_IDS_SINCE {
        true => access.check_topic_by_id(AclOperation::Read, topic.topic_id).is_ok(),
        false => access.topic(AclOperation::Read, &topic.name),
    });
    let mut response = broker.groups.offset_commit(context.api_version, context.client_address.ip(), request).await;
    let denied = denied.into_iter().map(|topic| refuse(topic, ErrorCode::TOPIC_AUTHORIZATION_FAILED));
    response.topics.extend(denied);
    response
}

fn refuse(topic: OffsetCommitRequestTopic, error_code: ErrorCode) -> OffsetCommitResponseTopic {
    let partitions = topic
        .partitions
        .iter()
        .map(|partition| OffsetCommitResponsePartition { partition_index: partition.partition_index, error_code });
    let partitions = partitions.collect();
    OffsetCommitResponseTopic { name: topic.name, topic_id: topic.topic_id, partitions }
}
