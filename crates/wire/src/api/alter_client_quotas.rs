//! AlterClientQuotas (key 49), versions 0-1, flexible since 1.

use crate::ErrorCode;

crate::message! {
    pub struct AlterClientQuotasRequest {
        entries: Vec<AlterationEntry>, 0..;
        validate_only: bool, 0..;
    }

    /// `AlterClientQuotasRequest.EntryData`.
    pub struct AlterationEntry {
        entity: Vec<EntityData>, 0..;
        ops: Vec<OpData>, 0..;
    }

    pub struct EntityData {
        entity_type: String, 0..;
        entity_name: Option<String>, 0..;
    }

    pub struct OpData {
        key: String, 0..;
        value: f64, 0..;
        remove: bool, 0..;
    }

    pub struct AlterClientQuotasResponse {
        throttle_time_ms: i32, 0..;
        entries: Vec<AlterationResult>, 0..;
    }

    /// `AlterClientQuotasResponse.EntryData`.
    pub struct AlterationResult {
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        entity: Vec<EntityData>, 0..;
    }
}
