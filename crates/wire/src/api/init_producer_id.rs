//! InitProducerId (key 22), versions 0-5, flexible since 2.

use crate::ErrorCode;

crate::message! {
    pub struct InitProducerIdRequest {
        transactional_id: Option<String>, 0..;
        transaction_timeout_ms: i32, 0..;
        producer_id: i64 = -1, 3..;
        producer_epoch: i16 = -1, 3..;
    }

    pub struct InitProducerIdResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        producer_id: i64 = -1, 0..;
        producer_epoch: i16, 0..;
    }
}
