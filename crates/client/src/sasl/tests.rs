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
    Credentials::new("PLAIN", &jaas("plain.PlainLoginModule", USER, password)).unwrap()
}

fn scram() -> Credentials {
    Credentials::new("SCRAM-SHA-256", &jaas("scram.ScramLoginModule", USER, PASSWORD)).unwrap()
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
    let reason = |mechanism, config: &str| Credentials::new(mechanism, config).unwrap_err().to_string();
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
    for mechanism in ["GSSAPI", "OAUTHBEARER", "plain"] {
        assert_eq!(
            Credentials::new(mechanism, &config),
            Err(SecurityError::Mechanism { mechanism: mechanism.to_owned() })
        );
    }
}
