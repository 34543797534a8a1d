//! What is wrong with settings of TLS and the files that they name: which setting, which file, and what to do.

use super::pbes2::Pbes2Error;
use super::pkcs12::Pkcs12Error;

/// Why stores cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    #[error("{name} is {value:?}; it takes {takes}")]
    Value { name: &'static str, value: String, takes: &'static str },
    #[error("{name} is missing; {because} needs it")]
    Missing { name: &'static str, because: &'static str },
    #[error("{name} and {other} exclude each other")]
    Both { name: &'static str, other: &'static str },
    #[error("{name} is set, but PEM has no such password; a key's own is ssl.key.password")]
    PemPassword { name: &'static str },
    #[error("cannot read {name}: {path}: {reason}")]
    File { name: &'static str, path: String, reason: String },
    #[error(
        "{name}: {path} is JKS, which is not read; convert it: \
         keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
    )]
    Jks { name: &'static str, path: String },
    #[error("{name}: {path} is neither PKCS12 nor PEM")]
    Format { name: &'static str, path: String },
    #[error("{name}: {path} {reason}")]
    Pkcs12 { name: &'static str, path: String, reason: Pkcs12Error },
    #[error("{name} has no {what}")]
    Empty { name: &'static str, what: &'static str },
    #[error("the key in {name} is encrypted, and ssl.key.password is not set")]
    NoKeyPassword { name: &'static str },
    #[error("the key in {name} {reason}")]
    Key { name: &'static str, reason: Pbes2Error },
    #[error(
        "the key in {name} is encrypted in a form of old that is not read; convert it: \
         openssl pkcs8 -topk8 -v2 aes-256-cbc -in key.pem -out key-pkcs8.pem"
    )]
    OldKey { name: &'static str },
    #[error("{name}: {reason}")]
    Unusable { name: &'static str, reason: String },
}
