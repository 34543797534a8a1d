//! UnregisterBroker (key 64), versions 0-0, flexible since 0.

use crate::ErrorCode;

crate::message! {
    pub struct UnregisterBrokerRequest {
        broker_id: i32, 0..;
    }

    pub struct UnregisterBrokerResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
    }
}
