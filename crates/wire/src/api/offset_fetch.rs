//! OffsetFetch (key 9), versions 1-10, flexible since 6.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct OffsetFetchRequest {
        group_id: String, 0..=7;
        topics: Option<Vec<OffsetFetchRequestTopic>>, 0..=7, null 2..=7;
        groups: Vec<OffsetFetchRequestGroup>, 8..;
        require_stable: bool, 7..;
    }

    pub struct OffsetFetchRequestTopic {
        name: String, 0..=7;
        partition_indexes: Vec<i32>, 0..=7;
    }

    pub struct OffsetFetchRequestGroup {
        group_id: String, 8..;
        member_id: Option<String>, 9..;
        member_epoch: i32 = -1, 9..;
        topics: Option<Vec<OffsetFetchRequestTopics>>, 8..;
    }

    pub struct OffsetFetchRequestTopics {
        name: String, 8..=9;
        topic_id: Uuid, 10..;
        partition_indexes: Vec<i32>, 8..;
    }

    pub struct OffsetFetchResponse {
        throttle_time_ms: i32, 3..;
        topics: Vec<OffsetFetchResponseTopic>, 0..=7;
        error_code: ErrorCode, 2..=7;
        groups: Vec<OffsetFetchResponseGroup>, 8..;
    }

    pub struct OffsetFetchResponseTopic {
        name: String, 0..=7;
        partitions: Vec<OffsetFetchResponsePartition>, 0..=7;
    }

    pub struct OffsetFetchResponsePartition {
        partition_index: i32, 0..=7;
        committed_offset: i64, 0..=7;
        committed_leader_epoch: i32 = -1, 5..=7;
        metadata: Option<String>, 0..=7;
        error_code: ErrorCode, 0..=7;
    }

    pub struct OffsetFetchResponseGroup {
        group_id: String, 8..;
        topics: Vec<OffsetFetchResponseTopics>, 8..;
        error_code: ErrorCode, 8..;
    }

    pub struct OffsetFetchResponseTopics {
        name: String, 8..=9;
        topic_id: Uuid, 10..;
        partitions: Vec<OffsetFetchResponsePartitions>, 8..;
    }

    pub struct OffsetFetchResponsePartitions {
        partition_index: i32, 8..;
        committed_offset: i64, 8..;
        committed_leader_epoch: i32 = -1, 8..;
        metadata: Option<String>, 8..;
        error_code: ErrorCode, 8..;
    }
}
