//! DescribeProducers (key 61), versions 0-0, flexible since 0.

use crate::ErrorCode;

crate::message! {
    pub struct DescribeProducersRequest {
        topics: Vec<TopicRequest>, 0..;
    }

    pub struct TopicRequest {
        name: String, 0..;
        partition_indexes: Vec<i32>, 0..;
    }

    pub struct DescribeProducersResponse {
        throttle_time_ms: i32, 0..;
        topics: Vec<TopicResponse>, 0..;
    }

    pub struct TopicResponse {
        name: String, 0..;
        partitions: Vec<PartitionResponse>, 0..;
    }

    pub struct PartitionResponse {
        partition_index: i32, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        active_producers: Vec<ProducerState>, 0..;
    }

    pub struct ProducerState {
        producer_id: i64, 0..;
        producer_epoch: i32, 0..;
        last_sequence: i32 = -1, 0..;
        last_timestamp: i64 = -1, 0..;
        coordinator_epoch: i32, 0..;
        current_txn_start_offset: i64 = -1, 0..;
    }
}
