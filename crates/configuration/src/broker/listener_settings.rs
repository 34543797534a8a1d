//! The settings of single listeners: how they speak TLS, and how their clients say who they are.
//!
//! Each may be set for all listeners by its name, or for one as `listener.name.<listener>.<setting>`, which wins
//! (`KafkaConfig.valuesWithPrefixOverride`); listeners are called by their small letters there. Credentials of a SASL
//! mechanism are set for one listener and one mechanism: `listener.name.<listener>.<mechanism>.sasl.jaas.config`.
//! A limit of connections that is set for one listener counts beside that of all.

use super::SecurityProtocol;
use crate::value::{ClientAuth, Password};
use crate::{BrokerConfig, ConfigError, Endpoint, Setting, settings};

/// What the names of settings of one listener begin with.
pub const PREFIX: &str = "listener.name.";
/// Settings that may be for one mechanism of a listener, too. Those of OAUTHBEARER are for no other.
const OF_MECHANISMS: [&str; 2] = ["sasl.jaas.config", "connections.max.reauth.ms"];
/// Settings of a broker that may be set for one listener, too.
const LIMITS: [&str; 2] = ["max.connections", "max.connection.creation.rate"];
const OF_OAUTHBEARER: &str = "sasl.oauthbearer.";
const OAUTHBEARER: &str = "OAUTHBEARER";
const CLIENT_AUTH: &str = "ssl.client.auth";
const JAAS_CONFIG: &str = "sasl.jaas.config";

