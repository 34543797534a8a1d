//! The settings of a broker.

pub mod listener_settings;
pub mod listeners;
pub mod membership;

use std::fmt;
use std::sync::Arc;

use super::value::{
    AckDurability, AddressCounts, CompressionType, DiskCapacityPolicy, MigrationPolicy, Principals, TimestampType,
};
use super::{
    ConfigError, ConfigMap, Endpoint, ListenerConfig, Membership, Password, Scope, SecurityProtocol, Setting, settings,
};

/// The one choice of `replica.selector.class`: an in-sync replica of the consumer's own rack.
const RACK_AWARE_REPLICA_SELECTOR: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
/// The one choice of `authorizer.class.name`.
pub const STANDARD_AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

settings! {
    /// A broker's settings, typed: those it was started with under those that were set while it runs.
    pub struct BrokerConfig {
        /// What was said about settings, layer by layer.
        layers: Layers,
    }

    // Who it is.
    "node.id" => node_id: i32 = "1", AtLeast(0), ReadOnly, "The number of this node, unique in its cluster.";
    "broker.id" => broker_id: Option<i32> = null, AtLeast(0), ReadOnly, "The older name of node.id.";
    "cluster.id" => cluster_id: Option<String> = null, Any, ReadOnly,
        "The cluster's id, made up at the first start unless it is given.";
    "process.roles" => process_roles: Vec<String> = "broker,controller", EachOf(&["broker", "controller"]), ReadOnly,
        "What this node is. A node serves clients and takes part in the metadata quorum.";
    "broker.rack" => broker_rack: Option<String> = null, Any, ReadOnly,
        "The rack or zone of this broker: replicas are spread over racks, consumers read from their own.";
    "controller.quorum.voters" => controller_quorum_voters: Vec<String> = "", Any, ReadOnly,
        "The nodes that vote on metadata, as id@host:port. Empty is this node alone.";
    "controller.quorum.bootstrap.servers" => controller_quorum_bootstrap_servers: Vec<String> = "", Any, ReadOnly,
        "Nodes of the cluster to join, as host:port of their inter-broker listeners. Empty is this node alone.";
    "controller.quorum.auto.join.enable" => controller_quorum_auto_join_enable: bool = "false", Any, ReadOnly,
        "Whether a node that joins becomes a voter of the metadata quorum by itself.";
    "broker.heartbeat.interval.ms" => broker_heartbeat_interval_ms: i32 = "200", AtLeast(1), ReadOnly,
        "How often a broker tells the controller that it is alive.";
    "broker.session.timeout.ms" => broker_session_timeout_ms: i32 = "2000", AtLeast(1), ReadOnly,
        "A broker that the controller has not heard of for so long leads nothing any more.";
    "initial.broker.registration.timeout.ms" => initial_broker_registration_timeout_ms: i32
        = "60000", AtLeast(1), ReadOnly,
        "How long a start tries to find the cluster and to register before it gives up.";

    // Listeners.
    "listeners" => listeners: Vec<String> = "PLAINTEXT://127.0.0.1:9092", Any, ReadOnly,
        "Addresses to listen on, as NAME://host:port. No host is every interface.";
    "advertised.listeners" => advertised_listeners: Option<Vec<String>> = null, Any, ReadOnly,
        "Addresses that clients are told to connect to, where they differ from listeners.";
    "listener.security.protocol.map" => listener_security_protocol_map: Vec<String>
        = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", Any, ReadOnly,
        "Which security protocol each listener name speaks.";
    "controller.listener.names" => controller_listener_names: Vec<String> = "", Any, ReadOnly,
        "Names of listeners that serve the metadata quorum and no clients.";
    "socket.listen.backlog.size" => socket_listen_backlog_size: i32 = "4096", AtLeast(1), ReadOnly,
        "Connections that may wait to be accepted. The kernel's net.core.somaxconn bounds it.";
    "socket.send.buffer.bytes" => socket_send_buffer_bytes: i32 = "-1", AtLeast(-1), ReadOnly,
        "The kernel's send buffer per connection. -1 leaves it to the kernel, which grows it as needed.";
    "socket.receive.buffer.bytes" => socket_receive_buffer_bytes: i32 = "-1", AtLeast(-1), ReadOnly,
        "The kernel's receive buffer per connection. -1 leaves it to the kernel, which grows it as needed.";
    "socket.request.max.bytes" => socket_request_max_bytes: i32 = "104857600", AtLeast(1), ReadOnly,
        "The largest request. A larger one ends its connection.";
    "connections.max.idle.ms" => connections_max_idle_ms: i64 = "600000", AtLeast(1), ReadOnly,
        "A connection without requests for so long is closed.";
    "max.connections" => max_connections: i32 = "2147483647", AtLeast(0), ClusterWide,
        "Connections at a time, of all listeners for clients together. One more is closed at once.";
    "max.connections.per.ip" => max_connections_per_ip: i32 = "2147483647", AtLeast(0), ClusterWide,
        "Connections at a time from one address.";
    "max.connections.per.ip.overrides" => max_connections_per_ip_overrides: AddressCounts
        = "", PerAddress, ClusterWide, "Other bounds for single addresses, as address:count.";
    "queued.max.request.bytes" => queued_max_request_bytes: i64 = "-1", AtLeast(-1), ReadOnly,
        "Memory for all requests under way together; at the bound nothing is read. -1 takes an eighth of the memory.";
    "request.timeout.ms" => request_timeout_ms: i32 = "30000", AtLeast(1), ReadOnly,
        "How long a broker waits for another one's answer.";

    // Access control.
    "authorizer.class.name" => authorizer_class_name: String = "", Any, ReadOnly,
        "Who decides what clients may do: Kafka's StandardAuthorizer, by access control lists. Empty is nobody: \
         they may do everything.";
    "super.users" => super_users: Principals = "", Principals, ReadOnly,
        "Principals that may do everything, whatever access control lists say, with ; between them.";
    "allow.everyone.if.no.acl.found" => allow_everyone_if_no_acl_found: bool = "false", Any, ReadOnly,
        "Whether clients may do everything with what no access control list is about.";

    // Directories.
    "log.dir" => log_dir: Vec<String> = "/tmp/kafka-logs", Any, ReadOnly, "The data directory, unless log.dirs is set.";
    "log.dirs" => log_dirs: Option<Vec<String>> = null, Any, ReadOnly, "The data directory.";
    "disk.capacity.policy" => disk_capacity_policy: DiskCapacityPolicy
        = "none", OneOf(DiskCapacityPolicy::NAMES), ClusterWide,
        "What happens beyond disk.capacity.threshold.percent: nothing, the oldest segments go, or no more records come.";
    "disk.capacity.threshold.percent" => disk_capacity_threshold_percent: i32 = "95", Between(1, 100), ClusterWide,
        "The part of the disk that may be in use, whoever uses it, before disk.capacity.policy acts.";
    "disk.reserve.bytes" => disk_reserve_bytes: i64 = "268435456", AtLeast(0), ClusterWide,
        "Free space below which all produce requests are refused, so that the rest goes on working. \
         It is never more than a fortieth of the disk.";
    "log.journal.enable" => log_journal_enable: bool = "true", Any, ReadOnly,
        "Whether what has to be acknowledged from the disk is written there once for all partitions, in a journal.";
    "log.journal.bytes" => log_journal_bytes: i64 = "536870912", Between(131072, 68719476736), ReadOnly,
        "How large the journal may become. It is never more than a twentieth of the disk.";
    "log.journal.bypass.bytes" => log_journal_bypass_bytes: i32 = "131072", Between(0, 524288), ReadOnly,
        "A partition with more than this to bring to the disk at once is synced in its segment instead.";
    "disk.stall.timeout.ms" => disk_stall_timeout_ms: i32 = "2000", Between(100, 600000), ReadOnly,
        "A disk that does not finish a write or a sync for so long is stalled: other nodes take over, until it answers.";

    // Topics.
    "num.partitions" => num_partitions: i32 = "1", AtLeast(1), ReadOnly,
        "Partitions of a topic whose creator does not say.";
    "max.partitions.per.broker" => max_partitions_per_broker: i32 = "20000", AtLeast(1), ClusterWide,
        "Replicas that a broker may have; topics and partitions that would bring more are not created.";
    "default.replication.factor" => default_replication_factor: i32 = "1", AtLeast(1), ReadOnly,
        "Replicas of a topic whose creator does not say.";
    "auto.create.topics.enable" => auto_create_topics_enable: bool = "true", Any, ReadOnly,
        "Whether a topic comes into being when a client first asks for it.";
    "delete.topic.enable" => delete_topic_enable: bool = "true", Any, ReadOnly, "Whether topics can be deleted.";
    "min.insync.replicas" => min_insync_replicas: i32 = "1", AtLeast(1), ClusterWide,
        "Replicas that must be in sync for acks=all to be accepted.";
    "unclean.leader.election.enable" => unclean_leader_election_enable: bool = "false", Any, ClusterWide,
        "Whether a replica that lacks records may lead when no other is left.";
    "auto.leader.rebalance.enable" => auto_leader_rebalance_enable: bool = "true", Any, ReadOnly,
        "Whether partitions go back to their preferred leaders by themselves.";
    "leader.imbalance.check.interval.seconds" => leader_imbalance_check_interval_seconds: i64
        = "300", AtLeast(1), ReadOnly, "How often that is looked at.";
    "replica.lag.time.max.ms" => replica_lag_time_max_ms: i64 = "30000", AtLeast(1), ReadOnly,
        "A follower that has not caught up for so long is out of sync.";
    "replica.fetch.max.bytes" => replica_fetch_max_bytes: i32 = "1048576", AtLeast(0), ReadOnly,
        "Bytes of one partition that a follower asks for at a time. A larger first batch comes whole.";
    "replica.fetch.response.max.bytes" => replica_fetch_response_max_bytes: i32 = "10485760", AtLeast(0), ReadOnly,
        "Bytes that a follower asks one leader for at a time.";
    "replica.fetch.wait.max.ms" => replica_fetch_wait_max_ms: i32 = "500", AtLeast(0), ReadOnly,
        "How long a leader may keep a follower waiting for records.";
    "replica.fetch.min.bytes" => replica_fetch_min_bytes: i32 = "1", AtLeast(0), ReadOnly,
        "Bytes that a follower waits for.";
    "leader.replication.throttled.rate" => leader_replication_throttled_rate: i64
        = "9223372036854775807", AtLeast(0), ClusterWide,
        "Bytes per second that this broker sends to followers which are throttled and not in sync.";
    "follower.replication.throttled.rate" => follower_replication_throttled_rate: i64
        = "9223372036854775807", AtLeast(0), ClusterWide,
        "Bytes per second that this broker fetches for partitions of its own which are throttled and not in sync.";
    "replication.quota.window.num" => replication_quota_window_num: i32 = "11", AtLeast(1), ReadOnly,
        "Windows over which these rates are means.";
    "replication.quota.window.size.seconds" => replication_quota_window_size_seconds: i32 = "1", AtLeast(1), ReadOnly,
        "The length of such a window.";
    "replica.selector.class" => replica_selector_class: Option<String> = null, OneOf(&[RACK_AWARE_REPLICA_SELECTOR]),
        ReadOnly, "How a leader chooses the replica that a consumer reads from. Unset, that is the leader itself.";
    "message.max.bytes" => message_max_bytes: i32 = "1048588", AtLeast(0), ClusterWide, "The largest record batch.";
    "compression.type" => compression_type: CompressionType = "producer", OneOf(CompressionType::NAMES), ClusterWide,
        "How batches are stored: compressed so, uncompressed, or as the producer sent them.";
    "compression.gzip.level" => compression_gzip_level: i32 = "-1", GzipLevel, ClusterWide,
        "The level when compression.type is gzip.";
    "compression.lz4.level" => compression_lz4_level: i32 = "9", Between(1, 17), ClusterWide,
        "The level when compression.type is lz4.";
    "compression.zstd.level" => compression_zstd_level: i32 = "3", Between(-131072, 22), ClusterWide,
        "The level when compression.type is zstd.";

    // Logs.
    "log.segment.bytes" => log_segment_bytes: i32 = "1073741824", AtLeast(1048576), ClusterWide,
        "The size at which a segment is closed.";
    "log.roll.ms" => log_roll_ms: Option<i64> = null, AtLeast(1), ClusterWide,
        "The age at which a segment is closed.";
    "log.roll.hours" => log_roll_hours: i32 = "168", AtLeast(1), ReadOnly, "As log.roll.ms, in hours.";
    "log.roll.jitter.ms" => log_roll_jitter_ms: Option<i64> = null, AtLeast(0), ClusterWide,
        "The most by which closing a segment for its age is brought forward, at random.";
    "log.roll.jitter.hours" => log_roll_jitter_hours: i32
        = "0", AtLeast(0), ReadOnly, "As log.roll.jitter.ms, in hours.";
    "log.retention.bytes" => log_retention_bytes: i64 = "-1", Any, ClusterWide,
        "The size of a partition above which its oldest segments are deleted. -1 is no bound.";
    "log.retention.ms" => log_retention_ms: Option<i64> = null, AtLeast(-1), ClusterWide,
        "The age above which segments are deleted. -1 is no bound.";
    "log.retention.minutes" => log_retention_minutes: Option<i32> = null, AtLeast(-1), ReadOnly,
        "As log.retention.ms, in minutes.";
    "log.retention.hours" => log_retention_hours: i32 = "168", AtLeast(-1), ReadOnly, "As log.retention.ms, in hours.";
    "log.retention.check.interval.ms" => log_retention_check_interval_ms: i64 = "300000", AtLeast(1), ReadOnly,
        "How often segments are looked at for deletion.";
    "log.segment.delete.delay.ms" => log_segment_delete_delay_ms: i64 = "60000", AtLeast(0), ClusterWide,
        "How long a deleted segment's files stay.";
    "log.cleanup.policy" => log_cleanup_policy: Vec<String> = "delete", EachOf(&["compact", "delete"]), ClusterWide,
        "What is done about old records: delete them by age and size, compact them by key, or both.";
    "log.index.interval.bytes" => log_index_interval_bytes: i32 = "4096", AtLeast(0), ClusterWide,
        "Bytes of records per index entry.";
    "log.index.size.max.bytes" => log_index_size_max_bytes: i32 = "10485760", AtLeast(4), ClusterWide,
        "The largest index of a segment.";
    "log.preallocate" => log_preallocate: bool = "false", Any, ClusterWide,
        "Whether a new segment's space is taken at once.",
        ignored "a segment takes space as records come";
    "log.message.timestamp.type" => log_message_timestamp_type: TimestampType
        = "CreateTime", OneOf(TimestampType::NAMES), ClusterWide,
        "Whether a record's timestamp is its producer's or the time of its arrival.";
    "log.message.timestamp.before.max.ms" => log_message_timestamp_before_max_ms: i64
        = "9223372036854775807", AtLeast(0), ClusterWide, "How far in the past a record's timestamp may lie.";
    "log.message.timestamp.after.max.ms" => log_message_timestamp_after_max_ms: i64
        = "3600000", AtLeast(0), ClusterWide, "How far in the future a record's timestamp may lie.";
    "log.local.retention.bytes" => log_local_retention_bytes: i64 = "-2", AtLeast(-2), ClusterWide,
        "As log.retention.bytes for what is kept locally of a topic in tiered storage. -2 is the same.",
        ignored "there is no tiered storage yet";
    "log.local.retention.ms" => log_local_retention_ms: i64 = "-2", AtLeast(-2), ClusterWide,
        "As log.retention.ms for what is kept locally of a topic in tiered storage. -2 is the same.",
        ignored "there is no tiered storage yet";

    // Durability.
    "log.ack.durability" => log_ack_durability: AckDurability = "disk", OneOf(AckDurability::NAMES), ClusterWide,
        "When acks=all counts a record as written: on disk, or in the operating system's cache as Kafka has it.";
    "log.background.flush.interval.ms" => log_background_flush_interval_ms: i64 = "500", Between(1, 60000), ClusterWide,
        "How long a record that nobody waits for may stay off the disk.";
    "log.flush.interval.messages" => log_flush_interval_messages: i64 = "9223372036854775807", AtLeast(1), ClusterWide,
        "Records after which a partition is flushed to disk at once.";
    "log.flush.interval.ms" => log_flush_interval_ms: Option<i64> = null, AtLeast(0), ClusterWide,
        "The time after which a partition is flushed to disk.";
    "log.flush.scheduler.interval.ms" => log_flush_scheduler_interval_ms: i64
        = "9223372036854775807", AtLeast(0), ReadOnly,
        "As log.flush.interval.ms, where that is not set.";
    "log.flush.offset.checkpoint.interval.ms" => log_flush_offset_checkpoint_interval_ms: i32
        = "60000", AtLeast(0), ReadOnly,
        "How often checkpoints are written: of this and the other two intervals of checkpoints the shortest counts, and a \
         second at most.";
    "log.flush.start.offset.checkpoint.interval.ms" => log_flush_start_offset_checkpoint_interval_ms: i32
        = "60000", AtLeast(0), ReadOnly, "As log.flush.offset.checkpoint.interval.ms.";
    "replica.high.watermark.checkpoint.interval.ms" => replica_high_watermark_checkpoint_interval_ms: i64
        = "5000", AtLeast(1), ReadOnly, "As log.flush.offset.checkpoint.interval.ms.";

    // Compaction.
    "log.cleaner.enable" => log_cleaner_enable: bool = "true", Any, ReadOnly, "Whether topics are compacted at all.";
    "log.cleaner.backoff.ms" => log_cleaner_backoff_ms: i64 = "15000", AtLeast(0), ClusterWide,
        "How long the cleaner rests when there is nothing to compact.";
    "log.cleaner.dedupe.buffer.size" => log_cleaner_dedupe_buffer_size: i64
        = "134217728", AtLeast(1048576), ClusterWide,
        "Memory for the keys of what is compacted.";
    "log.cleaner.io.max.bytes.per.second" => log_cleaner_io_max_bytes_per_second: f64
        = "1.7976931348623157E308", Positive, ClusterWide, "Bytes that the cleaner reads and writes in a second.";
    "log.cleaner.delete.retention.ms" => log_cleaner_delete_retention_ms: i64 = "86400000", AtLeast(0), ClusterWide,
        "How long a tombstone stays in a compacted topic.";
    "log.cleaner.min.cleanable.ratio" => log_cleaner_min_cleanable_ratio: f64 = "0.5", Ratio, ClusterWide,
        "The part of a log that must be new before it is compacted.";
    "log.cleaner.min.compaction.lag.ms" => log_cleaner_min_compaction_lag_ms: i64 = "0", AtLeast(0), ClusterWide,
        "The age below which a record is not compacted away.";
    "log.cleaner.max.compaction.lag.ms" => log_cleaner_max_compaction_lag_ms: i64
        = "9223372036854775807", AtLeast(1), ClusterWide, "The age at which a record is compacted at last.";

    // Fetch.
    "fetch.max.bytes" => fetch_max_bytes: i32 = "57671680", AtLeast(1024), ReadOnly,
        "The most that one fetch response holds.";
    "max.incremental.fetch.session.cache.slots" => max_incremental_fetch_session_cache_slots: i32
        = "1000", AtLeast(0), ReadOnly, "Fetch sessions that are remembered.";
    "max.request.partition.size.limit" => max_request_partition_size_limit: i32 = "2000", AtLeast(1), ReadOnly,
        "Partitions in one answer to DescribeTopicPartitions.";

    // Groups.
    "group.min.session.timeout.ms" => group_min_session_timeout_ms: i32 = "6000", AtLeast(1), ReadOnly,
        "The shortest session timeout that a member may ask for.";
    "group.max.session.timeout.ms" => group_max_session_timeout_ms: i32 = "1800000", AtLeast(1), ReadOnly,
        "The longest session timeout that a member may ask for.";
    "group.initial.rebalance.delay.ms" => group_initial_rebalance_delay_ms: i32 = "3000", AtLeast(0), ReadOnly,
        "How long a new group waits for more members.";
    "group.max.size" => group_max_size: i32 = "2147483647", AtLeast(1), ReadOnly, "Members of one group.";
    "group.consumer.session.timeout.ms" => group_consumer_session_timeout_ms: i32 = "45000", AtLeast(1), ReadOnly,
        "The session timeout of groups of the consumer protocol.";
    "group.consumer.min.session.timeout.ms" => group_consumer_min_session_timeout_ms: i32
        = "45000", AtLeast(1), ReadOnly,
        "The shortest session timeout that a group of the consumer protocol may be given.";
    "group.consumer.max.session.timeout.ms" => group_consumer_max_session_timeout_ms: i32
        = "60000", AtLeast(1), ReadOnly,
        "The longest session timeout that a group of the consumer protocol may be given.";
    "group.consumer.heartbeat.interval.ms" => group_consumer_heartbeat_interval_ms: i32 = "5000", AtLeast(1), ReadOnly,
        "How often members of the consumer protocol report.";
    "group.consumer.min.heartbeat.interval.ms" => group_consumer_min_heartbeat_interval_ms: i32
        = "5000", AtLeast(1), ReadOnly,
        "The shortest heartbeat interval that a group of the consumer protocol may be given.";
    "group.consumer.max.heartbeat.interval.ms" => group_consumer_max_heartbeat_interval_ms: i32
        = "15000", AtLeast(1), ReadOnly,
        "The longest heartbeat interval that a group of the consumer protocol may be given.";
    "group.consumer.max.size" => group_consumer_max_size: i32 = "2147483647", AtLeast(1), ReadOnly,
        "Members of one group of the consumer protocol.";
    "group.consumer.assignment.interval.ms" => group_consumer_assignment_interval_ms: i32
        = "1000", AtLeast(0), ClusterWide,
        "How long an assignment of a group of the consumer protocol stays at least.";
    "group.consumer.min.assignment.interval.ms" => group_consumer_min_assignment_interval_ms: i32
        = "0", AtLeast(0), ReadOnly,
        "The shortest assignment interval that a group of the consumer protocol may be given.";
    "group.consumer.max.assignment.interval.ms" => group_consumer_max_assignment_interval_ms: i32
        = "15000", AtLeast(0), ReadOnly,
        "The longest assignment interval that a group of the consumer protocol may be given.";
    "group.consumer.migration.policy" => group_consumer_migration_policy: MigrationPolicy
        = "bidirectional", OneOf(MigrationPolicy::NAMES), ReadOnly,
        "Whether a group may change between the classic and the consumer protocol while it has members.";
    "group.consumer.assignors" => group_consumer_assignors: Vec<String>
        = "uniform,range", EachOf(&["uniform", "range"]), ReadOnly,
        "How partitions may be assigned in groups of the consumer protocol. The first is what a member gets that does not ask.";
    "group.coordinator.rebalance.protocols" => group_coordinator_rebalance_protocols: Vec<String>
        = "classic,consumer,streams", EachOf(&["classic", "consumer", "share", "streams"]), ReadOnly,
        "The protocols of groups that are served, as far as they are known here: classic and consumer.";
    "offset.metadata.max.bytes" => offset_metadata_max_bytes: i32 = "4096", AtLeast(0), ReadOnly,
        "The longest text that may go with a committed offset.";
    "offsets.commit.timeout.ms" => offsets_commit_timeout_ms: i32 = "5000", AtLeast(1), ReadOnly,
        "How long a commit waits to be replicated.";
    "offsets.retention.minutes" => offsets_retention_minutes: i32 = "10080", AtLeast(1), ReadOnly,
        "How long the offsets of a group without members are kept.";
    "offsets.retention.check.interval.ms" => offsets_retention_check_interval_ms: i64 = "600000", AtLeast(1), ReadOnly,
        "How often offsets are looked at for expiry.";
    "offsets.load.buffer.size" => offsets_load_buffer_size: i32 = "5242880", AtLeast(1), ReadOnly,
        "Bytes of __consumer_offsets that are read at a time when a broker becomes the coordinator of its groups.";
    "offsets.topic.num.partitions" => offsets_topic_num_partitions: i32 = "50", AtLeast(1), ReadOnly,
        "Partitions of __consumer_offsets.";
    "offsets.topic.replication.factor" => offsets_topic_replication_factor: i16 = "3", AtLeast(1), ReadOnly,
        "Replicas of __consumer_offsets; by default three or as many as there are brokers.";
    "offsets.topic.segment.bytes" => offsets_topic_segment_bytes: i32 = "104857600", AtLeast(1), ReadOnly,
        "The segment size of __consumer_offsets.";
    "offsets.topic.compression.codec" => offsets_topic_compression_codec: i32 = "0", Between(0, 4), ReadOnly,
        "The compression of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.";

    // Producers.
    "producer.id.expiration.ms" => producer_id_expiration_ms: i32 = "86400000", AtLeast(1), ClusterWide,
        "How long a partition remembers an idempotent producer that sends nothing.";

    // Transactions.
    "transaction.max.timeout.ms" => transaction_max_timeout_ms: i32 = "900000", AtLeast(1), ReadOnly,
        "The longest time that a transaction may be open. A producer that asks for more is refused.";
    "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        => transaction_abort_timed_out_transaction_cleanup_interval_ms: i32 = "10000", AtLeast(1), ReadOnly,
        "How often transactions that are open for too long are looked for, to be aborted.";
    "transactional.id.expiration.ms" => transactional_id_expiration_ms: i32 = "604800000", AtLeast(1), ReadOnly,
        "How long a transactional id is remembered of which nothing is heard.";
    "transaction.remove.expired.transaction.cleanup.interval.ms"
        => transaction_remove_expired_transaction_cleanup_interval_ms: i32 = "3600000", AtLeast(1), ReadOnly,
        "How often transactional ids that are not remembered any longer are looked for.";
    "transaction.state.log.num.partitions" => transaction_state_log_num_partitions: i32 = "50", AtLeast(1), ReadOnly,
        "Partitions of __transaction_state.";
    "transaction.state.log.replication.factor" => transaction_state_log_replication_factor: i16
        = "3", AtLeast(1), ReadOnly,
        "Replicas of __transaction_state; by default not more than there are brokers.";
    "transaction.state.log.min.isr" => transaction_state_log_min_isr: i32 = "2", AtLeast(1), ReadOnly,
        "min.insync.replicas of __transaction_state.";
    "transaction.state.log.segment.bytes" => transaction_state_log_segment_bytes: i32
        = "104857600", AtLeast(1), ReadOnly,
        "segment.bytes of __transaction_state.";
    "add.partitions.to.txn.retry.backoff.ms" => add_partitions_to_txn_retry_backoff_ms: i32
        = "20", AtLeast(1), ReadOnly,
        "How long the leader of a partition waits before it asks again whether a transaction may write to it, while the \
         one before is being ended.";
    "add.partitions.to.txn.retry.backoff.max.ms" => add_partitions_to_txn_retry_backoff_max_ms: i32
        = "100", AtLeast(0), ReadOnly,
        "For how long it asks again.";
    "transaction.state.log.load.buffer.size" => transaction_state_log_load_buffer_size: i32
        = "5242880", AtLeast(1), ReadOnly,
        "Bytes of __transaction_state that are read at a time when a broker becomes the coordinator of its transactions.";

    // What the process around the broker does with its metrics.
    "metrics.push.statsd" => metrics_push_statsd: Option<String> = null, Any, ReadOnly,
        "Where metrics are sent as StatsD over UDP, as host:port.";
    "metrics.push.graphite" => metrics_push_graphite: Option<String> = null, Any, ReadOnly,
        "Where metrics are sent as Graphite's plaintext over TCP, as host:port.";
    "metrics.push.otlp" => metrics_push_otlp: Option<String> = null, Any, ReadOnly,
        "Where metrics are sent as OTLP over HTTP, as http://host:4318/v1/metrics.";
    "metrics.push.interval.ms" => metrics_push_interval_ms: i64 = "10000", AtLeast(100), ReadOnly,
        "How often they are sent.";
    "metrics.push.prefix" => metrics_push_prefix: String = "", Any, ReadOnly,
        "What stands in front of their names, with a dot behind it.";

    // The metadata log.
    "metadata.log.max.record.bytes.between.snapshots" => metadata_log_max_record_bytes_between_snapshots: i64
        = "20971520", AtLeast(1), ReadOnly, "Bytes of metadata records after which a snapshot is written.";
    "metadata.log.segment.bytes" => metadata_log_segment_bytes: i32 = "1073741824", AtLeast(8388608), ReadOnly,
        "The segment size of the metadata log.";
}

