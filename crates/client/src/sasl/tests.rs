//! Logging in to a scripted broker at the other end of a pipe in memory.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::duplex;
use tokio::time::sleep;
use wire::api::metadata::MetadataRequest;

use super::*;
use crate::fake_broker::{FakeBroker, PASSWORD, USER};
use crate::{Connection, ConnectionConfig, ConnectionError, Security};

fn jaas(module: &str, username: &str, password: &str) -> String {
    format!("org.apache.kafka.common.security.{module} required username=\"{username}\" password=\"{password}\";")
}

fn plain(password: &str) -> Credentials {
    Credentials::new("PLAIN", &jaas("plain.PlainLoginModule", USER, password), &OAuthConfig::default()).unwrap()
}

fn scram() -> Credentials {
    Credentials::new("SCRAM-SHA-256", &jaas("scram.ScramLoginModule", USER, PASSWORD), &OAuthConfig::default()).unwrap()
}

async fn connect(broker: FakeBroker, credentials: Credentials) -> Result<Connection, ConnectionError> {
    let (ours, theirs) = duplex(64 * 1024);
    tokio::spawn(broker.serve(theirs));
    let security = Security { tls: None, sasl: Some(Arc::new(credentials)) };
    let config = ConnectionConfig { security, ..ConnectionConfig::default() };
    Connection::over(ours, "broker:9092", &config).await
}

fn broker(mechanism: &'static str) -> FakeBroker {
    FakeBroker { mechanisms: vec![mechanism], ..FakeBroker::default() }
}

#[tokio::test]
async fn a_user_is_let_in() {
    for (mechanism, credentials) in [("PLAIN", plain(PASSWORD)), ("SCRAM-SHA-256", scram())] {
        let connection = connect(broker(mechanism), credentials).await.unwrap();
        assert!(connection.send(&MetadataRequest::default()).await.is_ok());
    }
}

#[tokio::test]
async fn a_wrong_password_is_final_and_said_in_the_brokers_words() {
    let error = connect(broker("PLAIN"), plain("x")).await.err().unwrap();
    assert!(!error.is_retriable());
    assert_eq!(
        error.to_string(),
        "broker:9092 does not let alice in with PLAIN: Authentication failed: Invalid username or password"
    );
}

#[tokio::test]
async fn what_the_broker_does_not_take_is_said() {
    let error = connect(broker("SCRAM-SHA-256"), plain(PASSWORD)).await.err().unwrap();
    assert_eq!(error.to_string(), "broker:9092 does not let alice in with PLAIN: it takes SCRAM-SHA-256");
    let error = connect(FakeBroker::default(), plain(PASSWORD)).await.err().unwrap();
    assert_eq!(error.to_string(), "broker:9092 does not let alice in with PLAIN: it does not speak SASL");
}

