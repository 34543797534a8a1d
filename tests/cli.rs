//! The command line against a broker of our own, both as processes.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Stdio};

mod common;

use common::{Broker, signal};
use serde_json::Value;

fn lines(range: std::ops::RangeInclusive<u32>) -> String {
    range.map(|n| format!("{n:05}\n")).collect()
}

#[test]
fn topics_are_made_shown_changed_and_deleted() {
    let broker = Broker::start();
    assert_eq!(broker.ok(&["topic", "list"]), "");
    let create = ["topic", "create", "orders", "--partitions", "2", "--config", "retention.ms=1000"];
    assert_eq!(broker.ok(&create), "Created topic orders.\n");
    assert!(broker.fails(&create, "").contains("TOPIC_ALREADY_EXISTS"));
    assert_eq!(broker.ok(&[&create[..], &["--if-not-exists"]].concat()), "");
    assert_eq!(broker.ok(&["topic", "list"]), "orders\n");
    broker.ok(&["topic", "alter", "orders", "--partitions", "3", "--config", "max.message.bytes=5000"]);
    assert!(broker.fails(&["topic", "alter", "orders", "--partitions", "1"], "").contains("INVALID_PARTITIONS"));

    let text = broker.ok(&["topic", "describe", "orders"]);
    let first: Vec<_> = text.lines().next().unwrap().split('\t').collect();
    assert_eq!((first[0], first[2], first[3]), ("Topic: orders", "PartitionCount: 3", "ReplicationFactor: 1"));
    let mut configs: Vec<_> = first[4].trim_start_matches("Configs: ").split(',').collect();
    configs.sort_unstable();
    assert_eq!(configs, ["max.message.bytes=5000", "retention.ms=1000"]);
    let leader = text.lines().nth(3).unwrap();
    assert!(leader.starts_with("\tTopic: orders\tPartition: 2\tLeader: "), "{leader}");

    assert!(broker.fails(&["topic", "describe", "nope"], "").contains("'parshall topic list'"));
    assert!(broker.fails(&["topic", "create", "a/b"], "").contains("INVALID_TOPIC_EXCEPTION"));
    assert!(broker.fails(&["topic", "delete", "nope"], "").contains("does not exist"));
    assert_eq!(broker.ok(&["topic", "delete", "nope", "orders", "--if-exists"]), "Deleted topic orders.\n");
    assert_eq!(broker.ok(&["topic", "list"]), "");
}

#[test]
fn partitions_are_found_by_what_is_wrong_with_them() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "well", "--replica-assignment", "1,1"]);
    broker.ok(&["topic", "create", "short", "--config", "min.insync.replicas=2"]);
    let describe = |only: &str| broker.ok(&["topic", "describe", only]);
    assert_eq!(describe("--under-replicated-partitions"), "");
    assert_eq!(describe("--unavailable-partitions"), "");
    let line = |topic, partition| {
        format!("\tTopic: {topic}\tPartition: {partition}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n")
    };
    assert_eq!(describe("--under-min-isr-partitions"), line("short", 0));
    assert_eq!(describe("--at-min-isr-partitions"), line("well", 0) + &line("well", 1));
    let documents = broker.ok(&["topic", "describe", "--under-min-isr-partitions", "--json"]);
    let documents: Value = serde_json::from_str(&documents).unwrap();
    assert_eq!((&documents[0]["topic"], documents.as_array().unwrap().len()), (&"short".into(), 1));
    assert!(broker.fails(&["topic", "create", "t", "--replica-assignment", "7"], "").contains("INVALID_REPLICA"));
}

