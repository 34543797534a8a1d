//! How often one peer may fill the log.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// At most so many lines per peer and minute; what was left out is counted in the next.
pub struct LogLimit {
    lines_max: u32,
    peers: Mutex<Peers>,
}

#[derive(Default)]
struct Peers {
    known: HashMap<Peer, Lines>,
    /// When quiet addresses were forgotten last.
    forgot: Option<Instant>,
}

/// The peer that caused a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    Address(IpAddr),
    /// Of no address, or of all beyond [`PEERS_MAX`].
    Others,
}

struct Lines {
    since: Instant,
    written: u32,
    left_out: u64,
}

const LINES_MAX_DEFAULT: u32 = 5;
const INTERVAL: Duration = Duration::from_secs(60);
/// Addresses that are remembered. Beyond, addresses that were quiet for a minute are forgotten, and looked for so
/// often.
const PEERS_MAX: usize = 10_000;
const FORGET_INTERVAL: Duration = Duration::from_secs(1);

/// A line may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// How many were left out before it, if any were.
    pub left_out: Option<u64>,
}

impl Default for LogLimit {
    fn default() -> Self {
        Self::new(LINES_MAX_DEFAULT)
    }
}

impl LogLimit {
    /// `lines_max` for each peer and minute.
    pub fn new(lines_max: u32) -> Self {
        Self { lines_max, peers: Mutex::default() }
    }

    /// Whether a line may be written that this peer has caused: a connection that was refused or closed, a request that
    /// failed.
    pub fn allow(&self, address: SocketAddr) -> Option<Allowed> {
        self.count_line(Peer::Address(address.ip()), Instant::now())
    }

    /// The same for lines that no peer has caused.
    pub fn allow_other(&self) -> Option<Allowed> {
        self.count_line(Peer::Others, Instant::now())
    }

    fn count_line(&self, peer: Peer, now: Instant) -> Option<Allowed> {
        let mut peers = self.peers.lock();
        let is_known = peers.known.contains_key(&peer);
        if !is_known && peers.known.len() >= PEERS_MAX {
            peers.forget(now);
        }
        let peer = if is_known || peers.known.len() < PEERS_MAX { peer } else { Peer::Others };
        let lines = peers.known.entry(peer).or_insert(Lines { since: now, written: 0, left_out: 0 });
        if now.duration_since(lines.since) >= INTERVAL {
            (lines.since, lines.written) = (now, 0);
        }
        if lines.written >= self.lines_max {
            lines.left_out += 1;
            return None;
        }
        lines.written += 1;
        let left_out = std::mem::take(&mut lines.left_out);
        Some(Allowed { left_out: (left_out > 0).then_some(left_out) })
    }
}

impl Peers {
    fn forget(&mut self, now: Instant) {
        if self.forgot.is_none_or(|last| now.duration_since(last) >= FORGET_INTERVAL) {
            self.forgot = Some(now);
            self.known.retain(|_, lines| now.duration_since(lines.since) < INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    #[test]
    fn a_few_lines_per_peer_and_minute_and_the_rest_are_counted() {
        let limit = LogLimit::default();
        let now = Instant::now();
        let count = |ip: IpAddr, now: Instant| limit.count_line(Peer::Address(ip), now).map(|line| line.left_out);
        for _ in 0..LINES_MAX_DEFAULT {
            assert_eq!(count(A, now), Some(None));
        }
        let later = now + INTERVAL - Duration::from_millis(1);
        assert_eq!([count(A, now), count(A, later), count(B, later)], [None, None, Some(None)]);
        assert_eq!([count(A, now + INTERVAL), count(A, now + INTERVAL)], [Some(Some(2)), Some(None)]);
    }

    #[test]
    fn many_peers_share_what_one_has() {
        let limit = LogLimit::default();
        let now = Instant::now();
        let address = |n: u32| Peer::Address(IpAddr::V4(n.into()));
        let written =
            |from: u32, now: Instant| (from..from + 20_000).filter_map(|n| limit.count_line(address(n), now)).count();
        assert_eq!(written(0, now), PEERS_MAX + LINES_MAX_DEFAULT as usize);
        assert_eq!(limit.peers.lock().known.len(), PEERS_MAX + 1);
        let later = now + INTERVAL;
        assert_eq!(
            written(20_000, later),
            PEERS_MAX + LINES_MAX_DEFAULT as usize,
            "those that are quiet are forgotten"
        );
    }
}
