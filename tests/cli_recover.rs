//! A node alone whose metadata is gone: it does not start, says how to go on, and goes on with all records and groups.

mod common;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use common::{Broker, PARSHALL};

fn recover(broker: &Broker, args: &[&str]) -> Output {
    Command::new(PARSHALL).args(["recover", "--data-dir"]).arg(broker.data_dir.path()).args(args).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// What the broker says that does not start.
fn refusal(broker: &Broker) -> String {
    let mut serve = Command::new(PARSHALL);
    serve.args(["serve", "--console", "off", "--listen", "127.0.0.1:0", "--data-dir"]).arg(broker.data_dir.path());
    serve.env("PARSHALL_LOG", "error").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = serve.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if !line.is_empty() {
        process.kill().unwrap();
    }
    let output = process.wait_with_output().unwrap();
    assert_eq!(line, "", "it starts");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    text(&output)
}

#[test]
fn a_lost_metadata_log_costs_a_message_and_no_records() {
    let mut broker = Broker::start();
    broker.ok(&["topic", "create", "kept", "--partitions", "2"]);
    broker.ok_with(&["produce", "kept"], "one\ntwo\nthree\n");
    let consume = ["consume", "kept", "--group", "readers", "--from-beginning", "--until-end"];
    assert_eq!(broker.ok(&consume).lines().count(), 3);

    let while_it_runs = recover(&broker, &["--confirm"]);
    assert_eq!(while_it_runs.status.code(), Some(1));
    assert!(text(&while_it_runs).contains("in use"), "{}", text(&while_it_runs));
    broker.process.kill().unwrap();
    broker.process.wait().unwrap();
    assert!(text(&recover(&broker, &["--confirm"])).contains("nothing to recover"));

    let dir = broker.data_dir.path().join("__cluster_metadata-0");
    let logs: Vec<PathBuf> = dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    for log in logs.iter().filter(|path| path.extension().is_some_and(|extension| extension == "log")) {
        Command::new("mv").arg(log).arg(broker.data_dir.path()).status().unwrap();
    }
    let said = refusal(&broker);
    assert!(said.contains("was on disk up to") && said.contains("parshall recover"), "{said}");
    assert!(broker.data_dir.path().join("kept-0").exists() && broker.data_dir.path().join("kept-1").exists(), "{said}");

    let shown = recover(&broker, &[]);
    assert!(shown.status.success() && text(&shown).contains("2 partitions of topic kept"), "{}", text(&shown));
    assert!(text(&shown).contains("add --confirm"));
    refusal(&broker);
    let done = recover(&broker, &["--confirm"]);
    assert!(done.status.success() && text(&done).contains("__cluster_metadata-0.damaged.1"), "{}", text(&done));
    assert!(broker.data_dir.path().join("__cluster_metadata-0.damaged.1/raft-state").exists());

    broker.kill_and_restart();
    assert_eq!(broker.values("kept"), ["one", "three", "two"]);
    assert_eq!(broker.ok(&consume), "", "the group goes on where it was");
    broker.ok_with(&["produce", "kept"], "four\n");
    assert_eq!(broker.ok(&consume), "four\n");
}

#[test]
fn a_lost_directory_of_metadata_does_not_begin_a_cluster_anew() {
    let mut broker = Broker::start();
    broker.ok(&["topic", "create", "kept"]);
    broker.ok_with(&["produce", "kept"], "one\n");
    broker.process.kill().unwrap();
    broker.process.wait().unwrap();
    let dir = broker.data_dir.path().join("__cluster_metadata-0");
    Command::new("mv").arg(&dir).arg(broker.data_dir.path().join("elsewhere")).status().unwrap();
    let said = refusal(&broker);
    assert!(said.contains("is gone") && said.contains("parshall recover"), "{said}");
    assert!(!dir.exists() && broker.data_dir.path().join("kept-0").exists());
    let asked = recover(&broker, &["--confirm"]);
    assert!(asked.status.code() == Some(1) && text(&asked).contains("--alone"), "{}", text(&asked));
    assert!(recover(&broker, &["--alone", "--confirm"]).status.success());
    broker.kill_and_restart();
    assert_eq!(broker.values("kept"), ["one"]);
}
