//! What the group coordinator needs of the rest of the broker: the log of `__consumer_offsets` and the topics.
//!
//! The broker implements both on its partitions and its metadata; tests implement them in memory.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use wire::batch::Batch;
use wire::{ErrorCode, Uuid};

pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The partitions of `__consumer_offsets` that this broker leads.
pub trait OffsetsLog: Send + Sync + 'static {
    /// Appends one batch and resolves to the offset of its first record once it is as durable as `acks=all` makes it.
    ///
    /// The batch's position in the log is decided before this returns: of two calls, the later one gets the later
    /// offset. The coordinator calls it with a lock held, so it must only enqueue; writing and syncing happen when the
    /// future is polled, and concurrent batches share them. The coordinator polls every future to its end, also if its
    /// request was dropped.
    fn append(&self, partition: i32, batch: Batch) -> BoxFuture<Result<i64, ErrorCode>>;

    /// The first offset of the log, and the offset after its last record.
    fn offsets(&self, partition: i32) -> Result<(i64, i64), ErrorCode>;

    /// Whole batches from the one that holds `from_offset` or the next one after it (a compacted log has holes), at
    /// least one unless the log ends there. Serves the loading of a partition, which reads to the log's end.
    fn read(&self, partition: i32, from_offset: i64, max_bytes: u32) -> BoxFuture<Result<Bytes, ErrorCode>>;

    /// The greatest size of a batch that the topic takes (`max.message.bytes`).
    fn max_batch_bytes(&self) -> usize;
}

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
