//! `parshall cluster`, as far as one broker shows it, and the flags that make a broker a node.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

mod common;

use common::{Broker, PARSHALL, signal};
use serde_json::Value;

const PAUSE: Duration = Duration::from_millis(20);
/// Much longer than anything takes: the machine may be busy.
const LOOKS: usize = 1500;

fn parshall(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PARSHALL);
    command.args(args).current_dir(dir).env_remove("PARSHALL_BOOTSTRAP_SERVER").env_remove("PARSHALL_LOG");
    command.env("PARSHALL_CONSOLE", "off");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A process that does not outlive its test, whatever comes of that.
struct Running(Child);

impl Running {
    fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// Its exit code, when it has ended by itself, and the rest of its standard error.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.0.stderr.as_mut().unwrap().read_to_string(&mut text).unwrap();
        (self.0.wait().unwrap().code(), text)
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a process that says when it is ready, and where.
fn start(dir: &Path, args: &[&str]) -> (Running, String, String) {
    let mut process = Running::spawn(&mut parshall(dir, args));
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.split(" is ready on ").nth(1).and_then(|rest| rest.split(", data").next());
    let address = address.unwrap_or_else(|| panic!("not ready: {line:?}")).to_owned();
    (process, address, line)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if is_so() {
            return;
        }
        sleep(PAUSE);
    }
    panic!("it was not so for half a minute: {what}");
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The processes of the first brokers, of which the command has told on its standard error.
fn brokers<const N: usize>(process: &mut Running) -> [String; N] {
    let told = BufReader::new(process.stderr.as_mut().unwrap()).lines().map(Result::unwrap);
    let mut processes = told.filter_map(|line| Some(line.split(": process ").nth(1)?.split(',').next()?.to_owned()));
    [(); N].map(|()| processes.next().unwrap())
}

fn status(address: &str) -> (Option<i32>, String) {
    let output = parshall(Path::new("."), &["cluster", "status", "--bootstrap-server", address]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_cluster_says_where_it_is_and_stops_when_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["cluster", "start", "--nodes", "1", "--port", "0", "--data-dir", "new/c", "--set", "num.partitions=2"];
    let (process, first, line) = start(dir.path(), &args);
    assert!(line.ends_with(&format!(", data in {}\n", dir.path().join("new/c").display())), "{line}");
    let (code, text) = status(&first);
    assert!(code == Some(0) && text.starts_with("the cluster is healthy\n"), "{text}");
    signal(&process, "-TERM");
    let (code, text) = process.ended();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.ends_with("broker 1 stops\n"), "{text}");

    // The same command starts the same cluster.
    let (process, second, _) = start(dir.path(), &args);
    assert_eq!(first, second);
    signal(&process, "-INT");
    assert_eq!(process.ended().0, Some(0));
    let output = parshall(dir.path(), &["cluster", "start", "--nodes", "2", "--data-dir", "new/c"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("has 1 brokers; name another directory"), "{text}");
    let output = parshall(dir.path(), &["cluster", "start", "--secure", "--data-dir", "new/c"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("begun without --secure"), "{text}");
}

#[test]
fn its_brokers_do_not_outlive_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut process, address, _) = start(dir.path(), &["cluster", "start", "--nodes", "1", "--port", "0"]);
    assert!(TcpStream::connect(&address).is_ok());
    process.kill().unwrap();
    process.wait().unwrap();
    until("the broker has ended", || TcpStream::connect(&address).is_err());
}

#[test]
fn a_broker_that_cannot_start_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let failed = |args: &[&str]| {
        let output = parshall(dir.path(), args).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{text}");
        text.lines().last().unwrap().to_owned()
    };
    let last = failed(&["cluster", "start", "--nodes", "3", "--port", &port.to_string()]);
    let advice = "choose others with --port, for example --port 19092";
    assert_eq!(last, format!("error: port {port} is in use, perhaps by 'parshall serve': {advice}"));
    let last = failed(&["cluster", "start", "--nodes", "3", "--port", "0", "--console-port", &port.to_string()]);
    let advice = "choose others with --console-port, for example --console-port 19644";
    assert_eq!(last, format!("error: port {port} is in use: {advice}"));
    assert!(!dir.path().join("parshall-cluster").exists(), "nothing was begun");
    // What the command cannot look at before.
    let last = failed(&["cluster", "start", "--nodes", "3", "--port", "0", "--set", "num.partitions=-1"]);
    assert!(last.starts_with("error: broker "), "{last}");
    assert!(last.contains(" ended while it started (exit status: "), "{last}");
    // It has never run, and may get other ports.
    let args = ["cluster", "start", "--nodes", "1", "--port", "0"];
    let (process, ..) = start(dir.path(), &args);
    signal(&process, "-TERM");
    assert_eq!(process.ended().0, Some(0));
}

