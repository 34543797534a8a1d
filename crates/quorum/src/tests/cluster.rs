//! Several nodes in simulated time: each with a disk that can lose power, and a network between them that delays,
//! loses, repeats and reorders. What must always hold is checked with each step.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use platform::simulation::{Network, SimClock};
use raft::eraftpb::MessageType;
use raft::{INVALID_ID, StateRole};

use super::*;

const STEP_MS: i64 = 10;
const TICK_MS: i64 = 100;
const JOIN_MS: i64 = 300;

/// All that has ever been applied anywhere, in its one order.
#[derive(Default)]
pub(super) struct History {
    entries: BTreeMap<i64, (i32, Vec<Bytes>)>,
    pub(super) values: Vec<Bytes>,
    /// How many values there are up to an entry.
    counts: BTreeMap<i64, usize>,
}

/// A state machine that holds what is applied to it against the history.
struct Witness {
    history: Arc<Mutex<History>>,
    count: usize,
    at: i64,
}

impl StateMachine for Witness {
    fn apply(&mut self, values: &[Bytes], at: Position, _timestamp_ms: i64) -> Result<(), StateMachineError> {
        let mut history = self.history.lock();
        let skipped = history.entries.range(self.at + 1..at.offset).next();
        assert!(skipped.is_none() && at.offset > self.at, "{at:?} was applied after {}, past {skipped:?}", self.at);
        let known = history.entries.get(&at.offset).cloned();
        match known {
            Some(known) => assert_eq!(known, (at.epoch, values.to_vec()), "another entry at {at:?}"),
            None => {
                let last = history.entries.keys().next_back().copied();
                assert!(last.is_none_or(|last| last < at.offset), "{at:?} was applied late: {last:?} is there");
                history.entries.insert(at.offset, (at.epoch, values.to_vec()));
                history.values.extend_from_slice(values);
                let count = history.values.len();
                history.counts.insert(at.offset, count);
            }
        }
        self.count += values.len();
        assert_eq!(history.counts.get(&at.offset), Some(&self.count));
        self.at = at.offset;
        Ok(())
    }

    fn restore(&mut self, values: &[Bytes], at: Position) -> Result<(), StateMachineError> {
        let history = self.history.lock();
        let count = history.counts.range(..=at.offset).next_back().map_or(0, |(_, count)| *count);
        assert!(history.values[..count] == *values, "a snapshot at {at:?} is not what was applied");
        (self.count, self.at) = (count, at.offset);
        Ok(())
    }

    fn snapshot(&self) -> Vec<Bytes> {
        self.history.lock().values[..self.count].to_vec()
    }

    fn check(&self, _values: &[Bytes]) -> Result<(), StateMachineError> {
        Ok(())
    }
}

type Outbox = Arc<Mutex<Vec<(Voter, Voter, Message)>>>;

/// Puts messages where the cluster takes them from.
struct Wire {
    own: Voter,
    outbox: Outbox,
}

impl Transport for Wire {
    fn send(&mut self, to: &Voter, message: Message) {
        self.outbox.lock().push((self.own.clone(), to.clone(), message));
    }
}

pub(super) struct Machine {
    pub(super) key: VoterKey,
    disk: SimDisk,
    disk_watch: Arc<DiskWatch>,
    disks: u8,
    starts: u64,
    node: Option<Node<Witness>>,
    next_tick_ms: i64,
    next_join_ms: i64,
    /// Whether it asks to be a voter.
    wants_to_vote: bool,
    /// Whether it asks at all; a removed member does not.
    joins: bool,
}

pub(super) struct Cluster {
    pub(super) rng: Rng,
    seed: u64,
    pub(super) now_ms: i64,
    clock: SimClock,
    pub(super) machines: Vec<Machine>,
    founders: VoterSet,
    outbox: Outbox,
    /// Messages, and whose they are.
    pub(super) network: Network<(Voter, Message)>,
    pub(super) history: Arc<Mutex<History>>,
    leaders: BTreeMap<u64, u64>,
    next_value: usize,
    waiting: Vec<(usize, ProposalId, Bytes)>,
    pub(super) acknowledged: Vec<Bytes>,
    /// When which node stands for election after a dead leader.
    succession: Vec<(i64, usize)>,
    trace: DefaultHasher,
    pub(super) elections: usize,
}

