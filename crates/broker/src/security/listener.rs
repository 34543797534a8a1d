//! What a listener demands of its clients: its settings, with the files that they name read.

use std::sync::Arc;
use std::time::Duration;

use client::DocumentSource;
use configuration::{BrokerConfig, ClientAuth, ConfigError, Endpoint, ListenerConfig, Password, SecurityProtocol};
use platform::Random;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use security::jaas::{self, JaasError};
use security::oauth::Expected;
use security::scram::server::UnknownUsers;
use security::tls::{self, AllowedChanges, ServerTlsConfig, StoreConfig, TlsError, Versions};
use security::{Mechanism, PrincipalMapping, Secret, plain};

use super::file::read_file;
use super::listener_tls::ListenerTls;
use super::nodes::{NodeLogin, NodeLoginError};
use super::token_keys::TokenKeys;
use super::token_source::TokenSource;
use super::{Principal, random_bytes};
use crate::close_reason::CloseReason;

/// The iterations that a user who is not known is asked for: those of Kafka's tools, which most users have.
const ITERATIONS_DEFAULT: u32 = 4096;

/// Why a listener cannot be what it is to be. Each is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the listener {listener}: {error}")]
    Tls { listener: String, error: TlsError },
    #[error("the listener {listener}: ssl.principal.mapping.rules {error}")]
    PrincipalMapping { listener: String, error: security::MappingError },
    #[error("the listener {listener}: {error}")]
    Nodes { listener: String, error: client::SecurityError },
    #[error("the listener {listener}: sasl.jaas.config of brokers {error}")]
    NodeLogin { listener: String, error: NodeLoginError },
    #[error("the listener {listener}: sasl.jaas.config of PLAIN {error}")]
    PlainUsers { listener: String, error: plain::UsersError },
    #[error("the listener {listener}: {error}")]
    Tokens { listener: String, error: TokensError },
}

