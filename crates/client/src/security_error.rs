//! What is wrong with a setting of security.

use security::Mechanism;
use security::tls::TlsError;

use crate::document::UrlError;

/// Why a setting of security was not taken, or cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecurityError {
    #[error("{name} is {value:?}; it takes {takes}")]
    Value { name: String, value: String, takes: &'static str },
    #[error("{name} is left out: {why}")]
    Ignored { name: String, why: &'static str },
    #[error("{name} is no setting of Kafka's client")]
    Unknown { name: String },
    #[error("{name} is missing; {because} needs it")]
    Missing { name: &'static str, because: &'static str },
    #[error("sasl.mechanism {mechanism} is not there; {} are", Mechanism::names())]
    Mechanism { mechanism: String },
    #[error("sasl.mechanism is not set, which to Kafka means GSSAPI; that is not there, {} are", Mechanism::names())]
    NoMechanism,
    #[error("{name} {error}")]
    Url { name: &'static str, error: UrlError },
    #[error("sasl.jaas.config {reason}")]
    Jaas { reason: String },
    #[error("a {what} is not empty, and has no control characters in it")]
    Login { what: &'static str },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the system has no certificates that it trusts; name some with ssl.truststore.location")]
    NoRoots,
}

impl SecurityError {
    /// Whether Kafka's client would go on, with a warning in its log at most.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Self::Ignored { .. } | Self::Unknown { .. })
    }
}

pub(crate) fn wrong(name: &str, value: &str, takes: &'static str) -> SecurityError {
    SecurityError::Value { name: name.to_owned(), value: value.to_owned(), takes }
}

pub(crate) fn ignored(name: &str, why: &'static str) -> SecurityError {
    SecurityError::Ignored { name: name.to_owned(), why }
}
