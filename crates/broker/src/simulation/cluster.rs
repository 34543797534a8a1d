//! The machines, the network between them, the clients, and whatever goes wrong.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use log::simdisk::{Rng, SimOp};
use log::{Disk, SimDisk};
use rustix::io::Errno;
use wire::Uuid;
use wire::api::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use wire::api::create_topics::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};

use super::broker::{DATA_DIR, Ended, Process, World, options};
use super::clients::{Around, Consumer, Producer, places, produce_once};
use super::env::{START_WALL_MS, SeededRandom, SimClock};
use super::groups::OFFSETS_PARTITIONS;
use super::ledger::{Ledger, Place, place};
use super::messages::{Ask, Said};
use super::network::Network;
use super::replica::bytes_of;
use crate::config::BrokerConfig;
use crate::env::Env;
use crate::group::OFFSETS_TOPIC;
use crate::partition::Partition;
use crate::quorum::{Node, QuorumError, Voter, VoterKey, VoterSet};

const STEP_MS: i64 = 10;
/// How often the onlooker looks at all logs.
const LOOK_MS: i64 = 50;
const VOTERS: i32 = 3;
const REPLICATION_FACTOR: i16 = 3;
/// The number of a client begins here.
const CLIENTS: i32 = 1000;
/// What is free on a disk that is called full, at most: less than any reserve.
pub(super) const FREE_BYTES_MAX: u64 = 1000;
const LAG_MAX_MS: i64 = 1500;
/// How long a disk takes its time at most when all nodes have started together.
const SLOW_START_MAX_MS: u64 = 4000;
/// How much later than the first a node starts at most.
const LATE_START_MAX_MS: u64 = 2000;
/// Of the topic that forgets.
const RETENTION_MS: i64 = 10_000;
/// How long a cluster may take to be well again.
const HEALING_MS: i64 = 30_000;

/// A topic: its name, how many partitions it has, and its settings.
type Topic = (&'static str, i32, &'static [(&'static str, &'static str)]);

const TOPICS: &[Topic] = &[
    ("strict", 2, &[("min.insync.replicas", "2")]),
    ("lenient", 2, &[("min.insync.replicas", "1")]),
    ("aging", 1, &[("min.insync.replicas", "2"), ("retention.ms", "10000")]),
    (OFFSETS_TOPIC, OFFSETS_PARTITIONS, &[("min.insync.replicas", "2"), ("cleanup.policy", "compact")]),
];

struct Machine {
    id: i32,
    clock: SimClock,
    disk: SimDisk,
    disks: u8,
    key: VoterKey,
    process: Option<Process>,
    is_stopped: bool,
    /// What waits in its sockets until it goes on.
    held: Vec<(i32, Said)>,
    slow_until_ms: i64,
    hangs_until_ms: i64,
    /// When it is started again, if it is.
    starts_at_ms: Option<i64>,
    is_full: bool,
    /// Up to where each log was on disk, and its end, when the process ended.
    left: BTreeMap<Place, (i64, i64)>,
    /// Whether its process has an operation ahead that fails.
    is_failing: bool,
}

pub(super) struct Cluster {
    seed: u64,
    lag_max_ms: i64,
    pub(super) rng: Rng,
    pub(super) now_ms: i64,
    clock: SimClock,
    machines: Vec<Machine>,
    network: Network<Said>,
    pub(super) ledger: Ledger,
    producers: Vec<Producer>,
    consumers: Vec<Consumer>,
    last_value: u64,
    starts: u64,
    /// A new disk is being filled with what was on the old one.
    is_rebuilding: bool,
    stops: bool,
    trace: DefaultHasher,
    /// What went wrong, for whoever looks at a seed.
    pub(super) said: Vec<String>,
}

impl Cluster {
    /// Three voters, and as many brokers more.
    pub(super) fn new(seed: u64, others: i32) -> Self {
        Self::with_lag_max(seed, others, LAG_MAX_MS)
    }