#[test]
fn a_broker_that_is_killed_can_be_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let (mut process, address, _) = start(dir.path(), &["cluster", "start", "--nodes", "1", "--port", "0"]);
    let [broker] = brokers(&mut process);
    assert!(Command::new("kill").args(["-9", &broker]).status().unwrap().success());
    let mut text = String::new();
    process.stderr.as_mut().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(1));
    assert!(text.contains("warning: broker 1 has ended (signal: 9 (SIGKILL)); start it again with: "), "{text}");
    assert!(text.ends_with("error: all brokers have ended; their data is still there\n"), "{text}");
    let again = text.lines().find_map(|line| line.split(" again with: ").nth(1)).unwrap();
    let words: Vec<_> = again.split(' ').collect();
    assert_eq!(words[0], PARSHALL);
    let (_process, second, _) = start(dir.path(), &words[1..]);
    assert_eq!(second, address);
}

#[test]
fn a_node_has_a_number_a_rack_and_a_directory_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let voters = format!("7@127.0.0.1:{}", free_port());
    let args = ["serve", "--node-id", "7", "--controller-quorum-voters", &voters, "--rack", "r1"];
    let (_process, address, line) = start(dir.path(), &[&args[..], &["--listen", "127.0.0.1:0"]].concat());
    assert!(line.ends_with(", data in ./parshall-data-7\n"), "{line}");
    let described =
        parshall(dir.path(), &["cluster", "status", "--json", "--bootstrap-server", &address]).output().unwrap();
    let described: Value = serde_json::from_slice(&described.stdout).unwrap();
    let [broker] = &described["brokers"].as_array().unwrap()[..] else { panic!("{described}") };
    assert_eq!((&broker["id"], &broker["rack"]), (&7.into(), &"r1".into()));
}

#[test]
fn a_node_that_waits_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    // The other one is not there.
    let voters = format!("1@127.0.0.1:{},2@127.0.0.1:1", free_port());
    let args = ["serve", "--node-id", "1", "--controller-quorum-voters", &voters];
    let mut command = parshall(dir.path(), &args);
    let mut process = Running::spawn(command.env("PARSHALL_LISTENERS", "PLAINTEXT://127.0.0.1:0"));
    until("it has begun", || dir.path().join("parshall-data-1").exists());
    signal(&process, "-TERM");
    until("it has ended", || process.try_wait().unwrap().is_some());
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

#[test]
fn what_is_wrong_is_in_the_first_line_and_the_exit_status() {
    let broker = Broker::start();
    broker.ok(&["topic", "create", "fine", "--partitions", "3"]);
    let (code, text) = status(&broker.address);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("\npartitions: 3 in 1 topic\n  0 offline, 0 under min ISR, 3 at min ISR, "), "{text}");
    broker.ok(&["topic", "create", "short", "--partitions", "30", "--config", "min.insync.replicas=2"]);
    let (code, text) = status(&broker.address);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("UNHEALTHY: 30 partitions are under min ISR\n"), "{text}");
    assert!(text.ends_with("... and 10 more; --all shows them\n"), "{text}");
    let output = broker.run(&["cluster", "status", "--all", "--json"], "");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &json["is_healthy"]), (Some(1), &false.into()));
    assert_eq!(json["listed"].as_array().unwrap().len(), 30);
    assert_eq!(json["listed"][0]["states"][0], "under min ISR");
    assert_eq!((&json["quorum"]["leader"], &json["brokers"][0]["leaders"]), (&1.into(), &33.into()));
}

