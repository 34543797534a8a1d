//! QuorumMessages (key 126), version 0, flexible since 0. Ours: messages of the metadata quorum's consensus, in their
//! order. The response says only that they arrived; what they lead to comes back as messages.

use bytes::Bytes;

use super::confirm_sender::NodeIdentity;
use crate::ErrorCode;

crate::message! {
    pub struct QuorumMessagesRequest {
        cluster_id: String, 0..;
        sender: NodeIdentity, 0..;
        messages: Vec<QuorumMessage>, 0..;
    }

    /// One of raft's messages. Members are named as raft names them, which takes all 64 bits; numbers that are counted
    /// are never negative.
    pub struct QuorumMessage {
        message_type: i8, 0..;
        to: i64, 0..;
        from: i64, 0..;
        term: i64, 0..;
        log_term: i64, 0..;
        index: i64, 0..;
        commit: i64, 0..;
        commit_term: i64, 0..;
        reject: bool, 0..;
        reject_hint: i64, 0..;
        /// Of a request for a vote: the leader itself wants its sender to be elected.
        is_transfer: bool, 0..;
        /// Of a heartbeat and its answer: the question of whether its leader still leads, by number; 0 for none.
        question: i64, 0..;
        entries: Vec<QuorumEntry>, 0..;
        /// Of a message that brings one: the snapshot's file.
        snapshot: Bytes, 0..;
    }

    pub struct QuorumEntry {
        term: i64, 0..;
        index: i64, 0..;
        /// The record batch that the entry is; empty for the first entry of a leader.
        batch: Bytes, 0..;
        /// Of a change of the members: raft's number for the kind of change, and whom it concerns. -1 for no change.
        change_type: i8 = -1, 0..;
        change_of: i64, 0..;
    }

    pub struct QuorumMessagesResponse {
        error_code: ErrorCode, 0..;
    }
}