    /// One in which a follower may lag for so long.
    pub(super) fn with_lag_max(seed: u64, others: i32, lag_max_ms: i64) -> Self {
        let clock = SimClock::default();
        let machine = |id: i32| Machine {
            id,
            clock: clock.of_another_machine(),
            disk: SimDisk::new(seed * 1000 + id as u64),
            disks: 0,
            key: VoterKey { node_id: id, directory_id: directory(id, 0) },
            process: None,
            is_stopped: false,
            held: Vec::new(),
            slow_until_ms: 0,
            hangs_until_ms: 0,
            starts_at_ms: None,
            is_full: false,
            left: BTreeMap::new(),
            is_failing: false,
        };
        let mut cluster = Self {
            seed,
            lag_max_ms,
            rng: Rng::new(seed),
            now_ms: 0,
            machines: (0..VOTERS + others).map(machine).collect(),
            clock,
            // What producers send once must not be there twice.
            network: Network::new(|said| !matches!(said, Said::Produce(..))),
            ledger: Ledger::new(),
            producers: Vec::new(),
            consumers: Vec::new(),
            last_value: 0,
            starts: 0,
            is_rebuilding: false,
            stops: false,
            trace: DefaultHasher::new(),
            said: Vec::new(),
        };
        cluster.ledger.retention_ms.insert("aging".to_owned(), RETENTION_MS);
        let voters = VoterSet::new(cluster.machines[..VOTERS as usize].iter().map(|m| voter(m.key)).collect());
        for n in 0..cluster.machines.len() {
            if n < VOTERS as usize {
                let options = options(&cluster.env(n), cluster.machines[n].key);
                Node::bootstrap(&*options.disk, &options.dir, &*options.clock, &voters).expect("the disk works");
            }
            cluster.start(n);
        }
        for (topic, partitions, _) in TOPICS.iter().filter(|(topic, ..)| *topic != OFFSETS_TOPIC) {
            for place in places(topic, *partitions) {
                let rests_ms = 50 + cluster.rng.below(500);
                let producer_id = 7000 + cluster.producers.len() as i64;
                cluster.producers.push(Producer::new(place.clone(), producer_id, rests_ms));
                cluster.consumers.push(Consumer::new(place));
            }
        }
        cluster
    }

    fn env(&self, n: usize) -> Env {
        let machine = &self.machines[n];
        let random = SeededRandom::new(self.seed << 24 | (n as u64) << 16 | self.starts);
        Env {
            clock: Arc::new(machine.clock.clone()),
            disk: Arc::new(machine.disk.clone()),
            random: Arc::new(random),
            loggers: Arc::default(),
        }
    }

    fn note(&mut self, what: String) {
        what.hash(&mut self.trace);
        self.said.push(format!("{} {what}", self.now_ms));
    }

    pub(super) fn nodes(&self) -> usize {
        self.machines.len()
    }

    // --- Machines

    fn is_up(&self, n: usize) -> bool {
        self.machines[n].process.is_some()
    }

    pub(super) fn start(&mut self, n: usize) {
        if self.is_up(n) {
            return;
        }
        self.starts += 1;
        // A machine sets its clock before it starts anything else: what was wrong all the time nobody can tell.
        self.machines[n].clock.set_wall_shift_ms(0);
        let env = self.env(n);
        let mut config = BrokerConfig::default();
        (config.node_id, config.replica_lag_time_max_ms) = (n as i32, self.lag_max_ms);
        let committed = self.ledger.newest.offset();
        match Process::start(env, config, voter(self.machines[n].key), self.starts, committed) {
            Ok(process) => {
                self.note(format!("{n} starts"));
                self.machines[n].process = Some(process);
            }
            Err(error @ (QuorumError::Corrupt(_) | QuorumError::VoteLost(_) | QuorumError::Raft(_))) => {
                panic!("node {n}: {error}")
            }
            Err(error) => {
                self.note(format!("{n} does not start: {error}"));
                self.machines[n].disk.clear_faults();
                self.machines[n].is_failing = false;
            }
        }
    }

