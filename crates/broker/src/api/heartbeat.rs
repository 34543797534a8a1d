//! Heartbeat (key 12), versions 0-4: a member's sign of life.
//!
//! Behaviour: see [`coordinator::group::GroupCoordinator::heartbeat`]. Answered at once, without any wait.
//!
//! - Needs: READ on the group (GROUP_AUTHORIZATION_FAILED).

use std::sync::Arc;

use metadata::acl::AclOperation;
use wire::api::heartbeat::{HeartbeatRequest, HeartbeatResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: HeartbeatRequest,
) -> HeartbeatResponse {
    let error_code = match context.access(broker).check_group(AclOperation::Read, &request.group_id) {
        Ok(()) => broker.groups.heartbeat(&request),
        Err(error_code) => error_code,
    };
    HeartbeatResponse { error_code, ..Default::default() }
}
