//! The machines, the network between them and the clients, as time passes.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use coordinator::group::OFFSETS_TOPIC;
use coordinator::txn::TRANSACTION_STATE_TOPIC;
use parking_lot::Mutex;
use quorum::{QuorumError, QuorumStatus, Voter};
use storage::SimDisk;
use storage::simdisk::Rng;
use wire::api::create_topics::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};

use super::VOTERS;
use super::clients::{World, consume, produce, produce_once};
use super::faults::Faults;
use super::group_ledger::GroupLedger;
use super::key_ledger::KeyLedger;
use super::ledger::{Ledger, TopicPartition, topic_partition};
use super::machine::{self, Machine, Process, Witnessed, take_panic};
use super::node::{Ended, Node, Running};
use super::sockets::Sockets;
use super::time::set_now_ms;
use super::topics::{COMPACTING_TOPICS, COPYING_TOPICS, TOPICS, Topic, is_open};
use super::transaction_ledger::TransactionLedger;
use crate::partition::Partition;
use crate::{Broker, StartError};

const STEP_MS: i64 = 5;
/// How often all logs are checked.
const LOOK_MS: i64 = 50;
pub(super) const REPLICATION_FACTOR: i16 = 3;
/// The machine of all clients.
const CLIENTS: i32 = 100;
const LAG_MAX_MS: i64 = 1500;
/// How long each piece of work takes at most with a slow disk.
const SLOW_MAX_MS: u64 = 300;
/// Of the topic that forgets.
const RETENTION_MS: i64 = 10_000;
/// How long a cluster may take to be well again.
const HEALING_MS: i64 = 60_000;

pub(super) struct Cluster {
    pub(super) seed: u64,
    pub(super) lag_max_ms: i64,
    pub(super) faults: Faults,
    pub(super) rng: Rng,
    pub(super) now_ms: i64,
    pub(super) nodes: Vec<Node>,
    pub(super) sockets: Sockets,
    pub(super) ledger: Ledger,
    pub(super) topics: &'static [Topic],
    pub(super) transactions: TransactionLedger,
    pub(super) groups: GroupLedger,
    pub(super) keys: KeyLedger,
    pub(super) clients: Process,
    pub(super) world: Arc<Mutex<World>>,
    starts: u64,
    /// A new disk is being filled with what was on the old one.
    pub(super) is_rebuilding: bool,
    pub(super) trace: DefaultHasher,
    /// What went wrong, for the report of a seed.
    said: Vec<String>,
}

impl Cluster {
    /// Three voters, and as many brokers more.
    pub(super) fn new(seed: u64, others: i32) -> Self {
        Self::with_topics(seed, others, LAG_MAX_MS, TOPICS)
    }

    /// One in which a follower may lag for so long.
    pub(super) fn with_lag_max(seed: u64, others: i32, lag_max_ms: i64) -> Self {
        Self::with_topics(seed, others, lag_max_ms, TOPICS)
    }

    /// One in which there are transactions, and either consumers that copy or a compacted topic.
    pub(super) fn with_transactions(seed: u64, others: i32) -> Self {
        let copies = (seed / 2).is_multiple_of(2);
        Self::with_topics(seed, others, LAG_MAX_MS, if copies { COPYING_TOPICS } else { COMPACTING_TOPICS })
    }

    fn with_topics(seed: u64, others: i32, lag_max_ms: i64, topics: &'static [Topic]) -> Self {
        machine::record_panics();
        _ = take_panic();
        set_now_ms(0);
        let mut rng = Rng::new(seed);
        let faults = Faults::choose(&mut rng);
        let sockets = Sockets::new(seed);
        let count = VOTERS + others;
        let world = Arc::new(Mutex::new(World::new(Rng::new(seed ^ 0xc11e), count)));
        let clients = Process::start(Machine::new(CLIENTS, SimDisk::new(seed), sockets.clone(), seed));
        let mut cluster = Self {
            seed,
            lag_max_ms,
            faults,
            rng,
            now_ms: 0,
            nodes: (0..count).map(|id| Node::new(id, SimDisk::new(seed * 1000 + id as u64))).collect(),
            sockets,
            ledger: Ledger::new(),
            topics,
            transactions: TransactionLedger::new(seed),
            groups: GroupLedger::default(),
            keys: KeyLedger::default(),
            clients,
            world,
            starts: 0,
            is_rebuilding: false,
            trace: DefaultHasher::new(),
            said: Vec::new(),
        };
        cluster.ledger.retention_ms.insert("aging".to_owned(), RETENTION_MS);
        for n in 0..cluster.nodes.len() {
            cluster.start(n);
        }
        cluster
    }