/// Layers of what was said about settings. Defaults are the table's.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Layers {
    /// Flags, environment and file.
    pub started_with: Arc<ConfigMap>,
    /// Set while running, for all brokers.
    pub cluster: Arc<ConfigMap>,
    /// Set while running, for this broker.
    pub broker: Arc<ConfigMap>,
}

/// Without values: some are secret.
impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |map: &ConfigMap| map.keys().cloned().collect::<Vec<_>>();
        let layers = [&self.started_with, &self.cluster, &self.broker].map(|map| names(map));
        f.debug_tuple("Layers").field(&layers).finish()
    }
}

impl Layers {
    fn said(&self, name: &str) -> Option<&str> {
        [&self.broker, &self.cluster, &self.started_with]
            .into_iter()
            .find_map(|layer| layer.get(name))
            .map(String::as_str)
    }
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self::new(ConfigMap::new()).expect("the defaults of the table are valid")
    }
}

impl BrokerConfig {
    /// The configuration that these values make, over the defaults.
    pub fn new(started_with: ConfigMap) -> Result<Self, ConfigError> {
        let layers = Layers { started_with: Arc::new(started_with), ..Layers::default() };
        for (name, text) in layers.started_with.iter() {
            Scope::Broker.expect(name)?.check_as(name, text)?;
        }
        let config = Self::from_layers(layers)?;
        config.check()?;
        Ok(config)
    }

