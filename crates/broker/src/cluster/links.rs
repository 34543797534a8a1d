//! Raft's messages on their way to the other members: a connection and a task for each of them.
//!
//! Messages may be lost: when a queue is full or a connection fails. What the quorum has to know of a member comes as a
//! [`LinkEvent`]. After a broken connection a new one is tried at once: when the host refuses it the process has ended,
//! and the election need not wait for a timeout.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use client::{Connection, ConnectionError};
use configuration::address;
use quorum::{Quorum, Transport, Voter, VoterKey, to_wire};
use raft::eraftpb::{Message, MessageType};
use tokio::io::AsyncReadExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use wire::ErrorCode;
use wire::api::confirm_sender::NodeIdentity;
use wire::api::quorum_messages::{QuorumMessage, QuorumMessagesRequest, QuorumMessagesResponse};

use super::Liveness;
use crate::stream::{Dialer, Stream};

/// Messages that wait for a member.
const QUEUE_MAX: usize = 512;
/// Messages of one request.
const BATCH_MAX: usize = 64;
/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1000);
/// How long a request may take. Members answer at once, before they have done anything.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The backoff of connections after a failure: the first one, doubled each time, and the largest.
const BACKOFF_MIN: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_millis(500);

/// How often a node whose connections end is probed, the interval between probes, and how long a probing connection has
/// to stay open.
const PROBES: u32 = 20;
const PROBE_INTERVAL: Duration = Duration::from_millis(5);
const PROBE_PATIENCE: Duration = Duration::from_millis(100);

/// What happened to a member, or to a message to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// Its host refuses connections: the process has ended.
    Died { node_id: i32 },
    /// Messages to it were lost.
    Unreachable { node_id: i32 },
    /// A snapshot was sent to it.
    Snapshot { node_id: i32, arrived: bool },
}

/// The links to all members that messages were sent to.
pub struct Links {
    cluster_id: String,
    sender: NodeIdentity,
    runtime: Handle,
    events: mpsc::Sender<LinkEvent>,
    dialer: Dialer,
    open: HashMap<VoterKey, Open>,
}

/// A link that has its task.
struct Open {
    address: String,
    queue: mpsc::Sender<Message>,
}

impl Links {
    /// The tasks run on `runtime`, and end when this is dropped.
    pub fn new(
        cluster_id: String,
        sender: NodeIdentity,
        runtime: Handle,
        events: mpsc::Sender<LinkEvent>,
        dialer: Dialer,
    ) -> Self {
        Self { cluster_id, sender, runtime, events, dialer, open: HashMap::new() }
    }
}

impl Transport for Links {
    fn send(&mut self, to: &Voter, message: Message) {
        let address = address(&to.host, to.port);
        if self.open.get(&to.key()).is_none_or(|open| open.address != address) {
            let (queue, messages) = mpsc::channel(QUEUE_MAX);
            let link = Link {
                cluster_id: self.cluster_id.clone(),
                sender: self.sender.clone(),
                node_id: to.node_id,
                address: address.clone(),
                events: self.events.clone(),
                dialer: self.dialer.clone(),
                connection: None,
                backoff: BACKOFF_MIN,
                pause_until: None,
            };
            self.runtime.spawn(link.run(messages));
            self.open.insert(to.key(), Open { address, queue });
        }
        if let Some(open) = self.open.get(&to.key()) {
            // Raft sends again what does not arrive.
            _ = open.queue.try_send(message);
        }
    }
}

struct Link {
    cluster_id: String,
    sender: NodeIdentity,
    node_id: i32,
    address: String,
    events: mpsc::Sender<LinkEvent>,
    dialer: Dialer,
    connection: Option<Connection>,
    backoff: Duration,
    /// No connection is tried before.
    pause_until: Option<Instant>,
}

