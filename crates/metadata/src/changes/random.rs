//! Everything that changes partitions, in random order on a few brokers, and what must hold after each step.
//!
//! Beside the metadata there is a model of the data: what each replica has, and what was acknowledged to producers. A
//! leader that is not elected uncleanly must have all that was acknowledged.

use std::collections::BTreeMap;

use storage::simdisk::Rng;
use wire::api::alter_partition::{AlterPartitionRequest, BrokerState, PartitionRequest, TopicRequest};
use wire::api::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use wire::api::broker_heartbeat::BrokerHeartbeatRequest;
use wire::api::create_partitions::CreatePartitionsTopic;
use wire::api::create_topics::{CreatableTopic, CreatableTopicConfig};
use wire::api::delete_topics::DeleteTopicState;
use wire::api::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use wire::api::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use wire::state::metadata::MetadataRecord;
use wire::{ErrorCode, Uuid};

use super::leadership::min_insync_replicas;
use super::tests::Counter;
use super::*;
use crate::image::{NO_LEADER, Topic};
use crate::{BrokerRegistration, RegisteredBroker};

const STEPS: usize = 300;

/// A broker's process and disk.
#[derive(Clone, Copy, Default)]
struct Process {
    /// Whether it runs.
    is_up: bool,
    incarnation: u8,
    disk: u8,
    stopped_cleanly: bool,
    wants_to_stop: bool,
}

/// What one partition's replicas have.
#[derive(Clone, Debug, Default)]
struct Data {
    written: u64,
    acknowledged: u64,
    by_replica: BTreeMap<i32, u64>,
}

