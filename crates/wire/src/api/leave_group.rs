//! LeaveGroup (key 13), versions 0-5, flexible since 4.

use crate::ErrorCode;

crate::message! {
    pub struct LeaveGroupRequest {
        group_id: String, 0..;
        member_id: String, 0..=2;
        members: Vec<MemberIdentity>, 3..;
    }

    pub struct MemberIdentity {
        member_id: String, 3..;
        group_instance_id: Option<String>, 3..;
        reason: Option<String>, 5..;
    }

    pub struct LeaveGroupResponse {
        throttle_time_ms: i32, 1..;
        error_code: ErrorCode, 0..;
        members: Vec<MemberResponse>, 3..;
    }

    pub struct MemberResponse {
        member_id: String, 3..;
        group_instance_id: Option<String>, 3..;
        error_code: ErrorCode, 3..;
    }
}
