//! One member: raft driven step by step. No threads and no timers; its owner calls it.
//!
//! The cycle is: something comes in ([`Node::propose`], [`Node::receive`], [`Node::tick`]), then [`Node::drive`] puts
//! on disk what must be there, sends what others must know, and applies what is committed. A leader's messages go out
//! before its own write, so that all disks work at the same time.

mod lost_end;
pub(crate) mod members;
mod message_checks;
pub(crate) mod read_index;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use platform::{Clock, DiskWatch, Random};
use protobuf::Message as _;
use raft::eraftpb::{ConfChange, Entry, EntryType, Message, MessageType};
use raft::{RawNode, Ready, StateRole};
use wire::batch::Batch;

use self::members::PendingMembership;
use self::read_index::ReadIndexRequests;
use super::raft_storage::{self, Storage};
use super::snapshot::Snapshot;
use super::{
    Options, Position, QuorumError, QuorumStatus, StateMachine, Transport, Voter, VoterKey, VoterSet, batches, voters,
};

/// Ticks without a message of the leader before a voter stands for election, up to twice as many, and between a
/// leader's heartbeats.
pub(super) const ELECTION_TICKS: usize = 10;
const HEARTBEAT_TICKS: usize = 2;

/// Ticks that a candidate waits for votes at least, and that two candidates of one term leave each other.
const VOTES_TICKS: usize = 5;
const TURN_TICKS: usize = 3;

/// Ticks without a message of a majority after which a leader steps down. Raft's own check can take twice as long, and
/// the others must wait as long again.
const MAJORITY_LOST_TICKS: u64 = (ELECTION_TICKS + HEARTBEAT_TICKS) as u64;

/// Ticks for which a leader with a full disk leads at least.
const ROOM_TICKS: u64 = 50;

/// Ticks after which a snapshot whose arrival was not reported is taken for lost.
const SNAPSHOT_TICKS: u64 = 600;

/// Free space that is left beside what is about to be written: for the vote of the next start, and its first entry.
const FREE_BYTES_MIN: u64 = 1 << 20;

/// Members outside the voter set whose addresses are known.
const PEER_ADDRESSES_MAX: usize = 64;

/// When the last message of each node arrived. Shared with the handles.
#[derive(Clone)]
pub(super) struct LastContacts {
    clock: Arc<dyn Clock>,
    /// By node, in milliseconds of the monotonic clock. Nodes that are no members are taken out.
    at_ms: Arc<Mutex<BTreeMap<i32, i64>>>,
}

impl LastContacts {
    pub(super) fn since_ms(&self, node_id: i32) -> Option<i64> {
        let at_ms = self.at_ms.lock().get(&node_id).copied()?;
        Some(self.clock.now().monotonic_ms - at_ms)
    }
}

/// A proposal that was accepted. It is committed when an entry of this index and epoch is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProposalId {
    pub index: u64,
    pub epoch: i32,
}

/// An entry that was applied, and the offset of its last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    pub proposal_id: ProposalId,
    pub offset: i64,
}

/// What the leader has of a member beside raft's own account. Times are of the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contact {
    pub(super) last_tick: u64,
    pub(super) last_ms: Option<i64>,
    pub(super) caught_up_ms: Option<i64>,
    /// Since when it is being sent a snapshot.
    snapshot_tick: Option<u64>,
}

pub struct Node<M> {
    pub(super) raft: RawNode<Storage>,
    pub(super) key: VoterKey,
    pub(super) clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    disk_watch: Arc<DiskWatch>,
    machine: M,
    transport: Box<dyn Transport>,
    snapshot_bytes: u64,
    /// What the machine has applied: the index of the last entry, and the offset of the last record.
    applied: u64,
    state_offset: i64,
    committed: Vec<Committed>,
    /// The last epoch in which this node, as leader, has applied an entry of its own.
    own_epoch: Option<i32>,
    /// As in the storage, to be handed out.
    pub(super) voters: Arc<VoterSet>,
    /// Where to reach members that are not in it, by raft's ids.
    peer_addresses: BTreeMap<u64, Voter>,
    pub(super) ticks: u64,
    /// Since when it leads.
    pub(super) led_since_tick: Option<u64>,
    /// For how many ticks this node waits for a message of a leader.
    leader_timeout_ticks: usize,
    pub(super) contacts: BTreeMap<u64, Contact>,
    last_contacts: LastContacts,
    pub(super) pending_membership: PendingMembership,
    pub(super) read_index_requests: ReadIndexRequests,
    /// What could not be put on disk because it was full.
    unfinished: Option<Ready>,
    /// Why the node does nothing any more.
    failure: Option<QuorumError>,
}