impl Cluster {
    pub(super) fn new(seed: u64, founders: usize, others: usize) -> Self {
        let clock = SimClock::default();
        let machine = |n: usize| Machine {
            key: VoterKey { node_id: n as i32, directory_id: directory(n, 0) },
            disk: SimDisk::new(seed * 1000 + n as u64),
            disk_watch: Arc::new(DiskWatch::new(Arc::new(clock.clone()), STALL_TIMEOUT)),
            disks: 0,
            starts: 0,
            node: None,
            next_tick_ms: n as i64 * 10,
            next_join_ms: 0,
            wants_to_vote: false,
            joins: true,
        };
        let machines: Vec<Machine> = (0..founders + others).map(machine).collect();
        let set = VoterSet::new(machines[..founders].iter().map(|machine| voter(machine.key)).collect());
        let mut cluster = Self {
            rng: Rng::new(seed),
            seed,
            now_ms: 0,
            clock,
            machines,
            founders: set,
            outbox: Outbox::default(),
            network: Network::new(|_| true),
            history: Arc::default(),
            leaders: BTreeMap::new(),
            next_value: 0,
            waiting: Vec::new(),
            acknowledged: Vec::new(),
            succession: Vec::new(),
            trace: DefaultHasher::new(),
            elections: 0,
        };
        for n in 0..founders {
            let options = cluster.options(n);
            Node::bootstrap(&*options.disk, &options.dir, &*options.clock, &cluster.founders).unwrap();
            cluster.start(n);
        }
        cluster
    }

    fn options(&self, n: usize) -> Options {
        let machine = &self.machines[n];
        Options {
            disk: Arc::new(machine.disk.clone()),
            clock: Arc::new(self.clock.clone()),
            random: Arc::new(SeededRandom::new(self.seed << 20 | (n as u64) << 10 | machine.starts)),
            dir: DIR.into(),
            node_id: machine.key.node_id,
            directory_id: machine.key.directory_id,
            segment_bytes: 1 << 20,
            snapshot_bytes: 2000,
            disk_watch: Arc::clone(&machine.disk_watch),
        }
    }

    pub(super) fn is_up(&self, n: usize) -> bool {
        self.machines[n].node.is_some()
    }

    /// Starts a node that is down. Its disk may fail it, but never be what it must not be.
    pub(super) fn start(&mut self, n: usize) {
        self.machines[n].starts += 1;
        let options = self.options(n);
        let machine = Witness { history: Arc::clone(&self.history), count: 0, at: -1 };
        let wire = Wire { own: voter(self.machines[n].key), outbox: Arc::clone(&self.outbox) };
        match Node::open(&options, machine, Box::new(wire)) {
            Ok(node) => {
                if let Ok(is_blank) = Node::is_blank(&*options.disk, &options.dir) {
                    assert_eq!(node.status().voters.members().count() == 0, is_blank);
                }
                self.machines[n].node = Some(node);
            }
            Err(error @ (QuorumError::Corrupt(_) | QuorumError::VoteLost(_) | QuorumError::Raft(_))) => {
                panic!("seed {}, node {n}: {error}", self.seed)
            }
            Err(_) => self.stop(n, true),
        }
    }

    /// Ends a node's process, with power loss or without.
    pub(super) fn stop(&mut self, n: usize, loses_power: bool) {
        self.machines[n].node = None;
        self.waiting.retain(|(proposer, ..)| *proposer != n);
        let disk = &self.machines[n].disk;
        disk.clear_faults();
        if loses_power { disk.crash() } else { disk.kill() }
    }

    /// The nodes that can reach a node see that its process is dead.
    pub(super) fn report_down(&mut self, n: usize) {
        for other in 0..self.machines.len() {
            let (from, to) = (other as i32, n as i32);
            if self.network.is_cut(from, to) || self.network.is_cut(to, from) {
                continue;
            }
            let Some(node) = &mut self.machines[other].node else { continue };
            if let Some(rank) = node.peer_down(n as i32) {
                for round in 0..3 {
                    self.succession.push((self.now_ms + 10 + 50 * rank as i64 + 200 * round, other));
                }
            }
        }
    }

    /// Gives a node that is down a new and empty disk.
    pub(super) fn wipe(&mut self, n: usize) {
        self.outbox.lock().retain(|(from, ..)| from.node_id != n as i32);
        let machine = &mut self.machines[n];
        assert!(machine.node.is_none());
        machine.disks += 1;
        machine.key.directory_id = directory(n, machine.disks);
        machine.disk = SimDisk::new(self.seed * 1000 + 100 * u64::from(machine.disks) + n as u64);
    }

    pub(super) fn fail_disk(&mut self, n: usize) {
        let ops = [SimOp::Write, SimOp::Sync, SimOp::SyncDir, SimOp::Rename, SimOp::Open];
        let op = ops[self.rng.below(ops.len() as u64) as usize];
        let error = if self.rng.percent(50) { Errno::IO } else { Errno::NOSPC };
        self.machines[n].disk.fail(op, self.rng.below(20), error);
    }

    pub(super) fn fail_disk_at(&mut self, n: usize, op: SimOp, after: u64) {
        self.machines[n].disk.fail(op, after, Errno::IO);
    }