    fn from_layers(layers: Layers) -> Result<Self, ConfigError> {
        let said = layers.clone();
        let mut config = Self::typed(layers, |setting| said.said(setting.name).or(setting.default).map(str::to_owned))?;
        if let Some(id) = config.broker_id.filter(|_| said.said("node.id").is_none()) {
            config.node_id = id;
        }
        Ok(config)
    }

    /// This configuration with other dynamic values. One that may not be changed, is unknown or out of bounds is left
    /// out and reported: it was refused when it was set, or comes from a newer version.
    pub fn with_dynamic(&self, cluster: &ConfigMap, broker: &ConfigMap) -> (Self, Vec<ConfigError>) {
        let mut errors = Vec::new();
        let mut usable = |map: &ConfigMap| {
            let good = map.iter().filter(|(name, text)| match Self::check_dynamic(name, text) {
                Ok(()) => true,
                Err(error) => {
                    errors.push(error);
                    false
                }
            });
            Arc::new(good.map(|(name, text)| (name.clone(), text.clone())).collect::<ConfigMap>())
        };
        let layers =
            Layers { started_with: self.layers.started_with.clone(), cluster: usable(cluster), broker: usable(broker) };
        match Self::from_layers(layers) {
            Ok(config) => (config, errors),
            Err(error) => {
                errors.push(error);
                (self.clone(), errors)
            }
        }
    }

