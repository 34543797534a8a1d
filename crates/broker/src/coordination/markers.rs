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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::slice::from_ref;

    use storage::Verification;
    use tokio::task::JoinHandle;
    use wire::Uuid;
    use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestTopic};
    use wire::api::txn_offset_commit::{
        TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
    };
    use wire::api::write_txn_markers::WritableTxnMarkerTopic;
    use wire::batch::BatchBuilder;
    use wire::state::metadata::PartitionRecord;

    use super::*;
    use crate::api::test_support::{NODE_ID, TestBroker, led_by, registration};
    use crate::partition::Partition;
    use crate::partition::replica::FollowerFetch;

    const OTHER: i32 = NODE_ID + 1;
    const TOPIC_ID: Uuid = Uuid([7; 16]);
    const PRODUCER_ID: i64 = 7;
    /// For what must be answered at once.
    const PATIENCE: Duration = Duration::from_secs(20);
    /// For what is not.
    const SHORT: Duration = Duration::from_millis(50);

    fn writer(broker: &TestBroker, timeout: Duration) -> Arc<MarkerWriter> {
        Arc::new(MarkerWriter {
            partitions: Arc::clone(&broker.partitions),
            groups: Arc::clone(&broker.groups),
            clock: Arc::clone(&broker.env.clock),
            timeout,
        })
    }

    /// The commit of a transaction of epoch 3, decided in coordinator epoch 5.
    fn commit_of(producer_id: i64, places: &[(&str, &[i32])]) -> WritableTxnMarker {
        let topics = places.iter().map(|(name, partitions)| WritableTxnMarkerTopic {
            name: (*name).to_owned(),
            partition_indexes: partitions.to_vec(),
        });
        WritableTxnMarker {
            producer_id,
            producer_epoch: 3,
            transaction_result: true,
            topics: topics.collect(),
            coordinator_epoch: 5,
            transaction_version: 0,
        }
    }

    async fn write(writer: &MarkerWriter, markers: &[WritableTxnMarker]) -> WriteTxnMarkersResponse {
        writer.write(WriteTxnMarkersRequest { markers: markers.to_vec() }).await
    }

    /// The errors of all partitions, in the order of the answer.
    async fn codes(writer: &MarkerWriter, markers: &[WritableTxnMarker]) -> Vec<ErrorCode> {
        let markers = write(writer, markers).await.markers;
        let partitions = markers.iter().flat_map(|marker| &marker.topics).flat_map(|topic| &topic.partitions);
        partitions.map(|partition| partition.error_code).collect()
    }

    fn log_end(broker: &TestBroker, topic: &str, index: i32) -> i64 {
        broker.partitions.find_by_name(topic, index).unwrap().view().log_end_offset()
    }

    /// A topic of which this broker leads partition 0 alone, follows in partition 1, and leads partition 2 with a
    /// follower that sends nothing.
    async fn create(broker: &TestBroker) {
        broker.commit([registration(OTHER).into()]).await;
        let partitions =
            [led_by(NODE_ID, &[NODE_ID]), led_by(OTHER, &[OTHER, NODE_ID]), led_by(NODE_ID, &[NODE_ID, OTHER])];
        broker.create("t", TOPIC_ID, &partitions).await;
    }

    #[tokio::test]
    async fn each_partition_is_answered_for_itself_in_the_order_of_the_request() {
        let broker = TestBroker::start().await;
        create(&broker).await;
        let markers =
            [commit_of(9, &[("t", &[1, 0, 8]), ("nope", &[0])]), commit_of(8, &[]), commit_of(9, &[("t", &[0])])];
        let response = write(&writer(&broker, PATIENCE), &markers).await;
        let result = |name: &str, errors: &[(i32, ErrorCode)]| WritableTxnMarkerTopicResult {
            name: name.to_owned(),
            partitions: errors
                .iter()
                .map(|&(partition_index, error_code)| WritableTxnMarkerPartitionResult { partition_index, error_code })
                .collect(),
        };
        let (none, unknown) = (ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        let first = vec![
            result("t", &[(1, ErrorCode::NOT_LEADER_OR_FOLLOWER), (0, none), (8, unknown)]),
            result("nope", &[(0, unknown)]),
        ];
        let expected = [(9, first), (8, vec![]), (9, vec![result("t", &[(0, none)])])];
        let expected = expected.map(|(producer_id, topics)| WritableTxnMarkerResult { producer_id, topics });
        assert_eq!(response.markers, expected);
        assert_eq!(log_end(&broker, "t", 0), 2);
    }

    #[tokio::test]
    async fn markers_of_older_epochs_are_refused() {
        let broker = TestBroker::start().await;
        create(&broker).await;
        let writer = writer(&broker, PATIENCE);
        let first = commit_of(PRODUCER_ID, &[("t", &[0])]);
        assert_eq!(codes(&writer, from_ref(&first)).await, [ErrorCode::NONE]);
        let of_older_producer = WritableTxnMarker { producer_epoch: 2, ..first.clone() };
        assert_eq!(codes(&writer, &[of_older_producer]).await, [ErrorCode::INVALID_PRODUCER_EPOCH]);
        let of_older_coordinator = WritableTxnMarker { coordinator_epoch: 4, ..first.clone() };
        assert_eq!(codes(&writer, &[of_older_coordinator]).await, [ErrorCode::TRANSACTION_COORDINATOR_FENCED]);
        assert_eq!(log_end(&broker, "t", 0), 1);
        // The same again is a retry, whose answer was lost.
        for transaction_version in [0, 2] {
            let again = WritableTxnMarker { transaction_version, ..first.clone() };
            assert_eq!(codes(&writer, &[again]).await, [ErrorCode::NONE], "{transaction_version}");
        }
    }

    #[tokio::test]
    async fn the_version_of_a_marker_says_whether_it_needs_an_epoch_of_its_own() {
        let broker = TestBroker::start().await;
        create(&broker).await;
        let writer = writer(&broker, PATIENCE);
        let partition = broker.partitions.find_by_name("t", 0).unwrap();
        let marker = commit_of(PRODUCER_ID, &[("t", &[0])]);
        for (transaction_version, expected) in [(2, ErrorCode::INVALID_PRODUCER_EPOCH), (0, ErrorCode::NONE)] {
            begin(&partition, marker.producer_epoch).await;
            let ended = WritableTxnMarker { transaction_version, ..marker.clone() };
            assert_eq!(codes(&writer, &[ended]).await, [expected], "{transaction_version}");
        }
        assert_eq!(partition.last_stable_offset(), partition.high_watermark(), "it has ended");
    }

    /// Begins a transaction in a partition, unless one is open.
    async fn begin(partition: &Arc<Partition>, producer_epoch: i16) {
        let Ok(Verification::Needed(guard)) = partition.start_verification(PRODUCER_ID, producer_epoch, 0, 0) else {
            return;
        };
        let mut builder = BatchBuilder::new().producer(PRODUCER_ID, producer_epoch, 0).transactional();
        builder.push(0, None, Some(b"value"), &[]);
        let (completion, mut commits) = (Arc::new(ProduceCompletion::new(1)), PendingCommits::default());
        let terms = Terms { guard: Some(guard), ..Terms::CLIENT };
        partition.enqueue_on(terms, builder.build(), Acks::Leader, &completion, 0, &mut commits);
        commits.commit();
        appended(poll_fn(|cx| completion.poll(cx)).await).expect("it begins");
    }

    #[tokio::test]
    async fn a_marker_is_answered_when_it_is_replicated_or_the_time_is_up() {
        let broker = TestBroker::start().await;
        create(&broker).await;
        let marker = commit_of(PRODUCER_ID, &[("t", &[2, 0])]);
        let timed_out = codes(&writer(&broker, SHORT), from_ref(&marker)).await;
        assert_eq!(timed_out, [ErrorCode::REQUEST_TIMED_OUT, ErrorCode::NONE]);
        assert_eq!(log_end(&broker, "t", 2), 1, "it is in the log all the same");
        let waiting = in_background(writer(&broker, PATIENCE), marker);
        tokio::time::sleep(SHORT).await;
        assert!(!waiting.is_finished());
        replicate(&broker, "t", 2);
        assert_eq!(waiting.await.unwrap(), [ErrorCode::NONE, ErrorCode::NONE]);
    }

    /// The other broker has all that this one has.
    fn replicate(broker: &TestBroker, topic: &str, index: i32) {
        let partition = broker.partitions.find_by_name(topic, index).unwrap();
        let end = partition.view().log_end_offset();
        let fetch = FollowerFetch {
            fetch_offset: end,
            synced_offset: end,
            log_start_offset: 0,
            is_damaged: false,
            broker_epoch: 1,
            now_ms: broker.env.clock.now().monotonic_ms,
        };
        partition.update_follower_fetch_state(partition.leader_epoch(), OTHER, fetch).expect("it follows");
    }

    fn in_background(writer: Arc<MarkerWriter>, marker: WritableTxnMarker) -> JoinHandle<Vec<ErrorCode>> {
        tokio::spawn(async move { codes(&writer, &[marker]).await })
    }

    #[tokio::test]
    async fn too_few_replicas_in_sync_refuse_markers_before_they_are_written() {
        let broker = TestBroker::start_with(&[("min.insync.replicas", "2")]).await;
        let alone = PartitionRecord { isr: vec![NODE_ID], ..led_by(NODE_ID, &[NODE_ID, OTHER]) };
        broker.commit([registration(OTHER).into()]).await;
        broker.create("t", TOPIC_ID, &[alone]).await;
        let marker = commit_of(PRODUCER_ID, &[("t", &[0])]);
        assert_eq!(codes(&writer(&broker, PATIENCE), &[marker]).await, [ErrorCode::NOT_ENOUGH_REPLICAS]);
        assert_eq!(log_end(&broker, "t", 0), 0);
    }

    #[tokio::test]
    async fn as_many_markers_as_a_request_has_are_written_in_turns() {
        let broker = TestBroker::start().await;
        create(&broker).await;
        let partitions = vec![0; 2 * WRITTEN_TOGETHER_MAX + 1];
        let written = codes(&writer(&broker, PATIENCE), &[commit_of(PRODUCER_ID, &[("t", &partitions)])]).await;
        assert_eq!(written, vec![ErrorCode::NONE; partitions.len()]);
        assert_eq!(log_end(&broker, "t", 0), partitions.len() as i64);
    }

    #[tokio::test]
    async fn a_marker_whose_turn_comes_too_late_is_not_written() {
        let broker = TestBroker::start().await;
        create(&broker).await;
        let mut partitions = vec![2; WRITTEN_TOGETHER_MAX];
        partitions.push(0);
        let written = codes(&writer(&broker, SHORT), &[commit_of(PRODUCER_ID, &[("t", &partitions)])]).await;
        assert_eq!(written, vec![ErrorCode::REQUEST_TIMED_OUT; partitions.len()]);
        assert_eq!(log_end(&broker, "t", 0), 0);
    }

    /// Commits offset 42 of partition 0 in a transaction of epoch 3.
    async fn commit_offset(broker: &TestBroker) {
        let partition = broker.partitions.find_by_name(OFFSETS_TOPIC, 0).unwrap();
        let started = partition.start_verification(PRODUCER_ID, 3, -1, 0);
        let Ok(Verification::Needed(guard)) = started else { panic!("{started:?}") };
        let partition =
            TxnOffsetCommitRequestPartition { partition_index: 0, committed_offset: 42, ..Default::default() };
        let topic = TxnOffsetCommitRequestTopic { name: "t".to_owned(), partitions: vec![partition] };
        let request = TxnOffsetCommitRequest {
            group_id: "g".to_owned(),
            producer_id: PRODUCER_ID,
            producer_epoch: 3,
            topics: vec![topic],
            ..Default::default()
        };
        let verified = async move { Ok(Some(guard)) };
        let host = IpAddr::from([127, 0, 0, 1]);
        let committed = broker.groups.txn_offset_commit(3, host, request, verified).await;
        assert_eq!(committed.topics[0].partitions[0].error_code, ErrorCode::NONE);
    }

    async fn committed_offset(broker: &TestBroker) -> i64 {
        let topics = vec![OffsetFetchRequestTopic { name: "t".to_owned(), partition_indexes: vec![0] }];
        let request = OffsetFetchRequest { group_id: "g".to_owned(), topics: Some(topics), ..Default::default() };
        broker.groups.offset_fetch(7, request).await.topics[0].partitions[0].committed_offset
    }

    #[tokio::test]
    async fn offsets_are_those_of_the_group_when_their_marker_is_answered() {
        let broker = TestBroker::start().await;
        create(&broker).await;
        broker.serve_groups().await;
        commit_offset(&broker).await;
        assert_eq!(committed_offset(&broker).await, -1);
        let marker = commit_of(PRODUCER_ID, &[(OFFSETS_TOPIC, &[0])]);
        assert_eq!(codes(&writer(&broker, PATIENCE), from_ref(&marker)).await, [ErrorCode::NONE]);
        assert_eq!(committed_offset(&broker).await, 42);
        let fenced = WritableTxnMarker { coordinator_epoch: 4, ..marker };
        let refused = codes(&writer(&broker, PATIENCE), &[fenced]).await;
        assert_eq!(refused, [ErrorCode::TRANSACTION_COORDINATOR_FENCED]);
    }

    #[tokio::test]
    async fn offsets_become_those_of_the_group_when_their_marker_is_replicated() {
        let broker = Arc::new(TestBroker::start().await);
        create(&broker).await;
        broker.create(OFFSETS_TOPIC, Uuid([13; 16]), &[led_by(NODE_ID, &[NODE_ID, OTHER])]).await;
        while broker.groups.list_groups(&[], &[]) == Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) {
            yield_now().await;
        }
        let committing = tokio::spawn({
            let broker = Arc::clone(&broker);
            async move { commit_offset(&broker).await }
        });
        while log_end(&broker, OFFSETS_TOPIC, 0) == 0 {
            assert!(!committing.is_finished(), "it waits for the other replica");
            yield_now().await;
        }
        replicate(&broker, OFFSETS_TOPIC, 0);
        committing.await.expect("it is replicated");
        let marker = commit_of(PRODUCER_ID, &[(OFFSETS_TOPIC, &[0])]);
        assert_eq!(codes(&writer(&broker, SHORT), &[marker]).await, [ErrorCode::REQUEST_TIMED_OUT]);
        assert_eq!(committed_offset(&broker).await, -1);
        replicate(&broker, OFFSETS_TOPIC, 0);
        let patience = Instant::now() + PATIENCE;
        while committed_offset(&broker).await != 42 {
            assert!(Instant::now() < patience, "a marker that was answered too late has no effect");
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn where_no_groups_are_served_the_sender_looks_for_another_leader() {
        let broker = TestBroker::start().await;
        broker.commit([registration(OTHER).into()]).await;
        broker.create(OFFSETS_TOPIC, Uuid([13; 16]), &[led_by(OTHER, &[OTHER, NODE_ID])]).await;
        let marker = commit_of(PRODUCER_ID, &[(OFFSETS_TOPIC, &[0])]);
        assert_eq!(codes(&writer(&broker, PATIENCE), &[marker]).await, [ErrorCode::NOT_LEADER_OR_FOLLOWER]);
    }

    #[tokio::test]
    async fn markers_go_to_the_leaders_of_partitions_that_exist() {
        let broker = TestBroker::start().await;
        broker.create("t", TOPIC_ID, &[led_by(OTHER, &[OTHER]), led_by(NO_LEADER, &[OTHER])]).await;
        let sender = MarkerSender {
            node_id: NODE_ID,
            metadata: Arc::clone(&broker.metadata),
            peers: Arc::clone(&broker.peers),
            writer: writer(&broker, PATIENCE),
        };
        for (topic, partition, leader) in [
            ("t", 0, Leader::Node(OTHER)),
            ("t", 1, Leader::Unknown),
            ("t", 2, Leader::Deleted),
            ("nope", 0, Leader::Deleted),
        ] {
            assert_eq!(sender.leader(topic, partition), leader, "{topic}-{partition}");
        }
        // It cannot be reached.
        let request = || WriteTxnMarkersRequest { markers: vec![commit_of(PRODUCER_ID, &[("nope", &[0])])] };
        assert_eq!(sender.write_markers(OTHER, request()).await, Err(ErrorCode::NETWORK_EXCEPTION));
        let own = sender.write_markers(NODE_ID, request()).await.expect("it is here");
        assert_eq!(own.markers[0].topics[0].partitions[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }
}
