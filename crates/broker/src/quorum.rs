//! The metadata quorum: a log of entries that the voters agree on, and a state machine that they are applied to.
//!
//! The consensus itself is TiKV's `raft` crate. Around it stand [`Node`], which drives it step by step and is pure but
//! for its disk, [`storage`](self), which keeps its entries in Kafka's format in `__cluster_metadata-0`, and
//! [`Quorum`], the handle of a thread that owns a node.
//!
//! What holds:
//! - An entry is one record batch: a change of metadata is there as a whole or not at all. The batch's leader epoch is
//!   the entry's term. A new leader's first entry is a LeaderChange control batch, as in Kafka.
//! - A batch is on disk before the next one is written. After a crash only the last one can be torn; a bad batch in
//!   front of another one is damage, and the node does not start rather than forget a change that it had promised.
//! - Entries are applied in order, each once in the life of the process. A proposal is answered when it is applied.
//! - The node that is the only voter is leader as soon as it has written one entry.
//!
//! Offsets are the log's; raft counts entries. The snapshot knows both of its place, from there on entries are counted.

mod batches;
mod node;
mod snapshot;
mod state_file;
mod storage;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use log::{Disk, LogError};
pub use node::{Committed, Node, Ticket};
pub use snapshot::SnapshotId;
use tokio::sync::{mpsc, oneshot, watch};

use crate::env::Clock;

/// The directory of the metadata log in a data directory.
pub const METADATA_DIR: &str = "__cluster_metadata-0";

/// Where in the log a state is: behind the record of this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub offset: i64,
    pub epoch: i32,
}

/// What entries are applied to. All voters' machines get the same in the same order.
pub trait StateMachine: Send + 'static {
    /// Applies one entry, the last record of which is at `at`.
    fn apply(&mut self, values: &[Bytes], at: Position) -> Result<(), StateMachineError>;
    /// Becomes what a snapshot says.
    fn restore(&mut self, values: &[Bytes], at: Position) -> Result<(), StateMachineError>;
    /// Records that make the state out of nothing.
    fn snapshot(&self) -> Vec<Bytes>;
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

/// Messages to the other voters. They may be lost, repeated and reordered.
pub trait Transport: Send + 'static {
    fn send(&mut self, message: raft::eraftpb::Message);
}

/// For a node that is alone.
pub struct NoPeers;

impl Transport for NoPeers {
    fn send(&mut self, message: raft::eraftpb::Message) {
        tracing::warn!(to = message.to, "a message to a voter that cannot be reached");
    }
}