impl Node<()> {
    /// Writes what a cluster of these voters begins with. Each of them does so, with the same set, once. Durable when
    /// this returns.
    pub fn bootstrap(
        disk: &dyn storage::Disk,
        dir: &Path,
        clock: &dyn Clock,
        voters: &VoterSet,
    ) -> Result<(), QuorumError> {
        raft_storage::bootstrap(disk, dir, clock, voters)
    }

    /// Whether a directory is that of a node that belongs to no cluster. Such a one can be opened; it waits to be sent
    /// a snapshot as an observer.
    pub fn is_blank(disk: &dyn storage::Disk, dir: &Path) -> Result<bool, QuorumError> {
        raft_storage::is_blank(disk, dir)
    }
}

impl<M: StateMachine> Node<M> {
    /// Opens a node, and brings the machine to what is known to be committed.
    pub fn open(options: &Options, mut machine: M, transport: Box<dyn Transport>) -> Result<Self, QuorumError> {
        let (storage, snapshot) = Storage::open(options)?;
        let state_offset = snapshot.as_ref().map_or(-1, |snapshot| snapshot.id.position().offset);
        if let Some(snapshot) = snapshot {
            machine.restore(&snapshot.values, snapshot.id.position())?;
        }
        let applied = storage.snapshot_index();
        let voters = Arc::new(storage.voters().clone());
        let key = options.key();
        let config = raft::Config {
            id: key.raft_id(),
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            // The election timeout is drawn here, with the environment's randomness and not raft's own.
            min_election_tick: usize::MAX - 1,
            max_election_tick: usize::MAX,
            applied,
            max_size_per_msg: 1 << 20,
            max_inflight_msgs: 16,
            max_uncommitted_size: 64 << 20,
            check_quorum: true,
            pre_vote: true,
            ..raft::Config::default()
        };
        let raft = RawNode::new(&config, storage, &slog::Logger::root(ToTracing, slog::o!()))?;
        let mut node = Self {
            raft,
            key,
            clock: options.clock.clone(),
            random: options.random.clone(),
            disk_watch: options.disk_watch.clone(),
            machine,
            transport,
            snapshot_bytes: options.snapshot_bytes,
            applied,
            state_offset,
            committed: Vec::new(),
            own_epoch: None,
            voters,
            peer_addresses: BTreeMap::new(),
            ticks: 0,
            led_since_tick: None,
            leader_timeout_ticks: 0,
            contacts: BTreeMap::new(),
            last_contacts: LastContacts { clock: options.clock.clone(), at_ms: Arc::default() },
            pending_membership: PendingMembership::default(),
            read_index_requests: ReadIndexRequests::default(),
            unfinished: None,
            failure: None,
        };
        node.reset_election_timeout();
        node.drive()?;
        Ok(node)
    }

    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Which member this node is, if it is one.
    pub fn key(&self) -> VoterKey {
        self.key
    }

    pub fn is_only_voter(&self) -> bool {
        matches!(&self.voters.voters[..], [voter] if voter.key() == self.key)
    }

    pub(super) fn last_contacts(&self) -> LastContacts {
        self.last_contacts.clone()
    }

    pub(super) fn disk_watch(&self) -> Arc<DiskWatch> {
        Arc::clone(&self.disk_watch)
    }

    /// Whether another voter should lead, because the disk does not answer. A single voter goes on waiting for it.
    fn is_stalled(&self) -> bool {
        !self.is_only_voter() && self.disk_watch.is_stalled()
    }

    /// The epoch in which this node leads and has applied all that came before.
    pub fn leader_epoch(&self) -> Option<i32> {
        if storage::injected_fault!(DecideBeforeFirstCommit) {
            return self.leads().then_some(self.raft.raft.term as i32);
        }
        self.own_epoch.filter(|epoch| self.leads() && i64::from(*epoch) == self.raft.raft.term as i64)
    }

    pub(super) fn leads(&self) -> bool {
        self.failure.is_none() && self.raft.raft.state == StateRole::Leader
    }

