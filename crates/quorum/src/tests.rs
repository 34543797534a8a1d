//! One voter on real and simulated disks. Several are in [`cluster`].

mod cluster;
mod damage;
mod handle;
mod hostile;
#[cfg(feature = "injected-faults")]
mod injected_faults;
mod simulation;
mod stalls;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use platform::simulation::{SeededRandom, TickingClock};
use rustix::io::Errno;
use storage::simdisk::{Rng, SimOp};
use storage::{RealDisk, SimDisk};

use super::*;

/// Writes what a cluster of these nodes begins with, for one of them that has nothing yet.
fn bootstrap(options: &Options, all: &[&Options]) -> Result<(), QuorumError> {
    let voters = all.iter().map(|options| voter(options.key())).collect();
    match Node::is_blank(&*options.disk, &options.dir)? {
        true => Node::bootstrap(&*options.disk, &options.dir, &*options.clock, &VoterSet::new(voters)),
        false => Ok(()),
    }
}

fn voter(key: VoterKey) -> Voter {
    let VoterKey { node_id, directory_id } = key;
    Voter { node_id, directory_id, host: format!("node-{node_id}"), port: 9093 }
}

/// Remembers everything, and checks the order.
#[derive(Default)]
struct Journal {
    values: Vec<Bytes>,
    at: Option<Position>,
}

impl StateMachine for Journal {
    fn apply(&mut self, values: &[Bytes], at: Position, _timestamp_ms: i64) -> Result<(), StateMachineError> {
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

    fn check(&self, _values: &[Bytes]) -> Result<(), StateMachineError> {
        Ok(())
    }
}

const DIR: &str = "/data/__cluster_metadata-0";
const STALL_TIMEOUT: Duration = Duration::from_millis(2000);

fn options(disk: Arc<dyn Disk>, dir: &Path, snapshot_bytes: u64) -> Options {
    let clock = Arc::new(TickingClock::default());
    let dir = dir.to_owned();
    let random = Arc::new(SeededRandom::new(1));
    let directory_id = wire::Uuid([1; 16]);
    let disk_watch = Arc::new(DiskWatch::new(clock.clone(), STALL_TIMEOUT));
    let segment_bytes = 1 << 20;
    Options { disk, clock, random, dir, node_id: 1, directory_id, segment_bytes, snapshot_bytes, disk_watch }
}

/// Opens a node and makes it lead.
fn start(disk: &Arc<dyn Disk>, dir: &Path, snapshot_bytes: u64) -> Result<Node<Journal>, QuorumError> {
    let options = options(disk.clone(), dir, snapshot_bytes);
    bootstrap(&options, &[&options])?;
    let mut node = Node::open(&options, Journal::default(), Box::new(NoPeers))?;
    node.campaign()?;
    Ok(node)
}

fn commit(node: &mut Node<Journal>, values: &[Bytes]) -> Result<i64, QuorumError> {
    node.drive()?;
    let proposal_id = node.propose(node.leader_epoch().ok_or(QuorumError::NotLeader)?, node.state_offset(), values)?;
    node.drive()?;
    let committed = node.take_committed().into_iter().find(|committed| committed.proposal_id == proposal_id);
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
        assert_eq!(node.leader_epoch(), Some(start_number as i32 + 2));
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
                        // It may be committed after all: after a restart, or when the disk has free space again.
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
    let node = start(&disk, dir, 1000).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let whole = [answered.clone(), open].concat();
    assert!(node.machine().values == answered || node.machine().values == whole, "seed {seed}");
}

/// Damages a file and its copy.
fn spoil(sim: &SimDisk, path: &Path, bytes: &[u8]) {
    sim.put(path, bytes);
    sim.put(&copies::copy_of(path), bytes);
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
        spoil(&sim, newest, &garbage);
        let node = start(&disk, dir, 1 << 20).unwrap();
        assert_eq!(node.machine().values, values(0, 2000));
        sim.kill();
    }
    // Both are missing: the log does not reach back to the beginning.
    names(".checkpoint").iter().for_each(|path| spoil(&sim, path, b"x"));
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
        spoil(&sim, &dir.join("raft-state"), garbage);
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

/// Committed entries are also lost when the end of the log is missing; the synced offset shows it.
#[test]
fn a_log_that_ends_too_early_is_not_passed_over() {
    let sim = SimDisk::new(7);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let dir = Path::new(DIR);
    let mut node = start(&disk, dir, 1 << 20).unwrap();
    for n in 0..100 {
        commit(&mut node, &values(n, 1)).unwrap();
    }
    drop(node);
    sim.kill();
    let log = dir.join("00000000000000000000.log");
    let bytes = sim.get(&log).unwrap();
    for (cut, expected) in [(10, "cannot be read"), (bytes.len(), "was on disk up to")] {
        sim.put(&log, &bytes[..bytes.len() - cut]);
        let error = start(&disk, dir, 1 << 20).err().unwrap();
        assert!(matches!(&error, QuorumError::Corrupt(reason) if reason.contains(expected)), "{error}");
        assert!(error.to_string().contains("parshall recover"), "{error}");
        assert_eq!(sim.get(&log).unwrap(), bytes[..bytes.len() - cut], "it stays as it is");
    }
    // Back as it was, nothing is lost.
    sim.put(&log, &bytes);
    assert_eq!(start(&disk, dir, 1 << 20).unwrap().machine().values, values(0, 100));
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
    bootstrap(&options, &[&options]).unwrap();
    let node = Node::open(&options, Journal::default(), Box::new(NoPeers)).unwrap();
    let (quorum, thread) = Quorum::start(node).unwrap();
    let epoch = quorum.leader_epoch().unwrap();
    assert_eq!(quorum.propose(epoch, -1, values(0, 3)).await.unwrap(), 3);
    assert!(matches!(quorum.propose(epoch, -1, values(0, 3)).await, Err(QuorumError::Superseded)));
    assert!(matches!(quorum.propose(epoch + 1, 3, values(0, 3)).await, Err(QuorumError::NotLeader)));
    quorum.settle().await.unwrap();
    let other = quorum.clone();
    quorum.stop();
    thread.join().unwrap().unwrap();
    assert!(matches!(other.settle().await, Err(QuorumError::Stopped)));
}

/// A snapshot that was installed over a diverged log, with a power loss in between.
#[test]
fn a_snapshot_that_the_log_does_not_lead_to_replaces_it() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(10));
    let dir = Path::new(DIR);
    let mut node = start(&disk, dir, 1 << 20).unwrap();
    for n in 0..20 {
        commit(&mut node, &values(n, 3)).unwrap();
    }
    drop(node);
    let options = options(disk.clone(), dir, 1 << 20);
    let id = SnapshotId { end_offset: 12, epoch: 3 };
    let voters = VoterSet::new(vec![voter(options.key())]);
    synced::SyncedOffset::open(&*disk, dir, 0).unwrap();
    snapshot::Snapshot { id, index: 8, voters, values: values(100, 2) }.write(&*disk, dir, 0).unwrap();
    let mut node = Node::open(&options, Journal::default(), Box::new(NoPeers)).unwrap();
    assert_eq!(node.machine().values, values(100, 2));
    node.campaign().unwrap();
    assert_eq!(commit(&mut node, &values(102, 1)).unwrap(), 13);
    assert_eq!(node.machine().values, values(100, 3));
}

