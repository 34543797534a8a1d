//! One voter on real and simulated disks; three voters with a network that loses, repeats and reorders.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use log::simdisk::{Rng, SimOp};
use log::{Now, RealDisk, SimDisk};
use parking_lot::Mutex;
use raft::eraftpb::{Message, MessageType};
use rustix::io::Errno;

use super::*;

/// A clock that goes on by itself, a millisecond each time it is asked.
#[derive(Default)]
pub(crate) struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Now {
        let ms = self.0.fetch_add(1, Ordering::Relaxed);
        Now { wall_ms: 1_700_000_000_000 + ms, monotonic_ms: ms }
    }
}

/// Remembers everything, and checks the order.
#[derive(Default)]
struct Journal {
    values: Vec<Bytes>,
    at: Option<Position>,
}

impl StateMachine for Journal {
    fn apply(&mut self, values: &[Bytes], at: Position) -> Result<(), StateMachineError> {
        assert!(!values.is_empty());
        assert!(self.at.is_none_or(|before| at.offset > before.offset && at.epoch >= before.epoch));
        self.values.extend_from_slice(values);
        self.at = Some(at);
        Ok(())
    }

    fn restore(&mut self, values: &[Bytes], at: Position) -> Result<(), StateMachineError> {
        self.values = values.to_vec();
        self.at = Some(at);
        Ok(())
    }

    fn snapshot(&self) -> Vec<Bytes> {
        self.values.clone()
    }
}

const DIR: &str = "/data/__cluster_metadata-0";

fn options(disk: Arc<dyn Disk>, dir: &Path, snapshot_bytes: u64) -> Options {
    let clock = Arc::new(TestClock::default());
    let dir = dir.to_owned();
    Options { disk, clock, dir, node_id: 1, voters: vec![1], segment_bytes: 1 << 20, snapshot_bytes }
}

/// Opens a node and makes it lead.
fn start(disk: &Arc<dyn Disk>, dir: &Path, snapshot_bytes: u64) -> Result<Node<Journal>, QuorumError> {
    let mut node = Node::open(&options(disk.clone(), dir, snapshot_bytes), Journal::default(), Box::new(NoPeers))?;
    node.campaign()?;
    Ok(node)
}

fn commit(node: &mut Node<Journal>, values: &[Bytes]) -> Result<i64, QuorumError> {
    node.drive()?;
    let ticket = node.propose(node.leader_epoch().ok_or(QuorumError::NotLeader)?, node.state_offset(), values)?;
    node.drive()?;
    let committed = node.take_committed().into_iter().find(|committed| committed.ticket == ticket);
    committed.map(|committed| committed.offset).ok_or(QuorumError::NotLeader)
}

fn values(from: usize, count: usize) -> Vec<Bytes> {
    (from..from + count).map(|n| Bytes::from(format!("value {n}"))).collect()
}

#[test]
fn the_only_voter_leads_at_once_and_remembers_on_a_real_disk() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("__cluster_metadata-0");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    for start_number in 0..3 {
        let mut node = start(&disk, &dir, 1 << 20).unwrap();
        assert_eq!(node.leader_epoch(), Some(start_number as i32 + 1));
        assert_eq!(node.machine().values, values(0, start_number * 2));
        // The LeaderChange record takes an offset, as in Kafka.
        let offset = commit(&mut node, &values(start_number * 2, 2)).unwrap();
        assert_eq!(offset, start_number as i64 * 3 + 2);
        if start_number != 1 {
            node.close().unwrap();
        }
    }
}

/// Whatever was answered is there after a crash, in order; what was not answered is there as a whole or not at all.
#[test]
fn nothing_that_was_answered_is_lost() {
    for seed in 0..400 {
        crash_run(seed);
    }
}