/// The names of the SASL mechanisms that are served.
pub const MECHANISMS: &[&str] = &["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER];

settings! {
    /// The settings of one listener, typed.
    pub struct ListenerConfig {}

    "ssl.keystore.type" => ssl_keystore_type: Option<String> = null, Any, ReadOnly,
        "What the keystore is: PEM or PKCS12. The file itself says it, too.";
    "ssl.keystore.location" => ssl_keystore_location: Option<String> = null, Any, ReadOnly,
        "A file with the private key of this broker and its certificates.";
    "ssl.keystore.password" => ssl_keystore_password: Option<Password> = null, Any, ReadOnly,
        "The password of a keystore in PKCS12.";
    "ssl.keystore.key" => ssl_keystore_key: Option<Password> = null, Any, ReadOnly,
        "The private key of this broker in PEM, where there is no file.";
    "ssl.keystore.certificate.chain" => ssl_keystore_certificate_chain: Option<Password> = null, Any, ReadOnly,
        "The certificates of this broker in PEM, its own first, where there is no file.";
    "ssl.key.password" => ssl_key_password: Option<Password> = null, Any, ReadOnly,
        "The password of an encrypted private key.";
    "ssl.truststore.type" => ssl_truststore_type: Option<String> = null, Any, ReadOnly,
        "What the truststore is: PEM or PKCS12. The file itself says it, too.";
    "ssl.truststore.location" => ssl_truststore_location: Option<String> = null, Any, ReadOnly,
        "A file with the certificates that may sign those of clients.";
    "ssl.truststore.password" => ssl_truststore_password: Option<Password> = null, Any, ReadOnly,
        "The password of a truststore in PKCS12.";
    "ssl.truststore.certificates" => ssl_truststore_certificates: Option<Password> = null, Any, ReadOnly,
        "The certificates that may sign those of clients in PEM, where there is no file.";
    "ssl.client.auth" => ssl_client_auth: ClientAuth = "none", OneOf(ClientAuth::NAMES), ReadOnly,
        "Whether clients have to show a certificate, are asked for one, or are not. With SASL_SSL only what is set for the \
         listener counts.";
    "ssl.enabled.protocols" => ssl_enabled_protocols: Vec<String>
        = "TLSv1.2,TLSv1.3", EachOf(&["TLSv1.2", "TLSv1.3"]), ReadOnly, "The versions of TLS that are spoken.";
    "ssl.allow.dn.changes" => ssl_allow_dn_changes: bool = "false", Any, ReadOnly,
        "Whether a certificate that is renewed may be of another subject.";
    "ssl.allow.san.changes" => ssl_allow_san_changes: bool = "false", Any, ReadOnly,
        "Whether a certificate that is renewed may lack a subjectAltName of the one before.";
    "ssl.cipher.suites" => ssl_cipher_suites: Vec<String> = "", Any, ReadOnly,
        "The cipher suites that are taken.", ignored "all that are spoken here are safe, and no other is";
    "ssl.principal.mapping.rules" => ssl_principal_mapping_rules: String = "DEFAULT", Any, ReadOnly,
        "How the name in a client's certificate becomes the name of its principal.";
    "sasl.enabled.mechanisms" => sasl_enabled_mechanisms: Vec<String> = "", EachOf(MECHANISMS), ReadOnly,
        "How clients may say who they are. Kafka's default is GSSAPI, which is not served, so it has to be set.";
    "sasl.jaas.config" => sasl_jaas_config: Option<Password> = null, Any, ReadOnly,
        "Credentials of a mechanism: only what is set for a listener and a mechanism counts.";
    "sasl.oauthbearer.jwks.endpoint.url" => sasl_oauthbearer_jwks_endpoint_url: Option<String> = null, Any, ReadOnly,
        "Where the keys are that sign the tokens of OAUTHBEARER: https, a file, or http on this machine.";
    "sasl.oauthbearer.jwks.endpoint.refresh.ms" => sasl_oauthbearer_jwks_endpoint_refresh_ms: i64
        = "3600000", AtLeast(1000), ReadOnly, "How often these keys are fetched. One that is not known is looked for at once.";
    "sasl.oauthbearer.expected.issuer" => sasl_oauthbearer_expected_issuer: Option<String> = null, Any, ReadOnly,
        "Who has to have issued a token (iss).";
    "sasl.oauthbearer.expected.audience" => sasl_oauthbearer_expected_audience: Vec<String> = "", Any, ReadOnly,
        "Whom a token has to be for (aud): one of these.";
    "sasl.oauthbearer.sub.claim.name" => sasl_oauthbearer_sub_claim_name: String = "sub", Any, ReadOnly,
        "The claim of a token that names its user.";
    "sasl.oauthbearer.scope.claim.name" => sasl_oauthbearer_scope_claim_name: String = "scope", Any, ReadOnly,
        "The claim of a token that has its scopes. They have a form, and grant nothing.";
    "sasl.oauthbearer.clock.skew.seconds" => sasl_oauthbearer_clock_skew_seconds: i32 = "30", AtLeast(0), ReadOnly,
        "How far the clocks of this broker and of those who sign tokens may be apart.";
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms" => sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: i64
        = "100", Any, ReadOnly, "How soon a fetch of keys that failed is tried again.", ignored
        "it is tried again every ten seconds";
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms" => sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: i64
        = "10000", Any, ReadOnly, "How long a fetch of keys that failed waits at most.", ignored
        "it is tried again every ten seconds";
    "sasl.server.max.receive.size" => sasl_server_max_receive_size: i32 = "65536", Between(1024, 524288), ReadOnly,
        "The largest request of a client that has not said yet who it is.";
    "connections.max.reauth.ms" => connections_max_reauth_ms: i64 = "0", AtLeast(0), ReadOnly,
        "How long a client may use a connection before it has to say again who it is. 0 is for ever.";
    "connection.failed.authentication.delay.ms" => connection_failed_authentication_delay_ms: i32
        = "100", Between(0, 10000), ReadOnly,
        "How long a client waits for the answer that it is not let in.";
}

/// The setting that stands behind the name of one listener's.
pub fn find(name: &str) -> Option<&'static Setting> {
    let rest = name.strip_prefix(PREFIX)?;
    let ends_so = |setting: &&Setting| rest.strip_suffix(setting.name).is_some_and(|front| front.ends_with('.'));
    let limits = crate::broker::SETTINGS.iter().filter(|setting| LIMITS.contains(&setting.name));
    SETTINGS.iter().chain(limits).filter(ends_so).max_by_key(|setting| setting.name.len())
}

impl ListenerConfig {
    /// The settings of a listener.
    pub fn of(config: &BrokerConfig, endpoint: &Endpoint) -> Result<Self, ConfigError> {
        let own = |name: &str| {
            let of_mechanism = || of_mechanism(config, endpoint, OAUTHBEARER, name);
            let of_mechanism = name.starts_with(OF_OAUTHBEARER).then(of_mechanism).flatten();
            of_mechanism.or_else(|| config.said(&format!("{PREFIX}{}.{name}", endpoint.name.to_ascii_lowercase())))
        };
        let is_sasl_ssl = endpoint.security_protocol == SecurityProtocol::SaslSsl;
        Self::typed(|setting| {
            // KIP-684: what is set for all listeners is meant for those without SASL.
            let general = if is_sasl_ssl && setting.name == CLIENT_AUTH { None } else { config.said(setting.name) };
            own(setting.name).or(general).or(setting.default).map(str::to_owned)
        })
    }
}

