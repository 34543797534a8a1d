//! The nodes, the controller, and what must hold at all times.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arc_swap::ArcSwap;
use configuration::BrokerConfig;
use metadata::{Applied, MetadataCache, MetadataDelta, MetadataImage, NO_LEADER};
use platform::Env;
use platform::simulation::SimClock;
use storage::SimDisk;
use wire::api::alter_partition::{
    AlterPartitionRequest, AlterPartitionResponse, PartitionData, PartitionRequest, TopicData,
};
use wire::api::fetch::{FetchRequest, FetchResponse};
use wire::batch::BatchBuilder;
use wire::state::metadata::{
    BrokerRegistrationChangeRecord, ConfigRecord, MetadataRecord, PartitionChangeRecord, PartitionRecord,
    RegisterBrokerRecord, TopicRecord,
};
use wire::{ErrorCode, Uuid};

use crate::partition::{Acks, Partition, PendingCommits, ProduceCompletion, ProduceOutcome};
use crate::replication::follow::AnswerError;
use crate::replication::isr::Round;
use crate::simulation::replica::{Replica, bytes_of, records};

pub(super) const TOPIC: &str = "t";
pub(super) const TOPIC_ID: Uuid = Uuid([7; 16]);
pub(super) const LAG_MAX_MS: i64 = 1000;
const DATA_DIR: &str = "/data";

/// A node that runs.
pub(super) struct Node {
    pub(super) replica: Replica,
    /// How much of the cluster's history it has applied.
    pub(super) applied: usize,
}

/// A record that was sent with acks=all.
pub(super) struct Sent {
    node: i32,
    value: u64,
    completion: Arc<ProduceCompletion>,
    leader_epoch: i32,
}

/// An acknowledged record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acked {
    pub(super) offset: i64,
    pub(super) value: u64,
    pub(super) leader_epoch: i32,
}

pub(super) struct Cluster {
    pub(super) clock: SimClock,
    pub(super) disks: BTreeMap<i32, SimDisk>,
    pub(super) nodes: BTreeMap<i32, Node>,
    /// Every image there was, and what came with it.
    history: Vec<(Arc<MetadataImage>, MetadataDelta)>,
    next_value: u64,
    incarnations: u8,
    sent: Vec<Sent>,
    pub(super) acked: Vec<Acked>,
    pub(super) trace: Vec<String>,
}

impl Node {
    pub(super) fn partition(&self) -> Arc<Partition> {
        self.replica.table.find_by_name(TOPIC, 0).expect("the partition is here")
    }

    /// The leader that it follows by its own knowledge.
    pub(super) fn leader(&self) -> Option<i32> {
        self.replica.table.find_by_name(TOPIC, 0).ok()?.followed_leader()
    }
}

