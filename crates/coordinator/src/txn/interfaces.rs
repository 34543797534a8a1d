//! What the transaction coordinator needs of the rest of the broker, besides the log of its topic.
//!
//! The broker implements it on its metadata, its controller and its connections to other brokers; tests implement it in
//! memory.

use wire::ErrorCode;
use wire::api::write_txn_markers::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

use super::core::TransactionVersion;
use crate::topic_log::BoxFuture;

/// The metadata that the coordinator needs.
pub trait Cluster: Send + Sync + 'static {
    /// How many partitions `__transaction_state` has, if it exists.
    fn state_partition_count(&self) -> Option<i32>;

    /// Creates `__transaction_state`, compacted and uncompressed, with `transaction.state.log.num.partitions`
    /// partitions. Resolves when the partitions can be led, also if another request has created it meanwhile.
    fn create_state_topic(&self) -> BoxFuture<Result<(), ErrorCode>>;

    /// The finalized level of the feature `transaction.version`.
    fn transaction_version(&self) -> TransactionVersion;

    /// The partition of `__consumer_offsets` that holds a group.
    fn offsets_partition_for(&self, group_id: &str) -> i32;
}

/// The way to the leaders of the partitions that transactions write to. The own broker is one of them.
pub trait MarkerTransport: Send + Sync + 'static {
    fn leader(&self, topic: &str, partition: i32) -> Leader;

    /// Sends markers to a broker. Resolves in bounded time; with an error if it is not known whether they are written.
    /// An error and a refusal of the whole request are tried again.
    fn write_markers(
        &self,
        node_id: i32,
        request: WriteTxnMarkersRequest,
    ) -> BoxFuture<Result<WriteTxnMarkersResponse, ErrorCode>>;
}

/// Who leads a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leader {
    Node(i32),
    /// Nobody at the moment.
    Unknown,
    /// There is no such partition.
    Deleted,
}

/// The source of producer ids.
pub trait ProducerIds: Send + Sync + 'static {
    /// An id that was never given before. Resolves in bounded time.
    fn next(&self) -> BoxFuture<Result<i64, ErrorCode>>;
}
