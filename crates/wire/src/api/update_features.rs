//! UpdateFeatures (key 57), versions 0-2, flexible since 0.

use crate::ErrorCode;

crate::message! {
    pub struct UpdateFeaturesRequest {
        timeout_ms: i32 = 60000, 0..;
        feature_updates: Vec<FeatureUpdateKey>, 0..;
        validate_only: bool, 1..;
    }

    pub struct FeatureUpdateKey {
        feature: String, 0..;
        max_version_level: i16, 0..;
        allow_downgrade: bool, 0..=0;
        upgrade_type: i8 = 1, 1..;
    }

    pub struct UpdateFeaturesResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        results: Vec<UpdatableFeatureResult>, 0..=1;
    }

    pub struct UpdatableFeatureResult {
        feature: String, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
    }
}