fn crash_run(seed: u64) {
    let sim = SimDisk::new(seed);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let mut rng = Rng::new(seed);
    let dir = Path::new(DIR);
    let mut answered: Vec<Bytes> = Vec::new();
    let mut open: Vec<Bytes> = Vec::new();
    for life in 0..6 {
        if rng.percent(30) {
            let op = [SimOp::Write, SimOp::Sync, SimOp::SyncDir, SimOp::Rename, SimOp::Open][rng.below(5) as usize];
            let error = if rng.percent(50) { Errno::IO } else { Errno::NOSPC };
            sim.fail(op, rng.below(12), error);
        }
        let started = start(&disk, dir, 300 + rng.below(3000));
        if let Ok(mut node) = started {
            let found = node.machine().values.clone();
            let whole = [answered.clone(), open.clone()].concat();
            assert!(found == answered || found == whole, "seed {seed}, life {life}: {} values", found.len());
            answered = found;
            open.clear();
            for _ in 0..rng.below(40) {
                let next = values(answered.len(), 1 + rng.below(5) as usize);
                match commit(&mut node, &next) {
                    Ok(_) => {
                        answered.extend(next);
                        assert_eq!(node.machine().values, answered);
                    }
                    Err(error) => {
                        // It may come after all: with the next life, or when the disk has room again.
                        assert!(!matches!(error, QuorumError::Corrupt(_)), "seed {seed}, life {life}: {error}");
                        open = next;
                        break;
                    }
                }
            }
            if rng.percent(20) {
                _ = node.close();
            }
        } else if let Err(error) = started {
            assert!(!matches!(error, QuorumError::Corrupt(_)), "seed {seed}, life {life}: {error}");
        }
        sim.clear_faults();
        if rng.percent(80) { sim.crash() } else { sim.kill() }
    }
    let node = start(&disk, dir, 1000).unwrap();
    let whole = [answered.clone(), open].concat();
    assert!(node.machine().values == answered || node.machine().values == whole, "seed {seed}");
}

#[test]
fn the_log_is_cut_at_snapshots_and_a_damaged_snapshot_does_no_harm() {
    let sim = SimDisk::new(5);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let dir = Path::new(DIR);
    let mut node = start(&disk, dir, 10_000).unwrap();
    for n in 0..2000 {
        commit(&mut node, &values(n, 1)).unwrap();
    }
    drop(node);
    let names = |suffix: &str| -> Vec<PathBuf> {
        sim.paths().into_iter().filter(|path| path.to_str().is_some_and(|name| name.ends_with(suffix))).collect()
    };
    let snapshots = names(".checkpoint");
    assert_eq!(snapshots.len(), 2);
    assert!(names(".log").len() <= 3, "{:?}", names(".log"));
    let log_bytes: usize = names(".log").iter().filter_map(|path| sim.get(path)).map(|bytes| bytes.len()).sum();
    assert!(log_bytes < 40_000, "{log_bytes}");

    let newest = snapshots.last().unwrap();
    for garbage in [Vec::new(), vec![0xff; 300], vec![0; 3000], sim.get(newest).unwrap()[..50].to_vec()] {
        sim.put(newest, &garbage);
        let node = start(&disk, dir, 1 << 20).unwrap();
        assert_eq!(node.machine().values, values(0, 2000));
        sim.kill();
    }
    // Both gone: the log does not reach back to the beginning.
    names(".checkpoint").iter().for_each(|path| sim.put(path, b"x"));
    let error = start(&disk, dir, 1 << 20).err().unwrap();
    assert!(matches!(&error, QuorumError::Corrupt(reason) if reason.contains("no snapshot reaches so far")), "{error}");
}

#[test]
fn a_damaged_vote_is_made_anew_and_damage_to_the_log_is_not_passed_over() {
    let sim = SimDisk::new(6);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let dir = Path::new(DIR);
    let mut node = start(&disk, dir, 1 << 20).unwrap();
    for n in 0..100 {
        commit(&mut node, &values(n, 1)).unwrap();
    }
    node.close().unwrap();
    for garbage in [&b""[..], &[0xff; 100], &[7; 5000]] {
        sim.put(&dir.join("raft-state"), garbage);
        let node = start(&disk, dir, 1 << 20).unwrap();
        assert_eq!(node.machine().values, values(0, 100));
        assert!(node.leader_epoch().is_some_and(|epoch| epoch > 1));
        drop(node);
        sim.kill();
    }
    let log = dir.join("00000000000000000000.log");
    assert!(sim.flip_bit(&log, 2000, 3));
    let error = start(&disk, dir, 1 << 20).err().unwrap();
    assert!(matches!(error, QuorumError::Corrupt(_)), "{error}");
}

