//! AlterPartition (key 56), versions 2-3, flexible since 0.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct AlterPartitionRequest {
        broker_id: i32, 0..;
        broker_epoch: i64 = -1, 0..;
        topics: Vec<TopicRequest>, 0..;
    }

    pub struct TopicRequest {
        topic_id: Uuid, 2..;
        partitions: Vec<PartitionRequest>, 0..;
    }

    pub struct PartitionRequest {
        partition_index: i32, 0..;
        leader_epoch: i32, 0..;
        new_isr: Vec<i32>, 0..=2;
        new_isr_with_epochs: Vec<BrokerState>, 3..;
        leader_recovery_state: i8, 1..;
        partition_epoch: i32, 0..;
    }

    pub struct BrokerState {
        broker_id: i32, 3..;
        broker_epoch: i64 = -1, 3..;
    }

    pub struct AlterPartitionResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        topics: Vec<TopicData>, 0..;
    }

    pub struct TopicData {
        topic_id: Uuid, 2..;
        partitions: Vec<PartitionData>, 0..;
    }

    pub struct PartitionData {
        partition_index: i32, 0..;
        error_code: ErrorCode, 0..;
        leader_id: i32, 0..;
        leader_epoch: i32, 0..;
        isr: Vec<i32>, 0..;
        leader_recovery_state: i8, 1..;
        partition_epoch: i32, 0..;
    }
}
