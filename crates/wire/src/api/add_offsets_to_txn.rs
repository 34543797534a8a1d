//! AddOffsetsToTxn (key 25), versions 0-4, flexible since 3.

use crate::ErrorCode;

crate::message! {
    pub struct AddOffsetsToTxnRequest {
        transactional_id: String, 0..;
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        group_id: String, 0..;
    }

    pub struct AddOffsetsToTxnResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
    }
}
