//! What the group coordinator needs of the rest of the broker: the log of `__consumer_offsets` and the topics.
//!
//! The broker implements both on its partitions and its metadata; tests implement them in memory.

use std::sync::Arc;

use storage::VerificationGuard;
use wire::batch::Batch;
use wire::{ErrorCode, Uuid};

use crate::topic_log::{BoxFuture, TopicLog};

/// The partitions of `__consumer_offsets` that this broker leads, where producers' transactions have records, too.
pub trait OffsetsLog: TopicLog {
    /// Appends as [`TopicLog::append`] does, records of a transaction, which have a producer id and no sequence. The
    /// guard says that the transaction's coordinator was asked about it; without one the transaction has to be open in
    /// the log.
    fn append_transactional(
        &self,
        partition: i32,
        batch: Batch,
        guard: Option<VerificationGuard>,
    ) -> BoxFuture<Result<i64, ErrorCode>>;

    /// The same for a marker, whose epoch is checked as its version of transactions says.
    fn append_marker(&self, partition: i32, batch: Batch, transaction_version: i8)
    -> BoxFuture<Result<i64, ErrorCode>>;
}

/// The metadata that the coordinator needs.
pub trait Topics: Send + Sync + 'static {
    fn topic(&self, name: &str) -> Option<Topic>;

    fn name(&self, id: Uuid) -> Option<String>;

    /// The topics as they are now.
    fn snapshot(&self) -> Arc<dyn TopicSnapshot>;

    /// The settings of a group: its own over the broker's.
    fn group_config(&self, group_id: &str) -> configuration::GroupConfig;

    /// Has the records of a partition below an offset synced on its in-sync replicas. `None` if they are, or if another
    /// broker leads the partition.
    fn make_durable(&self, topic: &str, partition: i32, offset: i64) -> Option<BoxFuture<Result<(), ErrorCode>>>;

    /// How many partitions `__consumer_offsets` has, if it exists.
    fn offsets_partition_count(&self) -> Option<i32>;

    /// Creates `__consumer_offsets`, compacted, with `offsets.topic.num.partitions` partitions. Resolves when the
    /// partitions can be led, also if another request has created it meanwhile.
    fn create_offsets_topic(&self) -> BoxFuture<Result<(), ErrorCode>>;
}

/// The topics at one moment.
pub trait TopicSnapshot: Send + Sync {
    fn topic(&self, name: &str) -> Option<Topic>;

    fn name(&self, id: Uuid) -> Option<String>;

    /// The names of all topics.
    fn names(&self) -> Vec<String>;

    /// The racks of each partition's replicas, as far as their brokers have any.
    fn racks(&self, name: &str) -> Vec<Vec<String>>;

    /// A number that grows with changes of the metadata.
    fn version(&self) -> i64;
}

/// Whether a client may know of a topic.
pub type MayDescribe = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// A topic as offset commits and fetches see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic {
    pub id: Uuid,
    pub partition_count: i32,
}
