//! A TCP proxy that adds delay, so that a case across zones can be made on any machine.
//!
//! It stands between clients and one address, and holds back what each direction of each connection carries, the end of
//! a stream too. Connecting is not delayed, and what the machine takes to wake a thread comes on top: the true round
//! trip has to be measured. Clients follow the addresses that brokers advertise, so these have to lead to the proxy, by
//! a detour of the client or by what the broker advertises.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::timer::Timer;

/// How many bytes are read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// What one direction of a connection holds at most. It is what fits into a line of 160 ms at 100 MiB/s.
const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What a chunk costs besides its bytes, so that many small ones are bounded too.
const CHUNK_OVERHEAD_BYTES: usize = 64;
/// Before another try where no connection can be accepted, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A running proxy; dropping it closes its connections.
///
/// It has a thread of its own, since what is due must not wait until the tasks of a load pause.
pub struct DelayProxy {
    /// Where it listens.
    pub address: SocketAddr,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl DelayProxy {
    /// Passes on to `upstream` (`host:port`), which need not be there yet.
    pub async fn start(upstream: &str, one_way: Duration) -> io::Result<Self> {
        let upstream: Arc<[SocketAddr]> = lookup_host(upstream).await?.collect();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _within = runtime.enter();
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)?
        };
        let address = listener.local_addr()?;
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("delay-proxy".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = stopped.notified() => {}
                    () = accept(listener, upstream, one_way) => {}
                }
            });
        })?;
        Ok(Self { address, stop, thread: Some(thread) })
    }
}

impl Drop for DelayProxy {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of it does not matter any more.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, upstream: Arc<[SocketAddr]>, one_way: Duration) {
    // Goes with this task, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    let upstream = upstream.clone();
                    connections.spawn(async move {
                        if let Err(error) = pass_on(client, &upstream, one_way).await {
                            tracing::debug!(%error, "a delayed connection ended");
                        }
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Ends when both directions have ended, or at the first error of one: that closes both connections at once.
async fn pass_on(client: TcpStream, upstream: &[SocketAddr], one_way: Duration) -> io::Result<()> {
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let there = Direction::new(from_client, to_server, one_way)?;
    let back = Direction::new(from_server, to_client, one_way)?;
    tokio::try_join!(there.run(), back.run())?;
    Ok(())
}

/// One direction of a connection.
struct Direction {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    one_way: Duration,
    timer: Timer,
    held: VecDeque<Chunk>,
    held_bytes: usize,
}

struct Chunk {
    due: Instant,
    /// Empty at the end of the stream.
    bytes: Bytes,
}

impl Direction {
    fn new(from: OwnedReadHalf, to: OwnedWriteHalf, one_way: Duration) -> io::Result<Self> {
        Ok(Self { from, to, one_way, timer: Timer::new()?, held: VecDeque::new(), held_bytes: 0 })
    }

    async fn run(mut self) -> io::Result<()> {
        let mut buffer = BytesMut::new();
        let mut ended = false;
        loop {
            if buffer.capacity() < CHUNK_BYTES / 8 {
                buffer.reserve(CHUNK_BYTES);
            }
            let due = self.held.front().map(|chunk| chunk.due);
            tokio::select! {
                // What is due goes first, so that a sender who never pauses does not hold it up.
                biased;
                waited = self.timer.wait_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    waited?;
                    let Some(chunk) = self.held.pop_front() else { continue };
                    if chunk.bytes.is_empty() {
                        return self.to.shutdown().await;
                    }
                    self.held_bytes -= chunk.bytes.len() + CHUNK_OVERHEAD_BYTES;
                    self.to.write_all(&chunk.bytes).await?;
                }
                read = self.from.read_buf(&mut buffer), if !ended && self.held_bytes < HELD_BYTES_MAX => {
                    ended = read? == 0;
                    let chunk = Chunk { due: Instant::now() + self.one_way, bytes: buffer.split().freeze() };
                    self.held_bytes += chunk.bytes.len() + CHUNK_OVERHEAD_BYTES;
                    self.held.push_back(chunk);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_WAY: Duration = Duration::from_millis(5);

    /// Answers everything with the same, and closes when its client has.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn proxied() -> (DelayProxy, TcpStream) {
        let proxy = DelayProxy::start(&echo().await.to_string(), ONE_WAY).await.unwrap();
        let stream = TcpStream::connect(proxy.address).await.unwrap();
        (proxy, stream)
    }

    #[tokio::test]
    async fn every_round_trip_is_delayed() {
        let (_proxy, mut stream) = proxied().await;
        for _ in 0..3 {
            let started = Instant::now();
            stream.write_all(b"ping").await.unwrap();
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"ping");
            assert!(started.elapsed() >= 2 * ONE_WAY, "{:?}", started.elapsed());
        }
    }

    /// More than is held at once, in both directions, to the end that the sender declares.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn much_arrives_whole_and_the_end_behind_it() {
        let (_proxy, stream) = proxied().await;
        let sent: Vec<u8> = (0..3 * HELD_BYTES_MAX).map(|at| (at * 31 / 7) as u8).collect();
        let (mut from, mut to) = stream.into_split();
        let all = sent.clone();
        let writer = tokio::spawn(async move {
            to.write_all(&all).await.unwrap();
            to.shutdown().await.unwrap();
        });
        let mut received = Vec::new();
        from.read_to_end(&mut received).await.unwrap();
        writer.await.unwrap();
        assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
    }

    #[tokio::test]
    async fn half_of_a_connection_can_be_closed() {
        let (_proxy, mut stream) = proxied().await;
        stream.write_all(b"last words").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"last words");
    }

    #[tokio::test]
    async fn without_anybody_behind_it_a_connection_ends() {
        let proxy = DelayProxy::start("127.0.0.1:1", ONE_WAY).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        assert!(matches!(stream.read(&mut [0; 8]).await, Ok(0) | Err(_)));
    }

    #[tokio::test]
    async fn dropping_it_ends_it() {
        let (proxy, mut stream) = proxied().await;
        stream.write_all(b"ping").await.unwrap();
        stream.read_exact(&mut [0; 4]).await.unwrap();
        let address = proxy.address;
        drop(proxy);
        assert!(matches!(stream.read(&mut [0; 8]).await, Ok(0) | Err(_)));
        assert!(TcpStream::connect(address).await.is_err());
    }
}
