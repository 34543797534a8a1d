//! A network of streams between machines, as TCP makes it: bytes arrive in order or not at all, lost packets come late,
//! and packets held up by a cut come when it is over. Parts of it can be cut, one way or both. A process that ends
//! closes its streams; a machine that loses its power says nothing until it runs again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use storage::simdisk::Rng;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::time::now_ms;
use crate::stream::Stream;

/// How long bytes take at most, and how long lost packets.
const DELAY_MAX_MS: u64 = 25;
const LATE_MAX_MS: u64 = 800;
/// Bytes that are under way on a stream, or not read yet.
const WINDOW_BYTES: usize = 128 * 1024;

/// The address of a machine.
pub(crate) fn address_of(machine: i32, port: u16) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, machine as u8), port).into()
}

fn machine_of(address: SocketAddr) -> i32 {
    match address {
        SocketAddr::V4(address) => i32::from(address.ip().octets()[3]),
        SocketAddr::V6(_) => -1,
    }
}

enum Flight {
    /// Of a new connection.
    Syn,
    Data(Bytes),
    Fin,
    Reset,
}

#[derive(Default)]
struct End {
    machine: i32,
    /// On the way here: when it arrives.
    flights: VecDeque<(i64, Flight)>,
    flights_sent: u64,
    last_ms: i64,
    under_way_bytes: usize,
    arrived: BytesMut,
    is_connected: bool,
    is_refused: bool,
    /// The other side sends no more.
    is_finished: bool,
    is_reset: bool,
    /// This side has dropped it.
    is_closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl End {
    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }

    fn is_over(&self) -> bool {
        self.is_closed && self.flights.is_empty()
    }
}

struct Connection {
    to: SocketAddr,
    /// The side of the client, and that of the server.
    ends: [End; 2],
}

#[derive(Default)]
struct Listening {
    backlog: VecDeque<u64>,
    waker: Option<Waker>,
}

struct State {
    seed: u64,
    /// Of each hundred flights, how many are late.
    late_percent: u64,
    last: u64,
    connections: BTreeMap<u64, Connection>,
    listening: BTreeMap<SocketAddr, Listening>,
    /// Nothing that `.0` sends reaches `.1`.
    cuts: BTreeSet<(i32, i32)>,
    without_power: BTreeSet<i32>,
}

/// The network. Clones are one.
#[derive(Clone)]
pub(crate) struct Sockets(Arc<Mutex<State>>);