impl Link {
    async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            let received = match &self.connection {
                Some(connection) => tokio::select! {
                    biased;
                    received = messages.recv_many(&mut batch, BATCH_MAX) => received,
                    () = connection.closed() => {
                        self.connection = None;
                        self.ask_after().await;
                        continue;
                    }
                },
                None => messages.recv_many(&mut batch, BATCH_MAX).await,
            };
            if received == 0 {
                return;
            }
            let has_snapshot = batch.iter().any(|message| message.get_msg_type() == MessageType::MsgSnapshot);
            let encoded = batch.drain(..).filter_map(|message| to_wire(message).ok()).collect();
            let sent = self.send(encoded).await;
            if has_snapshot {
                self.tell(LinkEvent::Snapshot { node_id: self.node_id, arrived: sent }).await;
            }
            if !sent {
                self.tell(LinkEvent::Unreachable { node_id: self.node_id }).await;
            }
        }
    }

    /// Sends one request and waits for its answer. Messages of a failed request are lost.
    async fn send(&mut self, messages: Vec<QuorumMessage>) -> bool {
        if self.pause_until.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        let outcome = self.request(messages).await;
        match outcome {
            Ok(QuorumMessagesResponse { error_code: ErrorCode::NONE, .. }) => {
                self.backoff = BACKOFF_MIN;
                self.pause_until = None;
                return true;
            }
            Ok(refused) => {
                tracing::warn!(node_id = self.node_id, code = %refused.error_code, "a member refuses messages of the quorum");
            }
            Err(error) => tracing::debug!(node_id = self.node_id, %error, "messages of the quorum are lost"),
        }
        let was_connected = self.connection.take().is_some();
        self.pause_until = Some(Instant::now() + self.backoff);
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        if was_connected {
            self.ask_after().await;
        }
        false
    }

    async fn request(&mut self, messages: Vec<QuorumMessage>) -> Result<QuorumMessagesResponse, ConnectionError> {
        let connection = match &self.connection {
            Some(connection) => connection.clone(),
            None => {
                let connection = self.dialer.connect(&self.address, CONNECT_TIMEOUT, REQUEST_TIMEOUT).await?;
                self.connection = Some(connection.clone());
                connection
            }
        };
        let request =
            QuorumMessagesRequest { cluster_id: self.cluster_id.clone(), sender: self.sender.clone(), messages };
        connection.send(&request).await
    }

    /// Finds out whether the process at the other end has ended.
    async fn ask_after(&self) {
        for _ in 0..PROBES {
            match probe(&self.address).await {
                Probe::Refused => {
                    tracing::info!(node_id = self.node_id, address = self.address, "a node's process has ended");
                    return self.tell(LinkEvent::Died { node_id: self.node_id }).await;
                }
                Probe::Dropped => sleep(PROBE_INTERVAL).await,
                Probe::Unknown => return,
            }
        }
    }

    async fn tell(&self, event: LinkEvent) {
        // The receiver may have stopped.
        _ = self.events.send(event).await;
    }
}

/// The outcome of a new connection.
enum Probe {
    Refused,
    /// It was accepted and closed: a process that is ending closes its sockets one after the other.
    Dropped,
    /// It stays open, or there is no answer, which proves nothing.
    Unknown,
}

async fn probe(address: &str) -> Probe {
    match timeout(CONNECT_TIMEOUT, Stream::connect(address)).await {
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => Probe::Refused,
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionReset => Probe::Dropped,
        Ok(Ok(mut stream)) => match timeout(PROBE_PATIENCE, stream.read_u8()).await {
            Ok(_) => Probe::Dropped,
            Err(_) => Probe::Unknown,
        },
        _ => Probe::Unknown,
    }
}

/// Passes events of links to the quorum and the controller, until there are no links any more.
pub async fn follow(quorum: Quorum, liveness: Arc<Liveness>, mut events: mpsc::Receiver<LinkEvent>) {
    while let Some(event) = events.recv().await {
        match event {
            LinkEvent::Died { node_id } => {
                quorum.peer_down(node_id);
                liveness.died(node_id);
            }
            LinkEvent::Unreachable { node_id } => quorum.unreachable(node_id),
            LinkEvent::Snapshot { node_id, arrived } => quorum.snapshot_sent(node_id, arrived),
        }
    }
}
