//! OffsetDelete (key 47), version 0: forgets a group's positions in some partitions (KIP-496).
//!
//! Behaviour:
//! - Needs: DELETE on the group (GROUP_AUTHORIZATION_FAILED) and READ on each topic (TOPIC_AUTHORIZATION_FAILED). An
//!   error of the whole group is all that is answered.
//! - Topics that the group's members consume keep theirs: GROUP_SUBSCRIBED_TO_TOPIC. A group that is no consumer
//!   group does not say what it consumes, and must be empty: NON_EMPTY_GROUP.
//! - An offset that does not exist is deleted without an error.

use std::sync::Arc;

use metadata::acl::AclOperation;
use wire::ErrorCode;
use wire::api::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestTopic, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
};

use super::RequestContext;
use super::access::denied;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    mut request: OffsetDeleteRequest,
) -> OffsetDeleteResponse {
    let access = context.access(broker);
    if let Err(error_code) = access.check_group(AclOperation::Delete, &request.group_id) {
        return OffsetDeleteResponse { error_code, ..Default::default() };
    }
    let denied = denied(&mut request.topics, |topic| access.topic(AclOperation::Read, &topic.name));
    let mut response = broker.groups.offset_delete(request).await;
    if response.error_code.is_none() {
        response.topics.extend(denied.into_iter().map(refuse));
    }
    response
}

fn refuse(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic {
    let partitions = topic.partitions.iter().map(|partition| OffsetDeleteResponsePartition {
        partition_index: partition.partition_index,
        error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED,
    });
    let partitions = partitions.collect();
    OffsetDeleteResponseTopic { name: topic.name, partitions }
}
