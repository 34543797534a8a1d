//! Three brokers as processes of `parshall cluster start`: what was acknowledged is there whoever is killed, and
//! `parshall cluster status` says what is wrong meanwhile.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

mod common;

use common::{PARSHALL, signal};
use serde_json::Value;

const PAUSE: Duration = Duration::from_millis(100);
/// Much longer than anything takes: the machine may be busy.
const LOOKS: usize = 600;
const SETTINGS: [&str; 4] = ["--set", "offsets.topic.num.partitions=4", "--set", "group.initial.rebalance.delay.ms=0"];

/// A process that is killed at the end of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Cluster {
    command: Killed,
    /// All bootstrap servers.
    servers: String,
    /// What the command has told so far.
    told: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    fn start(dir: &Path) -> Self {
        let mut command = Command::new(PARSHALL);
        command.args(["cluster", "start", "--nodes", "3", "--port", "0", "--data-dir"]).arg(dir).args(SETTINGS);
        command.env("PARSHALL_LOG", "warn").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut command = Killed(command.spawn().unwrap());
        let told = Arc::new(Mutex::new(Vec::new()));
        let (stderr, lines) = (command.0.stderr.take().unwrap(), Arc::clone(&told));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        let mut line = String::new();
        BufReader::new(command.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let servers = line.split(" is ready on ").nth(1).and_then(|rest| rest.split(", data").next());
        let Some(servers) = servers else {
            let lines = told.lock().unwrap().clone();
            panic!("not ready: {lines:?}");
        };
        let servers = servers.to_owned();
        Self { command, servers, told }
    }

    /// Stops all brokers one after the other.
    fn stop(mut self) {
        signal(&self.command.0, "-TERM");
        let status = self.command.0.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{:?}", self.told.lock().unwrap());
    }

    /// What stands in a line of the command behind a mark.
    fn told(&self, mark: &str) -> String {
        eventually(&format!("it is told: {mark}"), || {
            let lines = self.told.lock().unwrap();
            lines.iter().rev().find_map(|line| Some(line.split_once(mark)?.1.to_owned()))
        })
    }

    fn kill(&self, broker: i64) {
        let process = self.told(&format!("broker {broker} starts: process "));
        let process = process.split(',').next().unwrap();
        assert!(Command::new("kill").args(["-9", process]).status().unwrap().success());
    }

    /// Does what the command says about a broker that has ended.
    fn start_again(&self, broker: i64) -> Killed {
        let line =
            self.told(&format!("warning: broker {broker} has ended (signal: 9 (SIGKILL)); start it again with: "));
        let words: Vec<_> = line.split(' ').collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("PARSHALL_LOG", "warn").stdin(Stdio::null()).stdout(Stdio::null());
        Killed(command.spawn().unwrap())
    }

    fn run(&self, args: &[&str], input: &str) -> Output {
        let mut command = Command::new(PARSHALL);
        command.args(args).env("PARSHALL_BOOTSTRAP_SERVER", &self.servers);
        command.env_remove("PARSHALL_LOG").env_remove("PARSHALL_COMMAND_CONFIG");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = process.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let output = process.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }

    fn ok(&self, args: &[&str], input: &str) -> String {
        let output = self.run(args, input);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn produce(&self, topic: &str, numbers: std::ops::RangeInclusive<u32>) {
        let input: String = numbers.map(|n| format!("{n:05}\n")).collect();
        self.ok(&["produce", topic, "--acks", "all"], &input);
    }

    /// All that there is, once each and nothing else.
    fn holds(&self, topic: &str, numbers: std::ops::RangeInclusive<u32>) {
        let text = self.ok(&["consume", topic, "--from-beginning", "--until-end"], "");
        let mut found: Vec<_> = text.lines().collect();
        found.sort_unstable();
        let expected: Vec<_> = numbers.map(|n| format!("{n:05}")).collect();
        assert!(found == expected, "{} of {} records, from {:?}", found.len(), expected.len(), found.first());
    }

    /// Exit status and document.
    fn status(&self) -> (i32, Value) {
        let output = self.run(&["cluster", "status", "--all", "--json"], "");
        (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    fn until_well(&self) -> Value {
        eventually("the cluster is healthy", || {
            let (code, status) = self.status();
            (code == 0).then_some(status)
        })
    }

    fn leader(&self, topic: &str, partition: usize) -> i64 {
        let described: Value = serde_json::from_str(&self.ok(&["topic", "describe", topic, "--json"], "")).unwrap();
        described[0]["partitions"][partition]["leader"].as_i64().unwrap()
    }
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..LOOKS {
        if let Some(found) = look() {
            return found;
        }
        sleep(PAUSE);
    }
    panic!("it was not so for a minute: {what}");
}

const CREATE: [&str; 7] = ["topic", "create", "t", "--replication-factor", "3", "--config", "min.insync.replicas=2"];

#[test]
fn a_cluster_goes_on_without_one_of_its_brokers() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(dir.path());
    cluster.ok(&[&CREATE[..], &["--partitions", "6"]].concat(), "");
    cluster.produce("t", 1..=1000);
    let status = cluster.until_well();
    assert_eq!(status["quorum"]["voters"].as_array().unwrap().len(), 3, "{status}");
    assert_eq!(status["partitions"]["under_replicated"], 0);
    let leaders: i64 = status["brokers"].as_array().unwrap().iter().map(|b| b["leaders"].as_i64().unwrap()).sum();
    assert!(leaders >= 6, "{status}");

    let killed = cluster.leader("t", 0);
    cluster.kill(killed);
    cluster.produce("t", 1001..=2000);
    cluster.holds("t", 1..=2000);
    assert_ne!(cluster.leader("t", 0), killed);
    let group = ["consume", "t", "--group", "g", "--from-beginning", "--max-messages", "2000"];
    assert_eq!(cluster.ok(&group, "").lines().count(), 2000);

    let status = eventually("what is wrong is seen", || {
        let (code, status) = cluster.status();
        (code == 1 && status["partitions"]["under_replicated"].as_i64() >= Some(6)).then_some(status)
    });
    let problems = status["problems"].to_string();
    assert!(problems.contains(&format!("broker {killed} is fenced")), "{problems}");
    let broker = status["brokers"].as_array().unwrap().iter().find(|broker| broker["id"] == killed).unwrap();
    assert_eq!((&broker["is_fenced"], &broker["leaders"]), (&true.into(), &0.into()));
    assert!(broker["out_of_sync"].as_i64() >= Some(6), "{broker}");
    assert_eq!((&status["partitions"]["offline"], &status["partitions"]["under_min_isr"]), (&0.into(), &0.into()));
    let listed = cluster.ok(&["topic", "describe", "t", "--under-replicated-partitions"], "");
    assert_eq!(listed.lines().count(), 6, "{listed}");
    assert_eq!(cluster.ok(&["topic", "describe", "--unavailable-partitions"], ""), "");

    let _again = cluster.start_again(killed);
    cluster.until_well();
    cluster.produce("t", 2001..=2100);
    cluster.holds("t", 1..=2100);
    // What came back has all of it: whoever goes now, nothing is lost.
    cluster.kill(killed % 3 + 1);
    cluster.holds("t", 1..=2100);
    cluster.stop();
}

#[test]
fn a_cluster_that_was_stopped_starts_with_all_that_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(dir.path());
    cluster.ok(&[&CREATE[..], &["--partitions", "3"]].concat(), "");
    cluster.produce("t", 1..=500);
    let servers = cluster.servers.clone();
    cluster.stop();
    let cluster = Cluster::start(dir.path());
    assert_eq!(cluster.servers, servers);
    cluster.until_well();
    cluster.holds("t", 1..=500);
    cluster.produce("t", 501..=600);
    cluster.holds("t", 1..=600);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "files of the cluster under test")]
