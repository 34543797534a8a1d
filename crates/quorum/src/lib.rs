//! The metadata quorum: a log of entries that the voters agree on, and a state machine that they are applied to.
//!
//! The consensus itself is TiKV's `raft` crate. Around it stand [`Node`], which drives it step by step and is pure but
//! for its disk, [`storage`](self), which keeps its entries in Kafka's format in `__cluster_metadata-0`, and
//! [`Quorum`], the handle of the task that owns a node.
//!
//! What holds:
//! - An entry is one record batch: a change of metadata is there as a whole or not at all. The batch's leader epoch is
//!   the entry's term. A new leader's first entry is a LeaderChange control batch, as in Kafka, and a change of the
//!   members is a KRaftVoters control batch.
//! - A batch is on disk before the next one is written, or the offset where several begin is. After a crash only the
//!   last one can be torn, or what was written from that offset on, which is truncated; any other bad batch is damage,
//!   and so is a log that ends before its synced offset. Then the node does not start rather than lose an acknowledged
//!   change. [`recover`] says how to go on.
//! - Snapshots and the vote are on disk twice. A damaged copy is restored from the other one, and never removed.
//! - Entries are applied in order, each once in the life of the process. A proposal is answered when it is applied.
//! - The node that is the only voter is leader as soon as it has written one entry.
//! - A member is a disk, not a machine ([`VoterKey`]): with a new disk a node is another member and cannot vote as the
//!   old one.
//! - Members come and go one at a time, as a committed entry, and each set's majority has a voter of the next one's.
//!
//! Offsets are the log's; raft counts entries. The snapshot has both of its position, from there on entries are
//! counted. A cluster begins with a snapshot of nothing but its voters, as entry 1, so that a node that joins later
//! with an empty disk is sent a snapshot first and learns the other members from it.

mod batches;
pub mod copies;
mod driver;
mod messages;
mod node;
mod raft_storage;
pub mod recover;
mod snapshot;
mod state_file;
mod status_watch;
mod synced;
#[cfg(test)]
pub mod tests;
mod voters;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
pub use driver::Driver;
use driver::{Command, Event, Events, Hint, Proposal};
pub use messages::{from_wire, is_from, to_wire};
pub use node::read_index::Confirmed;
pub use node::{Committed, Node, ProposalId};
use platform::{Clock, DiskWatch, Random, panics};
use raft::eraftpb::Message;
pub use snapshot::SnapshotId;
pub use status_watch::{StatusWatch, Stopped};
use storage::{Disk, LogError};
use tokio::sync::{mpsc, oneshot};
pub use voters::{Voter, VoterKey, VoterSet};

/// The directory of the metadata log in a data directory.
pub const METADATA_DIR: &str = "__cluster_metadata-0";

/// Where in the log a state is: behind the record of this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub offset: i64,
    pub epoch: i32,
}

/// What entries are applied to. All members' machines get the same in the same order.
pub trait StateMachine: Send + 'static {
    /// Applies one entry, the last record of which is at `at`. It was proposed at that time, by its leader's clock.
    fn apply(&mut self, values: &[Bytes], at: Position, timestamp_ms: i64) -> Result<(), StateMachineError>;
    /// Becomes what a snapshot says.
    fn restore(&mut self, values: &[Bytes], at: Position) -> Result<(), StateMachineError>;
    /// Records that make the state out of nothing.
    fn snapshot(&self) -> Vec<Bytes>;
    /// Whether these can be records of an entry at all, whatever the state is when it is applied.
    fn check(&self, values: &[Bytes]) -> Result<(), StateMachineError>;
}

/// An entry cannot be applied: the log is damaged or comes from a newer version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StateMachineError(Arc<str>);

impl StateMachineError {
    pub fn new(error: impl std::fmt::Display) -> Self {
        Self(error.to_string().into())
    }
}

/// Messages to the other members. They may be lost, repeated and reordered. Must not wait.
///
/// The transport must report for each message of type `MsgSnapshot` whether it arrived ([`Quorum::snapshot_sent`]), as
/// nothing else is sent to that member meanwhile.
pub trait Transport: Send + 'static {
    fn send(&mut self, to: &Voter, message: Message);
}

