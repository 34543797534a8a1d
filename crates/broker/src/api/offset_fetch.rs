//! OffsetFetch (key 9), versions 1-10: the committed positions of a group, from version 8 on of several.
//!
//! Behaviour:
//! - No topics (null) are all that the group has offsets for.
//! - A group or an offset that does not exist is offset -1, without an error.
//! - `require_stable` (version 7, KIP-447) waits for commits that are on their way.
//! - An offset of a topic that was deleted since, and created anew under its name, is not shown.
//! - A group that is named again is INVALID_REQUEST, a partition is answered once. Groups beyond 16 MiB of offsets are
//!   POLICY_VIOLATION. Kafka has no such bounds.
//! - Member id and epoch (version 9) are of the consumer protocol and not looked at.

use std::sync::Arc;

use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse};

use super::RequestContext;
use crate::Broker;
use crate::net::LargeAnswer;

/// A request for the offsets of more partitions takes its turn to be answered. A consumer asks for its own.
const PARTITIONS_MAX: usize = 100;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    let _permit = match is_large(&request) {
        true => Some(context.large_answer(broker, LargeAnswer::Offsets).await),
        false => None,
    };
    broker.groups.offset_fetch(context.api_version, request).await
}

/// Whether much may be known of what is asked: all that a group has, or what it has of many partitions.
fn is_large(request: &OffsetFetchRequest) -> bool {
    let first = request.topics.as_ref().map(|topics| topics.iter().map(|topic| topic.partition_indexes.len()).sum());
    let of_group = |group: &OffsetFetchRequestGroup| {
        Some(group.topics.as_ref()?.iter().map(|topic| topic.partition_indexes.len()).sum::<usize>())
    };
    let partitions: Option<usize> =
        if request.groups.is_empty() { first } else { request.groups.iter().map(of_group).sum() };
    partitions.is_none_or(|partitions| partitions > PARTITIONS_MAX)
}