/// How many connections a listener may have of its own (`max.connections`).
pub fn max_connections(config: &BrokerConfig, listener: &str) -> Option<i32> {
    limit(config, listener, "max.connections")
}

/// How many connections a second a listener may accept of its own (`max.connection.creation.rate`).
pub fn max_connection_creation_rate(config: &BrokerConfig, listener: &str) -> Option<i32> {
    limit(config, listener, "max.connection.creation.rate")
}

fn limit(config: &BrokerConfig, listener: &str, name: &str) -> Option<i32> {
    debug_assert!(LIMITS.contains(&name));
    config.said(&format!("{PREFIX}{}.{name}", listener.to_ascii_lowercase()))?.trim().parse().ok()
}

/// The JAAS config of a mechanism of a listener.
pub fn jaas_config(config: &BrokerConfig, endpoint: &Endpoint, mechanism: &str) -> Option<Password> {
    of_mechanism(config, endpoint, mechanism, JAAS_CONFIG).map(Password::new)
}

/// How long a session of a mechanism of a listener lasts, in ms; 0 is for ever.
pub fn max_reauth_ms(config: &BrokerConfig, endpoint: &Endpoint, mechanism: &str) -> Result<i64, ConfigError> {
    let own = ListenerConfig::of(config, endpoint)?;
    let of_mechanism = of_mechanism(config, endpoint, mechanism, "connections.max.reauth.ms");
    Ok(of_mechanism.and_then(|text| text.trim().parse().ok()).unwrap_or(own.connections_max_reauth_ms))
}

fn of_mechanism<'a>(config: &'a BrokerConfig, endpoint: &Endpoint, mechanism: &str, name: &str) -> Option<&'a str> {
    debug_assert!(OF_MECHANISMS.contains(&name) || name.starts_with(OF_OAUTHBEARER));
    let (listener, mechanism) = (endpoint.name.to_ascii_lowercase(), mechanism.to_ascii_lowercase());
    config.said(&format!("{PREFIX}{listener}.{mechanism}.{name}"))
}

/// What holds for the settings of one listener as they are written; files are looked at when the broker starts.
pub fn check(config: &BrokerConfig, endpoint: &Endpoint) -> Result<(), ConfigError> {
    let own = ListenerConfig::of(config, endpoint)?;
    let Endpoint { name, security_protocol, .. } = endpoint;
    let conflict = |text: String| Err(ConfigError::Conflict(text));
    if security_protocol.has_tls() && own.ssl_keystore_location.is_none() && own.ssl_keystore_key.is_none() {
        return conflict(format!(
            "The listener {name} speaks TLS and needs the key and the certificates of this broker: name their file with \
             ssl.keystore.location"
        ));
    }
    if security_protocol.has_tls() && own.ssl_enabled_protocols.is_empty() {
        return conflict(format!("The listener {name} speaks TLS and ssl.enabled.protocols is empty"));
    }
    if security_protocol.has_sasl() && own.sasl_enabled_mechanisms.is_empty() {
        return conflict(format!(
            "The listener {name} speaks SASL and needs sasl.enabled.mechanisms: {} (Kafka's default, GSSAPI, is not \
             served)",
            MECHANISMS.join(", ")
        ));
    }
    let has = |name: &str| security_protocol.has_sasl() && own.sasl_enabled_mechanisms.iter().any(|one| one == name);
    if has("PLAIN") && jaas_config(config, endpoint, "PLAIN").is_none() {
        let listener = name.to_ascii_lowercase();
        let general = match own.sasl_jaas_config {
            Some(_) => " (what is set for all listeners and mechanisms counts for none)",
            None => "",
        };
        return conflict(format!(
            "PLAIN at the listener {name} needs its users: set {PREFIX}{listener}.plain.{JAAS_CONFIG} to \
             org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME=\"PASSWORD\";{general}"
        ));
    }
    // Without one of these a token would let in that is meant for others, or that anybody has signed.
    let missing = [
        ("jwks.endpoint.url", own.sasl_oauthbearer_jwks_endpoint_url.is_none()),
        ("expected.issuer", own.sasl_oauthbearer_expected_issuer.as_deref().is_none_or(str::is_empty)),
        ("expected.audience", own.sasl_oauthbearer_expected_audience.is_empty()),
    ];
    if let Some((missing, _)) = missing.into_iter().find(|(_, is_missing)| has(OAUTHBEARER) && *is_missing) {
        return conflict(format!(
            "{OAUTHBEARER} at the listener {name} needs to know whose tokens it takes: set {OF_OAUTHBEARER}{missing}"
        ));
    }
    Ok(())
}

