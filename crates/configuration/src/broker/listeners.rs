//! Listeners: `NAME://host:port` texts and what they mean together.

use crate::{BrokerConfig, ConfigError, Membership};

/// How a listener talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityProtocol {
    Plaintext = 0,
    Ssl = 1,
    SaslPlaintext = 2,
    SaslSsl = 3,
}

impl SecurityProtocol {
    fn named(name: &str) -> Option<Self> {
        match name {
            "PLAINTEXT" => Some(Self::Plaintext),
            "SSL" => Some(Self::Ssl),
            "SASL_PLAINTEXT" => Some(Self::SaslPlaintext),
            "SASL_SSL" => Some(Self::SaslSsl),
            _ => None,
        }
    }

    pub fn has_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    pub fn has_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }
}

/// One listener. An empty host is every interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub name: String,
    pub host: String,
    pub port: u16,
    pub security_protocol: SecurityProtocol,
}

impl Endpoint {
    /// Whether it listens on every interface rather than on one.
    pub fn is_wildcard(&self) -> bool {
        matches!(self.host.as_str(), "" | "0.0.0.0" | "::")
    }
}

/// What the listener of brokers among themselves is called unless somebody says otherwise.
const CONTROLLER: &str = "CONTROLLER";
const LOOPBACK: &str = "127.0.0.1";
const LISTENERS: &str = "listeners";
const ADVERTISED: &str = "advertised.listeners";

fn parse(config: &BrokerConfig, setting: &str, text: &str) -> Result<Endpoint, ConfigError> {
    let wrong = |reason: String| ConfigError::invalid(setting, text, reason);
    let (name, address) = text.split_once("://").ok_or_else(|| wrong("Expected NAME://host:port".to_owned()))?;
    let (host, port) = address.rsplit_once(':').ok_or_else(|| wrong("Expected NAME://host:port".to_owned()))?;
    let port = port.parse().map_err(|_| wrong(format!("{port} is not a port between 0 and 65535")))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = name.to_ascii_uppercase();
    let security_protocol = protocol(config, &name)
        .ok_or_else(|| wrong(format!("listener.security.protocol.map has no security protocol for {name}")))?;
    Ok(Endpoint { name, host: host.to_owned(), port, security_protocol })
}

/// The security protocol of a listener name. A controller's listener need not be in the map: it is plaintext then,
/// unless another one is not (`KafkaConfig.effectiveListenerSecurityProtocolMap`).
fn protocol(config: &BrokerConfig, name: &str) -> Option<SecurityProtocol> {
    let mapped = config.listener_security_protocol_map.iter().find_map(|entry| {
        let (listener, protocol) = entry.split_once(':')?;
        listener.trim().eq_ignore_ascii_case(name).then(|| SecurityProtocol::named(protocol.trim()))
    });
    match mapped {
        Some(protocol) => protocol,
        None => (is_controller(config, name) && !has_secure_listener(config)).then_some(SecurityProtocol::Plaintext),
    }
}

fn has_secure_listener(config: &BrokerConfig) -> bool {
    let names = config.listeners.iter().filter_map(|text| text.split_once("://").map(|(name, _)| name));
    let mut others = names.filter(|name| !is_controller(config, name));
    others.any(|name| protocol(config, name).is_some_and(|protocol| protocol != SecurityProtocol::Plaintext))
}

fn is_controller(config: &BrokerConfig, name: &str) -> bool {
    config.controller_listener_names.iter().any(|controller| controller.eq_ignore_ascii_case(name))
}

/// The name of the listener that only brokers use among themselves.
pub fn inter_broker_name(config: &BrokerConfig) -> String {
    config.controller_listener_names.first().map_or_else(|| CONTROLLER.to_owned(), |name| name.to_ascii_uppercase())
}

fn parse_all(config: &BrokerConfig, setting: &str, texts: &[String]) -> Result<Vec<Endpoint>, ConfigError> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for text in texts {
        let endpoint = parse(config, setting, text)?;
        let wrong = |reason: &str| Err(ConfigError::invalid(setting, text, reason));
        if endpoints.iter().any(|other| other.name == endpoint.name) {
            return wrong("Each listener must have a different name");
        }
        let shares_port = |other: &&Endpoint| other.port == endpoint.port && endpoint.port != 0;
        if setting == LISTENERS && endpoints.iter().filter(shares_port).any(|other| other.host == endpoint.host) {
            return wrong("Each listener must have a different port");
        }
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}

