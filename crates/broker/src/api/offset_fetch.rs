//! OffsetFetch (key 9), versions 1-10: the committed positions of a group, from version 8 on of several.
//!
//! Behaviour:
//! - No topics (null) are all that the group has offsets for.
//! - A group or an offset that does not exist is offset -1, without an error.
//! - `require_stable` (version 7, KIP-447) waits for commits that are on their way. A partition whose offset an open
//!   transaction may replace is UNSTABLE_OFFSET_COMMIT.
//! - An offset of a topic that was deleted since, and created anew under its name, is not shown.
//! - A group that is named again is INVALID_REQUEST, a partition is answered once. Groups beyond 16 MiB of offsets are
//!   POLICY_VIOLATION. Kafka has no such bounds.
//! - Member id and epoch (version 9) are of the consumer protocol and not looked at.

use std::sync::Arc;

use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse};

use super::RequestContext;
use crate::Broker;
use crate::memory::LargeAnswer;

/// About what an offset takes in the answer, where the group is not asked. A consumer asks for a few.
const OFFSET_BYTES: usize = 150;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    let mut size = context.answer_size(broker, LargeAnswer::Offsets);
    size.add(expected_bytes(broker, &request)).await;
    broker.groups.offset_fetch(context.api_version, request).await
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
