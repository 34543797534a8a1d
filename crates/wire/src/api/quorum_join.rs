//! QuorumJoin (key 125), version 0, flexible since 0. Ours: a node asks the leader of the metadata quorum to add it as
//! an observer, and as a voter if it replaces one with its node id.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct QuorumJoinRequest {
        cluster_id: String, 0..;
        node: VoterNode, 0..;
        /// Of its process.
        incarnation_id: Uuid, 0..;
        wants_to_vote: bool, 0..;
    }

    /// A member of the quorum, and where it listens to the others.
    pub struct VoterNode {
        node_id: i32, 0..;
        directory_id: Uuid, 0..;
        host: String, 0..;
        port: u16, 0..;
    }

    pub struct QuorumJoinResponse {
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        /// The node to send the request to instead, if known.
        leader_id: i32 = -1, 0..;
        leader_epoch: i32 = -1, 0..;
    }
}