/// What holds for a listener of brokers that log in there: as one user, whose name and password each of them has.
pub fn check_login_of_nodes(config: &BrokerConfig, endpoint: &Endpoint) -> Result<(), ConfigError> {
    let own = ListenerConfig::of(config, endpoint)?;
    let (name, mechanism) = (&endpoint.name, &config.sasl_mechanism_controller_protocol);
    let conflict = |text: String| Err(ConfigError::Conflict(text));
    if !own.sasl_enabled_mechanisms.contains(mechanism) {
        return conflict(format!(
            "sasl.mechanism.controller.protocol is {mechanism}, and has to be one of the mechanisms that the listener \
             {name} enables with sasl.enabled.mechanisms: {}",
            own.sasl_enabled_mechanisms.join(", ")
        ));
    }
    if jaas_config(config, endpoint, mechanism).is_none() {
        let (listener, mechanism) = (name.to_ascii_lowercase(), mechanism.to_ascii_lowercase());
        return conflict(format!(
            "Brokers log in to each other's listener {name} with what is the same at all of them: set \
             {PREFIX}{listener}.{mechanism}.{JAAS_CONFIG}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConfigMap, Scope};

    fn config(pairs: &[(&str, &str)]) -> Result<BrokerConfig, String> {
        let map: ConfigMap = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        BrokerConfig::new(map).map_err(|error| error.to_string())
    }

    const KEY: (&str, &str) = ("ssl.keystore.location", "/etc/kafka/broker.pem");
    const USERS: (&str, &str) =
        ("listener.name.sasl_ssl.plain.sasl.jaas.config", "PlainLoginModule required user_alice=\"secret\";");
    const LISTENERS: (&str, &str) = ("listeners", "SSL://127.0.0.1:9093,SASL_SSL://127.0.0.1:9094");

    #[test]
    fn what_is_set_for_one_listener_wins() {
        let config = config(&[
            LISTENERS,
            KEY,
            USERS,
            ("sasl.enabled.mechanisms", "SCRAM-SHA-512"),
            ("listener.name.sasl_ssl.sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256"),
            ("listener.name.ssl.ssl.keystore.location", "other.pem"),
            ("listener.name.sasl_ssl.scram-sha-256.connections.max.reauth.ms", "5000"),
            ("connections.max.reauth.ms", "60000"),
        ])
        .unwrap();
        let endpoints = config.client_endpoints().unwrap();
        let [ssl, sasl] = &endpoints[..] else { panic!("two listeners") };
        let keystore =
            |endpoint| ListenerConfig::of(&config, endpoint).unwrap().ssl_keystore_location.expect("there is one");
        assert_eq!((keystore(ssl).as_str(), keystore(sasl).as_str()), ("other.pem", KEY.1));
        assert_eq!(ListenerConfig::of(&config, sasl).unwrap().sasl_enabled_mechanisms, ["PLAIN", "SCRAM-SHA-256"]);
        assert_eq!(max_reauth_ms(&config, sasl, "SCRAM-SHA-256"), Ok(5000));
        assert_eq!(max_reauth_ms(&config, sasl, "PLAIN"), Ok(60000));
        assert!(jaas_config(&config, sasl, "PLAIN").is_some());
        assert!(jaas_config(&config, ssl, "PLAIN").is_none());
    }

    #[test]
    fn a_limit_of_one_listener_counts_beside_that_of_all() {
        let limited = config(&[
            ("listeners", "PLAINTEXT://127.0.0.1:9092"),
            ("listener.name.plaintext.max.connections", "7"),
            ("listener.name.plaintext.max.connection.creation.rate", "8"),
            ("max.connections", "9"),
        ])
        .unwrap();
        assert_eq!((limited.max_connections, max_connections(&limited, "PLAINTEXT")), (9, Some(7)));
        assert_eq!(max_connection_creation_rate(&limited, "PLAINTEXT"), Some(8));
        assert_eq!(max_connections(&limited, "SSL"), None);
        assert!(config(&[("listener.name.plaintext.max.connections", "-1")]).is_err());
    }

    #[test]
    fn what_is_set_for_oauthbearer_of_one_listener_wins() {
        let config = config(&[
            LISTENERS,
            KEY,
            ("sasl.enabled.mechanisms", "OAUTHBEARER"),
            ("sasl.oauthbearer.jwks.endpoint.url", "https://a/keys"),
            ("sasl.oauthbearer.expected.issuer", "a"),
            ("listener.name.sasl_ssl.sasl.oauthbearer.expected.issuer", "b"),
            ("sasl.oauthbearer.expected.audience", "a"),
            ("listener.name.sasl_ssl.sasl.oauthbearer.expected.audience", "b"),
            ("listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.expected.audience", "c,d"),
        ])
        .unwrap();
        let own = ListenerConfig::of(&config, &config.client_endpoints().unwrap()[1]).unwrap();
        assert_eq!(own.sasl_oauthbearer_jwks_endpoint_url.as_deref(), Some("https://a/keys"));
        assert_eq!(own.sasl_oauthbearer_expected_issuer.as_deref(), Some("b"));
        assert_eq!(own.sasl_oauthbearer_expected_audience, ["c", "d"]);
    }

    #[test]
    fn with_sasl_only_a_listeners_own_client_auth_counts() {
        let auth = |name: &str| {
            let config = config(&[
                LISTENERS,
                KEY,
                ("sasl.enabled.mechanisms", "SCRAM-SHA-256"),
                ("ssl.truststore.location", "ca.pem"),
                (name, "required"),
            ])
            .unwrap();
            let endpoints = config.client_endpoints().unwrap();
            endpoints.iter().map(|one| ListenerConfig::of(&config, one).unwrap().ssl_client_auth).collect::<Vec<_>>()
        };
        assert_eq!(auth("ssl.client.auth"), [ClientAuth::Required, ClientAuth::None]);
        assert_eq!(auth("listener.name.sasl_ssl.ssl.client.auth"), [ClientAuth::None, ClientAuth::Required]);
    }

    #[test]
    fn names_of_one_listener_are_checked_like_those_of_all() {
        assert_eq!(
            Scope::Broker.find("listener.name.a.b.ssl.key.password").map(|one| one.name),
            Some("ssl.key.password")
        );
        assert_eq!(Scope::Broker.find("listener.name.a.num.partitions").map(|one| one.name), None);
        let error = config(&[("listener.name.ssl.ssl.client.auth", "perhaps")]).unwrap_err();
        assert!(error.contains("listener.name.ssl.ssl.client.auth") && error.contains("none, requested"), "{error}");
    }

    #[test]
    fn a_listener_without_what_it_needs_is_refused_in_words_that_name_it() {
        let sasl = ("listeners", "SASL_PLAINTEXT://127.0.0.1:9092");
        let oauth = ("sasl.enabled.mechanisms", "OAUTHBEARER");
        let url = ("sasl.oauthbearer.jwks.endpoint.url", "https://issuer/keys");
        let issuer = ("sasl.oauthbearer.expected.issuer", "https://issuer");
        for (pairs, line) in [
            (&[("listeners", "SSL://127.0.0.1:9093")][..], "name their file with ssl.keystore.location"),
            (&[sasl], "needs sasl.enabled.mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTH"),
            (&[sasl, ("sasl.enabled.mechanisms", "GSSAPI")], "String must be one of: PLAIN"),
            (
                &[sasl, ("sasl.enabled.mechanisms", "PLAIN"), ("sasl.jaas.config", "x")],
                "set listener.name.sasl_plaintext.plain.sasl.jaas.config",
            ),
            (&[sasl, oauth], "set sasl.oauthbearer.jwks.endpoint.url"),
            (&[sasl, oauth, url], "set sasl.oauthbearer.expected.issuer"),
            (
                &[sasl, oauth, url, issuer, ("sasl.oauthbearer.expected.issuer", "")],
                "set sasl.oauthbearer.expected.issuer",
            ),
            (&[sasl, oauth, url, issuer], "set sasl.oauthbearer.expected.audience"),
        ] {
            let error = config(pairs).unwrap_err();
            assert!(error.contains(line), "{error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let config =
            config(&[LISTENERS, KEY, USERS, ("sasl.enabled.mechanisms", "PLAIN"), ("ssl.key.password", "hush")]);
        let config = config.unwrap();
        let own = ListenerConfig::of(&config, &config.client_endpoints().unwrap()[1]).unwrap();
        for shown in [format!("{config:?}"), format!("{own:?}")] {
            assert!(!shown.contains("secret") && !shown.contains("hush"), "{shown}");
        }
    }
}
