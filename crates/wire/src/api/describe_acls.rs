//! DescribeAcls (key 29), versions 1-3, flexible since 2.

use crate::ErrorCode;

crate::message! {
    pub struct DescribeAclsRequest {
        resource_type_filter: i8, 0..;
        resource_name_filter: Option<String>, 0..;
        pattern_type_filter: i8 = 3, 1..;
        principal_filter: Option<String>, 0..;
        host_filter: Option<String>, 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }

    pub struct DescribeAclsResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        resources: Vec<DescribeAclsResource>, 0..;
    }

    pub struct DescribeAclsResource {
        resource_type: i8, 0..;
        resource_name: String, 0..;
        pattern_type: i8 = 3, 1..;
        acls: Vec<AclDescription>, 0..;
    }

    pub struct AclDescription {
        principal: String, 0..;
        host: String, 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }
}
