//! How nodes know each other: each shows the certificate of its inter-broker listener, to whoever connects and to whom
//! it connects, and takes those that the authority in the truststore of that listener has signed.
//!
//! A certificate says which node it is of by a name: that of its number, `node-1`, or that of the host that the other
//! nodes reach it at.
//!
//! Nodes without certificates log in to each other: by SCRAM as one user, or by PLAIN as one of several.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use arc_swap::ArcSwap;
use client::{Security, SecurityConfig};
use configuration::{BrokerConfig, ClientAuth, ConfigError, Endpoint, ListenerConfig, Password, SecurityProtocol};
use metadata::MetadataImage;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use security::jaas::{self, JaasError};
use security::scram::{self, Credential, Hash, SALT_RANDOM_BYTES};

use super::SecurityError;

/// As many as the password of a cluster needs, which nobody has to remember: each connection of a node computes them.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not 0");

/// How this node connects to other nodes, which may change while it runs. Clones share it.
#[derive(Clone, Debug)]
pub struct NodeSecurity {
    /// `None` where nodes connect without any.
    own: Option<Arc<Own>>,
    current: Arc<ArcSwap<Security>>,
}

/// What is set for the inter-broker listener.
#[derive(Debug)]
struct Own {
    protocol: SecurityProtocol,
    mechanism: String,
    jaas: Option<Password>,
    listener: ListenerConfig,
}

impl NodeSecurity {
    pub fn load(config: &BrokerConfig) -> Result<Self, SecurityError> {
        let is_secured = |endpoint: &Endpoint| endpoint.security_protocol != SecurityProtocol::Plaintext;
        let Some(endpoint) = config.inter_broker_endpoint()?.filter(is_secured) else {
            return Ok(Security::default().into());
        };
        let mechanism = config.sasl_mechanism_controller_protocol.clone();
        let own = Own {
            protocol: endpoint.security_protocol,
            jaas: config.jaas_config(&endpoint, &mechanism),
            mechanism,
            listener: config.listener(&endpoint)?,
        };
        check(&own.listener, &endpoint)?;
        let security = client_security(&own);
        let security = security.map_err(|error| SecurityError::Nodes { listener: endpoint.name, error })?;
        Ok(Self { own: Some(Arc::new(own)), ..security.into() })
    }

    /// For the next connection.
    pub fn current(&self) -> Security {
        Security::clone(&self.current.load())
    }

    /// What is in the files now.
    pub fn read_again(&self) -> Result<Security, client::SecurityError> {
        self.own.as_ref().map_or_else(|| Ok(self.current()), |own| client_security(own))
    }

    pub fn replace(&self, security: Security) {
        self.current.store(Arc::new(security));
    }
}

impl From<Security> for NodeSecurity {
    fn from(security: Security) -> Self {
        Self { own: None, current: Arc::new(ArcSwap::from_pointee(security)) }
    }
}

/// The client's side of a listener's settings, with its files read.
fn client_security(Own { protocol, mechanism, jaas, listener: own }: &Own) -> Result<Security, client::SecurityError> {
    let mut security = SecurityConfig::default();
    let password = |password: &Option<Password>| password.as_ref().map(|one| one.reveal().to_owned());
    for (name, value) in [
        ("security.protocol", Some(protocol.name().to_owned())),
        ("sasl.mechanism", Some(mechanism.clone())),
        ("sasl.jaas.config", password(jaas)),
        ("ssl.keystore.type", own.ssl_keystore_type.clone()),
        ("ssl.keystore.location", own.ssl_keystore_location.clone()),
        ("ssl.keystore.password", password(&own.ssl_keystore_password)),
        ("ssl.keystore.key", password(&own.ssl_keystore_key)),
        ("ssl.keystore.certificate.chain", password(&own.ssl_keystore_certificate_chain)),
        ("ssl.key.password", password(&own.ssl_key_password)),
        ("ssl.truststore.type", own.ssl_truststore_type.clone()),
        ("ssl.truststore.location", own.ssl_truststore_location.clone()),
        ("ssl.truststore.password", password(&own.ssl_truststore_password)),
        ("ssl.truststore.certificates", password(&own.ssl_truststore_certificates)),
        ("ssl.enabled.protocols", Some(own.ssl_enabled_protocols.join(","))),
    ] {
        if let Some(value) = value {
            security.set(name, &value)?;
        }
    }
    security.load()
}

