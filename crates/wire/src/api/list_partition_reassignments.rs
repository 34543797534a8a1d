//! ListPartitionReassignments (key 46), versions 0-0, flexible since 0.

use crate::ErrorCode;

crate::message! {
    pub struct ListPartitionReassignmentsRequest {
        timeout_ms: i32 = 60000, 0..;
        topics: Option<Vec<ListPartitionReassignmentsTopics>>, 0..;
    }

    pub struct ListPartitionReassignmentsTopics {
        name: String, 0..;
        partition_indexes: Vec<i32>, 0..;
    }

    pub struct ListPartitionReassignmentsResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        topics: Vec<OngoingTopicReassignment>, 0..;
    }

    pub struct OngoingTopicReassignment {
        name: String, 0..;
        partitions: Vec<OngoingPartitionReassignment>, 0..;
    }

    pub struct OngoingPartitionReassignment {
        partition_index: i32, 0..;
        replicas: Vec<i32>, 0..;
        adding_replicas: Vec<i32>, 0..;
        removing_replicas: Vec<i32>, 0..;
    }
}