    /// Calls a node and looks at what came of it. A node whose disk failed for good is dead.
    fn with(&mut self, n: usize, act: impl FnOnce(&mut Node<Witness>) -> Result<(), QuorumError>) {
        let Some(node) = &mut self.machines[n].node else { return };
        let acted = act(node).and_then(|()| node.drive());
        match acted {
            // Members say nothing impossible.
            Err(
                error @ (QuorumError::Corrupt(_)
                | QuorumError::VoteLost(_)
                | QuorumError::Raft(_)
                | QuorumError::Impossible(_)),
            ) => panic!("seed {}, node {n}: {error}", self.seed),
            Err(error) if !error.is_retriable() => {
                let loses_power = self.rng.percent(50);
                self.stop(n, loses_power);
                return;
            }
            _ => {}
        }
        self.check(n);
    }

    fn check(&mut self, n: usize) {
        let seed = self.seed;
        let Some(node) = &self.machines[n].node else { return };
        let raft = &node.raft.raft;
        (n, self.now_ms, raft.term, raft.raft_log.committed, raft.raft_log.last_index()).hash(&mut self.trace);
        if raft.state == StateRole::Leader {
            let known = self.leaders.insert(raft.term, raft.id);
            assert!(known.is_none_or(|known| known == raft.id), "seed {seed}: two leaders in term {}", raft.term);
            self.elections += usize::from(known.is_none());
            assert_eq!(raft.id, self.machines[n].key.raft_id());
            assert!(node.voters.voter(node.key).is_some(), "seed {seed}: node {n} leads without a vote");
        }
        assert_eq!(node.machine().at, node.state_offset(), "seed {seed}");
        let node = self.machines[n].node.as_mut().unwrap();
        for committed in node.take_committed() {
            self.waiting.retain(|(proposer, proposal_id, value)| {
                let is_there = *proposer == n && *proposal_id == committed.proposal_id;
                if is_there {
                    self.acknowledged.push(value.clone());
                }
                !is_there
            });
        }
    }

    /// What nodes have sent goes on its way.
    fn post(&mut self) {
        let sent = std::mem::take(&mut *self.outbox.lock());
        for (from, to, message) in sent {
            let n = from.node_id as usize;
            let is_current = self.machines[n].key == from.key();
            let is_blank = self.machines[n].node.as_ref().is_some_and(|node| node.voters.members().count() == 0);
            let is_vote = message.get_msg_type() == MessageType::MsgRequestVoteResponse && !message.reject;
            assert!(!is_vote || is_current && !is_blank, "seed {}: a vote of nobody, {message:?}", self.seed);
            assert_eq!(message.from, from.raft_id());
            (n, to.node_id, message.get_msg_type() as i32, message.index, message.term).hash(&mut self.trace);
            let is_snapshot = message.get_msg_type() == MessageType::MsgSnapshot;
            let packet = (from.clone(), message);
            let is_lost = !self.network.send(&mut self.rng, self.now_ms, from.node_id, to.node_id, packet);
            if is_snapshot && (is_lost || self.rng.percent(90)) {
                self.with(n, |node| node.report_snapshot(to.node_id, !is_lost));
            }
            if is_lost && self.rng.percent(50) {
                self.with(n, |node| node.report_unreachable(to.node_id));
            }
        }
    }

    pub(super) fn step(&mut self) {
        self.now_ms += STEP_MS;
        self.clock.pass(STEP_MS);
        self.post();
        let now_ms = self.now_ms;
        for (_, to, (from, message)) in self.network.receive(now_ms) {
            // The node at the address gets it, whatever disk it has.
            self.with(to as usize, |node| {
                node.add_peer_addresses(vec![from]);
                node.receive(message)
            });
        }
        for (at_ms, n) in std::mem::take(&mut self.succession) {
            if at_ms > now_ms {
                self.succession.push((at_ms, n));
            } else {
                self.with(n, |node| if node.may_succeed() { node.campaign() } else { Ok(()) });
            }
        }
        for n in 0..self.machines.len() {
            if self.machines[n].next_tick_ms <= now_ms {
                self.machines[n].next_tick_ms = now_ms + TICK_MS;
                self.with(n, Node::tick);
            }
            self.ask_to_join(n);
        }
    }

    /// A node that is not what it wants to be asks a leader.
    fn ask_to_join(&mut self, n: usize) {
        let machine = &self.machines[n];
        let Some(leader) = self.leader() else { return };
        if !machine.joins
            || machine.node.is_none()
            || machine.next_join_ms > self.now_ms
            || self.network.is_cut(n as i32, leader as i32)
        {
            return;
        }
        self.machines[n].next_join_ms = self.now_ms + JOIN_MS;
        let (key, wants_to_vote) = (self.machines[n].key, self.machines[n].wants_to_vote);
        let leading = self.machines[leader].key;
        self.with(n, |node| {
            node.add_peer_addresses(vec![voter(leading)]);
            Ok(())
        });
        self.with(leader, |node| match node.join(voter(key), wants_to_vote) {
            Ok(()) | Err(QuorumError::NotLeader | QuorumError::DiskFull) => Ok(()),
            Err(error) => panic!("{error}"),
        });
    }

