//! One connection to one broker: pipelined requests, answered in the order they were sent.
//!
//! Requests are encoded straight into one buffer that all callers share, and a task writes whatever has gathered there
//! in one go; so many requests cost one write. Kafka answers in order, so the answers need no map: each frame that
//! arrives belongs to the request at the head of the queue, and its correlation id must say so.
//!
//! Invariants: a request is in the queue before its first byte is written; when anything goes wrong (a timeout, a bad
//! frame, a wrong correlation id) the whole connection fails with one error, which every waiting request gets. There
//! is no reconnecting here: that is [`crate::Client`]'s.
//!
//! [`Connection::over`] takes any byte stream: plain TCP, or TLS over it. SASL comes first on it, behind the versions.

mod authentication;
mod error;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
pub use error::ConnectionError;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use wire::api::Request;
use wire::api::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use wire::{ErrorCode, Reader, Wire, frame};

use crate::security::Security;
use crate::system_error::reason;
use crate::tls;

/// Room that is made for reading at once, and at least.
const READ_BYTES: usize = 64 * 1024;
/// Where the correlation id stands in a request frame: behind the length, the API key and the version.
const CORRELATION_ID: std::ops::Range<usize> = 8..12;
/// What a length is when it is the beginning of a TLS alert: its type and the major version.
const TLS_ALERT: i32 = 0x1503;
/// API keys of Kafka are small; the table of versions is an array by key.
const KEYS: usize = 128;
/// The feature that decides how transactions work (KIP-890).
const TRANSACTION_VERSION: &str = "transaction.version";

/// Limits and times of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    /// What the broker sees as `client.id`.
    pub client_id: String,
    pub connect_timeout: Duration,
    /// How long a request may take where the caller does not say otherwise.
    pub request_timeout: Duration,
    /// A longer response closes the connection.
    pub response_bytes_max: usize,
    /// More requests at a time are refused.
    pub in_flight_max: usize,
    /// Where to connect in place of these addresses: through proxies that brokers know nothing of.
    pub detours: Arc<BTreeMap<String, SocketAddr>>,
    /// TLS and SASL.
    pub security: Security,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            client_id: "parshall".to_owned(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            response_bytes_max: 128 * 1024 * 1024,
            in_flight_max: 10_000,
            detours: Arc::default(),
            security: Security::default(),
        }
    }
}

type Result<T, E = ConnectionError> = std::result::Result<T, E>;

/// A handle on a connection. Cheap to clone; the connection is closed when the last handle is gone and what was sent
/// has been answered.
#[derive(Clone)]
pub struct Connection {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    broker: Negotiated,
    /// When another connection is to take over, because the broker will end this one's session.
    retires: OnceLock<Instant>,
}

/// What the broker has said of itself.
struct Negotiated {
    /// By API key the highest version that both sides speak, or -1.
    versions: [i16; KEYS],
    transaction_version: i16,
}

impl Default for Negotiated {
    fn default() -> Self {
        Self { versions: [-1; KEYS], transaction_version: 0 }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.queue().closed = true;
        self.shared.wake.notify_one();
    }
}

/// What the handles and the connection's task share.
struct Shared {
    address: String,
    config: ConnectionConfig,
    queue: Mutex<Queue>,
    /// Wakes the task when there is something new to write.
    wake: Notify,
    /// Tells that the connection has failed.
    ended: Notify,
}

struct Queue {
    outgoing: BytesMut,
    in_flight: VecDeque<InFlight>,
    next_correlation_id: i32,
    /// No later than the first deadline of what is in flight.
    first_deadline: Option<Instant>,
    /// No handle is left.
    closed: bool,
    failed: Option<ConnectionError>,
}

struct InFlight {
    correlation_id: i32,
    deadline: Instant,
    answer: oneshot::Sender<Result<Bytes>>,
}

