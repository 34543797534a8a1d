//! QuorumMessages (key 126), version 0, ours: raft's messages from another member of the metadata quorum.
//!
//! Behaviour:
//! - Answered as soon as the messages are with the quorum, which may drop them: raft repeats what is lost.
//! - Another cluster's messages are INCONSISTENT_CLUSTER_ID, those that cannot be read INVALID_REQUEST.

use std::sync::Arc;

use wire::ErrorCode;
use wire::api::quorum_messages::{QuorumMessagesRequest, QuorumMessagesResponse};

use super::RequestContext;
use crate::Broker;
use crate::quorum::decode;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: QuorumMessagesRequest,
) -> QuorumMessagesResponse {
    let error_code = match take(broker, &request) {
        Ok(()) => ErrorCode::NONE,
        Err(code) => code,
    };
    QuorumMessagesResponse { error_code }
}

fn take(broker: &Broker, request: &QuorumMessagesRequest) -> Result<(), ErrorCode> {
    if request.cluster_id != broker.cluster_id {
        return Err(ErrorCode::INCONSISTENT_CLUSTER_ID);
    }
    let read = request.messages.iter().map(decode).collect::<Result<Vec<_>, _>>();
    let messages = read.map_err(|_| ErrorCode::INVALID_REQUEST)?;
    broker.quorum.step(messages);
    Ok(())
}
