//! The data of one node, without a runtime: its partitions, the fetches that it answers and sends, and the changes of
//! in-sync replicas that it wants. Requests and answers of fetches go through the same bytes as on a network.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arc_swap::ArcSwap;
use bytes::{Bytes, BytesMut};
use configuration::BrokerConfig;
use metadata::MetadataCache;
use platform::Env;
use storage::LogError;
use wire::api::Request;
use wire::api::alter_partition::{AlterPartitionRequest, AlterPartitionResponse};
use wire::api::fetch::{FetchRequest, FetchResponse};
use wire::batch::{Batch, Batches};
use wire::record::RecordReader;
use wire::{ErrorCode, Reader, Uuid, frame};

use crate::api::fetch::{FetchContext, Service, serve};
use crate::fetch_sessions::FetchSessions;
use crate::frame::Frame;
use crate::partition::{Partition, PartitionTable, ProduceCompletion, Shared, Syncer};
use crate::replication::Key;
use crate::replication::follow::{AnswerError, Follow, Limits};
use crate::replication::isr::Round;

const FETCH_VERSION: i16 = 18;
const SESSIONS_MAX: usize = 100;
/// Small, so that a follower needs several fetches.
const LIMITS: Limits = Limits { partition_bytes_max: 300, response_bytes_max: 1000, wait_max_ms: 0, bytes_min: 1 };

pub(crate) struct Replica {
    pub(crate) id: i32,
    pub(crate) env: Env,
    pub(crate) config: Arc<ArcSwap<BrokerConfig>>,
    pub(crate) table: Arc<PartitionTable>,
    pub(crate) metadata: Arc<MetadataCache>,
    shared: Shared,
    sessions: FetchSessions,
    /// By leader.
    follows: BTreeMap<i32, Follow>,
    wanted: BTreeMap<Key, Arc<Partition>>,
}

impl Replica {
    pub(crate) fn new(
        env: Env,
        config: Arc<ArcSwap<BrokerConfig>>,
        metadata: Arc<MetadataCache>,
        data_dir: PathBuf,
        incarnation_id: Uuid,
    ) -> Result<Self, LogError> {
        let (id, lag_max_ms) = (config.load().node_id, config.load().replica_lag_time_max_ms);
        let shared = Shared::new(env.clone(), id, lag_max_ms, Syncer::idle());
        let table = Arc::new(PartitionTable::new(shared.clone(), data_dir, Arc::clone(&config), incarnation_id)?);
        let sessions = FetchSessions::new(SESSIONS_MAX);
        let (follows, wanted) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { id, env, config, table, metadata, shared, sessions, follows, wanted })
    }

    fn now_ms(&self) -> i64 {
        self.env.clock.now().monotonic_ms
    }

    /// The epoch of this broker's registration.
    pub(crate) fn broker_epoch(&self) -> i64 {
        self.metadata.load().broker(self.id).map_or(-1, |broker| broker.epoch)
    }

    pub(crate) fn service(&self) -> Service<'_> {
        Service {
            partitions: &self.table,
            sessions: &self.sessions,
            metadata: &self.metadata,
            clock: &*self.env.clock,
            node_id: self.id,
            max_bytes: i32::MAX,
            selects_by_rack: false,
        }
    }

    /// Answers a fetch of a follower or a consumer.
    pub(crate) fn answer(&self, request: &FetchRequest) -> FetchResponse {
        let is_inter_broker = request.replica_state.replica_id >= 0;
        let context = FetchContext {
            version: FETCH_VERSION,
            listener: "CONTROLLER",
            is_inter_broker,
            memory: None,
            reader: None,
        };
        let mut sent = BytesMut::new();
        frame::write_request(&mut sent, FETCH_VERSION, 1, "test", request);
        let sent = sent.freeze().slice(4..);
        let mut reader = Reader::new(&sent, 0, false);
        frame::RequestHeader::read(&mut reader).expect("the header is ours");
        let request: FetchRequest = frame::read_body(&mut reader).expect("the request is ours");
        let (response, spans) = poll(serve(&self.service(), &context, request));
        let frame = Frame::encode_with_spans(&FetchRequest::API, FETCH_VERSION, 1, &response, spans);
        let frame = frame.expect("the response is small").into_bytes();
        frame::read_response::<FetchRequest>(&frame.slice(4..), FETCH_VERSION).expect("the response is ours").1
    }

    /// Syncs what a request waits for.
    pub(crate) fn sync(&self) {
        self.shared.syncer.run_pending();
    }

    /// Syncs what no request waits for.
    pub(crate) fn flush_in_background(&self) {
        self.shared.flush_in_background();
        self.sync();
    }

    // --- As a follower

    /// What it asks a leader for, unless there is nothing to ask for now.
    pub(crate) fn fetch_request(&mut self, leader: i32) -> Option<FetchRequest> {
        let follows = |partition: &Arc<Partition>| partition.followed_leader() == Some(leader);
        let assigned = self.table.all().into_iter().filter(follows).map(|p| ((p.topic_id, p.index), p)).collect();
        let now_ms = self.now_ms();
        let quota = self.table.follower_quota();
        let new = || Follow::new(self.id, LIMITS).throttled_by(Arc::clone(quota));
        let follow = self.follows.entry(leader).or_insert_with(new);
        follow.assign(&assigned);
        follow.request(&self.metadata.load(), now_ms)
    }

    /// Takes a leader's answer. What the leader wants to be on disk is there when this returns.
    pub(crate) fn take_response(&mut self, leader: i32, response: FetchResponse) -> Result<(), AnswerError> {
        let now_ms = self.now_ms();
        let Some(follow) = self.follows.get_mut(&leader) else { return Ok(()) };
        match follow.apply(response, now_ms) {
            Ok(to_sync) => {
                let completion = Arc::new(ProduceCompletion::new(to_sync.len().max(1)));
                for (slot, partition) in to_sync.iter().enumerate() {
                    partition.sync_for_leader(&completion, slot);
                }
                self.sync();
                Ok(())
            }
            Err(AnswerError::SessionLost) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The connection to a leader broke: whatever was under way is lost.
    pub(crate) fn disconnect(&mut self, leader: i32) {
        if let Some(follow) = self.follows.get_mut(&leader) {
            follow.begin_session();
        }
    }

    // --- As a leader

    /// What it wants of the controller, if anything.
    pub(crate) fn isr_round(&mut self) -> Option<(Round, AlterPartitionRequest)> {
        let changes = self.shared.isr_changes.take();
        self.wanted.extend(changes.into_iter().map(|partition| ((partition.topic_id, partition.index), partition)));
        let round = Round::new(&self.wanted);
        let request = round.request(self.id, self.broker_epoch());
        if request.topics.is_empty() {
            self.wanted.clear();
            return None;
        }
        Some((round, request))
    }

    pub(crate) fn settle_isr(&mut self, round: Round, answer: Result<AlterPartitionResponse, ErrorCode>) -> bool {
        round.settle(&mut self.wanted, answer)
    }
}

/// What a future that waits for nothing comes to.
pub(crate) fn poll<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing in a simulation waits"),
    }
}

