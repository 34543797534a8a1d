//! EndTxn (key 26), versions 0-5, flexible since 3.

use crate::ErrorCode;

crate::message! {
    pub struct EndTxnRequest {
        transactional_id: String, 0..;
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        committed: bool, 0..;
    }

    pub struct EndTxnResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        producer_id: i64 = -1, 5..;
        producer_epoch: i16 = -1, 5..;
    }
}