    /// Whether a broker setting may be set so while it runs.
    pub fn check_dynamic(name: &str, text: &str) -> Result<(), ConfigError> {
        let setting = Scope::Broker.expect(name)?;
        if !setting.is_dynamic() {
            return Err(ConfigError::Conflict(format!("Cannot update these configs dynamically: [{name}]")));
        }
        setting.check_as(name, text)
    }

    /// What holds between settings.
    fn check(&self) -> Result<(), ConfigError> {
        let conflict = |text: String| Err(ConfigError::Conflict(text));
        if let (Some(broker_id), Some(_)) = (self.broker_id, self.said("node.id"))
            && broker_id != self.node_id
        {
            return conflict(format!("node.id is {} but broker.id is {broker_id}: give one of them", self.node_id));
        }
        let dirs = self.data_dirs();
        if dirs.len() != 1 {
            return conflict(format!("log.dirs names {} directories; one is supported", dirs.len()));
        }
        for role in ["broker", "controller"] {
            if !self.process_roles.iter().any(|given| given == role) {
                return conflict(format!("process.roles must include {role}: nodes of one role are not supported"));
            }
        }
        if ![STANDARD_AUTHORIZER, ""].contains(&self.authorizer_class_name.as_str()) {
            return conflict(format!(
                "authorizer.class.name is {}, and no code is loaded by configuration: the authorizer that is built in is \
                 {STANDARD_AUTHORIZER}",
                self.authorizer_class_name
            ));
        }
        for (least_name, least, most_name, most) in [
            (
                "group.min.session.timeout.ms",
                self.group_min_session_timeout_ms,
                "group.max.session.timeout.ms",
                self.group_max_session_timeout_ms,
            ),
            (
                "group.consumer.min.session.timeout.ms",
                self.group_consumer_min_session_timeout_ms,
                "group.consumer.max.session.timeout.ms",
                self.group_consumer_max_session_timeout_ms,
            ),
            (
                "group.consumer.min.heartbeat.interval.ms",
                self.group_consumer_min_heartbeat_interval_ms,
                "group.consumer.max.heartbeat.interval.ms",
                self.group_consumer_max_heartbeat_interval_ms,
            ),
            (
                "group.consumer.min.assignment.interval.ms",
                self.group_consumer_min_assignment_interval_ms,
                "group.consumer.max.assignment.interval.ms",
                self.group_consumer_max_assignment_interval_ms,
            ),
        ] {
            if least > most {
                return conflict(format!("{least_name} ({least}) is greater than {most_name} ({most})"));
            }
        }
        for endpoint in self.client_endpoints()?.iter().chain(&self.inter_broker_endpoint()?) {
            listener_settings::check(self, endpoint)?;
        }
        self.advertised_endpoints()?;
        self.advertised_inter_broker_endpoint()?;
        let is_open = |endpoint: &Endpoint| !endpoint.security_protocol.has_tls();
        if let Some(endpoint) = self.inter_broker_endpoint()?.filter(is_open)
            && !self.authorizer_class_name.is_empty()
        {
            let name = endpoint.name;
            return conflict(format!(
                "With authorizer.class.name brokers have to know each other, as whoever reaches their listener could do \
                 everything: set listener.security.protocol.map={name}:SSL,..., ssl.keystore.location, \
                 ssl.truststore.location and listener.name.{}.ssl.client.auth=required",
                name.to_ascii_lowercase()
            ));
        }
        Ok(())
    }

