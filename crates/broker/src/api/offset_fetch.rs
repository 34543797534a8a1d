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

use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    broker.groups.offset_fetch(context.api_version, request).await
}