/// For a node that is alone.
pub struct NoPeers;

impl Transport for NoPeers {
    fn send(&mut self, to: &Voter, _message: Message) {
        tracing::warn!(node = to.node_id, "a message to a member that cannot be reached");
    }
}

/// What a node needs to know.
pub struct Options {
    pub disk: Arc<dyn Disk>,
    pub clock: Arc<dyn Clock>,
    /// For how long it waits before it stands for election.
    pub random: Arc<dyn Random>,
    /// The directory of the log: DATA_DIR/__cluster_metadata-0.
    pub dir: PathBuf,
    pub node_id: i32,
    /// Of `meta.properties`, where the log's directory is.
    pub directory_id: wire::Uuid,
    pub segment_bytes: u32,
    /// Bytes of entries after which a snapshot is written.
    pub snapshot_bytes: u64,
    /// Of the disk that the log is on.
    pub disk_watch: Arc<DiskWatch>,
}

impl Options {
    fn key(&self) -> VoterKey {
        VoterKey { node_id: self.node_id, directory_id: self.directory_id }
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum QuorumError {
    #[error("this node does not lead the metadata quorum")]
    NotLeader,
    /// The proposal was decided on a state that is not the newest.
    #[error("the metadata has changed meanwhile")]
    Superseded,
    #[error("another change of the members of the metadata quorum is under way")]
    ChangeUnderWay,
    #[error("node {} with directory {} is no member of the metadata quorum", .0.node_id, .0.directory_id)]
    UnknownMember(VoterKey),
    #[error("the metadata quorum has as many members as it may have")]
    TooManyMembers,
    #[error("the last voter of the metadata quorum cannot be removed")]
    LastVoter,
    #[error("the metadata quorum has stopped")]
    Stopped,
    /// A message that no member sends. Nothing came of it.
    #[error("{0}")]
    Impossible(Arc<str>),
    /// Retriable: nothing was written.
    #[error("the disk is full")]
    DiskFull,
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("{0}")]
    Io(Arc<std::io::Error>),
    #[error(
        "the metadata log is damaged: {0}; all files are left as they are, and 'parshall recover' shows how to go on"
    )]
    Corrupt(Arc<str>),
    #[error(
        "this node's vote in the metadata quorum is lost ({0}), and made anew it might be given twice; all files are left \
         as they are, and 'parshall recover' shows how to go on"
    )]
    VoteLost(Arc<str>),
    #[error("the metadata cannot be applied: {0}")]
    StateMachine(#[from] StateMachineError),
    #[error("{0}")]
    Raft(Arc<str>),
}

impl QuorumError {
    fn corrupt(reason: impl std::fmt::Display) -> Self {
        Self::Corrupt(reason.to_string().into())
    }

    /// Whether the node can go on.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::NotLeader
            | Self::Superseded
            | Self::ChangeUnderWay
            | Self::UnknownMember(_)
            | Self::TooManyMembers
            | Self::LastVoter
            | Self::Impossible(_)
            | Self::DiskFull => true,
            Self::Log(error) => error.is_retriable(),
            _ => false,
        }
    }
}

impl From<std::io::Error> for QuorumError {
    fn from(error: std::io::Error) -> Self {
        match LogError::from(error) {
            LogError::DiskFull(_) => Self::DiskFull,
            LogError::Io(error) => Self::Io(error),
            error => Self::Log(error),
        }
    }
}

impl From<raft::Error> for QuorumError {
    fn from(error: raft::Error) -> Self {
        match error {
            raft::Error::ProposalDropped => Self::NotLeader,
            error => Self::Raft(error.to_string().into()),
        }
    }
}

/// What a node knows of the quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumStatus {
    /// The node that leads, as far as this one knows.
    pub leader: Option<i32>,
    pub epoch: i32,
    /// The epoch that this node leads in: it has applied everything of the epochs before.
    pub own_epoch: Option<i32>,
    /// Empty while the node is blank.
    pub voters: Arc<VoterSet>,
    /// The first offset that is not known to be committed, or not applied here yet.
    pub high_watermark: i64,
    /// Its log on this node takes no more.
    pub has_failed: bool,
}

