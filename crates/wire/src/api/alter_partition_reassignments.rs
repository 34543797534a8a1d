//! AlterPartitionReassignments (key 45), versions 0-1, flexible since 0.

use crate::ErrorCode;

crate::message! {
    pub struct AlterPartitionReassignmentsRequest {
        timeout_ms: i32 = 60000, 0..;
        allow_replication_factor_change: bool = true, 1..;
        topics: Vec<ReassignableTopic>, 0..;
    }

    pub struct ReassignableTopic {
        name: String, 0..;
        partitions: Vec<ReassignablePartition>, 0..;
    }

    pub struct ReassignablePartition {
        partition_index: i32, 0..;
        replicas: Option<Vec<i32>>, 0..;
    }

    pub struct AlterPartitionReassignmentsResponse {
        throttle_time_ms: i32, 0..;
        allow_replication_factor_change: bool = true, 1..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        responses: Vec<ReassignableTopicResponse>, 0..;
    }

    pub struct ReassignableTopicResponse {
        name: String, 0..;
        partitions: Vec<ReassignablePartitionResponse>, 0..;
    }

    pub struct ReassignablePartitionResponse {
        partition_index: i32, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
    }
}
