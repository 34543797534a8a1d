//! What clusters need that are started on this machine: ports, and to wait until their brokers know each other.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use client::{Client, Security};
use tokio::time::{Instant, sleep};

use super::node::Node;
use super::{TargetError, client_config};

/// One try to see the cluster; between tries is a look at whether the processes still run.
const TRY_MAX: Duration = Duration::from_secs(1);
const TRY_PAUSE: Duration = Duration::from_millis(50);

/// Below the ports that outgoing connections get: one of those may be taken before the broker listens on it.
const SEARCHED: Range<u16> = 10_000..32_768;

/// How far from each other those begin who search at the same time: processes, and searches of one process.
const PROCESS_STRIDE: usize = 4099;
const SEARCH_STRIDE: usize = 64;
static SEARCHES: AtomicUsize = AtomicUsize::new(0);

/// The ports of one broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    pub clients: u16,
    /// Where brokers reach each other.
    pub brokers: u16,
}

impl Ports {
    /// Clients' ports from `first` on, and behind them those of the brokers; `None` where there are not enough.
    pub fn from(first: u16, brokers: u16) -> Option<Vec<Self>> {
        let port = |number: u16| first.checked_add(number);
        (0..brokers)
            .map(|number| Some(Self { clients: port(number)?, brokers: port(brokers.checked_add(number)?)? }))
            .collect()
    }

    /// Free ports. Another process may still be faster; that broker then says so and ends.
    pub fn free(brokers: u16) -> io::Result<Vec<Self>> {
        let searches = SEARCHES.fetch_add(1, Ordering::Relaxed);
        let first = std::process::id() as usize * PROCESS_STRIDE + searches * SEARCH_STRIDE;
        let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
        let mut ports = SEARCHED.cycle().skip(first % SEARCHED.len()).take(SEARCHED.len()).filter(is_free);
        let mut port = || ports.next().ok_or(io::ErrorKind::AddrInUse);
        (0..brokers).map(|_| Ok(Self { clients: port()?, brokers: port()? })).collect()
    }
}

/// Waits until every broker sees all of them, and a controller.
pub(super) async fn until_all_see_all(
    bootstrap_servers: &[String],
    security: &Security,
    nodes: &mut [Node],
    limit: Duration,
) -> Result<(), TargetError> {
    let deadline = Instant::now() + limit;
    for (index, address) in bootstrap_servers.iter().enumerate() {
        let mut config = client_config(std::slice::from_ref(address), security);
        (config.deadline, config.connection.request_timeout) = (TRY_MAX, TRY_MAX);
        let client = Client::new(config);
        loop {
            for node in &mut *nodes {
                node.must_run()?;
            }
            let cluster = client.cluster().await;
            let seen = cluster.as_ref().map_or(0, |cluster| cluster.brokers.len());
            if seen == bootstrap_servers.len() && cluster.is_ok_and(|cluster| cluster.controller_id >= 0) {
                break;
            }
            if Instant::now() >= deadline {
                return Err(nodes[index].not_together(seen, bootstrap_servers.len(), limit));
            }
            sleep(TRY_PAUSE).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_all_different() {
        for ports in [Ports::free(3).unwrap(), Ports::from(9092, 3).unwrap()] {
            let mut all: Vec<_> = ports.iter().flat_map(|ports| [ports.clients, ports.brokers]).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 6);
        }
    }

    #[test]
    fn free_ports_are_none_that_outgoing_connections_or_another_search_get() {
        let ports = [(); 2].map(|()| Ports::free(1).unwrap()[0]).map(|ports| [ports.clients, ports.brokers]).concat();
        assert!(ports.iter().all(|port| SEARCHED.contains(port)), "{ports:?}");
        assert!(ports[0] != ports[2] && ports[1] != ports[3], "{ports:?}");
    }

    #[test]
    fn the_ports_of_brokers_are_behind_those_of_clients() {
        let ports = Ports::from(9092, 2).unwrap();
        assert_eq!(ports[1], Ports { clients: 9093, brokers: 9095 });
        assert_eq!(Ports::from(u16::MAX - 5, 3).map(|ports| ports.len()), Some(3));
        assert_eq!(Ports::from(u16::MAX - 4, 3), None);
    }
}
