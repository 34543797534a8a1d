//! Heartbeat (key 12), versions 0-4, flexible since 4.

use crate::ErrorCode;

crate::message! {
    pub struct HeartbeatRequest {
        group_id: String, 0..;
        generation_id: i32, 0..;
        member_id: String, 0..;
        group_instance_id: Option<String>, 3..;
    }

    pub struct HeartbeatResponse {
        throttle_time_ms: i32, 1..;
        error_code: ErrorCode, 0..;
    }
}