impl Sockets {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            seed,
            late_percent: 0,
            last: 0,
            connections: BTreeMap::new(),
            listening: BTreeMap::new(),
            cuts: BTreeSet::new(),
            without_power: BTreeSet::new(),
        })))
    }

    pub(crate) fn listen(&self, address: SocketAddr) -> SimListener {
        self.0.lock().listening.insert(address, Listening::default());
        SimListener { sockets: self.clone(), address }
    }

    pub(crate) async fn connect(&self, from: i32, to: SocketAddr) -> io::Result<SimStream> {
        let number = {
            let mut state = self.0.lock();
            state.last += 1;
            let number = state.last;
            let end = |machine| End { machine, ..End::default() };
            state.connections.insert(number, Connection { to, ends: [end(from), end(machine_of(to))] });
            state.send(number, 1, Flight::Syn);
            number
        };
        let stream = SimStream { sockets: self.clone(), number, side: 0 };
        poll_fn(|cx| {
            let mut state = self.0.lock();
            let end = state.end(number, 0);
            if end.is_refused {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::ConnectionRefused)));
            }
            if end.is_connected {
                return Poll::Ready(Ok(()));
            }
            end.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await?;
        Ok(stream)
    }

    /// Has everything arrive that is due.
    pub(crate) fn deliver(&self, now_ms: i64) {
        let mut state = self.0.lock();
        let numbers: Vec<u64> = state.connections.keys().copied().collect();
        for number in numbers {
            for side in 0..2 {
                while let Some(flight) = state.next_due(number, side, now_ms) {
                    state.arrive(number, side, flight);
                }
            }
            if state.connections.get(&number).is_some_and(|connection| connection.ends.iter().all(End::is_over)) {
                state.connections.remove(&number);
            }
        }
    }

    // --- What goes wrong

    pub(crate) fn set_late_percent(&self, percent: u64) {
        self.0.lock().late_percent = percent;
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.0.lock().cuts.is_empty()
    }

    pub(crate) fn cut(&self, from: i32, to: i32) {
        self.0.lock().cuts.insert((from, to));
    }

    /// Cuts it in two: those whose bit is set in `side` from the others.
    pub(crate) fn split(&self, nodes: i32, side: u64) {
        let is_there = |node: i32| side >> node & 1 == 1;
        let mut state = self.0.lock();
        state.cuts.clear();
        for from in 0..nodes {
            state.cuts.extend((0..nodes).filter(|to| is_there(from) != is_there(*to)).map(|to| (from, to)));
        }
    }

    pub(crate) fn heal(&self) {
        self.0.lock().cuts.clear();
    }

    /// Breaks one of the connections between two machines.
    pub(crate) fn reset_one(&self, rng: &mut Rng) {
        let mut state = self.0.lock();
        let numbers: Vec<u64> = state.connections.keys().copied().collect();
        if numbers.is_empty() {
            return;
        }
        let number = numbers[rng.below(numbers.len() as u64) as usize];
        for side in 0..2 {
            state.send(number, side, Flight::Reset);
        }
    }

    /// From now on nothing comes from a machine, or is taken there.
    pub(crate) fn lose_power(&self, machine: i32) {
        self.0.lock().without_power.insert(machine);
    }

    /// It runs again, and knows nothing of the connections that it had.
    pub(crate) fn have_power(&self, machine: i32) {
        let mut state = self.0.lock();
        if !state.without_power.remove(&machine) {
            return;
        }
        let of_machine = |connection: &Connection| {
            let side = connection.ends.iter().position(|end| end.machine == machine && end.is_closed)?;
            (!connection.ends[1 - side].is_closed).then_some(1 - side)
        };
        let others: Vec<(u64, usize)> =
            state.connections.iter().filter_map(|(number, c)| Some((*number, of_machine(c)?))).collect();
        for (number, side) in others {
            state.send(number, side, Flight::Reset);
        }
    }
}

impl State {
    fn end(&mut self, number: u64, side: usize) -> &mut End {
        &mut self.connections.get_mut(&number).expect("its streams hold it").ends[side]
    }

    /// Sends something to a side of a connection.
    fn send(&mut self, number: u64, side: usize, flight: Flight) {
        let (seed, late_percent) = (self.seed, self.late_percent);
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let (from, to) = (connection.ends[1 - side].machine, connection.ends[side].machine);
        if self.without_power.contains(&from) {
            return;
        }
        let end = &mut connection.ends[side];
        end.flights_sent += 1;
        // Not from a generator that all share: who sends first in a moment changes nothing for the others.
        let mut rng = Rng::new(seed ^ number.rotate_left(20) ^ end.flights_sent << 1 ^ side as u64);
        let delay_ms = if from == to {
            0
        } else {
            let is_late = rng.percent(late_percent);
            1 + rng.below(if is_late { LATE_MAX_MS } else { DELAY_MAX_MS }) as i64
        };
        end.last_ms = end.last_ms.max(now_ms() + delay_ms);
        if let Flight::Data(bytes) = &flight {
            end.under_way_bytes += bytes.len();
        }
        end.flights.push_back((end.last_ms, flight));
    }

    fn next_due(&mut self, number: u64, side: usize, now_ms: i64) -> Option<Flight> {
        let connection = self.connections.get_mut(&number)?;
        let (from, to) = (connection.ends[1 - side].machine, connection.ends[side].machine);
        // A connection is made by both sides.
        let is_syn = matches!(connection.ends[side].flights.front(), Some((_, Flight::Syn)));
        if self.cuts.contains(&(from, to)) || is_syn && self.cuts.contains(&(to, from)) {
            return None;
        }
        let end = &mut connection.ends[side];
        end.flights.pop_front_if(|(at_ms, _)| *at_ms <= now_ms).map(|(_, flight)| flight)
    }