fn parse_clients(config: &BrokerConfig, setting: &str, texts: &[String]) -> Result<Vec<Endpoint>, ConfigError> {
    let mut endpoints = parse_all(config, setting, texts)?;
    endpoints.retain(|endpoint| !is_controller(config, &endpoint.name));
    Ok(endpoints)
}

/// Where brokers reach this one: the listener that is there for it, else this node's entry among the voters, else,
/// when it is to join others, the port behind that of its clients: on loopback where all others are. `None` for a node
/// that is on its own.
pub fn inter_broker_endpoint(config: &BrokerConfig) -> Result<Option<Endpoint>, ConfigError> {
    let listening = parse_all(config, LISTENERS, &config.listeners)?;
    if let Some(endpoint) = listening.iter().find(|endpoint| is_controller(config, &endpoint.name)) {
        return Ok(Some(endpoint.clone()));
    }
    let membership = config.membership()?;
    let (host, port) = match &membership {
        Membership::Alone => return Ok(None),
        Membership::Voters(voters) => match voters.iter().find(|voter| voter.node_id == config.node_id) {
            Some(own) => (own.host.clone(), own.port),
            None => behind(&listening),
        },
        Membership::Join(_) => behind(&listening),
    };
    let name = inter_broker_name(config);
    // Its name is no listener's, so that it may be in the map, or not.
    let security_protocol = protocol(config, &name).unwrap_or(SecurityProtocol::Plaintext);
    let mut endpoint = Endpoint { name, host, port, security_protocol };
    if endpoint.is_wildcard() && membership.is_on_loopback() {
        // Nobody from elsewhere is to come, however open the clients' listener is.
        LOOPBACK.clone_into(&mut endpoint.host);
    }
    Ok(Some(endpoint))
}

/// The port behind another; the system chooses behind one that it chooses.
fn next_port(port: u16) -> u16 {
    if port == 0 { 0 } else { port.checked_add(1).unwrap_or(0) }
}

fn behind(listening: &[Endpoint]) -> (String, u16) {
    let first = listening.first();
    first.map_or_else(Default::default, |client| (client.host.clone(), next_port(client.port)))
}

/// The address of the inter-broker listener that other brokers are told.
pub fn advertised_inter_broker_endpoint(config: &BrokerConfig) -> Result<Option<Endpoint>, ConfigError> {
    let Some(listening) = inter_broker_endpoint(config)? else { return Ok(None) };
    let texts = config.advertised_listeners.as_deref().unwrap_or_default();
    let advertised = parse_all(config, ADVERTISED, texts)?.into_iter().find(|endpoint| endpoint.name == listening.name);
    Ok(Some(advertised.unwrap_or(listening)))
}

pub fn client_endpoints(config: &BrokerConfig) -> Result<Vec<Endpoint>, ConfigError> {
    let endpoints = parse_clients(config, LISTENERS, &config.listeners)?;
    let shown = config.listeners.join(",");
    if endpoints.is_empty() {
        return Err(ConfigError::invalid(LISTENERS, &shown, "At least one listener for clients is required"));
    }
    Ok(endpoints)
}

