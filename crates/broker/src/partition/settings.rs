//! A topic's settings in the form in which its partitions use them.

use configuration::{AckDurability, BrokerConfig, CompressionType, DiskCapacityPolicy, TopicConfig};
use storage::LogConfig;
use wire::batch::{Compression, Rules, TimestampType};
use wire::compress::Codec;

use super::ThrottledReplicas;

pub struct Settings {
    pub ack_durability: AckDurability,
    pub min_insync_replicas: i32,
    /// Unsynced records after which a partition is synced at once.
    pub flush_messages: i64,
    /// Whether `flush.ms` is shorter than the background flush, so that every append is synced at once.
    pub flush_always: bool,
    pub is_compacted: bool,
    pub disk_capacity_policy: DiskCapacityPolicy,
    /// Replicas here whose followers are throttled, while they lead.
    pub throttled_as_leader: ThrottledReplicas,
    pub throttled_as_follower: ThrottledReplicas,
    /// How batches are validated.
    pub rules: Rules,
    pub log: LogConfig,
}

impl Settings {
    pub fn new(topic: &TopicConfig, broker: &BrokerConfig) -> Self {
        let throttled = |elements: &[String]| ThrottledReplicas::parse(elements, broker.node_id);
        Self {
            ack_durability: topic.ack_durability,
            min_insync_replicas: topic.min_insync_replicas,
            flush_messages: topic.flush_messages,
            flush_always: topic.flush_ms < broker.log_background_flush_interval_ms,
            is_compacted: topic.is_compacted(),
            disk_capacity_policy: topic.disk_capacity_policy,
            throttled_as_leader: throttled(&topic.leader_replication_throttled_replicas),
            throttled_as_follower: throttled(&topic.follower_replication_throttled_replicas),
            rules: rules(topic),
            log: topic.log_config(broker),
        }
    }
}

fn rules(topic: &TopicConfig) -> Rules {
    Rules {
        max_message_bytes: usize::try_from(topic.max_message_bytes).unwrap_or(0),
        compacted: topic.is_compacted(),
        timestamp_type: match topic.message_timestamp_type {
            configuration::TimestampType::CreateTime => TimestampType::CreateTime,
            configuration::TimestampType::LogAppendTime => TimestampType::LogAppendTime,
        },
        timestamp_before_max_ms: topic.message_timestamp_before_max_ms,
        timestamp_after_max_ms: topic.message_timestamp_after_max_ms,
        compression: compression(topic),
    }
}

/// The codec that the topic wants its batches in; `None` leaves them as they come.
fn compression(topic: &TopicConfig) -> Option<Compression> {
    let (codec, level) = match topic.compression_type {
        CompressionType::Producer => return None,
        CompressionType::Uncompressed => (Codec::None, None),
        CompressionType::Gzip => (Codec::Gzip, Some(topic.compression_gzip_level)),
        CompressionType::Snappy => (Codec::Snappy, None),
        CompressionType::Lz4 => (Codec::Lz4, Some(topic.compression_lz4_level)),
        CompressionType::Zstd => (Codec::Zstd, Some(topic.compression_zstd_level)),
    };
    Some(Compression { codec, level })
}
