//! Where the keys are that sign tokens: `sasl.oauthbearer.jwks.endpoint.url`, over https, or in a file.

use client::{Document, DocumentError, DocumentSource};
use security::oauth::{JWKS_BYTES_MAX, JwksError, KeySet};

/// Why there are no new keys.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("{0}")]
    Document(#[from] DocumentError),
    #[error("the answer has status {0}")]
    Status(u16),
    #[error("what is there {0}")]
    Jwks(#[from] JwksError),
}

/// Where keys come from.
#[derive(Debug)]
pub struct TokenSource(pub DocumentSource);

impl TokenSource {
    pub fn url(&self) -> &str {
        self.0.url()
    }

    /// It holds up the thread.
    pub fn fetch(&self) -> Result<KeySet, FetchError> {
        match self.0.read(JWKS_BYTES_MAX as u64)? {
            Document { status: Document::OK, bytes } => Ok(KeySet::parse(&bytes)?),
            Document { status, .. } => Err(FetchError::Status(status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str =
        r#"{"keys":[{"kty":"OKP","kid":"a","crv":"Ed25519","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}"#;

    #[test]
    fn keys_come_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.json");
        let source = TokenSource(DocumentSource::new(&format!("file://{}", path.display()), None).unwrap());
        assert!(matches!(source.fetch(), Err(FetchError::Document(_))));
        write(&path, KEYS);
        assert_eq!(source.fetch().unwrap().len(), 1);
        write(&path, "{}");
        assert!(matches!(source.fetch(), Err(FetchError::Jwks(JwksError::Malformed))));
    }

    #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
    fn write(path: &std::path::Path, text: &str) {
        std::fs::write(path, text).unwrap();
    }
}
