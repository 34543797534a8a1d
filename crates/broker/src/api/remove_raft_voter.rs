//! RemoveRaftVoter (key 81), version 0: remove a voter of the metadata quorum (KIP-853).
//!
//! Behaviour:
//! - Needs: ALTER on the cluster (CLUSTER_AUTHORIZATION_FAILED).
//! - Any broker takes it; the leader of the quorum carries it out, also when it removes itself.
//! - The node of a registered broker remains as an observer.
//! - A node that does not vote is VOTER_NOT_FOUND; the last voter stays: INVALID_REQUEST.

use std::sync::Arc;

use quorum::{QuorumError, VoterKey};
use wire::ErrorCode;
use wire::api::remove_raft_voter::{RemoveRaftVoterRequest, RemoveRaftVoterResponse};

use super::{RequestContext, quorum_leader};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: RemoveRaftVoterRequest,
) -> RemoveRaftVoterResponse {
    if let Some(answer) = quorum_leader::pass_on(broker, context, &request).await {
        return answer.unwrap_or_else(|code| refuse(code, None));
    }
    match remove(broker, &request).await {
        Ok(()) => RemoveRaftVoterResponse::default(),
        Err((code, message)) => refuse(code, Some(message)),
    }
}

async fn remove(broker: &Broker, request: &RemoveRaftVoterRequest) -> Result<(), (ErrorCode, String)> {
    quorum_leader::check_cluster(broker, request.cluster_id.as_deref())?;
    let key = VoterKey { node_id: request.voter_id, directory_id: request.voter_directory_id };
    let voters = Arc::clone(&broker.quorum.status().voters);
    let Some(voter) = voters.voter(key).cloned() else {
        let message = format!("The voter set does not contain node {} with this directory.", key.node_id);
        return Err((ErrorCode::VOTER_NOT_FOUND, message));
    };
    if voters.voters.len() == 1 {
        return Err((ErrorCode::INVALID_REQUEST, "The last voter cannot be removed.".to_owned()));
    }
    broker.quorum.remove(key).await.map_err(|error| match error {
        QuorumError::NotLeader => (ErrorCode::NOT_CONTROLLER, error.to_string()),
        error => (ErrorCode::REQUEST_TIMED_OUT, error.to_string()),
    })?;
    let is_registered = broker.metadata.load().broker(key.node_id).is_some();
    if is_registered
        && key.node_id != broker.node_id
        && let Err(error) = broker.quorum.join(voter, false).await
    {
        tracing::warn!(node_id = key.node_id, %error, "a node that votes no longer does not observe either");
    }
    Ok(())
}

fn refuse(error_code: ErrorCode, error_message: Option<String>) -> RemoveRaftVoterResponse {
    RemoveRaftVoterResponse { error_code, error_message, ..Default::default() }
}

/// The answer to who may not.
pub(super) fn refused(_: &RemoveRaftVoterRequest, error_code: ErrorCode) -> RemoveRaftVoterResponse {
    RemoveRaftVoterResponse { error_code, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::test_support::{CLUSTER_ID, TestBroker, context, voter};

    fn request(node_id: i32) -> RemoveRaftVoterRequest {
        RemoveRaftVoterRequest {
            cluster_id: Some(CLUSTER_ID.to_owned()),
            voter_id: node_id,
            voter_directory_id: voter(node_id).directory_id,
        }
    }

    #[tokio::test]
    async fn what_does_not_vote_cannot_lose_its_vote() {
        let broker = TestBroker::start().await;
        broker.quorum.join(voter(2), false).await.expect("the quorum takes an observer");
        let other_cluster = RemoveRaftVoterRequest { cluster_id: Some("other".to_owned()), ..request(1) };
        let other_disk = RemoveRaftVoterRequest { voter_directory_id: voter(9).directory_id, ..request(1) };
        for (request, code) in [
            (other_cluster, ErrorCode::INCONSISTENT_CLUSTER_ID),
            (request(9), ErrorCode::VOTER_NOT_FOUND),
            (other_disk, ErrorCode::VOTER_NOT_FOUND),
            (request(2), ErrorCode::VOTER_NOT_FOUND),
        ] {
            let response = handle(&broker, &context(0), request.clone()).await;
            assert_eq!(response.error_code, code, "{request:?}");
            assert!(response.error_message.is_some(), "{request:?}");
        }
        let status = broker.quorum.status();
        assert_eq!((status.voters.voters.len(), status.voters.observers.len()), (1, 1));
    }

    #[tokio::test]
    async fn the_last_voter_stays() {
        let broker = TestBroker::start().await;
        for cluster_id in [None, Some(CLUSTER_ID.to_owned())] {
            let response = handle(&broker, &context(0), RemoveRaftVoterRequest { cluster_id, ..request(1) }).await;
            assert_eq!(response.error_code, ErrorCode::INVALID_REQUEST);
        }
        assert!(broker.quorum.leader_epoch().is_some());
    }

    #[tokio::test]
    async fn without_a_leader_no_vote_is_taken() {
        let broker = TestBroker::without_quorum();
        let response = handle(&broker, &context(0), request(2)).await;
        assert_eq!((response.error_code, response.error_message), (ErrorCode::NOT_CONTROLLER, None));
    }
}
