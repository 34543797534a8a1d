//! ConsumerGroupHeartbeat (key 68), versions 0-1, flexible since 0.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct ConsumerGroupHeartbeatRequest {
        group_id: String, 0..;
        member_id: String, 0..;
        member_epoch: i32, 0..;
        instance_id: Option<String>, 0..;
        rack_id: Option<String>, 0..;
        rebalance_timeout_ms: i32 = -1, 0..;
        subscribed_topic_names: Option<Vec<String>>, 0..;
        subscribed_topic_regex: Option<String>, 1..;
        server_assignor: Option<String>, 0..;
        topic_partitions: Option<Vec<TopicPartitions>>, 0..;
    }

    pub struct TopicPartitions {
        topic_id: Uuid, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct ConsumerGroupHeartbeatResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        member_id: Option<String>, 0..;
        member_epoch: i32, 0..;
        heartbeat_interval_ms: i32, 0..;
        assignment: Option<Assignment>, 0..;
    }

    pub struct Assignment {
        topic_partitions: Vec<TopicPartitions>, 0..;
    }
}