impl QuorumStatus {
    /// Which node to ask if the leader is not known: the other voters in turn. A single node decides itself.
    pub fn other_voter(&self, node_id: i32, attempt: usize) -> Option<i32> {
        let ids = self.voters.voters.iter().map(|voter| voter.node_id);
        let others: Vec<i32> = ids.filter(|id| *id != node_id).collect();
        if others.is_empty() { self.leader } else { others.get(attempt % others.len()).copied() }
    }
}

/// How far a member is, as the leader knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    pub key: VoterKey,
    pub is_voter: bool,
    /// -1 as long as it is not known.
    pub log_end_offset: i64,
    /// Milliseconds since 1970 of its last message, and of the last one that said that it had everything; -1 for never.
    pub last_heard_ms: i64,
    pub last_caught_up_ms: i64,
}

/// How long a leader waits for another one to take over.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(1);

/// The handle of a running node. Cheap to clone; the node stops when the last clone is dropped.
#[derive(Clone)]
pub struct Quorum {
    node_id: i32,
    commands: mpsc::Sender<Command>,
    events: Events,
    status: StatusWatch,
    last_contacts: node::LastContacts,
    disk_watch: Arc<DiskWatch>,
}

impl Quorum {
    /// Gives a node its thread, as its writes to disk take their time. A node that is the only voter leads when this
    /// returns. The thread is to be joined after the last handle is dropped; it returns why it ended early.
    pub fn start<M: StateMachine>(
        node: Node<M>,
    ) -> Result<(Self, thread::JoinHandle<Result<(), QuorumError>>), QuorumError> {
        // Its own, so that it does not outlive timers of another runtime.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (quorum, driver) = Self::prepare(node)?;
        let run = move || runtime.block_on(driver.run());
        let thread = panics::essential_thread("quorum".to_owned(), run)?;
        Ok((quorum, thread))
    }

    /// As [`Self::start`], but the caller runs the node in a task of its own, which blocks while the disk is slow.
    pub fn prepare<M: StateMachine>(mut node: Node<M>) -> Result<(Self, Driver<M>), QuorumError> {
        if node.is_only_voter() {
            node.campaign()?;
        }
        let (commands, queue) = mpsc::channel(driver::QUEUE_MAX);
        let (events, arrived) = Events::new();
        let (announcer, status) = status_watch::announce(node.status());
        let (node_id, last_contacts, disk_watch) = (node.key().node_id, node.last_contacts(), node.disk_watch());
        let quorum = Self { node_id, commands, events, status, last_contacts, disk_watch };
        Ok((quorum, Driver::new(node, queue, arrived, announcer)))
    }

    /// The epoch that this node leads in: it has applied everything of the epochs before.
    pub fn leader_epoch(&self) -> Option<i32> {
        self.status().own_epoch
    }

    /// What is known of the quorum. What was answered shows here.
    pub fn status(&self) -> QuorumStatus {
        self.status.status()
    }

    /// Each change of what is known.
    pub fn watch_status(&self) -> StatusWatch {
        self.status.clone()
    }

    /// Whether this node's disk does not answer. What the status says may be old then: the quorum's thread waits for
    /// the disk, too.
    pub fn is_disk_stalled(&self) -> bool {
        self.disk_watch.is_stalled()
    }

    /// For how many milliseconds a node has been silent, if it ever said anything: the other members where this node
    /// leads, else the nodes that led or stood for election.
    pub fn ms_since_contact(&self, node_id: i32) -> Option<i64> {
        self.last_contacts.since_ms(node_id)
    }

    /// Has records committed together, in the epoch in which they were decided and after the offset of the state that
    /// the decision was made on, and returns the offset of the last when they are applied. After an error they may
    /// still be applied: [`Self::settle`] finds out.
    pub async fn propose(&self, epoch: i32, after: i64, values: Vec<Bytes>) -> Result<i64, QuorumError> {
        self.ask(|reply| Command::Propose(Proposal { epoch, after, values, reply })).await
    }

