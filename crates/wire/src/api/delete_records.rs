//! DeleteRecords (key 21), versions 0-2, flexible since 2.

use crate::ErrorCode;

crate::message! {
    pub struct DeleteRecordsRequest {
        topics: Vec<DeleteRecordsTopic>, 0..;
        timeout_ms: i32, 0..;
    }

    pub struct DeleteRecordsTopic {
        name: String, 0..;
        partitions: Vec<DeleteRecordsPartition>, 0..;
    }

    pub struct DeleteRecordsPartition {
        partition_index: i32, 0..;
        offset: i64, 0..;
    }

    pub struct DeleteRecordsResponse {
        throttle_time_ms: i32, 0..;
        topics: Vec<DeleteRecordsTopicResult>, 0..;
    }

    pub struct DeleteRecordsTopicResult {
        name: String, 0..;
        partitions: Vec<DeleteRecordsPartitionResult>, 0..;
    }

    pub struct DeleteRecordsPartitionResult {
        partition_index: i32, 0..;
        low_watermark: i64, 0..;
        error_code: ErrorCode, 0..;
    }
}