    /// Ends a process. With its machine's power goes all that was not on disk.
    pub(super) fn end(&mut self, n: usize, loses_power: bool) {
        let machine = &mut self.machines[n];
        if let Some(process) = machine.process.take() {
            let offsets = |partition: &Partition| {
                let view = partition.view();
                (view.synced_offset(), view.log_end_offset())
            };
            // What it has not opened is as the process before has left it.
            machine.left.extend(process.replica.table.all().iter().map(|p| (place(p), offsets(p))));
        }
        (machine.is_stopped, machine.slow_until_ms, machine.is_failing) = (false, 0, false);
        // Whoever starts it again sees to its disk.
        (machine.hangs_until_ms, machine.is_full) = (0, false);
        machine.held.clear();
        machine.disk.clear_faults();
        if loses_power {
            machine.disk.crash();
            let left = machine.left.clone();
            let longest = |place: &Place| self.logs(place).map(|log| log.view().log_end_offset()).max().unwrap_or(0);
            let losses: Vec<_> =
                left.into_iter().map(|(place, (synced, end))| (longest(&place).max(end), place, synced)).collect();
            for (end, place, synced) in losses {
                self.ledger.loses(&place, synced, end);
            }
        } else {
            machine.disk.kill();
        }
        self.note(format!("{n} ends, power loss {loses_power}"));
    }