impl Connection {
    /// Connects to `host:port`, with TLS and SASL where the configuration says so, and agrees on versions.
    pub async fn connect(address: &str, config: &ConnectionConfig) -> Result<Self> {
        let failed = |reason: String| ConnectionError::Connect { address: address.to_owned(), reason };
        let detour = config.detours.get(address).copied();
        let connecting = async {
            match detour {
                Some(detour) => TcpStream::connect(detour).await,
                None => TcpStream::connect(address).await,
            }
        };
        let stream = match timeout(config.connect_timeout, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(failed(reason(&error))),
            Err(_) => return Err(failed(format!("no answer within {} s", config.connect_timeout.as_secs_f32()))),
        };
        stream.set_nodelay(true).map_err(|error| failed(reason(&error)))?;
        let Some(tls) = &config.security.tls else { return Self::over(stream, address, config).await };
        match timeout(config.connect_timeout, tls.connect(stream, address)).await {
            Ok(Ok(stream)) => Self::over(stream, address, config).await,
            Ok(Err(error)) => Err(match tls::failure(&error) {
                Some(reason) => ConnectionError::Tls { address: address.to_owned(), reason },
                None if error.kind() == io::ErrorKind::UnexpectedEof => {
                    failed("it hung up during the TLS handshake; does this listener speak TLS?".to_owned())
                }
                None => failed(format!("TLS: {}", reason(&error))),
            }),
            Err(_) => Err(failed(format!("no TLS within {} s", config.connect_timeout.as_secs_f32()))),
        }
    }

    /// Agrees on versions over a stream that is already connected, and authenticates where the configuration says so.
    /// `address` is for messages only.
    pub async fn over<S>(stream: S, address: &str, config: &ConnectionConfig) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let queue = Queue {
            outgoing: BytesMut::new(),
            in_flight: VecDeque::new(),
            next_correlation_id: 0,
            first_deadline: None,
            closed: false,
            failed: None,
        };
        let (address, config) = (address.to_owned(), config.clone());
        let shared =
            Arc::new(Shared { address, config, queue: Mutex::new(queue), wake: Notify::new(), ended: Notify::new() });
        tokio::spawn(run(stream, shared.clone()));
        let mut handle = Handle { shared, broker: Negotiated::default(), retires: OnceLock::new() };
        handle.broker = negotiate(&handle.shared).await?;
        let connection = Self { handle: Arc::new(handle) };
        if let Some(credentials) = &connection.handle.shared.config.security.sasl
            && let Some(lifetime) = authentication::authenticate(&connection, credentials).await?
        {
            connection.handle.retires.get_or_init(|| Instant::now() + lifetime);
        }
        Ok(connection)
    }

    /// `host:port` as it was given to [`Connection::connect`].
    pub fn address(&self) -> &str {
        &self.handle.shared.address
    }

    /// How long a request may take where the caller does not say otherwise.
    pub fn request_timeout(&self) -> Duration {
        self.handle.shared.config.request_timeout
    }

    /// The highest version of an API that both sides speak.
    pub fn version<R: Request>(&self) -> Result<i16> {
        match self.handle.broker.versions.get(R::API.key as usize) {
            Some(&version) if version >= 0 => Ok(version),
            _ => Err(ConnectionError::Unsupported { address: self.address().to_owned(), api: R::API.name }),
        }
    }

    /// The `transaction.version` that the cluster had finalized when the connection was made; 0 where brokers do not
    /// tell.
    pub fn transaction_version(&self) -> i16 {
        self.handle.broker.transaction_version
    }

    /// Whether it should still be given requests. One whose session ends soon counts as closed, and yet answers what it
    /// has been given.
    pub fn is_open(&self) -> bool {
        !self.is_retired() && self.handle.shared.queue().failed.is_none()
    }

    /// Whether the broker will end its session soon, so that another connection should take over.
    pub fn is_retired(&self) -> bool {
        self.handle.retires.get().is_some_and(|&at| Instant::now() >= at)
    }

    /// Fails what waits for answers at once, for all who share the connection: the broker is known to be silent.
    pub fn abandon(&self) {
        let shared = &self.handle.shared;
        shared.fail(&ConnectionError::Timeout { address: shared.address.clone() });
        shared.wake.notify_one();
    }

    /// Until the connection has failed, also when nothing is under way on it.
    pub async fn closed(&self) {
        let mut ended = pin!(self.handle.shared.ended.notified());
        ended.as_mut().enable();
        if self.handle.shared.queue().failed.is_none() {
            ended.await;
        }
    }

    /// Sends a request and waits for its response.
    pub async fn send<R: Request>(&self, request: &R) -> Result<R::Response> {
        self.start(request)?.await
    }

    /// Sends a request without waiting: any number may be under way, and they are answered in this order.
    pub fn start<R: Request>(&self, request: &R) -> Result<PendingResponse<R>> {
        self.start_as(request, self.version::<R>()?, self.request_timeout())
    }

    /// [`Connection::start`] in a version and with a timeout of the caller's choice.
    pub fn start_as<R: Request>(&self, request: &R, version: i16, timeout: Duration) -> Result<PendingResponse<R>> {
        self.handle.shared.start(request, version, timeout)
    }

    /// Sends a request that the broker does not answer: Produce with acks=0.
    pub fn post<R: Request>(&self, request: &R, version: i16) -> Result<()> {
        let shared = &self.handle.shared;
        let mut queue = shared.open_queue()?;
        let correlation_id = queue.take_correlation_id();
        shared.write(queue, |out| frame::write_request(out, version, correlation_id, shared.client_id(), request));
        Ok(())
    }

    /// [`Connection::post`] of a whole request frame, as [`Connection::start_frame`] takes it.
    pub fn post_frame(&self, frame: &[u8]) -> Result<()> {
        let shared = &self.handle.shared;
        assert!(frame.len() >= CORRELATION_ID.end, "a request frame has a header");
        let mut queue = shared.open_queue()?;
        let correlation_id = queue.take_correlation_id();
        shared.write(queue, |out| put_frame(out, frame, correlation_id));
        Ok(())
    }

    /// Bytes that wait behind those that are being written. Who posts has to look: nothing else holds him up.
    pub fn unsent_bytes(&self) -> usize {
        self.handle.shared.queue().outgoing.len()
    }

    /// Sends a whole request frame, length prefix included, that was encoded beforehand, with a correlation id of its
    /// own. The answer is the response frame without its length prefix, for [`frame::read_response`].
    pub fn start_frame(&self, frame: &[u8], timeout: Duration) -> Result<PendingFrame> {
        let shared = &self.handle.shared;
        assert!(frame.len() >= CORRELATION_ID.end, "a request frame has a header");
        shared.enqueue(timeout, |out, correlation_id| put_frame(out, frame, correlation_id))
    }
}

