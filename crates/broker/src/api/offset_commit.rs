//! OffsetCommit (key 8), versions 2-10: a group's positions.
//!
//! Behaviour:
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

use wire::api::offset_commit::{OffsetCommitRequest, OffsetCommitResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: OffsetCommitRequest,
) -> OffsetCommitResponse {
    broker.groups.offset_commit(context.api_version, context.client_address.ip(), request).await
}