struct World {
    seed: u64,
    step: usize,
    rng: Rng,
    image: MetadataImage,
    config: BrokerConfig,
    random: Counter,
    processes: BTreeMap<i32, Process>,
    data: BTreeMap<(Uuid, usize), Data>,
    topics_made: u32,
    /// The broker whose disk is new by this step.
    wiped: Option<i32>,
    said: Vec<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let brokers = 1 + rng.below(5) as i32;
        Self {
            seed,
            step: 0,
            image: MetadataImage::default(),
            config: BrokerConfig::default(),
            random: Counter::default(),
            processes: (1..=brokers).map(|id| (id, Process { disk: 1, ..Process::default() })).collect(),
            data: BTreeMap::new(),
            topics_made: 0,
            wiped: None,
            said: Vec::new(),
            rng,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    fn decide<T>(&mut self, decide: impl FnOnce(&Context<'_>) -> Decision<T>) -> T {
        let Decision { records, answer } =
            decide(&Context { image: &self.image, config: &self.config, random: &self.random });
        self.apply(&records);
        answer
    }

    fn apply(&mut self, records: &[MetadataRecord]) {
        if records.is_empty() {
            return;
        }
        let offset = self.image.offset() + records.len() as i64;
        let after =
            self.image.apply(records, offset, 1).unwrap_or_else(|error| panic!("{}: {error}", self.context())).0;
        self.check(&after);
        self.image = after;
    }

    fn context(&self) -> String {
        format!("seed {} step {}: {:?}", self.seed, self.step, self.said.last())
    }

    fn broker(&mut self) -> i32 {
        1 + self.below(self.processes.len()) as i32
    }

    fn partition(&mut self) -> Option<(Arc<Topic>, usize)> {
        let all: Vec<_> =
            self.image.topics().flat_map(|t| (0..t.partitions.len()).map(move |i| (t.clone(), i))).collect();
        let at = self.rng.below(all.len().max(1) as u64) as usize;
        all.into_iter().nth(at)
    }

    fn epoch(&self, id: i32) -> i64 {
        self.image.broker(id).map_or(-1, |broker| broker.epoch)
    }

    /// Whether the running process is the registered one.
    fn is_registered(&self, id: i32) -> bool {
        let incarnation = Uuid([self.processes[&id].incarnation; 16]);
        self.processes[&id].is_up && self.image.broker(id).is_some_and(|broker| broker.incarnation_id == incarnation)
    }

    fn step(&mut self) {
        self.wiped = None;
        let id = self.broker();
        let kind = self.below(100);
        match kind {
            0..12 => self.start(id),
            12..17 => {
                self.say(format!("crash {id}"));
                let process = self.processes.get_mut(&id).unwrap();
                (process.is_up, process.stopped_cleanly) = (false, false);
            }
            17..22 => self.fence(),
            22..37 => self.heartbeat(id),
            37..52 => self.alter_partition(),
            52..72 => self.write(),
            72..76 => self.elect(),
            76..79 => {
                self.say("balance".to_owned());
                let max = 1 + self.below(5);
                self.decide(|context| elections::balance(context, max));
                self.decide(|context| elections::elect_unclean(context, max));
            }
            79..87 => self.reassign(),
            87..92 => self.create(),
            92..93 => self.delete(),
            93..95 => self.grow(),
            95..98 => self.configure(),
            _ if !self.processes[&id].is_up => {
                self.say(format!("unregister {id}"));
                _ = self.decide(|context| brokers::unregister(context, id));
            }
            _ => {}
        }
    }

    fn say(&mut self, what: String) {
        self.said.push(what);
    }

    fn start(&mut self, id: i32) {
        let process = self.processes[&id];
        if process.is_up {
            return;
        }
        let is_new_disk = self.below(8) == 0;
        let disk = process.disk + u8::from(is_new_disk);
        let incarnation = process.incarnation + 1;
        self.say(format!("start {id} disk {disk} clean {}", process.stopped_cleanly));
        let registration = BrokerRegistration {
            id,
            incarnation_id: Uuid([incarnation; 16]),
            endpoints: Vec::new(),
            rack: None,
            log_dirs: vec![Uuid([10 * id as u8 + 100 + disk % 10; 16])],
            is_clean: process.stopped_cleanly && !is_new_disk,
            lost_replicas: Vec::new(),
        };
        let request = registration.to_request(Some(self.epoch(id)));
        let is_alive = self.image.broker(id).is_some_and(|broker| !broker.fenced) && self.below(3) == 0;
        if is_new_disk && !is_alive {
            self.wiped = Some(id);
            for data in self.data.values_mut() {
                data.by_replica.remove(&id);
            }
        }
        let up: BTreeMap<i32, bool> = self.processes.iter().map(|(id, process)| (*id, process.is_up)).collect();
        let known = |other: i32| if other == id { is_alive } else { up.get(&other).is_some_and(|is_up| *is_up) };
        let answer = self.decide(|context| brokers::register(context, &request, &known));
        if is_alive {
            assert_eq!(answer.error_code, ErrorCode::DUPLICATE_BROKER_REGISTRATION);
        } else {
            assert_eq!(answer.error_code, ErrorCode::NONE);
            assert_eq!(self.epoch(id), answer.broker_epoch);
            self.processes.insert(id, Process { is_up: true, incarnation, disk, ..Process::default() });
        }
    }

    fn fence(&mut self) {
        let mut ids = vec![self.broker()];
        if self.below(3) == 0 {
            ids.push(self.broker());
        }
        self.say(format!("fence {ids:?}"));
        let brokers: Vec<_> = ids.iter().map(|id| (*id, self.epoch(*id))).collect();
        self.decide(|context| Decision { records: heartbeats::fence(context, &brokers), answer: () });
    }

    fn heartbeat(&mut self, id: i32) {
        if !self.processes[&id].is_up {
            return;
        }
        let stops = self.processes[&id].wants_to_stop || self.below(4) == 0;
        let request = BrokerHeartbeatRequest {
            broker_id: id,
            broker_epoch: if self.is_registered(id) { self.epoch(id) } else { -7 },
            current_metadata_offset: self.image.offset(),
            want_fence: self.below(10) == 0,
            want_shut_down: stops,
            ..BrokerHeartbeatRequest::default()
        };
        self.say(format!("heartbeat {id} stops {stops}"));
        let answer = self.decide(|context| heartbeats::heartbeat(context, &request));
        match self.is_registered(id) {
            true => assert_eq!(answer.error_code, ErrorCode::NONE),
            false => assert_ne!(answer.error_code, ErrorCode::NONE),
        }
        let process = self.processes.get_mut(&id).unwrap();
        process.wants_to_stop = stops;
        if answer.should_shut_down {
            (process.is_up, process.stopped_cleanly, process.wants_to_stop) = (false, true, false);
        }
    }

    /// The leader adds replicas that have all that it has, and removes others.
    fn alter_partition(&mut self) {
        let Some((topic, index)) = self.partition() else { return };
        let partition = topic.partitions[index].clone();
        let leader = partition.leader;
        if leader == NO_LEADER || !self.is_registered(leader) {
            return;
        }
        let mut isr = vec![leader];
        for id in partition.replicas.iter().copied().filter(|id| *id != leader) {
            let grows = self.below(3) > 0 && self.is_registered(id);
            let data = self.data.entry((topic.id, index)).or_default();
            if grows {
                let has = data.by_replica.get(&leader).copied().unwrap_or(0);
                data.by_replica.insert(id, has);
                isr.push(id);
            }
        }
        let stale = i32::from(self.below(20) == 0);
        let members = isr.iter().map(|id| BrokerState { broker_id: *id, broker_epoch: self.epoch(*id) });
        let requested = PartitionRequest {
            partition_index: index as i32,
            leader_epoch: partition.leader_epoch,
            partition_epoch: partition.partition_epoch - stale,
            new_isr_with_epochs: members.collect(),
            leader_recovery_state: if isr.len() == 1 { partition.leader_recovery_state } else { 0 },
            ..PartitionRequest::default()
        };
        let request = AlterPartitionRequest {
            broker_id: leader,
            broker_epoch: self.epoch(leader),
            topics: vec![TopicRequest { topic_id: topic.id, partitions: vec![requested] }],
        };
        self.say(format!("alter {}-{index} {partition:?} to {isr:?}", topic.name));
        let answer = self.decide(|context| alter_partition::alter(context, &request));
        let answer = &answer.topics[0].partitions[0];
        let is_there = isr.iter().all(|id| self.image.broker(*id).is_some_and(RegisteredBroker::is_active));
        match answer.error_code {
            _ if stale > 0 => assert_eq!(answer.error_code, ErrorCode::INVALID_UPDATE_VERSION),
            ErrorCode::NONE => {
                let after = self.image.topic_by_id(topic.id).unwrap().partitions[index].clone();
                assert_eq!((answer.leader_id, &answer.isr), (leader, &after.isr));
                assert_eq!((answer.leader_epoch, answer.partition_epoch), (after.leader_epoch, after.partition_epoch));
            }
            ErrorCode::NEW_LEADER_ELECTED => assert!(reassigning::is_under_way(&partition)),
            code => assert_eq!((code, is_there), (ErrorCode::INELIGIBLE_REPLICA, false), "{}", self.context()),
        }
    }

    /// All that are in sync have what is acknowledged, and they are enough.
    fn write(&mut self) {
        let Some((topic, index)) = self.partition() else { return };
        let partition = topic.partitions[index].clone();
        if partition.leader == NO_LEADER || !partition.isr.iter().all(|id| self.is_registered(*id)) {
            return;
        }
        let context = Context { image: &self.image, config: &self.config, random: &self.random };
        if partition.isr.len() < min_insync_replicas(&context, &topic, &partition.replicas) {
            return;
        }
        self.say(format!("write {}-{index} {partition:?}", topic.name));
        let data = self.data.entry((topic.id, index)).or_default();
        data.written += 1;
        data.acknowledged = data.written;
        data.by_replica.extend(partition.isr.iter().map(|id| (*id, data.written)));
    }

    fn elect(&mut self) {
        let Some((topic, index)) = self.partition() else { return };
        let election_type = i8::from(self.below(4) == 0);
        let all = self.below(4) == 0;
        let one = TopicPartitions { topic: topic.name.to_string(), partitions: vec![index as i32] };
        let request =
            ElectLeadersRequest { election_type, topic_partitions: (!all).then(|| vec![one]), ..Default::default() };
        self.say(format!("elect {}-{index} type {election_type} all {all}", topic.name));
        self.decide(|context| elections::elect(context, &request));
    }

    fn reassign(&mut self) {
        let Some((topic, index)) = self.partition() else { return };
        let mut ids: Vec<i32> = self.image.brokers().map(|broker| broker.id).collect();
        let replicas = if self.below(4) == 0 || ids.is_empty() {
            None
        } else {
            let count = 1 + self.below(ids.len());
            let taken = (0..count).map(|_| ids.swap_remove(self.rng.below(ids.len() as u64) as usize));
            Some(taken.collect())
        };
        self.say(format!("reassign {}-{index} {:?} to {replicas:?}", topic.name, topic.partitions[index]));
        let partitions = vec![ReassignablePartition { partition_index: index as i32, replicas }];
        let request = AlterPartitionReassignmentsRequest {
            topics: vec![ReassignableTopic { name: topic.name.to_string(), partitions }],
            ..AlterPartitionReassignmentsRequest::default()
        };
        self.decide(|context| reassignments::alter(context, &request));
    }

    fn create(&mut self) {
        let brokers = self.image.brokers().count();
        if brokers == 0 || self.image.topic_count() > 6 {
            return;
        }
        self.topics_made += 1;
        let set = |name: &str, value: String| CreatableTopicConfig { name: name.to_owned(), value: Some(value) };
        let mut configs = vec![set("min.insync.replicas", (1 + self.below(3)).to_string())];
        if self.below(4) == 0 {
            configs.push(set("unclean.leader.election.enable", "true".to_owned()));
        }
        let topic = CreatableTopic {
            name: format!("t{}", self.topics_made),
            num_partitions: 1 + self.below(3) as i32,
            replication_factor: 1 + self.below(brokers) as i16,
            configs,
            ..CreatableTopic::default()
        };
        self.say(format!("create {topic:?}"));
        self.decide(|context| topics::create(context, &[topic], false));
    }

    fn delete(&mut self) {
        let Some((topic, _)) = self.partition() else { return };
        self.say(format!("delete {}", topic.name));
        let requested = DeleteTopicState { name: Some(topic.name.to_string()), topic_id: Uuid::ZERO };
        self.decide(|context| topics::delete(context, &[requested]));
        self.data.retain(|(id, _), _| *id != topic.id);
    }

    fn grow(&mut self) {
        let Some((topic, _)) = self.partition() else { return };
        self.say(format!("grow {}", topic.name));
        let count = topic.partitions.len() as i32 + 1;
        let requested = CreatePartitionsTopic { name: topic.name.to_string(), count, assignments: None };
        self.decide(|context| partitions::create(context, &[requested], false));
    }

    fn configure(&mut self) {
        let Some((topic, _)) = self.partition() else { return };
        let (name, value) = match self.below(3) {
            0 => ("unclean.leader.election.enable", (self.below(2) == 0).to_string()),
            _ => ("min.insync.replicas", (1 + self.below(3)).to_string()),
        };
        self.say(format!("set {} {name} {value}", topic.name));
        let config = AlterableConfig { name: name.to_owned(), config_operation: 0, value: Some(value) };
        let resource =
            AlterConfigsResource { resource_type: 2, resource_name: topic.name.to_string(), configs: vec![config] };
        self.decide(|context| configs::alter_incrementally(context, &[resource], false));
    }

    fn check(&mut self, after: &MetadataImage) {
        let mut replicas: BTreeMap<i32, usize> = BTreeMap::new();
        for id in after.topics().flat_map(|topic| &topic.partitions).flat_map(|partition| &partition.replicas) {
            *replicas.entry(*id).or_default() += 1;
        }
        assert_eq!(*after.replica_counts.by_broker(), replicas, "{}", self.context());
        for topic in after.topics() {
            let old = self.image.topic_by_id(topic.id).cloned();
            for (index, now) in topic.partitions.iter().enumerate() {
                let was = old.as_ref().and_then(|topic| topic.partitions.get(index));
                self.check_shape(after, now, was);
                if let Some(was) = was.filter(|was| *was != now) {
                    self.check_change(was, now);
                    self.follow(topic.id, index, was, now);
                }
            }
        }
    }

    fn check_shape(&self, image: &MetadataImage, now: &Partition, was: Option<&Arc<Partition>>) {
        let context = || format!("{}: {was:?} -> {now:?}", self.context());
        let mut distinct = now.replicas.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), now.replicas.len(), "{}", context());
        assert_eq!(now.directories.len(), now.replicas.len(), "{}", context());
        let is_replica = |id: &i32| now.replicas.contains(id);
        assert!(now.isr.iter().chain(&now.eligible_leader_replicas).all(is_replica), "{}", context());
        assert!(!now.eligible_leader_replicas.iter().any(|id| now.isr.contains(id)), "{}", context());
        assert!(now.adding_replicas.iter().chain(&now.removing_replicas).all(is_replica), "{}", context());
        let is_active = |id: &i32| image.broker(*id).is_some_and(RegisteredBroker::is_active);
        if now.leader == NO_LEADER {
            assert!(!now.isr.iter().any(is_active), "{}", context());
            assert!(!now.eligible_leader_replicas.iter().any(is_active), "{}", context());
        } else {
            assert!(now.isr.contains(&now.leader), "{}", context());
            assert!(now.last_known_elr.is_empty(), "{}", context());
            let leader = image.broker(now.leader).unwrap();
            // A broker that shuts down leads only what no other in-sync replica can take over.
            let may_lead = leader.is_active() || (!leader.fenced && now.isr == [now.leader]);
            assert!(may_lead, "{}", context());
            assert!(now.isr.iter().all(|id| *id == now.leader || is_active(id)), "{}", context());
        }
    }

