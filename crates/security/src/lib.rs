//! What client and broker share of TLS and SASL: reading certificates, keys and logins, and the mathematics of
//! mechanisms.
//!
//! Pure: no sockets, no clock, no runtime. Files come from a function of the caller's, random bytes from the caller.
//! Whatever others send is bounded and ends in a typed error, and nothing that is secret can be shown by mistake: it is
//! a [`Secret`].

mod certificate;
mod der;
mod distinguished_name;
pub mod jaas;
mod java_regex;
mod mechanism;
pub mod oauth;
pub mod plain;
mod principal_mapping;
mod sasl_name;
pub mod scram;
mod secret;
pub mod tls;

pub use certificate::Certificate;
pub use der::DerError;
pub use distinguished_name::distinguished_name;
pub use java_regex::PatternError;
pub use mechanism::Mechanism;
pub use principal_mapping::{MappingError, PrincipalError, PrincipalMapping};
pub use secret::Secret;
