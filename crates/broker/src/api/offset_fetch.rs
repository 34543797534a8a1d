//! OffsetFetch (key 9), versions 1-10: the committed positions of a group, from version 8 on of several.
//!
//! Behaviour:
//! - Needs: DESCRIBE on each group (GROUP_AUTHORIZATION_FAILED; in version 1 of all partitions) and on each topic
//!   (TOPIC_AUTHORIZATION_FAILED). Of all that a group has, topics that the client may not DESCRIBE are left out. What
//!   is denied is answered after the rest.
//! - No topics (null) are all that the group has offsets for.
//! - A group or an offset that does not exist is offset -1, without an error.
//! - `require_stable` (version 7, KIP-447) waits for commits that are on their way. A partition whose offset an open
//!   transaction may replace is UNSTABLE_OFFSET_COMMIT.
//! - An offset of a topic that was deleted since, and created anew under its name, is not shown.
//! - A group that is named again is INVALID_REQUEST, a partition is answered once. Groups beyond 16 MiB of offsets are
//!   POLICY_VIOLATION. Kafka has no such bounds.
//! - Member id and epoch (version 9) are of the consumer protocol and not looked at.

use std::sync::Arc;

use metadata::acl::{AclOperation, ResourceType};
use wire::ErrorCode;
use wire::api::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};

use super::RequestContext;
use super::access::{Access, denied};
use crate::Broker;
use crate::memory::LargeAnswer;

/// About what an offset takes in the answer, where the group is not asked. A consumer asks for a few.
const OFFSET_BYTES: usize = 150;
/// In place of an offset that is not told.
const NO_OFFSET: i64 = -1;

/// Before it there is one group, and before version 2 no place for an error of it.
const GROUPS_SINCE: i16 = 8;
const GROUP_ERRORS_SINCE: i16 = 2;
/// Topics are named by id since.
const TOPIC_IDS_SINCE: i16 = 10;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    let access = context.access(broker);
    match context.api_version >= GROUPS_SINCE {
        true => fetch_groups(broker, context, &access, request).await,
        false => fetch_group(broker, context, &access, request).await,
    }
}

async fn fetch(broker: &Arc<Broker>, context: &RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse {
    let mut size = context.answer_size(broker, LargeAnswer::Offsets);
    size.add(expected_bytes(broker, &request)).await;
    broker.groups.offset_fetch(context.api_version, request).await
}

async fn fetch_groups(
    broker: &Arc<Broker>,
    context: &RequestContext,
    access: &Access<'_>,
    mut request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    if !access.is_restricted() {
        return fetch(broker, context, request).await;
    }
    let denied_groups = denied(&mut request.groups, |group| access.group(AclOperation::Describe, &group.group_id));
    let may_describe = |topic: &OffsetFetchRequestTopics| match context.api_version >= TOPIC_IDS_SINCE {
        true => access.check_topic_by_id(AclOperation::Describe, topic.topic_id).is_ok(),
        false => access.topic(AclOperation::Describe, &topic.name),
    };
    // One for each group that is asked about, as there is one answer for each. None is asked about all that it has.
    let denied_topics: Vec<Option<Vec<OffsetFetchRequestTopics>>> =
        request.groups.iter_mut().map(|group| Some(denied(group.topics.as_mut()?, may_describe))).collect();
    let mut response = fetch(broker, context, request).await;
    for (group, denied_topics) in response.groups.iter_mut().zip(denied_topics) {
        match denied_topics {
            Some(denied) if group.error_code.is_none() => group.topics.extend(denied.into_iter().map(refuse)),
            Some(_) => {}
            None => group.topics.retain(|topic| shows(access, &topic.name)),
        }
    }
    response.groups.extend(denied_groups.into_iter().map(|group| OffsetFetchResponseGroup {
        group_id: group.group_id,
        error_code: ErrorCode::GROUP_AUTHORIZATION_FAILED,
        ..Default::default()
    }));
    response
}

/// The same in the form of older versions.
async fn fetch_group(
    broker: &Arc<Broker>,
    context: &RequestContext,
    access: &Access<'_>,
    mut request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    if let Err(error_code) = access.check_group(AclOperation::Describe, &request.group_id) {
        if context.api_version >= GROUP_ERRORS_SINCE {
            return OffsetFetchResponse { error_code, ..Default::default() };
        }
        let topics = request.topics.into_iter().flatten().map(|topic| refuse_named(topic, error_code));
        return OffsetFetchResponse { topics: topics.collect(), ..Default::default() };
    }
    let may_describe = |topic: &OffsetFetchRequestTopic| access.topic(AclOperation::Describe, &topic.name);
    let denied = request.topics.as_mut().map(|topics| denied(topics, may_describe));
    let mut response = fetch(broker, context, request).await;
    match denied {
        Some(denied) if response.error_code.is_none() => {
            let denied = denied.into_iter().map(|topic| refuse_named(topic, ErrorCode::TOPIC_AUTHORIZATION_FAILED));
            response.topics.extend(denied);
        }
        Some(_) => {}
        None => response.topics.retain(|topic| shows(access, &topic.name)),
    }
    response
}

/// Whether the client, which has not named the topic, may know of it.
fn shows(access: &Access<'_>, topic: &str) -> bool {
    access.shows(AclOperation::Describe, ResourceType::Topic, topic)
}

fn refuse(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics {
    let partitions = topic.partition_indexes.iter().map(|&partition_index| OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: NO_OFFSET,
        metadata: Some(String::new()),
        error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED,
        ..Default::default()
    });
    let partitions = partitions.collect();
    OffsetFetchResponseTopics { name: topic.name, topic_id: topic.topic_id, partitions }
}

fn refuse_named(topic: OffsetFetchRequestTopic, error_code: ErrorCode) -> OffsetFetchResponseTopic {
    let partitions = topic.partition_indexes.iter().map(|&partition_index| OffsetFetchResponsePartition {
        partition_index,
        committed_offset: NO_OFFSET,
        metadata: Some(String::new()),
        error_code,
        ..Default::default()
    });
    let partitions = partitions.collect();
    OffsetFetchResponseTopic { name: topic.name, partitions }
}

/// About what is known of what is asked: all that a group has, or what it has of some partitions.
fn expected_bytes(broker: &Broker, request: &OffsetFetchRequest) -> usize {
    let of_all = |group_id: &str| broker.groups.offsets_size_bytes(group_id);
    let of_group = |group: &OffsetFetchRequestGroup| match &group.topics {
        Some(topics) => topics.iter().map(|topic| topic.partition_indexes.len() * OFFSET_BYTES).sum(),
        None => of_all(&group.group_id),
    };
    match (&request.topics, request.groups.is_empty()) {
        (_, false) => request.groups.iter().map(of_group).sum(),
        (Some(topics), true) => topics.iter().map(|topic| topic.partition_indexes.len() * OFFSET_BYTES).sum(),
        (None, true) => of_all(&request.group_id),
    }
}