fn put_frame(out: &mut BytesMut, frame: &[u8], correlation_id: i32) {
    let start = out.len();
    out.extend_from_slice(frame);
    out[start..][CORRELATION_ID].copy_from_slice(&correlation_id.to_be_bytes());
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn open_queue(&self) -> Result<MutexGuard<'_, Queue>> {
        let queue = self.queue();
        match &queue.failed {
            Some(error) => Err(error.clone()),
            None => Ok(queue),
        }
    }

    fn client_id(&self) -> &str {
        &self.config.client_id
    }

    fn start<R: Request>(self: &Arc<Self>, request: &R, version: i16, timeout: Duration) -> Result<PendingResponse<R>> {
        let frame = self.enqueue(timeout, |out, correlation_id| {
            frame::write_request(out, version, correlation_id, self.client_id(), request);
        })?;
        Ok(PendingResponse { frame, shared: self.clone(), version, request: PhantomData })
    }

    fn enqueue(&self, timeout: Duration, encode: impl FnOnce(&mut BytesMut, i32)) -> Result<PendingFrame> {
        let deadline = Instant::now() + timeout;
        let (answer, receiver) = oneshot::channel();
        let mut queue = self.open_queue()?;
        if queue.in_flight.len() >= self.config.in_flight_max {
            return Err(ConnectionError::Busy { address: self.address.clone() });
        }
        let correlation_id = queue.take_correlation_id();
        queue.in_flight.push_back(InFlight { correlation_id, deadline, answer });
        queue.first_deadline = Some(queue.first_deadline.map_or(deadline, |first| first.min(deadline)));
        self.write(queue, |out| encode(out, correlation_id));
        Ok(PendingFrame { answer: receiver })
    }

    /// Appends to what is to be written. Who finds the buffer empty wakes the task; the others ride along.
    fn write(&self, mut queue: MutexGuard<'_, Queue>, encode: impl FnOnce(&mut BytesMut)) {
        let first = queue.outgoing.is_empty();
        encode(&mut queue.outgoing);
        drop(queue);
        if first {
            self.wake.notify_one();
        }
    }

    /// Gives a response to the request that it answers.
    fn deliver(&self, frame: Bytes) -> Result<()> {
        let received = Reader::new(&frame, 0, false)
            .array()
            .map(i32::from_be_bytes)
            .map_err(|reason| ConnectionError::Response { address: self.address.clone(), reason })?;
        let mut queue = self.queue();
        let expected = queue.in_flight.front().map_or(-1, |request| request.correlation_id);
        if expected != received {
            return Err(ConnectionError::OutOfOrder { address: self.address.clone(), expected, received });
        }
        if let Some(request) = queue.in_flight.pop_front() {
            // Who asked may have stopped waiting.
            let _ = request.answer.send(Ok(frame));
        }
        if queue.in_flight.is_empty() {
            queue.first_deadline = None;
        }
        Ok(())
    }

    /// Ends the connection for everybody who waits on it.
    fn fail(&self, error: &ConnectionError) {
        let mut queue = self.queue();
        queue.failed = Some(error.clone());
        let in_flight = std::mem::take(&mut queue.in_flight);
        drop(queue);
        for request in in_flight {
            let _ = request.answer.send(Err(error.clone()));
        }
        self.ended.notify_waiters();
    }

    fn io_error(&self, error: &io::Error) -> ConnectionError {
        let address = self.address.clone();
        if let Some(reason) = tls::failure(error) {
            return ConnectionError::Tls { address, reason };
        }
        match error.kind() {
            // The last is TLS that ends without its own goodbye.
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
                ConnectionError::Closed { address }
            }
            _ => ConnectionError::Io { address, reason: reason(error) },
        }
    }
}

