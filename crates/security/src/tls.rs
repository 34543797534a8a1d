//! TLS: keystores and truststores of both sides, and the server's side made of them.
//!
//! A server speaks TLS 1.2 and 1.3 and resumes nothing: a resumed session would skip a truststore that has changed. It
//! takes no early data, which could be sent twice.

mod error;
mod pbes2;
mod pem;
mod pkcs12;
mod stores;
mod successor;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use ring::digest::{self, Digest};
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};

pub use error::TlsError;
pub use pbes2::Pbes2Error;
pub use pkcs12::{Passwords, Pkcs12, Pkcs12Error};
pub use stores::{
    Identity, KEY, KEY_CHAIN, KEY_LOCATION, KEY_PASSWORD, KEY_STORE_PASSWORD, KEY_TYPE, ReadFile, STORE_BYTES_MAX,
    StoreConfig, TRUST_CERTIFICATES, TRUST_LOCATION, TRUST_PASSWORD, TRUST_TYPE, Trusted,
};
pub use successor::{AllowedChanges, SuccessorError};

use crate::certificate::Certificate;
use crate::distinguished_name::distinguished_name;

const ENABLED_PROTOCOLS: &str = "ssl.enabled.protocols";
const CLIENT_AUTH: &str = "ssl.client.auth";

/// What the two sides may speak: `ssl.enabled.protocols`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    has_tls12: bool,
    has_tls13: bool,
}

impl Default for Versions {
    fn default() -> Self {
        Self { has_tls12: true, has_tls13: true }
    }
}

impl Versions {
    /// Of Java's names; older versions are not there, and left out.
    pub fn parse(value: &str) -> Result<Self, TlsError> {
        let has = |version: &str| value.split(',').any(|name| name.trim() == version);
        let versions = Self { has_tls12: has("TLSv1.2"), has_tls13: has("TLSv1.3") };
        if versions.has_tls12 || versions.has_tls13 {
            return Ok(versions);
        }
        let takes = "TLSv1.2, TLSv1.3 or both";
        Err(TlsError::Value { name: ENABLED_PROTOCOLS, value: value.to_owned(), takes })
    }

    /// For the TLS library.
    pub fn supported(self) -> Vec<&'static SupportedProtocolVersion> {
        let versions = [(self.has_tls13, &TLS13), (self.has_tls12, &TLS12)];
        versions.into_iter().filter_map(|(is_enabled, version)| is_enabled.then_some(version)).collect()
    }
}

/// `ssl.client.auth`: whether clients show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    #[default]
    None,
    /// They may. What they show has to be good.
    Requested,
    Required,
}

impl ClientAuth {
    pub fn parse(value: &str) -> Result<Self, TlsError> {
        match value.to_ascii_lowercase().as_str() {
            "none" => Ok(Self::None),
            "requested" => Ok(Self::Requested),
            "required" => Ok(Self::Required),
            _ => {
                let takes = "none, requested or required";
                Err(TlsError::Value { name: CLIENT_AUTH, value: value.to_owned(), takes })
            }
        }
    }
}

/// The settings of a listener with TLS, as they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerTlsConfig {
    pub stores: StoreConfig,
    pub client_auth: ClientAuth,
    pub versions: Versions,
}

/// A listener's TLS, ready for connections.
#[derive(Clone, Debug)]
pub struct ServerTls {
    pub config: Arc<ServerConfig>,
    /// Whose the certificate is, and when it ends, in milliseconds since 1970.
    pub subject: String,
    pub not_after_ms: i64,
    /// Other names of it, as they are encoded.
    alternative_names: BTreeSet<Vec<u8>>,
    chain: Vec<CertificateDer<'static>>,
    /// Who decides about clients' certificates, where they are asked for.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// Of the files.
    digest: Digest,
}

impl ServerTlsConfig {
    /// Reads the files and sees whether all of it fits together. Errors name settings without a listener's prefix.
    pub fn load(&self, read: ReadFile<'_>) -> Result<ServerTls, TlsError> {
        let read_bytes = RefCell::new(digest::Context::new(&digest::SHA256));
        let read: ReadFile<'_> = &|path| {
            let bytes = read(path)?;
            let mut digest = read_bytes.borrow_mut();
            digest.update(&bytes.len().to_be_bytes());
            digest.update(&bytes);
            Ok(bytes)
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let missing = TlsError::Missing { name: KEY_LOCATION, because: "a listener with TLS" };
        let Identity { chain, key, name } = self.stores.identity(read)?.ok_or(missing)?;
        let unusable = |name, error: rustls::Error| TlsError::Unusable { name, reason: describe(&error) };
        let certificate = chain.first().ok_or(TlsError::Empty { name, what: "certificate" })?;
        let unreadable =
            |error| TlsError::Unusable { name, reason: format!("its certificate cannot be read: {error}") };
        let leaf = Certificate::read(certificate).map_err(unreadable)?;
        let (subject, not_after_ms) = (distinguished_name(leaf.subject).map_err(unreadable)?, leaf.not_after_ms);
        let alternative_names = Certificate::alternative_names(certificate).map_err(unreadable)?;
        let alternative_names = alternative_names.into_iter().map(<[u8]>::to_vec).collect();

        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&self.versions.supported())
            .map_err(|error| unusable(ENABLED_PROTOCOLS, error))?;
        let verifier = match self.client_auth {
            ClientAuth::None => None,
            auth => {
                // Java would trust all authorities of the system, whose certificates anybody can buy.
                let because = "ssl.client.auth, which says whose certificates are taken,";
                let trusted = self.stores.trusted(read)?.ok_or(TlsError::Missing { name: TRUST_LOCATION, because })?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(trusted.roots), provider);
                let verifier = if auth == ClientAuth::Requested { verifier.allow_unauthenticated() } else { verifier };
                let no_verifier = |error: rustls::server::VerifierBuilderError| TlsError::Unusable {
                    name: TRUST_LOCATION,
                    reason: error.to_string(),
                };
                Some(verifier.build().map_err(no_verifier)?)
            }
        };
        let builder = match verifier.clone() {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let mut config = builder.with_single_cert(chain.clone(), key).map_err(|error| unusable(name, error))?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        let (config, digest) = (Arc::new(config), read_bytes.into_inner().finish());
        Ok(ServerTls { config, subject, not_after_ms, alternative_names, chain, verifier, digest })
    }
}

/// The library's words, but where those say nothing of what to do.
pub fn describe(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => "the key is not that of the certificate".to_owned(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
