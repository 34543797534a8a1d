//! Markers that are on their way to the leaders of partitions, by broker.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use wire::api::write_txn_markers::{WritableTxnMarker, WritableTxnMarkerTopic};

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

impl Marker {
    /// The same for no partitions yet.
    pub(super) fn copy(&self) -> Self {
        Self {
            shard: Arc::clone(&self.shard),
            transactional_id: self.transactional_id.clone(),
            partitions: Partitions::default(),
            ..*self
        }
    }

    pub(super) fn to_wire(&self) -> WritableTxnMarker {
        let topics = self.partitions.topics().map(|(name, partitions)| WritableTxnMarkerTopic {
            name: name.to_owned(),
            partition_indexes: partitions.iter().copied().collect(),
        });
        WritableTxnMarker {
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            transaction_result: self.is_commit,
            topics: topics.collect(),
            coordinator_epoch: self.shard.coordinator_epoch,
            transaction_version: self.version.0 as i8,
        }
    }
}

/// The markers that are on their way.
#[derive(Default)]
pub(super) struct Markers(Mutex<Queues>);

#[derive(Default)]
struct Queues {
    nodes: BTreeMap<i32, VecDeque<Marker>>,
    /// Brokers with a task that sends to them.
    sending: BTreeSet<i32>,
    /// Markers that wait before they are sent again.
    retried: Vec<Marker>,
    is_retrying: bool,
}

impl Markers {
    /// Drops the markers of a shard. Those in a request that is under way find no ids in it.
    pub(super) fn forget(&self, shard: &Arc<Shard>) {
        let mut queues = self.0.lock();
        let is_other = |marker: &Marker| !Arc::ptr_eq(&marker.shard, shard);
        queues.nodes.values_mut().for_each(|queue| queue.retain(is_other));
        queues.nodes.retain(|_, queue| !queue.is_empty());
        queues.retried.retain(is_other);
    }

    /// Queues a marker for a broker. Returns whether a task has to be started that sends to it.
    pub(super) fn push(&self, node_id: i32, marker: Marker) -> bool {
        let mut queues = self.0.lock();
        queues.nodes.entry(node_id).or_default().push_back(marker);
        queues.sending.insert(node_id)
    }

    /// Keeps a marker that is to be sent again. Returns whether a task has to be started that does it.
    pub(super) fn push_retried(&self, marker: Marker) -> bool {
        let mut queues = self.0.lock();
        queues.retried.push(marker);
        !std::mem::replace(&mut queues.is_retrying, true)
    }

    /// The markers that are to be sent again now; the task is over.
    pub(super) fn take_retried(&self) -> Vec<Marker> {
        let mut queues = self.0.lock();
        queues.is_retrying = false;
        std::mem::take(&mut queues.retried)
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
