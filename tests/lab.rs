//! `parshall lab` from outside: scenarios against a broker that runs, and one that it starts itself.

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{Broker, PARSHALL, signal};
use serde_json::Value;

const SMALL: &str = r#"
name = "small"
title = "Small <cases>"
[defaults]
duration_s = 1
warm_up_s = 1
record_size_bytes = 100
partitions = 2
[[case]]
id = "rate"
rate_records_per_s = [500, 1000]
producer.acks = "all"
published = [{ when = { rate_records_per_s = 500 }, records_per_s = 123456 }]
[[case]]
id = "both"
brokers_used = 1
rate_records_per_s = 2000
consumers = 2
consumer_groups = 2
[[case]]
id = "read"
producers = 0
consumers = 1
consumer_groups = 0
records = 20000
[[case]]
id = "replicated"
replicas = 3
"#;

fn lab(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(PARSHALL);
    command.arg("lab").args(args).current_dir(dir).env_remove("PARSHALL_LOG").env_remove("KAFKA_HOME");
    command.stdin(Stdio::null()).output().unwrap()
}

fn ok(dir: &Path, args: &[&str]) -> String {
    let output = lab(dir, args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The one line of a command that must fail with a code.
fn fails(dir: &Path, args: &[&str], code: i32) -> String {
    let output = lab(dir, args);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(code), 1), "{args:?}: {text}");
    text
}

#[expect(clippy::disallowed_methods, reason = "a test has files")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

fn scenario(text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("mine.toml"), text);
    dir
}

#[expect(clippy::disallowed_methods, reason = "a test has files")]
fn read(path: &Path) -> String {
    String::from_utf8(std::fs::read(path).unwrap()).unwrap()
}

fn case<'a>(results: &'a Value, id: &str) -> &'a Value {
    results["cases"].as_array().unwrap().iter().find(|case| case["id"] == id).unwrap()
}

