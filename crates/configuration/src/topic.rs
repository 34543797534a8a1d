//! The settings of a topic: its own over those that the broker's make.

use storage::{CleanupPolicy, LogConfig};

use super::value::{AckDurability, CompressionType, DiskCapacityPolicy, TimestampType};
use super::{BrokerConfig, ConfigError, ConfigMap, Scope, Synonym, settings};

const fn same(name: &'static str) -> Synonym {
    Synonym { name, factor: 1 }
}

const fn minutes(name: &'static str) -> Synonym {
    Synonym { name, factor: 60 * 1000 }
}

const fn hours(name: &'static str) -> Synonym {
    Synonym { name, factor: 60 * 60 * 1000 }
}

// The broker settings behind each are those of org.apache.kafka.server.config.ServerTopicConfigSynonyms.
settings! {
    /// A topic's settings, typed.
    pub struct TopicConfig {}

    "ack.durability" => ack_durability: AckDurability = "disk", OneOf(AckDurability::NAMES), ClusterWide,
        "When acks=all counts a record as written: on disk, or in the operating system's cache as Kafka has it.",
        from [same("log.ack.durability")];
    "cleanup.policy" => cleanup_policy: Vec<String> = "delete", EachOf(&["compact", "delete"]), ClusterWide,
        "What is done about old records: delete them by age and size, compact them by key, or both.",
        from [same("log.cleanup.policy")];
    "compression.gzip.level" => compression_gzip_level: i32 = "-1", GzipLevel, ClusterWide,
        "The level when compression.type is gzip.", from [same("compression.gzip.level")];
    "compression.lz4.level" => compression_lz4_level: i32 = "9", Between(1, 17), ClusterWide,
        "The level when compression.type is lz4.", from [same("compression.lz4.level")];
    "compression.type" => compression_type: CompressionType = "producer", OneOf(CompressionType::NAMES), ClusterWide,
        "How batches are stored: compressed so, uncompressed, or as the producer sent them.",
        from [same("compression.type")];
    "compression.zstd.level" => compression_zstd_level: i32 = "3", Between(-131072, 22), ClusterWide,
        "The level when compression.type is zstd.", from [same("compression.zstd.level")];
    "delete.retention.ms" => delete_retention_ms: i64 = "86400000", AtLeast(0), ClusterWide,
        "How long a tombstone stays when the topic is compacted.", from [same("log.cleaner.delete.retention.ms")];
    "disk.capacity.policy" => disk_capacity_policy: DiskCapacityPolicy
        = "none", OneOf(DiskCapacityPolicy::NAMES), ClusterWide,
        "What happens when the disk fills up: the oldest segments go, or no more records come.",
        from [same("disk.capacity.policy")];
    "file.delete.delay.ms" => file_delete_delay_ms: i64 = "60000", AtLeast(0), ClusterWide,
        "How long a deleted segment's files stay.", from [same("log.segment.delete.delay.ms")];
    "flush.messages" => flush_messages: i64 = "9223372036854775807", AtLeast(1), ClusterWide,
        "Records after which a partition is flushed to disk at once.", from [same("log.flush.interval.messages")];
    "flush.ms" => flush_ms: i64 = "9223372036854775807", AtLeast(0), ClusterWide,
        "The time after which a partition is flushed to disk.",
        from [same("log.flush.interval.ms"), same("log.flush.scheduler.interval.ms")];
    "follower.replication.throttled.replicas" => follower_replication_throttled_replicas: Vec<String>
        = "", ThrottledReplicas, ClusterWide,
        "Replicas that are throttled as followers: partition:broker pairs, or * for all.";
    "index.interval.bytes" => index_interval_bytes: i32 = "4096", AtLeast(0), ClusterWide,
        "Bytes of records per index entry.", from [same("log.index.interval.bytes")];
    "leader.replication.throttled.replicas" => leader_replication_throttled_replicas: Vec<String>
        = "", ThrottledReplicas, ClusterWide,
        "Replicas that are throttled as leaders: partition:broker pairs, or * for all.";
    "internal.segment.bytes" => internal_segment_bytes: Option<i32> = null, AtLeast(14), ClusterWide,
        "As segment.bytes, without its lower bound, over which it goes. Internal to Kafka, for tests.";
    "local.retention.bytes" => local_retention_bytes: i64 = "-2", AtLeast(-2), ClusterWide,
        "As retention.bytes for what is kept locally of a topic in tiered storage. -2 is the same.",
        from [same("log.local.retention.bytes")], ignored "there is no tiered storage yet";
    "local.retention.ms" => local_retention_ms: i64 = "-2", AtLeast(-2), ClusterWide,
        "As retention.ms for what is kept locally of a topic in tiered storage. -2 is the same.",
        from [same("log.local.retention.ms")], ignored "there is no tiered storage yet";
    "max.compaction.lag.ms" => max_compaction_lag_ms: i64 = "9223372036854775807", AtLeast(1), ClusterWide,
        "The age at which a record is compacted at last.", from [same("log.cleaner.max.compaction.lag.ms")];
    "max.message.bytes" => max_message_bytes: i32 = "1048588", AtLeast(0), ClusterWide,
        "The largest record batch.", from [same("message.max.bytes")];
    "message.timestamp.after.max.ms" => message_timestamp_after_max_ms: i64 = "3600000", AtLeast(0), ClusterWide,
        "How far in the future a record's timestamp may lie.", from [same("log.message.timestamp.after.max.ms")];
    "message.timestamp.before.max.ms" => message_timestamp_before_max_ms: i64
        = "9223372036854775807", AtLeast(0), ClusterWide,
        "How far in the past a record's timestamp may lie.", from [same("log.message.timestamp.before.max.ms")];
    "message.timestamp.type" => message_timestamp_type: TimestampType
        = "CreateTime", OneOf(TimestampType::NAMES), ClusterWide,
        "Whether a record's timestamp is its producer's or the time of its arrival.",
        from [same("log.message.timestamp.type")];
    "min.cleanable.dirty.ratio" => min_cleanable_dirty_ratio: f64 = "0.5", Ratio, ClusterWide,
        "The part of a log that must be new before it is compacted.", from [same("log.cleaner.min.cleanable.ratio")];
    "min.compaction.lag.ms" => min_compaction_lag_ms: i64 = "0", AtLeast(0), ClusterWide,
        "The age below which a record is not compacted away.", from [same("log.cleaner.min.compaction.lag.ms")];
    "min.insync.replicas" => min_insync_replicas: i32 = "1", AtLeast(1), ClusterWide,
        "Replicas that must be in sync for acks=all to be accepted.", from [same("min.insync.replicas")];
    "preallocate" => preallocate: bool = "false", Any, ClusterWide,
        "Whether a new segment's space is taken at once.", from [same("log.preallocate")],
        ignored "a segment takes space as records come";
    "remote.log.copy.disable" => remote_log_copy_disable: bool = "false", Any, ClusterWide,
        "Whether copying to tiered storage has stopped.",
        ignored "there is no tiered storage yet";
    "remote.log.delete.on.disable" => remote_log_delete_on_disable: bool = "false", Any, ClusterWide,
        "Whether leaving tiered storage deletes what it holds.",
        ignored "there is no tiered storage yet";
    "remote.storage.enable" => remote_storage_enable: bool = "false", Any, ClusterWide,
        "Whether the topic is in tiered storage. There is none yet, and true is refused.";
    "retention.bytes" => retention_bytes: i64 = "-1", Any, ClusterWide,
        "The size of a partition above which its oldest segments are deleted. -1 is no bound.",
        from [same("log.retention.bytes")];
    "retention.ms" => retention_ms: i64 = "604800000", AtLeast(-1), ClusterWide,
        "The age above which segments are deleted. -1 is no bound.",
        from [same("log.retention.ms"), minutes("log.retention.minutes"), hours("log.retention.hours")];
    "segment.bytes" => segment_bytes: i32 = "1073741824", AtLeast(1048576), ClusterWide,
        "The size at which a segment is closed.", from [same("log.segment.bytes")];
    "segment.index.bytes" => segment_index_bytes: i32 = "10485760", AtLeast(4), ClusterWide,
        "The largest index of a segment.", from [same("log.index.size.max.bytes")];
    "segment.jitter.ms" => segment_jitter_ms: i64 = "0", AtLeast(0), ClusterWide,
        "The most by which closing a segment for its age is brought forward, at random.",
        from [same("log.roll.jitter.ms"), hours("log.roll.jitter.hours")];
    "segment.ms" => segment_ms: i64 = "604800000", AtLeast(1), ClusterWide,
        "The age at which a segment is closed.", from [same("log.roll.ms"), hours("log.roll.hours")];
    "unclean.leader.election.enable" => unclean_leader_election_enable: bool = "false", Any, ClusterWide,
        "Whether a replica that lacks records may lead when no other is left.",
        from [same("unclean.leader.election.enable")];
}

