//! BrokerHeartbeat (key 63), versions 0-2, flexible since 0.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct BrokerHeartbeatRequest {
        broker_id: i32, 0..;
        broker_epoch: i64 = -1, 0..;
        current_metadata_offset: i64, 0..;
        want_fence: bool, 0..;
        want_shut_down: bool, 0..;
        offline_log_dirs: Vec<Uuid>, 1.., tag 0;
        cordoned_log_dirs: Option<Vec<Uuid>>, 2.., tag 1;
    }

    pub struct BrokerHeartbeatResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        is_caught_up: bool, 0..;
        is_fenced: bool = true, 0..;
        should_shut_down: bool, 0..;
    }
}
