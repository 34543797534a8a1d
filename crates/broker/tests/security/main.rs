//! Listeners with SASL and TLS over real sockets: who is let in, who is not, and what each is told.

#![allow(clippy::disallowed_methods)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/log.rs"]
mod log;

mod audit;
mod denied;
mod nodes;
mod oauth;
mod quotas;
mod renewal;
mod sasl;
mod tls;

use bytes::{BufMut, BytesMut};
use wire::ErrorCode;
use wire::api::metadata::MetadataRequest;
use wire::api::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use wire::api::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};

use common::{TestBroker, TestClient};

const ALICE: &[u8] = b"\0alice\0alice-secret";

/// A broker with a second listener that speaks SASL without TLS.
fn broker(settings: &[(&str, &str)]) -> TestBroker {
    let secured = [
        ("listeners", "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"),
        ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256"),
        (
            "listener.name.sasl_plaintext.plain.sasl.jaas.config",
            "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"alice-secret\" \
             user_bob=\"bob-secret\";",
        ),
        ("connection.failed.authentication.delay.ms", "1"),
    ];
    TestBroker::start_with(&[&secured[..], settings].concat())
}

fn choose(client: &mut TestClient, version: i16, mechanism: &str) -> SaslHandshakeResponse {
    client.call(version, &SaslHandshakeRequest { mechanism: mechanism.to_owned() })
}

fn authenticate(client: &mut TestClient, token: &[u8]) -> SaslAuthenticateResponse {
    client.call(2, &SaslAuthenticateRequest { auth_bytes: token.to_vec().into() })
}

/// Logs in with PLAIN.
fn log_in(client: &mut TestClient, token: &[u8]) -> SaslAuthenticateResponse {
    assert_eq!(choose(client, 1, "PLAIN").error_code, ErrorCode::NONE);
    authenticate(client, token)
}

fn is_served(client: &mut TestClient) -> bool {
    client.send(12, &MetadataRequest::default());
    client.receive_frame().is_some()
}

/// A token as it is sent after version 0 of SaslHandshake.
fn raw(token: &[u8]) -> BytesMut {
    let mut frame = BytesMut::new();
    frame.put_i32(token.len() as i32);
    frame.extend_from_slice(token);
    frame
}

/// A connection is counted when the broker is done with it, which is a little later than its client.
fn wait_for_closed(broker: &TestBroker, reason: &str, count: f64) {
    let series = format!("parshall_connections_closed_total{{reason=\"{reason}\"}}");
    for _ in 0..1000 {
        if broker.metric(&series) == Some(count) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{series} is {:?}", broker.metric(&series));
}
