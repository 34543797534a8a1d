//! The task that owns a node. Proposals, messages of other members and ticks come in one at a time; a caller is
//! answered when its entry is applied.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use platform::{Allowed, Count, LogLimit};
use raft::eraftpb::Message;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::node::ELECTION_TICKS;
use super::node::members::Joined;
use super::node::read_index::{Confirmed, READ_INDEX_REQUESTS_MAX};
use super::status_watch::Announcer;
use super::{Node, ProposalId, QuorumError, Replica, StateMachine, Voter, VoterKey, messages};

/// Raft's unit of time.
const TICK: Duration = Duration::from_millis(100);

/// How long voters leave each other when their leader is known to be dead, so that they do not all stand at once, and
/// how often each stands before it waits as for any other leader.
const SUCCESSION_STEP: Duration = Duration::from_millis(50);
const SUCCESSION_ROUNDS: u32 = 10;

/// How many requests may wait. Callers of further ones wait to enqueue them.
pub(super) const QUEUE_MAX: usize = 64;

/// Bounds of received messages that wait: in groups, and in bytes. A larger message waits alone.
const GROUPS_MAX: usize = 256;
const BYTES_MAX: usize = 64 << 20;

/// Groups of messages that are taken up together.
const ROUND_MAX: usize = 64;

/// Nodes for which hints may wait that the quorum has not received yet.
const HINTS_MAX: usize = 1024;

pub(super) type Reply<T> = oneshot::Sender<Result<T, QuorumError>>;

pub(super) struct Proposal {
    pub(super) epoch: i32,
    /// The offset of the state that it was decided on.
    pub(super) after: i64,
    pub(super) values: Vec<Bytes>,
    pub(super) reply: Reply<i64>,
}

pub(super) enum Command {
    Propose(Proposal),
    Settle(Reply<()>),
    Join {
        member: Voter,
        wants_to_vote: bool,
        reply: Reply<()>,
    },
    Remove {
        key: VoterKey,
        reply: Reply<()>,
    },
    /// Answered with whether a transfer is under way.
    Transfer(Reply<bool>),
    Replicas(Reply<Vec<Replica>>),
    Confirm(Reply<Confirmed>),
}

pub(super) enum Event {
    Messages { from: SocketAddr, messages: Vec<Message> },
    AddPeerAddresses(Vec<Voter>),
}

/// What is known about a node from elsewhere than its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    Down,
    Unreachable,
    SnapshotArrived,
    SnapshotLost,
}

#[derive(Default)]
struct Hints {
    is_down: bool,
    is_unreachable: bool,
    snapshot_arrived: Option<bool>,
}

#[derive(Default)]
struct Shared {
    queued_bytes: AtomicUsize,
    /// Messages that no member sends.
    refused: Count,
    hints: Mutex<BTreeMap<i32, Hints>>,
    hinted: Notify,
    stopped: Notify,
}

/// The queue of what comes from the network. Events that do not fit are dropped, hints are kept.
#[derive(Clone)]
pub(super) struct Events {
    queue: mpsc::Sender<(Event, usize)>,
    shared: Arc<Shared>,
}

pub(super) struct Arrived {
    queue: mpsc::Receiver<(Event, usize)>,
    shared: Arc<Shared>,
}

impl Events {
    pub(super) fn new() -> (Self, Arrived) {
        let (sender, queue) = mpsc::channel(GROUPS_MAX);
        let shared = Arc::<Shared>::default();
        (Self { queue: sender, shared: Arc::clone(&shared) }, Arrived { queue, shared })
    }

    pub(super) fn push(&self, event: Event) {
        let size_bytes = match &event {
            Event::Messages { messages, .. } => messages.iter().map(messages::size_bytes).sum(),
            Event::AddPeerAddresses(_) => 0,
        };
        let before = self.shared.queued_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        let has_room = before == 0 || before + size_bytes <= BYTES_MAX;
        if !has_room || self.queue.try_send((event, size_bytes)).is_err() {
            self.shared.queued_bytes.fetch_sub(size_bytes, Ordering::Relaxed);
            tracing::debug!("messages of the metadata quorum find no room");
        }
    }

