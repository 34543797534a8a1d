//! The nodes, the controller, and what must hold at all times.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use arc_swap::ArcSwap;
use bytes::Bytes;
use log::{Now, SimDisk};
use wire::api::Request;
use wire::api::alter_partition::{
    AlterPartitionRequest, AlterPartitionResponse, PartitionData, PartitionRequest, TopicData,
};
use wire::api::fetch::{FetchRequest, FetchResponse};
use wire::batch::{Batch, BatchBuilder, Batches};
use wire::record::RecordReader;
use wire::state::metadata::{
    BrokerRegistrationChangeRecord, ConfigRecord, MetadataRecord, PartitionChangeRecord, PartitionRecord,
    RegisterBrokerRecord, TopicRecord,
};
use wire::{ErrorCode, Uuid, frame};

use crate::api::FetchSessions;
use crate::api::fetch::{Asked, Service, serve};
use crate::config::BrokerConfig;
use crate::env::{Clock, Env};
use crate::meta::{self, Applied, MetadataCache, MetadataDelta, MetadataImage, NO_LEADER};
use crate::net::Frame;
use crate::partition::{Acks, Outcome, Partition, PartitionTable, Shared, Syncer, Ticket, Touched};
use crate::replication::Key;
use crate::replication::follow::{AnswerError, Follow, Limits};
use crate::replication::isr::Round;

pub(super) const TOPIC: &str = "t";
pub(super) const TOPIC_ID: Uuid = Uuid([7; 16]);
pub(super) const LAG_MAX_MS: i64 = 1000;
const DATA_DIR: &str = "/data";
const FETCH_VERSION: i16 = 18;

/// Time that passes when the test says so.
pub(super) struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Now {
        let monotonic_ms = self.0.load(Ordering::SeqCst);
        Now { monotonic_ms, wall_ms: 1_700_000_000_000 + monotonic_ms }
    }
}

/// A node that runs.
pub(super) struct Node {
    pub(super) id: i32,
    env: Env,
    pub(super) config: Arc<ArcSwap<BrokerConfig>>,
    pub(super) table: PartitionTable,
    shared: Shared,
    sessions: FetchSessions,
    metadata: MetadataCache,
    follows: BTreeMap<i32, Follow>,
    wanted: BTreeMap<Key, Arc<Partition>>,
    /// How much of the cluster's history it has applied.
    pub(super) applied: usize,
}

/// A record that was sent with acks=all.
pub(super) struct Sent {
    node: i32,
    value: u64,
    ticket: Arc<Ticket>,
    leader_epoch: i32,
}

/// One that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acked {
    pub(super) offset: i64,
    pub(super) value: u64,
    pub(super) leader_epoch: i32,
}

pub(super) struct Cluster {
    pub(super) clock: Arc<TestClock>,
    disks: BTreeMap<i32, SimDisk>,
    pub(super) nodes: BTreeMap<i32, Node>,
    /// Every image there was, and what came with it.
    history: Vec<(Arc<MetadataImage>, MetadataDelta)>,
    next_value: u64,
    incarnations: u8,
    sent: Vec<Sent>,
    pub(super) acked: Vec<Acked>,
    pub(super) trace: Vec<String>,
}

pub(super) fn poll<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing in these tests waits"),
    }
}

impl Node {
    pub(super) fn partition(&self) -> Arc<Partition> {
        self.table.find_by_name(TOPIC, 0).expect("the partition is here")
    }

    pub(super) fn service(&self) -> Service<'_> {
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

    /// Answers a fetch, over the same bytes as on the network.
    pub(super) fn answer(&self, request: &FetchRequest) -> FetchResponse {
        let asked = Asked { version: FETCH_VERSION, listener: "CONTROLLER", is_inter_broker: true };
        let mut sent = bytes::BytesMut::new();
        frame::write_request(&mut sent, FETCH_VERSION, 1, "test", request);
        let sent = sent.freeze().slice(4..);
        let mut reader = wire::Reader::new(&sent, 0, false);
        frame::RequestHeader::read(&mut reader).expect("the header is ours");
        let request: FetchRequest = frame::read_body(&mut reader).expect("the request is ours");
        let (response, spans) = poll(serve(&self.service(), &asked, request));
        let frame = Frame::encode_with_spans(&FetchRequest::API, FETCH_VERSION, 1, &response, spans).into_bytes();
        frame::read_response::<FetchRequest>(&frame.slice(4..), FETCH_VERSION).expect("the response is ours").1
    }

    pub(super) fn sync(&self) {
        self.shared.syncer.run_pending();
    }

