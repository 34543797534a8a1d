//! LeaveGroup (key 13), versions 0-5: members leave, or are removed.
//!
//! Behaviour:
//! - Version 3 names several members; a static one may be named by its instance id alone (KIP-345).
//! - The reason (version 5, KIP-800) is not used.

use std::sync::Arc;

use wire::api::leave_group::{LeaveGroupRequest, LeaveGroupResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: LeaveGroupRequest,
) -> LeaveGroupResponse {
    broker.groups.leave_group(context.api_version, request).await
}
