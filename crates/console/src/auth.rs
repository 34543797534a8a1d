//! The login: with the console's password where it has one, or as a user of a cluster whose connections log in. A
//! cookie for people, HTTP Basic for programs.
//!
//! Pages of a cluster whose connections log in are for its users only, whom they act as: the console's own principal
//! looks at the cluster, and does nothing for anybody. All else is for who knows the console's password.

mod attempts;
mod sessions;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::extract::{Form, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use client::Security;
use serde::Deserialize;
use tokio::time::sleep;

use self::attempts::{Attempts, TooMany};
pub(crate) use self::sessions::Sessions;
use self::sessions::{SESSION_LIFETIME, hash};
use crate::Console;
use crate::cluster::Cluster;
use crate::connections::PeerAddress;
use crate::failure::{Failure, render};
use crate::format::{escape, unescape};
use crate::layout::Layout;
use crate::user_session::{LoginError, UserSession};

const COOKIE: &str = "parshall_console";
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

/// Passwords that are looked at.
#[derive(Default)]
pub(crate) struct Guard(Attempts);

impl Guard {
    /// Looks at a password in its turn, and takes its time with a wrong one.
    async fn is_right(&self, password: &Password, given: &str, peer: PeerAddress) -> Result<bool, TooMany> {
        let _turn = self.0.turn(peer.0).await?;
        let is_right = password.is(given);
        if !is_right {
            sleep(WRONG_PASSWORD_PAUSE).await;
        }
        Ok(is_right)
    }

    /// The same of the password of a user, which the brokers look at.
    async fn log_in(
        &self,
        cluster: &Cluster,
        login: &UserLogin<'_>,
        peer: PeerAddress,
    ) -> Result<Result<UserSession, LoginError>, TooMany> {
        let _turn = self.0.turn(peer.0).await?;
        let begun = UserSession::begin(cluster, login.mechanism, login.user, login.password).await;
        if begun.is_err() {
            sleep(WRONG_PASSWORD_PAUSE).await;
        }
        Ok(begun)
    }
}

struct UserLogin<'a> {
    mechanism: &'a str,
    user: &'a str,
    password: &'a str,
}

/// Who may have what is at a path.
enum Demand<'a> {
    Nothing,
    Password(&'a Password),
    /// A user of this cluster.
    User(Arc<Cluster>),
    /// Others than this machine reach it, and there is no password that would let them in.
    Closed,
}

fn demand<'a>(console: &'a Console, path: &str) -> Demand<'a> {
    // Health is for everybody: whoever starts brokers knows no password.
    let is_open = ["/login", "/logout"].contains(&path) || path.starts_with("/assets/") || path.starts_with("/health/");
    if is_open {
        return Demand::Nothing;
    }
    if let Some(cluster) = cluster_of(console, path).filter(|cluster| cluster.has_users()) {
        return Demand::User(cluster);
    }
    // It leads to the only cluster, whose user is asked for there.
    if path == "/" && matches!(console.clusters().as_slice(), [only] if only.has_users()) {
        return Demand::Nothing;
    }
    // What these say of clusters with users is their names.
    let is_list = ["/", "/clusters", "/api/v1/clusters"].contains(&path);
    match &console.options.password {
        Some(password) => Demand::Password(password),
        None if console.options.is_closed && !is_list => Demand::Closed,
        None => Demand::Nothing,
    }
}

/// The cluster that a path belongs to.
fn cluster_of(console: &Console, path: &str) -> Option<Arc<Cluster>> {
    let rest = path.strip_prefix("/api/v1").unwrap_or(path).strip_prefix("/clusters/")?;
    let name = unescape(rest.split('/').next()?)?;
    console.clusters().into_iter().find(|cluster| cluster.name == name)
}

