//! ListTransactions (key 66), versions 0-2, flexible since 0.

use crate::ErrorCode;

crate::message! {
    pub struct ListTransactionsRequest {
        state_filters: Vec<String>, 0..;
        producer_id_filters: Vec<i64>, 0..;
        duration_filter: i64 = -1, 1..;
        transactional_id_pattern: Option<String>, 2..;
    }

    pub struct ListTransactionsResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        unknown_state_filters: Vec<String>, 0..;
        transaction_states: Vec<TransactionState>, 0..;
    }

    pub struct TransactionState {
        transactional_id: String, 0..;
        producer_id: i64, 0..;
        transaction_state: String, 0..;
    }
}
