//! The listener: accepts connections within their limits and runs a task for each.

mod connection;
mod file_range;
mod input;
mod limits;
mod output;
mod transfer_deadline;

use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use configuration::{BrokerConfig, listener_settings};
pub use limits::Admission;
use platform::{Allowed, LogLimit, panics};
use rustix::process::{Resource, getrlimit};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use self::connection::Connection;
use self::limits::{Admitted, ConnectionRate};
use crate::Broker;
use crate::api::Peer;
use crate::close_reason::{CloseReason, Limit};
use crate::quotas::Quotas;
use crate::security::{ListenerSecurity, Principal};
use crate::stream::{Socket, Stream};

/// Descriptors that connections leave to log files, or an eighth of all where that is less.
const DESCRIPTOR_RESERVE_MAX: u64 = 256;
/// How long nothing is accepted after the process has run out of descriptors. Connections wait in the backlog.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Opens the listening socket. Its connections have buffers like its own (`socket.*.buffer.bytes`).
pub fn bind(address: SocketAddr, config: &BrokerConfig) -> std::io::Result<TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, Some(socket2::Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // -1 leaves them to the kernel.
    if let Ok(bytes) = usize::try_from(config.socket_send_buffer_bytes) {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Ok(bytes) = usize::try_from(config.socket_receive_buffer_bytes) {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(&address.into())?;
    socket.listen(config.socket_listen_backlog_size)?;
    TcpListener::from_std(socket.into())
}

/// A listening socket, and the state of its connections.
pub struct Listener {
    pub socket: Socket,
    pub name: Arc<str>,
    /// Whether it is for brokers among themselves.
    pub is_inter_broker: bool,
    pub security: Arc<ListenerSecurity>,
    /// Counts connections. All listeners for clients share one.
    pub admission: Arc<Admission>,
}

/// Accepts and serves connections of a listener until it is dropped, and its connections with it. Inter-broker
/// connections that carry data are served on the data plane.
pub async fn serve(broker: Arc<Broker>, listener: Listener, data_plane: Handle) {
    let stats = Arc::clone(&broker.shared.stats);
    let mut connections = JoinSet::new();
    let own_rate = ConnectionRate::new(&broker.config());
    loop {
        while connections.try_join_next().is_some() {}
        let (stream, address) = match listener.socket.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(Allowed { left_out }) = broker.log_limit.allow_other() {
                    tracing::warn!(%error, left_out, "cannot accept connections for now");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let admitted = if uses_last_descriptors(&stream) {
            Err(Limit::Descriptors)
        } else {
            listener.admission.admit(address.ip(), &listener.name, &broker.config())
        };
        let delay = admitted.as_ref().ok().and_then(|_| connects_too_often(&broker, &listener, address));
        match (admitted, delay) {
            (Ok(admitted), Some(delay)) => {
                connections.spawn(refuse_later(stream, admitted, delay));
                refuse(&broker, address, Limit::CreationRate);
            }
            (Ok(admitted), None) => {
                stats.connections.accepted.add(1);
                let peer = Peer {
                    address,
                    listener: Arc::clone(&listener.name),
                    is_inter_broker: listener.is_inter_broker,
                    security: Arc::clone(&listener.security),
                    principal: Principal::anonymous(),
                    grants: Arc::default(),
                    certificate: None,
                };
                let connection = prepare(stream, &listener.security)
                    .map(|stream| Box::new(Connection::new(Arc::clone(&broker), stream, peer)));
                let (broker, stats) = (Arc::clone(&broker), Arc::clone(&stats));
                let data_plane = data_plane.clone();
                connections.spawn(async move {
                    let reason = match connection {
                        Ok(connection) => run(connection, &data_plane).await,
                        Err(error) => error.into(),
                    };
                    drop(admitted);
                    stats.connections.closed[reason.index()].add(1);
                    report(&broker.log_limit, address, &reason);
                });
            }
            (Err(limit), _) => refuse(&broker, address, limit),
        }
        let pause = pause(&broker, &listener, &own_rate);
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Runs a connection, and goes on on the data plane when it belongs there. A task of its own for each connection: it is
/// boxed, as every layer of futures above would have room for another one.
async fn run(mut connection: Box<Connection>, data_plane: &Handle) -> CloseReason {
    match panics::catch(connection.run()).await {
        Ok(Ok(())) => {}
        Ok(Err(reason)) => return reason,
        Err(panics::Panicked) => return CloseReason::Panicked,
    };
    // Of a set, so that it ends with this task.
    let mut moved = JoinSet::new();
    let work = async move {
        let mut connection = connection.moved()?;
        connection.run().await
    };
    moved.spawn_on(work, data_plane);
    match moved.join_next().await {
        Some(Ok(Err(reason))) => reason,
        // It moves once, and panics alone end it otherwise.
        _ => CloseReason::Panicked,
    }
}

/// For how long a connection is held before it is closed, if its address connects more often than its quota allows: one
/// that was closed at once would be tried again at once (KIP-612).
fn connects_too_often(broker: &Broker, listener: &Listener, address: SocketAddr) -> Option<Duration> {
    let image = broker.metadata.load();
    if !Quotas::are_any(&image) || listener.is_inter_broker {
        return None;
    }
    let now_ms = broker.env.clock.now().monotonic_ms;
    let tried = broker.quotas.of_address(&image, address.ip(), now_ms)?.try_record(1.0, now_ms);
    tried.err().map(|ms| Duration::from_millis(ms.unsigned_abs().into()))
}

/// Counts among the connections meanwhile.
async fn refuse_later(stream: Stream, admitted: Admitted, delay: Duration) {
    tokio::time::sleep(delay).await;
    drop((stream, admitted));
}

fn refuse(broker: &Broker, address: SocketAddr, limit: Limit) {
    broker.shared.stats.connections.refused[limit as usize].add(1);
    if let Some(Allowed { left_out }) = broker.log_limit.allow(address) {
        tracing::warn!(%address, reason = %limit, left_out, "connection refused");
    }
}

/// Counts a connection. Returns for how long none is accepted behind it (`max.connection.creation.rate`). Brokers wait
/// only for what is set for their own listener.
fn pause(broker: &Broker, listener: &Listener, own: &ConnectionRate) -> Duration {
    let (config, now_ms) = (broker.config(), broker.env.clock.now().monotonic_ms);
    let own_max = listener_settings::max_connection_creation_rate(&config, &listener.name);
    let of_own = own_max.map_or(Duration::ZERO, |max| own.record(max, now_ms));
    if listener.is_inter_broker {
        return of_own;
    }
    of_own.max(listener.admission.rate().record(config.max_connection_creation_rate, now_ms))
}

/// Whether a new connection leaves too few descriptors for log files. The kernel gives the lowest free number, so the
/// number of a descriptor shows how many are in use.
fn uses_last_descriptors(stream: &Stream) -> bool {
    let Stream::Tcp(stream) = stream else { return false };
    let Some(limit) = getrlimit(Resource::Nofile).current else { return false };
    let reserve = DESCRIPTOR_RESERVE_MAX.min(limit / 8);
    stream.as_raw_fd() as u64 + reserve >= limit
}

fn prepare(stream: Stream, security: &ListenerSecurity) -> std::io::Result<Stream> {
    if let Stream::Tcp(socket) = &stream {
        socket.set_nodelay(true)?;
    }
    match security.tls() {
        Some(tls) => stream.secured(tls),
        None => Ok(stream),
    }
}

fn report(log_limit: &LogLimit, address: SocketAddr, reason: &CloseReason) {
    match reason {
        CloseReason::Closed | CloseReason::Io(_) | CloseReason::Idle => {
            tracing::debug!(%address, %reason, "connection closed");
        }
        reason => {
            if let Some(Allowed { left_out }) = log_limit.allow(address) {
                tracing::warn!(%address, %reason, left_out, "connection closed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn config(name: &str, value: &str) -> BrokerConfig {
        BrokerConfig::new([(name.to_owned(), value.to_owned())].into()).expect("the setting is valid")
    }

    #[tokio::test]
    async fn connections_have_the_buffers_that_are_set() {
        for (name, is_send) in [("socket.send.buffer.bytes", true), ("socket.receive.buffer.bytes", false)] {
            let listener = bind(([127, 0, 0, 1], 0).into(), &config(name, "20000")).unwrap();
            let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            let socket = socket2::SockRef::from(&accepted);
            let size = if is_send { socket.send_buffer_size() } else { socket.recv_buffer_size() };
            // Linux doubles the value that is set.
            assert_eq!(size.unwrap(), 40_000, "{name}");
        }
    }

    #[tokio::test]
    async fn no_more_wait_to_be_accepted_than_the_backlog_has_room_for() {
        let listener = bind(([127, 0, 0, 1], 0).into(), &config("socket.listen.backlog.size", "1")).unwrap();
        let address = listener.local_addr().unwrap();
        // Linux accepts one more than the backlog.
        let _waiting = [(); 2].map(|()| std::net::TcpStream::connect(address).unwrap());
        assert!(std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100)).is_err());
    }

    /// 10,000 idle connections are no rare sight.
    #[test]
    fn a_connection_takes_little_memory_beside_its_buffers() {
        fn future_size<'a, F>(_: impl FnOnce(Box<Connection>, &'a Handle) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = size_of::<Connection>() + future_size(run);
        assert!(bytes < 2560, "{bytes} bytes");
    }
}
