//! Where the tokens of OAUTHBEARER come from: an authorization server that gives them for an id and a secret (client
//! credentials, `ClientCredentialsJwtRetriever`), or a file (`FileJwtRetriever`).
//!
//! A token is used for new connections until most of its life is over. Connections wait for it one after the other, and
//! no thread of the runtime does.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use security::Secret;
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::document::{Document, DocumentError, DocumentSource};

const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// The part of a token's life that is used (`sasl.login.refresh.window.factor`).
const LIFE_PERCENT: u32 = 80;
/// Of what a server says of itself.
const REASON_CHARS_MAX: usize = 200;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("{0}")]
    Document(#[from] DocumentError),
    #[error("the authorization server answered {status} {reason}")]
    Refused { status: u16, reason: String },
    #[error("what the authorization server answered is no token")]
    Malformed,
    #[error("asking for a token has panicked")]
    Panicked,
}

impl TokenError {
    /// Whether the same question may get another answer.
    pub(crate) fn is_retriable(&self) -> bool {
        match self {
            Self::Document(DocumentError::Unreachable(_)) => true,
            Self::Refused { status, .. } => *status >= 500,
            _ => false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct TokenSource {
    document: Arc<DocumentSource>,
    scope: Option<String>,
    current: Mutex<Option<(Secret, Instant)>>,
}

/// Whether they ask for the same.
impl PartialEq for TokenSource {
    fn eq(&self, other: &Self) -> bool {
        self.document == other.document && self.scope == other.scope
    }
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    expires_in: Option<u64>,
}

#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

impl TokenSource {
    pub(crate) fn new(document: DocumentSource, scope: Option<String>) -> Self {
        Self { document: Arc::new(document), scope, current: Mutex::default() }
    }

    pub(crate) async fn token(&self, client_id: &str, secret: &Secret) -> Result<Secret, TokenError> {
        let mut current = self.current.lock().await;
        if let Some((token, _)) = current.as_ref().filter(|(_, until)| Instant::now() < *until) {
            return Ok(token.clone());
        }
        let authorization = Secret::new(format!("{client_id}:{}", secret.expose()));
        let authorization = Secret::new(format!("Basic {}", STANDARD.encode(authorization.expose())));
        let form = match &self.scope {
            Some(scope) => format!("grant_type=client_credentials&scope={}", escaped(scope)),
            None => "grant_type=client_credentials".to_owned(),
        };
        let document = Arc::clone(&self.document);
        let answer = spawn_blocking(move || match document.is_file() {
            true => document.read(ANSWER_BYTES_MAX),
            false => document.post(authorization.expose(), &form, ANSWER_BYTES_MAX),
        });
        let began = Instant::now();
        let answer = answer.await.map_err(|_| TokenError::Panicked)??;
        let (token, life) = if self.document.is_file() { of_file(&answer)? } else { of_server(&answer)? };
        *current = Some((token.clone(), began + life));
        Ok(token)
    }
}

/// A file may have another one at any time.
fn of_file(document: &Document) -> Result<(Secret, Duration), TokenError> {
    let text = str::from_utf8(&document.bytes).map_err(|_| TokenError::Malformed)?;
    Ok((checked(text.trim())?, Duration::ZERO))
}

fn of_server(Document { status, bytes }: &Document) -> Result<(Secret, Duration), TokenError> {
    if *status != Document::OK {
        let Refusal { error, error_description } = serde_json::from_slice(bytes).unwrap_or_default();
        let reason = format!("{error} {error_description}");
        let reason = reason.trim().chars().filter(|letter| !letter.is_control()).take(REASON_CHARS_MAX).collect();
        return Err(TokenError::Refused { status: *status, reason });
    }
    let Answer { access_token, expires_in } = serde_json::from_slice(bytes).map_err(|_| TokenError::Malformed)?;
    let life = Duration::from_secs(expires_in.unwrap_or_default().min(u64::from(u32::MAX)));
    Ok((checked(&access_token)?, life * LIFE_PERCENT / 100))
}

/// What does not fit into the message to the broker is no token.
fn checked(token: &str) -> Result<Secret, TokenError> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_good = !token.is_empty() && token.bytes().all(is_token);
    if is_good { Ok(Secret::new(token.to_owned())) } else { Err(TokenError::Malformed) }
}

/// As a form has it.
fn escaped(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}
