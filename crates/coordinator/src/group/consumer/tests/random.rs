//! Members that come, go, fall silent and do not hear answers, topics and rights that change, writes that fail and
//! coordinators that read a compacted log, all from one seed. What must hold whatever happens:
//!
//! - of the members, as they see it themselves, no two have a partition at a time;
//! - a member's epoch does not go back, unless it joins anew;
//! - a member may commit what it has, in the epoch that it knows, and nobody that was put out may;
//! - a member gets no topic of its pattern that it may not know of;
//! - what a group knows is what the log says, compacted or not;
//! - when the trouble is over, all partitions are soon with the members that want them and may have them.

use std::collections::{BTreeMap, BTreeSet};

use wire::api::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use wire::{ErrorCode, Uuid};

use super::fake::{SESSION_MS, World, joining, silent};
use crate::group::consumer::{ConsumerGroup, Record, ResolvedRegex, State};
use crate::group::regex::Pattern;
use crate::test_support::Rng;

const SEEDS: u64 = 40;
const STEPS: u64 = 200;
const TOPICS: [&str; 3] = ["t", "u", "v"];
const PATTERNS: [&str; 3] = ["[tu]", "v|t", "none"];

/// A member as it sees itself.
#[derive(Clone, Debug, Default)]
struct Client {
    instance_id: Option<String>,
    epoch: i32,
    /// What it works on.
    owned: BTreeSet<(Uuid, i32)>,
    /// What of it has been taken away. It finishes its work on it first.
    revoking: BTreeSet<(Uuid, i32)>,
    topics: Vec<String>,
    pattern: String,
    /// Whether it has told its subscription since it has it.
    has_told: bool,
    /// Whether it has to say what it has.
    has_news: bool,
}

