//! One connection: reads frames, starts their requests, answers in order.
//!
//! One task per connection, and no buffer while it is idle. All frames that have arrived are started before anything is
//! committed, so that pipelined produce requests share one append; all answers that are ready leave in one write.
//! Requests start in order. While a Produce waits for its acknowledgement, further ones of the same connection start;
//! any other request waits until those before it are answered, as a Kafka broker would have it.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use wire::api as table;
use wire::frame::{RequestHeader, ResponseTooLarge};
use wire::{ErrorCode, Reader, WireError};

use super::budget::Budget;
use super::output::{Frame, Output};
use crate::Broker;
use crate::api::{self, Started};
use crate::env::Clock;
use crate::partition::{Passed, Touched};
use crate::stats::{Stage, Stopwatch};

/// How much is read at once, and the memory that a connection may use without asking the budget.
const READ_BYTES: usize = 64 * 1024;
/// A beginning of a frame up to this size is copied to a buffer of its own size while the rest is awaited.
const SHRINK_BYTES_MAX: usize = 4 * 1024;
/// Unanswered requests of one connection. Clients keep 5 in flight by default.
const PENDING_MAX: usize = 256;
/// Answers in memory that the peer does not take: no further request is started beyond.
const OUTPUT_MEMORY_MAX: usize = 1024 * 1024;
/// A request frame other than Produce: no client needs more for what they carry.
const OTHER_REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A frame that has begun to arrive must be complete after this time, and a second more for each [`READ_BYTES`].
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a connection was closed by the broker.
#[derive(Debug, thiserror::Error)]
pub enum CloseReason {
    #[error("the peer closed it")]
    Closed,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it was idle for too long")]
    Idle,
    #[error("a request did not arrive in time")]
    SlowFrame,
    #[error("{0}")]
    NotKafka(&'static str),
    #[error("a request of {0} bytes; socket.request.max.bytes or the limit of its API allows less")]
    FrameSize(i32),
    #[error("a malformed request: {0}")]
    Malformed(#[from] WireError),
    #[error("API key {key} version {version} is not served")]
    UnsupportedApi { key: i16, version: i16 },
    #[error("a Produce with acks=0 failed")]
    SilentProduceFailed,
    #[error("{0}")]
    ResponseTooLarge(#[from] ResponseTooLarge),
}

impl CloseReason {
    /// Short names of all reasons, which [`Self::place`] points into.
    pub const NAMES: [&str; 10] = [
        "closed",
        "io",
        "idle",
        "slow_frame",
        "not_kafka",
        "frame_size",
        "malformed",
        "unsupported_api",
        "silent_produce_failed",
        "response_too_large",
    ];

    pub fn place(&self) -> usize {
        match self {
            Self::Closed => 0,
            Self::Io(_) => 1,
            Self::Idle => 2,
            Self::SlowFrame => 3,
            Self::NotKafka(_) => 4,
            Self::FrameSize(_) => 5,
            Self::Malformed(_) => 6,
            Self::UnsupportedApi { .. } => 7,
            Self::SilentProduceFailed => 8,
            Self::ResponseTooLarge(_) => 9,
        }
    }
}

/// What requests of a connection know of their sender.
pub struct Peer {
    pub address: SocketAddr,
    /// Name of the listener that it came to.
    pub listener: Arc<str>,
    /// Whether that is the one of brokers among themselves.
    pub is_inter_broker: bool,
}

/// A request that is not answered yet.
struct Pending {
    started: Started,
    watch: Stopwatch,
}

pub struct Connection {
    broker: Arc<Broker>,
    stream: TcpStream,
    peer: Arc<Peer>,
    budget: Arc<Budget>,
    input: BytesMut,
    /// Memory of `input` beyond [`READ_BYTES`].
    reserved: Option<OwnedSemaphorePermit>,
    /// When the connection began, for itself and on the broker's clock.
    began: (Instant, Duration),
    /// When the last bytes came, on the broker's clock.
    arrived: Duration,
    /// The broker's clock, as long as nothing has taken time since it was looked at.
    now: Option<Duration>,
    frame_started: Option<Instant>,
    pending: VecDeque<Pending>,
    output: Output,
    /// Requests whose answers are in `output`: how many in succession have the same times.
    unsent: Vec<(u64, Stopwatch)>,
    last_active: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Connection {
    pub fn new(broker: Arc<Broker>, stream: TcpStream, peer: Peer, budget: Arc<Budget>) -> Self {
        let now = Instant::now();
        let timer = Box::pin(tokio::time::sleep_until(now + idle_timeout(&broker)));
        let began = (now, broker.env.clock.monotonic());
        Self {
            broker,
            stream,
            peer: Arc::new(peer),
            budget,
            input: BytesMut::new(),
            reserved: None,
            began,
            arrived: Duration::ZERO,
            now: None,
            frame_started: None,
            pending: VecDeque::new(),
            output: Output::default(),
            unsent: Vec::new(),
            last_active: now,
            timer,
        }
    }

    /// Serves the connection until it ends. Requests that are under way when the peer leaves are finished by what they
    /// wait for, not by this task.
    pub async fn run(mut self) -> CloseReason {
        match self.serve().await {
            Ok(never) => match never {},
            Err(reason) => reason,
        }
    }

    async fn serve(&mut self) -> Result<std::convert::Infallible, CloseReason> {
        loop {
            let mut touched = Touched::default();
            let started = self.start_requests(&mut touched);
            // What was started is appended even when a later frame of the same read was bad.
            touched.commit();
            self.now = None;
            started?;
            self.answer_ready().await?;
            let sent_all = self.send()?;
            if self.can_start() && self.has_startable_frame()? {
                continue;
            }
            self.release_idle_memory();
            self.wait(!sent_all).await?;
        }
    }

    /// What takes time looks at the clock when it is done, and requests in between share what it has seen.
    fn now(&mut self) -> Duration {
        *self.now.get_or_insert_with(|| self.broker.env.clock.monotonic())
    }

    fn can_start(&self) -> bool {
        self.pending.len() < PENDING_MAX && self.output.memory() < OUTPUT_MEMORY_MAX
    }

    /// The size of the first frame in `input`, length prefix included, once its prefix and API key have arrived.
    fn frame_size(&self) -> Result<Option<usize>, CloseReason> {
        let Some(prefix) = self.input.first_chunk::<4>() else { return Ok(None) };
        let size = i32::from_be_bytes(*prefix);
        if let Some(reason) = foreign_protocol(prefix) {
            return Err(CloseReason::NotKafka(reason));
        }
        let request_max = self.broker.config().socket_request_max_bytes;
        if size < 8 || size > request_max {
            return Err(CloseReason::FrameSize(size));
        }
        if let Some(key) = self.input.get(4..6) {
            let key = i16::from_be_bytes([key[0], key[1]]);
            if !api::serves(key, self.peer.is_inter_broker) {
                let version = self.input.get(6..8).map_or(-1, |v| i16::from_be_bytes([v[0], v[1]]));
                return Err(CloseReason::UnsupportedApi { key, version });
            }
            let may_be_large = self.peer.is_inter_broker || api::is_produce(key);
            if size as usize > OTHER_REQUEST_BYTES_MAX && !may_be_large {
                return Err(CloseReason::FrameSize(size));
            }
        }
        Ok(Some(4 + size as usize))
    }

    /// Whether a complete frame has arrived that may start now.
    fn has_startable_frame(&self) -> Result<bool, CloseReason> {
        match self.frame_size()? {
            Some(size) if self.input.len() >= size => Ok(self.may_start_next()),
            _ => Ok(false),
        }
    }

    /// The first frame may start when nothing is pending, or when it and all that is pending are Produce requests.
    fn may_start_next(&self) -> bool {
        self.pending.is_empty()
            || (api::is_produce(i16::from_be_bytes([self.input[4], self.input[5]]))
                && self.pending.iter().all(|pending| pending.started.is_produce()))
    }

    fn start_requests(&mut self, touched: &mut Touched) -> Result<(), CloseReason> {
        while self.can_start() && self.has_startable_frame()? {
            let size = self.frame_size()?.expect("a startable frame has a size");
            let frame = self.input.split_to(size).freeze();
            let body = frame.slice(4..);
            let mut reader = Reader::new(&body, 0, false);
            let header = RequestHeader::read(&mut reader).map_err(|e| match e {
                WireError::UnsupportedVersion { key, version } => CloseReason::UnsupportedApi { key, version },
                e => CloseReason::Malformed(e),
            })?;
            let row = table::row(header.api_key).expect("the header of an API that is not in the table is refused");
            let mut watch = Stopwatch::new(row, self.arrived);
            watch.lap(Stage::Queue, self.now());
            let started = api::start(&self.broker, &self.peer, header, reader, touched)?;
            self.pending.push_back(Pending { started, watch });
            self.frame_started = None;
        }
        Ok(())
    }

    /// Moves the answers that are ready, from the oldest on, to the output.
    async fn answer_ready(&mut self) -> Result<(), CloseReason> {
        poll_fn(|cx| {
            while let Poll::Ready(answer) = self.poll_first(cx) {
                match answer {
                    Some(Ok(answer)) => self.push(answer),
                    Some(Err(reason)) => return Poll::Ready(Err(reason)),
                    None => break,
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(Frame, Stopwatch), CloseReason>>> {
        let Some(first) = self.pending.front_mut() else { return Poll::Ready(None) };
        let answer = first.poll(cx, &*self.broker.env.clock);
        let answer = std::task::ready!(answer);
        let Some(Pending { watch, .. }) = self.pending.pop_front() else { return Poll::Ready(None) };
        Poll::Ready(Some(answer.map(|frame| (frame, watch))))
    }

    fn push(&mut self, (frame, watch): (Frame, Stopwatch)) {
        self.broker.shared.stats.requests.note_errors(&watch, frame.errors());
        self.output.push(frame);
        match self.unsent.last_mut() {
            Some((requests, same)) if *same == watch => *requests += 1,
            _ => self.unsent.push((1, watch)),
        }
    }

    /// Sends what the socket takes. Returns whether everything has left.
    fn send(&mut self) -> Result<bool, CloseReason> {
        let stats = &self.broker.shared.stats;
        let sent_all = self.output.send(&self.stream, &stats.connections.sent_bytes)?;
        if sent_all && !self.unsent.is_empty() {
            let now = self.broker.env.clock.monotonic();
            self.now = Some(now);
            for (requests, mut watch) in self.unsent.drain(..) {
                watch.lap(Stage::Response, now);
                stats.requests.note_sent(requests, &watch);
            }
        }
        Ok(sent_all)
    }

    /// A connection that waits for bytes holds no buffer but for what has arrived, or thousands that claim much and
    /// send little would take memory for nothing.
    fn release_idle_memory(&mut self) {
        if self.input.len() <= SHRINK_BYTES_MAX {
            self.input = BytesMut::from(&self.input[..]);
            self.reserved = None;
            if self.pending.is_empty() {
                self.pending = VecDeque::new();
            }
            if self.unsent.is_empty() {
                self.unsent = Vec::new();
            }
        }
    }

    /// Waits until there is something to do: bytes to read, room to write, an answer that is ready, or a deadline.
    async fn wait(&mut self, unsent: bool) -> Result<(), CloseReason> {
        let want_input = self.can_start() && !self.frame_waits_for_answers()?;
        if want_input {
            self.reserve_input().await?;
        }
        self.arm_timer();
        let readable = poll_fn(|cx| {
            if let Poll::Ready(answer) = self.poll_first(cx)
                && let Some(answer) = answer
            {
                return Poll::Ready(answer.map(|answer| {
                    self.push(answer);
                    false
                }));
            }
            if unsent && self.stream.poll_write_ready(cx)?.is_ready() {
                return Poll::Ready(Ok(false));
            }
            if want_input && self.stream.poll_read_ready(cx)?.is_ready() {
                return Poll::Ready(Ok(true));
            }
            match self.timer.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(self.check_deadlines().map(|()| false)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await?;
        self.now = None;
        if readable {
            self.read().await?;
        }
        Ok(())
    }

    /// Whether the first frame is complete but must wait for the answers before it.
    fn frame_waits_for_answers(&self) -> Result<bool, CloseReason> {
        Ok(self.frame_size()?.is_some_and(|size| self.input.len() >= size))
    }

    /// How much to make room for: no more than has arrived already, whatever size the frame claims, but a whole read.
    fn input_room(&self) -> Result<usize, CloseReason> {
        let missing = self.frame_size()?.map_or(READ_BYTES, |size| size.saturating_sub(self.input.len()));
        Ok(missing.min(self.input.len()).max(READ_BYTES))
    }

    /// Waits for memory to read into, where the connection needs more than its own.
    async fn reserve_input(&mut self) -> Result<(), CloseReason> {
        let room = self.input_room()?;
        let beyond = (self.input.len() + room).saturating_sub(2 * READ_BYTES);
        let held = self.reserved.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let wanted = Budget::permits(beyond).saturating_sub(held);
        if wanted > 0 {
            let permit = tokio::time::timeout(FRAME_TIMEOUT, self.budget.acquire(wanted));
            let permit = permit.await.map_err(|_| CloseReason::SlowFrame)?;
            match &mut self.reserved {
                Some(reserved) => reserved.merge(permit),
                None => self.reserved = Some(permit),
            }
        }
        Ok(())
    }

    /// Takes what has arrived. Unlike `try_read_buf`, `poll_read` knows after a short read that there is no more.
    async fn read(&mut self) -> Result<(), CloseReason> {
        if self.input.is_empty() {
            self.reserved = None;
        }
        let room = self.input_room()?;
        if self.input.capacity() - self.input.len() < room.min(READ_BYTES / 2) {
            self.input.reserve(room);
        }
        let (stream, input) = (&mut self.stream, &mut self.input);
        match poll_fn(|cx| Poll::Ready(pin!(stream.read_buf(input)).poll(cx))).await {
            Poll::Ready(Ok(0)) => Err(CloseReason::Closed),
            Poll::Ready(Ok(bytes)) => {
                self.last_active = Instant::now();
                let (began, at) = self.began;
                self.arrived = at + self.last_active.saturating_duration_since(began);
                self.now = Some(self.arrived);
                self.broker.shared.stats.connections.received_bytes.add(bytes as u64);
                Ok(())
            }
            Poll::Ready(Err(e)) if e.kind() != io::ErrorKind::Interrupted => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// One timer serves all deadlines of a connection. It may fire early, never late: then it is set again.
    fn arm_timer(&mut self) {
        let mut deadline = self.last_active + idle_timeout(&self.broker);
        if !self.input.is_empty() && self.pending.is_empty() {
            let started = *self.frame_started.get_or_insert(self.last_active);
            deadline = deadline.min(started + self.frame_timeout());
        }
        if let Some(first) = self.pending.front().and_then(|first| first.started.deadline()) {
            deadline = deadline.min(first);
        }
        // A timer that is set earlier than needed costs one wake-up; setting it for each request would cost more.
        if deadline < self.timer.deadline() || self.timer.is_elapsed() {
            self.timer.as_mut().reset(deadline);
        }
    }

    fn frame_timeout(&self) -> Duration {
        let size = self.frame_size().ok().flatten().unwrap_or(0);
        FRAME_TIMEOUT + Duration::from_secs((size / READ_BYTES) as u64)
    }

    fn check_deadlines(&mut self) -> Result<(), CloseReason> {
        let now = Instant::now();
        if let Some(first) = self.pending.front_mut() {
            first.started.expire(now);
        } else if self.frame_started.is_some_and(|started| now >= started + self.frame_timeout()) {
            return Err(CloseReason::SlowFrame);
        } else if now >= self.last_active + idle_timeout(&self.broker) {
            return Err(CloseReason::Idle);
        }
        Ok(())
    }
}

impl Pending {
    fn poll(&mut self, cx: &mut Context<'_>, clock: &dyn Clock) -> Poll<Result<Frame, CloseReason>> {
        let answer = self.started.poll(cx);
        match self.started.passed() {
            Some(passed) => {
                if let Poll::Ready(answer) = &answer {
                    let errors = answer.as_ref().map_or(&[][..], Frame::errors);
                    self.lap_produce(&passed, errors.contains(&ErrorCode::REQUEST_TIMED_OUT), clock);
                }
            }
            // The first look at a handler takes it to its answer, or to what it waits for.
            None if !self.watch.has(Stage::Process) => self.watch.lap(Stage::Process, clock.monotonic()),
            None if answer.is_ready() => self.watch.lap(Stage::Wait, clock.monotonic()),
            None => {}
        }
        answer
    }

    fn lap_produce(&mut self, passed: &Passed, timed_out: bool, clock: &dyn Clock) {
        if timed_out {
            return self.watch.lap(Stage::Wait, clock.monotonic());
        }
        if passed.settled.is_zero() {
            // Nothing of it was appended.
            return self.watch.lap(Stage::Append, clock.monotonic());
        }
        self.watch.lap(Stage::Append, passed.appended);
        if let Some(synced) = passed.synced {
            self.watch.lap(Stage::Sync, synced);
        }
        if passed.settled > passed.synced.unwrap_or(passed.appended) {
            self.watch.lap(Stage::Replication, passed.settled);
        }
    }
}

fn idle_timeout(broker: &Broker) -> Duration {
    Duration::from_millis(broker.config().connections_max_idle_ms.unsigned_abs())
}

/// Names the protocol of a peer that came to the wrong port.
fn foreign_protocol(prefix: &[u8; 4]) -> Option<&'static str> {
    match prefix {
        b"GET " | b"POST" | b"HEAD" | b"PUT " | b"OPTI" | b"DELE" | b"CONN" | b"PRI " => {
            Some("an HTTP request on the Kafka port")
        }
        [0x16, 0x03, ..] => Some("a TLS handshake on a plaintext port: the client's security.protocol says SSL"),
        b"SSH-" => Some("an SSH client on the Kafka port"),
        _ => None,
    }
}