    pub fn status(&self) -> QuorumStatus {
        let storage = self.raft.store();
        // What is committed and not applied, as when the disk is full, this node does not know yet.
        let committed = storage.offset_of(self.applied);
        QuorumStatus {
            leader: voters::node_id(self.raft.raft.leader_id).filter(|_| self.failure.is_none()),
            epoch: i32::try_from(self.raft.raft.term).unwrap_or(i32::MAX),
            own_epoch: self.leader_epoch(),
            voters: Arc::clone(&self.voters),
            high_watermark: committed.unwrap_or(self.state_offset) + 1,
            has_failed: self.failure.is_some(),
        }
    }

    /// Stands for election at once.
    pub fn campaign(&mut self) -> Result<(), QuorumError> {
        self.check()?;
        self.resume()?;
        self.reset_election_timeout();
        self.raft.raft.election_elapsed = 0;
        self.raft.campaign()?;
        self.drive()
    }

    /// Draws how long to wait for a leader.
    fn reset_election_timeout(&mut self) {
        let [byte, ..] = self.random.bytes();
        self.leader_timeout_ticks = ELECTION_TICKS + usize::from(byte) % ELECTION_TICKS;
    }

    /// For how many ticks a candidate waits for votes. Those whose votes were split stand again one after the other.
    fn votes_timeout_ticks(&self) -> usize {
        let voters = &self.voters.voters;
        let rank = voters.iter().position(|voter| voter.key() == self.key).unwrap_or(0);
        let turn = (rank + self.raft.raft.term as usize) % voters.len().max(1);
        VOTES_TICKS + TURN_TICKS * turn
    }

    /// Time passes, by a tick of the owner's choice.
    pub fn tick(&mut self) -> Result<(), QuorumError> {
        self.check()?;
        self.resume()?;
        self.ticks += 1;
        self.raft.tick();
        let raft = &self.raft.raft;
        let leader_timeout_ticks = match raft.state {
            StateRole::Follower => self.leader_timeout_ticks,
            _ => self.votes_timeout_ticks(),
        };
        let is_in_time = raft.state == StateRole::Leader || raft.election_elapsed < leader_timeout_ticks;
        let promotable = raft.promotable();
        if self.is_stalled() {
            self.leave_to_others();
        } else if !is_in_time && promotable {
            return self.campaign();
        }
        self.led_since_tick = self.leads().then(|| self.led_since_tick.unwrap_or(self.ticks));
        if self.has_lost_majority() {
            self.step_down_after_removal();
        }
        self.give_up_snapshots();
        self.drive()
    }

    /// Takes a message of another member. [`Self::drive`] has to follow, after one message or several. A message that
    /// no member sends is [`QuorumError::Impossible`], and changes nothing.
    pub fn receive(&mut self, message: Message) -> Result<(), QuorumError> {
        self.check()?;
        self.resume()?;
        use MessageType::*;
        let raft = &self.raft.raft;
        let is_meant = match message.get_msg_type() {
            MsgAppend | MsgHeartbeat | MsgSnapshot => true,
            // A blank node is no voter, whatever others think: it may have voted and forgotten.
            MsgRequestVote | MsgRequestPreVote => !self.is_blank_member() || storage::injected_fault!(EmptyDiskVotes),
            MsgAppendResponse | MsgHeartbeatResponse | MsgRequestVoteResponse | MsgRequestPreVoteResponse => true,
            MsgTimeoutNow => !self.is_stalled(),
            _ => false,
        };
        // What is for the node that this one was, with another disk, is not for this one.
        if !is_meant || message.to != raft.id || message.from == raft.id {
            return Ok(());
        }
        // A node that is elected relies on its entries being on disk. Messages that come with entries elect no node,
        // but a forged one may claim to.
        if matches!(message.get_msg_type(), MsgTimeoutNow | MsgRequestVoteResponse | MsgRequestPreVoteResponse) {
            self.drive()?;
        }
        self.admit_lost_end(&message);
        self.check_message(&message)?;
        self.record_contact(&message);
        self.believe_lost_end(&message);
        match self.raft.step(message) {
            // What does not concern this node, or comes too late, is no harm.
            Ok(()) | Err(raft::Error::StepPeerNotFound | raft::Error::StepLocalMsg) => {}
            Err(error) => return Err(error.into()),
        }
        self.update_caught_up();
        Ok(())
    }