/// Nodes that do not ask for certificates would take anybody for a node.
fn check(own: &ListenerConfig, endpoint: &Endpoint) -> Result<(), ConfigError> {
    if endpoint.security_protocol != SecurityProtocol::Ssl || own.ssl_client_auth == ClientAuth::Required {
        return Ok(());
    }
    let listener = endpoint.name.to_ascii_lowercase();
    Err(ConfigError::Conflict(format!(
        "The listener {} is for brokers, who know each other by their certificates: set \
         listener.name.{listener}.ssl.client.auth=required, and listener.name.{listener}.ssl.truststore.location",
        endpoint.name
    )))
}

/// What is wrong with `sasl.jaas.config` of nodes. The words go on where the name of the setting ends.
#[derive(Debug, thiserror::Error)]
pub enum NodeLoginError {
    #[error(transparent)]
    Jaas(#[from] JaasError),
    #[error("has no username, or no password")]
    NoUser,
}

/// How nodes log in to each other by SCRAM: as one user, whose password is the secret of the cluster.
pub struct NodeLogin {
    username: String,
    hash: Hash,
    credential: Credential,
}

impl NodeLogin {
    /// By the same `sasl.jaas.config` that this node logs in to others with.
    pub fn from_jaas(hash: Hash, config: &str, salt: &[u8; SALT_RANDOM_BYTES]) -> Result<Self, NodeLoginError> {
        let login = jaas::parse(config)?;
        let option = |name: &str| login.options.get(name).map(|value| value.expose().as_str());
        let (Some(username), Some(password)) = (option("username"), option("password")) else {
            return Err(NodeLoginError::NoUser);
        };
        let credential = Credential::from_password(hash, password, scram::salt(salt), ITERATIONS);
        Ok(Self { username: username.to_owned(), hash, credential })
    }

    /// What the login of this user is checked with.
    pub fn credential(&self, username: &str, hash: Hash) -> Option<Credential> {
        (username == self.username && hash == self.hash).then(|| self.credential.clone())
    }
}

/// Where a request between nodes comes from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    pub address: SocketAddr,
    /// What the sender has shown. `None` where the inter-broker listener does not ask for it.
    pub certificate: Option<&'a CertificateDer<'static>>,
}

impl Origin<'_> {
    /// Whether it may come from a node that others reach at one of these hosts, as far as certificates tell.
    pub fn may_be<'a>(&self, node_id: i32, hosts: impl Iterator<Item = &'a str>) -> bool {
        self.certificate.is_none_or(|certificate| is_of_node(certificate, node_id, hosts))
    }

    /// Whether it may come from any node that is registered, as far as certificates tell. `listener` is the
    /// inter-broker listener.
    pub fn may_be_registered(&self, image: &MetadataImage, listener: &str) -> bool {
        let is_one = |certificate: &CertificateDer<'_>| {
            image.brokers().any(|broker| {
                let own = broker.endpoints.iter().filter(|endpoint| endpoint.name == listener);
                is_of_node(certificate, broker.id, own.map(|endpoint| endpoint.host.as_str()))
            })
        };
        self.certificate.is_none_or(is_one)
    }
}

/// Whether a certificate is that of a node which others reach at one of these hosts.
fn is_of_node<'a>(certificate: &CertificateDer<'_>, node_id: i32, mut hosts: impl Iterator<Item = &'a str>) -> bool {
    let Ok(certificate) = ParsedCertificate::try_from(certificate) else { return false };
    let has = |name: &str| ServerName::try_from(name).is_ok_and(|name| verify_server_name(&certificate, &name).is_ok());
    has(&format!("node-{node_id}")) || hosts.any(has)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn certificate(names: &[&str]) -> CertificateDer<'static> {
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let key = KeyPair::generate().unwrap();
        CertificateParams::new(names).unwrap().self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_is_of_the_node_whose_number_or_host_it_names() {
        let is_of = |names: &[&str], node_id, hosts: &[&str]| {
            let certificate = certificate(names);
            let origin = Origin { address: ([127, 0, 0, 1], 1).into(), certificate: Some(&certificate) };
            origin.may_be(node_id, hosts.iter().copied())
        };
        assert!(is_of(&["node-2"], 2, &[]));
        assert!(!is_of(&["node-2"], 1, &["kafka-1.example.com"]));
        assert!(!is_of(&["node-2"], 22, &[]));
        assert!(is_of(&["kafka-1.example.com"], 1, &["kafka-1.example.com"]));
        assert!(is_of(&["10.0.0.1"], 1, &["10.0.0.1"]));
        assert!(!is_of(&["kafka-2.example.com", "10.0.0.2"], 1, &["kafka-1.example.com", "10.0.0.1"]));
    }

    #[test]
    fn where_none_is_asked_for_none_is_needed() {
        let origin = Origin { address: ([127, 0, 0, 1], 1).into(), certificate: None };
        assert!(origin.may_be(1, [].into_iter()));
    }
}