#[test]
fn patterns_and_kafkas_own_forms_are_understood() {
    let broker = Broker::start();
    for topic in ["orders", "orders-dead", "payments"] {
        broker.ok(&["topic", "--create", "--topic", topic, "--partitions=2"]);
        broker.ok_with(&["produce", "--topic", topic], "a\n");
        broker.ok(&["consume", "--topic", topic, "--group", &format!("of-{topic}"), "--from-beginning", "-n", "1"]);
    }
    let states = broker.ok(&["group", "--describe", "--group", "of-payments", "--state"]);
    assert!(states.contains("of-payments") && states.contains("Empty"), "{states}");
    let deleted = broker.ok(&["group", "delete", "-r", "of-orders.*"]);
    assert_eq!(deleted, "Deleted group of-orders.\nDeleted group of-orders-dead.\n");
    assert_eq!(broker.ok(&["group", "--list"]), "of-payments\n");

    assert_eq!(broker.ok(&["topic", "--list", "--exclude-internal"]), "orders\norders-dead\npayments\n");
    assert_eq!(broker.ok(&["topic", "list", "--regex", "orders.*|x"]), "orders\norders-dead\n");
    assert_eq!(broker.ok(&["topic", "describe", "-r", "pay.*"]).lines().count(), 3);
    assert!(broker.fails(&["topic", "describe", "-r", "order"], "").contains("nothing is called like order"));
    assert_eq!(broker.ok(&["topic", "--delete", "--topic", ".*s-.*"]), "Deleted topic orders-dead.\n");
    assert_eq!(broker.ok(&["topic", "delete", "--regex", ".*"]), "Deleted topic orders.\nDeleted topic payments.\n");
    assert_eq!(broker.ok(&["topic", "list"]), "__consumer_offsets\n");
    assert_eq!(broker.ok(&["topic", "delete", "-r", "x.*", "--if-exists"]), "");

    let form = ["config", "--alter", "--entity-type", "brokers", "--entity-default", "--add-config"];
    broker.ok(&[&form[..], &["message.max.bytes=5000,log.cleaner.threads=2"]].concat());
    let shown = broker.ok(&["config", "--describe", "--entity-type", "brokers", "--entity-default"]);
    assert!(shown.contains("message.max.bytes=5000"), "{shown}");
}

#[test]
fn a_broker_says_what_it_speaks() {
    let broker = Broker::start();
    let text = broker.ok(&["api-versions"]);
    assert!(text.starts_with(&format!("broker 1, {}\nAPI ", broker.address)), "{text}");
    let produce: Vec<_> = text.lines().find(|line| line.starts_with("Produce ")).unwrap().split_whitespace().collect();
    let highest = produce[2].split('-').nth(1).unwrap();
    assert_eq!((produce[1], produce[3]), ("0", highest), "{text}");
    let documents: Value = serde_json::from_str(&broker.ok(&["api-versions", "--broker", "1", "--json"])).unwrap();
    assert_eq!((&documents[0]["broker"], &documents[0]["apis"][0]["name"]), (&1.into(), &"Produce".into()));
    assert!(broker.fails(&["api-versions", "--broker", "7"], "").contains("broker 7"));
    assert!(broker.ok(&["features"]).lines().all(|line| line.contains("roker")));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test has files")]
fn a_bundle_has_what_somebody_who_helps_would_ask_for() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "orders"]);
    broker.ok_with(&["produce", "orders"], "what nobody else should read\n");
    let dir = tempfile::tempdir().unwrap();
    let [out, log] = ["bundle.tar.gz", "a.log"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    std::fs::write(&log, "a line of a log\n").unwrap();
    let args = ["debug", "bundle", "--out", &out, "--log", &log, "--metrics", "http://127.0.0.1:1/metrics"];
    assert_eq!(broker.ok(&args), format!("{out} has 12 files\n"));
    let mut unpack = std::process::Command::new("tar");
    unpack.args(["--extract", "--gzip", "--strip-components=1", "--file", &out, "--directory"]).arg(dir.path());
    assert!(unpack.status().unwrap().success());
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let json = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap_or_else(|_| panic!("{}", read(name)));
    assert_eq!(json("status.json")["is_healthy"], true);
    assert_eq!(json("topics.json")[0]["topic"], "orders");
    assert!(json("configs-broker-1.json").as_array().unwrap().len() > 100);
    for name in ["groups", "reassignments", "log-dirs", "api-versions", "features", "configs-default"] {
        assert!(json(&format!("{name}.json")).is_array(), "{name}");
    }
    assert!(read("version.txt").starts_with("parshall ") && read("log-1.txt") == "a line of a log\n");
    assert!(read("metrics-1.txt").starts_with("http://127.0.0.1:1/metrics: "), "{}", read("metrics-1.txt"));
    let entries = std::fs::read_dir(dir.path()).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let secret = b"nobody else";
    assert!(entries.into_iter().all(|bytes| !bytes.windows(secret.len()).any(|part| part == secret)));
    assert!(broker.fails(&["debug", "bundle", "--out", &out], "").contains("File exists"));
}