    /// The machine that leads in the newest epoch, and knows it.
    pub(super) fn leader(&self) -> Option<usize> {
        let epochs = self.machines.iter().enumerate().filter_map(|(n, m)| Some((m.node.as_ref()?.leader_epoch()?, n)));
        epochs.max().map(|(_, n)| n)
    }

    pub(super) fn status(&self, n: usize) -> QuorumStatus {
        self.machines[n].node.as_ref().unwrap().status()
    }

    /// Proposes the next value where there is a leader, as far as it knows.
    pub(super) fn propose(&mut self, n: usize) {
        let Some(node) = &mut self.machines[n].node else { return };
        let Some(epoch) = node.leader_epoch() else { return };
        let value = Bytes::from(format!("value {}", self.next_value));
        self.next_value += 1;
        if let Ok(proposal_id) = node.propose(epoch, node.state_offset(), std::slice::from_ref(&value)) {
            self.waiting.push((n, proposal_id, value));
        }
        self.with(n, |_| Ok(()));
    }

    pub(super) fn remove(&mut self, leader: usize, key: VoterKey) {
        self.with(leader, |node| node.remove(key).map(|_| ()).or(Ok(())));
    }

    pub(super) fn set_joins(&mut self, n: usize, joins: bool, wants_to_vote: bool) {
        (self.machines[n].joins, self.machines[n].wants_to_vote) = (joins, wants_to_vote);
    }

    pub(super) fn transfer(&mut self, leader: usize) {
        self.with(leader, |node| node.transfer_leadership().map(|_| ()));
    }

    /// The voters of the newest set that any node has applied, and whether no node knows of a change that it has not.
    pub(super) fn newest_set(&self) -> (Arc<VoterSet>, bool) {
        let nodes = || self.machines.iter().filter_map(|machine| machine.node.as_ref());
        let newest = nodes().max_by_key(|node| node.applied());
        let is_settled = nodes().all(|node| {
            let raft = &node.raft.raft;
            let applied = node.applied();
            newest.is_none_or(|newest| newest.applied() == applied)
                && applied == raft.raft_log.last_index()
                && raft.leader_id != INVALID_ID
        });
        let all_up = nodes().count() == self.machines.len();
        (newest.map(|node| Arc::clone(&node.voters)).unwrap_or_default(), is_settled && all_up)
    }

    /// Whether all nodes that take part have everything.
    pub(super) fn is_converged(&self) -> bool {
        let Some(leader) = self.leader() else { return false };
        let set = self.status(leader).voters;
        let total = self.history.lock().values.len();
        let has_all = |machine: &Machine| {
            let is_member = set.member(machine.key).is_some();
            machine
                .node
                .as_ref()
                .is_some_and(|node| !is_member || node.machine().count == total && *node.voters == *set)
                && (is_member || !machine.joins)
        };
        self.machines.iter().all(has_all) && self.has_no_ghosts(&set)
    }

    /// Whether all members are disks that there are.
    pub(super) fn has_no_ghosts(&self, set: &VoterSet) -> bool {
        set.members().all(|member| self.machines.iter().any(|machine| machine.key == member.key()))
    }

    /// The state of all nodes, for a failed assertion.
    pub(super) fn describe(&self) -> Vec<String> {
        let describe = |machine: &Machine| match &machine.node {
            None => format!("{:?} is down", machine.key),
            Some(node) => {
                let raft = &node.raft.raft;
                let (last, applied, count) = (raft.raft_log.last_index(), node.applied(), node.machine().count);
                let ids =
                    |members: &[Voter]| members.iter().map(|m| (m.node_id, m.directory_id.0[0])).collect::<Vec<_>>();
                let (voters, observers) = (ids(&node.voters.voters), ids(&node.voters.observers));
                format!(
                    "{} {:?} term {} last {last} applied {applied} values {count} of {voters:?}, {observers:?} {:?}",
                    machine.key.node_id,
                    raft.state,
                    raft.term,
                    node.check(),
                )
            }
        };
        self.machines.iter().map(describe).collect()
    }

    pub(super) fn trace(&self) -> u64 {
        let mut trace = self.trace.clone();
        for machine in &self.machines {
            machine.disk.trace().hash(&mut trace);
        }
        trace.finish()
    }
}

fn directory(n: usize, disk: u8) -> wire::Uuid {
    let mut bytes = [7; 16];
    (bytes[0], bytes[1]) = (disk, n as u8);
    wire::Uuid(bytes)
}