    fn arrive(&mut self, number: u64, side: usize, flight: Flight) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let machine = connection.ends[side].machine;
        if self.without_power.contains(&machine) {
            return;
        }
        if let Flight::Syn = flight {
            let to = connection.to;
            let [from, other] = &mut connection.ends;
            match self.listening.get_mut(&to) {
                Some(listening) => {
                    from.is_connected = true;
                    other.is_connected = true;
                    listening.backlog.push_back(number);
                    listening.waker.take().into_iter().for_each(Waker::wake);
                }
                None => {
                    from.is_refused = true;
                    other.is_closed = true;
                }
            }
            from.wake();
            return;
        }
        let end = &mut connection.ends[side];
        let is_data = matches!(flight, Flight::Data(_));
        match flight {
            Flight::Syn => {}
            Flight::Data(bytes) => end.arrived.extend_from_slice(&bytes),
            Flight::Fin => end.is_finished = true,
            Flight::Reset => end.is_reset = true,
        }
        end.wake();
        if is_data && end.is_closed {
            self.send(number, 1 - side, Flight::Reset);
        }
    }

    fn close(&mut self, number: u64, side: usize) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let end = &mut connection.ends[side];
        if end.is_closed {
            return;
        }
        end.is_closed = true;
        end.arrived.clear();
        self.send(number, 1 - side, Flight::Fin);
    }
}

/// A socket that listens.
pub(crate) struct SimListener {
    sockets: Sockets,
    address: SocketAddr,
}

impl SimListener {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn accept(&self) -> (Stream, SocketAddr) {
        poll_fn(|cx| {
            let mut state = self.sockets.0.lock();
            let Some(listening) = state.listening.get_mut(&self.address) else { return Poll::Pending };
            let Some(number) = listening.backlog.pop_front() else {
                listening.waker = Some(cx.waker().clone());
                return Poll::Pending;
            };
            let from = address_of(state.end(number, 0).machine, 1024 + (number % 60_000) as u16);
            let stream = SimStream { sockets: self.sockets.clone(), number, side: 1 };
            Poll::Ready((Stream::Simulated(stream), from))
        })
        .await
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut state = self.sockets.0.lock();
        let Some(listening) = state.listening.remove(&self.address) else { return };
        for number in listening.backlog {
            state.close(number, 1);
        }
    }
}

/// One side of a connection.
pub(crate) struct SimStream {
    sockets: Sockets,
    number: u64,
    side: usize,
}

impl SimStream {
    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.sockets.0.lock();
        let end = state.end(self.number, self.side);
        if !end.arrived.is_empty() || end.is_finished || end.is_reset {
            return Poll::Ready(());
        }
        end.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.sockets.0.lock();
        let is_open = state.end(self.number, 1 - self.side).under_way_bytes < WINDOW_BYTES;
        let end = state.end(self.number, self.side);
        if is_open || end.is_reset {
            return Poll::Ready(());
        }
        end.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.sockets.0.lock();
        if state.end(self.number, self.side).is_reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let window_bytes = WINDOW_BYTES.saturating_sub(state.end(self.number, 1 - self.side).under_way_bytes);
        if window_bytes == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut bytes = BytesMut::new();
        for slice in slices {
            bytes.extend_from_slice(&slice[..slice.len().min(window_bytes - bytes.len())]);
        }
        let sent = bytes.len();
        state.send(self.number, 1 - self.side, Flight::Data(bytes.freeze()));
        Ok(sent)
    }
}

impl AsyncRead for SimStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_read_ready(cx));
        let mut state = self.sockets.0.lock();
        let end = state.end(self.number, self.side);
        if end.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let size = end.arrived.len().min(buffer.remaining());
        buffer.put_slice(&end.arrived[..size]);
        end.arrived.advance(size);
        end.under_way_bytes -= size;
        let other = state.end(self.number, 1 - self.side);
        other.writer.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_write_ready(cx));
        Poll::Ready(self.try_send(&[IoSlice::new(bytes)]))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.sockets.0.lock().close(self.number, self.side);
    }
}
