//! Which nodes a broker forms its metadata quorum with, as it was told at its start.

use std::net::IpAddr;

use crate::{BrokerConfig, ConfigError};

const VOTERS: &str = "controller.quorum.voters";
const SERVERS: &str = "controller.quorum.bootstrap.servers";

/// Where the metadata quorum of a first start is. Later starts know it from their metadata log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// This node is a cluster of its own, which others may join.
    Alone,
    /// These nodes begin a cluster together.
    Voters(Vec<VoterAddress>),
    /// There is a cluster, which these addresses (`host:port`) belong to.
    Join(Vec<String>),
}

impl Membership {
    /// Whether all others that it names are on this machine.
    pub fn is_on_loopback(&self) -> bool {
        let is_loopback =
            |host: &str| host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        match self {
            Self::Alone => true,
            Self::Voters(voters) => voters.iter().all(|voter| is_loopback(&voter.host)),
            Self::Join(servers) => {
                servers.iter().all(|server| host_and_port(server).is_ok_and(|(host, _)| is_loopback(&host)))
            }
        }
    }
}

/// An entry of `controller.quorum.voters`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoterAddress {
    pub node_id: i32,
    pub host: String,
    pub port: u16,
}

impl VoterAddress {
    pub fn address(&self) -> String {
        address(&self.host, self.port)
    }
}

/// `host:port`, for any kind of host.
pub fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

pub fn membership(config: &BrokerConfig) -> Result<Membership, ConfigError> {
    let servers = &config.controller_quorum_bootstrap_servers;
    if config.controller_quorum_voters.is_empty() {
        for server in servers {
            host_and_port(server).map_err(|reason| ConfigError::invalid(SERVERS, &servers.join(","), reason))?;
        }
        return Ok(if servers.is_empty() { Membership::Alone } else { Membership::Join(servers.clone()) });
    }
    let shown = config.controller_quorum_voters.join(",");
    let wrong = |reason: String| ConfigError::invalid(VOTERS, &shown, reason);
    let mut voters: Vec<VoterAddress> = Vec::new();
    for text in &config.controller_quorum_voters {
        let (id, server) = text.split_once('@').ok_or_else(|| wrong(format!("Expected id@host:port, not {text}")))?;
        let node_id = id.trim().parse().ok().filter(|id| *id >= 0);
        let node_id = node_id.ok_or_else(|| wrong(format!("{id} is not the number of a node")))?;
        let (host, port) = host_and_port(server).map_err(&wrong)?;
        if voters.iter().any(|other| other.node_id == node_id) {
            return Err(wrong(format!("Node {node_id} is named twice")));
        }
        voters.push(VoterAddress { node_id, host, port });
    }
    voters.sort_by_key(|voter| voter.node_id);
    if voters.iter().any(|voter| voter.node_id == config.node_id) {
        return Ok(Membership::Voters(voters));
    }
    // A node that does not vote finds the cluster by those who do.
    Ok(Membership::Join(voters.iter().map(VoterAddress::address).collect()))
}

fn host_and_port(server: &str) -> Result<(String, u16), String> {
    let (host, port) = server.trim().rsplit_once(':').ok_or_else(|| format!("Expected host:port, not {server}"))?;
    let port = port.parse().ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| format!("{server} does not end in a port between 1 and 65535"))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() {
        return Err(format!("{server} names no host"));
    }
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConfigMap;

    fn config(pairs: &[(&str, &str)]) -> Result<BrokerConfig, String> {
        let map: ConfigMap = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        BrokerConfig::new(map).map_err(|error| error.to_string())
    }

    #[test]
    fn voters_and_joins_say_where_brokers_reach_this_one() {
        let alone = config(&[]).unwrap();
        assert_eq!(alone.membership(), Ok(Membership::Alone));
        assert_eq!(alone.inter_broker_endpoint(), Ok(None));

        let voters = ("controller.quorum.voters", "3@h3:9093,1@h1:9093,2@[::1]:9094");
        let voter = config(&[("node.id", "2"), voters]).unwrap();
        let Membership::Voters(found) = voter.membership().unwrap() else { panic!("it is a voter") };
        assert_eq!(found.iter().map(|voter| voter.node_id).collect::<Vec<_>>(), [1, 2, 3]);
        let own = voter.inter_broker_endpoint().unwrap().unwrap();
        assert_eq!((own.name.as_str(), own.host.as_str(), own.port), ("CONTROLLER", "::1", 9094));
        assert_eq!(found[1].address(), "[::1]:9094");

        let observer = config(&[("node.id", "9"), voters, ("listeners", "PLAINTEXT://10.0.0.9:9092")]).unwrap();
        let addresses = ["h1:9093", "[::1]:9094", "h3:9093"].map(str::to_owned).to_vec();
        assert_eq!(observer.membership(), Ok(Membership::Join(addresses)));
        assert_eq!(observer.inter_broker_endpoint().unwrap().unwrap().port, 9093);

        let named = config(&[
            ("controller.quorum.bootstrap.servers", "localhost:9093"),
            ("listeners", "PLAINTEXT://:9092,PEERS://0.0.0.0:7000"),
            ("advertised.listeners", "PEERS://node-1.example.org:7001"),
            ("controller.listener.names", "PEERS"),
        ])
        .unwrap();
        assert_eq!(named.membership(), Ok(Membership::Join(vec!["localhost:9093".to_owned()])));
        assert_eq!(named.inter_broker_endpoint().unwrap().unwrap().port, 7000);
        let told = named.advertised_inter_broker_endpoint().unwrap().unwrap();
        assert_eq!((told.host.as_str(), told.port), ("node-1.example.org", 7001));
    }

    #[test]
    fn refuses_what_names_no_node() {
        for (value, reason) in [
            ("h1:9093", "Expected id@host:port, not h1:9093"),
            ("x@h1:9093", "x is not the number of a node"),
            ("-1@h1:9093", "-1 is not the number of a node"),
            ("1@h1", "Expected host:port, not h1"),
            ("1@h1:0", "h1:0 does not end in a port between 1 and 65535"),
            ("1@:9093", ":9093 names no host"),
            ("1@a:1,1@b:1", "Node 1 is named twice"),
        ] {
            let error = config(&[("controller.quorum.voters", value)]).unwrap_err();
            assert!(error.ends_with(reason), "{error}");
        }
    }
}
