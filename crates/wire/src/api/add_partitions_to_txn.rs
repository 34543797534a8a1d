//! AddPartitionsToTxn (key 24), versions 0-5, flexible since 3. Versions from 4 on are for brokers among themselves.

use crate::ErrorCode;

crate::message! {
    pub struct AddPartitionsToTxnRequest {
        transactions: Vec<AddPartitionsToTxnTransaction>, 4..;
        transactional_id: String, 0..=3;
        producer_id: i64, 0..=3;
        producer_epoch: i16, 0..=3;
        topics: Vec<AddPartitionsToTxnTopic>, 0..=3;
    }

    pub struct AddPartitionsToTxnTransaction {
        transactional_id: String, 4..;
        producer_id: i64, 4..;
        producer_epoch: i16, 4..;
        verify_only: bool, 4..;
        topics: Vec<AddPartitionsToTxnTopic>, 4..;
    }

    pub struct AddPartitionsToTxnTopic {
        name: String, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct AddPartitionsToTxnResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 4..;
        results_by_transaction: Vec<AddPartitionsToTxnResult>, 4..;
        results_by_topic: Vec<AddPartitionsToTxnTopicResult>, 0..=3;
    }

    pub struct AddPartitionsToTxnResult {
        transactional_id: String, 4..;
        topic_results: Vec<AddPartitionsToTxnTopicResult>, 4..;
    }

    pub struct AddPartitionsToTxnTopicResult {
        name: String, 0..;
        results_by_partition: Vec<AddPartitionsToTxnPartitionResult>, 0..;
    }

    pub struct AddPartitionsToTxnPartitionResult {
        partition_index: i32, 0..;
        partition_error_code: ErrorCode, 0..;
    }
}
