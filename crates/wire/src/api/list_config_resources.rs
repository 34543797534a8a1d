//! ListConfigResources (key 74), versions 0-1, flexible since 0.

use crate::ErrorCode;

crate::message! {
    pub struct ListConfigResourcesRequest {
        resource_types: Vec<i8>, 1..;
    }

    pub struct ListConfigResourcesResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        config_resources: Vec<ConfigResource>, 0..;
    }

    pub struct ConfigResource {
        resource_name: String, 0..;
        resource_type: i8 = 16, 1..;
    }
}
