//! DeleteAcls (key 31), versions 1-3, flexible since 2.

use crate::ErrorCode;

crate::message! {
    pub struct DeleteAclsRequest {
        filters: Vec<DeleteAclsFilter>, 0..;
    }

    pub struct DeleteAclsFilter {
        resource_type_filter: i8, 0..;
        resource_name_filter: Option<String>, 0..;
        pattern_type_filter: i8 = 3, 1..;
        principal_filter: Option<String>, 0..;
        host_filter: Option<String>, 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }

    pub struct DeleteAclsResponse {
        throttle_time_ms: i32, 0..;
        filter_results: Vec<DeleteAclsFilterResult>, 0..;
    }

    pub struct DeleteAclsFilterResult {
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        matching_acls: Vec<DeleteAclsMatchingAcl>, 0..;
    }

    pub struct DeleteAclsMatchingAcl {
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        resource_type: i8, 0..;
        resource_name: String, 0..;
        pattern_type: i8 = 3, 1..;
        principal: String, 0..;
        host: String, 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }
}