    fn is_blank_member(&self) -> bool {
        self.raft.store().snapshot_index() == 0
    }

    fn record_contact(&mut self, message: &Message) {
        let Some(member) = self.voters.by_raft_id(message.from) else { return };
        let now_ms = self.clock.now().monotonic_ms;
        self.last_contacts.at_ms.lock().insert(member.node_id, now_ms);
        let contact = self.contacts.entry(message.from).or_default();
        (contact.last_tick, contact.last_ms) = (self.ticks, Some(now_ms));
    }

    /// Records when members were caught up.
    fn update_caught_up(&mut self) {
        if self.raft.raft.state != StateRole::Leader {
            return;
        }
        let last_index = self.raft.raft.raft_log.last_index();
        for (id, progress) in self.raft.raft.prs().iter() {
            if progress.matched == last_index
                && let Some(contact) = self.contacts.get_mut(id)
            {
                contact.caught_up_ms = contact.last_ms;
            }
        }
    }

    /// Where to reach members that are not in the voter set that this node has.
    pub fn add_peer_addresses(&mut self, members: Vec<Voter>) {
        for member in members {
            if self.peer_addresses.len() >= PEER_ADDRESSES_MAX {
                self.peer_addresses.clear();
            }
            self.peer_addresses.insert(member.raft_id(), member);
        }
    }

    /// Says whether a snapshot that was sent to a member has arrived. Until then it is sent nothing else: the transport
    /// must call this for each message of type `MsgSnapshot`.
    pub fn report_snapshot(&mut self, node_id: i32, arrived: bool) -> Result<(), QuorumError> {
        self.check()?;
        self.resume()?;
        let status = if arrived { raft::SnapshotStatus::Finish } else { raft::SnapshotStatus::Failure };
        for id in self.raft_ids(node_id) {
            self.raft.report_snapshot(id, status);
        }
        Ok(())
    }

    /// Messages to a member were lost.
    pub fn report_unreachable(&mut self, node_id: i32) -> Result<(), QuorumError> {
        self.check()?;
        self.resume()?;
        for id in self.raft_ids(node_id) {
            self.raft.report_unreachable(id);
        }
        Ok(())
    }

    /// The members that a node is, or was: while one replaces another there are two.
    fn raft_ids(&self, node_id: i32) -> Vec<u64> {
        self.voters.members().filter(|member| member.node_id == node_id).map(Voter::raft_id).collect()
    }

    /// Whether this is a leader that too few voters answer.
    fn has_lost_majority(&self) -> bool {
        let answers = |voter: &&Voter| voter.key() == self.key || self.ticks_since_contact(voter) < MAJORITY_LOST_TICKS;
        self.leads() && self.voters.voters.iter().filter(answers).count() <= self.voters.voters.len() / 2
    }

    /// For how long a member has been silent, while this node leads.
    pub(super) fn ticks_since_contact(&self, member: &Voter) -> u64 {
        let contact = self.contacts.get(&member.raft_id()).filter(|contact| contact.last_ms.is_some());
        let last_tick = contact.map_or(0, |contact| contact.last_tick);
        self.ticks - last_tick.max(self.led_since_tick.unwrap_or(self.ticks))
    }

    fn give_up_snapshots(&mut self) {
        let mut lost = Vec::new();
        for (id, progress) in self.raft.raft.prs().iter() {
            let contact = self.contacts.entry(*id).or_default();
            if progress.state != raft::ProgressState::Snapshot || self.raft.raft.state != StateRole::Leader {
                contact.snapshot_tick = None;
            } else if self.ticks - *contact.snapshot_tick.get_or_insert(self.ticks) >= SNAPSHOT_TICKS {
                lost.push(*id);
            }
        }
        for id in lost {
            self.raft.report_snapshot(id, raft::SnapshotStatus::Failure);
        }
    }

    /// The process of a node is known to be dead. If this voter follows it, the leader lease no longer holds back an
    /// election. Returns how many voters stand for election before this one.
    pub fn peer_down(&mut self, node_id: i32) -> Option<usize> {
        let leader = self.raft.raft.leader_id;
        if voters::node_id(leader) != Some(node_id) || leader == self.raft.raft.id || !self.raft.raft.promotable() {
            return None;
        }
        self.raft.raft.election_elapsed = self.raft.raft.election_elapsed.max(ELECTION_TICKS);
        let mut left = self.voters.voters.iter().filter(|voter| voter.raft_id() != leader);
        left.position(|voter| voter.key() == self.key)
    }

