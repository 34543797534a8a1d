//! QuorumHello (key 127), versions 0-1, flexible since 0. Ours: a node that starts asks another who it is, which
//! cluster it belongs to and who votes there; since version 1 also what is committed, as the leader knows for certain.

use super::quorum_join::VoterNode;
use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct QuorumHelloRequest {
        node_id: i32, 0..;
        directory_id: Uuid, 0..;
        /// Null while the node belongs to no cluster.
        cluster_id: Option<String>, 0..;
        /// Whether a leader has most voters confirm that it leads before it answers.
        wants_confirmation: bool, 1..;
    }

    pub struct QuorumHelloResponse {
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        node_id: i32, 0..;
        directory_id: Uuid, 0..;
        /// Null while the node belongs to no cluster.
        cluster_id: Option<String>, 0..;
        voters: Vec<VoterNode>, 0..;
        observers: Vec<VoterNode>, 0..;
        leader_id: i32 = -1, 0..;
        leader_epoch: i32 = -1, 0..;
        high_watermark: i64 = -1, 0..;
        /// The epoch in which this node leads, has committed an entry, and was confirmed to lead after the request:
        /// nothing that was committed before is above the high watermark. -1 if it was not requested, or is unknown.
        own_epoch: i32 = -1, 1..;
    }
}