    pub(super) fn flush_in_background(&self) {
        for partition in std::mem::take(&mut *self.shared.dirty.lock()) {
            partition.flush_in_background();
        }
        self.sync();
    }

    /// Whom it follows by its own knowledge.
    pub(super) fn leader(&self) -> Option<i32> {
        self.table.find_by_name(TOPIC, 0).ok()?.followed_leader()
    }
}

impl Cluster {
    /// Nodes 1 to `count`, which have all registered and have one partition together that node 1 leads.
    pub(super) fn new(seed: u64, count: i32, settings: &[(&str, &str)]) -> Self {
        let ids: Vec<i32> = (1..=count).collect();
        let mut cluster = Self {
            clock: Arc::new(TestClock(AtomicI64::new(10_000))),
            disks: ids.iter().map(|&id| (id, SimDisk::new(seed.wrapping_mul(31).wrapping_add(id as u64)))).collect(),
            nodes: BTreeMap::new(),
            history: vec![(Arc::default(), MetadataDelta::default())],
            next_value: 0,
            incarnations: 0,
            sent: Vec::new(),
            acked: Vec::new(),
            trace: Vec::new(),
        };
        let partition = PartitionRecord {
            partition_id: 0,
            topic_id: TOPIC_ID,
            replicas: ids.clone(),
            isr: ids.clone(),
            leader: 1,
            leader_epoch: 0,
            partition_epoch: 0,
            directories: vec![Uuid([9; 16]); ids.len()],
            ..PartitionRecord::default()
        };
        let mut records: Vec<MetadataRecord> =
            vec![TopicRecord { name: TOPIC.into(), topic_id: TOPIC_ID }.into(), partition.into()];
        records.extend(settings.iter().map(|(name, value)| {
            let (name, value) = ((*name).to_owned(), Some((*value).to_owned()));
            ConfigRecord { resource_type: 2, resource_name: TOPIC.into(), name, value }.into()
        }));
        cluster.commit(&records);
        for id in ids {
            cluster.start(id);
        }
        cluster.settle();
        cluster
    }

    pub(super) fn note(&mut self, what: String) {
        self.trace.push(what);
    }

    pub(super) fn image(&self) -> &Arc<MetadataImage> {
        &self.history.last().expect("there is always an image").0
    }

    /// The partition as the controller knows it.
    pub(super) fn state(&self) -> meta::Partition {
        meta::Partition::clone(self.image().partition(TOPIC, 0).expect("the partition stays"))
    }

    pub(super) fn commit(&mut self, records: &[MetadataRecord]) {
        let before = self.image();
        let (image, delta) = before.apply(records, before.offset() + 1, 1).expect("the records fit");
        self.history.push((Arc::new(image), delta));
    }

    fn change(&mut self, change: PartitionChangeRecord) {
        self.commit(&[PartitionChangeRecord { partition_id: 0, topic_id: TOPIC_ID, ..change }.into()]);
        let state = self.state();
        self.note(format!("leader {} epoch {} isr {:?}", state.leader, state.leader_epoch, state.isr));
    }

    // --- Nodes

    /// Starts a node on what its disk has, and registers it.
    pub(super) fn start(&mut self, id: i32) {
        self.start_behind(id, 0);
    }

    /// Starts a node that has yet to hear of so many of the latest images.
    pub(super) fn start_behind(&mut self, id: i32, images: usize) {
        self.incarnations += 1;
        let incarnation_id = Uuid([self.incarnations; 16]);
        let env = Env { clock: Arc::clone(&self.clock) as _, disk: Arc::new(self.disks[&id].clone()), ..Env::real() };
        let shared = Shared {
            env: env.clone(),
            node_id: id,
            lag_max_ms: LAG_MAX_MS,
            isr_changes: Arc::default(),
            damaged: Arc::default(),
            failed: Arc::default(),
            syncer: Syncer::idle(),
            recovery_points: Arc::default(),
            dirty: Arc::default(),
            disk_full: Arc::default(),
        };
        env.disk.create_dir_all(Path::new(DATA_DIR)).expect("the disk works");
        let config = Arc::new(ArcSwap::from_pointee(BrokerConfig::default()));
        // None of them is from before the topic.
        let applied = (self.history.len() - 1).saturating_sub(images).max(1);
        let image = Arc::clone(&self.history[applied].0);
        let table = PartitionTable::new(shared.clone(), PathBuf::from(DATA_DIR), Arc::clone(&config), incarnation_id)
            .expect("what was noted can be read");
        table.load(&image).expect("the logs open");
        let metadata = MetadataCache::default();
        metadata.show(image);
        let sessions = FetchSessions::new(100);
        let (follows, wanted) = (BTreeMap::new(), BTreeMap::new());
        self.nodes.insert(id, Node { id, env, config, table, shared, sessions, metadata, follows, wanted, applied });
        let broker_epoch = self.image().offset() + 1;
        let broker =
            RegisterBrokerRecord { broker_id: id, broker_epoch, incarnation_id, fenced: false, ..Default::default() };
        let mut records: Vec<MetadataRecord> = vec![broker.into()];
        let state = self.state();
        if state.leader == NO_LEADER && state.isr.contains(&id) {
            let change =
                PartitionChangeRecord { partition_id: 0, topic_id: TOPIC_ID, leader: id, ..Default::default() };
            records.push(change.into());
        }
        self.commit(&records);
        self.note(format!("{id} starts with {} records", self.nodes[&id].partition().view().log_end_offset()));
    }

