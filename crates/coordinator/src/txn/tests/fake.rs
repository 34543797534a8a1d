//! A log, a cluster and the leaders of its partitions in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI16, Ordering};

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use wire::ErrorCode;
use wire::api::write_txn_markers::{
    WritableTxnMarker, WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};
use wire::batch::Batch;

use crate::test_support::{Entry, TestClock, end_offset, for_each_record, stamp};
use crate::topic_log::{BoxFuture, TopicLog};
use crate::txn::core::{Metadata, TransactionVersion};
use crate::txn::records::{self, Stored};
use crate::txn::{Cluster, Leader, MarkerTransport, ProducerIds, TransactionConfig, TransactionCoordinator};

pub(super) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Topics `t0`.. of three partitions each exist. Partition n is led by broker n modulo three.
pub(super) const TOPIC_COUNT: u8 = 4;
pub(super) const PARTITION_COUNT: i32 = 3;

/// What becomes of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Durable,
    /// It waits for [`FakeLog::release`].
    Held,
    /// It leaves nothing behind.
    Refused(ErrorCode),
    /// It is in the log, and its sender is told something else.
    Lost(ErrorCode),
}

/// The one partition of `__transaction_state`.
pub(super) struct FakeLog(Mutex<LogState>);

struct LogState {
    entries: Vec<Entry>,
    fate: Fate,
    max_batch_bytes: usize,
    may_have_moved: bool,
    appends: usize,
    /// What the next load waits for, until other replicas have what is read.
    replicating: Option<oneshot::Receiver<Result<(), ErrorCode>>>,
}

impl FakeLog {
    pub(super) fn new() -> Arc<Self> {
        let state = LogState {
            entries: Vec::new(),
            fate: Fate::Durable,
            max_batch_bytes: 2_000,
            may_have_moved: false,
            appends: 0,
            replicating: None,
        };
        Arc::new(Self(Mutex::new(state)))
    }

    /// What becomes of appends from now on.
    pub(super) fn set(&self, fate: Fate) {
        self.0.lock().fate = fate;
    }

    /// Other replicas have what there is only when that is sent.
    pub(super) fn hold_replication(&self) -> oneshot::Sender<Result<(), ErrorCode>> {
        let (sender, replicating) = oneshot::channel();
        self.0.lock().replicating = Some(replicating);
        sender
    }

    /// Makes the oldest waiting batches durable.
    pub(super) fn release(&self, count: usize) {
        let mut state = self.0.lock();
        for entry in state.entries.iter_mut().filter(|entry| entry.waiting.is_some()).take(count) {
            entry.waiting.take().unwrap().send(Ok(entry.batch.header.base_offset)).ok();
        }
    }

    /// Appends are durable again, also those that wait.
    pub(super) fn heal(&self) {
        self.set(Fate::Durable);
        self.release(usize::MAX);
    }

    /// The leadership ends: of the batches that are not durable, only the first `kept` are there afterwards.
    pub(super) fn move_leadership(&self, kept: usize) {
        let mut state = self.0.lock();
        let durable = state.entries.iter().take_while(|entry| entry.waiting.is_none()).count();
        for entry in &mut state.entries {
            if let Some(waiting) = entry.waiting.take() {
                waiting.send(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER)).ok();
            }
        }
        state.entries.truncate(durable + kept);
    }

    pub(super) fn appends(&self) -> usize {
        self.0.lock().appends
    }

    pub(super) fn put(&self, batch: Batch) {
        let mut state = self.0.lock();
        let batch = stamp(batch, end_offset(&state.entries));
        state.entries.push(Entry { batch, waiting: None });
    }

    pub(super) fn bytes(&self) -> Bytes {
        let mut all = BytesMut::new();
        self.0.lock().entries.iter().for_each(|entry| all.put_slice(&entry.batch.bytes));
        all.freeze()
    }

    pub(super) fn records(&self) -> Vec<Stored> {
        stored(self.bytes())
    }

    /// The last record of an id, if it has one and is not forgotten.
    pub(super) fn last(&self, transactional_id: &str) -> Option<Metadata> {
        let of_id = |stored: &Stored| stored.transactional_id == transactional_id;
        self.records().into_iter().rfind(of_id).and_then(|stored| stored.value)
    }

    pub(super) fn may_have_moved(&self, may_have_moved: bool) {
        self.0.lock().may_have_moved = may_have_moved;
    }

    pub(super) fn limit_batches(&self, max_batch_bytes: usize) {
        self.0.lock().max_batch_bytes = max_batch_bytes;
    }
}

pub(super) fn stored(bytes: Bytes) -> Vec<Stored> {
    let mut stored = Vec::new();
    for_each_record(bytes, |key, value| stored.extend(records::read(key, value)));
    stored
}

impl TopicLog for FakeLog {
    fn may_have_moved(&self) -> bool {
        self.0.lock().may_have_moved
    }