    /// What somebody said about a setting, in the layer that wins.
    pub fn said(&self, name: &str) -> Option<&str> {
        self.layers.said(name)
    }

    pub fn layers(&self) -> &Layers {
        &self.layers
    }

    /// The text of a setting: what was said, or its default.
    pub fn text(&self, setting: &'static Setting) -> Option<&str> {
        self.said(setting.name).or(setting.default)
    }

    /// The data directories, in order.
    pub fn data_dirs(&self) -> &[String] {
        self.log_dirs.as_deref().unwrap_or(&self.log_dir)
    }

    /// Addresses to listen on for clients.
    pub fn client_endpoints(&self) -> Result<Vec<Endpoint>, ConfigError> {
        listeners::client_endpoints(self)
    }

    /// Addresses that clients are told, one for each of [`Self::client_endpoints`].
    pub fn advertised_endpoints(&self) -> Result<Vec<Endpoint>, ConfigError> {
        listeners::advertised_endpoints(self)
    }

    /// The settings of a listener.
    pub fn listener(&self, endpoint: &Endpoint) -> Result<ListenerConfig, ConfigError> {
        ListenerConfig::of(self, endpoint)
    }

    /// The JAAS config of a mechanism of a listener.
    pub fn jaas_config(&self, endpoint: &Endpoint, mechanism: &str) -> Option<Password> {
        listener_settings::jaas_config(self, endpoint, mechanism)
    }