#[test]
fn every_codec_brings_back_what_went_in() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "3"]);
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        assert_eq!(broker.ok_with(&["produce", "t", "--compression", codec], &lines(1..=2000)), "");
    }
    let mut expected: Vec<_> = (0..5).flat_map(|_| 1..=2000).map(|n| format!("{n:05}")).collect();
    expected.sort();
    assert_eq!(broker.values("t"), expected);
}

#[test]
fn acknowledged_records_outlive_a_kill() {
    let mut broker = Broker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "3"]);
    for acks in ["all", "1", "0"] {
        broker.ok_with(&["produce", "t", "--acks", acks], &lines(1..=100));
    }
    broker.kill_and_restart();
    assert_eq!(broker.values("t").len(), 300);
}

#[test]
fn a_record_keeps_all_of_its_parts() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    let produce = ["produce", "t", "-K", ":", "-H", "h=1", "-H", "h=2", "--timestamp", "1700000000000"];
    let places = broker.ok_with(&[&produce[..], &["--null-value", "NULL", "--verbose"]].concat(), "k:v\nk:NULL\n");
    assert_eq!(places, "t-0@0\nt-0@1\n");
    let format = ["consume", "t", "-b", "-e", "--format", "%t|%p|%o|%T|%k|%v|%V|%h\\n"];
    assert_eq!(broker.ok(&format), "t|0|0|1700000000000|k|v|1|h=1,h=2\nt|0|1|1700000000000|k||-1|h=1,h=2\n");

    // What JSON says can be produced again, byte for byte.
    broker.ok(&["produce", "t", "--value", ""]);
    let document = "{\"key_base64\":\"/w==\",\"value\":{\"a\":1},\"headers\":[[\"x\",null]],\"timestamp\":5}\n";
    assert_eq!(
        broker.ok_with(&["produce", "t", "--json"], document),
        "{\"topic\":\"t\",\"partition\":0,\"offset\":3}\n"
    );
    let documents = broker.ok(&["consume", "t", "-b", "-e", "--json"]);
    broker.ok(&["topic", "create", "copy"]);
    broker.ok_with(&["produce", "copy", "--json"], &documents);
    assert_eq!(broker.ok(&["consume", "copy", "-b", "-e", "--json"]), documents.replace("\"t\"", "\"copy\""));
}

