//! ListGroups (key 16), versions 0-5, flexible since 3.

use crate::ErrorCode;

crate::message! {
    pub struct ListGroupsRequest {
        states_filter: Vec<String>, 4..;
        types_filter: Vec<String>, 5..;
    }

    pub struct ListGroupsResponse {
        throttle_time_ms: i32, 1..;
        error_code: ErrorCode, 0..;
        groups: Vec<ListedGroup>, 0..;
    }

    pub struct ListedGroup {
        group_id: String, 0..;
        protocol_type: String, 0..;
        group_state: String, 4..;
        group_type: String, 5..;
    }
}
