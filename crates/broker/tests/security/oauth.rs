//! Clients that show a token of OAUTHBEARER: who is let in and for how long, and what the others are told
//! (`OAuthBearerSaslServerTest`).

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Sender, channel};
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const INVALID_TOKEN: &[u8] = br#"{"status":"invalid_token"}"#;

/// Who signs tokens.
struct Issuer {
    key: Ed25519KeyPair,
    dir: TempDir,
}

impl Issuer {
    fn new() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let issuer = Self { key: Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap(), dir: TempDir::new().unwrap() };
        std::fs::write(issuer.dir.path().join("keys.json"), issuer.keys()).unwrap();
        issuer
    }

    fn keys(&self) -> String {
        let x = URL_SAFE_NO_PAD.encode(self.key.public_key().as_ref());
        json!({"keys": [{"kty": "OKP", "kid": "a", "crv": "Ed25519", "x": x}]}).to_string()
    }

    fn url(&self) -> String {
        format!("file://{}/keys.json", self.dir.path().display())
    }

    /// What a client with a token of these claims says first; others are as they should be.
    fn message(&self, claims: Value) -> Vec<u8> {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let mut all = json!({"iss": "issuer", "aud": "kafka", "sub": "alice", "iat": now - 60, "exp": now + 600});
        for (name, value) in claims.as_object().unwrap() {
            all[name] = value.clone();
        }
        let signed = [json!({"alg": "EdDSA", "kid": "a"}), all];
        let signed = signed.map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes()));
        format!("n,,\x01auth=Bearer {signed}.{signature}\x01\x01").into_bytes()
    }
}

/// Seconds since 1970 that are so many away from now.
fn seconds_from_now(seconds: i64) -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64 + seconds
}

fn broker_with(url: &str, settings: &[(&str, &str)]) -> TestBroker {
    let oauth = [
        ("sasl.enabled.mechanisms", "OAUTHBEARER"),
        ("sasl.oauthbearer.jwks.endpoint.url", url),
        ("sasl.oauthbearer.expected.issuer", "issuer"),
        ("sasl.oauthbearer.expected.audience", "kafka"),
    ];
    broker(&[&oauth[..], settings].concat())
}

/// Shows a token.
fn show(client: &mut TestClient, message: &[u8]) -> SaslAuthenticateResponse {
    assert_eq!(choose(client, 1, "OAUTHBEARER").error_code, ErrorCode::NONE);
    authenticate(client, message)
}

#[test]
fn a_good_token_lets_in_until_it_ends_or_the_session_does() {
    let issuer = Issuer::new();
    for (max_reauth_ms, lifetimes) in [("0", 570_000..=600_000), ("5000", 5000..=5000)] {
        let broker = broker_with(&issuer.url(), &[("connections.max.reauth.ms", max_reauth_ms)]);
        let mut client = broker.connect_to(1);
        let response = show(&mut client, &issuer.message(json!({})));
        assert_eq!((response.error_code, &response.auth_bytes[..]), (ErrorCode::NONE, &b""[..]));
        assert!(lifetimes.contains(&response.session_lifetime_ms), "{}", response.session_lifetime_ms);
        assert!(is_served(&mut client));
    }
}