    pub(super) fn refused(&self) -> &Count {
        &self.shared.refused
    }

    pub(super) fn stop(&self) {
        self.shared.stopped.notify_one();
    }

    pub(super) fn hint(&self, node_id: i32, hint: Hint) {
        let mut known = self.shared.hints.lock();
        if known.len() >= HINTS_MAX && !known.contains_key(&node_id) {
            return;
        }
        let of_node = known.entry(node_id).or_default();
        match hint {
            Hint::Down => of_node.is_down = true,
            Hint::Unreachable => of_node.is_unreachable = true,
            Hint::SnapshotArrived => of_node.snapshot_arrived = Some(true),
            Hint::SnapshotLost => of_node.snapshot_arrived = Some(false),
        }
        drop(known);
        self.shared.hinted.notify_one();
    }
}

/// When to stand for election after the leader has died, or at the beginning, when no node may lead yet.
struct Succession {
    next: Instant,
    rounds_left: u32,
    step: Duration,
    epoch: i32,
}

/// Runs a node, in the thread or task that awaits [`Self::run`].
pub struct Driver<M> {
    node: Node<M>,
    commands: mpsc::Receiver<Command>,
    arrived: Arrived,
    status: Announcer,
    /// Proposals that were accepted, by the index of their entry.
    proposed: BTreeMap<u64, (ProposalId, Reply<i64>)>,
    /// Changes of the members that were accepted, by the index of their entry.
    removals: BTreeMap<u64, (ProposalId, Reply<()>)>,
    /// Callers that wait until the entry of this index is applied.
    settling: Vec<(u64, Reply<()>)>,
    joining: Vec<(VoterKey, Joined, Reply<()>)>,
    /// Callers that wait for the voters to confirm that this node leads in an epoch, by the number of the question.
    confirming: Vec<(u64, i32, Reply<Confirmed>)>,
    /// A proposal that waits until a change of the members is through.
    held: Option<Proposal>,
    succession: Option<Succession>,
    last_tick: Option<Instant>,
    /// How much each address may have written to the log.
    refusals: LogLimit,
}

impl<M: StateMachine> Driver<M> {
    pub(super) fn new(node: Node<M>, commands: mpsc::Receiver<Command>, arrived: Arrived, status: Announcer) -> Self {
        Self {
            node,
            commands,
            arrived,
            status,
            proposed: BTreeMap::new(),
            removals: BTreeMap::new(),
            settling: Vec::new(),
            joining: Vec::new(),
            confirming: Vec::new(),
            held: None,
            succession: None,
            last_tick: None,
            refusals: LogLimit::default(),
        }
    }

