//! TLS to a broker: trusted certificates, the client's own, and the handshake.
//!
//! Certificates and keys come as PEM, from a file or in the setting itself (KIP-651). As with Java, a certificate in
//! the truststore may sign others or be the broker's own.

mod pem;
mod verifier;

use std::net::IpAddr;
use std::sync::Arc;
use std::{fmt, io};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use verifier::Verifier;

use crate::security_error::{Secret, SecurityError, ignored, wrong};
use crate::system_error::reason;

const TRUST_LOCATION: &str = "ssl.truststore.location";
const TRUST_CERTIFICATES: &str = "ssl.truststore.certificates";
const KEY_LOCATION: &str = "ssl.keystore.location";
const KEY_CHAIN: &str = "ssl.keystore.certificate.chain";
const KEY: &str = "ssl.keystore.key";

/// The settings whose names begin with `ssl.`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TlsConfig {
    trust_type: Option<String>,
    trust_location: Option<String>,
    trust_certificates: Option<String>,
    key_type: Option<String>,
    key_location: Option<String>,
    key_chain: Option<String>,
    key: Option<Secret>,
    checks_host_name: bool,
    /// Of `ssl.enabled.protocols`.
    versions: Vec<Version>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Tls12,
    Tls13,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            trust_type: None,
            trust_location: None,
            trust_certificates: None,
            key_type: None,
            key_location: None,
            key_chain: None,
            key: None,
            checks_host_name: true,
            versions: vec![Version::Tls13, Version::Tls12],
        }
    }
}

impl TlsConfig {
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), SecurityError> {
        let given = || (!value.is_empty()).then(|| value.to_owned());
        match name {
            "ssl.truststore.type" => self.trust_type = given(),
            TRUST_LOCATION => self.trust_location = given(),
            TRUST_CERTIFICATES => self.trust_certificates = given(),
            "ssl.keystore.type" => self.key_type = given(),
            KEY_LOCATION => self.key_location = given(),
            KEY_CHAIN => self.key_chain = given(),
            KEY => self.key = given().map(Secret),
            "ssl.endpoint.identification.algorithm" => {
                self.checks_host_name = match value.to_ascii_lowercase().as_str() {
                    "https" => true,
                    // librdkafka's word for it.
                    "" | "none" => false,
                    _ => return Err(wrong(name, value, "https, or nothing for no look at host names")),
                };
            }
            "ssl.enabled.protocols" => {
                let known = value.split(',').filter_map(|version| match version.trim() {
                    "TLSv1.2" => Some(Version::Tls12),
                    "TLSv1.3" => Some(Version::Tls13),
                    _ => None,
                });
                let versions: Vec<_> = known.collect();
                if versions.is_empty() {
                    return Err(wrong(name, value, "TLSv1.2, TLSv1.3 or both"));
                }
                self.versions = versions;
            }
            // The default, and what leaves the choice to the two sides.
            "ssl.protocol" if matches!(value, "TLSv1.3" | "TLS") => {}
            "ssl.protocol" => return Err(ignored(name, "ssl.enabled.protocols says which versions may be spoken")),
            "ssl.cipher.suites" => return Err(ignored(name, "the two sides agree on one of those that are safe")),
            // An encrypted key is an error where it is read.
            "ssl.key.password" => {}
            "ssl.truststore.password" | "ssl.keystore.password" => {
                return Err(ignored(name, "PEM has no such password"));
            }
            "ssl.provider"
            | "ssl.keymanager.algorithm"
            | "ssl.trustmanager.algorithm"
            | "ssl.secure.random.implementation"
            | "ssl.engine.factory.class" => return Err(ignored(name, "it is for a JVM")),
            _ => return Err(SecurityError::Unknown { name: name.to_owned() }),
        }
        Ok(())
    }

    pub(crate) fn load(&self) -> Result<Tls, SecurityError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let (roots, own) = self.trusted()?;
        let verifier = Verifier { roots, own, checks_host_name: self.checks_host_name, algorithms };
        let versions: Vec<&SupportedProtocolVersion> = self
            .versions
            .iter()
            .map(|version| match version {
                Version::Tls12 => &TLS12,
                Version::Tls13 => &TLS13,
            })
            .collect();
        let unusable = |name, error: rustls::Error| SecurityError::Pem { name, reason: error.to_string() };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| unusable("ssl.enabled.protocols", error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match self.identity()? {
            Some(Identity { chain, key, name }) => {
                config.with_client_auth_cert(chain, key).map_err(|error| unusable(name, error))?
            }
            None => config.with_no_client_auth(),
        };
        Ok(Tls(Arc::new(config)))
    }

    /// Who may sign, and what is trusted as it is.
    fn trusted(&self) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), SecurityError> {
        let mut roots = RootCertStore::empty();
        let (name, text) = match (&self.trust_certificates, &self.trust_location) {
            (Some(text), _) => (TRUST_CERTIFICATES, text.clone()),
            (None, Some(path)) => (TRUST_LOCATION, read_store(TRUST_LOCATION, path, self.trust_type.as_deref())?),
            (None, None) => {
                // Some of a system's certificates may be too old to be read; the others count.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                return if roots.is_empty() { Err(SecurityError::NoRoots) } else { Ok((roots, Vec::new())) };
            }
        };
        let certificates = pem::certificates(name, &text)?;
        for certificate in &certificates {
            let unusable = |error: rustls::Error| SecurityError::Pem { name, reason: error.to_string() };
            roots.add(certificate.clone()).map_err(unusable)?;
        }
        Ok((roots, certificates))
    }

    /// What a broker with `ssl.client.auth` wants to see.
    fn identity(&self) -> Result<Option<Identity>, SecurityError> {
        let missing = |name, because| SecurityError::Missing { name, because };
        match (&self.key_chain, &self.key, &self.key_location) {
            (None, None, None) => Ok(None),
            (None, None, Some(path)) => {
                let name = KEY_LOCATION;
                let text = read_store(name, path, self.key_type.as_deref())?;
                Ok(Some(Identity { chain: pem::certificates(name, &text)?, key: pem::key(name, &text)?, name }))
            }
            (Some(chain), Some(key), _) => {
                let (chain, key) = (pem::certificates(KEY_CHAIN, chain)?, pem::key(KEY, &key.0)?);
                Ok(Some(Identity { chain, key, name: KEY }))
            }
            (None, Some(_), _) => Err(missing(KEY_CHAIN, KEY)),
            (Some(_), None, _) => Err(missing(KEY, KEY_CHAIN)),
        }
    }
}

struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// The setting that it comes from.
    name: &'static str,
}

/// A file of PEM. Kafka's default is JKS; here the file itself says what it is, unless the type does.
#[expect(clippy::disallowed_methods, reason = "a file that the user names")]
fn read_store(name: &'static str, path: &str, kind: Option<&str>) -> Result<String, SecurityError> {
    let failed = |error: io::Error| SecurityError::File { name, path: path.to_owned(), reason: reason(&error) };
    let bytes = std::fs::read(path).map_err(failed)?;
    let is_other = kind.is_some_and(|kind| !kind.eq_ignore_ascii_case("PEM"));
    match String::from_utf8(bytes) {
        Ok(text) if !is_other && pem::is_pem(&text) => Ok(text),
        _ => Err(SecurityError::Format { name, command: conversion(name, path) }),
    }
}

/// Works for JKS and PKCS12; keytool and openssl ask for the password.
fn conversion(name: &str, path: &str) -> String {
    if name == TRUST_LOCATION {
        return format!("keytool -list -rfc -keystore {path} > truststore.pem");
    }
    format!(
        "keytool -importkeystore -srckeystore {path} -destkeystore keystore.p12 -deststoretype PKCS12 && \
         openssl pkcs12 -in keystore.p12 -nodes -out keystore.pem"
    )
}

/// How to make TLS of a connection.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ClientConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// Whether they were loaded together.
impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Tls {
    /// `address` is `host:port`; the host is what the broker's certificate must be for.
    pub(crate) async fn connect(&self, stream: TcpStream, address: &str) -> io::Result<TlsStream<TcpStream>> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = match host.parse::<IpAddr>() {
            Ok(address) => ServerName::from(address),
            Err(_) => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
        };
        TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await
    }
}

/// What TLS itself found wrong, in words that say what to do. `None`: the stream below it failed.
pub(crate) fn failure(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match error {
        rustls::Error::InvalidCertificate(error) => certificate_failure(error),
        rustls::Error::InvalidMessage(_) => {
            format!("what it speaks is not TLS ({error}); is this a listener of another security.protocol?")
        }
        rustls::Error::AlertReceived(alert) if is_about_certificate(*alert) => {
            format!("it does not take our certificate ({alert:?}); is ssl.keystore.location what it wants to see?")
        }
        rustls::Error::AlertReceived(alert) => format!("it refused ({alert:?})"),
        error => error.to_string(),
    })
}

/// What brokers answer to none, and to one of a stranger.
fn is_about_certificate(alert: AlertDescription) -> bool {
    use AlertDescription::*;
    matches!(alert, CertificateRequired | BadCertificate | CertificateUnknown | UnknownCA | CertificateExpired)
}

fn certificate_failure(error: &CertificateError) -> String {
    match error {
        // The second is another authority of the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is signed by an unknown authority; add that to ssl.truststore.location".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("{error}; an empty ssl.endpoint.identification.algorithm leaves host names out")
        }
        error => format!("its certificate is not good: {error}"),
    }
}

#[cfg(test)]
mod tests;
