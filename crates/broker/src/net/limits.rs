//! How many connections there may be, and how often one peer may fill the log.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Counts connections in total and per address (`max.connections`, `max.connections.per.ip`).
pub struct Admission {
    total_max: usize,
    per_ip_max: usize,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Default)]
struct Counts {
    total: usize,
    per_ip: HashMap<IpAddr, usize>,
}

/// Why a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    #[error("max.connections is reached")]
    Total,
    #[error("max.connections.per.ip is reached")]
    PerIp,
    #[error("the process may open no more files (ulimit -n)")]
    Descriptors,
}

impl Limit {
    pub const ALL: [Self; 3] = [Self::Total, Self::PerIp, Self::Descriptors];

    /// The setting that is the limit, or what it stands for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Total => "max.connections",
            Self::PerIp => "max.connections.per.ip",
            Self::Descriptors => "descriptors",
        }
    }
}

/// A connection's place in the counts, given back when it is dropped.
pub struct Admitted {
    ip: IpAddr,
    counts: Arc<Mutex<Counts>>,
}

impl Admission {
    pub fn new(total_max: i32, per_ip_max: i32) -> Self {
        Self {
            total_max: usize::try_from(total_max).unwrap_or(0),
            per_ip_max: usize::try_from(per_ip_max).unwrap_or(0),
            counts: Arc::default(),
        }
    }

    pub fn admit(&self, ip: IpAddr) -> Result<Admitted, Limit> {
        let mut counts = self.counts.lock();
        if counts.total >= self.total_max {
            return Err(Limit::Total);
        }
        let here = counts.per_ip.get(&ip).copied().unwrap_or(0);
        if here >= self.per_ip_max {
            return Err(Limit::PerIp);
        }
        counts.total += 1;
        counts.per_ip.insert(ip, here + 1);
        Ok(Admitted { ip, counts: Arc::clone(&self.counts) })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.total -= 1;
        if let Some(here) = counts.per_ip.get_mut(&self.ip) {
            *here -= 1;
            if *here == 0 {
                counts.per_ip.remove(&self.ip);
            }
        }
    }
}

/// At most one line per peer and second; what was left out is counted in the next.
#[derive(Default)]
pub struct LogLimit {
    peers: Mutex<HashMap<Option<IpAddr>, Spoken>>,
}

struct Spoken {
    at: Instant,
    left_out: u64,
}

const INTERVAL: Duration = Duration::from_secs(1);
/// Addresses that are remembered. Beyond, those that were quiet for a second are forgotten.
const PEERS_MAX: usize = 10_000;

impl LogLimit {
    pub fn warn(&self, peer: Option<IpAddr>, message: impl FnOnce() -> String) {
        if let Some(left_out) = self.speak(peer, Instant::now()) {
            match left_out {
                0 => tracing::warn!("{}", message()),
                n => tracing::warn!("{} ({n} more like it from there since the last line)", message()),
            }
        }
    }

    /// Whether a line may be written now, and how many were left out before it.
    fn speak(&self, peer: Option<IpAddr>, now: Instant) -> Option<u64> {
        let mut peers = self.peers.lock();
        if let Some(spoken) = peers.get_mut(&peer) {
            if now.duration_since(spoken.at) < INTERVAL {
                spoken.left_out += 1;
                return None;
            }
            spoken.at = now;
            return Some(std::mem::take(&mut spoken.left_out));
        }
        if peers.len() >= PEERS_MAX {
            peers.retain(|_, spoken| now.duration_since(spoken.at) < INTERVAL);
            if peers.len() >= PEERS_MAX {
                return None;
            }
        }
        peers.insert(peer, Spoken { at: now, left_out: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    #[test]
    fn a_place_is_free_again_when_its_connection_ends() {
        let admission = Admission::new(3, 2);
        let first = admission.admit(A).expect("there is room");
        let _second = admission.admit(A).expect("there is room");
        assert_eq!(admission.admit(A).err(), Some(Limit::PerIp));
        let _third = admission.admit(B).expect("there is room");
        assert_eq!(admission.admit(B).err(), Some(Limit::Total));
        drop(first);
        assert!(admission.admit(A).is_ok());
    }

    #[test]
    fn one_line_per_peer_and_second() {
        let limit = LogLimit::default();
        let now = Instant::now();
        assert_eq!(limit.speak(Some(A), now), Some(0));
        assert_eq!(limit.speak(Some(A), now), None);
        assert_eq!(limit.speak(Some(B), now), Some(0));
        assert_eq!(limit.speak(Some(A), now + INTERVAL), Some(1));
    }
}
