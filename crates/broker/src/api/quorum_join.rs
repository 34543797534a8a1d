//! QuorumJoin (key 125), version 0, ours: a node asks the leader of the metadata quorum to take it in.
//!
//! Behaviour:
//! - The node becomes an observer. One that has the number of a voter, and a new disk, takes that voter's place when it
//!   has caught up; one that wants to vote becomes a voter then.
//! - A member that has moved is found at its new address afterwards.
//! - The node is asked at that address whether it has asked, and a member that moves must be gone from where it was:
//!   CLUSTER_AUTHORIZATION_FAILED otherwise.
//! - Whoever is not the leader answers NOT_CONTROLLER and says who is.

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
    let status = broker.quorum.status().borrow().clone();
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
    let checked = broker.senders.check_address(&sender, &member, context.client_address).await;
    checked.map_err(|error_code| {
        let message = format!("nobody at {} says that it is this node", address(&member.host, member.port));
        (error_code, Some(message))
    })?;
    broker.quorum.join(member, wants_to_vote).await.map_err(|error| match error {
        QuorumError::NotLeader => (ErrorCode::NOT_CONTROLLER, None),
        error => (ErrorCode::REQUEST_TIMED_OUT, Some(error.to_string())),
    })
}