#[test]
fn a_scenario_runs_on_a_broker_of_its_own_and_leaves_results() {
    let dir = scenario(SMALL);
    let text = ok(dir.path(), &["run", "mine.toml", "--out", "results", "--json"]);
    let results: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(results["cases"].as_array().unwrap().len(), 5);

    let rate = &case(&results, "rate/rate_records_per_s=1000")["outcome"]["measured"];
    // All that was due behind the warm-up, and nothing of what was due before.
    assert_eq!(rate["produced"]["records"], 1000);
    assert!(rate["verdict"]["limit"].is_string() && rate["verdict"]["evidence"].is_string());
    assert_eq!(rate["latency"]["counts_from"], "due");
    assert!(rate["latency"]["p99_us"].as_u64() > Some(0) && !rate["series"].as_array().unwrap().is_empty());
    assert!(rate["cost"]["brokers"][0]["resident_bytes_max"].as_u64() > Some(1 << 20), "{}", rate["cost"]);
    assert_eq!(rate["cost"]["brokers"][0]["id"], 1);
    assert!(rate["cost"]["client_resident_bytes_max"].as_u64() > Some(1 << 20), "{}", rate["cost"]);
    assert!(rate["series"][0]["client_resident_bytes"].as_u64() > Some(1 << 20), "{}", rate["series"][0]);
    let network = &results["run"]["preflight"]["network"][0];
    assert!(network["download_mib_per_s"].as_f64() > Some(0.0), "{network}");
    assert_eq!(case(&results, "rate/rate_records_per_s=500")["published"]["records_per_s"], 123_456.0);

    let both = &case(&results, "both")["outcome"]["measured"];
    assert!(both["consumed"]["records"].as_u64() > both["produced"]["records"].as_u64(), "two groups read: {both}");
    assert!(both["end_to_end"]["max_us"].is_u64());
    let read_only = &case(&results, "read")["outcome"]["measured"];
    assert!(read_only["consumed"]["records"].as_u64() > Some(0), "{}", read_only["consumed"]);
    assert!(read_only["consumed"]["requests"].as_u64() > Some(0), "{}", read_only["consumed"]);
    let reason = &case(&results, "replicated")["outcome"]["skipped"]["reason"];
    assert_eq!(reason, "it needs 3 brokers, and there are 1");

    let html = read(&dir.path().join("results/report.html"));
    assert!(html.contains("Small &") && !html.contains("Small <cases>"), "the title is escaped");
    assert!(html.contains("123,456") && html.contains("it needs 3 brokers"));

    // Started again, it has nothing left to do; another scenario has no business there.
    let again = ok(dir.path(), &["run", "mine.toml", "--out", "results"]);
    assert_eq!(again.matches("[kept]").count(), 5, "{again}");
    let error = fails(dir.path(), &["run", "quick", "--out", "results"], 1);
    assert!(error.contains("results holds another run (small)"), "{error}");
    let error = fails(dir.path(), &["run", "mine.toml", "--duration", "3s", "--out", "results"], 1);
    assert!(error.contains("results holds another run (small)"), "{error}");

    let compared: Value = serde_json::from_str(&ok(dir.path(), &["compare", "results", "results", "--json"])).unwrap();
    assert_eq!(compared["cases"].as_array().unwrap().len(), 4);
    assert!((compared["cases"][0]["throughput"]["ratio"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    let ids: Vec<_> = compared["cases"].as_array().unwrap().iter().map(|case| &case["id"]).collect();
    assert_eq!(ids, ["rate/rate_records_per_s=500", "rate/rate_records_per_s=1000", "both", "read"]);
    let text = ok(dir.path(), &["compare", "results", "results"]);
    assert_eq!(text.matches("no conclusion: ").count(), 4, "{text}");
    assert!(ok(dir.path(), &["report", "results"]).contains("results/report.html"));
}

#[test]
fn the_time_of_a_run_is_set_and_told_beforehand() {
    let dir = scenario(SMALL);
    let planned = |flags: &[&str]| {
        let text = ok(dir.path(), &[&["plan", "mine.toml", "--json"], flags].concat());
        serde_json::from_str::<Value>(&text).unwrap()["seconds"].as_f64().unwrap()
    };
    let longer = planned(&["--duration", "30s"]) - planned(&["--duration", "10s"]);
    assert_eq!(longer, 4.0 * 20.0, "the fifth case needs three brokers");
    let seconds = planned(&["--budget", "10m"]);
    assert!((595.0..=600.0).contains(&seconds), "{seconds}");
    let error = fails(dir.path(), &["run", "mine.toml", "--budget", "5s"], 2);
    assert!(error.contains("--budget is too small for 4 runs"), "{error}");

    let text = ok(dir.path(), &["run", "mine.toml", "--case", "read", "--duration", "1s", "--out", "results"]);
    assert!(text.starts_with("Small <cases> on parshall: 1 run, about ") && text.contains(" MiB of disk"), "{text}");
    let html = read(&dir.path().join("results/report.html"));
    assert!(html.contains("each case for 1 s") && html.contains("--duration 1s --case"), "the command for a case");
}

#[test]
fn a_cluster_that_runs_is_left_as_it_was() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "mine", "--partitions", "1"]);
    let dir = scenario(SMALL);
    let server = ["--bootstrap-server", broker.address.as_str()];
    let run = |args: &[&str]| lab(dir.path(), &[&["run", "mine.toml"], args, &server].concat());
    let output = run(&["--case", "rate", "--fail-if", "p50 > 0us", "--out", "a"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.matches("p50 > 0us").count(), 2, "{errors}");
    assert_eq!(broker.ok(&["topic", "list", "--exclude-internal"]), "mine\n");

    let wanted = SMALL.replace("partitions = 2", "partitions = 2\ntopic = \"mine\"");
    let other = scenario(&wanted);
    let args = [&["run", "mine.toml", "--case", "rate/rate_records_per_s=500", "--out", "a"], &server[..]].concat();
    let output = lab(other.path(), &args);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("topic mine is there with 1 partitions and 1 replicas; the case says 2 and 1"), "{text}");
}

