//! ElectLeaders (key 43), versions 0-2, flexible since 2.

use crate::ErrorCode;

crate::message! {
    pub struct ElectLeadersRequest {
        election_type: i8, 1..;
        topic_partitions: Option<Vec<TopicPartitions>>, 0..;
        timeout_ms: i32 = 60000, 0..;
    }

    pub struct TopicPartitions {
        topic: String, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct ElectLeadersResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 1..;
        replica_election_results: Vec<ReplicaElectionResult>, 0..;
    }

    pub struct ReplicaElectionResult {
        topic: String, 0..;
        partition_result: Vec<PartitionResult>, 0..;
    }

    pub struct PartitionResult {
        partition_id: i32, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
    }
}
