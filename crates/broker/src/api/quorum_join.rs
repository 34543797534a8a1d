//! QuorumJoin (key 125), version 0, ours: a node asks the leader of the metadata quorum to take it in.
//!
//! Behaviour:
//! - The node becomes an observer. One with the id of a voter and a new disk replaces that voter when it has caught up;
//!   one that wants to vote becomes a voter then.
//! - A member that has moved is found at its new address afterwards.
//! - The node is asked at that address whether it has asked, and a member that moves must be gone from where it was:
//!   CLUSTER_AUTHORIZATION_FAILED otherwise.
//! - A node that is not the leader answers NOT_CONTROLLER and names the leader.

use std::sync::Arc;

use configuration::address;
use quorum::{QuorumError, Voter};
use wire::ErrorCode;
use wire::api::confirm_sender::NodeIdentity;
use wire::api::quorum_join::{QuorumJoinRequest, QuorumJoinResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: QuorumJoinRequest,
) -> QuorumJoinResponse {
    let (error_code, error_message) = match join(broker, context, request).await {
        Ok(()) => (ErrorCode::NONE, None),
        Err((error_code, message)) => (error_code, message),
    };
    let status = broker.quorum.status();
    QuorumJoinResponse { error_code, error_message, leader_id: status.leader.unwrap_or(-1), leader_epoch: status.epoch }
}

async fn join(
    broker: &Broker,
    context: &RequestContext,
    request: QuorumJoinRequest,
) -> Result<(), (ErrorCode, Option<String>)> {
    let QuorumJoinRequest { cluster_id, node, incarnation_id, wants_to_vote } = request;
    if cluster_id != broker.cluster_id {
        return Err((ErrorCode::INCONSISTENT_CLUSTER_ID, Some(format!("this is cluster {}", broker.cluster_id))));
    }
    if broker.quorum.leader_epoch().is_none() {
        return Err((ErrorCode::NOT_CONTROLLER, None));
    }
    let sender = NodeIdentity { node_id: node.node_id, directory_id: node.directory_id, incarnation_id };
    let member = Voter { node_id: node.node_id, directory_id: node.directory_id, host: node.host, port: node.port };
    let checked = broker.senders.check_address(&sender, &member, context.origin()).await;
    checked.map_err(|error_code| {
        let message = format!("nobody at {} says that it is this node", address(&member.host, member.port));
        (error_code, Some(message))
    })?;
    broker.quorum.join(member, wants_to_vote).await.map_err(|error| match error {
        QuorumError::NotLeader => (ErrorCode::NOT_CONTROLLER, None),
        error => (ErrorCode::REQUEST_TIMED_OUT, Some(error.to_string())),
    })
}

#[cfg(test)]
mod tests {
    use wire::Uuid;
    use wire::api::quorum_join::VoterNode;

    use super::*;
    use crate::api::test_support::{CLUSTER_ID, NODE_ID, TestBroker, context, voter};

    fn request(cluster_id: &str) -> QuorumJoinRequest {
        let Voter { node_id, directory_id, host, port } = voter(5);
        QuorumJoinRequest {
            cluster_id: cluster_id.to_owned(),
            node: VoterNode { node_id, directory_id, host, port },
            incarnation_id: Uuid([5; 16]),
            wants_to_vote: true,
        }
    }

    #[tokio::test]
    async fn a_node_of_another_cluster_is_told_which_one_this_is() {
        let broker = TestBroker::start().await;
        let response = handle(&broker, &context(0), request("other")).await;
        assert_eq!(response.error_code, ErrorCode::INCONSISTENT_CLUSTER_ID);
        assert!(response.error_message.is_some_and(|message| message.contains(CLUSTER_ID)));
        assert_eq!(broker.quorum.status().voters.members().count(), 1);
    }

    #[tokio::test]
    async fn only_the_leader_takes_a_node_in() {
        let broker = TestBroker::without_quorum();
        let response = handle(&broker, &context(0), request(CLUSTER_ID)).await;
        assert_eq!((response.error_code, response.leader_id), (ErrorCode::NOT_CONTROLLER, -1));
        // Which cluster it is needs no leader.
        let response = handle(&broker, &context(0), request("other")).await;
        assert_eq!(response.error_code, ErrorCode::INCONSISTENT_CLUSTER_ID);
    }

    #[tokio::test]
    async fn a_node_that_nothing_answers_for_is_not_taken_in() {
        let broker = TestBroker::start().await;
        let mut request = QuorumJoinRequest { wants_to_vote: false, ..request(CLUSTER_ID) };
        // No process listens at port 0.
        (request.node.host, request.node.port) = ("127.0.0.1".to_owned(), 0);
        let response = handle(&broker, &context(0), request).await;
        assert_eq!(response.error_code, ErrorCode::CLUSTER_AUTHORIZATION_FAILED);
        assert_eq!((response.leader_id, response.error_message.is_some()), (NODE_ID, true));
        assert_eq!(broker.quorum.status().voters.members().count(), 1);
    }
}