/// The text of a topic's (or group's) setting as the broker has it: the first synonym with a value, else the default.
pub fn from_broker(setting: &'static super::Setting, broker: &BrokerConfig) -> Option<String> {
    let found = setting.synonyms.iter().find_map(|synonym| {
        let text = broker.text(Scope::Broker.find(synonym.name)?)?;
        match synonym.factor {
            1 => Some(text.to_owned()),
            // A negative time in any unit means none.
            factor => text.parse::<i64>().ok().map(|n| if n < 0 { -1 } else { n.saturating_mul(factor) }.to_string()),
        }
    });
    found.or_else(|| setting.default.map(str::to_owned))
}

impl Default for TopicConfig {
    fn default() -> Self {
        Self::typed(|setting| setting.default.map(str::to_owned)).expect("the defaults of the table are valid")
    }
}

impl TopicConfig {
    /// A topic's settings: its own over the broker's.
    pub fn resolve(broker: &BrokerConfig, overrides: &ConfigMap) -> Result<Self, ConfigError> {
        for name in overrides.keys() {
            Scope::Topic.expect(name)?;
        }
        let config =
            Self::typed(|setting| overrides.get(setting.name).cloned().or_else(|| from_broker(setting, broker)))?;
        config.check()?;
        Ok(config)
    }

