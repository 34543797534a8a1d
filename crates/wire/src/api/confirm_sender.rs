//! ConfirmSender (key 122), version 0, flexible since 0. Ours: a node that got a request asks its sender, at the
//! address where the cluster knows that one, whether it was its own.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct ConfirmSenderRequest {
        cluster_id: String, 0..;
        sender: NodeIdentity, 0..;
    }

    /// The sender of a request between nodes.
    pub struct NodeIdentity {
        node_id: i32, 0..;
        /// Of its disk.
        directory_id: Uuid, 0..;
        /// Of its process: drawn at random at its start, and sent to other nodes only.
        incarnation_id: Uuid, 0..;
    }

    /// CLUSTER_AUTHORIZATION_FAILED if it was not.
    pub struct ConfirmSenderResponse {
        error_code: ErrorCode, 0..;
    }
}
