//! DeleteGroups (key 42), versions 0-2, flexible since 2.

use crate::ErrorCode;

crate::message! {
    pub struct DeleteGroupsRequest {
        groups_names: Vec<String>, 0..;
    }

    pub struct DeleteGroupsResponse {
        throttle_time_ms: i32, 0..;
        results: Vec<DeletableGroupResult>, 0..;
    }

    pub struct DeletableGroupResult {
        group_id: String, 0..;
        error_code: ErrorCode, 0..;
    }
}
