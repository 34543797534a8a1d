//! Other servers that the console asks over HTTP: the REST of Kafka Connect, and a schema registry.
//!
//! Every call has a deadline and a size that its answer may have. Calls hold up a thread each, of which a server that
//! does not answer gets a few and no more. What is in a URL before its host is sent and never shown.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, Request, StatusCode, Uri, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use ureq::Agent;

/// Calls of one server that are under way at a time.
const CALLS_MAX: usize = 4;
/// Of what a server says of itself, which is shown.
const REASON_CHARS_MAX: usize = 500;

/// Where a server is, and what it is told of who asks: `http://[USER:PASSWORD@]HOST:PORT[/PATH]`.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpUrl {
    host: String,
    /// Without what is before the host, and without a slash at the end.
    address: String,
    authorization: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpUrlError {
    #[error("it is a URL, as http://HOST:PORT")]
    Malformed,
    #[error("only http:// is spoken here: put a proxy or a tunnel in front of a server with TLS")]
    Https,
}

impl FromStr for HttpUrl {
    type Err = HttpUrlError;

    fn from_str(text: &str) -> Result<Self, HttpUrlError> {
        let uri: Uri = text.trim().parse().map_err(|_| HttpUrlError::Malformed)?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(HttpUrlError::Https),
            _ => return Err(HttpUrlError::Malformed),
        }
        let authority = uri.authority().ok_or(HttpUrlError::Malformed)?.as_str();
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        if uri.host().is_none_or(str::is_empty) {
            return Err(HttpUrlError::Malformed);
        }
        Ok(Self {
            host: uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned(),
            address: format!("{place}{}", uri.path().trim_end_matches('/')),
            authorization: user.map(|user| format!("Basic {}", STANDARD.encode(unescaped(user)))),
        })
    }
}

/// What percent signs stand for.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        let escaped = rest.get(1..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.filter(|_| *byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &rest[3..];
            }
            None => {
                bytes.push(*byte);
                rest = behind;
            }
        }
    }
    bytes
}

/// As it may be shown.
impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl HttpUrl {
    pub fn host(&self) -> &str {
        &self.host
    }
}

/// How long a call may take, and how large its answer may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub deadline: Duration,
    pub size_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("it has not answered within {} s", .0.as_secs())]
    Deadline(Duration),
    #[error("its answer has more than {} MiB", .0 >> 20)]
    TooLarge(u64),
    #[error("{0}")]
    Unreachable(String),
}

#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub status: StatusCode,
    pub body: Vec<u8>,
}

/// A server that is asked.
#[derive(Debug)]
pub(crate) struct HttpSource {
    pub url: HttpUrl,
    agent: Agent,
    places: Arc<Semaphore>,
}

impl HttpSource {
    pub(crate) fn new(url: HttpUrl) -> Self {
        // What is said before the host is for that host and no other.
        let config =
            Agent::config_builder().http_status_as_error(false).max_redirects(0).max_redirects_will_error(false);
        Self { url, agent: config.build().new_agent(), places: Arc::new(Semaphore::new(CALLS_MAX)) }
    }

    /// With a body of JSON, if there is one.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        bounds: Bounds,
    ) -> Result<HttpAnswer, HttpError> {
        let late = || HttpError::Deadline(bounds.deadline);
        let until = Instant::now() + bounds.deadline;
        let places = Arc::clone(&self.places);
        let place = timeout_at(until, places.acquire_owned()).await.map_err(|_| late())?;
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.url.address));
        request = request.header(header::ACCEPT, "*/*").header(header::USER_AGENT, "parshall-console");
        if let Some(authorization) = &self.url.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let agent = self.agent.clone();
        let answer = tokio::task::spawn_blocking(move || {
            let _place = place;
            send(&agent, request, body, Bounds { deadline: until.duration_since(Instant::now()), ..bounds })
        });
        match timeout_at(until, answer).await {
            Ok(Ok(Err(ureq::Error::BodyExceedsLimit(limit)))) => Err(HttpError::TooLarge(limit)),
            Ok(Ok(Err(ureq::Error::Timeout(_)))) | Err(_) => Err(late()),
            Ok(Ok(Err(error))) => Err(HttpError::Unreachable(reason(&error))),
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Err(error)) => Err(HttpError::Unreachable(error.to_string())),
        }
    }
}

