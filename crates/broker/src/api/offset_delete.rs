//! OffsetDelete (key 47), version 0: forgets a group's positions in some partitions (KIP-496).
//!
//! Behaviour:
//! - Topics that the group's members consume keep theirs: GROUP_SUBSCRIBED_TO_TOPIC. A group that is no consumer
//!   group does not say what it consumes, and must be empty: NON_EMPTY_GROUP.
//! - An offset that does not exist is deleted without an error.

use std::sync::Arc;

use wire::api::offset_delete::{OffsetDeleteRequest, OffsetDeleteResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: OffsetDeleteRequest,
) -> OffsetDeleteResponse {
    broker.groups.offset_delete(request).await
}