    pub(super) fn has_transactions(&self) -> bool {
        self.topics.iter().any(|(topic, ..)| *topic == TRANSACTION_STATE_TOPIC)
    }

    /// Partitions of all topics.
    pub(super) fn partition_count(&self) -> usize {
        self.topics.iter().map(|(_, partitions, _)| *partitions as usize).sum()
    }

    fn start_clients(&mut self) {
        if self.has_transactions() {
            self.start_transactional_clients();
        }
        if self.has_copiers() {
            self.start_copiers();
        }
        if self.has_keys() {
            self.start_keepers();
        }
        for (topic, partitions, _) in self.topics.iter().filter(|(topic, ..)| is_open(topic)) {
            for index in 0..*partitions {
                let topic_partition: TopicPartition = ((*topic).into(), index);
                let rests_ms = 50 + self.rng.below(500);
                let number = {
                    let mut world = self.world.lock();
                    world.acknowledged.push(0);
                    world.is_done.push(false);
                    world.is_done.len() - 1
                };
                let world = || Arc::clone(&self.world);
                self.clients.enter(|| {
                    tokio::spawn(produce(world(), topic_partition.clone(), number, rests_ms));
                    // What it sends may be lost, and something else may come instead.
                    if !self.has_transactions() {
                        tokio::spawn(produce_once(world(), topic_partition.clone()));
                    }
                    tokio::spawn(consume(world(), topic_partition));
                });
            }
        }
    }

    pub(super) fn log_event(&mut self, what: String) {
        what.hash(&mut self.trace);
        self.said.push(format!("{} {what}", self.now_ms));
    }

    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn brokers(&self) -> impl Iterator<Item = (&Node, Arc<Broker>)> {
        self.nodes.iter().filter_map(|node| Some((node, node.broker()?)))
    }

    // --- Machines

    pub(super) fn is_up(&self, n: usize) -> bool {
        self.nodes[n].running.is_some()
    }

    /// Whether a node goes on as if others did not lead what it leads.
    pub(super) fn has_session(&self, n: usize) -> bool {
        let running = self.nodes[n].running.as_ref();
        running.is_some_and(|running| {
            let is_over = |broker: Arc<Broker>| running.process.enter(|| broker.session.is_over());
            running.broker().is_some_and(|broker| !is_over(broker))
        })
    }

    pub(super) fn start(&mut self, n: usize) {
        if self.is_up(n) {
            return;
        }
        self.starts += 1;
        self.log_event(format!("{n} starts"));
        let committed = Arc::clone(&self.ledger.newest);
        self.nodes[n].start(&self.sockets, self.seed, self.starts, self.lag_max_ms, committed);
    }

    /// Ends a process. With its machine's power goes all that was not on disk.
    pub(super) fn end(&mut self, n: usize, loses_power: bool) {
        let node = &mut self.nodes[n];
        if loses_power {
            self.sockets.lose_power(node.id);
        }
        if let Some(running) = node.running.take() {
            let offsets = |partition: &Partition| {
                let view = partition.view();
                (view.synced_offset(), view.log_end_offset())
            };
            // What it has not opened is as the process before has left it.
            if let Some(broker) = running.broker() {
                node.left.extend(broker.partitions.all().iter().map(|p| (topic_partition(p), offsets(p))));
            }
            // Nothing that ends with it does anything to the disk.
            node.disk.kill();
            running.process.kill();
        }
        (node.is_stopped, node.slow_until_ms, node.is_failing) = (false, 0, false);
        // Starting it again sees to its disk.
        (node.hangs_until_ms, node.is_full) = (0, false);
        node.disk.clear_faults();
        if loses_power {
            node.disk.crash();
            let left = node.left.clone();
            let longest = |topic_partition: &TopicPartition| {
                self.logs(topic_partition).map(|log| log.view().log_end_offset()).max().unwrap_or(0)
            };
            let losses: Vec<_> = left
                .into_iter()
                .map(|(topic_partition, (synced, end))| (longest(&topic_partition).max(end), topic_partition, synced))
                .collect();
            for (end, topic_partition, synced) in losses {
                self.ledger.loses(&topic_partition, synced, end);
            }
        }
        self.log_event(format!("{n} ends, power loss {loses_power}"));
    }