/// It holds up the thread.
fn send(
    agent: &Agent,
    request: axum::http::request::Builder,
    body: Option<Vec<u8>>,
    bounds: Bounds,
) -> Result<HttpAnswer, ureq::Error> {
    let deadline = Some(bounds.deadline);
    let response = match body {
        Some(body) => {
            let request = request.header(header::CONTENT_TYPE, "application/json").body(body)?;
            agent.run(agent.configure_request(request).timeout_global(deadline).build())
        }
        None => agent.run(agent.configure_request(request.body(())?).timeout_global(deadline).build()),
    };
    let (parts, mut body) = response?.into_parts();
    let body = body.with_config().limit(bounds.size_bytes).read_to_vec()?;
    Ok(HttpAnswer { status: parts.status, body })
}

fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "nobody listens there".to_owned(),
            _ => error.to_string(),
        },
        error => error.to_string(),
    }
}

/// What a server says, as far as it is shown.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(REASON_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    const BOUNDS: Bounds = Bounds { deadline: Duration::from_millis(500), size_bytes: 1 << 20 };

    #[test]
    fn what_is_before_the_host_is_not_shown() {
        let url: HttpUrl = "http://me:p%40ss@connect:8083/rest/".parse().unwrap();
        assert_eq!((url.to_string(), format!("{url:?}")), ("connect:8083/rest".into(), "connect:8083/rest".into()));
        assert_eq!(url.authorization, Some(format!("Basic {}", STANDARD.encode("me:p@ss"))));
        assert_eq!(url.host(), "connect");
        let parsed = |text: &str| text.parse::<HttpUrl>().map(|url| url.address);
        assert_eq!(parsed("http://[::1]:8083"), Ok("[::1]:8083".to_owned()));
        assert_eq!(parsed("https://connect:8083"), Err(HttpUrlError::Https));
        for text in ["connect:8083", "http://", "ftp://a", "http:///x", ""] {
            assert_eq!(parsed(text), Err(HttpUrlError::Malformed), "{text}");
        }
        assert_eq!(unescaped("a%2Fb%zz%2"), b"a/b%zz%2");
    }

    /// A server that answers one call in this way.
    fn server(answer: impl FnOnce(std::net::TcpStream, String) + Send + 'static) -> HttpSource {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://me:secret@{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut request, mut part) = (String::new(), [0; 4096]);
            // A body may come after its head.
            while !request.contains("\r\n\r\n") || request.starts_with("PUT") && request.ends_with("\r\n\r\n") {
                let read = stream.read(&mut part).unwrap();
                request.push_str(str::from_utf8(&part[..read]).unwrap());
            }
            answer(stream, request);
        });
        HttpSource::new(url.parse().unwrap())
    }

    #[tokio::test]
    async fn an_answer_has_its_status_whatever_it_is() {
        let source = server(|mut stream, request| {
            assert!(request.starts_with("PUT /a%20b HTTP/1.1\r\n"), "{request}");
            assert!(request.contains(&STANDARD.encode("me:secret")) && request.ends_with("{}"), "{request}");
            stream.write_all(b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno").unwrap();
        });
        let answer = source.call(Method::PUT, "/a%20b", Some(b"{}".to_vec()), BOUNDS).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (StatusCode::CONFLICT, &b"no"[..]));
    }

    #[tokio::test]
    async fn who_sends_elsewhere_is_not_followed() {
        let source = server(|mut stream, _| {
            stream.write_all(b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n").unwrap();
        });
        assert_eq!(source.call(Method::GET, "/", None, BOUNDS).await.unwrap().status, StatusCode::TEMPORARY_REDIRECT);
    }

    #[tokio::test]
    async fn what_is_late_or_too_large_is_an_error() {
        let silent = server(|stream, _| {
            std::thread::sleep(Duration::from_secs(5));
            drop(stream);
        });
        let silent = silent.call(Method::GET, "/", None, BOUNDS).await;
        assert_eq!(silent.unwrap_err(), HttpError::Deadline(BOUNDS.deadline));
        let endless = server(|mut stream, _| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            while stream.write_all(&[b' '; 65_536]).is_ok() {}
        });
        let bounds = Bounds { deadline: Duration::from_secs(30), ..BOUNDS };
        assert_eq!(endless.call(Method::GET, "/", None, bounds).await.unwrap_err(), HttpError::TooLarge(1 << 20));
        let nobody = HttpSource::new("http://127.0.0.1:1".parse().unwrap());
        let nobody = nobody.call(Method::GET, "/", None, BOUNDS).await.unwrap_err();
        assert_eq!(nobody.to_string(), "nobody listens there");
    }
}