/// What is committed is also lost when the end of the log is gone; that is told by what the vote remembers.
#[test]
fn a_log_that_ends_too_early_is_not_passed_over() {
    let sim = SimDisk::new(7);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let dir = Path::new(DIR);
    let mut node = start(&disk, dir, 1 << 20).unwrap();
    for n in 0..100 {
        commit(&mut node, &values(n, 1)).unwrap();
    }
    node.close().unwrap();
    let log = dir.join("00000000000000000000.log");
    let bytes = sim.get(&log).unwrap();
    sim.put(&log, &bytes[..bytes.len() - 10]);
    let error = start(&disk, dir, 1 << 20).err().unwrap();
    assert!(matches!(&error, QuorumError::Corrupt(reason) if reason.contains("was committed")), "{error}");
}

#[test]
fn a_full_disk_refuses_and_goes_on_and_a_failing_one_stops() {
    let sim = SimDisk::new(8);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let mut node = start(&disk, Path::new(DIR), 1 << 20).unwrap();
    commit(&mut node, &values(0, 1)).unwrap();
    sim.set_free_bytes(1000);
    assert!(matches!(commit(&mut node, &values(1, 1)), Err(QuorumError::DiskFull)));
    sim.set_free_bytes(1 << 30);
    commit(&mut node, &values(1, 1)).unwrap();

    // Full in the middle of a write: the entry is not forgotten.
    sim.fail(SimOp::Write, 0, Errno::NOSPC);
    assert!(matches!(commit(&mut node, &values(2, 1)), Err(QuorumError::DiskFull)));
    commit(&mut node, &values(3, 1)).unwrap();
    assert_eq!(node.machine().values, values(0, 4));

    sim.fail(SimOp::Sync, 0, Errno::IO);
    assert!(matches!(commit(&mut node, &values(4, 1)), Err(QuorumError::Log(_))));
    assert_eq!(node.leader_epoch(), None);
    assert!(node.propose(1, node.state_offset(), &values(5, 1)).is_err());
    assert!(node.close().is_err());
    sim.crash();
    let node = start(&disk, Path::new(DIR), 1 << 20).unwrap();
    assert!(node.machine().values == values(0, 4) || node.machine().values == values(0, 5));
}

#[tokio::test]
async fn the_thread_commits_and_ends() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(9));
    let options = options(disk, Path::new(DIR), 1 << 20);
    let node = Node::open(&options, Journal::default(), Box::new(NoPeers)).unwrap();
    let (quorum, thread) = Quorum::start(node).unwrap();
    let epoch = quorum.leader_epoch().unwrap();
    assert_eq!(quorum.propose(epoch, -1, values(0, 3)).await.unwrap(), 3);
    assert!(matches!(quorum.propose(epoch, -1, values(0, 3)).await, Err(QuorumError::Superseded)));
    assert!(matches!(quorum.propose(epoch + 1, 3, values(0, 3)).await, Err(QuorumError::NotLeader)));
    quorum.settle().await.unwrap();
    drop(quorum);
    thread.join().unwrap().unwrap();
}

/// Puts messages where the test delivers them from.
struct Wire(Arc<Mutex<VecDeque<Message>>>);

impl Transport for Wire {
    fn send(&mut self, message: Message) {
        self.0.lock().push_back(message);
    }
}

struct Cluster {
    rng: Rng,
    disks: Vec<SimDisk>,
    nodes: Vec<Option<Node<Journal>>>,
    network: Arc<Mutex<VecDeque<Message>>>,
}

impl Cluster {
    fn new(seed: u64) -> Self {
        let disks = (0..3).map(|n| SimDisk::new(seed * 3 + n)).collect();
        let nodes = vec![None, None, None];
        let mut cluster = Self { rng: Rng::new(seed), disks, nodes, network: Arc::default() };
        (0..3).for_each(|n| cluster.open(n));
        cluster
    }