    fn append(&self, _: i32, batch: Batch) -> BoxFuture<Result<i64, ErrorCode>> {
        let mut state = self.0.lock();
        state.appends += 1;
        let base_offset = end_offset(&state.entries);
        let batch = stamp(batch, base_offset);
        let result = match state.fate {
            Fate::Refused(error) => return Box::pin(std::future::ready(Err(error))),
            Fate::Held => {
                let (sender, durable) = oneshot::channel();
                state.entries.push(Entry { batch, waiting: Some(sender) });
                return Box::pin(async move { durable.await.unwrap_or(Err(ErrorCode::KAFKA_STORAGE_ERROR)) });
            }
            Fate::Lost(error) => Err(error),
            Fate::Durable => Ok(base_offset),
        };
        state.entries.push(Entry { batch, waiting: None });
        Box::pin(std::future::ready(result))
    }

    fn offsets(&self, _: i32) -> Result<(i64, i64), ErrorCode> {
        Ok((0, end_offset(&self.0.lock().entries)))
    }

    fn committed(&self, _: i32, _: i64) -> BoxFuture<Result<(), ErrorCode>> {
        let replicating = self.0.lock().replicating.take();
        Box::pin(async move {
            match replicating {
                Some(replicated) => replicated.await.unwrap_or(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER)),
                None => Ok(()),
            }
        })
    }

    fn read(&self, _: i32, from_offset: i64, max_bytes: u32) -> BoxFuture<Result<Bytes, ErrorCode>> {
        let mut bytes = BytesMut::new();
        for entry in self.0.lock().entries.iter().filter(|entry| entry.batch.header.last_offset() >= from_offset) {
            if !bytes.is_empty() && bytes.len() + entry.batch.bytes.len() > max_bytes as usize {
                break;
            }
            bytes.put_slice(&entry.batch.bytes);
        }
        Box::pin(std::future::ready(Ok(bytes.freeze())))
    }

    fn max_batch_bytes(&self) -> usize {
        self.0.lock().max_batch_bytes
    }
}

/// Topic, partition, and the marker's producer id, epoch, decision and coordinator epoch.
pub(super) type TakenMarker = (String, i32, (i64, i16, bool, i32));

/// The topics, the controller, and the brokers that lead partitions. Each partition remembers the markers that it took.
pub(super) struct FakeCluster(Mutex<ClusterState>, AtomicI16);

#[derive(Default)]
struct ClusterState {
    partition_count: Option<i32>,
    leaderless: BTreeSet<(String, i32)>,
    deleted: BTreeSet<String>,
    /// What a partition answers instead of taking a marker.
    refusals: BTreeMap<(String, i32), ErrorCode>,
    unreachable: BTreeSet<i32>,
    held: bool,
    waiting: Vec<oneshot::Sender<()>>,
    markers: Vec<(String, i32, WritableTxnMarker)>,
    requests: Vec<(i32, WriteTxnMarkersRequest)>,
    last_producer_id: i64,
    no_producer_ids: bool,
}

impl FakeCluster {
    fn new() -> Arc<Self> {
        let state = ClusterState { partition_count: Some(1), last_producer_id: 99, ..Default::default() };
        Arc::new(Self(Mutex::new(state), AtomicI16::new(0)))
    }

    pub(super) fn finalize(&self, version: TransactionVersion) {
        self.1.store(version.0, Ordering::Relaxed);
    }

    pub(super) fn without_leader(&self, topic: &str, partition: i32, is_without: bool) {
        let partition = (topic.to_owned(), partition);
        let mut state = self.0.lock();
        _ = if is_without { state.leaderless.insert(partition) } else { state.leaderless.remove(&partition) };
    }

    pub(super) fn delete(&self, topic: &str) {
        self.0.lock().deleted.insert(topic.to_owned());
    }

    pub(super) fn refuse(&self, topic: &str, partition: i32, error: Option<ErrorCode>) {
        let partition = (topic.to_owned(), partition);
        let mut state = self.0.lock();
        _ = match error {
            Some(error) => state.refusals.insert(partition, error),
            None => state.refusals.remove(&partition),
        };
    }

    pub(super) fn cut(&self, node_id: i32, is_cut: bool) {
        let mut state = self.0.lock();
        _ = if is_cut { state.unreachable.insert(node_id) } else { state.unreachable.remove(&node_id) };
    }

    /// From now on brokers take markers and do not answer before [`Self::answer`].
    pub(super) fn hold(&self) {
        self.0.lock().held = true;
    }

    pub(super) fn answer(&self) {
        let mut state = self.0.lock();
        state.held = false;
        state.waiting.drain(..).for_each(|waiting| _ = waiting.send(()));
    }

    pub(super) fn refuse_producer_ids(&self, is_refused: bool) {
        self.0.lock().no_producer_ids = is_refused;
    }

    pub(super) fn set_partition_count(&self, count: Option<i32>) {
        self.0.lock().partition_count = count;
    }

    /// The markers that partitions have taken, in their order.
    pub(super) fn markers(&self) -> Vec<TakenMarker> {
        let state = self.0.lock();
        let brief =
            |m: &WritableTxnMarker| (m.producer_id, m.producer_epoch, m.transaction_result, m.coordinator_epoch);
        state.markers.iter().map(|(topic, partition, marker)| (topic.clone(), *partition, brief(marker))).collect()
    }

