//! FindCoordinator (key 10), versions 0-6, flexible since 3.

use crate::ErrorCode;

crate::message! {
    pub struct FindCoordinatorRequest {
        key: String, 0..=3;
        key_type: i8, 1..;
        coordinator_keys: Vec<String>, 4..;
    }

    pub struct FindCoordinatorResponse {
        throttle_time_ms: i32, 1..;
        error_code: ErrorCode, 0..=3;
        error_message: Option<String>, 1..=3;
        node_id: i32, 0..=3;
        host: String, 0..=3;
        port: i32, 0..=3;
        coordinators: Vec<Coordinator>, 4..;
    }

    pub struct Coordinator {
        key: String, 4..;
        node_id: i32, 4..;
        host: String, 4..;
        port: i32, 4..;
        error_code: ErrorCode, 4..;
        error_message: Option<String>, 4..;
    }
}