/// The batches of a log from the one with an offset on, up to another offset.
pub(crate) fn batches(partition: &Partition, from: i64, to: i64) -> Vec<Batch> {
    let view = partition.view();
    let (mut offset, end) = (from.max(view.log_start_offset()), to.min(view.log_end_offset()));
    let mut all: Vec<Batch> = Vec::new();
    while offset < end {
        // The operation that the disk was set to fail may be one of the checks.
        let read = || view.read(offset, end, 1 << 20);
        let read = read().or_else(|_| read()).expect("what is stored is readable");
        let before = all.len();
        all.extend(batches_of(read));
        // A high watermark that was noted before its log lost what was there, and was cut, may lie within a batch.
        if all.len() == before {
            break;
        }
        offset = all[all.len() - 1].header.next_offset();
    }
    all
}

/// All of these bytes as batches.
pub(crate) fn batches_of(bytes: Bytes) -> impl Iterator<Item = Batch> {
    Batches::new(bytes).map(|batch| batch.expect("what is stored is whole"))
}

/// All bytes of a log.
pub(crate) fn bytes_of(partition: &Partition) -> Vec<u8> {
    batches(partition, 0, i64::MAX).iter().flat_map(|batch| batch.bytes.to_vec()).collect()
}

/// The numbers that a batch's values are, by offset. Markers of transactions have none.
pub(crate) fn values(batch: &Batch) -> Vec<(i64, u64)> {
    if batch.header.attributes.is_control() {
        return Vec::new();
    }
    let section = batch.records(1 << 20).expect("the records are ours");
    let record = |record: Result<wire::record::Record<'_>, _>| {
        let record = record.expect("the records are ours");
        let value = record.value.and_then(|value| value.try_into().ok()).expect("a value is a number");
        (record.offset, u64::from_be_bytes(value))
    };
    RecordReader::new(&batch.header, &section).map(record).collect()
}

/// What each offset of a log has.
pub(crate) fn records(partition: &Partition) -> BTreeMap<i64, u64> {
    batches(partition, 0, i64::MAX).iter().flat_map(values).collect()
}
