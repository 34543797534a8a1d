//! Fetch (key 1), versions 4-18, flexible since 12.

use crate::{ErrorCode, Records, Uuid};

crate::message! {
    pub struct FetchRequest {
        cluster_id: Option<String>, 12.., tag 0;
        replica_id: i32 = -1, 0..=14;
        replica_state: ReplicaState, 15.., tag 1;
        max_wait_ms: i32, 0..;
        min_bytes: i32, 0..;
        max_bytes: i32 = i32::MAX, 3..;
        isolation_level: i8, 4..;
        session_id: i32, 7..;
        session_epoch: i32 = -1, 7..;
        topics: Vec<FetchTopic>, 0..;
        forgotten_topics_data: Vec<ForgottenTopic>, 7..;
        rack_id: String, 11..;
    }

    pub struct ReplicaState {
        replica_id: i32 = -1, 15..;
        replica_epoch: i64 = -1, 15..;
        /// Ours: the process of that registration, which only brokers know.
        incarnation_id: Uuid, 15.., tag 10000;
    }

    pub struct FetchTopic {
        topic: String, 0..=12;
        topic_id: Uuid, 13..;
        partitions: Vec<FetchPartition>, 0..;
    }

    pub struct FetchPartition {
        partition: i32, 0..;
        current_leader_epoch: i32 = -1, 9..;
        fetch_offset: i64, 0..;
        last_fetched_epoch: i32 = -1, 12..;
        log_start_offset: i64 = -1, 5..;
        partition_max_bytes: i32, 0..;
        replica_directory_id: Uuid, 17.., tag 0;
        high_watermark: i64 = i64::MAX, 18.., tag 1;
        /// Ours: up to where the follower's log is on disk.
        synced_offset: i64 = -1, 17.., tag 10000;
        /// Ours: some of the follower's batches cannot be read.
        is_damaged: bool, 17.., tag 10001;
    }

    pub struct ForgottenTopic {
        topic: String, 7..=12;
        topic_id: Uuid, 13..;
        partitions: Vec<i32>, 7..;
    }

    pub struct FetchResponse {
        throttle_time_ms: i32, 1..;
        error_code: ErrorCode, 7..;
        session_id: i32, 7..;
        responses: Vec<FetchableTopicResponse>, 0..;
        node_endpoints: Vec<NodeEndpoint>, 16.., tag 0;
    }

    pub struct FetchableTopicResponse {
        topic: String, 0..=12;
        topic_id: Uuid, 13..;
        partitions: Vec<PartitionData>, 0..;
    }

    pub struct PartitionData {
        partition_index: i32, 0..;
        error_code: ErrorCode, 0..;
        high_watermark: i64, 0..;
        last_stable_offset: i64 = -1, 4..;
        log_start_offset: i64 = -1, 5..;
        diverging_epoch: EpochEndOffset, 12.., tag 0;
        current_leader: LeaderIdAndEpoch, 12.., tag 1;
        snapshot_id: SnapshotId, 12.., tag 2;
        /// Ours: a request waits until the follower has its log up to here on disk.
        sync_wanted_offset: i64 = -1, 12.., tag 10000;
        /// Ours: up to where all in-sync replicas have the log on disk.
        durable_offset: i64 = -1, 12.., tag 10001;
        aborted_transactions: Option<Vec<AbortedTransaction>>, 4..;
        preferred_read_replica: i32 = -1, 11..;
        records: Option<Records>, 0..;
    }

    pub struct EpochEndOffset {
        epoch: i32 = -1, 12..;
        end_offset: i64 = -1, 12..;
    }

    pub struct LeaderIdAndEpoch {
        leader_id: i32 = -1, 12..;
        leader_epoch: i32 = -1, 12..;
    }

    pub struct SnapshotId {
        end_offset: i64 = -1, 0..;
        epoch: i32 = -1, 0..;
    }

    pub struct AbortedTransaction {
        producer_id: i64, 4..;
        first_offset: i64, 4..;
    }

    pub struct NodeEndpoint {
        node_id: i32, 16..;
        host: String, 16..;
        port: i32, 16..;
        rack: Option<String>, 16..;
    }
}