/// What is wrong with the settings of OAUTHBEARER.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    #[error("sasl.oauthbearer.jwks.endpoint.url {0}")]
    Url(#[from] client::UrlError),
    #[error("sasl.jaas.config of OAUTHBEARER {0}")]
    Jaas(#[from] JaasError),
    #[error("sasl.jaas.config of OAUTHBEARER is for {module}; OAuthBearerLoginModule is expected")]
    Module { module: String },
    #[error("sasl.jaas.config of OAUTHBEARER: {0}")]
    Tls(#[from] TlsError),
}

/// What a listener demands.
pub struct ListenerSecurity {
    protocol: SecurityProtocol,
    tls: Option<ListenerTls>,
    /// `None` where there are no certificates of clients.
    principal_mapping: Option<PrincipalMapping>,
    /// With how long a session of each lasts; `None` is for ever.
    mechanisms: Vec<(Mechanism, Option<Duration>)>,
    /// `None` without PLAIN.
    plain_users: Option<plain::Users>,
    /// Of brokers, at their own listener, by SCRAM: nobody else may come there.
    node_login: Option<NodeLogin>,
    /// `None` without OAUTHBEARER.
    token_keys: Option<Arc<TokenKeys>>,
    unknown_users: UnknownUsers,
    failure_delay: Duration,
    receive_bytes_max: i32,
}

impl ListenerSecurity {
    /// What a listener that demands nothing demands.
    pub fn none() -> Self {
        Self {
            protocol: SecurityProtocol::Plaintext,
            tls: None,
            principal_mapping: None,
            mechanisms: Vec::new(),
            plain_users: None,
            node_login: None,
            token_keys: None,
            unknown_users: UnknownUsers::new(&[], ITERATIONS_DEFAULT),
            failure_delay: Duration::ZERO,
            receive_bytes_max: i32::MAX,
        }
    }

    /// Reads what the settings of a listener name.
    pub fn load(config: &BrokerConfig, endpoint: &Endpoint, random: &dyn Random) -> Result<Self, SecurityError> {
        let own = config.listener(endpoint)?;
        let protocol = endpoint.security_protocol;
        let listener = || endpoint.name.clone();
        let tls = match protocol.has_tls() {
            true => {
                let loaded = tls_of(&own).and_then(|(tls, allowed)| ListenerTls::load(tls, allowed));
                Some(loaded.map_err(|error| SecurityError::Tls { listener: listener(), error })?)
            }
            false => None,
        };
        let principal_mapping = match protocol {
            SecurityProtocol::Ssl => {
                let mapping = PrincipalMapping::parse(&own.ssl_principal_mapping_rules);
                Some(mapping.map_err(|error| SecurityError::PrincipalMapping { listener: listener(), error })?)
            }
            _ => None,
        };
        let mut mechanisms = Vec::new();
        let (mut plain_users, mut token_keys, mut node_login) = (None, None, None);
        let is_of_nodes = config.inter_broker_endpoint()?.is_some_and(|of_nodes| of_nodes.name == endpoint.name);
        if protocol.has_sasl() {
            for name in &own.sasl_enabled_mechanisms {
                let mechanism = Mechanism::from_name(name).expect("the setting takes no other");
                let max_ms = config.max_reauth_ms(endpoint, name)?;
                let lifetime = u64::try_from(max_ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis);
                mechanisms.push((mechanism, lifetime));
                let jaas = config.jaas_config(endpoint, name);
                if let (Mechanism::Plain, Some(jaas)) = (mechanism, &jaas) {
                    let users = plain::Users::from_jaas(jaas.reveal());
                    plain_users =
                        Some(users.map_err(|error| SecurityError::PlainUsers { listener: listener(), error })?);
                }
                if let (true, Mechanism::Scram(hash), Some(jaas)) = (is_of_nodes, mechanism, &jaas)
                    && *name == config.sasl_mechanism_controller_protocol
                {
                    let login = NodeLogin::from_jaas(hash, jaas.reveal(), &random_bytes(random));
                    node_login = Some(login.map_err(|error| SecurityError::NodeLogin { listener: listener(), error })?);
                }
                if mechanism == Mechanism::OAuthBearer {
                    let keys = load_token_keys(&own, jaas.as_ref(), listener());
                    let keys = keys.map_err(|error| SecurityError::Tokens { listener: listener(), error })?;
                    token_keys = Some(Arc::new(keys));
                }
            }
        }
        let delay_ms = own.connection_failed_authentication_delay_ms.unsigned_abs();
        Ok(Self {
            protocol,
            tls,
            principal_mapping,
            mechanisms,
            plain_users,
            node_login,
            token_keys,
            unknown_users: UnknownUsers::new(&random_bytes::<32>(random), ITERATIONS_DEFAULT),
            failure_delay: Duration::from_millis(u64::from(delay_ms)),
            receive_bytes_max: own.sasl_server_max_receive_size,
        })
    }

    pub fn protocol(&self) -> SecurityProtocol {
        self.protocol
    }

    /// With what new connections are made.
    pub fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.as_ref().map(ListenerTls::server_config)
    }

    pub fn listener_tls(&self) -> Option<&ListenerTls> {
        self.tls.as_ref()
    }

    /// Who shows these certificates: nobody, where there are none.
    pub fn principal_of(&self, certificates: &[CertificateDer<'_>]) -> Result<Principal, CloseReason> {
        let Some(mapping) = &self.principal_mapping else { return Ok(Principal::anonymous()) };
        let name = mapping.name_of_peer(certificates);
        let name = name.map_err(|error| CloseReason::Authentication(error.to_string()))?;
        Ok(name.map_or_else(Principal::anonymous, |name| Principal::user(&name)))
    }

    /// The mechanisms that are enabled, in the order of the setting.
    pub fn mechanisms(&self) -> impl Iterator<Item = Mechanism> {
        self.mechanisms.iter().map(|(mechanism, _)| *mechanism)
    }

    pub fn session_lifetime(&self, mechanism: Mechanism) -> Option<Duration> {
        self.mechanisms.iter().find(|(enabled, _)| *enabled == mechanism).and_then(|(_, lifetime)| *lifetime)
    }

    pub fn plain_users(&self) -> Option<&plain::Users> {
        self.plain_users.as_ref()
    }

    pub fn node_login(&self) -> Option<&NodeLogin> {
        self.node_login.as_ref()
    }

    /// Whose tokens are taken, with OAUTHBEARER.
    pub fn token_keys(&self) -> Option<&Arc<TokenKeys>> {
        self.token_keys.as_ref()
    }

    pub fn unknown_users(&self) -> &UnknownUsers {
        &self.unknown_users
    }

    /// How long a client that is not let in waits for its answer.
    pub fn failure_delay(&self) -> Duration {
        self.failure_delay
    }

    /// The largest request of a client that is not known yet.
    pub fn receive_bytes_max(&self) -> i32 {
        self.receive_bytes_max
    }
}

/// TLS with the certificate of the first listener of clients that has one, for a server that asks for none itself: the
/// console. And what may be otherwise in the next one.
pub fn tls_of_console(config: &BrokerConfig) -> Result<Option<(ServerTlsConfig, AllowedChanges)>, SecurityError> {
    let mut endpoints = config.client_endpoints()?.into_iter();
    let Some(endpoint) = endpoints.find(|endpoint| endpoint.security_protocol.has_tls()) else { return Ok(None) };
    let mut own = config.listener(&endpoint)?;
    own.ssl_client_auth = ClientAuth::None;
    tls_of(&own).map(Some).map_err(|error| SecurityError::Tls { listener: endpoint.name, error })
}

fn tls_of(own: &ListenerConfig) -> Result<(ServerTlsConfig, AllowedChanges), TlsError> {
    let secret = |password: &Option<Password>| password.as_ref().map(|one| Secret::new(one.reveal().to_owned()));
    let text = |password: &Option<Password>| password.as_ref().map(|one| one.reveal().to_owned());
    let stores = StoreConfig {
        keystore_type: own.ssl_keystore_type.clone(),
        keystore_location: own.ssl_keystore_location.clone(),
        keystore_password: secret(&own.ssl_keystore_password),
        keystore_key: secret(&own.ssl_keystore_key),
        keystore_certificate_chain: text(&own.ssl_keystore_certificate_chain),
        key_password: secret(&own.ssl_key_password),
        truststore_type: own.ssl_truststore_type.clone(),
        truststore_location: own.ssl_truststore_location.clone(),
        truststore_password: secret(&own.ssl_truststore_password),
        truststore_certificates: text(&own.ssl_truststore_certificates),
    };
    let client_auth = match own.ssl_client_auth {
        ClientAuth::None => tls::ClientAuth::None,
        ClientAuth::Requested => tls::ClientAuth::Requested,
        ClientAuth::Required => tls::ClientAuth::Required,
    };
    let versions = Versions::parse(&own.ssl_enabled_protocols.join(","))?;
    let allowed = AllowedChanges { subject: own.ssl_allow_dn_changes, alternative_names: own.ssl_allow_san_changes };
    Ok((ServerTlsConfig { stores, client_auth, versions }, allowed))
}

/// With the truststore among the options of the login module, where there is one.
fn load_token_keys(own: &ListenerConfig, jaas: Option<&Password>, listener: String) -> Result<TokenKeys, TokensError> {
    let mut stores = StoreConfig::default();
    if let Some(jaas) = jaas {
        let login = jaas::parse(jaas.reveal())?;
        if login.module_name() != Mechanism::OAuthBearer.login_module() {
            return Err(TokensError::Module { module: login.module });
        }
        for (name, value) in &login.options {
            stores.set(name, value.expose());
        }
    }
    let trusted = stores.trusted(&read_file)?.map(|trusted| trusted.certificates);
    let url = own.sasl_oauthbearer_jwks_endpoint_url.as_deref().unwrap_or_default();
    let expected = Expected {
        issuer: own.sasl_oauthbearer_expected_issuer.clone().unwrap_or_default(),
        audiences: own.sasl_oauthbearer_expected_audience.clone(),
        subject_claim: own.sasl_oauthbearer_sub_claim_name.clone(),
        scope_claim: own.sasl_oauthbearer_scope_claim_name.clone(),
        clock_skew_seconds: own.sasl_oauthbearer_clock_skew_seconds.unsigned_abs(),
    };
    let refresh_interval = Duration::from_millis(own.sasl_oauthbearer_jwks_endpoint_refresh_ms.unsigned_abs());
    Ok(TokenKeys::new(listener, TokenSource(DocumentSource::new(url, trusted)?), expected, refresh_interval))
}
