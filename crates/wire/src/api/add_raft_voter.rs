//! AddRaftVoter (key 80), versions 0-1, flexible since 0.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct AddRaftVoterRequest {
        cluster_id: Option<String>, 0..;
        timeout_ms: i32, 0..;
        voter_id: i32, 0..;
        voter_directory_id: Uuid, 0..;
        listeners: Vec<Listener>, 0..;
        ack_when_committed: bool = true, 1..;
    }

    pub struct Listener {
        name: String, 0..;
        host: String, 0..;
        port: u16, 0..;
    }

    pub struct AddRaftVoterResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
    }
}
