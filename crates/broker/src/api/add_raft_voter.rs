//! AddRaftVoter (key 80), versions 0-1: make an observer of the metadata quorum a voter (KIP-853).
//!
//! Behaviour:
//! - Any broker takes it; the leader of the quorum carries it out. The node becomes an observer first if it is none,
//!   and a voter when it has caught up. The answer comes then, or REQUEST_TIMED_OUT while it goes on.
//! - Who votes already is DUPLICATE_VOTER; another cluster's id is INCONSISTENT_CLUSTER_ID; a voter without an address
//!   is INVALID_REQUEST.

use std::sync::Arc;
use std::time::Duration;

use quorum::{QuorumError, Voter};
use tokio::time::timeout;
use wire::ErrorCode;
use wire::api::add_raft_voter::{AddRaftVoterRequest, AddRaftVoterResponse};

use super::{RequestContext, quorum_leader};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: AddRaftVoterRequest,
) -> AddRaftVoterResponse {
    if let Some(answer) = quorum_leader::pass_on(broker, context, &request).await {
        return answer.unwrap_or_else(|code| refuse(code, None));
    }
    match add(broker, request).await {
        Ok(()) => AddRaftVoterResponse::default(),
        Err((code, message)) => refuse(code, Some(message)),
    }
}

async fn add(broker: &Broker, request: AddRaftVoterRequest) -> Result<(), (ErrorCode, String)> {
    quorum_leader::check_cluster(broker, request.cluster_id.as_deref())?;
    let endpoint = request.listeners.into_iter().next();
    let endpoint = endpoint.ok_or((ErrorCode::INVALID_REQUEST, "The voter has no listener.".to_owned()))?;
    let voter = Voter {
        node_id: request.voter_id,
        directory_id: request.voter_directory_id,
        host: endpoint.host,
        port: endpoint.port,
    };
    let key = voter.key();
    let mut status = broker.quorum.status();
    if status.borrow().voters.voter(key).is_some() {
        let message = format!("The voter set contains node {} already.", voter.node_id);
        return Err((ErrorCode::DUPLICATE_VOTER, message));
    }
    broker.quorum.join(voter, true).await.map_err(|error| match error {
        QuorumError::NotLeader => (ErrorCode::NOT_CONTROLLER, error.to_string()),
        error => (ErrorCode::REQUEST_TIMED_OUT, error.to_string()),
    })?;
    if !request.ack_when_committed {
        return Ok(());
    }
    let patience = Duration::from_millis(u64::from(request.timeout_ms.unsigned_abs()));
    let joined = status.wait_for(|status| status.voters.voter(key).is_some());
    match timeout(patience, joined).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err((ErrorCode::REQUEST_TIMED_OUT, "The node has not caught up yet.".to_owned())),
    }
}

fn refuse(error_code: ErrorCode, error_message: Option<String>) -> AddRaftVoterResponse {
    AddRaftVoterResponse { error_code, error_message, ..Default::default() }
}
