//! QuorumMessages (key 126), version 0, ours: raft's messages from another member of the metadata quorum.
//!
//! Behaviour:
//! - Answered as soon as the messages are with the quorum, which may drop them: raft repeats what is lost.
//! - Another cluster's messages are INCONSISTENT_CLUSTER_ID, those that no member has sent
//!   CLUSTER_AUTHORIZATION_FAILED, those that cannot be read, or are another member's, INVALID_REQUEST.

use std::sync::Arc;

use platform::Allowed;
use quorum::{QuorumError, VoterKey, from_wire, is_from};
use wire::ErrorCode;
use wire::api::quorum_messages::{QuorumMessagesRequest, QuorumMessagesResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: QuorumMessagesRequest,
) -> QuorumMessagesResponse {
    let error_code = match take(broker, context, request).await {
        Ok(()) => ErrorCode::NONE,
        Err(code) => code,
    };
    QuorumMessagesResponse { error_code }
}

async fn take(broker: &Broker, context: &RequestContext, request: QuorumMessagesRequest) -> Result<(), ErrorCode> {
    if request.cluster_id != broker.cluster_id {
        return Err(ErrorCode::INCONSISTENT_CLUSTER_ID);
    }
    let from = context.client_address;
    broker.senders.check(&request.sender, context.origin()).await?;
    let sender = &request.sender;
    let key = VoterKey { node_id: sender.node_id, directory_id: sender.directory_id };
    let count = request.messages.len() as u64;
    let read = request.messages.into_iter().map(from_wire).collect::<Result<Vec<_>, _>>();
    let read = read.and_then(|messages| {
        let is_own = |message| is_from(message, key);
        if messages.iter().all(is_own) { Ok(messages) } else { Err(QuorumError::Impossible("it is another's".into())) }
    });
    let messages = read.map_err(|error| {
        broker.quorum.record_refused(count);
        if let Some(Allowed { left_out }) = broker.log_limit.allow(from) {
            tracing::warn!(address = %from, reason = %error, left_out, "a message is dropped: no member sends such");
        }
        ErrorCode::INVALID_REQUEST
    })?;
    broker.quorum.step(from, messages);
    Ok(())
}