    pub(super) fn logs<'a>(&'a self, topic_partition: &'a TopicPartition) -> impl Iterator<Item = Arc<Partition>> {
        self.brokers()
            .filter_map(|(_, broker)| broker.partitions.find_by_name(&topic_partition.0, topic_partition.1).ok())
    }

    /// Asks the coordinator whose partition of a topic is led somewhere, in its process.
    pub(super) fn coordinate<T>(&self, topic: &str, ask: impl FnOnce(&Broker) -> T) -> Option<T> {
        let leads = |broker: &Broker| broker.partitions.find_by_name(topic, 0).is_ok_and(|log| log.is_leader());
        let (node, broker) = self.brokers().find(|(_, broker)| leads(broker))?;
        Some(node.running.as_ref()?.process.enter(|| ask(&broker)))
    }

    // --- Time

    pub(super) fn step(&mut self) {
        set_now_ms(self.now_ms);
        self.sockets.deliver(self.now_ms);
        let until_ms = self.now_ms + STEP_MS;
        for n in 0..self.count() {
            if self.nodes[n].starts_at_ms.take_if(|at_ms| *at_ms <= self.now_ms).is_some() {
                self.start(n);
            }
            self.run_node(n, until_ms);
        }
        {
            let mut world = self.world.lock();
            world.newest = Arc::clone(&self.ledger.newest);
            world.coordinator_epochs = self
                .brokers()
                .filter_map(|(node, broker)| {
                    let partition = broker.partitions.find_by_name(OFFSETS_TOPIC, 0).ok()?;
                    partition.is_leader().then(|| (node.id, partition.leader_epoch()))
                })
                .collect();
        }
        self.clients.run_until(until_ms);
        self.now_ms = until_ms;
        set_now_ms(until_ms);
        if let Some(panic) = take_panic() {
            panic!("{panic}");
        }
        let client_events = std::mem::take(&mut self.world.lock().client_events);
        for client_events in client_events {
            self.observe(client_events);
        }
        for change in std::mem::take(&mut self.ledger.changes) {
            self.log_event(change);
        }
        if self.now_ms % LOOK_MS == 0 {
            self.show();
            self.check_watermarks();
        }
    }

    fn run_node(&mut self, n: usize, until_ms: i64) {
        let now_ms = self.now_ms;
        let node = &mut self.nodes[n];
        let Some(running) = &node.running else { return };
        if node.is_stopped {
            return;
        }
        running.machine.set_slow(if node.slow_until_ms > now_ms { SLOW_MAX_MS } else { 0 });
        running.machine.set_hangs(node.hangs_until_ms > now_ms);
        running.process.skip_until(now_ms);
        running.process.run_until(until_ms);
        if let Some(panic) = take_panic() {
            panic!("node {n}: {panic}");
        }
        for witnessed in running.machine.take_witnessed() {
            match witnessed {
                Witnessed::Committed(image) => self.ledger.committed(&image),
                Witnessed::Opens(image) => {
                    let before = &running.committed_before;
                    let (known, there_was) = (image.offset(), before.offset());
                    // A snapshot may end with a change of the members, behind the last record.
                    let has_all = known >= there_was || image.to_records() == before.to_records();
                    assert!(has_all, "{n} takes {known} for all there is of {there_was}");
                }
                Witnessed::Decides { epoch, offset } => self.ledger.decides(n as i32, epoch, offset),
                Witnessed::Answers { epoch, offset } => self.ledger.answers(epoch, offset),
            }
        }
        // A leader from now on must have everything from now on.
        if let Some(broker) = running.broker() {
            for partition in broker.partitions.all().iter().filter(|partition| partition.is_leader()) {
                self.ledger.leads(n as i32, partition);
            }
        }
        match running.ended() {
            None => {}
            Some(Ended::Left) => {
                self.log_event(format!("{n} leaves"));
                // All that it had is on its disk.
                if !self.nodes[n].is_failing {
                    self.nodes[n].left.clear();
                }
                self.end(n, false);
            }
            Some(Ended::DiskFailed) => {
                self.log_event(format!("the disk of {n} failed"));
                let loses_power = self.rng.percent(50);
                self.end(n, loses_power);
            }
            Some(Ended::Refused(error)) => self.refused(n, &error),
        }
    }

    pub(super) fn refused(&mut self, n: usize, error: &StartError) {
        self.log_event(format!("{n} does not start: {error}"));
        self.end(n, false);
        let is_of_damage = match error {
            StartError::Quorum(error) => {
                matches!(error, QuorumError::Corrupt(_) | QuorumError::VoteLost(_) | QuorumError::Raft(_))
            }
            StartError::Properties(_)
            | StartError::PropertiesMissing { .. }
            | StartError::MetadataMissing { .. }
            | StartError::Log(_)
            | StartError::DataDir { .. } => self.nodes[n].flipped.is_some(),
            _ => false,
        };
        if !is_of_damage {
            return;
        }
        assert!(self.nodes[n].flipped.is_some(), "node {n}: {error}");
        if self.is_healthy_without(n) {
            self.replace_disk(n);
            self.start(n);
        }
    }

    /// Whether others lead everything.
    fn is_healthy_without(&self, n: usize) -> bool {
        let mut partitions = self.ledger.newest.topics().flat_map(|topic| &topic.partitions);
        let leads = |node: &Node, leader: i32| node.id == leader && node.id != n as i32 && node.serves();
        self.sockets.is_whole() && partitions.all(|p| self.nodes.iter().any(|node| leads(node, p.leader)))
    }

    /// Makes the topics, as soon as there are brokers enough for them, and begins to use them.
    pub(super) fn create_topics(&mut self) {
        let began_ms = self.now_ms;
        while self.ledger.newest.topics().count() < self.topics.len() {
            assert!(self.now_ms < began_ms + HEALING_MS, "no topics: {}", self.describe());
            let brokers = self.ledger.newest.brokers().filter(|broker| broker.is_active()).count();
            if brokers == self.count() && self.now_ms % 1000 == 0 {
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
                let topics = self.topics.iter().map(topic).collect();
                self.ask(CreateTopicsRequest { topics, ..CreateTopicsRequest::default() });
            }
            self.step();
        }
        self.start_clients();
    }

    // --- Progress

    fn statuses(&self) -> Vec<QuorumStatus> {
        self.brokers().map(|(_, broker)| broker.quorum.status()).collect()
    }

    /// The node that controls the cluster.
    pub(super) fn controller(&self) -> Option<usize> {
        let controls = |node: &Node| node.broker().is_some_and(|broker| broker.quorum.leader_epoch().is_some());
        self.nodes.iter().position(controls)
    }

    pub(super) fn run(&mut self, for_ms: i64) {
        let until_ms = self.now_ms + for_ms;
        while self.now_ms < until_ms {
            self.step();
        }
    }

    fn acknowledged(&self) -> Vec<u64> {
        self.world.lock().acknowledged.clone()
    }

    /// Until something that is sent from now on is acknowledged in every partition. Returns after how many
    /// milliseconds.
    pub(super) fn run_until_all_progress(&mut self) -> i64 {
        let began_ms = self.now_ms;
        let before = self.acknowledged();
        // What is on its way already says nothing.
        while !self.acknowledged().iter().zip(&before).all(|(now, before)| *now > before + 1) {
            self.step();
            assert!(self.now_ms < began_ms + HEALING_MS, "no progress: {}", self.describe());
        }
        self.now_ms - began_ms
    }

    // --- The end

    /// Sets everything right, and waits until the cluster is well again.
    pub(super) fn heal(&mut self) {
        self.sockets.heal();
        self.sockets.set_late_percent(0);
        self.go_on();
        for n in 0..self.count() {
            (self.nodes[n].slow_until_ms, self.nodes[n].hangs_until_ms) = (0, 0);
            // Leaders whose clock is behind refuse what is right.
            self.nodes[n].clock.set_wall_shift_ms(0);
            if self.nodes[n].is_full {
                self.free_disk(n);
            }
            // What failed for good is whole again after a restart.
            if self.nodes[n].is_failing || self.rng.percent(20) {
                let loses_power = self.rng.percent(50);
                self.end(n, loses_power);
            }
            self.start(n);
        }
        self.log_event("all is set right".to_owned());
        let healed_ms = self.now_ms;
        let before: u64 = self.acknowledged().iter().sum();
        self.world.lock().is_calm = true;
        while !self.is_healthy()
            || self.acknowledged().iter().sum::<u64>() < before + 25
            || self.has_copiers() && !self.has_converged()
        {
            // One may have had leave to stop.
            (0..self.count()).for_each(|n| self.start(n));
            self.step();
            assert!(self.now_ms < healed_ms + HEALING_MS, "the cluster is not well again: {}", self.describe());
        }
        self.world.lock().stops = true;
        let stopped_ms = self.now_ms;
        while !self.world.lock().is_over() || !self.is_quiet() {
            (0..self.count()).for_each(|n| self.start(n));
            self.step();
            if self.has_copiers() && self.now_ms % LOOK_MS == 0 {
                self.may_end_copiers();
            }
            assert!(self.now_ms < stopped_ms + HEALING_MS, "the cluster does not come to rest: {}", self.describe());
        }
        self.check();
    }

    /// Whether every partition has a leader, and all its replicas are in sync.
    pub(super) fn is_healthy(&self) -> bool {
        let is_healthy = |node: &Node| {
            node.serves()
                && !node.is_stopped
                && !node.is_failing
                && node.slow_until_ms < self.now_ms
                && node.hangs_until_ms < self.now_ms
                && !node.is_full
        };
        let partitions = || self.ledger.newest.topics().flat_map(|topic| &topic.partitions);
        self.nodes.iter().all(is_healthy)
            && self.is_quorum_settled()
            && partitions().all(|partition| {
                let leads = self.nodes.iter().any(|node| node.id == partition.leader);
                leads && partition.isr.len() == partition.replicas.len() && partition.adding_replicas.is_empty()
            })
    }

    /// Whether all know the same members, and all of them are disks that there are.
    fn is_quorum_settled(&self) -> bool {
        let statuses = self.statuses();
        let Some(first) = statuses.first() else { return false };
        let is_there = |member: &Voter| {
            self.brokers().any(|(node, broker)| (node.id, broker.directory_id) == (member.node_id, member.directory_id))
        };
        statuses.len() == self.count()
            && statuses.iter().all(|status| status.voters == first.voters && status.leader.is_some())
            && statuses.iter().all(|status| status.high_watermark == first.high_watermark)
            && first.voters.voters.len() == VOTERS as usize
            && first.voters.members().count() == self.count()
            && first.voters.members().all(is_there)
    }

    /// Whether every partition has its leader, and all replicas have everything.
    fn is_quiet(&self) -> bool {
        let led = self.led();
        // While leaders change, one may have two and another none.
        let partitions: BTreeSet<_> = led.iter().map(|leader| topic_partition(leader)).collect();
        self.is_healthy()
            && [led.len(), partitions.len()] == [self.partition_count(); 2]
            && (!self.has_transactions() || self.is_settled(&led))
            && led.iter().all(|leader| {
                let end = leader.view().log_end_offset();
                self.logs(&topic_partition(leader))
                    .all(|log| (log.view().log_end_offset(), log.high_watermark()) == (end, end))
            })
    }

    /// The partitions, as their leaders have them.
    pub(super) fn led(&self) -> Vec<Arc<Partition>> {
        self.brokers()
            .flat_map(|(_, broker)| broker.partitions.all())
            .filter(|partition| partition.is_leader())
            .collect()
    }

    pub(super) fn describe(&self) -> String {
        let mut lines = self.said.clone();
        for topic in self.ledger.newest.topics() {
            for (index, partition) in topic.partitions.iter().enumerate() {
                let (leader, isr, replicas) = (partition.leader, &partition.isr, &partition.replicas);
                let elr = &partition.eligible_leader_replicas;
                lines.push(format!("{}-{index}: {leader} leads {isr:?} of {replicas:?}, eligible {elr:?}", topic.name));
                for (node, broker) in self.brokers() {
                    let Ok(log) = broker.partitions.find_by_name(&topic.name, index as i32) else { continue };
                    let (start, synced) = (log.log_start_offset(), log.view().synced_offset());
                    lines.push(format!(
                        "  {}: {start} to {}, synced {synced}, high watermark {}, stable {}, epoch {}, leads {}, \
                         offline {}",
                        node.id,
                        log.view().log_end_offset(),
                        log.high_watermark(),
                        log.last_stable_offset(),
                        log.leader_epoch(),
                        log.is_leader(),
                        log.is_offline(),
                    ));
                }
            }
        }
        for node in &self.nodes {
            let status = node.broker().map(|broker| broker.quorum.status());
            let (is_up, serves) = (node.running.is_some(), node.serves());
            lines.push(format!("{}: up {is_up}, serves {serves}, {status:?}", node.id));
        }
        for broker in self.ledger.newest.brokers() {
            lines.push(format!("broker {} epoch {} active {}", broker.id, broker.epoch, broker.is_active()));
        }
        lines.push(format!("acknowledged {:?}", self.acknowledged()));
        lines.join("\n")
    }

    pub(super) fn trace(&self) -> u64 {
        let mut trace = self.trace.clone();
        for node in &self.nodes {
            node.disk.trace().hash(&mut trace);
        }
        (self.ledger.acknowledged, self.ledger.committed, self.ledger.leaderships).hash(&mut trace);
        (self.transactions.copies.count(), self.groups.epochs, self.groups.commits).hash(&mut trace);
        (self.keys.written, self.keys.passes).hash(&mut trace);
        (self.transactions.committed, self.transactions.aborted, self.transactions.read).hash(&mut trace);
        trace.finish()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for running in self.nodes.iter_mut().filter_map(|node| node.running.take()) {
            let Running { process, .. } = running;
            process.kill();
        }
    }
}
