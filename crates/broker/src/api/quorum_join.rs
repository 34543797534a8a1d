//! QuorumJoin (key 125), version 0, ours: a node asks the leader of the metadata quorum to take it in.
//!
//! Behaviour:
//! - The node becomes an observer. One that has the number of a voter, and a new disk, takes that voter's place when it
//!   has caught up; one that wants to vote becomes a voter then.
//! - A member that has moved is found at its new address afterwards.
//! - Whoever is not the leader answers NOT_CONTROLLER and says who is.

use std::sync::Arc;

use wire::ErrorCode;
use wire::api::quorum_join::{QuorumJoinRequest, QuorumJoinResponse};

use super::RequestContext;
use crate::Broker;
use crate::quorum::{QuorumError, Voter};

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: QuorumJoinRequest,
) -> QuorumJoinResponse {
    let QuorumJoinRequest { cluster_id, node, wants_to_vote } = request;
    let (error_code, error_message) = if cluster_id == broker.cluster_id {
        let member = Voter { node_id: node.node_id, directory_id: node.directory_id, host: node.host, port: node.port };
        match broker.quorum.join(member, wants_to_vote).await {
            Ok(()) => (ErrorCode::NONE, None),
            Err(QuorumError::NotLeader) => (ErrorCode::NOT_CONTROLLER, None),
            Err(error) => (ErrorCode::REQUEST_TIMED_OUT, Some(error.to_string())),
        }
    } else {
        let message = format!("this is cluster {}", broker.cluster_id);
        (ErrorCode::INCONSISTENT_CLUSTER_ID, Some(message))
    };
    let status = broker.quorum.status().borrow().clone();
    QuorumJoinResponse { error_code, error_message, leader_id: status.leader.unwrap_or(-1), leader_epoch: status.epoch }
}
