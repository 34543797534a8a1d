//! The log of an internal topic, as the coordinator that keeps its state there sees it.
//!
//! The broker implements it on its partitions; tests implement it in memory.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use wire::ErrorCode;
use wire::batch::Batch;

pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The partitions of an internal topic that this broker leads.
pub trait TopicLog: Send + Sync + 'static {
    /// Whether other brokers may lead the partitions by now without this one's having heard of it: it was stopped, or
    /// is cut off from them. What the coordinator knows may be old then.
    fn may_have_moved(&self) -> bool;

    /// Appends one batch and resolves to the offset of its first record once it is as durable as `acks=all` makes it.
    ///
    /// The batch's position in the log is decided before this returns: of two calls, the later one gets the later
    /// offset. The coordinator calls it with a lock held, so it must only enqueue; writing and syncing happen when the
    /// future is polled, and concurrent batches share them. The coordinator polls every future to its end, also if its
    /// request was dropped.
    ///
    /// NOT_ENOUGH_REPLICAS_AFTER_APPEND comes when the batch is committed, though too late for who waits: it stays.
    /// With any other error it counts for nothing here, or this node does not lead the partition any more.
    fn append(&self, partition: i32, batch: Batch) -> BoxFuture<Result<i64, ErrorCode>>;

    /// The first offset of the log, and the offset after its last record.
    fn offsets(&self, partition: i32) -> Result<(i64, i64), ErrorCode>;

    /// Resolves when what is below an offset is committed: every later leader has it. Before, nothing may follow from
    /// it, no answer and no marker of a transaction. An error means that the partition is led by another broker, or
    /// cannot be read.
    fn committed(&self, partition: i32, end_offset: i64) -> BoxFuture<Result<(), ErrorCode>>;

    /// Whole batches from the one that holds `from_offset` or the next one after it (a compacted log has holes), at
    /// least one unless the log ends there. Serves the loading of a partition, which reads to the log's end.
    fn read(&self, partition: i32, from_offset: i64, max_bytes: u32) -> BoxFuture<Result<Bytes, ErrorCode>>;

    /// The greatest size of a batch that the topic takes (`max.message.bytes`).
    fn max_batch_bytes(&self) -> usize;
}
