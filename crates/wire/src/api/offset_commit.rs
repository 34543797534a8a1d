//! OffsetCommit (key 8), versions 2-10, flexible since 8.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct OffsetCommitRequest {
        group_id: String, 0..;
        generation_id_or_member_epoch: i32 = -1, 1..;
        member_id: String, 1..;
        group_instance_id: Option<String>, 7..;
        retention_time_ms: i64 = -1, 2..=4;
        topics: Vec<OffsetCommitRequestTopic>, 0..;
    }

    pub struct OffsetCommitRequestTopic {
        name: String, 0..=9;
        topic_id: Uuid, 10..;
        partitions: Vec<OffsetCommitRequestPartition>, 0..;
    }

    pub struct OffsetCommitRequestPartition {
        partition_index: i32, 0..;
        committed_offset: i64, 0..;
        committed_leader_epoch: i32 = -1, 6..;
        committed_metadata: Option<String>, 0..;
    }

    pub struct OffsetCommitResponse {
        throttle_time_ms: i32, 3..;
        topics: Vec<OffsetCommitResponseTopic>, 0..;
    }

    pub struct OffsetCommitResponseTopic {
        name: String, 0..=9;
        topic_id: Uuid, 10..;
        partitions: Vec<OffsetCommitResponsePartition>, 0..;
    }

    pub struct OffsetCommitResponsePartition {
        partition_index: i32, 0..;
        error_code: ErrorCode, 0..;
    }
}