    /// Ends a node: by power loss, or only its process. The controller notices at once.
    pub(super) fn crash(&mut self, id: i32, power_loss: bool) {
        self.nodes.remove(&id);
        if power_loss {
            self.disks[&id].crash();
        } else {
            self.disks[&id].kill();
        }
        self.sent.retain(|sent| sent.node != id);
        self.note(format!("{id} ends, power loss {power_loss}"));
        let fenced = BrokerRegistrationChangeRecord { broker_id: id, fenced: 1, ..Default::default() };
        self.commit(&[fenced.into()]);
        let state = self.state();
        let isr: Vec<i32> = state.isr.iter().copied().filter(|&other| other != id).collect();
        let leader = if state.leader != id {
            -2
        } else {
            isr.iter().copied().find(|other| self.nodes.contains_key(other)).unwrap_or(NO_LEADER)
        };
        let isr = (!isr.is_empty() && isr.len() < state.isr.len()).then_some(isr);
        if leader != -2 || isr.is_some() {
            self.change(PartitionChangeRecord { leader, isr, ..Default::default() });
        }
    }

    /// Has the controller make another in-sync replica the leader.
    pub(super) fn elect(&mut self, leader: i32) {
        self.change(PartitionChangeRecord { leader, ..Default::default() });
    }

    /// Has a node learn of the next image, if there is one.
    pub(super) fn apply_next(&mut self, id: i32) -> bool {
        let Some(node) = self.nodes.get_mut(&id) else { return false };
        let Some((image, delta)) = self.history.get(node.applied + 1) else { return false };
        node.applied += 1;
        node.table.apply(image, delta);
        node.metadata.show(Arc::clone(image));
        if node.table.find_by_name(TOPIC, 0).is_ok_and(|partition| partition.is_leader()) {
            self.check_leader(id);
        }
        true
    }

    pub(super) fn apply_all(&mut self, id: i32) {
        while self.apply_next(id) {}
    }

    // --- Records

    /// Sends a record to a node, which may or may not lead.
    pub(super) fn produce(&mut self, id: i32, acks: Acks) {
        let value = self.next_value;
        self.next_value += 1;
        let Some(node) = self.nodes.get(&id) else { return };
        let partition = node.partition();
        let mut builder = BatchBuilder::new();
        builder.push(0, None, Some(&value.to_be_bytes()), &[]);
        let (ticket, mut touched) = (Arc::new(Ticket::new(1)), Touched::default());
        partition.enqueue(builder.build(), acks, &ticket, 0, &mut touched);
        touched.commit();
        let leader_epoch = partition.leader_epoch();
        if acks == Acks::All {
            self.sent.push(Sent { node: id, value, ticket, leader_epoch });
        }
        self.take_answers();
    }

