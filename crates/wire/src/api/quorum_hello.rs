//! QuorumHello (key 127), version 0, flexible since 0. Ours: a node that starts asks another who it is, which cluster
//! it belongs to and who votes there.

use super::quorum_join::VoterNode;
use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct QuorumHelloRequest {
        node_id: i32, 0..;
        directory_id: Uuid, 0..;
        /// Null while the node belongs to no cluster.
        cluster_id: Option<String>, 0..;
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
    }
}
