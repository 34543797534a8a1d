//! One connection: reads frames, starts their requests, answers in order.
//!
//! One task per connection, and no buffer while it is idle. All frames that have arrived are started before anything is
//! committed, so that pipelined produce requests share one append; all answers that are ready leave in one write.
//! Requests start in order. While a Produce waits for its acknowledgement, further ones of the same connection start;
//! any other request waits until those before it are answered, as a Kafka broker would have it, and until most of what
//! they were answered has left.
//!
//! A connection between brokers begins on the control plane and stays there as long as it carries what only brokers say
//! to each other. With the first request of another kind, a follower's Fetch say, it moves to the data plane: what
//! reads files and carries much data must not keep heartbeats waiting.
//!
//! A connection begins with what its listener demands before anybody is served: see [`authentication`].
//!
//! Whatever a peer has in memory here is charged: what has arrived to the pool of requests, what has not left to that
//! of answers. A connection without a permit waits, and does not read meanwhile. A connection whose peer neither sends
//! nor reads is closed after a while, and sooner when others wait for the memory that it holds.
//!
//! A client beyond its quotas is answered at once and then not read for a while: see [`throttling`].

mod admission;
mod authentication;
mod deadlines;
mod first_frame;
mod pending;
mod throttling;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use storage::Span;
use tokio::time::{Instant, Sleep, timeout};
use wire::frame::RequestHeader;
use wire::{Reader, WireError, api as table};

use self::authentication::Phase;
use self::deadlines::idle_timeout;
use self::pending::PendingRequest;
use super::input::Input;
use super::output::Output;
use super::transfer_deadline::TransferDeadline;
use crate::Broker;
use crate::api::{self, Peer};
use crate::close_reason::{CloseReason, DISK_TIMEOUT};
use crate::frame::Frame;
use crate::memory::{Budget, Permit, Share, Waiting};
use crate::partition::PendingCommits;
use crate::stats::{Stage, Stopwatch};
use crate::stream::Stream;

/// Requests, or bytes of them, after which a connection lets others have their turn.
const TURN_REQUESTS_MAX: usize = 64;
const TURN_BYTES_MAX: usize = 1 << 20;
/// Answers in memory that have not left: no further request is started beyond.
const UNSENT_MEMORY_MAX: usize = 64 * 1024;
/// How long the rest of a frame may stay away.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer may leave its answers unread. Consumers read ahead, and may be busy with what they have.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Connection {
    broker: Arc<Broker>,
    stream: Stream,
    peer: Arc<Peer>,
    phase: Phase,
    /// Why it ends as soon as the last answer has left.
    closing: Option<CloseReason>,
    input: Input,
    /// Memory for answers, which is waited for when there is none.
    answers: Arc<Share>,
    answer_permit: Option<Permit>,
    answer_wait: Option<Waiting>,
    /// Memory for what large frames become.
    decoding: Arc<Share>,
    decoding_permit: Option<Permit>,
    decoding_wait: Option<Waiting>,
    /// When the connection began, for itself and on the broker's clock.
    began: (Instant, Duration),
    /// When the last bytes came, on the broker's clock.
    arrived: Duration,
    /// The broker's clock, as long as nothing has taken time since it was looked at.
    now: Option<Duration>,
    /// For the rest of a frame that has begun to arrive.
    frame_deadline: Option<TransferDeadline>,
    /// For answers that have not left.
    send_deadline: Option<TransferDeadline>,
    /// Since when the frame that has begun to arrive waits for memory.
    short_since: Option<Instant>,
    /// Until when nothing more is read or started of a client that is throttled.
    muted_until: Option<Instant>,
    /// What was done since others had their turn.
    turn: Turn,
    pending: VecDeque<PendingRequest>,
    /// For what `pending` takes beside its frames.
    pending_permit: Permit,
    output: Output,
    /// What reads in what is to be sent next.
    cold_read: Option<ColdRead>,
    /// Requests whose answers are in `output`: how many in succession have the same times.
    unsent: Vec<(u64, Stopwatch)>,
    last_active: Instant,
    timer: Pin<Box<Sleep>>,
    is_on_control_plane: bool,
}

