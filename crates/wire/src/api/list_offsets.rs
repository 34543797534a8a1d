//! ListOffsets (key 2), versions 1-11, flexible since 6.

use crate::ErrorCode;

crate::message! {
    pub struct ListOffsetsRequest {
        replica_id: i32, 0..;
        isolation_level: i8, 2..;
        topics: Vec<ListOffsetsTopic>, 0..;
        timeout_ms: i32, 10..;
    }

    pub struct ListOffsetsTopic {
        name: String, 0..;
        partitions: Vec<ListOffsetsPartition>, 0..;
    }

    pub struct ListOffsetsPartition {
        partition_index: i32, 0..;
        current_leader_epoch: i32 = -1, 4..;
        timestamp: i64, 0..;
    }

    pub struct ListOffsetsResponse {
        throttle_time_ms: i32, 2..;
        topics: Vec<ListOffsetsTopicResponse>, 0..;
    }

    pub struct ListOffsetsTopicResponse {
        name: String, 0..;
        partitions: Vec<ListOffsetsPartitionResponse>, 0..;
    }

    pub struct ListOffsetsPartitionResponse {
        partition_index: i32, 0..;
        error_code: ErrorCode, 0..;
        timestamp: i64 = -1, 1..;
        offset: i64 = -1, 1..;
        leader_epoch: i32 = -1, 4..;
    }
}