    /// As [`Self::resolve`], but a value that cannot be is left out: a topic that is there must be served, whatever
    /// an earlier or later version wrote about it.
    pub fn resolve_lenient(broker: &BrokerConfig, overrides: &ConfigMap) -> (Self, Vec<ConfigError>) {
        let mut errors = Vec::new();
        let mut good = ConfigMap::new();
        for (name, text) in overrides {
            match Scope::Topic.expect(name).and_then(|setting| setting.check(text)) {
                Ok(()) => _ = good.insert(name.clone(), text.clone()),
                Err(error) => errors.push(error),
            }
        }
        let resolved = Self::resolve(broker, &good).unwrap_or_else(|error| {
            errors.push(error);
            Self::typed(|setting| from_broker(setting, broker)).unwrap_or_default()
        });
        (resolved, errors)
    }

    /// What holds between settings (`LogConfig.validateValues`).
    fn check(&self) -> Result<(), ConfigError> {
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms {
            return Err(ConfigError::Conflict(format!(
                "conflict topic config setting min.compaction.lag.ms ({}) > max.compaction.lag.ms ({})",
                self.min_compaction_lag_ms, self.max_compaction_lag_ms
            )));
        }
        if self.remote_storage_enable {
            return Err(ConfigError::Conflict(
                "Tiered Storage functionality is disabled in the broker. \
                 Topic cannot be configured with remote log storage."
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn has_policy(&self, name: &str) -> bool {
        self.cleanup_policy.iter().any(|policy| policy == name)
    }

    /// Whether the topic is compacted: its records must have keys.
    pub fn is_compacted(&self) -> bool {
        self.has_policy("compact")
    }

    /// The age at which a segment is closed. Only a closed one is compacted, so that of a compacted topic is closed in
    /// time for it (`LogConfig.maxSegmentMs`).
    fn segment_age_ms(&self) -> i64 {
        if self.is_compacted() { self.segment_ms.min(self.max_compaction_lag_ms) } else { self.segment_ms }
    }

    /// What the log of one of its partitions needs to know.
    pub fn log_config(&self, broker: &BrokerConfig) -> LogConfig {
        // Bounds make all of them non-negative.
        let unsigned = |number: i32| number.unsigned_abs();
        LogConfig {
            segment_bytes: unsigned(self.internal_segment_bytes.unwrap_or(self.segment_bytes)),
            segment_ms: self.segment_age_ms(),
            segment_jitter_ms: self.segment_jitter_ms,
            segment_index_bytes: unsigned(self.segment_index_bytes),
            index_interval_bytes: unsigned(self.index_interval_bytes),
            retention_bytes: self.retention_bytes.max(-1),
            retention_ms: self.retention_ms,
            file_delete_delay_ms: self.file_delete_delay_ms,
            cleanup_policy: CleanupPolicy { delete: self.has_policy("delete"), compact: self.is_compacted() },
            max_message_bytes: unsigned(self.max_message_bytes),
            message_timestamp_type: match self.message_timestamp_type {
                TimestampType::CreateTime => storage::TimestampType::CreateTime,
                TimestampType::LogAppendTime => storage::TimestampType::LogAppendTime,
            },
            min_cleanable_dirty_per_mille: (self.min_cleanable_dirty_ratio * 1000.0).round() as u32,
            delete_retention_ms: self.delete_retention_ms,
            min_compaction_lag_ms: self.min_compaction_lag_ms,
            max_compaction_lag_ms: self.max_compaction_lag_ms,
            producer_id_expiration_ms: i64::from(broker.producer_id_expiration_ms),
            ..LogConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> ConfigMap {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn broker(pairs: &[(&str, &str)]) -> BrokerConfig {
        BrokerConfig::new(map(pairs)).unwrap()
    }

    #[test]
    fn defaults_are_those_of_the_table() {
        let broker = broker(&[]);
        for setting in SETTINGS {
            assert_eq!(from_broker(setting, &broker).as_deref(), setting.default, "{}", setting.name);
        }
        let config = TopicConfig::resolve(&broker, &ConfigMap::new()).unwrap();
        let log = config.log_config(&broker);
        assert_eq!(log, LogConfig::default());
    }

    #[test]
    fn times_come_in_three_units_and_the_finest_wins() {
        let retention = |pairs: &[(&str, &str)]| TopicConfig::resolve(&broker(pairs), &map(&[])).unwrap().retention_ms;
        assert_eq!(retention(&[("log.retention.hours", "2")]), 2 * 3600 * 1000);
        assert_eq!(retention(&[("log.retention.hours", "2"), ("log.retention.minutes", "3")]), 3 * 60 * 1000);
        assert_eq!(retention(&[("log.retention.minutes", "3"), ("log.retention.ms", "4")]), 4);
        assert_eq!(retention(&[("log.retention.hours", "-1")]), -1);
    }

    #[test]
    fn a_topics_own_setting_wins() {
        let broker = broker(&[("min.insync.replicas", "2"), ("log.ack.durability", "os")]);
        let config = TopicConfig::resolve(&broker, &map(&[("ack.durability", "disk")])).unwrap();
        assert_eq!((config.min_insync_replicas, config.ack_durability), (2, AckDurability::Disk));
        let config = TopicConfig::resolve(&broker, &map(&[("cleanup.policy", "compact, delete")])).unwrap();
        assert_eq!(config.log_config(&broker).cleanup_policy, CleanupPolicy::COMPACT_DELETE);
        assert_eq!(config.ack_durability, AckDurability::Os);
    }

    #[test]
    fn refuses_in_kafkas_words() {
        for (name, value, line) in [
            ("foo", "3", "Unknown topic config name: foo"),
            ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
            ("segment.bytes", "3", "Invalid value 3 for configuration segment.bytes: Value must be at least 1048576"),
            (
                "cleanup.policy",
                "abc",
                "Invalid value abc for configuration cleanup.policy: String must be one of: compact, delete",
            ),
            (
                "compression.type",
                "abc",
                "Invalid value abc for configuration compression.type: String must be one of: \
                 uncompressed, zstd, lz4, snappy, gzip, producer",
            ),
            (
                "min.cleanable.dirty.ratio",
                "1.1",
                "Invalid value 1.1 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
            ),
            (
                "min.cleanable.dirty.ratio",
                "NaN",
                "Invalid value NaN for configuration min.cleanable.dirty.ratio: Value must be at least 0",
            ),
            (
                "preallocate",
                "yes",
                "Invalid value yes for configuration preallocate: Expected value to be either true or false",
            ),
            (
                "leader.replication.throttled.replicas",
                "1-2",
                "Invalid value 1-2 for configuration leader.replication.throttled.replicas: \
                 Value must be the literal '*' or a list of partitionId:brokerId pairs",
            ),
            (
                "remote.storage.enable",
                "true",
                "Tiered Storage functionality is disabled in the broker. \
                 Topic cannot be configured with remote log storage.",
            ),
        ] {
            let error = TopicConfig::resolve(&broker(&[]), &map(&[(name, value)])).unwrap_err();
            assert_eq!(error.to_string(), line);
        }
        let conflict = map(&[("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "4")]);
        assert_eq!(
            TopicConfig::resolve(&broker(&[]), &conflict).unwrap_err().to_string(),
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)"
        );
    }

    #[test]
    fn a_topic_with_bad_settings_is_served_by_its_good_ones() {
        let overrides = map(&[("retention.ms", "abc"), ("segment.bytes", "1048576"), ("from.the.future", "1")]);
        let (config, errors) = TopicConfig::resolve_lenient(&broker(&[]), &overrides);
        assert_eq!((config.retention_ms, config.segment_bytes, errors.len()), (604800000, 1048576, 2));
    }
}