pub fn advertised_endpoints(config: &BrokerConfig) -> Result<Vec<Endpoint>, ConfigError> {
    let listening = client_endpoints(config)?;
    let texts = config.advertised_listeners.as_deref().unwrap_or_default();
    let advertised = parse_clients(config, ADVERTISED, texts)?;
    for endpoint in &advertised {
        let wrong = |reason: &str| Err(ConfigError::invalid(ADVERTISED, &texts.join(","), reason));
        if endpoint.is_wildcard() {
            return wrong("Clients cannot connect to every address: name one");
        }
        if !listening.iter().any(|other| other.name == endpoint.name) {
            return wrong(&format!("listeners has no {}", endpoint.name));
        }
    }
    let told = |endpoint: Endpoint| advertised.iter().find(|a| a.name == endpoint.name).cloned().unwrap_or(endpoint);
    let told: Vec<_> = listening.into_iter().map(told).collect();
    // As `KafkaConfig.validateValues`. A listener without a host tells the name of the machine.
    if let Some(endpoint) = told.iter().find(|endpoint| endpoint.is_wildcard() && !endpoint.host.is_empty()) {
        let Endpoint { name, host, port, .. } = endpoint;
        let reason = format!(
            "Clients cannot connect to {host}: name the address that they reach with advertised.listeners, or leave \
             out the host ({name}://:{port}) to name this machine"
        );
        return Err(ConfigError::invalid(LISTENERS, &config.listeners.join(","), reason));
    }
    Ok(told)
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
    fn kafkas_own_server_properties_are_understood() {
        let config = config(&[
            ("process.roles", "broker,controller"),
            ("node.id", "1"),
            ("controller.quorum.bootstrap.servers", "localhost:9093"),
            ("listeners", "PLAINTEXT://:9092,CONTROLLER://:9093"),
            ("inter.broker.listener.name", "PLAINTEXT"),
            ("advertised.listeners", "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"),
            ("controller.listener.names", "CONTROLLER"),
            (
                "listener.security.protocol.map",
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
            ),
        ])
        .unwrap();
        let listening = config.client_endpoints().unwrap();
        assert_eq!(listening.len(), 1);
        assert!(listening[0].is_wildcard());
        assert_eq!(config.advertised_endpoints().unwrap()[0].host, "localhost");
    }

    #[test]
    fn named_listeners_advertise_each_their_own_address() {
        let config = config(&[
            ("listeners", "inside://10.0.0.1:9092,OUTSIDE://[::1]:9093"),
            ("listener.security.protocol.map", "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"),
            ("advertised.listeners", "OUTSIDE://kafka.example.org:443"),
        ])
        .unwrap();
        assert_eq!(config.client_endpoints().unwrap()[1].host, "::1");
        let told: Vec<_> =
            config.advertised_endpoints().unwrap().into_iter().map(|e| (e.name, e.host, e.port)).collect();
        assert_eq!(
            told,
            [("INSIDE".into(), "10.0.0.1".into(), 9092), ("OUTSIDE".into(), "kafka.example.org".into(), 443)]
        );
    }

    #[test]
    fn brokers_that_are_all_on_this_machine_are_reached_from_nowhere_else() {
        let at = |pairs: &[(&str, &str)]| {
            let listener =
                [("listeners", "PLAINTEXT://0.0.0.0:9092"), ("advertised.listeners", "PLAINTEXT://node-4:9092")];
            let pairs = [&listener[..], &[("node.id", "4")], pairs].concat();
            let endpoint = config(&pairs).unwrap().inter_broker_endpoint().unwrap();
            endpoint.map(|endpoint| (endpoint.host, endpoint.port))
        };
        assert_eq!(at(&[]), None);
        for (servers, host) in [
            ("127.0.0.1:9093", "127.0.0.1"),
            ("localhost:9093,[::1]:9094", "127.0.0.1"),
            ("localhost:9093,10.0.0.1:9093", "0.0.0.0"),
            ("node-1:9093", "0.0.0.0"),
        ] {
            assert_eq!(at(&[("controller.quorum.bootstrap.servers", servers)]), Some((host.to_owned(), 9093)));
        }
        let voters = "1@localhost:9093,2@localhost:9094,4@0.0.0.0:9095";
        assert_eq!(at(&[("controller.quorum.voters", voters)]), Some(("0.0.0.0".to_owned(), 9095)));
        // Whoever says where is heard.
        let said = [("listeners", "PLAINTEXT://:9092,CONTROLLER://:9093"), ("controller.listener.names", "CONTROLLER")];
        let said = [&said[..], &[("controller.quorum.bootstrap.servers", "localhost:9093")]].concat();
        assert!(config(&said).unwrap().inter_broker_endpoint().unwrap().unwrap().is_wildcard());
    }

    #[test]
    fn refuses_what_cannot_work() {
        for (name, value, reason) in [
            ("listeners", "localhost:9092", "Expected NAME://host:port"),
            ("listeners", "PLAINTEXT://localhost", "Expected NAME://host:port"),
            ("listeners", "PLAINTEXT://localhost:70000", "70000 is not a port between 0 and 65535"),
            ("listeners", "BLUE://localhost:9092", "listener.security.protocol.map has no security protocol for BLUE"),
            ("listeners", "PLAINTEXT://a:1,PLAINTEXT://b:2", "Each listener must have a different name"),
            ("listeners", "PLAINTEXT://a:1,SSL://a:1", "Each listener must have a different port"),
            ("listeners", "", "At least one listener for clients is required"),
            ("advertised.listeners", "PLAINTEXT://0.0.0.0:9092", "Clients cannot connect to every address: name one"),
            ("advertised.listeners", "SSL://a:9092", "listeners has no SSL"),
            ("listeners", "PLAINTEXT://0.0.0.0:9092", "leave out the host (PLAINTEXT://:9092) to name this machine"),
            ("listeners", "PLAINTEXT://[::]:9092", "leave out the host (PLAINTEXT://:9092) to name this machine"),
        ] {
            let error = config(&[(name, value)]).unwrap_err();
            assert!(error.ends_with(reason) && error.contains(name), "{error}");
        }
    }
}
