//! How many connections there may be, and how many a second.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use configuration::{BrokerConfig, listener_settings};
use parking_lot::Mutex;

use crate::close_reason::Limit;
use crate::quotas::Rate;

/// Counts connections in total, per listener and per address. An IPv4 address counts as itself on a listener for IPv6,
/// too.
pub struct Admission {
    counts: Arc<Mutex<Counts>>,
    /// At which they come.
    rate: ConnectionRate,
}

#[derive(Default)]
struct Counts {
    total: usize,
    per_listener: HashMap<Arc<str>, usize>,
    per_ip: HashMap<IpAddr, usize>,
}

/// A connection's permit in the counts, given back when it is dropped.
pub struct Admitted {
    listener: Arc<str>,
    ip: IpAddr,
    counts: Arc<Mutex<Counts>>,
}

/// How often connections come, of one listener or of several (KIP-612).
pub struct ConnectionRate {
    rate: Mutex<Rate>,
    window: Duration,
}

impl ConnectionRate {
    pub fn new(config: &BrokerConfig) -> Self {
        let (number, seconds) = (config.quota_window_num, config.quota_window_size_seconds);
        let window = Duration::from_secs(seconds.unsigned_abs().into());
        Self { rate: Mutex::new(Rate::new(number, seconds)), window }
    }

    /// Counts a connection. Returns for how long no other is accepted, a window at most.
    pub fn record(&self, rate_max: i32, now_ms: i64) -> Duration {
        // Nobody counts up to there.
        if rate_max == i32::MAX {
            return Duration::ZERO;
        }
        let wait_ms = self.rate.lock().record(1.0, rate_max.into(), now_ms);
        Duration::from_millis(wait_ms as u64).min(self.window)
    }
}

impl Admission {
    pub fn new(config: &BrokerConfig) -> Self {
        Self { counts: Arc::default(), rate: ConnectionRate::new(config) }
    }

    /// At which connections come to all of its listeners.
    pub fn rate(&self) -> &ConnectionRate {
        &self.rate
    }

    /// Takes a permit, if the current settings allow one more (`max.connections`, also of the listener,
    /// `max.connections.per.ip` and its overrides). Open connections stay when the limits shrink.
    pub fn admit(&self, ip: IpAddr, listener: &Arc<str>, config: &BrokerConfig) -> Result<Admitted, Limit> {
        let ip = ip.to_canonical();
        let per_ip_max = config.max_connections_per_ip_overrides.count(ip).unwrap_or(config.max_connections_per_ip);
        let mut counts = self.counts.lock();
        if counts.total >= usize::try_from(config.max_connections).unwrap_or(0) {
            return Err(Limit::Total);
        }
        let of_listener = counts.per_listener.get(listener).copied().unwrap_or(0);
        if let Some(max) = listener_settings::max_connections(config, listener)
            && of_listener >= usize::try_from(max).unwrap_or(0)
        {
            return Err(Limit::Listener);
        }
        let here = counts.per_ip.get(&ip).copied().unwrap_or(0);
        if here >= usize::try_from(per_ip_max).unwrap_or(0) {
            return Err(Limit::PerIp);
        }
        counts.total += 1;
        counts.per_ip.insert(ip, here + 1);
        counts.per_listener.insert(Arc::clone(listener), of_listener + 1);
        Ok(Admitted { listener: Arc::clone(listener), ip, counts: Arc::clone(&self.counts) })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.total -= 1;
        if let Some(of_listener) = counts.per_listener.get_mut(&self.listener) {
            *of_listener -= 1;
        }
        if let Some(here) = counts.per_ip.get_mut(&self.ip) {
            *here -= 1;
            if *here == 0 {
                counts.per_ip.remove(&self.ip);
            }
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

    fn listener() -> Arc<str> {
        "PLAINTEXT".into()
    }

    #[test]
    fn a_permit_is_free_again_when_its_connection_ends() {
        let config = config(&[("max.connections", "3"), ("max.connections.per.ip", "2")]);
        let admission = Admission::new(&config);
        let first = admission.admit(A, &listener(), &config).expect("there is room");
        let _second = admission.admit(A, &listener(), &config).expect("there is room");
        assert_eq!(admission.admit(A, &listener(), &config).err(), Some(Limit::PerIp));
        let _third = admission.admit(B, &listener(), &config).expect("there is room");
        assert_eq!(admission.admit(B, &listener(), &config).err(), Some(Limit::Total));
        drop(first);
        assert!(admission.admit(A, &listener(), &config).is_ok());
    }

    #[test]
    fn single_addresses_have_bounds_of_their_own_and_all_may_change() {
        let admission = Admission::new(&config(&[]));
        let few = config(&[("max.connections.per.ip", "1"), ("max.connections.per.ip.overrides", "127.0.0.2:2,::1:0")]);
        let mapped = IpAddr::V6(std::net::Ipv4Addr::new(127, 0, 0, 2).to_ipv6_mapped());
        let _held: Vec<_> = [A, B, mapped]
            .into_iter()
            .map(|ip| admission.admit(ip, &listener(), &few).expect("there is room"))
            .collect();
        let refused = |config: &BrokerConfig| [A, B, mapped].map(|ip| admission.admit(ip, &listener(), config).err());
        assert_eq!(refused(&few), [Some(Limit::PerIp); 3]);
        assert_eq!(
            admission.admit(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), &listener(), &few).err(),
            Some(Limit::PerIp)
        );
        assert_eq!(refused(&config(&[])), [None; 3]);
        assert_eq!(refused(&config(&[("max.connections", "3")])), [Some(Limit::Total); 3]);
    }

    #[test]
    fn a_listener_may_have_a_bound_of_its_own() {
        let config = config(&[("listener.name.ssl.max.connections", "1"), ("max.connections", "3")]);
        let admission = Admission::new(&config);
        let [plain, ssl]: [Arc<str>; 2] = [listener(), "SSL".into()];
        let held = admission.admit(A, &ssl, &config).expect("there is room");
        assert_eq!(admission.admit(A, &ssl, &config).err(), Some(Limit::Listener));
        let _other = admission.admit(A, &plain, &config).expect("there is room");
        drop(held);
        assert!(admission.admit(A, &ssl, &config).is_ok());
    }

    #[test]
    fn connections_that_come_too_often_are_accepted_later() {
        let rate = ConnectionRate::new(&config(&[]));
        for _ in 0..20 {
            assert_eq!(rate.record(2, 0), Duration::ZERO);
        }
        assert_eq!(rate.record(2, 0), Duration::from_millis(500));
        assert_eq!(rate.record(2, 0), Duration::from_secs(1));
        assert_eq!(rate.record(2, 0), Duration::from_secs(1), "a window at most");
        assert_eq!(rate.record(0, 0), Duration::from_secs(1));
        assert_eq!(rate.record(i32::MAX, 0), Duration::ZERO);
        assert_eq!(rate.record(2, 20_000), Duration::ZERO);
    }
}