    pub(super) fn requests(&self) -> Vec<(i32, WriteTxnMarkersRequest)> {
        self.0.lock().requests.clone()
    }
}

impl Cluster for FakeCluster {
    fn state_partition_count(&self) -> Option<i32> {
        self.0.lock().partition_count
    }

    fn create_state_topic(&self) -> BoxFuture<Result<(), ErrorCode>> {
        self.0.lock().partition_count = Some(1);
        Box::pin(std::future::ready(Ok(())))
    }

    fn transaction_version(&self) -> TransactionVersion {
        TransactionVersion(self.1.load(Ordering::Relaxed))
    }

    fn offsets_partition_for(&self, group_id: &str) -> i32 {
        group_id.len() as i32
    }
}

impl MarkerTransport for FakeCluster {
    fn leader(&self, topic: &str, partition: i32) -> Leader {
        let state = self.0.lock();
        let exists = topic == crate::group::OFFSETS_TOPIC
            || topic.strip_prefix('t').is_some_and(|n| n.parse::<u8>().is_ok_and(|n| n < TOPIC_COUNT))
                && (0..PARTITION_COUNT).contains(&partition);
        if !exists || state.deleted.contains(topic) {
            return Leader::Deleted;
        }
        match state.leaderless.contains(&(topic.to_owned(), partition)) {
            true => Leader::Unknown,
            false => Leader::Node(partition % PARTITION_COUNT),
        }
    }

    fn write_markers(
        &self,
        node_id: i32,
        request: WriteTxnMarkersRequest,
    ) -> BoxFuture<Result<WriteTxnMarkersResponse, ErrorCode>> {
        let mut state = self.0.lock();
        state.requests.push((node_id, request.clone()));
        if state.unreachable.contains(&node_id) {
            return Box::pin(std::future::ready(Err(ErrorCode::NETWORK_EXCEPTION)));
        }
        let markers = request.markers.into_iter().map(|marker| {
            let topics = marker.topics.iter().map(|topic| WritableTxnMarkerTopicResult {
                name: topic.name.clone(),
                partitions: topic
                    .partition_indexes
                    .iter()
                    .map(|index| {
                        let refusal = state.refusals.get(&(topic.name.clone(), *index)).copied();
                        if refusal.is_none() {
                            state.markers.push((topic.name.clone(), *index, marker.clone()));
                        }
                        let error_code = refusal.unwrap_or(ErrorCode::NONE);
                        WritableTxnMarkerPartitionResult { partition_index: *index, error_code }
                    })
                    .collect(),
            });
            WritableTxnMarkerResult { producer_id: marker.producer_id, topics: topics.collect() }
        });
        let response = WriteTxnMarkersResponse { markers: markers.collect() };
        if !state.held {
            return Box::pin(std::future::ready(Ok(response)));
        }
        let (sender, answered) = oneshot::channel();
        state.waiting.push(sender);
        Box::pin(async move {
            answered.await.ok();
            Ok(response)
        })
    }
}

impl ProducerIds for FakeCluster {
    fn next(&self) -> BoxFuture<Result<i64, ErrorCode>> {
        let mut state = self.0.lock();
        if state.no_producer_ids {
            return Box::pin(std::future::ready(Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)));
        }
        state.last_producer_id += 1;
        Box::pin(std::future::ready(Ok(state.last_producer_id)))
    }
}

/// A coordinator with one partition, loaded and running.
pub(super) struct World {
    pub(super) txn: Arc<TransactionCoordinator>,
    pub(super) log: Arc<FakeLog>,
    pub(super) cluster: Arc<FakeCluster>,
    pub(super) clock: Arc<TestClock>,
    config: TransactionConfig,
    leader_epoch: i32,
    running: JoinHandle<()>,
}

impl World {
    pub(super) async fn new() -> Self {
        Self::with(TransactionConfig::default()).await
    }

    pub(super) async fn with(config: TransactionConfig) -> Self {
        Self::start(config, FakeLog::new(), FakeCluster::new(), TestClock::new(), 5).await
    }

    async fn start(
        config: TransactionConfig,
        log: Arc<FakeLog>,
        cluster: Arc<FakeCluster>,
        clock: Arc<TestClock>,
        leader_epoch: i32,
    ) -> Self {
        let txn = TransactionCoordinator::new(
            config.clone(),
            clock.clone(),
            log.clone(),
            cluster.clone(),
            cluster.clone(),
            cluster.clone(),
        );
        txn.load(0, leader_epoch).await.unwrap();
        let running = tokio::spawn(txn.clone().run());
        Self { txn, log, cluster, clock, config, leader_epoch, running }
    }

    /// Another broker leads, and has `kept` of the batches that were not durable. The one that led has not heard of it.
    pub(super) async fn fail_over(self, kept: usize) -> (Self, Arc<TransactionCoordinator>) {
        self.running.abort();
        self.log.move_leadership(kept);
        let next = Self::start(self.config, self.log, self.cluster, self.clock, self.leader_epoch + 1).await;
        (next, self.txn)
    }
}