impl Queue {
    fn take_correlation_id(&mut self) -> i32 {
        let id = self.next_correlation_id;
        self.next_correlation_id = id.wrapping_add(1) & i32::MAX;
        id
    }

    fn is_done(&self) -> bool {
        self.closed && self.outgoing.is_empty() && self.in_flight.is_empty()
    }
}

/// A response frame that is under way. The frame comes without its length prefix.
pub struct PendingFrame {
    answer: oneshot::Receiver<Result<Bytes>>,
}

impl Future for PendingFrame {
    type Output = Result<Bytes>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer).poll(context));
        // The task always answers before it ends; only the end of the runtime itself drops a request.
        Poll::Ready(answer.unwrap_or_else(|_| Err(ConnectionError::Closed { address: "the broker".to_owned() })))
    }
}

/// A response that is under way.
pub struct PendingResponse<R> {
    frame: PendingFrame,
    shared: Arc<Shared>,
    version: i16,
    request: PhantomData<fn() -> R>,
}

impl<R: Request> Future for PendingResponse<R> {
    type Output = Result<R::Response>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let frame = ready!(Pin::new(&mut self.frame).poll(context))?;
        let response = frame::read_response::<R>(&frame, self.version);
        Poll::Ready(match response {
            Ok((_, response)) => Ok(response),
            Err(reason) => Err(ConnectionError::Response { address: self.shared.address.clone(), reason }),
        })
    }
}

