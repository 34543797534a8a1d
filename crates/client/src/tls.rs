//! TLS to a broker: trusted certificates, the client's own, and the handshake.
//!
//! Certificates and keys come from stores ([`security::tls::StoreConfig`]). As with Java, a certificate in the
//! truststore may sign others or be the broker's own.

mod verifier;

use std::net::IpAddr;
use std::sync::Arc;
use std::{fmt, io};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use security::tls::{self, Identity, StoreConfig, TlsError, Versions};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use verifier::Verifier;

use crate::file::read_file;
use crate::security_error::{SecurityError, ignored, wrong};

/// The settings whose names begin with `ssl.`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TlsConfig {
    stores: StoreConfig,
    checks_host_name: bool,
    versions: Versions,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self { stores: StoreConfig::default(), checks_host_name: true, versions: Versions::default() }
    }
}

impl TlsConfig {
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), SecurityError> {
        match name {
            "ssl.endpoint.identification.algorithm" => {
                self.checks_host_name = match value.to_ascii_lowercase().as_str() {
                    "https" => true,
                    // librdkafka's word for it.
                    "" | "none" => false,
                    _ => return Err(wrong(name, value, "https, or nothing for no look at host names")),
                };
            }
            "ssl.enabled.protocols" => self.versions = Versions::parse(value)?,
            // The default, and what leaves the choice to the two sides.
            "ssl.protocol" if matches!(value, "TLSv1.3" | "TLS") => {}
            "ssl.protocol" => return Err(ignored(name, "ssl.enabled.protocols says which versions may be spoken")),
            "ssl.cipher.suites" => return Err(ignored(name, "the two sides agree on one of those that are safe")),
            "ssl.provider"
            | "ssl.keymanager.algorithm"
            | "ssl.trustmanager.algorithm"
            | "ssl.secure.random.implementation"
            | "ssl.engine.factory.class" => return Err(ignored(name, "it is for a JVM")),
            _ if self.stores.set(name, value) => {}
            _ => return Err(SecurityError::Unknown { name: name.to_owned() }),
        }
        Ok(())
    }

    pub(crate) fn load(&self) -> Result<Tls, SecurityError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let (roots, own) = self.trusted()?;
        let verifier = Verifier { roots, own, checks_host_name: self.checks_host_name, algorithms };
        let unusable = |name, error: rustls::Error| TlsError::Unusable { name, reason: tls::describe(&error) };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.versions.supported())
            .map_err(|error| unusable("ssl.enabled.protocols", error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        // What a broker with `ssl.client.auth` wants to see.
        let config = match self.stores.identity(&read_file)? {
            Some(Identity { chain, key, name }) => {
                config.with_client_auth_cert(chain, key).map_err(|error| unusable(name, error))?
            }
            None => config.with_no_client_auth(),
        };
        Ok(Tls(Arc::new(config)))
    }

    /// Who may sign, and what is trusted as it is.
    fn trusted(&self) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), SecurityError> {
        if let Some(trusted) = self.stores.trusted(&read_file)? {
            return Ok((trusted.roots, trusted.certificates));
        }
        // Some of a system's certificates may be too old to be read; the others count.
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() { Err(SecurityError::NoRoots) } else { Ok((roots, Vec::new())) }
    }
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
