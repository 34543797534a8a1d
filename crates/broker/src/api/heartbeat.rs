//! Heartbeat (key 12), versions 0-4: a member's sign of life.
//!
//! Behaviour: see [`coordinator::group::GroupCoordinator::heartbeat`]. Answered at once, without any wait.

use std::sync::Arc;

use wire::api::heartbeat::{HeartbeatRequest, HeartbeatResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: HeartbeatRequest,
) -> HeartbeatResponse {
    HeartbeatResponse { error_code: broker.groups.heartbeat(&request), ..Default::default() }
}