/// One batch at a time takes its round trip: the last is answered long after the warm-up, and given before its end.
#[test]
fn what_was_given_before_the_warm_up_ended_is_counted() {
    let dir = scenario(
        "name = \"slow\"\ntitle = \"Slow\"\n[[case]]\nid = \"a\"\nrecords = 30\nwarm_up_s = 4\nrecord_size_bytes = 100\n\
         network_delay_ms = 200\nproducer.\"batch.size\" = 200\n\
         producer.\"max.in.flight.requests.per.connection\" = 1\n",
    );
    let text = ok(dir.path(), &["run", "mine.toml", "--scale", "1", "--out", "results", "--json"]);
    let results: Value = serde_json::from_str(&text).unwrap();
    let measured = &case(&results, "a")["outcome"]["measured"];
    assert_eq!(measured["produced"]["records"], 30, "{measured}");
    assert!(measured["produced"]["records_per_s"].as_f64() > Some(1.0), "{}", measured["produced"]);
    assert!(measured["verdict"]["warnings"].to_string().contains("nothing is left out"), "{}", measured["verdict"]);
}

/// As the broker sees it, which takes 40 connections.
#[test]
fn idle_connections_are_open_beside_the_load() {
    let dir = scenario(
        "name = \"idle\"\ntitle = \"Idle\"\n[[case]]\nid = \"a\"\nidle_connections = [20, 60]\nduration_s = 1\n\
         warm_up_s = 0\nrate_records_per_s = 100\nrecord_size_bytes = 100\n",
    );
    let args = ["run", "mine.toml", "--broker-set", "max.connections=40", "--out", "results", "--json"];
    let output = lab(dir.path(), &args);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let measured = &case(&results, "a/idle_connections=20")["outcome"]["measured"];
    assert_eq!((&measured["produced"]["records"], &measured["failures"]), (&100.into(), &serde_json::json!({})));
    assert_eq!(measured["verdict"]["warnings"].to_string().matches("idle").count(), 0, "{}", measured["verdict"]);
    let reason = case(&results, "a/idle_connections=60")["outcome"]["failed"]["reason"].to_string();
    assert!(reason.contains("idle_connections cannot be opened"), "{reason}");
}

/// The group of two forms in six seconds, longer than the case.
#[test]
fn consumers_of_a_backlog_are_measured_when_their_group_has_formed() {
    let dir = scenario(
        "name = \"read\"\ntitle = \"Read\"\n[[case]]\nid = \"a\"\nproducers = 0\nconsumers = 2\npartitions = 2\n\
         duration_s = 2\nrecord_size_bytes = 10000\n",
    );
    let text = ok(dir.path(), &["run", "mine.toml", "--out", "results", "--json"]);
    let results: Value = serde_json::from_str(&text).unwrap();
    let measured = &case(&results, "a")["outcome"]["measured"];
    assert!(measured["consumed"]["records"].as_u64() > Some(0), "{measured}");
}

