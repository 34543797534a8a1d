//! CreateAcls (key 30), versions 1-3, flexible since 2.

use crate::ErrorCode;

crate::message! {
    pub struct CreateAclsRequest {
        creations: Vec<AclCreation>, 0..;
    }

    pub struct AclCreation {
        resource_type: i8, 0..;
        resource_name: String, 0..;
        resource_pattern_type: i8 = 3, 1..;
        principal: String, 0..;
        host: String, 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }

    pub struct CreateAclsResponse {
        throttle_time_ms: i32, 0..;
        results: Vec<AclCreationResult>, 0..;
    }

    pub struct AclCreationResult {
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
    }
}
