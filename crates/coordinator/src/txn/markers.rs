//! The ends of transactions on their way to the partitions that they wrote to (`TransactionMarkerChannelManager`).
//!
//! Each broker has a queue, and one request at a time with what is in it. A marker that was not written waits a moment
//! and goes to whoever leads its partition then. A transaction is complete when each of its partitions has its marker,
//! or has been deleted.
//!
//! Of one transaction and partition there is at most one marker on its way. So none is left when the transaction is
//! complete, and none can end the next transaction of the same epoch.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use wire::ErrorCode;
use wire::api::write_txn_markers::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

use super::coordinator::TransactionCoordinator;
use super::core::{Partitions, State};
use super::interfaces::Leader;
use super::marker_queues::Marker;
use super::shard::{Shard, ShardState};

const RETRY_BACKOFF: Duration = Duration::from_millis(100);

impl TransactionCoordinator {
    /// Ends a decided transaction in all partitions that have no marker yet.
    pub(super) fn send_markers(self: &Arc<Self>, shard: &Arc<Shard>, state: &mut ShardState, transactional_id: &str) {
        let Some(transaction) = state.get(transactional_id) else { return };
        let partitions = transaction.current().partitions.clone();
        self.send_markers_to(shard, state, transactional_id, partitions);
    }

    /// The same for some of the partitions, none of which has a marker on its way.
    pub(super) fn send_markers_to(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        state: &mut ShardState,
        transactional_id: &str,
        partitions: Partitions,
    ) {
        let Some(transaction) = state.get(transactional_id) else { return };
        let current = transaction.current();
        let marker = Marker {
            shard: Arc::clone(shard),
            transactional_id: transactional_id.to_owned(),
            producer_id: current.producer_id,
            producer_epoch: current.producer_epoch,
            is_commit: current.state == State::PrepareCommit,
            version: current.client_version,
            partitions,
        };
        self.route(state, marker);
    }

    /// Queues a marker for the leaders of its partitions.
    fn route(self: &Arc<Self>, state: &mut ShardState, marker: Marker) {
        let mut nodes: BTreeMap<i32, Partitions> = BTreeMap::new();
        let mut without_leader = Partitions::default();
        let Some(transaction) = state.get_mut(&marker.transactional_id) else { return };
        for (topic, partition) in marker.partitions.iter() {
            match self.transport.leader(topic, partition) {
                Leader::Node(node_id) => nodes.entry(node_id).or_default().insert(topic, partition),
                Leader::Unknown => without_leader.insert(topic, partition),
                Leader::Deleted => transaction.marker_written(topic, partition),
            }
        }
        let shard = Arc::clone(&marker.shard);
        let transactional_id = marker.transactional_id.clone();
        for (node_id, partitions) in nodes {
            if self.markers.push(node_id, Marker { partitions, ..marker.copy() }) {
                tokio::spawn(Arc::clone(self).send_to(node_id));
            }
        }
        if !without_leader.is_empty() {
            self.retry_later(Marker { partitions: without_leader, ..marker });
        }
        self.complete(&shard, state, &transactional_id);
    }

    /// Ends the transaction itself if all markers are written.
    fn complete(self: &Arc<Self>, shard: &Arc<Shard>, state: &mut ShardState, transactional_id: &str) {
        let Some(transaction) = state.get_mut(transactional_id) else { return };
        if transaction.complete(self.now()) {
            self.write(shard, state, vec![transactional_id.to_owned()], None);
        }
        state.settle(transactional_id, &self.memory);
    }

    fn retry_later(self: &Arc<Self>, marker: Marker) {
        if self.markers.push_retried(marker) {
            let coordinator = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(RETRY_BACKOFF).await;
                coordinator.retry();
            });
        }
    }

    fn retry(self: &Arc<Self>) {
        for marker in self.markers.take_retried() {
            let shard = Arc::clone(&marker.shard);
            self.route(&mut shard.state.lock(), marker);
        }
    }

    /// Sends to a broker as long as there are markers for it.
    async fn send_to(self: Arc<Self>, node_id: i32) {
        loop {
            let markers = self.markers.take(node_id);
            if markers.is_empty() {
                return;
            }
            let request = WriteTxnMarkersRequest { markers: markers.iter().map(Marker::to_wire).collect() };
            let response = self.transport.write_markers(node_id, request).await;
            let is_answered = response.is_ok();
            let errors = match response {
                Ok(response) => errors(response),
                Err(error) => {
                    tracing::debug!(node_id, %error, "transaction markers will be sent again");
                    HashMap::new()
                }
            };
            for marker in markers {
                self.answered(node_id, marker, &errors);
            }
            if !is_answered {
                tokio::time::sleep(RETRY_BACKOFF).await;
            }
        }
    }

    /// A broker has answered, or not.
    fn answered(self: &Arc<Self>, node_id: i32, marker: Marker, errors: &Errors) {
        let shard = Arc::clone(&marker.shard);
        let mut state = shard.state.lock();
        let Some(transaction) = state.get_mut(&marker.transactional_id) else { return };
        let mut retried = Partitions::default();
        let mut refused = None;
        for (topic, partition) in marker.partitions.iter() {
            let topics = errors.get(&marker.producer_id);
            let error = topics.and_then(|topics| topics.get(topic)).and_then(|errors| errors.get(&partition));
            match error.copied() {
                Some(ErrorCode::NONE) => transaction.marker_written(topic, partition),
                // Nothing can have been written there.
                Some(ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT | ErrorCode::UNSUPPORTED_VERSION) => {
                    transaction.marker_written(topic, partition);
                }
                Some(error @ (ErrorCode::INVALID_PRODUCER_EPOCH | ErrorCode::TRANSACTION_COORDINATOR_FENCED)) => {
                    refused = Some((topic, partition, error));
                    transaction.marker_refused(error, topic, partition);
                }
                Some(_) | None => retried.insert(topic, partition),
            }
        }
        if let Some((topic, partition, error)) = refused {
            let transactional_id = &marker.transactional_id;
            tracing::warn!(transactional_id, node_id, topic, partition, %error, "a transaction cannot be ended there");
        }
        self.complete(&shard, &mut state, &marker.transactional_id);
        drop(state);
        if !retried.is_empty() {
            self.retry_later(Marker { partitions: retried, ..marker });
        }
    }
}

/// By producer id, topic and partition.
type Errors = HashMap<i64, HashMap<String, HashMap<i32, ErrorCode>>>;

fn errors(response: WriteTxnMarkersResponse) -> Errors {
    let mut errors = Errors::new();
    for marker in response.markers {
        let topics = errors.entry(marker.producer_id).or_default();
        for topic in marker.topics {
            let partitions = topic.partitions.into_iter().map(|result| (result.partition_index, result.error_code));
            topics.entry(topic.name).or_default().extend(partitions);
        }
    }
    errors
}
