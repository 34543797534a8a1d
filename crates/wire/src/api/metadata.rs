//! Metadata (key 3), versions 0-13, flexible since 9.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct MetadataRequest {
        topics: Option<Vec<MetadataRequestTopic>>, 0.., null 1..;
        allow_auto_topic_creation: bool = true, 4..;
        include_cluster_authorized_operations: bool, 8..=10;
        include_topic_authorized_operations: bool, 8..;
    }

    pub struct MetadataRequestTopic {
        topic_id: Uuid, 10..;
        name: Option<String>, 0.., null 10..;
    }

    pub struct MetadataResponse {
        throttle_time_ms: i32, 3..;
        brokers: Vec<MetadataResponseBroker>, 0..;
        cluster_id: Option<String>, 2..;
        controller_id: i32 = -1, 1..;
        topics: Vec<MetadataResponseTopic>, 0..;
        cluster_authorized_operations: i32 = i32::MIN, 8..=10;
        error_code: ErrorCode, 13..;
    }

    pub struct MetadataResponseBroker {
        node_id: i32, 0..;
        host: String, 0..;
        port: i32, 0..;
        rack: Option<String>, 1..;
    }

    pub struct MetadataResponseTopic {
        error_code: ErrorCode, 0..;
        name: Option<String>, 0.., null 12..;
        topic_id: Uuid, 10..;
        is_internal: bool, 1..;
        partitions: Vec<MetadataResponsePartition>, 0..;
        topic_authorized_operations: i32 = i32::MIN, 8..;
    }

    pub struct MetadataResponsePartition {
        error_code: ErrorCode, 0..;
        partition_index: i32, 0..;
        leader_id: i32, 0..;
        leader_epoch: i32 = -1, 7..;
        replica_nodes: Vec<i32>, 0..;
        isr_nodes: Vec<i32>, 0..;
        offline_replicas: Vec<i32>, 5..;
    }
}