    /// How long a session of a mechanism of a listener lasts, in ms; 0 is for ever.
    pub fn max_reauth_ms(&self, endpoint: &Endpoint, mechanism: &str) -> Result<i64, ConfigError> {
        listener_settings::max_reauth_ms(self, endpoint, mechanism)
    }

    /// The metadata quorum that a first start is to be part of.
    pub fn membership(&self) -> Result<Membership, ConfigError> {
        membership::membership(self)
    }

    /// The name of the listener that only brokers use among themselves.
    pub fn inter_broker_listener(&self) -> String {
        listeners::inter_broker_name(self)
    }

    /// The address to listen on for other brokers; `None` for a node that is on its own.
    pub fn inter_broker_endpoint(&self) -> Result<Option<Endpoint>, ConfigError> {
        listeners::inter_broker_endpoint(self)
    }

    /// The address that other brokers are told.
    pub fn advertised_inter_broker_endpoint(&self) -> Result<Option<Endpoint>, ConfigError> {
        listeners::advertised_inter_broker_endpoint(self)
    }

    /// Replicas of an internal topic: as configured, but where that is only the default, not more than there are
    /// brokers, so that one node works as it comes.
    pub fn internal_replication_factor(&self, setting: &str, configured: i16, brokers: usize) -> i16 {
        match self.said(setting) {
            Some(_) => configured,
            None => configured.min(i16::try_from(brokers).unwrap_or(i16::MAX)).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, &str)]) -> Result<BrokerConfig, String> {
        let map = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        BrokerConfig::new(map).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_valid() {
        let config = config(&[]).unwrap();
        assert_eq!((config.node_id, config.num_partitions, config.log_retention_hours), (1, 1, 168));
        assert_eq!(config.log_ack_durability, AckDurability::Disk);
        assert_eq!(config.data_dirs(), ["/tmp/kafka-logs"]);
        assert!(config.log_background_flush_interval_ms <= 1000);
    }

    #[test]
    fn an_error_is_one_line_that_names_the_setting_and_its_bounds() {
        for (name, value, line) in [
            ("num.partitions", "0", "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
            ("num.partitions", "x", "Invalid value x for configuration num.partitions: Not a number of type INT"),
            (
                "compression.lz4.level",
                "18",
                "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17",
            ),
            (
                "compression.type",
                "brotli",
                "Invalid value brotli for configuration compression.type: String must be one of: \
                 uncompressed, zstd, lz4, snappy, gzip, producer",
            ),
            (
                "log.cleanup.policy",
                "compact,shred",
                "Invalid value compact,shred for configuration log.cleanup.policy: \
                 String must be one of: compact, delete",
            ),
            (
                "max.connections.per.ip.overrides",
                "10.0.0.1:5,localhost:3",
                "Invalid value 10.0.0.1:5,localhost:3 for configuration max.connections.per.ip.overrides: \
                 Value must be a list of address:count pairs; names of hosts are not looked up",
            ),
            ("num.partition", "1", "Unknown broker config name: num.partition (did you mean num.partitions?)"),
            ("colour", "red", "Unknown broker config name: colour"),
            (
                "authorizer.class.name",
                "x.Y",
                "authorizer.class.name is x.Y, and no code is loaded by configuration: the authorizer that is built in \
                 is org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            ),
            (
                "super.users",
                "User:a,b;c",
                "Invalid value User:a,b;c for configuration super.users: \
                 Value must be a list of principals such as User:alice, with ; between them",
            ),
            ("log.dirs", "/a,/b", "log.dirs names 2 directories; one is supported"),
            (
                "group.min.session.timeout.ms",
                "1800001",
                "group.min.session.timeout.ms (1800001) is greater than group.max.session.timeout.ms (1800000)",
            ),
        ] {
            assert_eq!(config(&[(name, value)]).unwrap_err(), line);
        }
    }

    #[test]
    fn super_users_may_have_commas_in_their_names() {
        let users = config(&[("super.users", " User:CN=a,OU=b,C=c;User:x; ;Group:y")]).unwrap().super_users;
        for (principal, is_one) in
            [("User:CN=a,OU=b,C=c", true), ("User:x", true), ("Group:y", true), ("User:CN=a", false), ("", false)]
        {
            assert_eq!(users.contains(principal), is_one, "{principal}");
        }
        let standard = [("authorizer.class.name", STANDARD_AUTHORIZER)];
        assert_eq!(config(&standard).unwrap().authorizer_class_name, STANDARD_AUTHORIZER);
    }

    #[test]
    fn broker_id_is_node_id() {
        assert_eq!(config(&[("broker.id", "7")]).unwrap().node_id, 7);
        assert_eq!(config(&[("broker.id", "7"), ("node.id", "7")]).unwrap().node_id, 7);
        assert!(config(&[("broker.id", "7"), ("node.id", "8")]).is_err());
    }

    #[test]
    fn dynamic_layers_win_and_bad_ones_are_left_out() {
        let map = |name: &str, value: &str| ConfigMap::from([(name.to_owned(), value.to_owned())]);
        let config = config(&[("min.insync.replicas", "2")]).unwrap();
        let (changed, errors) = config.with_dynamic(&map("min.insync.replicas", "3"), &ConfigMap::new());
        assert_eq!((changed.min_insync_replicas, errors.len()), (3, 0));
        let (changed, errors) = config.with_dynamic(&map("min.insync.replicas", "3"), &map("min.insync.replicas", "4"));
        assert_eq!((changed.min_insync_replicas, errors.len()), (4, 0));
        let (changed, errors) = config.with_dynamic(&map("min.insync.replicas", "0"), &map("num.partitions", "9"));
        assert_eq!((changed.min_insync_replicas, changed.num_partitions, errors.len()), (2, 1, 2));
    }

    #[test]
    fn a_default_replication_factor_does_not_exceed_the_brokers() {
        let name = "offsets.topic.replication.factor";
        assert_eq!(config(&[]).unwrap().internal_replication_factor(name, 3, 1), 1);
        assert_eq!(config(&[]).unwrap().internal_replication_factor(name, 3, 5), 3);
        assert_eq!(config(&[(name, "3")]).unwrap().internal_replication_factor(name, 3, 1), 3);
    }
}