/// Asks for the versions that the broker speaks. One that does not know our version of the question answers in version
/// 0 with error 35 and the range it knows (KIP-511), and is asked again.
async fn negotiate(shared: &Arc<Shared>) -> Result<Negotiated> {
    let unreadable = |reason| ConnectionError::Response { address: shared.address.clone(), reason };
    let request = ApiVersionsRequest {
        client_software_name: "parshall".to_owned(),
        client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let mut version = *ApiVersionsRequest::API.versions.end();
    loop {
        let frame = shared
            .enqueue(shared.config.request_timeout, |out, correlation_id| {
                frame::write_request(out, version, correlation_id, shared.client_id(), &request);
            })?
            .await?;
        // The error code comes first in every version.
        let mut reader = Reader::new(&frame, 0, false);
        let code = i32::read(&mut reader).and_then(|_| ErrorCode::read(&mut reader)).map_err(unreadable)?;
        let answered_in = if code == ErrorCode::UNSUPPORTED_VERSION { 0 } else { version };
        let response: ApiVersionsResponse =
            frame::read_response::<ApiVersionsRequest>(&frame, answered_in).map_err(unreadable)?.1;
        if code.is_none() {
            let mut finalized = response.finalized_features.iter();
            let transaction_version = finalized.find(|feature| feature.name == TRANSACTION_VERSION);
            return Ok(Negotiated {
                versions: common_versions(&response),
                transaction_version: transaction_version.map_or(0, |feature| feature.max_version_level),
            });
        }
        let known = response.api_keys.iter().find(|api| api.api_key == ApiVersionsRequest::API.key);
        let next = known.map_or(0, |api| api.max_version.max(0));
        if code != ErrorCode::UNSUPPORTED_VERSION || next >= version {
            return Err(ConnectionError::Refused { address: shared.address.clone(), code });
        }
        version = next;
    }
}

fn common_versions(response: &ApiVersionsResponse) -> [i16; KEYS] {
    let mut versions = [-1; KEYS];
    for theirs in &response.api_keys {
        let Some(ours) = wire::api::find(theirs.api_key) else { continue };
        if let Some(version) = ours.highest_common_version(theirs.min_version, theirs.max_version) {
            versions[ours.key as usize] = version;
        }
    }
    versions
}

/// The connection's task: writes what has gathered, reads what has come, until something fails or nobody needs it.
async fn run<S: AsyncRead + AsyncWrite>(stream: S, shared: Arc<Shared>) {
    let error = drive(stream, &shared).await;
    shared.fail(&error);
}

async fn drive<S: AsyncRead + AsyncWrite>(stream: S, shared: &Shared) -> ConnectionError {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut incoming = BytesMut::with_capacity(READ_BYTES);
    let mut outgoing = BytesMut::new();
    let mut is_flushed = true;
    let mut timer = pin!(sleep_until(Instant::now()));
    loop {
        let deadline = {
            let mut queue = shared.queue();
            if let Some(error) = &queue.failed {
                return error.clone();
            }
            if outgoing.is_empty() {
                std::mem::swap(&mut outgoing, &mut queue.outgoing);
            }
            if outgoing.is_empty() && is_flushed && queue.is_done() {
                return ConnectionError::Closed { address: shared.address.clone() };
            }
            queue.first_deadline
        };
        // The timer may fire too early, when the request it was set for has been answered, but never too late.
        if let Some(deadline) = deadline
            && (timer.is_elapsed() || deadline < timer.deadline())
        {
            timer.as_mut().reset(deadline);
        }
        make_room(&mut incoming);
        tokio::select! {
            // In this order always, so that a simulation repeats itself. Requests in flight are bounded and answered in
            // their order, so none of these is always ready.
            biased;
            written = write(&mut writer, &mut outgoing, &mut is_flushed), if !outgoing.is_empty() || !is_flushed => {
                if let Err(error) = written {
                    return shared.io_error(&error);
                }
            }
            read = reader.read_buf(&mut incoming) => {
                match read {
                    Ok(0) => return ConnectionError::Closed { address: shared.address.clone() },
                    Ok(_) => if let Err(error) = take_frames(&mut incoming, shared) {
                        return error;
                    }
                    Err(error) => return shared.io_error(&error),
                }
            }
            () = shared.wake.notified() => {}
            () = &mut timer, if deadline.is_some() => {
                let mut queue = shared.queue();
                queue.first_deadline = queue.in_flight.iter().map(|request| request.deadline).min();
                if queue.first_deadline.is_some_and(|first| first <= Instant::now()) {
                    return ConnectionError::Timeout { address: shared.address.clone() };
                }
            }
        }
    }
}

/// Writes, and flushes when all is written: what a socket does not take at once waits within TLS. May be cancelled.
async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    outgoing: &mut BytesMut,
    is_flushed: &mut bool,
) -> io::Result<()> {
    if !outgoing.is_empty() {
        *is_flushed = false;
        if writer.write_buf(outgoing).await? == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
    }
    if outgoing.is_empty() {
        writer.flush().await?;
        *is_flushed = true;
    }
    Ok(())
}

/// Grows with what has arrived, not with what a frame claims: at most to twice of it.
fn make_room(incoming: &mut BytesMut) {
    if incoming.capacity() == incoming.len() {
        incoming.reserve(incoming.len().max(READ_BYTES));
    }
}

fn take_frames(incoming: &mut BytesMut, shared: &Shared) -> Result<()> {
    while let Some(length) = incoming.first_chunk::<4>() {
        let claimed = i32::from_be_bytes(*length);
        let length = match usize::try_from(claimed) {
            Ok(length) if (4..=shared.config.response_bytes_max).contains(&length) => length,
            _ if claimed >> 16 == TLS_ALERT => {
                return Err(ConnectionError::SpeaksTls { address: shared.address.clone() });
            }
            _ => return Err(ConnectionError::NotKafka { address: shared.address.clone(), claimed }),
        };
        if incoming.len() < 4 + length {
            break;
        }
        incoming.advance(4);
        shared.deliver(incoming.split_to(length).freeze())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