#[test]
fn a_node_that_has_left_for_good_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut process, address, _) = start(dir.path(), &["cluster", "start", "--nodes", "3", "--port", "0"]);
    let [_, _, third] = brokers(&mut process);
    let run = |args: &[&str]| {
        let output = parshall(dir.path(), &[args, &["--bootstrap-server", &address]].concat()).output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code(), out, err)
    };
    let fails = |args: &[&str], expected: &str| {
        let (code, _, text) = run(args);
        assert_eq!((code, text), (Some(1), format!("error: {expected}\n")));
    };
    assert_eq!(run(&["topic", "create", "t", "--partitions", "1", "--replication-factor", "3"]).0, Some(0));
    fails(&["cluster", "remove-node", "3"], "node 3 runs, or is not fenced yet: stop it first");
    assert!(Command::new("kill").args(["-9", &third]).status().unwrap().success());
    until("node 3 is fenced", || status(&address).1.contains("broker 3 is fenced"));
    fails(
        &["cluster", "remove-node", "3"],
        "node 3 has 1 replica: move them to other nodes first, or name --leave-replicas",
    );
    let (code, text, _) = run(&["cluster", "remove-node", "3", "--leave-replicas"]);
    assert_eq!((code, &*text), (Some(0), "node 3: its vote is removed, its registration is removed\n"));
    fails(
        &["cluster", "remove-node", "3"],
        "there is no node 3 in this cluster; 'parshall cluster status' lists its nodes",
    );
    let (_, text) = status(&address);
    assert!(text.starts_with("UNHEALTHY: 1 partition is under-replicated\n"), "{text}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test damages files")]
fn replicas_that_differ_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["cluster", "start", "--nodes", "2", "--port", "0", "--data-dir", "c"];
    let (mut process, address, _) = start(dir.path(), &flags);
    let [_, second] = brokers(&mut process);
    let run = |args: &[&str]| {
        let output = parshall(dir.path(), &[args, &["--bootstrap-server", &address]].concat()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for topic in ["plain", "compacted"] {
        run(&["topic", "create", topic, "--replica-assignment", "1:2", "--config", "cleanup.policy=compact"]);
        for value in ["one", "two", "three"] {
            assert_eq!(run(&["produce", topic, "--key", value, "--value", value]).0, Some(0));
        }
    }
    run(&["config", "alter", "topic", "plain", "--delete", "cleanup.policy"]);
    let verify = ["partition", "verify-replicas"];
    let (code, text) = run(&[&verify[..], &["plain", "compacted:0"]].concat());
    let line = |topic| format!("{topic}-0  offsets 0 to 3, 3 batches, leader 1: alike on 2\n");
    assert_eq!((code, text), (Some(0), line("compacted") + &line("plain")));
    let (_, text) = run(&[&verify[..], &["plain", "--last", "1", "--json"]].concat());
    let verified: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&verified[0]["from"], &verified[0]["to"], &verified[0]["batches"]), (&2.into(), &3.into(), &1.into()));

    let log = dir.path().join("c/broker-2/plain-0/00000000000000000000.log");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[70] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let (code, text) = run(&[&verify[..], &["plain", "compacted"]].concat());
    assert_eq!(code, Some(1));
    assert!(text.contains("plain-0  broker 2: what is at offset 0 is damaged"), "{text}");
    assert!(text.contains(&line("compacted")), "{text}");

    assert!(Command::new("kill").args(["-9", &second]).status().unwrap().success());
    let (code, text) = run(&[&verify[..], &["compacted"]].concat());
    assert!(code == Some(1) && text.contains("compacted-0  broker 2: cannot connect to "), "{text}");
}

/// The file that Apache Kafka ships, with ports and a directory of this test.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test has files")]
fn a_broker_starts_with_kafkas_server_properties() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "# The role of this server\nprocess.roles=broker,controller\nnode.id = 5\n\
         controller.quorum.bootstrap.servers=localhost:{port}\n\
         listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}\ninter.broker.listener.name=PLAINTEXT\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\nnum.network.threads=3\n\
         log.dirs={dir}/data\nnum.partitions=1\nnum.partitions=4\nlog.retention.hours=168\n",
        port = free_port(),
        dir = dir.path().display(),
    );
    std::fs::write(dir.path().join("server.properties"), text).unwrap();
    let (_process, address, line) = start(dir.path(), &["serve", "--config", "server.properties"]);
    assert!(line.contains(&format!("data in {}/data", dir.path().display())), "{line}");
    let args = ["config", "describe", "broker", "5", "--all", "--bootstrap-server", &address];
    let text = String::from_utf8(parshall(dir.path(), &args).output().unwrap().stdout).unwrap();
    assert!(text.contains("num.partitions=4"), "the later one counts: {text}");
}
