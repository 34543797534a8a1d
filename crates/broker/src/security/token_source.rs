//! Where the keys are that sign tokens: `sasl.oauthbearer.jwks.endpoint.url`.
//!
//! Behaviour:
//! - https, from a server that the system trusts, or the truststore among the options of `sasl.jaas.config`
//!   (`ssl.truststore.*`, as `JaasOptionsUtils` has it). A proxy is taken from the environment.
//! - http from loopback only: what comes from elsewhere anybody on the way could change.
//! - A file, as `file:///etc/parshall/keys.json`.
//! - Nobody is followed who sends elsewhere. An answer has ten seconds, and a MiB.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use security::oauth::{JWKS_BYTES_MAX, JwksError, KeySet};
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::file::read_file;

const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
const OK: u16 = 200;

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

/// Why there are no new keys.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("{0}")]
    Unreachable(#[from] ureq::Error),
    #[error("the answer has status {0}")]
    Status(u16),
    #[error("{0}")]
    File(String),
    #[error("what is there {0}")]
    Jwks(#[from] JwksError),
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

/// Where keys come from.
#[derive(Debug)]
pub struct TokenSource {
    url: String,
    place: Place,
    /// Who may sign the server's certificate. `None` is whom the system trusts.
    trusted: Option<Vec<CertificateDer<'static>>>,
}

impl TokenSource {
    pub fn new(url: &str, trusted: Option<Vec<CertificateDer<'static>>>) -> Result<Self, UrlError> {
        Ok(Self { url: url.to_owned(), place: Place::of(url)?, trusted })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// It holds up the thread.
    pub fn fetch(&self) -> Result<KeySet, FetchError> {
        let bytes = match &self.place {
            Place::File(path) => read_file(path).map_err(FetchError::File)?,
            Place::Http | Place::Https => self.download()?,
        };
        Ok(KeySet::parse(&bytes)?)
    }

    fn download(&self) -> Result<Vec<u8>, FetchError> {
        let response = self.agent().get(&self.url).header("accept", "application/json").call()?;
        if response.status() != OK {
            return Err(FetchError::Status(response.status().as_u16()));
        }
        match response.into_body().with_config().limit(JWKS_BYTES_MAX as u64).read_to_vec() {
            Err(ureq::Error::BodyExceedsLimit(_)) => Err(JwksError::TooLarge.into()),
            read => Ok(read?),
        }
    }

    /// For one call: whom the system trusts may have changed since the last.
    fn agent(&self) -> Agent {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(FETCH_TIMEOUT))
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const KEYS: &str =
        r#"{"keys":[{"kty":"OKP","kid":"a","crv":"Ed25519","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}"#;

    #[test]
    fn urls_by_table() {
        for (url, place) in [
            ("https://issuer/keys", Ok(Place::Https)),
            ("https://issuer:8443/realms/a/keys?x=y", Ok(Place::Https)),
            ("http://localhost:8080/keys", Ok(Place::Http)),
            ("http://127.0.0.1:8080/keys", Ok(Place::Http)),
            ("http://[::1]:8080/keys", Ok(Place::Http)),
            ("http://issuer/keys", Err(UrlError::Insecure)),
            ("http://127.0.0.1.example.com/keys", Err(UrlError::Insecure)),
            ("https://me:secret@issuer/keys", Err(UrlError::User)),
            ("http://localhost@issuer/keys", Err(UrlError::User)),
            ("ftp://issuer/keys", Err(UrlError::Malformed)),
            ("issuer/keys", Err(UrlError::Malformed)),
            ("https:///keys", Err(UrlError::Malformed)),
            ("", Err(UrlError::Malformed)),
            ("file:///etc/keys.json", Ok(Place::File("/etc/keys.json".to_owned()))),
            ("file:/etc/keys.json", Ok(Place::File("/etc/keys.json".to_owned()))),
            ("file://host/keys.json", Err(UrlError::Malformed)),
            ("file:keys.json", Err(UrlError::Malformed)),
            ("file:///a%20b", Err(UrlError::Malformed)),
        ] {
            assert_eq!(Place::of(url), place, "{url}");
        }
    }

    /// What comes of an answer with this beginning and body.
    fn answered(head: &str, body: Vec<u8>) -> Result<usize, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let head = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n", body.len());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut request, mut part) = (Vec::new(), [0; 4096]);
            while !request.ends_with(b"\r\n\r\n") {
                let read = stream.read(&mut part).unwrap();
                request.extend_from_slice(&part[..read]);
            }
            stream.write_all(head.as_bytes()).unwrap();
            // Whoever has read enough hangs up.
            _ = stream.write_all(&body);
            String::from_utf8(request).unwrap()
        });
        let fetched = TokenSource::new(&url, None).unwrap().fetch();
        assert!(server.join().unwrap().starts_with("GET /keys HTTP/1.1\r\n"));
        fetched.map(|keys| keys.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_come_with_a_good_answer_only() {
        assert_eq!(answered("200 OK", KEYS.into()), Ok(1));
        assert_eq!(answered("404 Not Found", KEYS.into()), Err("the answer has status 404".to_owned()));
        let elsewhere = "302 Found\r\nLocation: http://127.0.0.1:1/";
        assert_eq!(answered(elsewhere, Vec::new()), Err("the answer has status 302".to_owned()));
        assert_eq!(answered("200 OK", b"<html>".into()), Err("what is there is no JSON Web Key Set".to_owned()));
        let large = [KEYS.as_bytes(), &vec![b' '; JWKS_BYTES_MAX]].concat();
        assert_eq!(answered("200 OK", large), Err("what is there has more than 1 MiB".to_owned()));
    }

    #[test]
    fn keys_come_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.json");
        let fetch = || TokenSource::new(&format!("file://{}", path.display()), None).unwrap().fetch();
        assert!(matches!(fetch(), Err(FetchError::File(_))));
        write(&path, KEYS);
        assert_eq!(fetch().unwrap().len(), 1);
        write(&path, "{}");
        assert!(matches!(fetch(), Err(FetchError::Jwks(JwksError::Malformed))));
    }

    #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
    fn write(path: &std::path::Path, text: &str) {
        std::fs::write(path, text).unwrap();
    }
}