    /// How many voters stand for election before this one when no node leads, if there are several.
    pub fn rank(&self) -> Option<usize> {
        let may_stand = self.raft.raft.promotable() && !self.is_only_voter();
        self.voters.voters.iter().position(|voter| voter.key() == self.key).filter(|_| may_stand)
    }

    /// Whether no new leader has been heard from after a leader died.
    pub fn may_succeed(&self) -> bool {
        let raft = &self.raft.raft;
        let has_leader_again = raft.leader_id != raft::INVALID_ID && raft.election_elapsed < ELECTION_TICKS;
        matches!(raft.state, StateRole::Follower | StateRole::PreCandidate)
            && !has_leader_again
            && raft.promotable()
            && !self.is_stalled()
    }

    /// Whether another voter may have the disk space that this one lacks. When none has, they do not take turns all the
    /// time.
    fn may_hand_over_for_disk_space(&self) -> bool {
        let led_ticks = self.led_since_tick.map_or(0, |since| self.ticks - since);
        !self.is_only_voter() && self.unfinished.is_none() && led_ticks >= ROOM_TICKS
    }

    /// Stops leading before the next access to the disk, which may block this thread for long. Nothing of it has to be
    /// written.
    fn leave_to_others(&mut self) {
        if self.leads() && self.unfinished.is_none() {
            tracing::warn!("the disk does not answer; another voter is asked to lead the metadata quorum");
            self.step_down();
        }
    }

    /// Stops leading, as the others have had time to elect another leader. A single voter goes on.
    pub fn step_down_after_removal(&mut self) {
        if self.leads() && !self.is_only_voter() && self.unfinished.is_none() {
            let term = self.raft.raft.term;
            self.raft.raft.msgs.clear();
            self.raft.raft.become_follower(term, raft::INVALID_ID);
        }
    }

    /// The index of the last entry that was applied.
    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    /// The index of the last entry there is.
    pub(super) fn last_index(&self) -> u64 {
        self.raft.raft.raft_log.last_index()
    }

    /// Offset of the last record that the machine has applied, or of the snapshot that it started from.
    pub fn state_offset(&self) -> i64 {
        self.state_offset
    }

    /// Proposes records as one entry, in the epoch in which they were decided. They were decided on the state at
    /// `after`; if they would not follow it they are refused.
    pub fn propose(&mut self, epoch: i32, after: i64, values: &[Bytes]) -> Result<ProposalId, QuorumError> {
        self.check()?;
        self.resume()?;
        if self.leader_epoch() != Some(epoch) || self.is_stalled() {
            return Err(QuorumError::NotLeader);
        }
        if self.state_offset != after || self.raft.raft.raft_log.last_index() != self.applied {
            return Err(QuorumError::Superseded);
        }
        let batch = self.raft.store().batch_of(values);
        let needed = batch.bytes.len() as u64 + FREE_BYTES_MIN;
        if self.raft.store().free_bytes()? < needed {
            if self.may_hand_over_for_disk_space() {
                tracing::warn!("there is no room for metadata; another voter is asked to lead the quorum");
                self.step_down();
                return Err(QuorumError::NotLeader);
            }
            return Err(QuorumError::DiskFull);
        }
        self.raft.propose(Vec::new(), batch.bytes.to_vec())?;
        Ok(ProposalId { index: self.raft.raft.raft_log.last_index(), epoch })
    }

    /// Entries that were applied since the last call.
    pub fn take_committed(&mut self) -> Vec<Committed> {
        std::mem::take(&mut self.committed)
    }

