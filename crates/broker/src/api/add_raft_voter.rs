//! AddRaftVoter (key 80), versions 0-1: make an observer of the metadata quorum a voter (KIP-853).
//!
//! Behaviour:
//! - Needs: ALTER on the cluster (CLUSTER_AUTHORIZATION_FAILED).
//! - Any broker takes it; the leader of the quorum carries it out. The node becomes an observer first if it is none,
//!   and a voter when it has caught up. The answer comes then, or REQUEST_TIMED_OUT while it goes on. Version 1 may ask
//!   to be answered as soon as the node is an observer.
//! - A node id that votes already is DUPLICATE_VOTER, whichever directory it votes with; another cluster's id is
//!   INCONSISTENT_CLUSTER_ID; a voter without an address is INVALID_REQUEST.

use std::sync::Arc;
use std::time::Duration;

use quorum::{QuorumError, QuorumStatus, Voter};
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
    let is_voter = |status: &QuorumStatus| status.voters.voters.iter().any(|other| other.node_id == voter.node_id);
    if is_voter(&broker.quorum.status()) {
        let message = format!("The voter set contains node {} already.", voter.node_id);
        return Err((ErrorCode::DUPLICATE_VOTER, message));
    }
    let patience = Duration::from_millis(u64::from(request.timeout_ms.unsigned_abs()));
    let quorum = broker.quorum.clone();
    let joined = if request.ack_when_committed {
        timeout(patience, quorum.join(voter, true)).await
    } else {
        // As an observer it is known to the quorum, and whether it can be one shows soon.
        let observes = timeout(patience, quorum.join(voter.clone(), false)).await;
        tokio::spawn(async move { timeout(patience, quorum.join(voter, true)).await });
        observes
    };
    let late = |_| Err((ErrorCode::REQUEST_TIMED_OUT, "The node has not caught up yet.".to_owned()));
    joined.map_or_else(late, |joined| {
        joined.map_err(|error| match error {
            QuorumError::NotLeader => (ErrorCode::NOT_CONTROLLER, error.to_string()),
            error => (ErrorCode::REQUEST_TIMED_OUT, error.to_string()),
        })
    })
}

fn refuse(error_code: ErrorCode, error_message: Option<String>) -> AddRaftVoterResponse {
    AddRaftVoterResponse { error_code, error_message, ..Default::default() }
}

/// The answer to who may not.
pub(super) fn refused(_: &AddRaftVoterRequest, error_code: ErrorCode) -> AddRaftVoterResponse {
    AddRaftVoterResponse { error_code, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use wire::api::add_raft_voter::Listener;

    use super::*;
    use crate::api::test_support::{CLUSTER_ID, TestBroker, context, voter};

    /// Asks for a vote for a node, and not to be answered only when it has it.
    fn request(node_id: i32) -> AddRaftVoterRequest {
        let Voter { directory_id, host, port, .. } = voter(node_id);
        AddRaftVoterRequest {
            cluster_id: Some(CLUSTER_ID.to_owned()),
            voter_id: node_id,
            voter_directory_id: directory_id,
            listeners: vec![Listener { name: "CONTROLLER".to_owned(), host, port }],
            ack_when_committed: false,
            timeout_ms: 10_000,
        }
    }

    async fn ask(broker: &TestBroker, request: AddRaftVoterRequest) -> ErrorCode {
        let response = handle(broker, &context(1), request).await;
        assert_eq!(response.error_message.is_none(), response.error_code.is_none());
        response.error_code
    }

    #[tokio::test]
    async fn what_cannot_become_a_voter_is_refused() {
        let broker = TestBroker::start().await;
        let other = AddRaftVoterRequest { cluster_id: Some("other".to_owned()), ..request(2) };
        assert_eq!(ask(&broker, other).await, ErrorCode::INCONSISTENT_CLUSTER_ID);
        let unreachable = AddRaftVoterRequest { listeners: Vec::new(), ..request(2) };
        assert_eq!(ask(&broker, unreachable).await, ErrorCode::INVALID_REQUEST);
        let other_disk = AddRaftVoterRequest { voter_directory_id: voter(9).directory_id, ..request(1) };
        for votes_already in [request(1), other_disk] {
            assert_eq!(ask(&broker, votes_already).await, ErrorCode::DUPLICATE_VOTER);
        }
        let status = broker.quorum.status();
        assert_eq!(status.voters.members().count(), 1, "nothing has changed");
    }

    #[tokio::test]
    async fn a_node_that_has_not_caught_up_is_an_observer_until_it_has() {
        let broker = TestBroker::start().await;
        let any_cluster = AddRaftVoterRequest { cluster_id: None, ..request(2) };
        assert_eq!(ask(&broker, any_cluster).await, ErrorCode::NONE, "it goes on after the answer");
        let status = broker.quorum.status();
        assert_eq!(status.voters.observers, [voter(2)]);
        assert!(status.voters.voter(voter(2).key()).is_none());
        // Without time left, for one that never answers.
        let waits = AddRaftVoterRequest { ack_when_committed: true, timeout_ms: 0, ..request(2) };
        assert_eq!(ask(&broker, waits).await, ErrorCode::REQUEST_TIMED_OUT);
    }

    #[tokio::test]
    async fn without_a_leader_no_vote_is_given() {
        let broker = TestBroker::without_quorum();
        let response = handle(&broker, &context(1), request(3)).await;
        assert_eq!(response.error_code, ErrorCode::NOT_CONTROLLER);
    }
}