    fn check_change(&self, was: &Partition, now: &Partition) {
        let context = || format!("{}: {was:?} -> {now:?}", self.context());
        assert!(now.partition_epoch > was.partition_epoch && now.leader_epoch >= was.leader_epoch, "{}", context());
        if now.leader != was.leader || was.replicas.iter().any(|id| !now.replicas.contains(id)) {
            assert!(now.leader_epoch > was.leader_epoch, "{}", context());
        }
        if now.isr.is_empty() && !was.isr.is_empty() {
            assert!(self.wiped.is_some_and(|id| was.isr == [id] && now.last_known_elr == [id]), "{}", context());
        }
    }

    /// The current leader, and whether it has all that was acknowledged.
    fn follow(&mut self, topic: Uuid, index: usize, was: &Partition, now: &Partition) {
        if now.leader == NO_LEADER || now.leader_epoch == was.leader_epoch {
            return;
        }
        let could_lead = [&was.isr, &was.eligible_leader_replicas].iter().any(|ids| ids.contains(&now.leader));
        let is_unclean = now.leader != was.leader && !could_lead && now.leader_recovery_state == 1;
        let is_empty = self.wiped == Some(now.leader) && now.replicas == [now.leader];
        let context = format!("{}: {was:?} -> {now:?}", self.context());
        let data = self.data.entry((topic, index)).or_default();
        let has = data.by_replica.get(&now.leader).copied().unwrap_or(0);
        if is_unclean {
            assert_eq!(now.isr, [now.leader], "{context}");
        }
        if is_unclean || is_empty {
            // What the others have may be something else from here on.
            data.by_replica.clear();
            data.by_replica.insert(now.leader, has);
            data.acknowledged = has;
            data.written = has;
        } else {
            assert!(has >= data.acknowledged, "{context} {data:?}");
        }
    }
}

#[test]
fn whatever_happens_no_acknowledged_record_is_left_behind() {
    for seed in 0..400 {
        let mut world = World::new(seed);
        for step in 0..STEPS {
            world.step = step;
            world.step();
        }
    }
}
