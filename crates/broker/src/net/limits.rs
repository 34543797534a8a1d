//! How many connections there may be.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use configuration::BrokerConfig;
use parking_lot::Mutex;

use crate::close_reason::Limit;

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

/// A connection's permit in the counts, given back when it is dropped.
pub struct Admitted {
    ip: IpAddr,
    counts: Arc<Mutex<Counts>>,
}

impl Admission {
    /// Takes a permit, if the current settings allow one more (`max.connections`, `max.connections.per.ip` and its
    /// overrides). Open connections stay when the limits shrink.
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
    fn a_permit_is_free_again_when_its_connection_ends() {
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
}
