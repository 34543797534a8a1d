//! Users and quotas on the command line, against a broker of our own as a process.

mod common;

use common::Broker;
use serde_json::{Value, json};

fn json_of(broker: &Broker, args: &[&str]) -> Value {
    serde_json::from_str(&broker.ok(&[args, &["--json"]].concat())).expect("it prints JSON")
}

#[test]
fn users_are_made_shown_and_deleted() {
    let broker = Broker::start();
    assert_eq!(broker.ok(&["user", "list"]), "USER  MECHANISM      ITERATIONS\n");
    let create = ["user", "create", "alice"];
    assert_eq!(broker.ok_with(&create, "secret\n"), "Set the password of user alice with SCRAM-SHA-512.\n");
    assert!(broker.fails(&create, "other\n").contains("--replace"));
    let file = tempfile::NamedTempFile::new().expect("a file is made");
    std::io::Write::write_all(&mut file.as_file(), b"other\n").expect("it is written");
    let path = file.path().to_str().expect("its name is text");
    broker.ok(&[&create[..], &["--replace", "--password-file", path]].concat());
    let sha_256 = ["user", "create", "alice", "--mechanism", "scram-sha-256", "--iterations", "5000"];
    broker.ok_with(&sha_256, "secret");
    let list = "USER   MECHANISM      ITERATIONS\nalice  SCRAM-SHA-256        5000\nalice  SCRAM-SHA-512        4096\n";
    assert_eq!(broker.ok(&["user", "list"]), list);
    let credential = |mechanism: &str, iterations: u32| json!({ "mechanism": mechanism, "iterations": iterations });
    let credentials = [credential("SCRAM-SHA-256", 5000), credential("SCRAM-SHA-512", 4096)];
    assert_eq!(json_of(&broker, &["user", "list"]), json!([{ "user": "alice", "credentials": credentials }]));

    let only = ["user", "delete", "alice", "--mechanism", "SCRAM-SHA-512"];
    assert_eq!(broker.ok(&only), "Deleted the password of user alice with SCRAM-SHA-512.\n");
    assert!(broker.fails(&only, "").contains("RESOURCE_NOT_FOUND"));
    let text = broker.fails(&["user", "delete", "bob", "alice"], "");
    assert!(text.contains("user bob") && text.contains("RESOURCE_NOT_FOUND"), "{text}");
    assert_eq!(json_of(&broker, &["user", "list"]), json!([]));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "looks into the files of the broker that the test itself has started")]
fn a_password_is_nowhere_to_be_seen() {
    let broker = Broker::start();
    let output = broker.run(&["user", "create", "alice"], "\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("may not be empty"));
    assert!(broker.fails(&["user", "create", "alice", "--password-file", "no-such-file"], "").contains("no-such-file"));
    broker.ok_with(&["user", "create", "alice"], "a-canary");
    let log = broker.data_dir.path().join("__cluster_metadata-0");
    let files = std::fs::read_dir(&log).expect("the metadata has a directory");
    let with_user: Vec<_> = files
        .map(|file| std::fs::read(file.expect("it is listed").path()).expect("it can be read"))
        .filter(|bytes| bytes.windows(5).any(|part| part == b"alice"))
        .collect();
    assert!(!with_user.is_empty(), "the user is in the metadata log");
    assert!(with_user.iter().all(|bytes| !bytes.windows(8).any(|part| part == b"a-canary")));
    let dump = broker.ok(&["dump", log.to_str().expect("its name is text"), "--print-data"]);
    assert!(dump.contains("alice") && dump.contains("stored_key: [hidden]"), "{dump}");
}

#[test]
fn a_new_cluster_begins_with_its_first_users_and_no_other_does() {
    let mut file = tempfile::NamedTempFile::new().expect("a file is made");
    let users = "SCRAM-SHA-512=[name=alice,password=a-canary]\nSCRAM-SHA-256=[name=alice,password=a-canary]\n";
    std::io::Write::write_all(&mut file, users.as_bytes()).expect("it is written");
    let flag = format!("@{}", file.path().display());
    let flags = ["--console", "off", "--add-scram", &flag];
    let restarted = |mut broker: Broker| {
        broker.process.kill().expect("it can be killed");
        broker.process.wait().expect("it ends");
        let data_dir = std::mem::replace(&mut broker.data_dir, tempfile::tempdir().expect("a directory is made"));
        Broker::start_in(data_dir, &flags)
    };
    let broker = Broker::start_with(&flags);
    let list = "USER   MECHANISM      ITERATIONS\nalice  SCRAM-SHA-256        4096\nalice  SCRAM-SHA-512        4096\n";
    assert_eq!(broker.ok(&["user", "list"]), list);
    broker.ok(&["user", "delete", "alice"]);
    let broker = restarted(broker);
    assert_eq!(broker.ok(&["user", "list"]).lines().count(), 1, "whoever is deleted stays so");
    // One that began without any.
    let broker = restarted(Broker::start());
    assert_eq!(broker.ok(&["user", "list"]).lines().count(), 1);
}

#[test]
fn quotas_are_set_shown_and_removed() {
    let broker = Broker::start();
    let set = ["quota", "set", "--user", "alice", "producer_byte_rate=1048576", "request_percentage=0.5"];
    assert_eq!(broker.ok(&set), "Set quotas of user \"alice\".\n");
    broker.ok(&["quota", "set", "--user", "alice", "--client-id-defaults", "consumer_byte_rate=7"]);
    broker.ok(&["quota", "set", "--ip-defaults", "connection_creation_rate=20"]);
    let all = "ENTITY                           QUOTAS\n\
               user \"alice\", default client-id  consumer_byte_rate=7\n\
               default ip                       connection_creation_rate=20\n\
               user \"alice\"                     producer_byte_rate=1048576 request_percentage=0.5\n";
    assert_eq!(broker.ok(&["quota", "list"]), all);
    let of_ips = json!([{ "entity": { "ip": null }, "quotas": { "connection_creation_rate": 20.0 } }]);
    assert_eq!(json_of(&broker, &["quota", "list", "--ip-defaults"]), of_ips);

    assert!(broker.fails(&["quota", "set", "--user", "alice", "x=1"], "").contains("Invalid configuration key x"));
    assert!(broker.fails(&["quota", "set", "--ip", "nowhere", "connection_creation_rate=1"], "").contains("nowhere"));
    let output = broker.run(&["quota", "set", "request_percentage=1"], "");
    assert_eq!(output.status.code(), Some(2));
    broker.ok(&["quota", "remove", "--user", "alice", "producer_byte_rate"]);
    let removed = json!({ "entity": { "user": "alice" }, "removed": ["request_percentage"] });
    assert_eq!(json_of(&broker, &["quota", "remove", "--user", "alice", "--all"]), removed);
    assert_eq!(broker.ok(&["quota", "list", "--user", "alice"]).lines().count(), 2, "that of the client id stays");
}