#[test]
fn an_interrupted_run_cleans_up_and_goes_on() {
    let broker = Broker::start();
    let dir = scenario(&SMALL.replace("duration_s = 1", "duration_s = 600"));
    let mut command = Command::new(PARSHALL);
    command.args(["lab", "run", "mine.toml", "--case", "both", "--out", "results", "--bootstrap-server"]);
    command
        .arg(&broker.address)
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let process = command.spawn().unwrap();
    // Its topic is there as soon as it works.
    while !broker.ok(&["topic", "list", "--exclude-internal"]).contains("parshall-lab-") {
        std::thread::yield_now();
    }
    // Where it is stands in a file until it ends.
    let progress = dir.path().join("results/progress.jsonl");
    while !progress.exists() {
        std::thread::yield_now();
    }
    let first: Value = serde_json::from_str(read(&progress).lines().next().unwrap()).unwrap();
    assert_eq!((&first["begun"]["case"], &first["begun"]["of"]), (&"both".into(), &1.into()), "{first}");
    signal(&process, "-INT");
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("interrupted; the same command with --out results goes on"), "{text}");
    assert_eq!(broker.ok(&["topic", "list", "--exclude-internal"]), "");
    assert!(!progress.exists());
    let results = std::fs::read_dir(dir.path().join("results/cases")).unwrap().next().unwrap().unwrap().path();
    let results: Value = serde_json::from_str(&read(&results)).unwrap();
    let verdict = &results["outcome"]["measured"]["verdict"];
    assert!(verdict["evidence"].as_str().unwrap().contains("too early to judge"), "{verdict}");
}

#[test]
fn the_machines_of_brokers_are_made_smaller() {
    let text = "name = \"sizes\"\ntitle = \"Sizes\"\n[defaults]\nduration_s = 1\nwarm_up_s = 1\n\
                rate_records_per_s = 500\nbroker_memory = \"512MiB\"\n[[case]]\nid = \"small\"\nbroker_cpus = 1\n\
                [[case]]\nid = \"huge\"\nbroker_cpus = 99999\n[[case]]\nid = \"whole\"\nbroker_memory = 0\n";
    let dir = scenario(text);
    let results: Value =
        serde_json::from_str(&ok(dir.path(), &["run", "mine.toml", "--out", "results", "--json"])).unwrap();
    let small = &case(&results, "small")["outcome"]["measured"];
    let limits = &small["broker_limits"];
    assert_eq!(limits["cpus"], 1.0);
    let means = limits["means"].as_str().unwrap();
    match limits["memory_bytes"].as_u64() {
        Some(bytes) => assert_eq!((bytes, means), (512 << 20, "cgroup v2: 1 CPU, 512MiB")),
        // A machine without control groups for us says so.
        None => {
            assert!(means.starts_with("affinity: CPU ") && means.ends_with("; memory not limited"), "{means}");
            let warnings = small["verdict"]["warnings"].to_string();
            assert!(warnings.contains("memory of brokers was not limited to 512MiB"), "{warnings}");
        }
    }
    assert!(case(&results, "whole")["outcome"]["measured"]["broker_limits"].is_null());
    let reason = case(&results, "huge")["outcome"]["skipped"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("its brokers have 99999 CPUs each, and this machine has "), "{reason}");
    let again = ok(dir.path(), &["run", "mine.toml", "--out", "results"]);
    assert!(again.contains(&format!("; brokers: {means}")), "{again}");

    let broker = Broker::start();
    let server = ["--bootstrap-server", broker.address.as_str()];
    let args = [&["run", "mine.toml", "--case", "small", "--out", "theirs", "--json"], &server[..]].concat();
    let results: Value = serde_json::from_str(&ok(dir.path(), &args)).unwrap();
    let reason = case(&results, "small")["outcome"]["skipped"]["reason"].as_str().unwrap();
    assert!(reason.contains("only be done with brokers that the lab starts"), "{reason}");
    let plan = ok(dir.path(), &[&["plan", "mine.toml"], &server[..]].concat());
    assert!(plan.contains("skipped: only brokers that are started can be made smaller"), "{plan}");
}

