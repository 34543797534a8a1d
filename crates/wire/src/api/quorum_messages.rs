//! QuorumMessages (key 126), version 0, flexible since 0. Ours: messages of the metadata quorum's consensus, in their
//! order. The response says only that they arrived; what they lead to comes back as messages.

use bytes::Bytes;

use crate::ErrorCode;

crate::message! {
    pub struct QuorumMessagesRequest {
        cluster_id: String, 0..;
        from_node_id: i32, 0..;
        /// Each is one encoded raft message.
        messages: Vec<Bytes>, 0..;
    }

    pub struct QuorumMessagesResponse {
        error_code: ErrorCode, 0..;
    }
}