#[test]
fn a_bad_token_is_told_so_in_two_steps() {
    let issuer = Issuer::new();
    let broker = broker_with(&issuer.url(), &[]);
    let stranger = Issuer::new().message(json!({}));
    let bad = [stranger, issuer.message(json!({"aud": "others"})), issuer.message(json!({"exp": 1_700_000_000}))];
    for message in &bad {
        let mut client = broker.connect_to(1);
        let response = show(&mut client, message);
        assert_eq!((response.error_code, &response.auth_bytes[..]), (ErrorCode::NONE, INVALID_TOKEN));
        let response = authenticate(&mut client, b"\x01");
        assert_eq!(response.error_code, ErrorCode::SASL_AUTHENTICATION_FAILED);
        assert_eq!(response.error_message.as_deref(), Some(r#"{"status":"invalid_token"}"#));
        assert!(client.is_closed());
    }
    // Not even a good one is taken behind it.
    let mut client = broker.connect_to(1);
    show(&mut client, &bad[0]);
    let response = authenticate(&mut client, &issuer.message(json!({})));
    assert_eq!(response.error_code, ErrorCode::SASL_AUTHENTICATION_FAILED);
    // And nothing else is served.
    let mut client = broker.connect_to(1);
    show(&mut client, &bad[0]);
    assert!(!is_served(&mut client));
    wait_for_closed(&broker, "authentication", 4.0);
}

#[test]
fn tokens_may_come_without_headers() {
    let issuer = Issuer::new();
    let broker = broker_with(&issuer.url(), &[]);
    let mut client = broker.connect_to(1);
    choose(&mut client, 0, "OAUTHBEARER");
    client.send_bytes(&raw(&issuer.message(json!({}))));
    assert_eq!(client.receive_frame().as_deref(), Some(&b""[..]));
    assert!(is_served(&mut client));

    let mut client = broker.connect_to(1);
    choose(&mut client, 0, "OAUTHBEARER");
    client.send_bytes(&raw(&issuer.message(json!({"iss": "another"}))));
    assert_eq!(client.receive_frame().as_deref(), Some(INVALID_TOKEN));
    client.send_bytes(&raw(b"\x01"));
    assert!(client.is_closed());
}

#[test]
fn what_is_no_message_and_who_acts_as_another_are_refused_at_once() {
    let issuer = Issuer::new();
    let broker = broker_with(&issuer.url(), &[]);
    let text = |message: &[u8]| {
        let response = show(&mut broker.connect_to(1), message);
        assert_eq!(response.error_code, ErrorCode::SASL_AUTHENTICATION_FAILED);
        response.error_message.unwrap()
    };
    for message in [&b""[..], b"\x01", b"\0alice\0alice-secret"] {
        assert_eq!(
            text(message),
            "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
        );
    }
    let message = issuer.message(json!({}));
    let as_bob = [b"n,a=bob,", &message[3..]].concat();
    assert_eq!(
        text(&as_bob),
        "Authentication failed: Client requested an authorization id (bob) that is different from the token's principal \
         name (alice)"
    );
    let as_alice = [b"n,a=alice,", &message[3..]].concat();
    assert_eq!(show(&mut broker.connect_to(1), &as_alice).error_code, ErrorCode::NONE);
}

#[test]
fn a_session_ends_with_its_token_unless_the_same_user_shows_another() {
    let issuer = Issuer::new();
    let broker = broker_with(&issuer.url(), &[]);
    // It is over, but for the clocks, which may differ.
    let ended = issuer.message(json!({"exp": seconds_from_now(-5)}));
    let known = || {
        let mut client = broker.connect_to(1);
        let response = show(&mut client, &ended);
        assert_eq!((response.error_code, response.session_lifetime_ms), (ErrorCode::NONE, 0));
        client
    };
    assert!(!is_served(&mut known()));
    wait_for_closed(&broker, "session_expired", 1.0);

    let mut client = known();
    assert!(show(&mut client, &issuer.message(json!({}))).session_lifetime_ms > 0);
    assert!(is_served(&mut client));

    let mut client = known();
    let response = show(&mut client, &issuer.message(json!({"sub": "bob"})));
    assert_eq!(
        response.error_message.as_deref(),
        Some("Cannot change principals during re-authentication from User.alice: User.bob")
    );
    assert!(client.is_closed());
}

/// A server that answers each request when it is told to, with the keys.
fn endpoint(keys: String) -> (String, Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let (release, released) = channel();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let (mut request, mut part) = (Vec::new(), [0; 4096]);
            while !request.ends_with(b"\r\n\r\n") {
                let read = stream.read(&mut part).unwrap();
                request.extend_from_slice(&part[..read]);
            }
            if released.recv().is_err() {
                return;
            }
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{keys}", keys.len()).unwrap();
        }
    });
    (url, release)
}

#[test]
fn a_token_waits_for_its_key_and_keeps_nobody_else_waiting() {
    let issuer = Issuer::new();
    let (url, release) = endpoint(issuer.keys());
    let broker = broker_with(&url, &[]);
    let mut waiting: Vec<_> = (0..8).map(|_| broker.connect_to(1)).collect();
    for client in &mut waiting {
        assert_eq!(choose(client, 1, "OAUTHBEARER").error_code, ErrorCode::NONE);
        client.send(2, &SaslAuthenticateRequest { auth_bytes: issuer.message(json!({})).into() });
    }
    assert!(is_served(&mut broker.connect()), "more wait than there are threads");
    release.send(()).unwrap();
    for client in &mut waiting {
        let response = client.receive::<SaslAuthenticateRequest>(2);
        assert_eq!((response.error_code, &response.auth_bytes[..]), (ErrorCode::NONE, &b""[..]));
        assert!(is_served(client));
    }
}

#[test]
fn a_broker_starts_without_keys_and_takes_no_token_meanwhile() {
    let issuer = Issuer::new();
    for url in ["http://127.0.0.1:1/keys", "file:///no/such/keys.json"] {
        let broker = broker_with(url, &[]);
        let response = show(&mut broker.connect_to(1), &issuer.message(json!({})));
        assert_eq!((response.error_code, &response.auth_bytes[..]), (ErrorCode::NONE, INVALID_TOKEN), "{url}");
    }
}
