//! Certificates that are renewed while a listener serves (`DynamicBrokerReconfigurationTest`).

use std::path::PathBuf;

use client::Connection;
use tempfile::TempDir;
use wire::api::incremental_alter_configs::{AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest};

use super::tls::{Authority, Signed, connect_to, wait};
use super::*;

const RENEWALS: &str = "parshall_certificate_renewals_total{listener=\"SSL\"}";
const REFUSALS: &str = "parshall_certificate_refusals_total{listener=\"SSL\"}";
const BROKER: i8 = 4;

/// A file with a key and a certificate.
struct Keystore {
    _dir: TempDir,
    path: PathBuf,
}

impl Keystore {
    fn new(signed: &Signed) -> Self {
        let dir = TempDir::new().unwrap();
        let keystore = Self { path: dir.path().join("broker.pem"), _dir: dir };
        keystore.write(signed);
        keystore
    }

    fn write(&self, Signed { certificate, key }: &Signed) {
        std::fs::write(&self.path, format!("{key}{certificate}")).unwrap();
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    fn broker(&self, settings: &[(&str, &str)]) -> TestBroker {
        let tls = [("listeners", "SSL://127.0.0.1:0"), ("ssl.keystore.location", self.path())];
        TestBroker::start_with(&[&tls[..], settings].concat())
    }
}

fn of_broker(authority: &Authority) -> Signed {
    authority.sign_for("broker", &["127.0.0.1"])
}

/// Whether the broker shows what this authority has signed.
fn shows_one_of(broker: &TestBroker, authority: &Authority) -> bool {
    wait(async { connect_to(broker.address(), authority, None).await.is_ok() })
}

#[test]
fn a_new_certificate_is_shown_to_new_connections_and_old_ones_go_on() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let keystore = Keystore::new(&of_broker(&old));
    let broker = keystore.broker(&[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connection: Connection = runtime.block_on(connect_to(broker.address(), &old, None)).unwrap();

    keystore.write(&of_broker(&new));
    assert!(shows_one_of(&broker, &old), "nobody has looked yet");
    broker.renew_certificates();
    assert!(shows_one_of(&broker, &new) && !shows_one_of(&broker, &old));
    assert!(runtime.block_on(connection.send(&MetadataRequest::default())).is_ok());
    assert_eq!((broker.metric(RENEWALS), broker.metric(REFUSALS)), (Some(1.0), Some(0.0)));
    // rcgen's certificates are good for more than a thousand years.
    let expiry = broker.metric("parshall_certificate_expiry_seconds{listener=\"SSL\"}");
    assert!(expiry.is_some_and(|seconds| seconds > 1e10), "{expiry:?}");

    broker.renew_certificates();
    assert_eq!(broker.metric(RENEWALS), Some(1.0), "there is nothing new");
}

#[test]
fn what_is_not_good_changes_nothing() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let keystore = Keystore::new(&of_broker(&old));
    let broker = keystore.broker(&[]);
    let (one, other) = (of_broker(&new), of_broker(&new));
    let mixed = Signed { certificate: one.certificate, key: other.key };
    let elsewhere = new.sign_for("broker", &[]);
    let renamed = new.sign_for("brother", &["127.0.0.1", "broker"]);
    let empty = Signed { certificate: String::new(), key: String::new() };
    for (refusals, bad) in (1..).zip([mixed, elsewhere, renamed, empty]) {
        keystore.write(&bad);
        for _ in 0..2 {
            broker.renew_certificates();
            assert!(shows_one_of(&broker, &old));
            assert_eq!(broker.metric(REFUSALS), Some(f64::from(refusals)), "counted once");
        }
    }
    std::fs::remove_file(&keystore.path).unwrap();
    broker.renew_certificates();
    assert!(shows_one_of(&broker, &old));
    keystore.write(&of_broker(&new));
    broker.renew_certificates();
    assert!(shows_one_of(&broker, &new));
}

#[test]
fn other_names_may_be_allowed() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let keystore = Keystore::new(&old.sign_for("broker", &["127.0.0.1", "elsewhere"]));
    let broker = keystore.broker(&[("ssl.allow.dn.changes", "true"), ("ssl.allow.san.changes", "true")]);
    keystore.write(&new.sign_for("brother", &["127.0.0.1"]));
    broker.renew_certificates();
    assert!(shows_one_of(&broker, &new));
}

/// Sets the location of the keystore of a listener. The answer's code.
fn set_location(broker: &TestBroker, authority: &Authority, location: &str, validate_only: bool) -> ErrorCode {
    let config = AlterableConfig {
        name: "listener.name.ssl.ssl.keystore.location".to_owned(),
        config_operation: 0,
        value: Some(location.to_owned()),
    };
    let resource = AlterConfigsResource { resource_type: BROKER, resource_name: "1".to_owned(), configs: vec![config] };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only };
    wait(async {
        let connection = connect_to(broker.address(), authority, None).await.unwrap();
        connection.send(&request).await.unwrap().responses[0].error_code
    })
}

#[test]
fn setting_the_same_location_reads_the_file_at_once() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let keystore = Keystore::new(&of_broker(&old));
    let broker = keystore.broker(&[]);
    let other = Keystore::new(&of_broker(&new));
    let set = |location: &str, validate_only| set_location(&broker, &old, location, validate_only);
    assert_eq!(set(other.path(), false), ErrorCode::INVALID_CONFIG, "no other file");
    assert_eq!(set(keystore.path(), false), ErrorCode::NONE);

    keystore.write(&Signed { certificate: of_broker(&new).certificate, key: of_broker(&new).key });
    assert_eq!(set(keystore.path(), false), ErrorCode::INVALID_CONFIG);
    keystore.write(&of_broker(&new));
    assert_eq!(set(keystore.path(), true), ErrorCode::NONE);
    assert!(shows_one_of(&broker, &old), "it was only asked whether it would do");
    assert_eq!(set(keystore.path(), false), ErrorCode::NONE);
    assert!(shows_one_of(&broker, &new));
}

#[test]
fn who_may_not_alter_configs_has_no_file_read() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let keystore = Keystore::new(&of_broker(&old));
    let broker = keystore.broker(&[
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:admin"),
    ]);
    keystore.write(&of_broker(&new));
    let denied = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    assert_eq!(set_location(&broker, &old, keystore.path(), false), denied);
    assert_eq!(set_location(&broker, &old, "/etc/shadow", false), denied);
    assert!(shows_one_of(&broker, &old));
}
