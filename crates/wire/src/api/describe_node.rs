//! DescribeNode (key 123), version 0, flexible since 0. Ours: the metrics of a node, for another one that shows the
//! whole cluster.

use bytes::Bytes;

use super::confirm_sender::NodeIdentity;
use crate::ErrorCode;

crate::message! {
    pub struct DescribeNodeRequest {
        cluster_id: String, 0..;
        sender: NodeIdentity, 0..;
    }

    pub struct DescribeNodeResponse {
        error_code: ErrorCode, 0..;
        /// The page of its metrics in the OpenMetrics text format.
        metrics: Bytes, 0..;
        /// Of the groups that the node coordinates, the newest first.
        rebalances: Vec<Rebalance>, 0..;
    }

    /// A rebalance of a consumer group.
    pub struct Rebalance {
        /// By the wall clock of the coordinator.
        began_ms: i64, 0..;
        group_id: String, 0..;
        /// The group's when the rebalance was over, or when it began as long as it is not.
        generation: i32, 0..;
        /// How many the group had then.
        members: i32, 0..;
        /// As the metrics name it.
        cause: String, 0..;
        /// The member that caused it, of several the first; empty if no member did.
        member_id: String, 0..;
        client_id: String, 0..;
        /// Until the group was stable or empty; -1 if it goes on, or another began before it was over.
        duration_ms: i64 = -1, 0..;
    }
}
