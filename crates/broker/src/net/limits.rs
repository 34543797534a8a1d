//! How many connections there may be, and how often one peer may fill the log.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::BrokerConfig;

/// Counts connections in total and per address. An IPv4 address counts as itself on a listener for IPv6, too.
#[derive(Default)]
pub struct Admission {
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
    /// Takes a place, if the settings of now have one more (`max.connections`, `max.connections.per.ip` and its
    /// overrides). Who is there already stays when they shrink.
    pub fn admit(&self, ip: IpAddr, config: &BrokerConfig) -> Result<Admitted, Limit> {
        let ip = ip.to_canonical();
        let per_ip_max = config.max_connections_per_ip_overrides.count(ip).unwrap_or(config.max_connections_per_ip);
        let mut counts = self.counts.lock();
        if counts.total >= usize::try_from(config.max_connections).unwrap_or(0) {
            return Err(Limit::Total);
        }
        let here = counts.per_ip.get(&ip).copied().unwrap_or(0);
        if here >= usize::try_from(per_ip_max).unwrap_or(0) {
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

/// At most [`LINES_MAX`] lines per peer and minute; what was left out is counted in the next.
#[derive(Default)]
pub struct LogLimit(Mutex<Speakers>);

#[derive(Default)]
struct Speakers {
    known: HashMap<Peer, Spoken>,
    /// When those that were quiet were forgotten last.
    forgot: Option<Instant>,
}

/// Whose doing a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    Address(IpAddr),
    /// Nobody's in particular, or that of those beyond [`PEERS_MAX`].
    Others,
}

struct Spoken {
    since: Instant,
    lines: u32,
    left_out: u64,
}

const LINES_MAX: u32 = 5;
const INTERVAL: Duration = Duration::from_secs(60);
/// Addresses that are remembered. Beyond, those that were quiet for a minute are forgotten, and looked for so often.
const PEERS_MAX: usize = 10_000;
const FORGET_INTERVAL: Duration = Duration::from_secs(1);

impl LogLimit {
    /// Tells of what a peer has brought about: a connection that was refused or closed, a request that failed.
    pub fn warn(&self, address: SocketAddr, reason: &dyn Display, message: &str) {
        if let Some(left_out) = self.speak(Peer::Address(address.ip()), Instant::now()) {
            tracing::warn!(%address, %reason, left_out = (left_out > 0).then_some(left_out), "{message}");
        }
    }

    /// Tells of what is no peer's doing.
    pub fn warn_of(&self, error: &dyn Display, message: &str) {
        if let Some(left_out) = self.speak(Peer::Others, Instant::now()) {
            tracing::warn!(%error, left_out = (left_out > 0).then_some(left_out), "{message}");
        }
    }

    /// Tells of a mistake of this program.
    pub fn error_of(&self, error: &dyn Display, message: &str) {
        if let Some(left_out) = self.speak(Peer::Others, Instant::now()) {
            tracing::error!(%error, left_out = (left_out > 0).then_some(left_out), "{message}");
        }
    }

    /// Whether a line may be written now, and how many were left out before it.
    fn speak(&self, peer: Peer, now: Instant) -> Option<u64> {
        let mut speakers = self.0.lock();
        let is_known = speakers.known.contains_key(&peer);
        if !is_known && speakers.known.len() >= PEERS_MAX {
            speakers.forget(now);
        }
        let peer = if is_known || speakers.known.len() < PEERS_MAX { peer } else { Peer::Others };
        let spoken = speakers.known.entry(peer).or_insert(Spoken { since: now, lines: 0, left_out: 0 });
        if now.duration_since(spoken.since) >= INTERVAL {
            (spoken.since, spoken.lines) = (now, 0);
        }
        if spoken.lines >= LINES_MAX {
            spoken.left_out += 1;
            return None;
        }
        spoken.lines += 1;
        Some(std::mem::take(&mut spoken.left_out))
    }
}

impl Speakers {
    fn forget(&mut self, now: Instant) {
        if self.forgot.is_none_or(|last| now.duration_since(last) >= FORGET_INTERVAL) {
            self.forgot = Some(now);
            self.known.retain(|_, spoken| now.duration_since(spoken.since) < INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    fn config(pairs: &[(&str, &str)]) -> BrokerConfig {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        BrokerConfig::new(pairs.collect()).expect("the settings are valid")
    }

    #[test]
    fn a_place_is_free_again_when_its_connection_ends() {
        let admission = Admission::default();
        let config = config(&[("max.connections", "3"), ("max.connections.per.ip", "2")]);
        let first = admission.admit(A, &config).expect("there is room");
        let _second = admission.admit(A, &config).expect("there is room");
        assert_eq!(admission.admit(A, &config).err(), Some(Limit::PerIp));
        let _third = admission.admit(B, &config).expect("there is room");
        assert_eq!(admission.admit(B, &config).err(), Some(Limit::Total));
        drop(first);
        assert!(admission.admit(A, &config).is_ok());
    }

    #[test]
    fn single_addresses_have_bounds_of_their_own_and_all_may_change() {
        let admission = Admission::default();
        let few = config(&[("max.connections.per.ip", "1"), ("max.connections.per.ip.overrides", "127.0.0.2:2,::1:0")]);
        let mapped = IpAddr::V6(std::net::Ipv4Addr::new(127, 0, 0, 2).to_ipv6_mapped());
        let _held: Vec<_> =
            [A, B, mapped].into_iter().map(|ip| admission.admit(ip, &few).expect("there is room")).collect();
        let refused = |config: &BrokerConfig| [A, B, mapped].map(|ip| admission.admit(ip, config).err());
        assert_eq!(refused(&few), [Some(Limit::PerIp); 3]);
        assert_eq!(admission.admit(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), &few).err(), Some(Limit::PerIp));
        assert_eq!(refused(&config(&[])), [None; 3]);
        assert_eq!(refused(&config(&[("max.connections", "3")])), [Some(Limit::Total); 3]);
    }

    #[test]
    fn a_few_lines_per_peer_and_minute_and_the_rest_are_counted() {
        let limit = LogLimit::default();
        let now = Instant::now();
        let speak = |ip: IpAddr, now: Instant| limit.speak(Peer::Address(ip), now);
        for _ in 0..LINES_MAX {
            assert_eq!(speak(A, now), Some(0));
        }
        let later = now + INTERVAL - Duration::from_millis(1);
        assert_eq!([speak(A, now), speak(A, later), speak(B, later)], [None, None, Some(0)]);
        assert_eq!([speak(A, now + INTERVAL), speak(A, now + INTERVAL)], [Some(2), Some(0)]);
    }

    #[test]
    fn many_peers_share_what_one_has() {
        let limit = LogLimit::default();
        let now = Instant::now();
        let address = |n: u32| Peer::Address(IpAddr::V4(n.into()));
        let spoken =
            |from: u32, now: Instant| (from..from + 20_000).filter_map(|n| limit.speak(address(n), now)).count();
        assert_eq!(spoken(0, now), PEERS_MAX + LINES_MAX as usize);
        assert_eq!(limit.0.lock().known.len(), PEERS_MAX + 1);
        let later = now + INTERVAL;
        assert_eq!(spoken(20_000, later), PEERS_MAX + LINES_MAX as usize, "those that are quiet are forgotten");
    }
}