    /// Returns when the node is stopped or the last handle is dropped: the error, if it ended early.
    pub async fn run(mut self) -> Result<(), QuorumError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let shared = Arc::clone(&self.arrived.shared);
        // When all nodes start at the same time, none leads. When one does, the nodes that follow it refuse their vote.
        if let Some(rank) = self.node.rank() {
            self.begin_succession(rank);
        }
        loop {
            let stands_at = self.succession.as_ref().map_or_else(Instant::now, |succession| succession.next);
            tokio::select! {
                biased;
                () = shared.stopped.notified() => break,
                now = ticks.tick() => self.tick(now),
                () = sleep_until(stands_at), if self.succession.is_some() => self.succeed(),
                () = shared.hinted.notified() => self.take_hints(),
                command = self.commands.recv(), if self.held.is_none() => match command {
                    Some(command) => self.take(command),
                    None => break,
                },
                Some(event) = self.arrived.queue.recv() => self.take_events(event),
            }
        }
        self.node.close()
    }

    /// Handles events, and answers.
    fn finish(&mut self) {
        loop {
            let driven = self.node.drive();
            // Before any caller is answered, so that a caller that learns of the end of an epoch finds it ended.
            self.status.set(self.node.status());
            self.answer(driven.err());
            match self.held.take() {
                Some(proposal) if self.node.is_change_under_way() => self.held = Some(proposal),
                Some(proposal) => {
                    self.propose(proposal);
                    continue;
                }
                None => {}
            }
            return;
        }
    }

    /// Answers proposals that were applied, and proposals that will not be, or not by this leader.
    fn answer(&mut self, error: Option<QuorumError>) {
        for committed in self.node.take_committed() {
            let proposal_id = committed.proposal_id;
            // Another entry at its index is another leader's.
            if let Some((own, reply)) = self.proposed.remove(&proposal_id.index) {
                _ = reply.send(if own == proposal_id { Ok(committed.offset) } else { Err(QuorumError::NotLeader) });
            }
            if let Some((own, reply)) = self.removals.remove(&proposal_id.index) {
                _ = reply.send(if own == proposal_id { Ok(()) } else { Err(QuorumError::NotLeader) });
            }
        }
        let applied = self.node.applied();
        for (_, reply) in self.settling.extract_if(.., |(index, _)| *index <= applied) {
            _ = reply.send(Ok(()));
        }
        for (_, _, reply) in self.joining.extract_if(.., |(key, joined, _)| self.node.has_joined(*key, *joined)) {
            _ = reply.send(Ok(()));
        }
        self.joining.retain(|(_, _, reply)| !reply.is_closed());
        self.answer_confirmed();
        let lost = self.node.leader_epoch().is_none().then_some(QuorumError::NotLeader);
        if let Some(error) = error.or(lost) {
            self.refuse_all(&error);
        }
    }

    /// Answers callers that asked whether this node leads. A request of a past epoch is never confirmed.
    fn answer_confirmed(&mut self) {
        let (confirmed, status) = (self.node.take_confirmed(), self.node.status());
        for (_, epoch, reply) in self.confirming.extract_if(.., |(number, ..)| confirmed.contains(number)) {
            _ = reply.send(Ok(Confirmed { epoch, high_watermark: status.high_watermark }));
        }
        for (_, _, reply) in self.confirming.extract_if(.., |(_, epoch, _)| status.own_epoch != Some(*epoch)) {
            refuse(reply, QuorumError::NotLeader);
        }
    }

    /// Proposals in flight may still be applied.
    fn refuse_all(&mut self, error: &QuorumError) {
        for (_, reply) in std::mem::take(&mut self.proposed).into_values() {
            refuse(reply, error.clone());
        }
        let removals = std::mem::take(&mut self.removals).into_values().map(|(_, reply)| reply);
        let settling = self.settling.drain(..).map(|(_, reply)| reply);
        let joining = self.joining.drain(..).map(|(_, _, reply)| reply);
        for reply in removals.chain(settling).chain(joining) {
            refuse(reply, error.clone());
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Propose(proposal) if self.node.is_change_under_way() => self.held = Some(proposal),
            Command::Propose(proposal) => self.propose(proposal),
            Command::Settle(reply) => match self.node.drive() {
                Ok(()) => self.settling.push((self.node.last_index(), reply)),
                Err(error) => refuse(reply, error),
            },
            Command::Join { member, wants_to_vote, reply } => {
                let key = member.key();
                match self.node.join(member, wants_to_vote) {
                    Ok(()) => {
                        let joined = if wants_to_vote { Joined::Voter } else { Joined::Observer };
                        self.joining.push((key, joined, reply));
                    }
                    Err(error) => refuse(reply, error),
                }
            }
            Command::Remove { key, reply } => match self.node.remove(key) {
                Ok(proposal_id) => _ = self.removals.insert(proposal_id.index, (proposal_id, reply)),
                Err(error) => refuse(reply, error),
            },
            Command::Transfer(reply) => _ = reply.send(self.node.transfer_leadership()),
            Command::Replicas(reply) => _ = reply.send(self.node.replicas()),
            Command::Confirm(reply) if self.confirming.len() >= READ_INDEX_REQUESTS_MAX => {
                refuse(reply, QuorumError::NotLeader);
            }
            Command::Confirm(reply) => match self.node.confirm() {
                Ok(number) => self.confirming.push((number, self.node.status().epoch, reply)),
                Err(error) => refuse(reply, error),
            },
        }
        self.finish();
    }

    fn propose(&mut self, proposal: Proposal) {
        match self.node.propose(proposal.epoch, proposal.after, &proposal.values) {
            Ok(proposal_id) => _ = self.proposed.insert(proposal_id.index, (proposal_id, proposal.reply)),
            Err(error) => refuse(proposal.reply, error),
        }
    }

    fn tick(&mut self, now: Instant) {
        // A node that stood still for so long has been replaced as leader, and must not act as one.
        let stood_still = self.last_tick.replace(now).is_some_and(|last| now - last >= TICK * ELECTION_TICKS as u32);
        if stood_still {
            self.node.step_down_after_removal();
        }
        self.log(Node::tick);
        self.finish();
    }

    fn take_events(&mut self, first: (Event, usize)) {
        let mut left = ROUND_MAX;
        let mut next = Some(first);
        while let Some((event, size_bytes)) = next {
            self.arrived.shared.queued_bytes.fetch_sub(size_bytes, Ordering::Relaxed);
            match event {
                Event::Messages { from, messages } => {
                    messages.into_iter().for_each(|message| self.receive(from, message));
                }
                Event::AddPeerAddresses(members) => self.node.add_peer_addresses(members),
            }
            left -= 1;
            next = if left > 0 { self.arrived.queue.try_recv().ok() } else { None };
        }
        self.finish();
    }

    fn receive(&mut self, from: SocketAddr, message: Message) {
        match self.node.receive(message) {
            Err(QuorumError::Impossible(reason)) => {
                self.arrived.shared.refused.add(1);
                if let Some(Allowed { left_out }) = self.refusals.allow(from) {
                    tracing::warn!(address = %from, %reason, left_out, "a message is dropped: no member sends such");
                }
            }
            received => self.log(|_| received),
        }
    }

    fn take_hints(&mut self) {
        let hints = std::mem::take(&mut *self.arrived.shared.hints.lock());
        for (node_id, hints) in hints {
            if let Some(arrived) = hints.snapshot_arrived {
                self.log(|node| node.report_snapshot(node_id, arrived));
            }
            if hints.is_unreachable || hints.is_down {
                self.log(|node| node.report_unreachable(node_id));
            }
            if hints.is_down
                && let Some(rank) = self.node.peer_down(node_id)
            {
                self.begin_succession(rank);
            }
        }
        self.finish();
    }

    /// Lets those of a lower rank stand first.
    fn begin_succession(&mut self, rank: usize) {
        let status = self.node.status();
        self.succession = Some(Succession {
            next: Instant::now() + SUCCESSION_STEP * rank as u32,
            rounds_left: SUCCESSION_ROUNDS,
            step: SUCCESSION_STEP * status.voters.voters.len() as u32,
            epoch: status.epoch,
        });
    }

    /// Stands for election after a dead leader, until another node leads or asks for votes.
    fn succeed(&mut self) {
        let Some(mut succession) = self.succession.take() else { return };
        if self.node.status().epoch == succession.epoch && self.node.may_succeed() {
            self.log(Node::campaign);
            succession.rounds_left -= 1;
            succession.next += succession.step;
            self.succession = Some(succession).filter(|succession| succession.rounds_left > 0);
        }
        self.finish();
    }

    /// An error for which no caller waits shows with the next request.
    fn log(&mut self, act: impl FnOnce(&mut Node<M>) -> Result<(), QuorumError>) {
        if let Err(error) = act(&mut self.node) {
            tracing::debug!(%error, "the metadata quorum");
        }
    }
}

fn refuse<T>(reply: Reply<T>, error: QuorumError) {
    match &error {
        QuorumError::NotLeader | QuorumError::Superseded => tracing::debug!(%error, "a change of metadata is refused"),
        error => tracing::error!(%error, "a change of metadata failed"),
    }
    // The caller may have given up by now.
    _ = reply.send(Err(error));
}
