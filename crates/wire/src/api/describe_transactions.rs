//! DescribeTransactions (key 65), versions 0-0, flexible since 0.

use crate::ErrorCode;

crate::message! {
    pub struct DescribeTransactionsRequest {
        transactional_ids: Vec<String>, 0..;
    }

    pub struct DescribeTransactionsResponse {
        throttle_time_ms: i32, 0..;
        transaction_states: Vec<TransactionState>, 0..;
    }

    pub struct TransactionState {
        error_code: ErrorCode, 0..;
        transactional_id: String, 0..;
        transaction_state: String, 0..;
        transaction_timeout_ms: i32, 0..;
        transaction_start_time_ms: i64, 0..;
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        topics: Vec<TopicData>, 0..;
    }

    pub struct TopicData {
        topic: String, 0..;
        partitions: Vec<i32>, 0..;
    }
}