/// What a node needs to know.
pub struct Options {
    pub disk: Arc<dyn Disk>,
    pub clock: Arc<dyn Clock>,
    /// The directory of the log: DATA_DIR/__cluster_metadata-0.
    pub dir: PathBuf,
    pub node_id: i32,
    /// Ids of all voters.
    pub voters: Vec<i32>,
    pub segment_bytes: u32,
    /// Bytes of entries after which a snapshot is written.
    pub snapshot_bytes: u64,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum QuorumError {
    #[error("this node does not lead the metadata quorum")]
    NotLeader,
    /// What was proposed rests on a state that is not the newest.
    #[error("the metadata has changed meanwhile")]
    Superseded,
    #[error("the metadata quorum has stopped")]
    Stopped,
    /// Retriable: nothing was written.
    #[error("the disk is full")]
    DiskFull,
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("{0}")]
    Io(Arc<std::io::Error>),
    #[error("the metadata log is damaged: {0}")]
    Corrupt(Arc<str>),
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
    fn is_retriable(&self) -> bool {
        match self {
            Self::NotLeader | Self::Superseded | Self::DiskFull => true,
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

/// Proposals that may wait. One more waits to wait.
const QUEUE_MAX: usize = 64;

type Reply = oneshot::Sender<Result<i64, QuorumError>>;

struct Proposal {
    epoch: i32,
    /// The offset of the state that it was thought up on.
    after: i64,
    /// Empty to have only finished what is under way.
    values: Vec<Bytes>,
    reply: Reply,
}

/// Proposals that were accepted, by the index of their entry.
type Pending = BTreeMap<u64, (Ticket, Reply)>;

fn refuse(reply: Reply, error: QuorumError) {
    tracing::error!(%error, "a change of metadata failed");
    // Who asked may be gone by now.
    _ = reply.send(Err(error));
}

/// The handle of a running node. Cheap to clone; the node stops when the last clone is gone.
#[derive(Clone)]
pub struct Quorum {
    proposals: mpsc::Sender<Proposal>,
    leadership: watch::Receiver<Option<i32>>,
}

impl Quorum {
    /// Gives a node its thread, as its writes to disk take their time. A node that is the only voter leads when this
    /// returns. The thread is to be joined after the last handle is dropped; it returns why it ended early.
    pub fn start<M: StateMachine>(
        mut node: Node<M>,
    ) -> Result<(Self, thread::JoinHandle<Result<(), QuorumError>>), QuorumError> {
        if node.is_only_voter() {
            node.campaign()?;
        }
        let (proposals, mut queue) = mpsc::channel::<Proposal>(QUEUE_MAX);
        let (announce, leadership) = watch::channel(node.leader_epoch());
        let run = move || {
            let mut pending = Pending::default();
            while let Some(proposal) = queue.blocking_recv() {
                let proposed = match proposal.values.is_empty() {
                    true => Ok(None),
                    false => node.propose(proposal.epoch, proposal.after, &proposal.values).map(Some),
                };
                let driven = node.drive();
                // Before anybody is answered, so that who hears of the end of an epoch finds it ended.
                let leads_in = node.leader_epoch();
                announce.send_if_modified(|before| std::mem::replace(before, leads_in) != leads_in);
                match (proposed, &driven) {
                    (Ok(Some(ticket)), _) => _ = pending.insert(ticket.index, (ticket, proposal.reply)),
                    // Who asked may be gone by now.
                    (Ok(None), Ok(())) => _ = proposal.reply.send(Ok(node.state_offset())),
                    (Ok(None), Err(error)) => refuse(proposal.reply, error.clone()),
                    (Err(error), _) => refuse(proposal.reply, error),
                }
                if let Err(error) = driven {
                    for (_, reply) in std::mem::take(&mut pending).into_values() {
                        refuse(reply, error.clone());
                    }
                }
                for committed in node.take_committed() {
                    let Some((ticket, reply)) = pending.remove(&committed.ticket.index) else { continue };
                    // Another entry in its place is another leader's.
                    let is_own = ticket == committed.ticket;
                    _ = reply.send(if is_own { Ok(committed.offset) } else { Err(QuorumError::NotLeader) });
                }
            }
            node.close()
        };
        let thread = thread::Builder::new().name("quorum".to_owned()).spawn(run)?;
        Ok((Self { proposals, leadership }, thread))
    }

    /// The epoch that this node leads in: it has applied everything of the epochs before.
    pub fn leader_epoch(&self) -> Option<i32> {
        *self.leadership.borrow()
    }

    /// Has records committed together, in the epoch in which they were thought up and after the offset of the state on
    /// which they were, and returns the offset of the last when they are applied. After an error they may still come:
    /// [`Self::settle`] tells.
    pub async fn propose(&self, epoch: i32, after: i64, values: Vec<Bytes>) -> Result<i64, QuorumError> {
        self.ask(epoch, after, values).await
    }

    /// Finishes what an error left under way. When it succeeds, whatever is going to come of it has come.
    pub async fn settle(&self) -> Result<(), QuorumError> {
        self.ask(0, 0, Vec::new()).await.map(|_| ())
    }

    async fn ask(&self, epoch: i32, after: i64, values: Vec<Bytes>) -> Result<i64, QuorumError> {
        let (reply, outcome) = oneshot::channel();
        let proposal = Proposal { epoch, after, values, reply };
        self.proposals.send(proposal).await.map_err(|_| QuorumError::Stopped)?;
        outcome.await.map_err(|_| QuorumError::Stopped)?
    }
}