#[test]
fn reading_starts_and_stops_where_it_is_told() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    broker.ok_with(&["produce", "t", "--timestamp", "1000"], &lines(1..=50));
    broker.ok_with(&["produce", "t", "--timestamp", "2000"], &lines(51..=100));
    let consume = |args: &[&str]| broker.ok(&[&["consume", "t"], args].concat());
    assert_eq!(consume(&["--offset", "97", "--until-end"]), lines(98..=100));
    assert_eq!(consume(&["--offset", "-3", "-p", "0", "--until-end"]), lines(98..=100));
    assert_eq!(consume(&["--offset", "-1000", "--max-messages", "2"]), lines(1..=2));
    assert_eq!(consume(&["--offset", "beginning", "-n", "7"]), lines(1..=7));
    assert_eq!(consume(&["--from-time", "1970-01-01T00:00:02Z", "--until-end"]), lines(51..=100));
    assert_eq!(consume(&["--from-time", "-1h", "--until-end"]), "");
    assert_eq!(consume(&["--offset", "end", "--until-end"]), "");
    assert_eq!(consume(&["-b", "--timeout", "3s"]), lines(1..=100));
    let short = broker.fails(&["consume", "t", "-b", "-n", "101", "--timeout", "3s"], "");
    assert!(short.contains("only 100 of 101"), "{short}");
    assert!(broker.fails(&["consume", "t", "--offset", "200"], "").contains("out of range"));
    assert!(broker.fails(&["consume", "t", "-p", "5", "-b"], "").contains("no partition 5"));
    assert!(broker.fails(&["consume", "nope", "-b"], "").contains("'parshall topic list'"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    broker.ok_with(&["produce", "t"], &lines(1..=20_000));
    let mut process = broker.command(&["consume", "t", "-b"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::with_capacity(16, process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "00001\n");
    let output = process.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
}

#[test]
fn failed_records_make_the_command_fail() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "small", "--config", "max.message.bytes=1000"]);
    // Batches that are too large are cut; one record cannot be.
    broker.ok_with(&["produce", "small"], &lines(1..=5000));
    assert_eq!(broker.values("small").len(), 5000);
    let input = format!("one\n{}\ntwo\n", "x".repeat(2000));
    let text = broker.fails(&["produce", "small"], &input);
    assert!(text.contains("1 of 3 records") && text.contains("max.message.bytes"), "{text}");
    assert_eq!(broker.values("small").len(), 5002);

    broker.ok(&["topic", "create", "compacted", "--config", "cleanup.policy=compact"]);
    assert!(broker.fails(&["produce", "compacted"], "x\n").contains("INVALID_RECORD"));
    assert!(broker.fails(&["produce", "small", "-p", "7"], "x\n").contains("no partition 7"));
    let text = broker.fails(&["produce", "small", "--json"], "{\"value\":\"kept\"}\nnonsense\n");
    assert!(text.contains("line 2"), "{text}");
    assert!(broker.values("small").contains(&"kept".to_owned()));
    assert!(broker.fails(&["produce", "small", "-K", ":"], "no separator\n").contains("separator"));
}

#[test]
fn an_interrupted_producer_delivers_what_it_took() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    let mut process = broker.command(&["produce", "t", "--verbose"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin: ChildStdin = process.stdin.take().unwrap();
    stdin.write_all(b"one\ntwo\n").unwrap();
    let mut stdout = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    signal(&process, "-INT");
    assert_eq!(process.wait().unwrap().code(), Some(130));
    stdout.read_to_string(&mut line).unwrap();
    assert_eq!(line, "t-0@0\nt-0@1\n");
    assert_eq!(broker.values("t"), ["one", "two"]);
}

#[test]
fn a_group_goes_on_where_it_stopped() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    broker.ok_with(&["produce", "t"], &lines(1..=100));
    let consume = |args: &[&str]| broker.ok(&[&["consume", "t", "--group", "g"], args].concat());
    assert_eq!(consume(&["--from-beginning", "-n", "30"]), lines(1..=30));
    assert_eq!(consume(&["--from-beginning", "-n", "5"]), lines(31..=35));
    let row = |text: &str| text.lines().last().unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let described = broker.ok(&["group", "describe", "g"]);
    assert_eq!(row(&described), ["g", "t", "0", "35", "100", "65", "-", "-", "-"]);
    assert_eq!(broker.ok(&["group", "list"]), "g\n");

    let reset = ["group", "reset-offsets", "g", "--topic", "t:0", "--shift-by", "-1000"];
    assert_eq!(row(&broker.ok(&reset)), ["g", "t", "0", "0"]);
    assert_eq!(row(&broker.ok(&["group", "describe", "g"]))[3], "35");
    broker.ok(&[&reset[..], &["--execute"]].concat());
    assert_eq!(row(&broker.ok(&["group", "describe", "g"]))[3], "0");
    broker.ok(&["group", "reset-offsets", "g", "--all-topics", "--to-offset", "98", "--execute"]);
    assert_eq!(consume(&["--until-end"]), lines(99..=100));

    let state = broker.ok(&["group", "describe", "g", "--state"]);
    assert!(row(&state).contains(&"Empty".to_owned()), "{state}");
    assert_eq!(broker.ok(&["group", "delete", "g"]), "Deleted group g.\n");
    assert!(broker.fails(&["group", "describe", "g"], "").contains("'parshall group list'"));
    assert!(broker.fails(&["group", "delete", "g"], "").contains("does not exist"));
}