    /// Waits for the outcome of proposals that an error left in flight. When it succeeds, they are applied or never
    /// will be.
    pub async fn settle(&self) -> Result<(), QuorumError> {
        self.ask(Command::Settle).await
    }

    /// Adds a member as observer, or updates its address. It returns when that is committed; for a member that wants to
    /// vote, when it is a voter, which takes as long as it needs to catch up. A member replaces a silent voter with the
    /// same node id by itself. Only the leader does it, and a request is forgotten with its leadership: send it to the
    /// next leader again. Sending it twice does no harm.
    pub async fn join(&self, member: Voter, wants_to_vote: bool) -> Result<(), QuorumError> {
        self.ask(|reply| Command::Join { member, wants_to_vote, reply }).await
    }

    /// Makes an observer a voter, as [`Self::join`] does.
    pub async fn promote(&self, key: VoterKey) -> Result<(), QuorumError> {
        let member = self.status().voters.member(key).cloned();
        self.join(member.ok_or(QuorumError::UnknownMember(key))?, true).await
    }

    /// Removes a voter or an observer; returns when that is committed. A leader that removes itself leads no longer.
    pub async fn remove(&self, key: VoterKey) -> Result<(), QuorumError> {
        self.ask(|reply| Command::Remove { key, reply }).await
    }

    /// Hands the leadership to another voter, if one has all entries. Returns whether another one leads.
    pub async fn transfer_leadership(&self) -> bool {
        let mut status = self.watch_status();
        let is_under_way = self.ask(Command::Transfer).await.unwrap_or_default();
        let is_handed_over = |status: &QuorumStatus| status.leader.is_some_and(|leader| leader != self.node_id);
        if !is_under_way {
            return is_handed_over(&status.status());
        }
        let handed_over = tokio::time::timeout(TRANSFER_TIMEOUT, status.wait_for(is_handed_over)).await;
        matches!(handed_over, Ok(Ok(_)))
    }

    /// What is committed, as a leader that most voters follow knows it: nothing that was committed before the call is
    /// left out. Only the leader knows, once it has committed an entry of its own epoch.
    pub async fn confirm(&self) -> Result<Confirmed, QuorumError> {
        self.ask(Command::Confirm).await
    }

    /// How far the members are. Only the leader knows.
    pub async fn replicas(&self) -> Result<Vec<Replica>, QuorumError> {
        self.ask(Command::Replicas).await
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, QuorumError>>) -> Command,
    ) -> Result<T, QuorumError> {
        let (reply, outcome) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| QuorumError::Stopped)?;
        outcome.await.map_err(|_| QuorumError::Stopped)?
    }

    /// Takes messages that came from an address. Messages that do not fit the queue are dropped, as a network does, and
    /// so are messages that no member sends; the latter are logged.
    pub fn step(&self, from: SocketAddr, messages: Vec<Message>) {
        self.events.push(Event::Messages { from, messages });
    }

    /// Messages that were dropped because no member sends such.
    pub fn refused_messages(&self) -> u64 {
        self.events.refused().get()
    }

    /// Counts messages that were dropped before they came here.
    pub fn record_refused(&self, messages: u64) {
        self.events.refused().add(messages);
    }

    /// Ends the node. Later requests fail, and remaining handles keep nothing alive.
    pub fn stop(&self) {
        self.events.stop();
    }

    /// Adds addresses of members that this node's voter set may not have yet: its leader, while it is blank or behind.
    pub fn add_peer_addresses(&self, members: Vec<Voter>) {
        self.events.push(Event::AddPeerAddresses(members));
    }

    /// The process of a node is known to be dead. If it led, its followers need not wait to elect another.
    pub fn peer_down(&self, node_id: i32) {
        self.events.hint(node_id, Hint::Down);
    }

    /// Whether a snapshot that was sent to a node has arrived there.
    pub fn snapshot_sent(&self, node_id: i32, arrived: bool) {
        self.events.hint(node_id, if arrived { Hint::SnapshotArrived } else { Hint::SnapshotLost });
    }

    /// Messages to a node have been lost.
    pub fn unreachable(&self, node_id: i32) {
        self.events.hint(node_id, Hint::Unreachable);
    }
}