#[tokio::test]
async fn a_broker_that_does_not_know_the_password_is_not_trusted() {
    let impostor = FakeBroker { is_impostor: true, ..broker("SCRAM-SHA-256") };
    let error = connect(impostor, scram()).await.err().unwrap();
    assert!(matches!(error, ConnectionError::Authentication { .. }), "{error}");
    assert!(error.to_string().ends_with("it cannot prove that it knows the user"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_retires_before_its_session_ends() {
    let short = FakeBroker { session_lifetime_ms: 1000, ..broker("PLAIN") };
    let connection = connect(short, plain(PASSWORD)).await.unwrap();
    sleep(Duration::from_millis(800)).await;
    assert!(connection.is_open());
    sleep(Duration::from_millis(100)).await;
    assert!(!connection.is_open());
    // Who has it may still use it.
    assert!(connection.send(&MetadataRequest::default()).await.is_ok());
}

#[test]
fn module_and_mechanism_belong_together() {
    let none = OAuthConfig::default();
    let reason = |mechanism, config: &str| Credentials::new(mechanism, config, &none).unwrap_err().to_string();
    let config = jaas("plain.PlainLoginModule", "a", "b");
    assert_eq!(
        reason("SCRAM-SHA-512", &config),
        "sasl.jaas.config is for org.apache.kafka.common.security.plain.PlainLoginModule; \
         SCRAM-SHA-512 needs ScramLoginModule"
    );
    assert_eq!(reason("PLAIN", "x.PlainLoginModule required username=a;"), "sasl.jaas.config has no password");
    assert_eq!(
        reason("PLAIN", "x.PlainLoginModule"),
        "sasl.jaas.config has no control flag behind the login module: required"
    );
    let control = jaas("plain.PlainLoginModule", "a", "b\\t");
    assert_eq!(reason("PLAIN", &control), "sasl.jaas.config has a control character in its password");
    let token = "x.ScramLoginModule required username=a password=b tokenauth=true;";
    assert!(reason("SCRAM-SHA-256", token).contains("delegation tokens"));
    for mechanism in ["GSSAPI", "plain"] {
        assert_eq!(
            Credentials::new(mechanism, &config, &OAuthConfig::default()),
            Err(SecurityError::Mechanism { mechanism: mechanism.to_owned() })
        );
    }
}

/// The credentials of a client that gets its tokens there.
fn with_tokens(url: &str) -> Credentials {
    let mut oauth = OAuthConfig::default();
    assert!(oauth.set(TOKEN_URL, url) && oauth.set(CLIENT_ID, "app") && !oauth.set("sasl.jaas.config", "x"));
    let jaas = "x.OAuthBearerLoginModule required clientSecret=\"app-secret\" scope=\"a b\";";
    Credentials::new("OAUTHBEARER", jaas, &oauth).unwrap()
}

fn oauth_broker() -> FakeBroker {
    broker("OAUTHBEARER")
}

async fn connect_shared(credentials: &Arc<Credentials>) -> Result<Connection, ConnectionError> {
    let (ours, theirs) = duplex(64 * 1024);
    tokio::spawn(oauth_broker().serve(theirs));
    let security = Security { tls: None, sasl: Some(Arc::clone(credentials)) };
    Connection::over(ours, "broker:9092", &ConnectionConfig { security, ..ConnectionConfig::default() }).await
}

/// A server that gives these answers, one after the other, and then hangs up. What it was asked last comes with the
/// number of questions.
fn token_server(answers: Vec<String>) -> (String, std::thread::JoinHandle<(usize, String)>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/token", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut request = String::new();
        for answer in &answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut part = [0; 4096];
            request.clear();
            while !request.contains("\r\n\r\n") || request.ends_with("\r\n\r\n") {
                let read = stream.read(&mut part).unwrap();
                request.push_str(str::from_utf8(&part[..read]).unwrap());
            }
            stream.write_all(answer.as_bytes()).unwrap();
        }
        (answers.len(), request)
    });
    (url, server)
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_token_is_asked_for_once_and_used_for_more_than_one_connection() {
    let good = r#"{"access_token":"good","expires_in":300}"#;
    let (url, server) = token_server(vec![answer("200 OK", good)]);
    let credentials = Arc::new(with_tokens(&url));
    for _ in 0..2 {
        let connection = connect_shared(&credentials).await.unwrap();
        assert!(connection.send(&MetadataRequest::default()).await.is_ok());
    }
    let (_, request) = server.join().unwrap();
    assert!(request.contains("authorization: Basic YXBwOmFwcC1zZWNyZXQ=\r\n"), "{request}");
    assert!(request.ends_with("grant_type=client_credentials&scope=a%20b"), "{request}");
}

#[tokio::test]
async fn a_token_without_an_end_is_asked_for_each_time() {
    let good = answer("200 OK", r#"{"access_token":"good"}"#);
    let (url, server) = token_server(vec![good.clone(), good]);
    let credentials = Arc::new(with_tokens(&url));
    for _ in 0..2 {
        assert!(connect_shared(&credentials).await.is_ok());
    }
    assert_eq!(server.join().unwrap().0, 2);
}

#[tokio::test]
async fn without_a_good_token_nobody_is_let_in() {
    for (status, body, reason) in [
        ("401 Unauthorized", r#"{"error":"invalid_client"}"#, "the authorization server answered 401 invalid_client"),
        ("200 OK", "<html>", "what the authorization server answered is no token"),
        ("200 OK", r#"{"access_token":"a\u0001b"}"#, "what the authorization server answered is no token"),
        ("200 OK", r#"{"access_token":"bad"}"#, r#"{"status":"invalid_token"}"#),
    ] {
        let (url, _server) = token_server(vec![answer(status, body)]);
        let error = connect(oauth_broker(), with_tokens(&url)).await.err().unwrap();
        assert!(!error.is_retriable() && error.to_string().contains(reason), "{error}");
        assert!(error.to_string().contains("does not let app in with OAUTHBEARER"), "{error}");
        assert!(!error.to_string().contains("app-secret"));
    }
    let error = connect(oauth_broker(), with_tokens("http://127.0.0.1:1/")).await.err().unwrap();
    assert!(error.is_retriable(), "{error}");
    let (url, _server) = token_server(vec![answer("503 Service Unavailable", "")]);
    let error = connect(oauth_broker(), with_tokens(&url)).await.err().unwrap();
    assert!(error.is_retriable(), "{error}");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
async fn a_token_may_be_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let credentials = Arc::new(with_tokens(&format!("file://{}", path.display())));
    std::fs::write(&path, "bad\n").unwrap();
    assert!(!connect_shared(&credentials).await.err().unwrap().is_retriable());
    std::fs::write(&path, "good\n").unwrap();
    assert!(connect_shared(&credentials).await.is_ok(), "it is read anew");
}

#[test]
fn what_tokens_need_is_said() {
    let reason = |pairs: &[(&str, &str)]| {
        let mut oauth = OAuthConfig::default();
        pairs.iter().for_each(|(name, value)| assert!(oauth.set(name, value)));
        Credentials::new("OAUTHBEARER", "x.OAuthBearerLoginModule required;", &oauth).unwrap_err().to_string()
    };
    let url = (TOKEN_URL, "https://issuer/token");
    assert_eq!(reason(&[]), format!("{TOKEN_URL} is missing; OAUTHBEARER needs it"));
    assert_eq!(reason(&[url]), format!("{CLIENT_ID} is missing; OAUTHBEARER needs it"));
    assert_eq!(reason(&[url, (CLIENT_ID, "a")]), format!("{CLIENT_SECRET} is missing; OAUTHBEARER needs it"));
    assert!(reason(&[(TOKEN_URL, "http://issuer/token")]).starts_with(&format!("{TOKEN_URL} is of http")));
}
