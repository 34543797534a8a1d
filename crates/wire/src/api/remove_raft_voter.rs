//! RemoveRaftVoter (key 81), versions 0-0, flexible since 0.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct RemoveRaftVoterRequest {
        cluster_id: Option<String>, 0..;
        voter_id: i32, 0..;
        voter_directory_id: Uuid, 0..;
    }

    pub struct RemoveRaftVoterResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
    }
}
