//! One voter: raft driven step by step. No threads and no timers; whoever owns it calls.
//!
//! The cycle is: something comes in ([`Node::propose`], [`Node::step`], [`Node::tick`]), then [`Node::drive`] puts on
//! disk what must be there, sends what others must know, and applies what is committed.

use bytes::Bytes;
use raft::eraftpb::{Entry, Message};
use raft::{RawNode, Ready, StateRole};
use wire::batch::Batch;

use super::snapshot::Snapshot;
use super::storage::{Storage, raft_id};
use super::{Options, Position, QuorumError, StateMachine, Transport, batches};

/// Ticks without a word from the leader before a voter stands for election, and between a leader's heartbeats.
const ELECTION_TICKS: usize = 10;
const HEARTBEAT_TICKS: usize = 2;

/// Free space that is left beside what is about to be written: for the vote of the next start, and its first entry.
const FREE_BYTES_MIN: u64 = 1 << 20;

/// A proposal that was accepted. It has come about when an entry of this index and epoch is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    pub index: u64,
    pub epoch: i32,
}

/// An entry that was applied, and the offset of its last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    pub ticket: Ticket,
    pub offset: i64,
}

pub struct Node<M> {
    raft: RawNode<Storage>,
    machine: M,
    transport: Box<dyn Transport>,
    snapshot_bytes: u64,
    /// What the machine has applied: the index of the last entry, and the offset of the last record.
    applied: u64,
    state_offset: i64,
    committed: Vec<Committed>,
    /// The last epoch in which this node, as leader, has applied an entry of its own.
    own_epoch: Option<i32>,
    /// What could not be put on disk because it was full.
    unfinished: Option<Ready>,
    /// Why the node does nothing any more.
    failure: Option<QuorumError>,
}

impl<M: StateMachine> Node<M> {
    /// Opens or starts a node, and brings the machine to what is known to be committed.
    pub fn open(options: &Options, mut machine: M, transport: Box<dyn Transport>) -> Result<Self, QuorumError> {
        let (storage, snapshot) = Storage::open(options)?;
        let state_offset = snapshot.as_ref().map_or(-1, |snapshot| snapshot.id.position().offset);
        if let Some(snapshot) = snapshot {
            machine.restore(&snapshot.values, snapshot.id.position())?;
        }
        let applied = storage.snapshot_index();
        let config = raft::Config {
            id: raft_id(options.node_id),
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            applied,
            max_size_per_msg: 1 << 20,
            max_inflight_msgs: 64,
            max_uncommitted_size: 64 << 20,
            check_quorum: true,
            pre_vote: true,
            ..raft::Config::default()
        };
        let raft = RawNode::new(&config, storage, &slog::Logger::root(ToTracing, slog::o!()))?;
        let mut node = Self {
            raft,
            machine,
            transport,
            snapshot_bytes: options.snapshot_bytes,
            applied,
            state_offset,
            committed: Vec::new(),
            own_epoch: None,
            unfinished: None,
            failure: None,
        };
        node.drive()?;
        Ok(node)
    }

    pub fn machine(&self) -> &M {
        &self.machine
    }

    pub fn is_only_voter(&self) -> bool {
        self.raft.store().voters().len() == 1
    }

    /// The epoch in which this node leads and has applied all that came before.
    pub fn leader_epoch(&self) -> Option<i32> {
        let leads = self.failure.is_none() && self.raft.raft.state == StateRole::Leader;
        self.own_epoch.filter(|epoch| leads && i64::from(*epoch) == self.raft.raft.term as i64)
    }

    /// Stands for election at once.
    pub fn campaign(&mut self) -> Result<(), QuorumError> {
        self.check()?;
        self.raft.campaign()?;
        self.drive()
    }

    /// Time passes, by a tick of the owner's choice.
    pub fn tick(&mut self) -> Result<(), QuorumError> {
        self.check()?;
        self.raft.tick();
        self.drive()
    }

    /// Another voter says something.
    pub fn step(&mut self, message: Message) -> Result<(), QuorumError> {
        self.check()?;
        match self.raft.step(message) {
            // What does not concern this node, or comes too late, is no harm.
            Ok(()) | Err(raft::Error::StepPeerNotFound | raft::Error::StepLocalMsg) => self.drive(),
            Err(error) => Err(error.into()),
        }
    }

    /// Says whether a snapshot that was sent to a voter has arrived. Until then it is sent nothing else: whoever sends
    /// messages must call this for each one of type `MsgSnapshot`.
    pub fn report_snapshot(&mut self, node_id: i32, arrived: bool) {
        let status = if arrived { raft::SnapshotStatus::Finish } else { raft::SnapshotStatus::Failure };
        self.raft.report_snapshot(raft_id(node_id), status);
    }

    /// Offset of the last record that the machine has applied, or of the snapshot that it started from.
    pub fn state_offset(&self) -> i64 {
        self.state_offset
    }

