//! What commands print for scripts, where they print something else for people.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

mod common;

use common::{Broker, PARSHALL, signal};
use serde_json::{Value, json};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn json_of(broker: &Broker, args: &[&str]) -> Value {
    parsed(&broker.ok(&[args, &["--json"]].concat()))
}

/// The first line that a process prints which goes on, and the process.
fn first_line(mut command: Command) -> (std::process::Child, Value) {
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (process, parsed(&line))
}

#[test]
fn changes_are_told_one_by_one() {
    let broker = Broker::start();
    assert_eq!(json_of(&broker, &["topic", "create", "t"]), json!({ "topic": "t", "is_created": true }));
    let again = json_of(&broker, &["topic", "create", "t", "--if-not-exists"]);
    assert_eq!(again, json!({ "topic": "t", "is_created": false }));
    let alter = [
        "topic",
        "alter",
        "t",
        "--partitions",
        "2",
        "--config",
        "retention.ms=1000",
        "--delete-config",
        "segment.bytes",
    ];
    let altered = json!({ "topic": "t", "partitions": 2, "set": ["retention.ms"], "deleted": ["segment.bytes"] });
    assert_eq!(json_of(&broker, &alter), altered);
    let alter = ["config", "alter", "broker", "1", "--set", "message.max.bytes=5000"];
    let altered = json!({ "kind": "broker", "name": "1", "set": ["message.max.bytes"], "deleted": [] });
    assert_eq!(json_of(&broker, &alter), altered);

    broker.ok(&["produce", "t", "--value", "a"]);
    broker.ok(&["consume", "t", "--group", "g", "--from-beginning", "--max-messages", "1"]);
    let output = broker.run(&["group", "delete", "g", "nope", "--json"], "");
    assert_eq!(output.status.code(), Some(1));
    let rows = parsed(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(rows[0], json!({ "group": "g", "error": null }));
    assert!(rows[1]["group"] == "nope" && rows[1]["error"].as_str().unwrap().contains("GROUP_ID_NOT_FOUND"), "{rows}");

    let output = broker.run(&["topic", "delete", "t", "nope", "--json"], "");
    assert_eq!(output.status.code(), Some(1));
    let rows = parsed(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(rows[0], json!({ "topic": "t", "is_deleted": true, "error": null }));
    assert!(rows[1]["is_deleted"] == false && rows[1]["error"].as_str().unwrap().contains("does not exist"), "{rows}");
    let rows = json_of(&broker, &["topic", "delete", "nope", "--if-exists"]);
    assert_eq!(rows, json!([{ "topic": "nope", "is_deleted": false, "error": null }]));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file that the test itself has made")]
fn a_plan_of_reassignments_has_a_row_for_each_partition() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "2"]);
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("plan.json");
    let plan = plan.to_str().unwrap();
    std::fs::write(plan, r#"{"partitions":[{"topic":"t","partition":1,"replicas":[1]}]}"#).unwrap();
    let row = json!([{ "topic": "t", "partition": 1, "replicas": [1], "new_replicas": [1], "is_complete": true }]);
    assert_eq!(json_of(&broker, &["partition", "reassign", plan]), row);
    assert_eq!(json_of(&broker, &["partition", "reassign", plan, "--verify"]), row);
    let altered = json_of(&broker, &["partition", "reassign", plan, "--execute"]);
    assert_eq!(altered, json!([{ "topic": "t", "partition": 1, "error": null }]));
    assert_eq!(json_of(&broker, &["partition", "reassign", plan, "--cancel"]), json!([]));

    std::fs::write(plan, r#"{"partitions":[{"topic":"t","partition":0,"replicas":[7]}]}"#).unwrap();
    let output = broker.run(&["partition", "reassign", plan, "--verify", "--json"], "");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(parsed(&String::from_utf8(output.stdout).unwrap())[0]["is_complete"], false);
    let output = broker.run(&["partition", "reassign", plan, "--execute", "--json"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(parsed(&String::from_utf8(output.stdout).unwrap())[0]["error"].is_string());
}

#[test]
fn a_bundle_and_metrics_are_told_to_scripts() {
    let broker = Broker::start_with(&["--console", "127.0.0.1:0"]);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("bundle.tar.gz");
    let told = json_of(&broker, &["debug", "bundle", "--out", out.to_str().unwrap()]);
    assert_eq!(told["archive"], out.to_str().unwrap());
    assert!(told["files"].as_array().unwrap().contains(&"status.json".into()), "{told}");

    let url = format!("http://{}/metrics", broker.console.as_ref().unwrap());
    let (mut process, row) = first_line(broker.command(&["metrics", "--json", "--interval", "100ms", "--url", &url]));
    signal(&process, "-INT");
    process.wait().unwrap();
    assert_eq!((&row["is_up"], &row["under_replicated"]), (&true.into(), &0.0.into()));
    assert!(row["memory_bytes"].as_f64().unwrap() > 0.0, "{row}");
}

#[test]
fn what_is_recovered_is_told_to_scripts() {
    let mut broker = Broker::start();
    broker.ok(&["topic", "create", "kept", "--partitions", "2"]);
    broker.process.kill().unwrap();
    broker.process.wait().unwrap();
    let recover = |args: &[&str]| {
        let mut command = Command::new(PARSHALL);
        command.args(["recover", "--json", "--data-dir"]).arg(broker.data_dir.path()).args(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        parsed(&String::from_utf8(output.stdout).unwrap())
    };
    let whole = json!({
        "damages": [], "action": "nothing", "rebuild": null, "leader": null, "is_recovered": false, "kept_as": null,
    });
    assert_eq!(recover(&["--confirm"]), whole);
    let dir = broker.data_dir.path().join("__cluster_metadata-0");
    Command::new("mv").arg(&dir).arg(broker.data_dir.path().join("elsewhere")).status().unwrap();
    let planned = recover(&["--alone"]);
    assert_eq!((&planned["action"], &planned["is_recovered"]), (&"rebuild".into(), &false.into()));
    assert_eq!(planned["rebuild"]["found_topics"], json!({ "kept": 2 }));
    let done = recover(&["--alone", "--confirm"]);
    assert_eq!((&done["is_recovered"], &done["rebuild"]), (&true.into(), &planned["rebuild"]));
}

#[cfg(feature = "lab")]
mod lab {
    use super::*;

    #[test]
    fn load_has_the_object_of_its_output() {
        let broker = Broker::start();
        broker.ok(&["topic", "create", "t"]);
        let produce = ["perf", "produce", "--topic", "t", "--num-records", "10", "--record-size", "1"];
        assert_eq!(json_of(&broker, &produce)["total"]["records"], 10);
        let consume = ["perf", "consume", "--topic", "t", "--num-records", "10"];
        assert_eq!(json_of(&broker, &consume)["records"], 10);
        let e2e = ["perf", "e2e", "--topic", "t", "--num-records", "10", "--record-size", "1"];
        assert_eq!(json_of(&broker, &e2e)["records"], 10);
        let both = broker.run(&[&produce[..], &["--json", "--output", "csv"]].concat(), "");
        assert_eq!(both.status.code(), Some(2));
    }

    #[test]
    fn suites_and_their_keys_are_objects() {
        let show = |args: &[&str]| {
            let output = Command::new(PARSHALL).args(["lab", "show", "--json"]).args(args).output().unwrap();
            parsed(&String::from_utf8(output.stdout).unwrap())
        };
        assert_eq!(show(&["quick"])["name"], "quick");
        let keys = show(&["--keys"]);
        let partitions = keys.as_array().unwrap().iter().find(|key| key["key"] == "partitions").unwrap();
        assert!(partitions["meaning"].is_string() && partitions["default"].is_string(), "{partitions}");
    }

    #[test]
    fn a_cluster_says_where_its_nodes_are() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(PARSHALL);
        command.args(["cluster", "start", "--nodes", "1", "--port", "0", "--json", "--data-dir"]).arg(dir.path());
        command.env("PARSHALL_LOG", "warn");
        let (mut process, told) = first_line(command);
        let (servers, node) = (&told["bootstrap_servers"], &told["nodes"][0]);
        let list = ["topic", "list", "--bootstrap-server", servers[0].as_str().unwrap_or_default()];
        let listed = Command::new(PARSHALL).args(list).status().unwrap();
        signal(&process, "-TERM");
        assert!(process.wait().unwrap().success() && listed.success());
        assert_eq!((&servers[0], &node["node_id"]), (&node["address"], &1.into()), "{told}");
    }
}
