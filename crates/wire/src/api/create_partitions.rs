//! CreatePartitions (key 37), versions 0-3, flexible since 2.

use crate::ErrorCode;

crate::message! {
    pub struct CreatePartitionsRequest {
        topics: Vec<CreatePartitionsTopic>, 0..;
        timeout_ms: i32, 0..;
        validate_only: bool, 0..;
    }

    pub struct CreatePartitionsTopic {
        name: String, 0..;
        count: i32, 0..;
        assignments: Option<Vec<CreatePartitionsAssignment>>, 0..;
    }

    pub struct CreatePartitionsAssignment {
        broker_ids: Vec<i32>, 0..;
    }

    pub struct CreatePartitionsResponse {
        throttle_time_ms: i32, 0..;
        results: Vec<CreatePartitionsTopicResult>, 0..;
    }

    pub struct CreatePartitionsTopicResult {
        name: String, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
    }
}