type ColdRead = Pin<Box<dyn Future<Output = Result<(), CloseReason>> + Send>>;

#[derive(Default)]
struct Turn {
    requests: usize,
    bytes: usize,
}

impl Turn {
    fn is_over(&self) -> bool {
        self.requests >= TURN_REQUESTS_MAX || self.bytes >= TURN_BYTES_MAX
    }
}

impl Connection {
    pub fn new(broker: Arc<Broker>, stream: Stream, peer: Peer) -> Self {
        let now = Instant::now();
        let share = |of: &Arc<Budget>| of.share(peer.address.ip(), peer.is_inter_broker);
        let (requests, answers) = (share(&broker.memory.requests), share(&broker.memory.answers));
        let decoding = share(&broker.memory.decoding);
        let timer = Box::pin(tokio::time::sleep_until(now + idle_timeout(&broker)));
        let began = (now, broker.env.clock.monotonic());
        let pending_permit = requests.empty_permit();
        let input = Input::new(requests, Arc::clone(&broker.memory.buffers));
        Self {
            broker,
            stream,
            is_on_control_plane: peer.is_inter_broker,
            phase: Self::first_phase(&peer, now),
            closing: None,
            peer: Arc::new(peer),
            input,
            output: Output::new(&answers),
            cold_read: None,
            answers,
            answer_permit: None,
            answer_wait: None,
            decoding,
            decoding_permit: None,
            decoding_wait: None,
            began,
            arrived: Duration::ZERO,
            now: None,
            frame_deadline: None,
            send_deadline: None,
            short_since: None,
            muted_until: None,
            turn: Turn::default(),
            pending: VecDeque::new(),
            pending_permit,
            unsent: Vec::new(),
            last_active: now,
            timer,
        }
    }

    /// Serves the connection until it ends, or is to go on on the data plane. Requests that are under way when the peer
    /// leaves are finished by what they wait for, not by this task.
    pub async fn run(&mut self) -> Result<(), CloseReason> {
        let served = self.serve().await;
        if served.as_ref().is_err_and(CloseReason::is_told) {
            self.linger().await;
        }
        served
    }

    /// Has a connection driven by the runtime that this is called on, the data plane's.
    pub fn moved(self) -> io::Result<Self> {
        let timer = Box::pin(tokio::time::sleep_until(self.timer.deadline()));
        Ok(Self { stream: self.stream.moved()?, timer, is_on_control_plane: false, ..self })
    }

