//! Markers that are on their way to the leaders of partitions, by broker.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::core::{Partitions, TransactionVersion};
use super::shard::Shard;

/// How many partitions a request has markers for, but for the last transaction's.
const PARTITIONS_PER_REQUEST: usize = 10_000;

/// The end of a transaction for some of its partitions.
pub(super) struct Marker {
    pub(super) shard: Arc<Shard>,
    pub(super) transactional_id: String,
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    pub(super) is_commit: bool,
    pub(super) version: TransactionVersion,
    pub(super) partitions: Partitions,
}

/// The markers that are on their way.
#[derive(Default)]
pub(super) struct Markers(pub(super) Mutex<Queues>);

#[derive(Default)]
pub(super) struct Queues {
    pub(super) nodes: BTreeMap<i32, VecDeque<Marker>>,
    /// Brokers with a task that sends to them.
    pub(super) sending: BTreeSet<i32>,
    /// Markers that wait before they are sent again.
    pub(super) retried: Vec<Marker>,
    pub(super) is_retrying: bool,
}

impl Markers {
    /// Drops the markers of a shard. Those in a request that is under way find it unloaded.
    pub(super) fn forget(&self, shard: &Arc<Shard>) {
        let mut queues = self.0.lock();
        let is_other = |marker: &Marker| !Arc::ptr_eq(&marker.shard, shard);
        queues.nodes.values_mut().for_each(|queue| queue.retain(is_other));
        queues.nodes.retain(|_, queue| !queue.is_empty());
        queues.retried.retain(is_other);
    }

    /// Markers for the next request to a broker; without any, its task is over.
    pub(super) fn take(&self, node_id: i32) -> Vec<Marker> {
        let mut queues = self.0.lock();
        let mut taken = Vec::new();
        let mut partitions = 0;
        if let Some(queue) = queues.nodes.get_mut(&node_id) {
            while partitions < PARTITIONS_PER_REQUEST
                && let Some(marker) = queue.pop_front()
            {
                partitions += marker.partitions.iter().count();
                taken.push(marker);
            }
            if queue.is_empty() {
                queues.nodes.remove(&node_id);
            }
        }
        if taken.is_empty() {
            queues.sending.remove(&node_id);
        }
        taken
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let queues = self.0.lock();
        queues.nodes.is_empty() && queues.retried.is_empty()
    }
}