    fn open(&mut self, n: usize) {
        let disk: Arc<dyn Disk> = Arc::new(self.disks[n].clone());
        let mut options = options(disk, Path::new(DIR), 2000);
        (options.node_id, options.voters) = (n as i32, vec![0, 1, 2]);
        let node = Node::open(&options, Journal::default(), Box::new(Wire(self.network.clone())));
        self.nodes[n] = Some(node.unwrap());
    }

    /// A tick for everybody, and most of the messages.
    fn step(&mut self, loss_percent: u64) {
        for node in self.nodes.iter_mut().flatten() {
            node.tick().unwrap();
        }
        for _ in 0..50 {
            let message = {
                let mut network = self.network.lock();
                let place = self.rng.below(network.len() as u64) as usize;
                let Some(message) = network.swap_remove_back(place) else { break };
                let arrives = !self.rng.percent(loss_percent) && self.nodes[message.to as usize - 1].is_some();
                if message.get_msg_type() == MessageType::MsgSnapshot
                    && let Some(sender) = &mut self.nodes[message.from as usize - 1]
                {
                    sender.report_snapshot(message.to as i32 - 1, arrives);
                }
                if !arrives {
                    continue;
                }
                if self.rng.percent(loss_percent / 2) {
                    network.push_back(message.clone());
                }
                message
            };
            let to = message.to as usize - 1;
            if let Some(node) = &mut self.nodes[to] {
                node.step(message).unwrap();
            }
        }
    }

    fn leader(&self) -> Option<usize> {
        (0..3).filter_map(|n| Some((self.nodes[n].as_ref()?.leader_epoch()?, n))).max().map(|(_, n)| n)
    }
}

/// Leaders change, messages are lost, nodes lose power; what one node has applied, all have in the same order.
#[test]
fn three_voters_agree() {
    for seed in 0..40 {
        let mut cluster = Cluster::new(seed);
        let mut next = 0;
        let mut acknowledged: Vec<(Ticket, usize)> = Vec::new();
        let mut waiting: Vec<(usize, Ticket, usize)> = Vec::new();
        for round in 0..600 {
            cluster.step(if round % 100 < 80 { 10 } else { 0 });
            if let Some(n) = cluster.leader() {
                let node = cluster.nodes[n].as_mut().unwrap();
                if let Some(epoch) = node.leader_epoch()
                    && let Ok(ticket) = node.propose(epoch, node.state_offset(), &values(next, 1))
                {
                    node.drive().unwrap();
                    waiting.push((n, ticket, next));
                    next += 1;
                }
            }
            for n in 0..3 {
                let Some(node) = &mut cluster.nodes[n] else { continue };
                let committed: Vec<Ticket> = node.take_committed().iter().map(|committed| committed.ticket).collect();
                waiting.retain(|(proposer, ticket, value)| {
                    let is_there = *proposer == n && committed.contains(ticket);
                    if is_there {
                        acknowledged.push((*ticket, *value));
                    }
                    !is_there
                });
            }
            if cluster.rng.percent(2) {
                let n = cluster.rng.below(3) as usize;
                cluster.nodes[n] = None;
                cluster.disks[n].crash();
                waiting.retain(|(proposer, _, _)| *proposer != n);
            }
            for n in 0..3 {
                if cluster.nodes[n].is_none() && cluster.rng.percent(10) {
                    cluster.open(n);
                }
            }
        }
        (0..3).filter(|n| cluster.nodes[*n].is_none()).collect::<Vec<_>>().into_iter().for_each(|n| cluster.open(n));
        for _ in 0..200 {
            cluster.step(0);
        }
        let journals: Vec<_> = cluster.nodes.iter().flatten().map(|node| &node.machine().values).collect();
        let lengths: Vec<usize> = journals.iter().map(|journal| journal.len()).collect();
        assert!(journals[0] == journals[1] && journals[1] == journals[2], "seed {seed}: {lengths:?}");
        assert!(acknowledged.len() > 50, "seed {seed}: {} of {next}", acknowledged.len());
        let mut sorted = acknowledged.clone();
        sorted.sort_unstable();
        let mut found = journals[0].iter();
        for (_, value) in sorted {
            let value = Bytes::from(format!("value {value}"));
            assert!(found.any(|other| *other == value), "seed {seed}: {value:?} is lost or out of order");
        }
    }
}