    async fn serve(&mut self) -> Result<(), CloseReason> {
        loop {
            if self.is_on_control_plane && self.first_key().is_some_and(|key| !api::is_of_control_plane(key)) {
                return Ok(());
            }
            let mut commits = PendingCommits::default();
            let started = self.start_requests(&mut commits);
            // What was started is appended even when a later frame of the same read was bad.
            commits.commit();
            self.now = None;
            started?;
            self.answer_ready().await?;
            self.pending_permit.resize(Self::pending_bytes(self.pending.len()));
            let sent_all = self.send()?;
            if sent_all
                && self.pending.is_empty()
                && let Some(reason) = self.closing.take()
            {
                return Err(reason);
            }
            if self.turn.is_over() {
                self.turn = Turn::default();
                tokio::task::yield_now().await;
            }
            if self.has_startable_frame()? && self.has_permits_to_start() {
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

    fn start_requests(&mut self, commits: &mut PendingCommits) -> Result<(), CloseReason> {
        if let Some(frame) = self.phase.take_held() {
            self.start_authentication(&frame, commits)?;
        }
        while !self.turn.is_over() && self.has_startable_frame()? && self.has_permits_to_start() {
            self.check_session()?;
            let size = self.frame_size()?.expect("a startable frame has a size");
            let frame = self.input.split_to(size);
            self.frame_deadline = None;
            self.turn.requests += 1;
            self.turn.bytes += size;
            if !self.phase.is_open() {
                self.start_authentication(&frame, commits)?;
                continue;
            }
            let body = frame.slice(4..);
            let mut reader = Reader::new(&body, 0, false);
            let header = read_header(&mut reader)?;
            let row = table::row(header.api_key).expect("the header of an API that is not in the table is refused");
            let mut watch = Stopwatch::new(row, self.arrived);
            watch.lap(Stage::Queue, self.now());
            let metered = self.meter(&header, body.len());
            let started = api::start(&self.broker, &self.peer, header, reader, commits)?;
            let frame = (!started.is_produce()).then_some(frame);
            let permits = [self.answer_permit.take(), self.decoding_permit.take()];
            self.answer_wait = None;
            self.pending.push_back(PendingRequest { started, watch, metered, _frame: frame, _permits: permits });
        }
        Ok(())
    }

    /// Moves the answers that are ready, from the oldest on, to the output.
    async fn answer_ready(&mut self) -> Result<(), CloseReason> {
        poll_fn(|cx| {
            while self.output.memory() < UNSENT_MEMORY_MAX
                && let Poll::Ready(answer) = self.poll_first(cx)
            {
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
        let Some(PendingRequest { started, watch, metered, .. }) = self.pending.pop_front() else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(answer.map(|mut frame| {
            if let Some(metered) = metered {
                self.count(&metered, started.is_of_new_producer(), &watch, &mut frame);
            }
            (frame, watch)
        })))
    }

    fn push(&mut self, (frame, watch): (Frame, Stopwatch)) {
        self.broker.shared.stats.requests.record_errors(&watch, frame.errors());
        self.mute(frame.throttle_time_ms());
        self.output.push(frame);
        match self.unsent.last_mut() {
            Some((requests, same)) if *same == watch => *requests += 1,
            _ => self.unsent.push((1, watch)),
        }
    }

    /// Sends what the socket takes. Returns whether everything has left.
    fn send(&mut self) -> Result<bool, CloseReason> {
        if self.cold_read.is_some() {
            return Ok(false);
        }
        let stats = &self.broker.shared.stats;
        let sent = self.output.send(&mut self.stream, &stats.connections.sent_bytes)?;
        self.turn.bytes += sent.bytes;
        if let Some(span) = sent.cold {
            self.read_in(span);
            return Ok(false);
        }
        if !sent.is_all {
            let now = Instant::now();
            let transfer = self.send_deadline.get_or_insert_with(|| TransferDeadline::new(SEND_TIMEOUT, now));
            if sent.bytes > 0 {
                transfer.extend(sent.bytes, now);
            }
            return Ok(false);
        }
        self.send_deadline = None;
        if !self.unsent.is_empty() {
            let now = self.broker.env.clock.monotonic();
            self.now = Some(now);
            let (began, at) = self.began;
            self.last_active = self.last_active.max(began + now.saturating_sub(at));
            for (requests, mut watch) in self.unsent.drain(..) {
                watch.lap(Stage::Response, now);
                stats.requests.record_sent(requests, &watch);
            }
        }
        Ok(true)
    }

    /// Has a piece of a file read into the page cache before it is sent. It is not the peer that takes its time.
    fn read_in(&mut self, span: Span) {
        self.send_deadline = None;
        let read = self.broker.partitions.cold_reads().clone().run(move || span.read_in(span.length));
        self.cold_read = Some(Box::pin(async {
            match timeout(DISK_TIMEOUT, read).await {
                Ok(Some(read)) => Ok(read?),
                Ok(None) => Err(CloseReason::Panicked),
                Err(_) => Err(CloseReason::SlowDisk),
            }
        }));
    }

    /// Until there may be something to send.
    fn poll_sendable(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        if let Some(read) = &mut self.cold_read {
            std::task::ready!(read.as_mut().poll(cx))?;
            self.cold_read = None;
            self.output.mark_read_in();
            return Poll::Ready(Ok(()));
        }
        self.stream.poll_write_ready(cx).map_err(CloseReason::from)
    }

    /// A connection that waits holds no memory but for what has arrived and is not answered.
    fn release_idle_memory(&mut self) {
        self.input.release();
        if self.pending.is_empty() {
            self.pending = VecDeque::new();
        }
        if self.unsent.is_empty() {
            self.unsent = Vec::new();
        }
    }

    /// Waits until there is something to do: bytes to read, a writable socket, an answer that is ready, memory, or a
    /// deadline.
    async fn wait(&mut self, unsent: bool) -> Result<(), CloseReason> {
        let frame_size = self.frame_size()?;
        let is_whole = frame_size.is_some_and(|size| self.input.bytes().len() >= size);
        let want_input = self.can_start() && !is_whole;
        let wants_permits = self.has_startable_frame()?;
        let is_held_up = is_whole && !self.may_start_next();
        if !want_input {
            // It is this broker that does not read.
            self.frame_deadline = None;
        } else if self.frame_deadline.is_none() && !self.input.bytes().is_empty() {
            self.frame_deadline = Some(TransferDeadline::new(FRAME_TIMEOUT, self.last_active));
        }
        self.arm_timer();
        let readable = poll_fn(|cx| {
            if self.output.memory() < UNSENT_MEMORY_MAX
                && let Poll::Ready(answer) = self.poll_first(cx)
                && let Some(answer) = answer
            {
                return Poll::Ready(answer.map(|answer| {
                    self.push(answer);
                    false
                }));
            }
            // A large Produce has been queued, and is not answered yet.
            if is_held_up && self.may_start_next() {
                return Poll::Ready(Ok(false));
            }
            if self.phase.poll_held(cx).is_ready() || unsent && self.poll_sendable(cx)?.is_ready() {
                return Poll::Ready(Ok(false));
            }
            if wants_permits {
                let permits = match self.has_decoding_permit() {
                    true => self.poll_answer_permit(cx),
                    false => self.poll_decoding_permit(cx),
                };
                if permits.is_ready() {
                    return Poll::Ready(Ok(false));
                }
            }
            if want_input && self.stream.poll_read_ready(cx)?.is_ready() {
                if self.input.poll_permit(cx, frame_size).is_ready() {
                    return Poll::Ready(Ok(true));
                }
                self.begin_memory_wait();
            }
            match self.timer.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(self.check_deadlines().map(|()| false)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await?;
        self.now = None;
        self.turn = Turn::default();
        if readable {
            self.short_since = None;
            self.read(frame_size).await?;
        }
        Ok(())
    }

    /// While a peer has more to send and no memory is available here, its deadline does not run.
    fn begin_memory_wait(&mut self) {
        self.frame_deadline = None;
        if self.short_since.is_none() && !self.input.bytes().is_empty() {
            self.short_since = Some(Instant::now());
            self.arm_timer();
        }
    }

    async fn read(&mut self, frame_size: Option<usize>) -> Result<(), CloseReason> {
        let turn = self.handshake_turn().await?;
        let read = self.input.read(&mut self.stream, frame_size).await.map_err(CloseReason::of_read)?;
        drop(turn);
        match read {
            None => Ok(()),
            Some(0) => Err(CloseReason::Closed),
            Some(bytes) => {
                self.last_active = Instant::now();
                let (began, at) = self.began;
                self.arrived = at + self.last_active.saturating_duration_since(began);
                self.now = Some(self.arrived);
                self.broker.shared.stats.connections.received_bytes.add(bytes as u64);
                self.end_handshake()?;
                if let Some(transfer) = &mut self.frame_deadline {
                    transfer.extend(bytes, self.last_active);
                }
                Ok(())
            }
        }
    }
}

fn read_header(reader: &mut Reader<'_>) -> Result<RequestHeader, CloseReason> {
    RequestHeader::read(reader).map_err(|error| match error {
        WireError::UnsupportedVersion { key, version } => CloseReason::UnsupportedApi { key, version },
        error => CloseReason::Malformed(error),
    })
}
