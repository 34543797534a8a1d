//! ConfirmSender (key 122), version 0, ours: whether a request that another node got came from this process.

use std::sync::Arc;

use wire::ErrorCode;
use wire::api::confirm_sender::{ConfirmSenderRequest, ConfirmSenderResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: ConfirmSenderRequest,
) -> ConfirmSenderResponse {
    let is_own = request.cluster_id == broker.cluster_id && request.sender == *broker.peers.own();
    let error_code = if is_own { ErrorCode::NONE } else { ErrorCode::CLUSTER_AUTHORIZATION_FAILED };
    ConfirmSenderResponse { error_code }
}