    pub(super) fn check(&self) -> Result<(), QuorumError> {
        match &self.failure {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Finishes what a full disk had interrupted. Until then raft accepts nothing.
    pub(super) fn resume(&mut self) -> Result<(), QuorumError> {
        if self.unfinished.is_some() { self.drive() } else { Ok(()) }
    }

    /// Does all pending work. When the disk is full it stops, and goes on with the next call; any other error ends the
    /// node, which answers with it from then on.
    pub fn drive(&mut self) -> Result<(), QuorumError> {
        self.check()?;
        loop {
            let worked = self.work().and_then(|()| self.change_members());
            match worked {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => return Err(self.fail(error)),
            }
        }
    }

    fn fail(&mut self, error: QuorumError) -> QuorumError {
        if !error.is_retriable() {
            tracing::error!(%error, "the metadata quorum has stopped");
            self.failure = Some(error.clone());
        }
        error
    }

    fn work(&mut self) -> Result<(), QuorumError> {
        loop {
            let mut ready = match self.unfinished.take() {
                Some(ready) => ready,
                None if self.raft.has_ready() => {
                    let mut ready = self.raft.ready();
                    self.send(ready.take_messages());
                    self.record_confirmed(ready.take_read_states());
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

    pub(super) fn send(&mut self, messages: Vec<Message>) {
        for message in messages {
            let to = self.voters.by_raft_id(message.to).or_else(|| self.peer_addresses.get(&message.to));
            match to {
                Some(to) => self.transport.send(to, message),
                None => tracing::debug!(to = message.to, "a message to a member of which it is not known where it is"),
            }
        }
    }

    fn persist(&mut self, ready: &Ready) -> Result<(), QuorumError> {
        let leader = self.raft.raft.leader_id;
        let metadata = ready.snapshot().get_metadata();
        if metadata.index > self.applied {
            let snapshot = Snapshot::decode(ready.snapshot().data.clone())?;
            self.raft.mut_store().install(&snapshot)?;
            self.set_voters(snapshot.voters.clone());
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
            match entry.get_entry_type() {
                EntryType::EntryNormal if entry.data.is_empty() => {}
                EntryType::EntryNormal => {
                    let batch = Batch::parse(&entry.data).map_err(QuorumError::corrupt)?;
                    let (values, timestamp_ms) = (batches::values(&batch)?, batch.header.max_timestamp);
                    self.machine.apply(&values, Position { offset, epoch }, timestamp_ms)?;
                    self.state_offset = offset;
                }
                _ => self.apply_change(entry)?,
            }
            self.applied = entry.index;
            if self.raft.raft.state == StateRole::Leader && entry.term == self.raft.raft.term {
                self.own_epoch = Some(epoch);
            }
            self.committed.push(Committed { proposal_id: ProposalId { index: entry.index, epoch }, offset });
        }
        Ok(())
    }

    fn apply_change(&mut self, entry: &Entry) -> Result<(), QuorumError> {
        let change = ConfChange::parse_from_bytes(&entry.data).map_err(QuorumError::corrupt)?;
        let batch = Batch::parse(&entry.context).map_err(QuorumError::corrupt)?;
        let set = VoterSet::from_batch(&batch)?
            .ok_or_else(|| QuorumError::corrupt(format!("entry {} changes the members to none", entry.index)))?;
        self.raft.apply_conf_change(&change)?;
        match self.raft.mut_store().keep_commit(entry.index) {
            // It is known again when a node leads.
            Err(error) if error.is_retriable() => tracing::warn!(%error, "a change of the members is not noted"),
            kept => kept?,
        }
        self.set_voters(set);
        Ok(())
    }

    fn set_voters(&mut self, set: VoterSet) {
        self.contacts.retain(|id, _| set.by_raft_id(*id).is_some());
        self.last_contacts.at_ms.lock().retain(|id, _| set.members().any(|member| member.node_id == *id));
        self.voters = Arc::new(set.clone());
        self.raft.mut_store().set_voters(set);
        if self.raft.raft.state == StateRole::Leader && self.voters.voter(self.key).is_none() {
            self.step_down();
        }
    }

    /// Ends the leadership of a node that must not go on with it, and lets the voter with the most entries take over.
    fn step_down(&mut self) {
        if let Some(transfer_target) = self.transfer_target() {
            self.raft.raft.send_timeout_now(transfer_target);
        }
        let messages = std::mem::take(&mut self.raft.raft.msgs);
        let term = self.raft.raft.term;
        self.raft.raft.become_follower(term, raft::INVALID_ID);
        self.send(messages);
    }

    /// A snapshot that cannot be written for lack of space is tried again later.
    fn snapshot_if_due(&mut self) -> Result<(), QuorumError> {
        let storage = self.raft.store();
        let is_wanted = storage.is_snapshot_wanted() && storage.snapshot_index() < self.applied;
        if storage.entries_bytes() < self.snapshot_bytes && !is_wanted {
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
