//! The states of a client that says who it is (`SaslAuthenticatorTest`).

use wire::ErrorCode;
use wire::api::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use wire::api::metadata::MetadataRequest;
use wire::frame;

use super::*;

const INVALID: &str = "Authentication failed: Invalid username or password";

fn versions() -> ApiVersionsRequest {
    ApiVersionsRequest { client_software_name: "a".to_owned(), client_software_version: "1".to_owned() }
}

#[test]
fn a_user_with_the_right_password_is_served() {
    let broker = broker(&[]);
    let mut client = broker.connect_to(1);
    let all: ApiVersionsResponse = client.call(4, &versions());
    assert!(all.api_keys.len() > 40, "all that is served later");
    let chosen = choose(&mut client, 1, "PLAIN");
    assert_eq!((chosen.error_code, chosen.mechanisms), (ErrorCode::NONE, vec!["PLAIN".into(), "SCRAM-SHA-256".into()]));
    let response = authenticate(&mut client, ALICE);
    assert_eq!((response.error_code, response.session_lifetime_ms), (ErrorCode::NONE, 0));
    assert!(is_served(&mut client));
}

#[test]
fn tokens_without_headers_follow_version_0() {
    let broker = broker(&[]);
    let mut client = broker.connect_to(1);
    assert_eq!(choose(&mut client, 0, "PLAIN").error_code, ErrorCode::NONE);
    client.send_bytes(&raw(ALICE));
    assert_eq!(client.receive_frame().as_deref(), Some(&b""[..]), "an empty token");
    assert!(is_served(&mut client));

    let mut client = broker.connect_to(1);
    choose(&mut client, 0, "PLAIN");
    client.send_bytes(&raw(b"\0alice\0wrong"));
    assert!(client.is_closed(), "and is told nothing");
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_told_the_same() {
    let broker = broker(&[]);
    for token in [&b"\0alice\0wrong"[..], b"\0carol\0alice-secret", b"\0alice\0bob-secret"] {
        let mut client = broker.connect_to(1);
        let response = log_in(&mut client, token);
        assert_eq!(response.error_code, ErrorCode::SASL_AUTHENTICATION_FAILED);
        assert_eq!(response.error_message.as_deref(), Some(INVALID));
        assert!(client.is_closed());
    }
    wait_for_closed(&broker, "authentication", 3.0);
}

#[test]
fn nothing_else_is_served_before() {
    let broker = broker(&[]);
    for before in [0, 1, 2] {
        let mut client = broker.connect_to(1);
        if before > 0 {
            client.call(4, &versions());
        }
        if before > 1 {
            choose(&mut client, 1, "PLAIN");
        }
        assert!(!is_served(&mut client), "after {before} requests");
    }
    let mut client = broker.connect_to(1);
    client.call(4, &versions());
    client.send(4, &versions());
    assert!(client.is_closed(), "versions are asked for once");

    let mut client = broker.connect_to(1);
    client.send(2, &SaslAuthenticateRequest { auth_bytes: ALICE.to_vec().into() });
    assert!(client.is_closed(), "no mechanism was chosen");

    let mut client = broker.connect_to(1);
    client.send_bytes(&raw(ALICE));
    assert!(client.is_closed(), "no request at all");
}

#[test]
fn versions_that_are_too_new_may_be_asked_for_again() {
    let broker = broker(&[]);
    let mut client = broker.connect_to(1);
    let mut bytes = BytesMut::new();
    frame::write_request(&mut bytes, 4, 7, "a", &versions());
    bytes[7] = 99;
    client.send_bytes(&bytes);
    let answer = client.receive_frame().expect("it is answered");
    let response = frame::read_response::<ApiVersionsRequest>(&answer, 0).unwrap().1;
    assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_VERSION);
    client.call(3, &versions());
    assert_eq!(log_in(&mut client, ALICE).error_code, ErrorCode::NONE);
}

#[test]
fn a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() {
    let broker = broker(&[]);
    for mechanism in ["SCRAM-SHA-512", "GSSAPI", "plain", ""] {
        let mut client = broker.connect_to(1);
        let response = choose(&mut client, 1, mechanism);
        assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_SASL_MECHANISM);
        assert_eq!(response.mechanisms, ["PLAIN", "SCRAM-SHA-256"]);
        assert!(client.is_closed());
    }
}

#[test]
fn what_is_too_large_is_not_waited_for() {
    let broker = broker(&[("sasl.server.max.receive.size", "2000")]);
    let mut client = broker.connect_to(1);
    let mut frame = BytesMut::new();
    frame.put_i32(2001);
    frame.put_i16(17);
    client.send_bytes(&frame);
    assert!(client.is_closed());

    let mut client = broker.connect_to(1);
    choose(&mut client, 0, "PLAIN");
    client.send_bytes(&2001_i32.to_be_bytes());
    assert!(client.is_closed());

    let mut client = broker.connect_to(1);
    assert_eq!(log_in(&mut client, ALICE).error_code, ErrorCode::NONE);
    let topics = (0..100).map(|_| wire::api::metadata::MetadataRequestTopic {
        name: Some("a-name-of-thirty-characters-or-so".to_owned()),
        ..Default::default()
    });
    client.send(12, &MetadataRequest { topics: Some(topics.collect()), ..Default::default() });
    assert!(client.receive_frame().is_some(), "the limit ends with the login");
}

#[test]
fn a_client_that_is_known_may_not_log_in_again() {
    let broker = broker(&[]);
    for listener in [0, 1] {
        let mut client = broker.connect_to(listener);
        if listener == 1 {
            log_in(&mut client, ALICE);
        }
        let response = choose(&mut client, 1, "PLAIN");
        assert_eq!((response.error_code, response.mechanisms.len()), (ErrorCode::ILLEGAL_SASL_STATE, 0));
        assert_eq!(authenticate(&mut client, ALICE).error_code, ErrorCode::ILLEGAL_SASL_STATE);
        assert!(is_served(&mut client), "the connection stays open");
    }
}

#[test]
fn a_session_that_ends_is_renewed_by_the_same_user_only() {
    let broker = broker(&[("connections.max.reauth.ms", "1500")]);
    let again = |token: &[u8]| {
        let mut client = broker.connect_to(1);
        assert_eq!(log_in(&mut client, ALICE).session_lifetime_ms, 1500);
        let response = log_in(&mut client, token);
        (client, response)
    };
    let (mut client, response) = again(ALICE);
    assert_eq!((response.error_code, response.session_lifetime_ms), (ErrorCode::NONE, 1500));
    assert_eq!(choose(&mut client, 1, "PLAIN").error_code, ErrorCode::ILLEGAL_SASL_STATE, "it is too soon");
    assert!(is_served(&mut client));

    let (mut client, response) = again(b"\0bob\0bob-secret");
    assert_eq!(response.error_code, ErrorCode::SASL_AUTHENTICATION_FAILED);
    assert_eq!(
        response.error_message.as_deref(),
        Some("Cannot change principals during re-authentication from User.alice: User.bob")
    );
    assert!(client.is_closed());

    let mut client = broker.connect_to(1);
    log_in(&mut client, ALICE);
    std::thread::sleep(std::time::Duration::from_millis(1600));
    assert!(!is_served(&mut client), "its time is over");
    wait_for_closed(&broker, "session_expired", 1.0);
}
