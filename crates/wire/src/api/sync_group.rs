//! SyncGroup (key 14), versions 0-5, flexible since 4.

use bytes::Bytes;

use crate::ErrorCode;

crate::message! {
    pub struct SyncGroupRequest {
        group_id: String, 0..;
        generation_id: i32, 0..;
        member_id: String, 0..;
        group_instance_id: Option<String>, 3..;
        protocol_type: Option<String>, 5..;
        protocol_name: Option<String>, 5..;
        assignments: Vec<SyncGroupRequestAssignment>, 0..;
    }

    pub struct SyncGroupRequestAssignment {
        member_id: String, 0..;
        assignment: Bytes, 0..;
    }

    pub struct SyncGroupResponse {
        throttle_time_ms: i32, 1..;
        error_code: ErrorCode, 0..;
        protocol_type: Option<String>, 5..;
        protocol_name: Option<String>, 5..;
        assignment: Bytes, 0..;
    }
}