/// A transport that keeps what was sent.
struct Kept(Arc<Mutex<Vec<Message>>>);

impl Transport for Kept {
    fn send(&mut self, _to: &Voter, message: Message) {
        self.0.lock().push(message);
    }
}

/// A node that has nothing may have had something, and voted.
#[test]
fn a_blank_node_votes_for_nobody_and_stands_for_nothing() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(11));
    let options = options(disk, Path::new(DIR), 1 << 20);
    let sent = Arc::<Mutex<Vec<Message>>>::default();
    let mut node = Node::open(&options, Journal::default(), Box::new(Kept(sent.clone()))).unwrap();
    let other = voter(VoterKey { node_id: 2, directory_id: wire::Uuid([2; 16]) });
    node.add_peer_addresses(vec![other.clone()]);
    for kind in [raft::eraftpb::MessageType::MsgRequestPreVote, raft::eraftpb::MessageType::MsgRequestVote] {
        let mut message = Message::default();
        message.set_msg_type(kind);
        (message.from, message.to) = (other.raft_id(), options.key().raft_id());
        (message.term, message.index, message.log_term) = (7, 10, 6);
        node.receive(message).unwrap();
        node.drive().unwrap();
    }
    (0..100).for_each(|_| node.tick().unwrap());
    assert!(sent.lock().is_empty(), "{:?}", sent.lock());
    assert!(Node::is_blank(&*options.disk, &options.dir).unwrap());
}

