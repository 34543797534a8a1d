//! DescribeClientQuotas (key 48), versions 0-1, flexible since 1.

use crate::ErrorCode;

crate::message! {
    pub struct DescribeClientQuotasRequest {
        components: Vec<ComponentData>, 0..;
        strict: bool, 0..;
    }

    pub struct ComponentData {
        entity_type: String, 0..;
        match_type: i8, 0..;
        /// Kafka's `match`, which is a word of the language here.
        match_name: Option<String>, 0..;
    }

    pub struct DescribeClientQuotasResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        entries: Option<Vec<EntryData>>, 0..;
    }

    pub struct EntryData {
        entity: Vec<EntityData>, 0..;
        values: Vec<ValueData>, 0..;
    }

    pub struct EntityData {
        entity_type: String, 0..;
        entity_name: Option<String>, 0..;
    }

    pub struct ValueData {
        key: String, 0..;
        value: f64, 0..;
    }
}