/// Lets in who has logged in.
pub(crate) async fn check(State(console): State<Arc<Console>>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get().copied();
    let (challenge, page) = match demand(&console, request.uri().path()) {
        Demand::Nothing => return next.run(request).await,
        Demand::Closed => {
            return Failure::forbidden(
                "this console has no password: it shows clusters to their users, and nothing else",
            )
            .into_response();
        }
        Demand::Password(password) => match knows(&console, password, request.headers(), peer).await {
            Ok(true) => return next.run(request).await,
            Ok(false) => ("the console's password is needed\n", "/login".to_owned()),
            Err(too_many) => return too_many.into_response(),
        },
        Demand::User(cluster) => match user(&console, &cluster, request.headers(), peer).await {
            Ok(Some(user)) => {
                request.extensions_mut().insert(user);
                return next.run(request).await;
            }
            Ok(None) => {
                let page = format!("/login?cluster={}", escape(&cluster.name));
                ("a user of this cluster and its password are needed\n", page)
            }
            Err(too_many) => return too_many.into_response(),
        },
    };
    let is_page =
        request.headers().get(header::ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/html"));
    match is_page {
        true => Redirect::to(&page).into_response(),
        false => {
            let basic = [(header::WWW_AUTHENTICATE, "Basic realm=\"parshall\"")];
            (StatusCode::UNAUTHORIZED, basic, challenge).into_response()
        }
    }
}

async fn knows(
    console: &Console,
    password: &Password,
    headers: &HeaderMap,
    peer: Option<PeerAddress>,
) -> Result<bool, TooMany> {
    if token(headers).is_some_and(|token| console.sessions.has_password(token)) {
        return Ok(true);
    }
    let (Some((_, given)), Some(peer)) = (basic(headers), peer) else { return Ok(false) };
    console.guard.is_right(password, &given, peer).await
}

async fn user(
    console: &Console,
    cluster: &Cluster,
    headers: &HeaderMap,
    peer: Option<PeerAddress>,
) -> Result<Option<Arc<UserSession>>, TooMany> {
    let known = token(headers).and_then(|token| console.sessions.user_of(token, &cluster.name));
    if known.is_some() {
        return Ok(known);
    }
    let (Some((user, password)), Some(peer)) = (basic(headers), peer) else { return Ok(None) };
    let sent = format!("Basic {user}\0{password}\0{}", cluster.name);
    if let Some(known) = console.sessions.user_of(&sent, &cluster.name) {
        return Ok(Some(known));
    }
    let login = UserLogin { mechanism: "", user: &user, password: &password };
    let begun = console.guard.log_in(cluster, &login, peer).await?;
    Ok(begun.ok().map(|user| console.sessions.begin_for(&sent, user)))
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|value| value.split(';')).find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

/// The name and the password of HTTP Basic.
fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let encoded = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let (name, password) = decoded.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

#[derive(Template)]
#[template(path = "login.html")]
struct Page {
    layout: Layout,
    /// The cluster whose user is asked for; without, it is the console's password.
    cluster: Option<String>,
    /// Whether the console has a password.
    has_password: bool,
    /// Other clusters to log in to: names and addresses.
    others: Vec<(String, String)>,
    user: String,
    /// Names, and whether they are chosen.
    mechanisms: Vec<(&'static str, bool)>,
    error: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Asked {
    #[serde(default)]
    cluster: String,
}

#[derive(Deserialize)]
pub(crate) struct Attempt {
    /// Empty for the console itself.
    #[serde(default)]
    cluster: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    mechanism: String,
    password: String,
}

fn with_users(console: &Console) -> impl Iterator<Item = Arc<Cluster>> {
    console.clusters().into_iter().filter(|cluster| cluster.has_users())
}

pub(crate) async fn show(State(console): State<Arc<Console>>, Query(asked): Query<Asked>) -> Response {
    let mut cluster = with_users(&console).find(|cluster| cluster.name == asked.cluster);
    if cluster.is_none() && console.options.password.is_none() {
        cluster = with_users(&console).next();
    }
    page(&console, StatusCode::OK, cluster.as_deref(), String::new(), None)
}

fn page(
    console: &Console,
    status: StatusCode,
    cluster: Option<&Cluster>,
    user: String,
    error: Option<String>,
) -> Response {
    let own = cluster.and_then(|cluster| cluster.config().connection.security.mechanism());
    let others = with_users(console).filter(|other| cluster.is_none_or(|cluster| cluster.name != other.name));
    let page = Page {
        layout: Layout::default(),
        cluster: cluster.map(|cluster| cluster.name.clone()),
        has_password: console.options.password.is_some(),
        others: others.map(|other| (other.name.clone(), format!("/login?cluster={}", escape(&other.name)))).collect(),
        user,
        mechanisms: Security::MECHANISMS.map(|mechanism| (mechanism, Some(mechanism) == own)).into(),
        error,
    };
    render(status, &page)
}

pub(crate) async fn log_in(
    State(console): State<Arc<Console>>,
    Extension(peer): Extension<PeerAddress>,
    headers: HeaderMap,
    Form(attempt): Form<Attempt>,
) -> Response {
    let proved = match attempt.cluster.is_empty() {
        true => log_in_with_password(&console, &attempt, peer).await,
        false => log_in_as_user(&console, &attempt, peer).await,
    };
    let (user, to) = match proved {
        Ok(proved) => proved,
        Err(refused) => return refused,
    };
    let Some(token) = console.sessions.begin(token(&headers), user) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let cookie = cookie(&console, &token, SESSION_LIFETIME.as_secs());
    ([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response()
}

/// What somebody has proved, and where that leads.
type Proved = (Option<UserSession>, String);

async fn log_in_with_password(console: &Console, attempt: &Attempt, peer: PeerAddress) -> Result<Proved, Response> {
    let is_right = match &console.options.password {
        Some(password) => console.guard.is_right(password, &attempt.password, peer).await,
        None => Ok(false),
    };
    match is_right {
        Ok(true) => Ok((None, "/".to_owned())),
        Ok(false) => {
            let error = "That is not the password.".to_owned();
            Err(page(console, StatusCode::FORBIDDEN, None, String::new(), Some(error)))
        }
        Err(too_many) => Err(too_many.into_response()),
    }
}

async fn log_in_as_user(console: &Console, attempt: &Attempt, peer: PeerAddress) -> Result<Proved, Response> {
    let Some(cluster) = with_users(console).find(|cluster| cluster.name == attempt.cluster) else {
        let name = &attempt.cluster;
        return Err(
            Failure::not_found(format!("there is no cluster {name:?} here that asks for users")).into_response()
        );
    };
    let user = attempt.user.trim();
    let login = UserLogin { mechanism: &attempt.mechanism, user, password: &attempt.password };
    match console.guard.log_in(&cluster, &login, peer).await {
        Ok(Ok(session)) => Ok((Some(session), format!("/clusters/{}", escape(&cluster.name)))),
        Ok(Err(error)) => {
            tracing::debug!(cluster = cluster.name, user, %error, "a login to the console was refused");
            let status = match error {
                LoginError::Unreachable(_) => StatusCode::BAD_GATEWAY,
                LoginError::Wrong | LoginError::Malformed(_) => StatusCode::FORBIDDEN,
            };
            Err(page(console, status, Some(&cluster), user.to_owned(), Some(error.to_string())))
        }
        Err(too_many) => Err(too_many.into_response()),
    }
}

pub(crate) async fn log_out(State(console): State<Arc<Console>>, headers: HeaderMap) -> Response {
    if let Some(token) = token(&headers) {
        console.sessions.end(token);
    }
    ([(header::SET_COOKIE, cookie(&console, "", 0))], Redirect::to("/login")).into_response()
}

fn cookie(console: &Console, token: &str, seconds: u64) -> String {
    let secure = if console.options.has_tls { " Secure;" } else { "" };
    format!("{COOKIE}={token}; HttpOnly;{secure} SameSite=Strict; Path=/; Max-Age={seconds}")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn passwords_come_in_a_cookie_or_by_basic() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; parshall_console=x1; parshall_console2=y"));
        assert_eq!(token(&headers), Some("x1"));
        // anyone:a:b
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Basic YW55b25lOmE6Yg=="));
        assert_eq!(basic(&headers), Some(("anyone".to_owned(), "a:b".to_owned())));
        assert!(Password::new("a:b").is("a:b") && !Password::new("a:b").is("a:c"));
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Basic ???"));
        assert_eq!(basic(&headers), None);
    }
}