fn a_fourth_joins_and_serves() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(dir.path());
    let layout: Value = serde_json::from_slice(&std::fs::read(dir.path().join("cluster.json")).unwrap()).unwrap();
    let peer = format!("127.0.0.1:{}", layout[0]["inter_broker_port"]);
    let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [clients, brokers] = free.map(|listener| listener.local_addr().unwrap());
    let mut command = Command::new(PARSHALL);
    command.args(["serve", "--node-id", "4", "--rack", "r4", "--join", &peer, "--data-dir"]);
    command.arg(dir.path().join("broker-4")).args(SETTINGS).args(["--console", "off"]).env("PARSHALL_LOG", "warn");
    command.args(["--set", &format!("listeners=PLAINTEXT://{clients},CONTROLLER://{brokers}")]);
    command.args(["--set", "controller.listener.names=CONTROLLER"]);
    let _fourth = Killed(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    let status = eventually("it is there", || {
        let (code, status) = cluster.status();
        (code == 0 && status["brokers"].as_array()?.len() == 4).then_some(status)
    });
    assert_eq!((&status["brokers"][3]["id"], &status["brokers"][3]["rack"]), (&4.into(), &"r4".into()));
    assert_eq!(status["quorum"]["voters"].as_array().unwrap().len(), 3, "{status}");
    assert_eq!(status["quorum"]["observers"][0]["id"], 4, "{status}");
    cluster.ok(&["topic", "create", "t", "--replica-assignment", "4:1,4:2"], "");
    cluster.produce("t", 1..=100);
    cluster.holds("t", 1..=100);
    assert_eq!(cluster.leader("t", 1), 4);
}