    fn logs<'a>(&'a self, place: &'a Place) -> impl Iterator<Item = Arc<Partition>> {
        let processes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        processes.filter_map(|process| process.replica.table.find_by_name(&place.0, place.1).ok())
    }

    /// Others see that a process has ended: its host refuses connections.
    fn tell_died(&mut self, n: usize) {
        for to in (0..self.nodes() as i32).filter(|to| *to != n as i32) {
            self.network.send(&mut self.rng, self.now_ms, n as i32, to, Said::Died(n as i32));
        }
    }

    // --- What goes wrong

    /// Something goes wrong, or is set right.
    pub(super) fn mishap(&mut self) {
        self.is_rebuilding &= !self.is_well();
        if self.is_rebuilding {
            return;
        }
        let count = self.nodes();
        let n = self.rng.below(count as u64) as usize;
        match self.rng.below(100) {
            0..12 if self.is_up(n) => {
                let loses_power = self.rng.percent(50);
                self.end(n, loses_power);
                if !loses_power && self.rng.percent(60) {
                    self.tell_died(n);
                }
            }
            0..16 => self.end_all(),
            16..28 => (0..count).for_each(|n| self.start(n)),
            28..32 => self.lose_log(n),
            32..40 => self.start(n),
            40..46 => {
                let nodes: Vec<i32> = (0..count as i32).collect();
                let side = self.rng.below(1 << count);
                self.note(format!("cut {side:b}"));
                self.network.split(&nodes, side);
            }
            46..53 => {
                let to = self.rng.below(count as u64) as i32;
                self.note(format!("cut from {n} to {to}"));
                self.network.cut(n as i32, to);
            }
            53..63 => {
                self.note("the network is whole".to_owned());
                self.network.heal();
            }
            63..67 => self.network.loss_percent = [0, 2, 10][self.rng.below(3) as usize],
            67..73 if self.is_up(n) => {
                self.note(format!("{n} is stopped"));
                self.machines[n].is_stopped = true;
            }
            67..79 => self.go_on(),
            79..82 => {
                let until_ms = self.now_ms + 100 + self.rng.below(3000) as i64;
                self.machines[n].slow_until_ms = until_ms;
            }
            82 if self.rng.percent(50) => match self.machines[n].is_full {
                true => self.make_room(n),
                false => {
                    let free_bytes = self.rng.below(FREE_BYTES_MAX);
                    self.fill(n, free_bytes);
                }
            },
            82..83 => {
                let for_ms = 1000 + self.rng.below(6000) as i64;
                self.hang(n, for_ms);
            }
            83..87 if self.is_up(n) => {
                let ops = [SimOp::Write, SimOp::Sync, SimOp::SyncDir, SimOp::Rename, SimOp::Open];
                let op = ops[self.rng.below(ops.len() as u64) as usize];
                self.note(format!("{n} will fail at {op:?}"));
                self.machines[n].disk.fail(op, self.rng.below(20), Errno::IO);
                self.machines[n].is_failing = true;
            }
            83..90 => self.wipe(n),
            90..94 => self.reassign(),
            94..97 if self.machines[n].process.as_ref().is_some_and(Process::serves) => {
                let days = self.rng.below(7) as i64 - 3;
                self.note(format!("the clock of {n} is {days} days wrong"));
                self.machines[n].clock.set_wall_shift_ms(days * 86_400_000);
            }
            _ => {
                if let Some(process) = &mut self.machines[n].process {
                    process.leave();
                }
            }
        }
    }

    /// All end together, and may start together, on disks that have much to do then.
    fn end_all(&mut self) {
        let (loses_power, restarts) = (self.rng.percent(70), self.rng.percent(50));
        for n in 0..self.nodes() {
            self.end(n, loses_power);
        }
        for n in 0..if restarts { self.nodes() } else { 0 } {
            self.start(n);
            self.machines[n].slow_until_ms = self.now_ms + self.rng.below(SLOW_START_MAX_MS) as i64;
        }
    }

    /// The disk of a node does not answer for a while.
    pub(super) fn hang(&mut self, n: usize, for_ms: i64) {
        self.note(format!("the disk of {n} hangs for {for_ms} ms"));
        self.machines[n].hangs_until_ms = self.now_ms + for_ms;
    }

    /// Something else takes the space of a node's disk, but for so much.
    pub(super) fn fill(&mut self, n: usize, free_bytes: u64) {
        self.note(format!("the disk of {n} is full but for {free_bytes} bytes"));
        self.machines[n].disk.set_free_bytes(free_bytes);
        self.machines[n].is_full = true;
    }

    pub(super) fn make_room(&mut self, n: usize) {
        self.note(format!("the disk of {n} has room"));
        self.machines[n].disk.set_free_bytes(u64::MAX);
        self.machines[n].is_full = false;
    }

    fn go_on(&mut self) {
        self.note("all go on".to_owned());
        for machine in &mut self.machines {
            machine.is_stopped = false;
        }
    }

    /// Gives a node a new and empty disk. What was on it is on others, and more than one loss at a time nobody survives
    /// whose leader may acknowledge alone.
    fn wipe(&mut self, n: usize) {
        let id = n as i32;
        if !self.is_well() || !self.network.is_whole() {
            return;
        }
        self.is_rebuilding = true;
        self.end(n, true);
        self.note(format!("{n} has an empty disk"));
        let machine = &mut self.machines[n];
        machine.disks += 1;
        machine.key.directory_id = directory(id, machine.disks);
        machine.disk = SimDisk::new(self.seed * 1000 + 100 * u64::from(machine.disks) + n as u64);
        machine.left.clear();
        self.start(n);
    }

    /// Takes a log away from a node that starts before others, which have all that was in it.
    fn lose_log(&mut self, n: usize) {
        if !self.is_well() || !self.network.is_whole() {
            return;
        }
        self.is_rebuilding = true;
        let (topic, partitions, _) = TOPICS[self.rng.below(TOPICS.len() as u64) as usize];
        let lost = format!("{topic}-{}", self.rng.below(partitions as u64));
        for other in 0..self.nodes() {
            self.end(other, false);
            let wait_ms = if other == n { 0 } else { self.rng.below(LATE_START_MAX_MS) };
            self.machines[other].starts_at_ms = Some(self.now_ms + wait_ms as i64);
        }
        self.note(format!("{n} has no log of {lost}"));
        let (disk, dir) = (&self.machines[n].disk, Path::new(DATA_DIR).join(lost));
        if disk.exists(&dir).expect("the disk works") {
            disk.remove_dir_all(&dir).expect("the disk works");
            disk.sync_dir(DATA_DIR.as_ref()).expect("the disk works");
        }
    }

    /// Whether all know the same members, and all of them are disks that there are.
    fn is_quorum_settled(&self) -> bool {
        let nodes = || self.machines.iter().filter_map(|machine| machine.process.as_ref());
        let statuses: Vec<_> = nodes().map(|process| process.quorum.status()).collect();
        let Some(first) = statuses.first() else { return false };
        let is_there = |member: &Voter| self.machines.iter().any(|machine| machine.key == member.key());
        statuses.len() == self.nodes()
            && statuses.iter().all(|status| status.voters == first.voters && status.leader.is_some())
            && statuses.iter().all(|status| status.high_watermark == first.high_watermark)
            && first.voters.voters.len() == VOTERS as usize
            && first.voters.members().count() == self.nodes()
            && first.voters.members().all(is_there)
    }

    /// Moves a partition to other brokers.
    fn reassign(&mut self) {
        let mut replicas: Vec<i32> = (0..self.nodes() as i32).collect();
        while replicas.len() > REPLICATION_FACTOR as usize {
            let at = self.rng.below(replicas.len() as u64) as usize;
            replicas.remove(at);
        }
        let by = self.rng.below(3) as usize;
        replicas.rotate_left(by);
        let (topic, partitions, _) = TOPICS[self.rng.below(TOPICS.len() as u64) as usize];
        let partition = self.rng.below(partitions as u64) as i32;
        self.note(format!("{topic}-{partition} goes to {replicas:?}"));
        let partitions = vec![ReassignablePartition { partition_index: partition, replicas: Some(replicas) }];
        let topics = vec![ReassignableTopic { name: topic.to_owned(), partitions }];
        self.ask(Ask::Reassign(AlterPartitionReassignmentsRequest { topics, ..Default::default() }));
    }

    /// Has an administrator ask the controller, if there is one.
    fn ask(&mut self, ask: Ask) {
        let is_controller = |machine: &&Machine| machine.process.as_ref().is_some_and(Process::controls);
        let Some(controller) = self.machines.iter().find(is_controller).map(|machine| machine.id) else { return };
        self.network.send(&mut self.rng, self.now_ms, CLIENTS - 1, controller, Said::Ask(0, ask));
    }

    // --- Time

    pub(super) fn step(&mut self) {
        self.now_ms += STEP_MS;
        self.clock.pass(STEP_MS);
        let mut arrived: BTreeMap<i32, Vec<(i32, Said)>> = BTreeMap::new();
        for (from, to, said) in self.network.receive(self.now_ms) {
            (self.now_ms, from, to, std::mem::discriminant(&said)).hash(&mut self.trace);
            arrived.entry(to).or_default().push((from, said));
        }
        for n in 0..self.nodes() {
            if self.machines[n].starts_at_ms.take_if(|at_ms| *at_ms <= self.now_ms).is_some() {
                self.start(n);
            }
            let arrived = arrived.remove(&(n as i32)).unwrap_or_default();
            self.step_machine(n, arrived);
        }
        for change in std::mem::take(&mut self.ledger.changes) {
            self.note(change);
        }
        let mut said = Vec::new();
        let mut around = Around {
            rng: &mut self.rng,
            ledger: &mut self.ledger,
            now_ms: self.now_ms,
            nodes: self.machines.len() as i32,
            last_value: &mut self.last_value,
        };
        for (to, answers) in arrived {
            let Ok(client) = usize::try_from(to - CLIENTS) else { continue };
            for (from, answer) in answers {
                match answer {
                    Said::Produced(number, outcome) if client < self.producers.len() => {
                        self.producers[client].hear(from, number, outcome, &mut around);
                    }
                    Said::Fetched(number, response) => {
                        self.consumers[client].hear_fetched(number, response, &mut around);
                    }
                    Said::Committed(number) => self.consumers[client].hear_committed(number),
                    _ => {}
                }
            }
        }
        for (client, producer) in self.producers.iter_mut().enumerate() {
            let sent = producer.step(&mut around, self.stops);
            said.extend(sent.map(|(to, sent)| (CLIENTS + client as i32, to, sent)));
        }
        for (client, consumer) in self.consumers.iter_mut().enumerate() {
            let mut sent = Vec::new();
            consumer.step(&mut around, self.stops, &mut sent);
            if !self.stops && around.rng.percent(2) {
                sent.extend(produce_once(consumer.place(), &mut around));
            }
            said.extend(sent.into_iter().map(|(to, sent)| (CLIENTS + client as i32, to, sent)));
        }
        for (from, to, sent) in said {
            self.network.send(&mut self.rng, self.now_ms, from, to, sent);
        }
        if self.now_ms % LOOK_MS == 0 {
            for process in self.machines.iter().filter_map(|machine| machine.process.as_ref()) {
                process.show(&mut self.ledger, START_WALL_MS + self.now_ms);
            }
            self.check_watermarks();
        }
    }

    /// The newest leader promises nothing that an in-sync replica does not have.
    fn check_watermarks(&self) {
        let image = &self.ledger.newest;
        // What a process had that has ended since, the next one of that node may not have; nobody knows of it yet.
        let log = |id: i32, place: &Place| {
            let process = self.machines[id as usize].process.as_ref()?;
            let is_known = image.broker(id).is_some_and(|broker| broker.incarnation_id == process.incarnation_id);
            process.replica.table.find_by_name(&place.0, place.1).ok().filter(|_| is_known)
        };
        for leader in self.led() {
            let place = place(&leader);
            let Some(state) = self.ledger.partition(&place) else { continue };
            if leader.leader_epoch() != state.leader_epoch {
                continue;
            }
            let (high_watermark, durable_offset) = (leader.high_watermark(), leader.durable_offset());
            for (id, log) in state.isr.iter().filter_map(|id| Some((id, log(*id, &place)?))) {
                let (end, synced) = (log.view().log_end_offset(), log.view().synced_offset());
                assert!(high_watermark <= end, "{place:?}: {id} ends at {end}, the high watermark is {high_watermark}");
                assert!(durable_offset <= synced, "{place:?}: {id} has synced {synced} of {durable_offset}");
            }
        }
    }

    fn step_machine(&mut self, n: usize, arrived: Vec<(i32, Said)>) {
        let machine = &mut self.machines[n];
        let Some(process) = &mut machine.process else { return };
        if machine.is_stopped {
            machine.held.extend(arrived);
            return;
        }
        let mut all = std::mem::take(&mut machine.held);
        all.extend(arrived);
        let is_slow = machine.slow_until_ms > self.now_ms;
        let hangs = machine.hangs_until_ms > self.now_ms;
        let mut world = World { rng: &mut self.rng, ledger: &mut self.ledger, is_slow, hangs };
        match process.step(all, &mut world) {
            Ok(said) => {
                for (to, said) in said {
                    let is_raft = matches!(said, Said::Raft(..));
                    let is_lost = !self.network.send(&mut self.rng, self.now_ms, n as i32, to, said);
                    if is_raft && is_lost && self.rng.percent(50) {
                        // It fails as the other calls of the node do.
                        _ = process.quorum.report_unreachable(to);
                    }
                }
            }
            Err(Ended::Left) => {
                self.note(format!("{n} leaves"));
                self.end(n, false);
            }
            Err(Ended::DiskFailed) => {
                self.note(format!("the disk of {n} failed"));
                let loses_power = self.rng.percent(50);
                self.end(n, loses_power);
            }
        }
    }

    /// Makes the topics, as soon as there are brokers enough for them.
    pub(super) fn create_topics(&mut self) {
        let began_ms = self.now_ms;
        while self.ledger.newest.topics().count() < TOPICS.len() {
            assert!(self.now_ms < began_ms + HEALING_MS, "no topics: {}", self.describe());
            let brokers = self.ledger.newest.brokers().filter(|broker| broker.is_active()).count();
            if brokers == self.nodes() && self.now_ms % 1000 == 0 {
                let setting = |(name, value): &(&str, &str)| CreatableTopicConfig {
                    name: (*name).to_owned(),
                    value: Some((*value).to_owned()),
                };
                let topic = |(name, partitions, settings): &Topic| CreatableTopic {
                    name: (*name).to_owned(),
                    num_partitions: *partitions,
                    replication_factor: REPLICATION_FACTOR,
                    configs: settings.iter().map(setting).collect(),
                    ..CreatableTopic::default()
                };
                let topics = TOPICS.iter().map(topic).collect();
                self.ask(Ask::CreateTopics(CreateTopicsRequest { topics, ..CreateTopicsRequest::default() }));
            }
            self.step();
        }
    }

    // --- Progress

    /// The node that controls the cluster.
    pub(super) fn controller(&self) -> Option<usize> {
        self.machines.iter().position(|machine| machine.process.as_ref().is_some_and(Process::controls))
    }

    pub(super) fn run(&mut self, for_ms: i64) {
        let until_ms = self.now_ms + for_ms;
        while self.now_ms < until_ms {
            self.step();
        }
    }

    /// Until something that is sent from now on is acknowledged in every partition. Returns after how many
    /// milliseconds.
    pub(super) fn run_until_all_progress(&mut self) -> i64 {
        let began_ms = self.now_ms;
        let before: Vec<_> = self.producers.iter().map(Producer::acknowledged).collect();
        // What is on its way already says nothing.
        let has_moved = |(producer, before): (&Producer, &u64)| producer.acknowledged() > before + 1;
        while !self.producers.iter().zip(&before).all(has_moved) {
            self.step();
            assert!(self.now_ms < began_ms + HEALING_MS, "no progress: {}", self.describe());
        }
        self.now_ms - began_ms
    }

    // --- The end

    /// Sets everything right, and waits until the cluster is well again.
    pub(super) fn heal(&mut self) {
        self.network.heal();
        self.network.loss_percent = 0;
        self.go_on();
        for n in 0..self.nodes() {
            (self.machines[n].slow_until_ms, self.machines[n].hangs_until_ms) = (0, 0);
            if self.machines[n].is_full {
                self.make_room(n);
            }
            // What failed for good is whole again after a restart.
            if self.machines[n].is_failing || self.rng.percent(20) {
                let loses_power = self.rng.percent(50);
                self.end(n, loses_power);
            }
            self.start(n);
        }
        self.note("all is set right".to_owned());
        let healed_ms = self.now_ms;
        let acknowledged = self.ledger.acknowledged;
        while !self.is_well() || self.ledger.acknowledged < acknowledged + 5 * self.producers.len() {
            // One may have had leave to stop.
            (0..self.nodes()).for_each(|n| self.start(n));
            self.step();
            assert!(self.now_ms < healed_ms + HEALING_MS, "the cluster is not well again: {}", self.describe());
        }
        self.stops = true;
        let stopped_ms = self.now_ms;
        while !self.producers.iter().all(Producer::is_done) || !self.is_quiet() {
            self.step();
            assert!(self.now_ms < stopped_ms + HEALING_MS, "the cluster does not come to rest: {}", self.describe());
        }
        self.check();
    }

    /// Whether every partition has a leader, and all its replicas are in sync.
    fn is_well(&self) -> bool {
        let is_healthy = |machine: &Machine| {
            machine.process.as_ref().is_some_and(Process::serves)
                && !machine.is_stopped
                && !machine.is_failing
                && machine.slow_until_ms < self.now_ms
                && machine.hangs_until_ms < self.now_ms
                && !machine.is_full
        };
        let partitions = || self.ledger.newest.topics().flat_map(|topic| &topic.partitions);
        self.machines.iter().all(is_healthy)
            && self.is_quorum_settled()
            && partitions().all(|partition| {
                let leads = self.machines.iter().any(|machine| machine.id == partition.leader);
                leads && partition.isr.len() == partition.replicas.len() && partition.adding_replicas.is_empty()
            })
    }

    /// Whether every partition has its leader, and all replicas have everything.
    fn is_quiet(&self) -> bool {
        let led = self.led();
        self.is_well()
            && led.len() == partition_count()
            && led.iter().all(|leader| {
                let end = leader.view().log_end_offset();
                self.logs(&place(leader)).all(|log| (log.view().log_end_offset(), log.high_watermark()) == (end, end))
            })
    }

    /// The partitions, as their leaders have them.
    fn led(&self) -> Vec<Arc<Partition>> {
        let processes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        processes.flat_map(|process| process.replica.table.all()).filter(|partition| partition.is_leader()).collect()
    }

    fn check(&mut self) {
        let led = self.led();
        assert_eq!(led.len(), partition_count(), "every partition has one leader");
        for leader in led {
            let place = place(&leader);
            let node = self.ledger.partition(&place).map_or(-1, |partition| partition.leader);
            self.ledger.checks(node, &leader);
            if &*place.0 != OFFSETS_TOPIC {
                self.ledger.check_once(&leader);
            }
            let logs: Vec<_> = self.logs(&place).collect();
            assert_eq!(logs.len(), REPLICATION_FACTOR as usize, "{place:?}");
            let start = logs.iter().map(|log| log.log_start_offset()).max().unwrap_or(0);
            if logs.iter().all(|log| log.log_start_offset() == start) {
                let bytes = bytes_of(&leader);
                assert!(logs.iter().all(|log| bytes_of(log) == bytes), "{place:?}: the replicas differ");
            }
        }
    }

    pub(super) fn describe(&self) -> String {
        let mut lines = self.said.clone();
        for topic in self.ledger.newest.topics() {
            for (index, partition) in topic.partitions.iter().enumerate() {
                let (leader, isr, replicas) = (partition.leader, &partition.isr, &partition.replicas);
                let elr = &partition.eligible_leader_replicas;
                lines.push(format!("{}-{index}: {leader} leads {isr:?} of {replicas:?}, eligible {elr:?}", topic.name));
                for machine in &self.machines {
                    let Some(process) = &machine.process else { continue };
                    let Ok(log) = process.replica.table.find_by_name(&topic.name, index as i32) else { continue };
                    let (start, synced) = (log.log_start_offset(), log.view().synced_offset());
                    lines.push(format!(
                        "  {}: {start} to {}, synced {synced}, high watermark {}, epoch {}, leads {}, offline {}",
                        machine.id,
                        log.view().log_end_offset(),
                        log.high_watermark(),
                        log.leader_epoch(),
                        log.is_leader(),
                        log.is_offline(),
                    ));
                }
            }
        }
        for machine in &self.machines {
            let status = machine.process.as_ref().map(|process| process.quorum.status());
            lines.push(format!("{}: {status:?}", machine.id));
        }
        for broker in self.ledger.newest.brokers() {
            lines.push(format!("broker {} epoch {} active {}", broker.id, broker.epoch, broker.is_active()));
        }
        lines.join("\n")
    }

    pub(super) fn trace(&self) -> u64 {
        let mut trace = self.trace.clone();
        for machine in &self.machines {
            machine.disk.trace().hash(&mut trace);
        }
        (self.ledger.acknowledged, self.ledger.committed, self.ledger.leaderships).hash(&mut trace);
        trace.finish()
    }
}

fn partition_count() -> usize {
    TOPICS.iter().map(|(_, partitions, _)| *partitions as usize).sum()
}

fn directory(id: i32, disk: u8) -> Uuid {
    let mut bytes = [7; 16];
    (bytes[0], bytes[1]) = (disk, id as u8);
    Uuid(bytes)
}

fn voter(key: VoterKey) -> Voter {
    let VoterKey { node_id, directory_id } = key;
    Voter { node_id, directory_id, host: format!("node-{node_id}"), port: 9093 }
}
