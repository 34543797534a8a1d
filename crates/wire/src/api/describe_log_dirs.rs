//! DescribeLogDirs (key 35), versions 1-5, flexible since 2.

use crate::ErrorCode;

crate::message! {
    pub struct DescribeLogDirsRequest {
        topics: Option<Vec<DescribableLogDirTopic>>, 0..;
    }

    pub struct DescribableLogDirTopic {
        topic: String, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct DescribeLogDirsResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 3..;
        results: Vec<DescribeLogDirsResult>, 0..;
    }

    pub struct DescribeLogDirsResult {
        error_code: ErrorCode, 0..;
        log_dir: String, 0..;
        topics: Vec<DescribeLogDirsTopic>, 0..;
        total_bytes: i64 = -1, 4..;
        usable_bytes: i64 = -1, 4..;
        is_cordoned: bool = true, 5..;
    }

    pub struct DescribeLogDirsTopic {
        name: String, 0..;
        partitions: Vec<DescribeLogDirsPartition>, 0..;
    }

    pub struct DescribeLogDirsPartition {
        partition_index: i32, 0..;
        partition_size: i64, 0..;
        offset_lag: i64, 0..;
        is_future_key: bool, 0..;
    }
}
