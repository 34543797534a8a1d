//! What the group coordinator needs of the rest of the broker besides the log of `__consumer_offsets`.
//!
//! The broker implements it on its metadata; tests implement it in memory.

use wire::{ErrorCode, Uuid};

use crate::topic_log::BoxFuture;

/// The metadata that the coordinator needs.
pub trait Topics: Send + Sync + 'static {
    fn topic(&self, name: &str) -> Option<Topic>;

    fn name(&self, id: Uuid) -> Option<String>;

    /// Has the records of a partition below an offset synced on its in-sync replicas. `None` if they are, or if another
    /// broker leads the partition.
    fn make_durable(&self, topic: &str, partition: i32, offset: i64) -> Option<BoxFuture<Result<(), ErrorCode>>>;

    /// How many partitions `__consumer_offsets` has, if it exists.
    fn offsets_partition_count(&self) -> Option<i32>;

    /// Creates `__consumer_offsets`, compacted, with `offsets.topic.num.partitions` partitions. Resolves when the
    /// partitions can be led, also if another request has created it meanwhile.
    fn create_offsets_topic(&self) -> BoxFuture<Result<(), ErrorCode>>;
}

/// A topic as offset commits and fetches see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic {
    pub id: Uuid,
    pub partition_count: i32,
}