#[test]
fn members_share_the_partitions_and_hand_them_over() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "4"]);
    let member = || {
        let args = ["consume", "t", "--group", "g", "--from-beginning", "--format", "%v\\n"];
        let mut process = broker.command(&args).spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        (process, stdout)
    };
    // Each partition gets a record, so that whoever owns it has something to say.
    let produce = |value: &str| {
        for partition in ["0", "1", "2", "3"] {
            broker.ok(&["produce", "t", "-p", partition, "--value", value]);
        }
    };
    let (mut first, mut first_out) = member();
    produce("alone");
    let mut line = String::new();
    for _ in 0..4 {
        first_out.read_line(&mut line).unwrap();
    }
    assert_eq!(line, "alone\n".repeat(4));

    let (mut second, mut second_out) = member();
    // The first one learns of the second by a heartbeat and gives two partitions away.
    let shared = |text: &str| text.lines().filter(|line| line.split_whitespace().last() == Some("2")).count() == 2;
    while !shared(&broker.ok(&["group", "describe", "g", "--members"])) {}
    assert!(broker.fails(&["group", "delete", "g"], "").contains("NON_EMPTY_GROUP"));
    assert!(broker.fails(&["group", "reset-offsets", "g", "--all-topics", "--to-latest"], "").contains("members"));
    produce("shared");
    for out in [&mut first_out, &mut second_out] {
        let mut text = String::new();
        out.read_line(&mut text).unwrap();
        out.read_line(&mut text).unwrap();
        assert_eq!(text, "shared\n".repeat(2));
    }

    // One that is told to stop commits and leaves: the other need not wait for its session to end.
    signal(&second, "-TERM");
    assert_eq!(second.wait().unwrap().code(), Some(0));
    produce("alone again");
    let mut text = String::new();
    for _ in 0..4 {
        first_out.read_line(&mut text).unwrap();
    }
    assert_eq!(text, "alone again\n".repeat(4));
    signal(&first, "-INT");
    assert_eq!(first.wait().unwrap().code(), Some(0));
    let described = broker.ok(&["group", "describe", "g"]);
    let lags: Vec<_> = described.lines().skip(2).map(|line| line.split_whitespace().nth(5).unwrap()).collect();
    assert_eq!(lags, ["0"; 4]);
}

#[test]
fn settings_are_shown_and_changed() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    assert_eq!(broker.ok(&["config", "describe", "topic", "t"]), "Dynamic configs for topic t are:\n");
    let alter = ["config", "alter", "topic", "t", "--set", "retention.ms=5", "--set", "segment.bytes=2000000"];
    assert_eq!(broker.ok(&alter), "Completed updating config for topic t.\n");
    broker.ok(&["config", "alter", "topic", "t", "--delete", "segment.bytes"]);
    let text = broker.ok(&["config", "describe", "topic", "t"]);
    assert_eq!(text.lines().count(), 2);
    let line = "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5";
    assert!(text.lines().nth(1).unwrap().starts_with(line), "{text}");
    let all = broker.ok(&["config", "describe", "topic", "t", "--all", "--json"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    assert!(all.as_array().unwrap().len() > 20);
    assert!(broker.fails(&["config", "alter", "topic", "t", "--set", "bogus=1"], "").contains("INVALID_CONFIG"));
    assert!(broker.fails(&["config", "alter", "topic", "nope", "--set", "retention.ms=1"], "").contains("nope"));
    assert!(broker.ok(&["config", "describe", "broker", "1", "--all"]).contains("num.partitions"));
}

#[test]
fn the_files_of_a_running_broker_are_sound() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t"]);
    broker.ok_with(&["produce", "t"], &lines(1..=1000));
    broker.ok(&["consume", "t", "--group", "g", "--from-beginning", "-n", "10"]);
    let text = broker.ok(&["dump", "--print-data", broker.data_dir.path().to_str().unwrap()]);
    assert_eq!(text.lines().filter(|line| line.contains(" payload: 0")).count(), 1000);
    assert!(text.contains("OffsetCommitKey { group: \"g\", topic: \"t\", partition: 0 }"));
    assert!(text.contains("offset: 10,"));
}

