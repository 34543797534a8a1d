//! A document that a setting names by a URL: keys that sign tokens, or tokens themselves.
//!
//! Behaviour:
//! - https, from a server whose certificate one of those signed that are given, or whom the system trusts. A proxy is
//!   taken from the environment.
//! - http from loopback only: what comes from elsewhere anybody on the way could change, and read.
//! - A file, as `file:///etc/kafka/keys.json`.
//! - Nobody is followed who sends elsewhere. An answer has ten seconds, and a size that it may have.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use ureq::http::{Response, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::file::read_file;

const TIMEOUT: Duration = Duration::from_secs(10);

/// What is wrong with a URL. The words go on where the name of the setting ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("is no URL of https or of a file")]
    Malformed,
    #[error("names a user, which is not sent")]
    User,
    #[error("is of http, which anybody on the way can change: https, a file, or http to this machine are taken")]
    Insecure,
}

/// Why a document cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("{0}")]
    Unreachable(#[from] ureq::Error),
    #[error("its answer has more than {0} bytes")]
    TooLarge(u64),
    #[error("{0}")]
    File(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Https,
    Http,
    File(String),
}

impl Place {
    fn of(url: &str) -> Result<Self, UrlError> {
        if let Some(path) = url.strip_prefix("file:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            // Nothing is escaped in what is a path as it stands.
            let is_path = path.starts_with('/') && !path.contains(['%', '?', '#']);
            return if is_path { Ok(Self::File(path.to_owned())) } else { Err(UrlError::Malformed) };
        }
        let uri: Uri = url.parse().map_err(|_| UrlError::Malformed)?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(UrlError::Malformed)?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(UrlError::User);
        }
        match uri.scheme_str() {
            Some("https") => Ok(Self::Https),
            Some("http") if is_loopback(host) => Ok(Self::Http),
            Some("http") => Err(UrlError::Insecure),
            _ => Err(UrlError::Malformed),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// What came, and with which status. That of a file is 200.
#[derive(Debug)]
pub struct Document {
    pub status: u16,
    pub bytes: Vec<u8>,
}

impl Document {
    pub const OK: u16 = 200;
}

/// Where a document is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentSource {
    url: String,
    place: Place,
    /// Who may sign the server's certificate. `None` is whom the system trusts.
    trusted: Option<Vec<CertificateDer<'static>>>,
}

impl DocumentSource {
    pub fn new(url: &str, trusted: Option<Vec<CertificateDer<'static>>>) -> Result<Self, UrlError> {
        Ok(Self { url: url.to_owned(), place: Place::of(url)?, trusted })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn is_file(&self) -> bool {
        matches!(self.place, Place::File(_))
    }

    /// Reads it. It holds up the thread.
    pub fn read(&self, bytes_max: u64) -> Result<Document, DocumentError> {
        if let Place::File(path) = &self.place {
            let bytes = read_file(path).map_err(DocumentError::File)?;
            let is_small = bytes.len() as u64 <= bytes_max;
            let document = is_small.then_some(Document { status: Document::OK, bytes });
            return document.ok_or(DocumentError::TooLarge(bytes_max));
        }
        let request = self.agent().get(&self.url).header("accept", "application/json");
        document(request.call()?, bytes_max)
    }

    /// Sends a form. It holds up the thread.
    pub fn post(&self, authorization: &str, form: &str, bytes_max: u64) -> Result<Document, DocumentError> {
        let request = self.agent().post(&self.url).header("accept", "application/json");
        let request = request.header("authorization", authorization);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        document(request.send(form)?, bytes_max)
    }

    /// For one call: whom the system trusts may have changed since the last.
    fn agent(&self) -> Agent {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(TIMEOUT))
            .user_agent("parshall");
        let config = match self.place {
            Place::Https => config.https_only(true).tls_config(self.tls()).build(),
            _ => config.proxy(None).build(),
        };
        config.new_agent()
    }

    fn tls(&self) -> TlsConfig {
        let of_system = || rustls_native_certs::load_native_certs().certs;
        let trusted = self.trusted.clone().unwrap_or_else(of_system);
        let trusted = trusted.iter().map(|certificate| Certificate::from_der(certificate).to_owned());
        TlsConfig::builder()
            .root_certs(RootCerts::from(trusted))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build()
    }
}

fn document(response: Response<Body>, bytes_max: u64) -> Result<Document, DocumentError> {
    let status = response.status().as_u16();
    // What reaches the limit exceeds it.
    match response.into_body().with_config().limit(bytes_max.saturating_add(1)).read_to_vec() {
        Ok(bytes) => Ok(Document { status, bytes }),
        Err(ureq::Error::BodyExceedsLimit(_)) => Err(DocumentError::TooLarge(bytes_max)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
