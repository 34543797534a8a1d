//! `security.protocol` and its companions, by the names and with the meaning that Kafka's own clients give them
//! (`CommonClientConfigs`, `SslConfigs`, `SaslConfigs`).
//!
//! A [`SecurityConfig`] is what somebody has written. [`SecurityConfig::load`] reads the files that it names, sees
//! whether all of it fits together, and makes a [`Security`] of it, which connections share.

use std::sync::Arc;

use security::Secret;

use crate::sasl::{Credentials, OAuthConfig};
use crate::security_error::{SecurityError, ignored, wrong};
use crate::tls::{Tls, TlsConfig};

/// What the names of all settings of security begin with.
const PREFIXES: [&str; 3] = ["security.", "sasl.", "ssl."];
/// Settings for mechanisms that are not there, or for code that is loaded.
const SASL_IGNORED: [&str; 4] = ["sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.", "sasl.client.callback."];

/// How to connect, as it was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SecurityConfig {
    has_tls: bool,
    has_sasl: bool,
    mechanism: Option<String>,
    jaas: Option<Secret>,
    oauth: OAuthConfig,
    tls: TlsConfig,
}

/// How to connect: ready, and cheap to clone. The default is `PLAINTEXT`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Security {
    pub(crate) tls: Option<Tls>,
    pub(crate) sasl: Option<Arc<Credentials>>,
}

impl Security {
    /// The mechanisms that a user can log in with.
    pub const MECHANISMS: [&str; 3] = ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"];

    /// `security.protocol`.
    pub fn protocol(&self) -> &'static str {
        match (&self.tls, &self.sasl) {
            (None, None) => "PLAINTEXT",
            (Some(_), None) => "SSL",
            (None, Some(_)) => "SASL_PLAINTEXT",
            (Some(_), Some(_)) => "SASL_SSL",
        }
    }

    /// The mechanism that connections log in with, if they do.
    pub fn mechanism(&self) -> Option<&'static str> {
        self.sasl.as_ref().map(|credentials| credentials.mechanism.name())
    }

    /// The same for another user.
    pub fn for_user(&self, mechanism: &str, user: &str, password: &str) -> Result<Self, SecurityError> {
        let credentials = Credentials::typed(mechanism, user, password)?;
        Ok(Self { tls: self.tls.clone(), sasl: Some(Arc::new(credentials)) })
    }
}

impl SecurityConfig {
    /// Whether a setting of this name is one of security.
    pub fn is_about(name: &str) -> bool {
        PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Sets what Kafka's clients call `name`.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SecurityError> {
        let value = value.trim();
        match name {
            "security.protocol" => {
                (self.has_tls, self.has_sasl) = match value.to_ascii_uppercase().as_str() {
                    "PLAINTEXT" => (false, false),
                    "SSL" => (true, false),
                    "SASL_PLAINTEXT" => (false, true),
                    "SASL_SSL" => (true, true),
                    _ => return Err(wrong(name, value, "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")),
                };
            }
            "sasl.mechanism" => self.mechanism = Some(value.to_owned()),
            "sasl.jaas.config" => self.jaas = Some(Secret::new(value.to_owned())),
            _ if self.oauth.set(name, value) => {}
            "security.providers" => return Err(ignored(name, "it is for a JVM")),
            _ if SASL_IGNORED.iter().any(|prefix| name.starts_with(prefix)) => {
                return Err(ignored(name, "no mechanism here uses it"));
            }
            _ => return self.tls.set(name, value),
        }
        Ok(())
    }

    /// Reads the files of certificates and keys. What `security.protocol` does not need is not looked at.
    pub fn load(&self) -> Result<Security, SecurityError> {
        let sasl = self.has_sasl.then(|| self.credentials().map(Arc::new)).transpose()?;
        let tls = self.has_tls.then(|| self.tls.load()).transpose()?;
        Ok(Security { tls, sasl })
    }

    fn credentials(&self) -> Result<Credentials, SecurityError> {
        let mechanism = self.mechanism.as_deref().ok_or(SecurityError::NoMechanism)?;
        let missing = SecurityError::Missing { name: "sasl.jaas.config", because: "a security.protocol with SASL" };
        Credentials::new(mechanism, self.jaas.as_ref().ok_or(missing)?.expose(), &self.oauth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, &str)]) -> SecurityConfig {
        let mut config = SecurityConfig::default();
        pairs.iter().for_each(|(name, value)| config.set(name, value).unwrap());
        config
    }

    const PLAIN: &str =
        "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"a\" password=\"hush\";";

    #[test]
    fn plaintext_needs_nothing() {
        assert_eq!(config(&[]).load(), Ok(Security::default()));
        let config = config(&[("security.protocol", "PLAINTEXT"), ("ssl.truststore.location", "no-such-file")]);
        assert_eq!(config.load(), Ok(Security::default()));
    }

    #[test]
    fn another_user_connects_in_the_same_way() {
        let config =
            [("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", PLAIN)];
        let own = self::config(&config).load().unwrap();
        assert_eq!((own.protocol(), own.mechanism()), ("SASL_PLAINTEXT", Some("PLAIN")));
        assert_eq!(Security::default().mechanism(), None);
        let bob = own.for_user("SCRAM-SHA-256", "bob \"b\"", "x;y").unwrap();
        assert_eq!((bob.protocol(), bob.mechanism()), ("SASL_PLAINTEXT", Some("SCRAM-SHA-256")));
        assert_eq!(bob.sasl.unwrap().username, "bob \"b\"");
        for (mechanism, user, password) in [("PLAIN", "", "x"), ("PLAIN", "b", ""), ("PLAIN", "a\nb", "x")] {
            assert!(matches!(own.for_user(mechanism, user, password), Err(SecurityError::Login { .. })));
        }
        assert!(matches!(own.for_user("GSSAPI", "bob", "x"), Err(SecurityError::Mechanism { .. })));
        let with_passwords = security::Mechanism::ALL.iter().filter(|one| **one != security::Mechanism::OAuthBearer);
        assert_eq!(Security::MECHANISMS.len(), with_passwords.count());
    }

    #[test]
    fn sasl_needs_a_mechanism_and_a_login() {
        let error = config(&[("security.protocol", "sasl_plaintext")]).load().unwrap_err();
        assert_eq!(error, SecurityError::NoMechanism);
        let error = config(&[("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", "PLAIN")]).load().unwrap_err();
        assert_eq!(error.to_string(), "sasl.jaas.config is missing; a security.protocol with SASL needs it");
        let kerberos =
            [("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", "GSSAPI"), ("sasl.jaas.config", PLAIN)];
        assert_eq!(
            config(&kerberos).load().unwrap_err().to_string(),
            "sasl.mechanism GSSAPI is not there; PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER are"
        );
        let plain = [("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", PLAIN)];
        assert!(config(&plain).load().unwrap().sasl.is_some());
    }

    #[test]
    fn secrets_are_not_shown() {
        let config =
            config(&[("security.protocol", "SASL_SSL"), ("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", PLAIN)]);
        let shown = format!("{config:?} {:?}", config.credentials());
        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn what_changes_nothing_is_harmless() {
        let mut config = SecurityConfig::default();
        for name in ["ssl.protocol", "ssl.cipher.suites", "sasl.kerberos.service.name", "ssl.no.such.thing"] {
            assert!(config.set(name, "x").unwrap_err().is_harmless(), "{name}");
        }
        assert!(!config.set("security.protocol", "TLS").unwrap_err().is_harmless());
        assert_eq!(config, SecurityConfig::default());
        assert!(SecurityConfig::is_about("ssl.protocol") && !SecurityConfig::is_about("acks"));
    }
}