struct Simulation {
    rng: Rng,
    world: World,
    clients: BTreeMap<String, Client>,
    next_member: u64,
    /// Patterns that are being resolved.
    resolving: Option<Vec<String>>,
    gone: Vec<String>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 0);
        let mut world = World::new();
        world.topics.set("u", 2, 3);
        world.settings.assignment_interval_ms = if rng.one_in(2) { 0 } else { 3_000 };
        let (clients, gone) = (BTreeMap::new(), Vec::new());
        Self { rng, world, clients, next_member: 0, resolving: None, gone }
    }

    fn step(&mut self) {
        let member_ids: Vec<String> = self.clients.keys().cloned().collect();
        match self.rng.below(24) {
            0 | 1 if self.clients.len() < 6 => self.add_member(),
            2 => self.change_topics(),
            3 => self.pass(),
            4 => self.fail_over(),
            5 => self.leave(),
            6 => self.finish_resolving(),
            7 => {
                if let Some(client) = self.rng.any(&member_ids).and_then(|id| self.clients.get_mut(&id)) {
                    // It has found something else to do.
                    let wanted = self.rng.below(8);
                    client.topics = TOPICS
                        .iter()
                        .enumerate()
                        .filter(|(n, _)| wanted & (1 << n) != 0)
                        .map(|(_, t)| (*t).into())
                        .collect();
                    client.pattern =
                        if self.rng.one_in(3) { self.rng.any(&PATTERNS).unwrap().to_owned() } else { String::new() };
                    client.has_told = false;
                }
            }
            8 => {
                if let Some(member_id) = self.rng.any(&member_ids) {
                    let hidden = TOPICS.iter().filter(|_| self.rng.one_in(3)).map(|topic| (*topic).to_owned());
                    self.world.hidden.insert(member_id, hidden.collect());
                }
            }
            9 => {
                if let Some(client) = self.rng.any(&member_ids).and_then(|id| self.clients.get_mut(&id)) {
                    client.revoke();
                }
            }
            _ => {
                if let Some(member_id) = self.rng.any(&member_ids) {
                    self.heartbeat(&member_id);
                }
            }
        }
        self.check();
    }

    fn add_member(&mut self) {
        self.next_member += 1;
        let member_id = format!("m{}", self.next_member);
        let instance_id = self.rng.one_in(3).then(|| format!("i{}", self.rng.below(2)));
        let mut client = Client { instance_id, ..Client::default() };
        client.topics = vec![self.rng.any(&TOPICS).unwrap().to_owned()];
        self.clients.insert(member_id.clone(), client);
        self.heartbeat(&member_id);
    }

    fn change_topics(&mut self) {
        let name = self.rng.any(&TOPICS).unwrap();
        let is_new = match self.world.topics.topics.get_mut(name) {
            Some(topic) if !self.rng.one_in(3) => {
                topic.partition_count = (topic.partition_count + 1).min(8);
                false
            }
            Some(_) => {
                self.world.topics.topics.remove(name);
                false
            }
            None => {
                let (id, partitions) = (10 + self.rng.below(240) as u8, 1 + self.rng.below(5) as i32);
                self.world.topics.set(name, id, partitions);
                true
            }
        };
        self.world.group.topics_changed(7, is_new);
    }

    /// Lets time pass. Who has been silent for a session knows that it is out.
    fn pass(&mut self) {
        let ms = [500, 2_000, 11_000, SESSION_MS][self.rng.below(4) as usize];
        self.world.pass(ms);
        let group = &self.world.group;
        for (member_id, _) in self.clients.extract_if(.., |member_id, _| !group.has_member(member_id)) {
            self.gone.push(member_id);
        }
    }

    /// Another coordinator reads the log, a part of which has been compacted.
    fn fail_over(&mut self) {
        let upto = self.rng.below(self.world.log.len() as u64 + 1) as usize;
        self.world.log = compacted(&self.world.log, upto, self.rng.one_in(2));
        let mut group = ConsumerGroup::default();
        self.world.log.iter().cloned().for_each(|record| _ = group.apply(record));
        self.world.group = group;
        self.world.change(|group, context| (group.resume(context), Default::default()));
        self.resolving = None;
    }

    fn leave(&mut self) {
        let member_ids: Vec<String> = self.clients.keys().cloned().collect();
        let Some(member_id) = self.rng.any(&member_ids) else { return };
        let Some(client) = self.clients.remove(&member_id) else { return };
        let epoch = if client.instance_id.is_some() && self.rng.one_in(2) { -2 } else { -1 };
        // Nobody may believe it while it has not been told.
        let left = self.world.leave(&member_id, client.instance_id.as_deref(), epoch);
        let allowed = [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::FENCED_INSTANCE_ID];
        assert!(left.is_ok() || allowed.contains(&left.unwrap_err()));
        if epoch == -1 {
            self.gone.push(member_id);
        }
    }

    fn finish_resolving(&mut self) {
        let Some(patterns) = self.resolving.take() else { return };
        let names: Vec<String> = self.world.topics.topics.keys().cloned().collect();
        let resolved = patterns.into_iter().map(|pattern| {
            let topics = Pattern::new(&pattern).unwrap().matching(&names);
            (pattern, ResolvedRegex { topics, version: 1, timestamp_ms: 1 })
        });
        let resolved = (!self.rng.one_in(4)).then(|| resolved.collect());
        self.world.change(|group, context| ((), group.resolved(context, resolved)));
    }

    fn heartbeat(&mut self, member_id: &str) {
        let client = self.clients[member_id].clone();
        let request = client.request(member_id);
        let before = self.world.log.len();
        let fails = self.rng.one_in(12);
        let answer = if fails {
            self.fail_to_write(request.clone());
            None
        } else {
            let answer = self.world.answer(request.clone());
            if let Ok(resolution) = answer.as_ref().map(|answer| answer.resolve.clone())
                && let Some(resolution) = resolution
            {
                self.resolving = Some(resolution.patterns);
            }
            // The member may not hear of it.
            (!self.rng.one_in(8)).then_some(answer)
        };
        let client = self.clients.get_mut(member_id).unwrap();
        match answer {
            // It says everything again.
            None => client.has_told = false,
            Some(Ok(answer)) => {
                self.world.check_hidden(&client.topics, &answer.response);
                client.hear(answer.response);
            }
            Some(Err(refusal)) => {
                assert_eq!(self.world.log.len(), before, "a refused heartbeat has written something");
                match refusal.code {
                    ErrorCode::FENCED_MEMBER_EPOCH => client.start_anew(),
                    ErrorCode::UNKNOWN_MEMBER_ID
                    | ErrorCode::FENCED_INSTANCE_ID
                    | ErrorCode::UNRELEASED_INSTANCE_ID => {
                        self.clients.remove(member_id);
                    }
                    code => panic!("refused with {code}: {}", refusal.message),
                }
            }
        }
    }

    /// A heartbeat whose records cannot be written.
    fn fail_to_write(&mut self, request: ConsumerGroupHeartbeatRequest) {
        let resolving = self.resolving.take();
        let heartbeat = self.world.heartbeat(request);
        let resolution = self.world.change(|group, context| {
            let Ok(answer) = group.heartbeat(context, heartbeat) else { return (None, Default::default()) };
            group.take_back(answer.change);
            (answer.resolve, Default::default())
        });
        self.resolving = resolution.map(|resolution| resolution.patterns).or(resolving);
    }

    fn check(&self) {
        let mut owners: BTreeMap<(Uuid, i32), &str> = BTreeMap::new();
        for (member_id, client) in &self.clients {
            for partition in &client.owned {
                if let Some(other) = owners.insert(*partition, member_id) {
                    panic!("{other} and {member_id} have {partition:?}");
                }
                let checked = self.world.group.check_commit(Some(9), member_id, None, client.epoch);
                let checked = checked.and_then(|checked| checked.partition(partition.0, partition.1));
                // Unless it has been fenced or replaced and does not know yet.
                if self.world.group.has_member(member_id) && self.world.group.current[member_id].epoch > 0 {
                    assert_eq!(checked, Ok(()), "{member_id} cannot commit {partition:?}");
                }
            }
        }
        for member_id in &self.gone {
            let refused = self.world.group.check_commit(Some(9), member_id, None, 3).err();
            assert_eq!(refused, Some(ErrorCode::UNKNOWN_MEMBER_ID), "{member_id} may commit");
        }
        let group = &self.world.group;
        let mut replayed = ConsumerGroup::default();
        self.world.log.iter().cloned().for_each(|record| _ = replayed.apply(record));
        assert_same(&replayed, group);
    }

    /// Every member gives up what it has to and sends a heartbeat, which is answered. Those that are put out come back,
    /// or are gone if they are not known any more.
    fn beat(&mut self) {
        for member_id in self.clients.keys().cloned().collect::<Vec<_>>() {
            let client = self.clients.get_mut(&member_id).unwrap();
            client.revoke();
            match self.world.answer(client.request(&member_id)) {
                Ok(answer) => {
                    self.world.check_hidden(&client.topics, &answer.response);
                    client.hear(answer.response);
                    self.resolving = answer.resolve.map(|resolution| resolution.patterns).or(self.resolving.take());
                }
                Err(refusal) if refusal.code == ErrorCode::FENCED_MEMBER_EPOCH => client.start_anew(),
                Err(_) => _ = self.clients.remove(&member_id),
            }
        }
        while self.resolving.is_some() {
            self.finish_resolving();
        }
        self.check();
    }

    /// Nothing happens any more but heartbeats, until whoever left for a while and did not come back is out.
    fn settle(&mut self) {
        for _ in 0..(SESSION_MS / 1_000 + 20) {
            self.world.pass(1_000);
            self.beat();
        }
        self.check();
        let expected_state = if self.clients.is_empty() { State::Empty } else { State::Stable };
        assert_eq!(self.world.group.state(), expected_state);
        let wanted: BTreeSet<(Uuid, i32)> = self
            .world
            .topics
            .topics
            .iter()
            .filter(|(name, _)| self.clients.iter().any(|(member_id, client)| self.wants(member_id, client, name)))
            .flat_map(|(_, topic)| (0..topic.partition_count).map(|partition| (topic.id, partition)))
            .collect();
        let owned: BTreeSet<_> = self.clients.values().flat_map(|client| client.owned.iter().copied()).collect();
        assert_eq!(owned, wanted);
    }

    /// Whether a member is to have a topic, as far as it may.
    fn wants(&self, member_id: &str, client: &Client, topic: &str) -> bool {
        let is_hidden = || self.world.hidden.get(member_id).is_some_and(|hidden| hidden.contains(topic));
        client.topics.iter().any(|wanted| wanted == topic) || client.matches(topic) && !is_hidden()
    }
}

