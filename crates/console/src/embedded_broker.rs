//! What the console is told by the broker in the same process.

use std::future::Future;
use std::pin::Pin;

/// The broker in the same process.
pub trait Local: Send + Sync + 'static {
    /// In the OpenMetrics text format. It may take its time.
    fn metrics(&self) -> String;

    /// Whether clients may be sent here, and else why not.
    fn check_ready(&self) -> Result<(), String>;

    /// How a partition got its leader and its in-sync replicas, the newest change first.
    fn partition_changes(&self, topic: &str, partition: i32) -> Vec<PartitionChange>;

    /// What each node of its cluster tells of itself.
    fn nodes(&self) -> Pin<Box<dyn Future<Output = Vec<NodeReport>> + Send + '_>>;
}

/// What a node tells of itself.
#[derive(Clone, Debug)]
pub struct NodeReport {
    pub node_id: i32,
    /// In the OpenMetrics text format, or why there is none.
    pub metrics: Result<String, String>,
    /// Of the groups that it coordinates.
    pub rebalances: Vec<Rebalance>,
}

/// A change of a partition.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PartitionChange {
    /// When it was, or was seen, in milliseconds since 1970.
    pub at_ms: i64,
    /// When it was not so yet, where that is all that is known.
    pub after_ms: Option<i64>,
    /// What it came from, in words.
    pub cause: String,
    pub before: PartitionState,
    pub after: PartitionState,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PartitionState {
    pub leader: Option<i32>,
    pub leader_epoch: i32,
    pub isr: Vec<i32>,
    pub replicas: Vec<i32>,
}

/// A rebalance of a group.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Rebalance {
    pub group: String,
    /// When it began, in milliseconds since 1970.
    pub began_ms: i64,
    pub generation: i32,
    /// What made it necessary, in the words of `parshall_group_rebalances`.
    pub cause: String,
    /// Whose doing it was, if it was a member's.
    pub member_id: Option<String>,
    pub client_id: Option<String>,
    /// Members when it was over.
    pub members: i32,
    /// How long it took, unless it has not ended.
    pub took_ms: Option<u64>,
}