    /// Notes what was acknowledged.
    pub(super) fn take_answers(&mut self) {
        let mut answers = Vec::new();
        self.sent.retain(|sent| match sent.ticket.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => true,
            Poll::Ready(mut outcomes) => {
                answers.push((sent.node, sent.value, sent.leader_epoch, outcomes.remove(0)));
                false
            }
        });
        for (node, value, leader_epoch, outcome) in answers {
            match outcome {
                Outcome::Appended { base_offset: offset, .. } => {
                    self.note(format!("{node} acknowledges {value} at {offset}"));
                    self.acked.push(Acked { offset, value, leader_epoch });
                }
                Outcome::Refused(refusal) => self.note(format!("{node} refuses {value}: {}", refusal.code)),
            }
        }
    }

    pub(super) fn sync(&mut self, id: i32) {
        if let Some(node) = self.nodes.get(&id) {
            node.sync();
        }
        self.take_answers();
    }

    // --- Replication

    /// Builds what a follower asks its leader for.
    pub(super) fn fetch_request(&mut self, id: i32) -> Option<(i32, FetchRequest)> {
        let node = self.nodes.get_mut(&id)?;
        let leader = node.leader()?;
        let assigned = BTreeMap::from([((TOPIC_ID, 0), node.partition())]);
        let limits = Limits { partition_bytes_max: 300, response_bytes_max: 1000, wait_max_ms: 0, bytes_min: 1 };
        let quota = Arc::clone(node.table.follower_quota());
        let follow = node.follows.entry(leader).or_insert_with(|| Follow::new(id, limits).throttled_by(quota));
        follow.assign(&assigned);
        let broker_epoch = node.metadata.load().broker(id).map_or(-1, |broker| broker.epoch);
        let now_ms = node.env.clock.now().monotonic_ms;
        Some((leader, follow.request(broker_epoch, now_ms)?))
    }

    /// Gives a follower an answer. Returns whether it has anything to sync first.
    pub(super) fn take_response(&mut self, id: i32, leader: i32, response: FetchResponse) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(follow) = node.follows.get_mut(&leader) else { return };
        let now_ms = node.env.clock.now().monotonic_ms;
        match follow.apply(response, now_ms) {
            Ok(to_sync) => {
                let ticket = Arc::new(Ticket::new(to_sync.len().max(1)));
                for (place, partition) in to_sync.iter().enumerate() {
                    partition.sync_for_leader(&ticket, place);
                }
                node.sync();
            }
            Err(AnswerError::SessionLost) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// A connection broke: whatever was under way is lost.
    pub(super) fn disconnect(&mut self, id: i32, leader: i32) {
        let follow = self.nodes.get_mut(&id).and_then(|node| node.follows.get_mut(&leader));
        if let Some(follow) = follow {
            follow.begin_session();
        }
    }

    /// One fetch from beginning to end. Returns whether there was one.
    pub(super) fn fetch(&mut self, id: i32) -> bool {
        let Some((leader, request)) = self.fetch_request(id) else { return false };
        let Some(response) = self.nodes.get(&leader).map(|node| node.answer(&request)) else {
            self.disconnect(id, leader);
            return false;
        };
        self.take_response(id, leader, response);
        self.take_answers();
        true
    }

    // --- In-sync replicas

    /// Takes what a leader asks the controller for.
    pub(super) fn isr_request(&mut self, id: i32) -> Option<(Round, AlterPartitionRequest)> {
        let node = self.nodes.get_mut(&id)?;
        let changes = node.shared.isr_changes.take();
        node.wanted.extend(changes.into_iter().map(|partition| ((partition.topic_id, partition.index), partition)));
        let round = Round::new(&node.wanted);
        let broker_epoch = node.metadata.load().broker(id).map_or(-1, |broker| broker.epoch);
        let request = round.request(id, broker_epoch);
        if request.topics.is_empty() {
            node.wanted.clear();
            return None;
        }
        Some((round, request))
    }

    pub(super) fn settle_isr(&mut self, id: i32, round: Round, answer: Result<AlterPartitionResponse, ErrorCode>) {
        if let Some(node) = self.nodes.get_mut(&id) {
            round.settle(&mut node.wanted, answer);
        }
        self.take_answers();
    }

    /// What the controller says to it.
    pub(super) fn alter(&mut self, request: &AlterPartitionRequest) -> AlterPartitionResponse {
        let known = self.image().broker(request.broker_id).map(|broker| broker.epoch);
        if known != Some(request.broker_epoch) {
            return AlterPartitionResponse { error_code: ErrorCode::STALE_BROKER_EPOCH, ..Default::default() };
        }
        let asked = &request.topics[0].partitions[0];
        let error_code = self.decide(request.broker_id, asked);
        let state = self.state();
        let data = PartitionData {
            partition_index: 0,
            error_code,
            leader_id: state.leader,
            leader_epoch: state.leader_epoch,
            isr: state.isr,
            leader_recovery_state: 0,
            partition_epoch: state.partition_epoch,
        };
        let topics = vec![TopicData { topic_id: TOPIC_ID, partitions: vec![data] }];
        AlterPartitionResponse { topics, ..Default::default() }
    }

    fn decide(&mut self, leader: i32, asked: &PartitionRequest) -> ErrorCode {
        let state = self.state();
        if state.leader != leader || state.leader_epoch != asked.leader_epoch {
            return ErrorCode::FENCED_LEADER_EPOCH;
        }
        if state.partition_epoch != asked.partition_epoch {
            return ErrorCode::INVALID_UPDATE_VERSION;
        }
        let is_eligible = |id: i32, epoch: i64| {
            let broker = self.image().broker(id);
            broker.is_some_and(|broker| broker.is_active() && (epoch == -1 || epoch == broker.epoch))
        };
        let members = &asked.new_isr_with_epochs;
        if !members.iter().all(|member| is_eligible(member.broker_id, member.broker_epoch)) {
            return ErrorCode::INELIGIBLE_REPLICA;
        }
        let isr = members.iter().map(|member| member.broker_id).collect();
        self.change(PartitionChangeRecord { leader: -2, isr: Some(isr), ..Default::default() });
        ErrorCode::NONE
    }

    pub(super) fn change_isr(&mut self, id: i32) {
        if let Some((round, request)) = self.isr_request(id) {
            let answer = self.alter(&request);
            self.settle_isr(id, round, Ok(answer));
        }
    }

    pub(super) fn pass(&mut self, ms: i64) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
    }

    /// Lets everything that is under way come to its end.
    pub(super) fn settle(&mut self) {
        for _ in 0..60 {
            self.pass(LAG_MAX_MS / 10);
            for id in self.disks.keys().copied().collect::<Vec<_>>() {
                self.apply_all(id);
                for _ in 0..4 {
                    self.fetch(id);
                }
                if let Some(node) = self.nodes.get(&id) {
                    node.flush_in_background();
                    node.table.shrink_isrs();
                }
                self.change_isr(id);
                self.take_answers();
            }
        }
    }

    // --- What must hold

    /// The leader has all that was acknowledged in earlier epochs.
    fn check_leader(&self, id: i32) {
        let partition = self.nodes[&id].partition();
        let records = records(&partition);
        for acked in self.acked.iter().filter(|acked| acked.leader_epoch < partition.leader_epoch()) {
            let is_there = records.get(&acked.offset) == Some(&acked.value);
            assert!(is_there, "{id} leads in epoch {} without {acked:?}", partition.leader_epoch());
        }
    }

    /// The newest leader promises nothing that an in-sync replica does not have.
    pub(super) fn check_watermarks(&self) {
        let state = self.state();
        let Some(leader) = self.nodes.get(&state.leader).map(Node::partition) else { return };
        if !leader.is_leader() || leader.leader_epoch() != state.leader_epoch {
            return;
        }
        for node in state.isr.iter().filter_map(|id| self.nodes.get(id)) {
            let view = node.partition();
            let (end, synced) = (view.view().log_end_offset(), view.view().synced_offset());
            assert!(leader.high_watermark() <= end, "{} has {end} of {}", node.id, leader.high_watermark());
            assert!(leader.durable_offset() <= synced, "{} synced {synced} of {}", node.id, leader.durable_offset());
        }
    }

    /// After everything has settled: all that run have the same bytes, and all that was acknowledged.
    pub(super) fn check_healed(&self) {
        let state = self.state();
        let leader = self.nodes[&state.leader].partition();
        assert!(leader.is_leader());
        self.check_leader(state.leader);
        let (expected, high_watermark) = (bytes_of(&leader), leader.high_watermark());
        assert_eq!(high_watermark, leader.view().log_end_offset(), "everything is replicated");
        for (id, node) in &self.nodes {
            assert!(state.isr.contains(id), "{id} is in sync again");
            let partition = node.partition();
            assert!(bytes_of(&partition) == expected, "{id} has other bytes than the leader");
            assert_eq!(partition.high_watermark(), high_watermark, "{id} knows what is replicated");
        }
    }
}

/// All bytes of a log.
pub(super) fn bytes_of(partition: &Partition) -> Vec<u8> {
    let view = partition.view();
    let (mut offset, end) = (view.log_start_offset(), view.log_end_offset());
    let mut bytes = Vec::new();
    while offset < end {
        let read = view.read(offset, end, 1 << 20).expect("what is stored is readable");
        let last = batches(read.clone()).last().expect("there is a batch").header.next_offset();
        bytes.extend_from_slice(&read);
        offset = last;
    }
    bytes
}

fn batches(bytes: Bytes) -> impl Iterator<Item = Batch> {
    Batches::new(bytes).map(|batch| batch.expect("what is stored is whole"))
}

/// What each offset of a log has.
pub(super) fn records(partition: &Partition) -> BTreeMap<i64, u64> {
    let mut records = BTreeMap::new();
    for batch in batches(bytes_of(partition).into()) {
        let section = batch.records(1 << 20).expect("the records are ours");
        for record in RecordReader::new(&batch.header, &section) {
            let record = record.expect("the records are ours");
            let value = record.value.and_then(|value| value.try_into().ok()).expect("a value is a number");
            records.insert(record.offset, u64::from_be_bytes(value));
        }
    }
    records
}