impl Client {
    fn request(&self, member_id: &str) -> ConsumerGroupHeartbeatRequest {
        let topics: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        let request = ConsumerGroupHeartbeatRequest {
            subscribed_topic_regex: Some(self.pattern.clone()),
            ..joining(member_id, &topics)
        };
        let request = if self.epoch == 0 {
            request
        } else if self.has_told {
            let owned = self.has_news.then(|| self.topic_partitions());
            ConsumerGroupHeartbeatRequest { topic_partitions: owned, ..silent(member_id, self.epoch) }
        } else {
            let owned = Some(self.topic_partitions());
            ConsumerGroupHeartbeatRequest { member_epoch: self.epoch, topic_partitions: owned, ..request }
        };
        ConsumerGroupHeartbeatRequest { instance_id: self.instance_id.clone(), ..request }
    }

    fn topic_partitions(&self) -> Vec<TopicPartitions> {
        let mut topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
        self.owned.iter().for_each(|(topic, partition)| topics.entry(*topic).or_default().push(*partition));
        topics.into_iter().map(|(topic_id, partitions)| TopicPartitions { topic_id, partitions }).collect()
    }

    fn hear(&mut self, response: ConsumerGroupHeartbeatResponse) {
        assert!(response.member_epoch >= self.epoch, "an epoch has gone back");
        (self.epoch, self.has_told, self.has_news) = (response.member_epoch, true, false);
        if let Some(assignment) = response.assignment {
            self.take(assignment.topic_partitions);
        }
    }

