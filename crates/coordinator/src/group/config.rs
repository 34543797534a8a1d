//! Settings of the group coordinator under Kafka's names, with Kafka's defaults.

use configuration::{BrokerConfig, MigrationPolicy};
use wire::compress::Codec;

use super::assignor::Assignor;

/// What the coordinator is configured with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`
    pub max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`
    pub max_size: usize,
    /// `group.consumer.max.size`
    pub consumer_max_size: usize,
    /// `group.consumer.migration.policy`
    pub migration_policy: MigrationPolicy,
    /// `group.consumer.assignors`
    pub consumer_assignors: Vec<Assignor>,
    /// `offset.metadata.max.bytes`
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`, in milliseconds
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`
    pub offsets_retention_check_interval_ms: i64,
    /// `offsets.commit.timeout.ms`
    pub offset_commit_timeout_ms: i64,
    /// `offsets.topic.num.partitions`: how groups are spread as long as the topic does not exist.
    pub offsets_topic_num_partitions: i32,
    /// `offsets.topic.compression.codec`
    pub offsets_topic_codec: Codec,
    /// `offsets.load.buffer.size`
    pub offsets_load_buffer_bytes: u32,
    /// Bound on one member's protocols. Kafka has only that of the request.
    pub max_member_metadata_bytes: usize,
    /// Bound on the estimated memory of all groups, members and offsets. Kafka has none. No group and no address may
    /// take all of it.
    pub max_memory_bytes: usize,
    /// Bound per partition of the offsets topic on the memory of member ids that were handed out and not used yet
    /// (KIP-394). The oldest are dropped, so that a flood of them cannot keep others out. Kafka has none.
    pub max_pending_member_bytes: usize,
}

impl GroupConfig {
    /// How long a new member may wait for its group before its JoinGroup is answered (Kafka's constant): it has no
    /// member id to heartbeat with, so nothing else shows that it has left.
    pub const NEW_MEMBER_JOIN_TIMEOUT_MS: i64 = 5 * 60 * 1000;
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            max_size: i32::MAX as usize,
            consumer_max_size: i32::MAX as usize,
            migration_policy: MigrationPolicy::Bidirectional,
            consumer_assignors: Assignor::ALL.to_vec(),
            offset_metadata_max_bytes: 4_096,
            offsets_retention_ms: 7 * 24 * 60 * 60 * 1000,
            offsets_retention_check_interval_ms: 600_000,
            offset_commit_timeout_ms: 5_000,
            offsets_topic_num_partitions: 50,
            offsets_topic_codec: Codec::None,
            offsets_load_buffer_bytes: 5 * 1024 * 1024,
            max_member_metadata_bytes: 1024 * 1024,
            max_memory_bytes: 256 * 1024 * 1024,
            max_pending_member_bytes: 512 * 1024,
        }
    }
}

impl From<&BrokerConfig> for GroupConfig {
    fn from(config: &BrokerConfig) -> Self {
        Self {
            min_session_timeout_ms: config.group_min_session_timeout_ms,
            max_session_timeout_ms: config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms: config.group_initial_rebalance_delay_ms,
            max_size: config.group_max_size.unsigned_abs() as usize,
            consumer_max_size: config.group_consumer_max_size.unsigned_abs() as usize,
            migration_policy: config.group_consumer_migration_policy,
            // The bounds of the setting are those of the names.
            consumer_assignors: config
                .group_consumer_assignors
                .iter()
                .filter_map(|name| Assignor::from_name(name))
                .collect(),
            offset_metadata_max_bytes: config.offset_metadata_max_bytes.unsigned_abs() as usize,
            offsets_retention_ms: i64::from(config.offsets_retention_minutes) * 60 * 1000,
            offsets_retention_check_interval_ms: config.offsets_retention_check_interval_ms,
            offset_commit_timeout_ms: i64::from(config.offsets_commit_timeout_ms),
            offsets_topic_num_partitions: config.offsets_topic_num_partitions,
            // The bounds of the setting are those of the ids.
            offsets_topic_codec: Codec::from_id(config.offsets_topic_compression_codec as i16).unwrap_or(Codec::None),
            offsets_load_buffer_bytes: config.offsets_load_buffer_size.unsigned_abs(),
            ..Self::default()
        }
    }
}