#[test]
fn a_broker_with_a_new_disk_gets_everything_back() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(dir.path());
    cluster.ok(&[&CREATE[..], &["--partitions", "3"]].concat(), "");
    cluster.produce("t", 1..=500);
    cluster.until_well();
    cluster.kill(3);
    cluster.told("warning: broker 3 has ended");
    std::fs::remove_dir_all(dir.path().join("broker-3")).unwrap();
    cluster.produce("t", 501..=600);
    let _again = cluster.start_again(3);
    eventually("the new disk has the vote of the old one", || {
        let (code, status) = cluster.status();
        let voters: Vec<_> = status["quorum"]["voters"].as_array()?.iter().map(|voter| &voter["id"]).collect();
        (code == 0 && voters == [1, 2, 3]).then_some(())
    });
    cluster.kill(1);
    cluster.produce("t", 601..=700);
    cluster.holds("t", 1..=700);
}

fn recover(dir: &Path, broker: i64) -> (Option<i32>, String) {
    let mut command = Command::new(PARSHALL);
    command.args(["recover", "--confirm", "--data-dir"]).arg(dir.join(format!("broker-{broker}")));
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Flips a bit in the last batch of a broker's metadata log.
#[expect(clippy::disallowed_methods, reason = "files of the test")]
fn damage_metadata(dir: &Path, broker: i64) {
    let log = dir.join(format!("broker-{broker}/__cluster_metadata-0/00000000000000000000.log"));
    let mut bytes = std::fs::read(&log).unwrap();
    let last = bytes.len() - 5;
    bytes[last] ^= 4;
    std::fs::write(&log, bytes).unwrap();
}

#[test]
fn a_broker_whose_metadata_is_damaged_rejoins_the_others_while_they_are_a_quorum() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(dir.path());
    cluster.ok(&[&CREATE[..], &["--partitions", "3"]].concat(), "");
    cluster.produce("t", 1..=100);
    cluster.until_well();
    cluster.kill(3);
    cluster.told("warning: broker 3 has ended");
    damage_metadata(dir.path(), 3);
    assert_eq!(cluster.start_again(3).0.wait().unwrap().code(), Some(1));
    cluster.produce("t", 101..=200);
    let (code, said) = recover(dir.path(), 3);
    assert!(code == Some(0) && said.contains("goes on without this node"), "{said}");
    let _again = cluster.start_again(3);
    eventually("it votes again", || {
        let (code, status) = cluster.status();
        let voters: Vec<_> = status["quorum"]["voters"].as_array()?.iter().map(|voter| &voter["id"]).collect();
        (code == 0 && voters == [1, 2, 3]).then_some(())
    });
    cluster.produce("t", 201..=300);

    // Two at once: what they have is all that most voters have.
    for broker in [1, 2] {
        cluster.kill(broker);
        cluster.told(&format!("warning: broker {broker} has ended"));
        damage_metadata(dir.path(), broker);
    }
    let (code, said) = recover(dir.path(), 1);
    assert!(code == Some(1) && said.contains("most voters") && said.contains("--without-quorum"), "{said}");
    assert!(!dir.path().join("broker-1/__cluster_metadata-0.damaged.1").exists());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "files of the test")]
fn the_lab_measures_three_brokers_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = r#"
        name = "three"
        title = "Three"
        [defaults]
        duration_s = 2
        warm_up_s = 1
        rate_records_per_s = 2000
        partitions = 3
        record_size_bytes = 100
        producer.acks = "all"
        [[case]]
        id = "replicas"
        replicas = 3
        consumers = 1
        [[case]]
        id = "brokers"
        brokers_used = [1, 3]
    "#;
    std::fs::write(dir.path().join("three.toml"), scenario).unwrap();
    let args = ["lab", "run", "three.toml", "--brokers", "3", "--json", "--out", "results", "--data-dir", "."];
    let output = Command::new(PARSHALL).args(args).current_dir(dir.path()).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = results["cases"].as_array().unwrap();
    assert_eq!((cases.len(), &results["run"]["targets"][0]["brokers"]), (3, &3.into()));
    for case in cases {
        let measured = &case["outcome"]["measured"];
        assert!(measured["produced"]["records"].as_u64() >= Some(3900), "{case}");
        let brokers = measured["cost"]["brokers"].as_array().unwrap();
        assert!(brokers.len() == 3 && brokers.iter().all(|broker| broker["resident_bytes_max"].as_u64() > Some(0)));
    }
}
