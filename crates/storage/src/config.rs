//! The settings that one log obeys, under Kafka's names, and the two clocks that callers pass in.

use wire::batch::TimestampType;

/// What becomes of old records (`cleanup.policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    pub delete: bool,
    pub compact: bool,
}

impl CleanupPolicy {
    pub const DELETE: Self = Self { delete: true, compact: false };
    pub const COMPACT: Self = Self { delete: false, compact: true };
    pub const COMPACT_DELETE: Self = Self { delete: true, compact: true };
}

/// The settings of one log; the defaults are Kafka's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    pub segment_bytes: u32,
    pub segment_ms: i64,
    /// Upper bound of what is taken off `segment_ms`, so that not all logs roll at the same time.
    pub segment_jitter_ms: i64,
    pub segment_index_bytes: u32,
    pub index_interval_bytes: u32,
    /// -1 for no limit.
    pub retention_bytes: i64,
    /// -1 for no limit.
    pub retention_ms: i64,
    pub file_delete_delay_ms: i64,
    pub cleanup_policy: CleanupPolicy,
    pub max_message_bytes: u32,
    pub message_timestamp_type: TimestampType,
    /// In thousandths, so that the settings can be compared (`min.cleanable.dirty.ratio` 0.5 is 500).
    pub min_cleanable_dirty_per_mille: u32,
    pub delete_retention_ms: i64,
    pub min_compaction_lag_ms: i64,
    pub max_compaction_lag_ms: i64,
    pub producer_id_expiration_ms: i64,
    /// How many producers are remembered at most; the ones that were silent for longest are forgotten first.
    pub producers_max: usize,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3600 * 1000,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            retention_bytes: -1,
            retention_ms: 7 * 24 * 3600 * 1000,
            file_delete_delay_ms: 60_000,
            cleanup_policy: CleanupPolicy::DELETE,
            max_message_bytes: (1 << 20) + 12,
            message_timestamp_type: TimestampType::CreateTime,
            min_cleanable_dirty_per_mille: 500,
            delete_retention_ms: 24 * 3600 * 1000,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            producer_id_expiration_ms: 24 * 3600 * 1000,
            producers_max: 10_000,
        }
    }
}

/// The time by both clocks. The wall clock may jump; the monotonic one counts from any origin, the same for all calls
/// in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    pub wall_ms: i64,
    pub monotonic_ms: i64,
}
