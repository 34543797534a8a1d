//! AlterConfigs (key 33), versions 0-2, flexible since 2.

use crate::ErrorCode;

crate::message! {
    pub struct AlterConfigsRequest {
        resources: Vec<AlterConfigsResource>, 0..;
        validate_only: bool, 0..;
    }

    pub struct AlterConfigsResource {
        resource_type: i8, 0..;
        resource_name: String, 0..;
        configs: Vec<AlterableConfig>, 0..;
    }

    pub struct AlterableConfig {
        name: String, 0..;
        value: Option<String>, 0..;
    }

    pub struct AlterConfigsResponse {
        throttle_time_ms: i32, 0..;
        responses: Vec<AlterConfigsResourceResponse>, 0..;
    }

    pub struct AlterConfigsResourceResponse {
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        resource_type: i8, 0..;
        resource_name: String, 0..;
    }
}