    /// Proposes records as one entry, in the epoch in which they were thought up. They were on the state at `after`; if
    /// that is not what they would follow they are refused.
    pub fn propose(&mut self, epoch: i32, after: i64, values: &[Bytes]) -> Result<Ticket, QuorumError> {
        self.check()?;
        if self.unfinished.is_some() {
            self.drive()?;
        }
        if self.leader_epoch() != Some(epoch) {
            return Err(QuorumError::NotLeader);
        }
        if self.state_offset != after || self.raft.raft.raft_log.last_index() != self.applied {
            return Err(QuorumError::Superseded);
        }
        let batch = self.raft.store().batch_of(values);
        let needed = batch.bytes.len() as u64 + FREE_BYTES_MIN;
        if self.raft.store().free_bytes()? < needed {
            return Err(QuorumError::DiskFull);
        }
        self.raft.propose(Vec::new(), batch.bytes.to_vec())?;
        Ok(Ticket { index: self.raft.raft.raft_log.last_index(), epoch })
    }

    /// Entries that were applied since the last call.
    pub fn take_committed(&mut self) -> Vec<Committed> {
        std::mem::take(&mut self.committed)
    }

    fn check(&self) -> Result<(), QuorumError> {
        match &self.failure {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Does what there is to do. When the disk is full it stops, and goes on with the next call; any other error is the
    /// end of the node, which answers with it from then on.
    pub fn drive(&mut self) -> Result<(), QuorumError> {
        self.check()?;
        let result = self.work();
        if let Err(error) = &result
            && !error.is_retriable()
        {
            tracing::error!(%error, "the metadata quorum has stopped");
            self.failure = Some(error.clone());
        }
        result
    }

    fn work(&mut self) -> Result<(), QuorumError> {
        loop {
            let mut ready = match self.unfinished.take() {
                Some(ready) => ready,
                None if self.raft.has_ready() => {
                    let mut ready = self.raft.ready();
                    self.send(ready.take_messages());
                    self.apply(&ready.take_committed_entries())?;
                    ready
                }
                None => break,
            };
            if let Err(error) = self.persist(&ready) {
                self.unfinished = Some(ready);
                return Err(error);
            }
            self.send(ready.take_persisted_messages());
            let mut light = self.raft.advance(ready);
            if let Some(commit) = light.commit_index() {
                self.raft.mut_store().set_commit(commit);
            }
            self.send(light.take_messages());
            self.apply(&light.take_committed_entries())?;
            self.raft.advance_apply();
        }
        self.snapshot_if_due()
    }

    fn send(&mut self, messages: Vec<Message>) {
        for message in messages {
            self.transport.send(message);
        }
    }

    fn persist(&mut self, ready: &Ready) -> Result<(), QuorumError> {
        let leader = self.raft.raft.leader_id;
        let metadata = ready.snapshot().get_metadata();
        if metadata.index > self.applied {
            let snapshot = Snapshot::decode(ready.snapshot().data.clone())?;
            self.raft.mut_store().install(&snapshot)?;
            self.machine.restore(&snapshot.values, snapshot.id.position())?;
            self.applied = snapshot.index;
            self.state_offset = snapshot.id.position().offset;
        }
        let storage = self.raft.mut_store();
        if let Some(state) = ready.hs() {
            storage.set_hard_state(state)?;
        }
        storage.append(ready.entries(), leader)
    }

    fn apply(&mut self, entries: &[Entry]) -> Result<(), QuorumError> {
        let before = self.applied;
        for entry in entries.iter().filter(|entry| entry.index > before) {
            let epoch = i32::try_from(entry.term).unwrap_or(i32::MAX);
            let Some(offset) = self.raft.store().offset_of(entry.index) else {
                return Err(QuorumError::Raft(format!("entry {} is committed but not there", entry.index).into()));
            };
            if !entry.data.is_empty() {
                let values = batches::values(&Batch::parse(&entry.data).map_err(QuorumError::corrupt)?)?;
                self.machine.apply(&values, Position { offset, epoch })?;
                self.state_offset = offset;
            }
            self.applied = entry.index;
            if self.raft.raft.state == StateRole::Leader && entry.term == self.raft.raft.term {
                self.own_epoch = Some(epoch);
            }
            self.committed.push(Committed { ticket: Ticket { index: entry.index, epoch }, offset });
        }
        Ok(())
    }

    /// A snapshot that cannot be written for want of space is tried again later.
    fn snapshot_if_due(&mut self) -> Result<(), QuorumError> {
        if self.raft.store().entries_bytes() < self.snapshot_bytes {
            return Ok(());
        }
        let values = self.machine.snapshot();
        match self.raft.mut_store().write_snapshot(self.applied, values) {
            Err(error) if error.is_retriable() => {
                tracing::warn!(%error, "no snapshot of the metadata");
                Ok(())
            }
            result => result,
        }
    }

    /// Leaves everything on disk in order. The error is why the node had stopped before, if it had.
    pub fn close(mut self) -> Result<(), QuorumError> {
        self.check()?;
        self.raft.mut_store().close()
    }
}

/// Raft's own log lines, as the broker's.
struct ToTracing;

impl slog::Drain for ToTracing {
    type Ok = ();
    type Err = slog::Never;

    fn log(&self, record: &slog::Record<'_>, _values: &slog::OwnedKVList) -> Result<(), slog::Never> {
        match record.level() {
            slog::Level::Critical | slog::Level::Error => tracing::error!(target: "raft", "{}", record.msg()),
            slog::Level::Warning => tracing::warn!(target: "raft", "{}", record.msg()),
            _ => tracing::debug!(target: "raft", "{}", record.msg()),
        }
        Ok(())
    }
}