impl Cluster {
    /// Nodes 1 to `count`, which have all registered and have one partition together that node 1 leads.
    pub(super) fn new(seed: u64, count: i32, settings: &[(&str, &str)]) -> Self {
        let ids: Vec<i32> = (1..=count).collect();
        let mut cluster = Self {
            clock: SimClock::default(),
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

    pub(super) fn log_event(&mut self, what: String) {
        self.trace.push(what);
    }

    pub(super) fn image(&self) -> &Arc<MetadataImage> {
        &self.history.last().expect("there is always an image").0
    }

    /// The partition as the controller knows it.
    pub(super) fn state(&self) -> metadata::Partition {
        metadata::Partition::clone(self.image().partition(TOPIC, 0).expect("the partition stays"))
    }

    pub(super) fn commit(&mut self, records: &[MetadataRecord]) {
        let before = self.image();
        let (image, delta) = before.apply(records, before.offset() + 1, 1).expect("the records fit");
        self.history.push((Arc::new(image), delta));
    }

    fn change(&mut self, change: PartitionChangeRecord) {
        self.commit(&[PartitionChangeRecord { partition_id: 0, topic_id: TOPIC_ID, ..change }.into()]);
        let state = self.state();
        self.log_event(format!("leader {} epoch {} isr {:?}", state.leader, state.leader_epoch, state.isr));
    }

    // --- Nodes

    /// Starts a node on what its disk has, and registers it.
    pub(super) fn start(&mut self, id: i32) {
        self.start_behind(id, 0);
    }

    /// Starts a node that lacks so many of the latest images.
    pub(super) fn start_behind(&mut self, id: i32, images: usize) {
        self.incarnations += 1;
        let incarnation_id = Uuid([self.incarnations; 16]);
        let env = Env { clock: Arc::new(self.clock.clone()), disk: Arc::new(self.disks[&id].clone()), ..Env::real() };
        env.disk.create_dir_all(Path::new(DATA_DIR)).expect("the disk works");
        let mut config = BrokerConfig::default();
        (config.node_id, config.replica_lag_time_max_ms) = (id, LAG_MAX_MS);
        // None of them is from before the topic.
        let applied = (self.history.len() - 1).saturating_sub(images).max(1);
        let image = Arc::clone(&self.history[applied].0);
        let (config, metadata) = (Arc::new(ArcSwap::from_pointee(config)), Arc::new(MetadataCache::default()));
        let replica = Replica::new(env, config, Arc::clone(&metadata), DATA_DIR.into(), incarnation_id)
            .expect("what was noted can be read");
        replica.table.load(&image);
        metadata.publish(image, &MetadataDelta::default(), |_| ());
        self.nodes.insert(id, Node { replica, applied });
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
        self.log_event(format!("{id} starts with {} records", self.nodes[&id].partition().view().log_end_offset()));
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
        self.log_event(format!("{id} ends, power loss {power_loss}"));
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
        node.replica.table.apply(image, delta);
        node.replica.metadata.publish(Arc::clone(image), &MetadataDelta::default(), |_| ());
        if node.replica.table.find_by_name(TOPIC, 0).is_ok_and(|partition| partition.is_leader()) {
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
        let (completion, mut commits) = (Arc::new(ProduceCompletion::new(1)), PendingCommits::default());
        partition.enqueue(builder.build(), acks, &completion, 0, &mut commits);
        commits.commit();
        let leader_epoch = partition.leader_epoch();
        if acks == Acks::All {
            self.sent.push(Sent { node: id, value, completion, leader_epoch });
        }
        self.take_answers();
    }

    /// Records what was acknowledged.
    pub(super) fn take_answers(&mut self) {
        let mut answers = Vec::new();
        self.sent.retain(|sent| match sent.completion.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => true,
            Poll::Ready(mut outcomes) => {
                answers.push((sent.node, sent.value, sent.leader_epoch, outcomes.remove(0)));
                false
            }
        });
        for (node, value, leader_epoch, outcome) in answers {
            match outcome {
                ProduceOutcome::Appended { base_offset: offset, .. } => {
                    self.log_event(format!("{node} acknowledges {value} at {offset}"));
                    self.acked.push(Acked { offset, value, leader_epoch });
                }
                ProduceOutcome::Refused(refusal) => self.log_event(format!("{node} refuses {value}: {}", refusal.code)),
            }
        }
    }

    pub(super) fn sync(&mut self, id: i32) {
        if let Some(node) = self.nodes.get(&id) {
            node.replica.sync();
        }
        self.take_answers();
    }

    // --- Replication

    /// Builds what a follower asks its leader for.
    pub(super) fn fetch_request(&mut self, id: i32) -> Option<(i32, FetchRequest)> {
        let node = self.nodes.get_mut(&id)?;
        let leader = node.leader()?;
        Some((leader, node.replica.fetch_request(leader)?))
    }

    /// What a node answers to a fetch.
    pub(super) fn answer(&self, id: i32, request: &FetchRequest) -> FetchResponse {
        self.nodes[&id].replica.answer(request)
    }

    pub(super) fn take_response(&mut self, id: i32, leader: i32, response: FetchResponse) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        match node.replica.take_response(leader, response) {
            Ok(()) => {}
            // The leader does not know of the last start yet.
            Err(AnswerError::Refused(ErrorCode::STALE_BROKER_EPOCH)) => node.replica.disconnect(leader),
            Err(error) => panic!("{error}"),
        }
    }

    /// A connection broke: whatever was under way is lost.
    pub(super) fn disconnect(&mut self, id: i32, leader: i32) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.replica.disconnect(leader);
        }
    }

    /// One fetch from beginning to end. Returns whether there was one.
    pub(super) fn fetch(&mut self, id: i32) -> bool {
        let Some((leader, request)) = self.fetch_request(id) else { return false };
        let Some(response) = self.nodes.get(&leader).map(|node| node.replica.answer(&request)) else {
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
        self.nodes.get_mut(&id)?.replica.isr_round()
    }

    pub(super) fn settle_isr(&mut self, id: i32, round: Round, answer: Result<AlterPartitionResponse, ErrorCode>) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.replica.settle_isr(round, answer);
        }
        self.take_answers();
    }

    /// What the controller says to it.
    pub(super) fn alter(&mut self, request: &AlterPartitionRequest) -> AlterPartitionResponse {
        let known = self.image().broker(request.broker_id).map(|broker| broker.epoch);
        if known != Some(request.broker_epoch) {
            return AlterPartitionResponse { error_code: ErrorCode::STALE_BROKER_EPOCH, ..Default::default() };
        }
        let requested = &request.topics[0].partitions[0];
        let error_code = self.decide(request.broker_id, requested);
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

    fn decide(&mut self, leader: i32, requested: &PartitionRequest) -> ErrorCode {
        let state = self.state();
        if state.leader != leader || state.leader_epoch != requested.leader_epoch {
            return ErrorCode::FENCED_LEADER_EPOCH;
        }
        if state.partition_epoch != requested.partition_epoch {
            return ErrorCode::INVALID_UPDATE_VERSION;
        }
        let is_eligible = |id: i32, epoch: i64| {
            let broker = self.image().broker(id);
            broker.is_some_and(|broker| broker.is_active() && (epoch == -1 || epoch == broker.epoch))
        };
        let members = &requested.new_isr_with_epochs;
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
        self.clock.pass(ms);
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
                    node.replica.flush_in_background();
                    node.replica.table.shrink_isrs();
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
