//! TxnOffsetCommit (key 28), versions 0-5, flexible since 3.

use crate::ErrorCode;

crate::message! {
    pub struct TxnOffsetCommitRequest {
        transactional_id: String, 0..;
        group_id: String, 0..;
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        generation_id: i32 = -1, 3..;
        member_id: String, 3..;
        group_instance_id: Option<String>, 3..;
        topics: Vec<TxnOffsetCommitRequestTopic>, 0..;
    }

    pub struct TxnOffsetCommitRequestTopic {
        name: String, 0..;
        partitions: Vec<TxnOffsetCommitRequestPartition>, 0..;
    }

    pub struct TxnOffsetCommitRequestPartition {
        partition_index: i32, 0..;
        committed_offset: i64, 0..;
        committed_leader_epoch: i32 = -1, 2..;
        committed_metadata: Option<String>, 0..;
    }

    pub struct TxnOffsetCommitResponse {
        throttle_time_ms: i32, 0..;
        topics: Vec<TxnOffsetCommitResponseTopic>, 0..;
    }

    pub struct TxnOffsetCommitResponseTopic {
        name: String, 0..;
        partitions: Vec<TxnOffsetCommitResponsePartition>, 0..;
    }

    pub struct TxnOffsetCommitResponsePartition {
        partition_index: i32, 0..;
        error_code: ErrorCode, 0..;
    }
}