    /// Drops everything, to join again.
    fn start_anew(&mut self) {
        (self.epoch, self.has_told) = (0, false);
        self.owned.clear();
        self.revoking.clear();
    }

    /// Works on what is new at once, and gives up later what is not its own any more.
    fn take(&mut self, assignment: Vec<TopicPartitions>) {
        let all = |topic: &TopicPartitions| {
            let topic_id = topic.topic_id;
            topic.partitions.clone().into_iter().map(move |partition| (topic_id, partition))
        };
        let assigned: BTreeSet<(Uuid, i32)> = assignment.iter().flat_map(all).collect();
        self.revoking = self.owned.difference(&assigned).copied().collect();
        self.owned.extend(assigned);
        self.has_news = true;
    }

    fn revoke(&mut self) {
        for partition in std::mem::take(&mut self.revoking) {
            self.owned.remove(&partition);
            self.has_news = true;
        }
    }

    fn matches(&self, topic: &str) -> bool {
        !self.pattern.is_empty() && Pattern::new(&self.pattern).unwrap().matches(topic)
    }
}

/// A log of which the part up to a record has been compacted, with or without the tombstones in it.
fn compacted(log: &[Record], upto: usize, keeps_tombstones: bool) -> Vec<Record> {
    let key = |record: &Record| match record {
        Record::Epoch(_) => (0, String::new()),
        Record::TargetEpoch(_) => (1, String::new()),
        Record::PartitionMetadata { .. } => (2, String::new()),
        Record::Member { member_id, .. } => (3, member_id.clone()),
        Record::Target { member_id, .. } => (4, member_id.clone()),
        Record::Current { member_id, .. } => (5, member_id.clone()),
        Record::Regex { pattern, .. } => (6, pattern.clone()),
    };
    let is_tombstone = |record: &Record| match record {
        Record::Epoch(epoch) => epoch.is_none(),
        Record::TargetEpoch(epoch) => epoch.is_none(),
        Record::PartitionMetadata { exists } => !exists,
        Record::Member { metadata, .. } => metadata.is_none(),
        Record::Target { partitions, .. } => partitions.is_none(),
        Record::Current { current, .. } => current.is_none(),
        Record::Regex { resolved, .. } => resolved.is_none(),
    };
    let (clean, rest) = log.split_at(upto);
    let is_last = |at: usize| !clean[at + 1..].iter().any(|later| key(later) == key(&clean[at]));
    let kept = (0..clean.len()).filter(|&at| is_last(at) && (keeps_tombstones || !is_tombstone(&clean[at])));
    kept.map(|at| clean[at].clone()).chain(rest.iter().cloned()).collect()
}

/// Whether two groups are the same as far as it is stored, and all that comes from it.
fn assert_same(one: &ConsumerGroup, other: &ConsumerGroup) {
    assert_eq!((one.epoch, one.target_epoch), (other.epoch, other.target_epoch));
    assert_eq!(one.members, other.members);
    assert_eq!(one.current, other.current);
    assert_eq!(one.targets, other.targets);
    assert_eq!(one.regexes, other.regexes);
    assert_eq!(one.static_members, other.static_members);
    assert_eq!(one.topic_subscribers, other.topic_subscribers);
    assert_eq!(one.regex_subscribers, other.regex_subscribers);
    assert_eq!(one.owners, other.owners);
    assert_eq!(one.member_bytes, other.member_bytes);
    let sizes: usize = one.member_sizes().map(|(_, bytes)| bytes).sum();
    assert_eq!(sizes, one.member_bytes);
}

#[test]
fn whatever_happens_a_partition_has_one_owner_and_the_group_comes_to_rest() {
    for seed in 0..SEEDS {
        let run = std::panic::catch_unwind(|| {
            let mut simulation = Simulation::new(seed);
            (0..STEPS).for_each(|_| simulation.step());
            simulation.settle();
        });
        assert!(run.is_ok(), "seed {seed}");
    }
}
