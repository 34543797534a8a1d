//! A mistake of the program that a request meets: what becomes of the request, its connection, and everybody else.

#![allow(clippy::disallowed_methods)]

mod common;
#[path = "common/log.rs"]
mod log;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{TestBroker, TestClient};
use log::Log;
use platform::{Env, Random};
use tracing::Level;
use wire::ErrorCode;
use wire::api::api_versions::ApiVersionsRequest;
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};

/// Randomness that has an end.
struct Mistaken {
    random: Arc<dyn Random>,
    panics: Arc<AtomicBool>,
}

impl Random for Mistaken {
    fn bytes(&self) -> [u8; 16] {
        assert!(!self.panics.load(Ordering::Relaxed), "no luck");
        self.random.bytes()
    }
}

/// A member that is new needs an id, which is random.
fn join(client: &mut TestClient) {
    let protocol = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    let request = JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..Default::default()
    };
    client.send(5, &request);
}

#[test]
fn a_panic_in_a_request_is_one_line_a_metric_and_the_end_of_its_connection() {
    let errors = Log::capture(Level::ERROR, "");
    platform::panics::count_and_log();
    let panics = Arc::<AtomicBool>::default();
    let real = Env::real();
    let random = Arc::new(Mistaken { random: Arc::clone(&real.random), panics: Arc::clone(&panics) });
    let broker = TestBroker::start_in(Env { random, ..real }, &[]);
    let (mut other, mut client) = (broker.connect(), broker.connect());
    let find = FindCoordinatorRequest { coordinator_keys: vec!["g".into()], ..Default::default() };
    while !client.ask(&find).coordinators[0].error_code.is_none() {}
    let mut joined = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS;
    while joined == ErrorCode::COORDINATOR_LOAD_IN_PROGRESS {
        join(&mut client);
        joined = client.receive::<JoinGroupRequest>(5).error_code;
    }
    assert_eq!(joined, ErrorCode::MEMBER_ID_REQUIRED);

    panics.store(true, Ordering::Relaxed);
    join(&mut client);
    assert!(client.is_closed());
    panics.store(false, Ordering::Relaxed);

    other.ask(&ApiVersionsRequest::default());
    join(&mut other);
    assert_eq!(other.receive::<JoinGroupRequest>(5).error_code, ErrorCode::MEMBER_ID_REQUIRED, "the group goes on");
    assert_eq!(broker.metric("parshall_panics_total"), Some(1.0));
    let closed = || broker.metric(r#"parshall_connections_closed_total{reason="panicked"}"#);
    for _ in 0..1000 {
        if closed() == Some(1.0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(closed(), Some(1.0));
    let lines = errors.lines();
    assert!(lines.len() == 1 && lines[0].contains("no luck at") && lines[0].contains("panics.rs"), "{lines:?}");
}
