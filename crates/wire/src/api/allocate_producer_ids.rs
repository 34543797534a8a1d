//! AllocateProducerIds (key 67), versions 0-0, flexible since 0.

use crate::ErrorCode;

crate::message! {
    pub struct AllocateProducerIdsRequest {
        broker_id: i32, 0..;
        broker_epoch: i64 = -1, 0..;
    }

    pub struct AllocateProducerIdsResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        producer_id_start: i64, 0..;
        producer_id_len: i32, 0..;
    }
}