/// It does not know yet what was committed in the epochs before.
#[test]
fn a_leader_confirms_nothing_before_its_first_entry_is_committed() {
    use raft::eraftpb::MessageType::*;
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(14));
    let options = options(disk, Path::new(DIR), 1 << 20);
    let other = voter(VoterKey { node_id: 2, directory_id: wire::Uuid([2; 16]) });
    let third = voter(VoterKey { node_id: 3, directory_id: wire::Uuid([3; 16]) });
    let set = VoterSet::new(vec![voter(options.key()), other.clone(), third]);
    Node::bootstrap(&*options.disk, &options.dir, &*options.clock, &set).unwrap();
    let sent = Arc::<Mutex<Vec<Message>>>::default();
    let mut node = Node::open(&options, Journal::default(), Box::new(Kept(sent.clone()))).unwrap();
    let receive = |node: &mut Node<Journal>, kind, change: &dyn Fn(&mut Message)| {
        let mut message = Message { from: other.raft_id(), to: options.key().raft_id(), ..Message::default() };
        message.set_msg_type(kind);
        message.term = node.status().epoch as u64;
        change(&mut message);
        node.receive(message).unwrap();
        node.drive().unwrap();
    };
    node.campaign().unwrap();
    receive(&mut node, MsgRequestPreVoteResponse, &|message| message.term += 1);
    receive(&mut node, MsgRequestVoteResponse, &|_| ());
    assert_eq!((node.status().leader, node.status().own_epoch), (Some(1), None));
    assert!(matches!(node.confirm(), Err(QuorumError::NotLeader)));

    let last_index = node.last_index();
    receive(&mut node, MsgAppendResponse, &|message| message.index = last_index);
    let question = node.confirm().unwrap();
    node.drive().unwrap();
    assert_eq!(node.take_confirmed(), [0; 0]);
    let heartbeat = sent.lock().iter().rev().find(|message| !message.context.is_empty()).unwrap().clone();
    receive(&mut node, MsgHeartbeatResponse, &|message| message.context = heartbeat.context.clone());
    assert_eq!(node.take_confirmed(), [question]);
}

#[test]
fn a_vote_among_several_is_not_made_anew() {
    let sim = SimDisk::new(12);
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let options = options(disk, Path::new(DIR), 1 << 20);
    let other = voter(VoterKey { node_id: 2, directory_id: wire::Uuid([2; 16]) });
    let set = VoterSet::new(vec![voter(options.key()), other]);
    Node::bootstrap(&*options.disk, &options.dir, &*options.clock, &set).unwrap();
    assert!(Node::bootstrap(&*options.disk, &options.dir, &*options.clock, &set).is_err(), "a cluster begins once");
    let open = || Node::open(&options, Journal::default(), Box::new(NoPeers));
    open().unwrap().close().unwrap();
    spoil(&sim, &Path::new(DIR).join("raft-state"), b"garbage");
    let error = open().err().unwrap();
    assert!(matches!(&error, QuorumError::VoteLost(_)) && error.to_string().contains("parshall recover"), "{error}");
}

/// Of many entries that were being written any may be torn; none was promised, and those before are not touched.
#[test]
fn entries_that_were_written_together_are_cut_together() {
    let mut cut = 0;
    for seed in 0..60 {
        let sim = SimDisk::new(seed);
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let options = options(disk.clone(), Path::new(DIR), 1 << 20);
        bootstrap(&options, &[&options]).unwrap();
        let (mut storage, _) = raft_storage::Storage::open(&options).unwrap();
        storage.set_hard_state(&raft::eraftpb::HardState { term: 2, ..Default::default() }).unwrap();
        let entry = |index: u64| raft::eraftpb::Entry {
            index,
            term: 2,
            data: storage.batch_of(&[Bytes::from(vec![index as u8; 3000])]).bytes,
            ..raft::eraftpb::Entry::default()
        };
        let entries: Vec<_> = (2..32).map(entry).collect();
        storage.append(&entries[..15], 0).unwrap();
        // The first is the mark's. What was written after it is not synced, and pages of it get to the platter or not.
        sim.fail(SimOp::Write, seed % 20, Errno::IO);
        let is_written = storage.append(&entries[15..], 0).is_ok();
        drop(storage);
        sim.clear_faults();
        sim.crash();
        let (storage, _) = raft_storage::Storage::open(&options).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let last_index = storage.last_index();
        assert!(last_index == 31 || !is_written && last_index >= 16, "seed {seed}: {last_index}");
        cut += usize::from(last_index == 16);
    }
    assert!(cut > 10, "{cut}");
}