#[test]
fn capacity_is_searched_by_rates() {
    let dir = tempfile::tempdir().unwrap();
    // What it will do is told before it has done anything.
    let told = lab(dir.path(), &["capacity", "--bootstrap-server", "127.0.0.1:1"]);
    let text = String::from_utf8(told.stdout).unwrap();
    assert_eq!(text, "Capacity: p99 <= 20ms on 127.0.0.1:1: at most 14 runs, about 3 min\n");
    let args = ["capacity", "--goal", "p99 < 1us", "--step", "1s", "--out", "found", "--json"];
    let found: Value = serde_json::from_str(&ok(dir.path(), &args)).unwrap();
    let target = &found["targets"][0];
    assert!(target["unlimited_records_per_s"].as_f64() > Some(0.0));
    assert!(target["highest_records_per_s"].is_null(), "nobody is that fast: {target}");
    let steps = target["steps"].as_array().unwrap();
    assert!(steps.len() > 1 && steps.iter().all(|step| step["meets_goal"] == false), "{target}");
    // The report has the answer, and no rate that missed the goal for its headline.
    let html = read(&dir.path().join("found/report.html"));
    assert!(html.contains("met at no rate that was tried") && !html.contains("The most that"), "{html}");
    let facts: Value = serde_json::from_str(&read(&dir.path().join("found/run.json"))).unwrap();
    assert_eq!(facts["search"]["capacities"][0], *target);
}

#[test]
fn suites_can_be_looked_at_before_they_run() {
    let dir = tempfile::tempdir().unwrap();
    let list: Value = serde_json::from_str(&ok(dir.path(), &["list", "--json"])).unwrap();
    let names: Vec<_> = list.as_array().unwrap().iter().map(|suite| suite["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"quick") && names.contains(&"huawei-dms"), "{names:?}");
    assert!(ok(dir.path(), &["show", "huawei-dms"]).contains("id = \"H1\""));
    assert!(ok(dir.path(), &["show", "--keys"]).contains("record_size_bytes"));
    let args = ["plan", "huawei-dms", "--case", "H2", "--scale", "1", "--repeat", "2", "--json"];
    let plan: Value = serde_json::from_str(&ok(dir.path(), &args)).unwrap();
    assert_eq!(plan["cases"][0]["runs"], 2);
    let replicated: Value = serde_json::from_str(&ok(dir.path(), &["plan", "huawei-dms", "--json"])).unwrap();
    let cases = replicated["cases"].as_array().unwrap();
    assert!(cases.iter().any(|case| case["parameters"]["replicas"] == "3" && case["runs"] == 0), "no three brokers");
    // 100 million records at 102,400 per second, twice.
    assert!((1950.0..1970.0).contains(&plan["seconds"].as_f64().unwrap()), "{plan}");
}

#[test]
fn mistakes_are_one_clear_line() {
    let dir = scenario("name = \"a\"\ntitle = \"b\"\n[[case]]\nrecrods = 5\n");
    write(&dir.path().join("none.toml"), "name = \"a\"\ntitle = \"b\"\n[[case]]\nid = \"a\"\nproducers = 0\n");
    for (args, part) in [
        (&["run", "nosuch"][..], "the suites are quick, "),
        (&["run", "mine.toml"], "mine.toml: line 4: unknown field `recrods`, expected one of "),
        (&["run", "none.toml"], "none.toml: line 3: case a: there are neither producers nor consumers"),
        (&["run", "quick", "--case", "Q9"], "it has Q1, "),
        (&["run", "quick", "--target", "kafka"], "--kafka-home"),
        (&["run", "quick", "--fail-if", "p98 > 1"], "there are mean, p50"),
        (&["run", "quick", "--scale", "0"], "a number above 0"),
        (&["capacity", "--record-size", "big"], "is no record size"),
    ] {
        let error = fails(dir.path(), args, 2);
        assert!(error.contains(part), "{error}");
    }
    for (args, part) in [
        (&["run", "quick", "--bootstrap-server", "127.0.0.1:1"][..], "no broker can be reached"),
        (&["run", "quick", "--target", "kafka", "--kafka-home", "."], "no Apache Kafka in ."),
        (&["report", "."], "run.json"),
        (&["compare", "a", "b"], "run.json"),
    ] {
        let error = fails(dir.path(), args, 1);
        assert!(error.contains(part), "{error}");
    }
    assert!(!dir.path().join("parshall-results").exists(), "nothing has run");
}