#[test]
fn records_and_offsets_are_deleted() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "2"]);
    broker.run(&["produce", "t", "--partition", "1"], "a\nb\nc\n");
    assert_eq!(broker.ok(&["topic", "delete-records", "t:1", "--before", "2"]), "t-1 begins at offset 2\n");
    let json = broker.ok(&["topic", "delete-records", "t", "--before", "end", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let begins: Vec<_> = json.as_array().unwrap().iter().map(|row| row["low_watermark"].as_i64()).collect();
    assert_eq!(begins, [Some(0), Some(3)]);
    let error = broker.fails(&["topic", "delete-records", "t", "--before", "4"], "");
    assert!(error.contains("t-0: OFFSET_OUT_OF_RANGE; ") && error.contains("t-1: OFFSET_OUT_OF_RANGE"), "{error}");

    broker.ok(&["group", "reset-offsets", "g", "--topic", "t", "--to-latest", "--execute"]);
    let text = broker.ok(&["group", "delete-offsets", "g", "--topic", "t:1"]);
    assert_eq!(text, "Deleted the offset of group g in t-1.\n");
    let described = broker.ok(&["group", "describe", "g", "--json"]);
    assert!(described.contains("\"partition\":0") && !described.contains("\"partition\":1"), "{described}");
    let error = broker.fails(&["group", "delete-offsets", "other", "--topic", "t"], "");
    assert!(error.contains("GROUP_ID_NOT_FOUND"), "{error}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test has files")]
fn partitions_are_moved_by_a_plan() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "2"]);
    assert_eq!(broker.ok(&["partition", "elect", "t"]), "no election was needed\n");
    let dir = tempfile::tempdir().unwrap();
    let plan = |name: &str, replicas: &str| {
        let path = dir.path().join(name);
        let text = format!(r#"{{"partitions":[{{"topic":"t","partition":1,"replicas":{replicas}}}]}}"#);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (same, elsewhere) = (plan("same", "[1]"), plan("elsewhere", "[7]"));
    let text = broker.ok(&["partition", "reassign", &elsewhere]);
    assert_eq!(text, "PARTITION  REPLICAS  NEW-REPLICAS\nt-1        1         7\n");
    let error = broker.fails(&["partition", "reassign", &elsewhere, "--execute"], "");
    assert!(error.contains("cannot reassign t-1") && error.contains("7"), "{error}");
    let error = broker.fails(&["partition", "reassign", &elsewhere, "--verify"], "");
    assert_eq!(error, "error: 1 of 1 partitions do not have the replicas of the plan\n");
    let text = broker.ok(&["partition", "reassign", &same, "--verify"]);
    assert_eq!(text, "all 1 partitions have the replicas of the plan\n");
    assert_eq!(broker.ok(&["partition", "reassign", &same, "--cancel"]), "no partition of the plan moves\n");
    assert_eq!(broker.ok(&["partition", "reassignments"]), "no partition moves\n");

    let dirs: Value = serde_json::from_str(&broker.ok(&["log-dirs", "--json"])).unwrap();
    assert_eq!((&dirs[0]["broker"], dirs[0]["replicas"].as_array().unwrap().len()), (&1.into(), 2));
    let text = broker.ok(&["log-dirs", "--topic", "t"]);
    assert_eq!(text.lines().skip(1).filter(|line| line.starts_with("t-")).count(), 2, "{text}");
}
