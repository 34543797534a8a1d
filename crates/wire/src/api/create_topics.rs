//! CreateTopics (key 19), versions 2-7, flexible since 5.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct CreateTopicsRequest {
        topics: Vec<CreatableTopic>, 0..;
        timeout_ms: i32 = 60000, 0..;
        validate_only: bool, 1..;
    }

    pub struct CreatableTopic {
        name: String, 0..;
        num_partitions: i32, 0..;
        replication_factor: i16, 0..;
        assignments: Vec<CreatableReplicaAssignment>, 0..;
        configs: Vec<CreatableTopicConfig>, 0..;
    }

    pub struct CreatableReplicaAssignment {
        partition_index: i32, 0..;
        broker_ids: Vec<i32>, 0..;
    }

    pub struct CreatableTopicConfig {
        name: String, 0..;
        value: Option<String>, 0..;
    }

    pub struct CreateTopicsResponse {
        throttle_time_ms: i32, 2..;
        topics: Vec<CreatableTopicResult>, 0..;
    }

    pub struct CreatableTopicResult {
        name: String, 0..;
        topic_id: Uuid, 7..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 1..;
        topic_config_error_code: ErrorCode, 5.., tag 0;
        num_partitions: i32 = -1, 5..;
        replication_factor: i16 = -1, 5..;
        configs: Option<Vec<CreatableTopicConfigs>>, 5..;
    }

    pub struct CreatableTopicConfigs {
        name: String, 5..;
        value: Option<String>, 5..;
        read_only: bool, 5..;
        config_source: i8 = -1, 5..;
        is_sensitive: bool, 5..;
    }
}
