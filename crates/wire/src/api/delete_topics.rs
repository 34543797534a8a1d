//! DeleteTopics (key 20), versions 1-6, flexible since 4.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct DeleteTopicsRequest {
        topics: Vec<DeleteTopicState>, 6..;
        topic_names: Vec<String>, 0..=5;
        timeout_ms: i32, 0..;
    }

    pub struct DeleteTopicState {
        name: Option<String>, 6..;
        topic_id: Uuid, 6..;
    }

    pub struct DeleteTopicsResponse {
        throttle_time_ms: i32, 1..;
        responses: Vec<DeletableTopicResult>, 0..;
    }

    pub struct DeletableTopicResult {
        name: Option<String>, 0.., null 6..;
        topic_id: Uuid, 6..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 5..;
    }
}
