//! What is wrong with a setting of security, and texts that must not be shown.

use std::fmt;

/// `sasl.mechanism`, as far as they are there.
pub(crate) const MECHANISMS: [&str; 3] = [PLAIN, SCRAM_SHA_256, SCRAM_SHA_512];
pub(crate) const PLAIN: &str = "PLAIN";
pub(crate) const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
pub(crate) const SCRAM_SHA_512: &str = "SCRAM-SHA-512";

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
    #[error("sasl.mechanism {mechanism} is not there; {} are", MECHANISMS.join(", "))]
    Mechanism { mechanism: String },
    #[error("sasl.mechanism is not set, which to Kafka means GSSAPI; that is not there, {} are", MECHANISMS.join(", "))]
    NoMechanism,
    #[error("sasl.jaas.config {reason}")]
    Jaas { reason: String },
    #[error("cannot read {name}: {path}: {reason}")]
    File { name: &'static str, path: String, reason: String },
    #[error("{name} is not PEM, the only format that is read; convert it: {command}")]
    Format { name: &'static str, command: String },
    #[error("the key in {name} is encrypted, which is not there; decrypt it: openssl pkey -in key.pem -out plain.pem")]
    EncryptedKey { name: &'static str },
    #[error("{name} has no {what}")]
    Empty { name: &'static str, what: &'static str },
    #[error("{name}: {reason}")]
    Pem { name: &'static str, reason: String },
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

/// What logs must not show.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}
