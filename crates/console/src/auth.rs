//! The login, where there is a password: a cookie for people, HTTP Basic for programs.

mod attempts;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::extract::{Form, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use self::attempts::{Attempts, TooMany};
use crate::Console;
use crate::connections::PeerAddress;
use crate::failure::render;
use crate::layout::Layout;

const COOKIE: &str = "parshall_console";
const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);
/// The oldest gives way to one more.
const SESSIONS_MAX: usize = 1000;
/// Before the answer to a wrong password. Those of one address are looked at one after the other, so guessing is slow.
const WRONG_PASSWORD_PAUSE: Duration = Duration::from_millis(500);

/// A password, as its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct Password([u8; 32]);

impl Password {
    pub fn new(text: &str) -> Self {
        Self(hash(text.as_bytes()))
    }

    /// Digests are compared, so that the time it takes says nothing of the password.
    fn is(&self, text: &str) -> bool {
        hash(text.as_bytes()) == self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    let mut hashed = [0; 32];
    hashed.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hashed
}

/// Who is logged in.
#[derive(Default)]
pub(crate) struct Sessions {
    /// By the digest of their token: when each began.
    began: Mutex<HashMap<[u8; 32], Instant>>,
    attempts: Attempts,
}

impl Sessions {
    /// A new token.
    fn begin(&self) -> Option<String> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut began = self.began.lock();
        began.retain(|_, at| at.elapsed() < SESSION_LIFETIME);
        if began.len() >= SESSIONS_MAX
            && let Some(oldest) = began.iter().min_by_key(|(_, at)| **at).map(|(key, _)| *key)
        {
            began.remove(&oldest);
        }
        began.insert(hash(token.as_bytes()), Instant::now());
        Some(token)
    }

    /// Looks at a password in its turn, and takes its time with a wrong one.
    async fn is_right(&self, password: &Password, given: &str, peer: PeerAddress) -> Result<bool, TooMany> {
        let _turn = self.attempts.turn(peer.0).await?;
        let is_right = password.is(given);
        if !is_right {
            sleep(WRONG_PASSWORD_PAUSE).await;
        }
        Ok(is_right)
    }

    fn has(&self, token: &str) -> bool {
        let began = self.began.lock();
        began.get(&hash(token.as_bytes())).is_some_and(|at| at.elapsed() < SESSION_LIFETIME)
    }

    fn end(&self, token: &str) {
        self.began.lock().remove(&hash(token.as_bytes()));
    }
}

/// Lets in who has logged in. Health is for everybody: whoever starts brokers knows no password.
pub(crate) async fn check(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    let Some(password) = &console.options.password else { return next.run(request).await };
    let path = request.uri().path();
    if path == "/login" || path.starts_with("/assets/") || path.starts_with("/health/") {
        return next.run(request).await;
    }
    if token(request.headers()).is_some_and(|token| console.sessions.has(token)) {
        return next.run(request).await;
    }
    if let (Some(given), Some(peer)) = (basic_password(request.headers()), request.extensions().get()) {
        match console.sessions.is_right(password, &given, *peer).await {
            Ok(true) => return next.run(request).await,
            Ok(false) => {}
            Err(too_many) => return too_many.into_response(),
        }
    }
    let is_page =
        request.headers().get(header::ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/html"));
    match is_page {
        true => Redirect::to("/login").into_response(),
        false => {
            let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"parshall\"")];
            (StatusCode::UNAUTHORIZED, challenge, "the console's password is needed\n").into_response()
        }
    }
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|value| value.split(';')).find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

/// The password of HTTP Basic; the name does not matter.
fn basic_password(headers: &HeaderMap) -> Option<String> {
    let encoded = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).ok()?;
    Some(String::from_utf8(decoded).ok()?.split_once(':')?.1.to_owned())
}

#[derive(Template)]
#[template(path = "login.html")]
struct Login {
    layout: Layout,
    is_wrong: bool,
}

pub(crate) async fn show() -> Response {
    render(StatusCode::OK, &Login { layout: Layout::default(), is_wrong: false })
}

#[derive(Deserialize)]
pub(crate) struct Attempt {
    password: String,
}

pub(crate) async fn log_in(
    State(console): State<Arc<Console>>,
    Extension(peer): Extension<PeerAddress>,
    Form(attempt): Form<Attempt>,
) -> Response {
    let is_right = match &console.options.password {
        Some(password) => console.sessions.is_right(password, &attempt.password, peer).await,
        None => Ok(false),
    };
    match is_right {
        Ok(true) => {}
        Ok(false) => return render(StatusCode::FORBIDDEN, &Login { layout: Layout::default(), is_wrong: true }),
        Err(too_many) => return too_many.into_response(),
    }
    let Some(token) = console.sessions.begin() else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let seconds = SESSION_LIFETIME.as_secs();
    let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}");
    ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

pub(crate) async fn log_out(State(console): State<Arc<Console>>, headers: HeaderMap) -> Response {
    if let Some(token) = token(&headers) {
        console.sessions.end(token);
    }
    let cookie = format!("{COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
    ([(header::SET_COOKIE, cookie)], Redirect::to("/login")).into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_session_lasts_until_it_is_ended_and_the_oldest_give_way() {
        let sessions = Sessions::default();
        let first = sessions.begin().unwrap();
        assert!(sessions.has(&first));
        let tokens: Vec<_> = (0..SESSIONS_MAX).map(|_| sessions.begin().unwrap()).collect();
        assert!(!sessions.has(&first));
        assert!(tokens.iter().all(|token| sessions.has(token)));
        sessions.end(&tokens[3]);
        assert!(!sessions.has(&tokens[3]) && !sessions.has(""));
    }

    #[test]
    fn passwords_come_in_a_cookie_or_by_basic() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; parshall_console=x1; parshall_console2=y"));
        assert_eq!(token(&headers), Some("x1"));
        // anyone:a:b
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Basic YW55b25lOmE6Yg=="));
        assert_eq!(basic_password(&headers).as_deref(), Some("a:b"));
        assert!(Password::new("a:b").is("a:b") && !Password::new("a:b").is("a:c"));
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Basic ???"));
        assert_eq!(basic_password(&headers), None);
    }
}
