//! The markers that end transactions in partitions (KIP-98): written here, or sent to the brokers that lead them.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use coordinator::group::records::marker;
use coordinator::group::{GroupCoordinator, Marker, OFFSETS_TOPIC};
use coordinator::topic_log::BoxFuture;
use coordinator::txn::{Leader, MarkerTransport};
use metadata::{MetadataCache, NO_LEADER};
use platform::Clock;
use storage::Origin;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};
use wire::ErrorCode;
use wire::api::write_txn_markers::{
    WritableTxnMarker, WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};

use super::internal_topic::appended;
use crate::cluster::{Lane, Peers};
use crate::partition::{Acks, PartitionTable, PendingCommits, ProduceCompletion, Terms};

/// Markers of a request that are written together. What one of them takes in memory is many times what it takes in the
/// request.
const WRITTEN_TOGETHER_MAX: usize = 1_000;

/// Writes markers to partitions that this broker leads.
pub(crate) struct MarkerWriter {
    pub(super) partitions: Arc<PartitionTable>,
    pub(super) groups: Arc<GroupCoordinator>,
    pub(super) clock: Arc<dyn Clock>,
    /// For how long a request waits for replicas.
    pub(super) timeout: Duration,
}

/// A marker on its way to one partition.
enum Writing {
    Refused(ErrorCode),
    Queued(Arc<ProduceCompletion>),
    /// The groups of the partition take it.
    InGroups(BoxFuture<Result<(), ErrorCode>>),
}

impl MarkerWriter {
    /// Resolves when all are as durable as `acks=all` makes them or refused, at last when the time is up. What was not
    /// acknowledged in time may still be written; what was not begun in time is not.
    pub(crate) async fn write(&self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse {
        let deadline = Instant::now() + self.timeout;
        let mut errors = Vec::new();
        let mut places = places(&request).peekable();
        while places.peek().is_some() {
            let mut commits = PendingCommits::default();
            let writing: Vec<_> = places
                .by_ref()
                .take(WRITTEN_TOGETHER_MAX)
                .map(|(ended, topic, partition)| {
                    let is_late = Instant::now() >= deadline;
                    let begun = if is_late {
                        Err(ErrorCode::REQUEST_TIMED_OUT)
                    } else {
                        self.begin(ended, topic, partition, &mut commits)
                    };
                    begun.unwrap_or_else(Writing::Refused)
                })
                .collect();
            commits.commit();
            for written in writing {
                errors.push(written.finish(deadline).await.err().unwrap_or(ErrorCode::NONE));
            }
            // Of many that are refused at once none has to be waited for.
            yield_now().await;
        }
        drop(places);
        respond(request, errors)
    }

    fn begin(
        &self,
        ended: &WritableTxnMarker,
        topic: &str,
        index: i32,
        commits: &mut PendingCommits,
    ) -> Result<Writing, ErrorCode> {
        let marker_of = Marker {
            producer_id: ended.producer_id,
            producer_epoch: ended.producer_epoch,
            is_committed: ended.transaction_result,
            coordinator_epoch: ended.coordinator_epoch,
            transaction_version: ended.transaction_version,
        };
        let partition = self.partitions.find_by_name(topic, index)?;
        if topic == OFFSETS_TOPIC {
            return Ok(Writing::InGroups(Box::pin(self.groups.write_marker(index, marker_of))));
        }
        let batch = marker(self.clock.now_ms(), &marker_of);
        let origin = Origin::Marker { transaction_version: ended.transaction_version };
        let completion = Arc::new(ProduceCompletion::new(1));
        partition.enqueue_on(Terms { origin, ..Terms::CLIENT }, batch, Acks::All, &completion, 0, commits);
        Ok(Writing::Queued(completion))
    }
}

impl Writing {
    async fn finish(self, deadline: Instant) -> Result<(), ErrorCode> {
        match self {
            Self::Refused(error) => Err(error),
            Self::InGroups(writing) => timeout_at(deadline, writing).await.unwrap_or(Err(ErrorCode::REQUEST_TIMED_OUT)),
            Self::Queued(completion) => match timeout_at(deadline, poll_fn(|cx| completion.poll(cx))).await {
                Ok(outcomes) => appended(outcomes).map(|_| ()),
                Err(_) => {
                    completion.fill_open(ErrorCode::REQUEST_TIMED_OUT);
                    Err(ErrorCode::REQUEST_TIMED_OUT)
                }
            },
        }
    }
}

/// Where the markers of a request go, in its order.
fn places(request: &WriteTxnMarkersRequest) -> impl Iterator<Item = (&WritableTxnMarker, &str, i32)> {
    request.markers.iter().flat_map(|ended| {
        ended.topics.iter().flat_map(move |topic| {
            topic.partition_indexes.iter().map(move |partition| (ended, topic.name.as_str(), *partition))
        })
    })
}

/// The answer, with an error for each place.
fn respond(request: WriteTxnMarkersRequest, errors: Vec<ErrorCode>) -> WriteTxnMarkersResponse {
    let mut errors = errors.into_iter();
    let mut markers = Vec::with_capacity(request.markers.len());
    for ended in request.markers {
        let mut topics = Vec::with_capacity(ended.topics.len());
        for topic in ended.topics {
            let results = topic.partition_indexes.into_iter().zip(&mut errors);
            let partitions = results
                .map(|(partition_index, error_code)| WritableTxnMarkerPartitionResult { partition_index, error_code });
            topics.push(WritableTxnMarkerTopicResult { name: topic.name, partitions: partitions.collect() });
        }
        markers.push(WritableTxnMarkerResult { producer_id: ended.producer_id, topics });
    }
    WriteTxnMarkersResponse { markers }
}

/// Brings the markers of the own transactions to the leaders of their partitions.
pub(super) struct MarkerSender {
    pub(super) node_id: i32,
    pub(super) metadata: Arc<MetadataCache>,
    pub(super) peers: Arc<Peers>,
    pub(super) writer: Arc<MarkerWriter>,
}

impl MarkerTransport for MarkerSender {
    fn leader(&self, topic: &str, partition: i32) -> Leader {
        match self.metadata.load().partition(topic, partition).map(|partition| partition.leader) {
            None => Leader::Deleted,
            Some(NO_LEADER) => Leader::Unknown,
            Some(leader) => Leader::Node(leader),
        }
    }

    fn write_markers(
        &self,
        node_id: i32,
        request: WriteTxnMarkersRequest,
    ) -> BoxFuture<Result<WriteTxnMarkersResponse, ErrorCode>> {
        if node_id == self.node_id {
            let writer = Arc::clone(&self.writer);
            return Box::pin(async move { Ok(writer.write(request).await) });
        }
        let peers = Arc::clone(&self.peers);
        Box::pin(async move { peers.ask(node_id, Lane::Markers, &request).await })
    }
}
