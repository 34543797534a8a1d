//! The log of a broker: which lines there are, in which form, and that both can be changed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};

mod common;

use common::PARSHALL;
use serde_json::Value;

/// A broker whose log is read.
struct Broker {
    process: Child,
    address: String,
    log: BufReader<ChildStderr>,
    data: tempfile::TempDir,
}

impl Broker {
    fn start(environment: &[(&str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), environment)
    }

    fn start_in(data: tempfile::TempDir, environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(PARSHALL);
        command.args(["serve", "--console", "off", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data.path());
        command.env_remove("PARSHALL_LOG").env_remove("PARSHALL_LOG_FORMAT").envs(environment.iter().copied());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.split(" is ready on ").nth(1).and_then(|rest| rest.split(',').next());
        let address = address.unwrap_or_else(|| panic!("not ready: {line:?}")).to_owned();
        Self { process, address, log, data }
    }

    /// Lines up to the first that has a mark.
    fn until(&mut self, mark: &str) -> Vec<String> {
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.contains(mark)) {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the log ended without {mark}: {lines:?}");
            lines.push(line);
        }
        lines
    }

    /// Connects, and closes the connection again.
    fn visit(&self) {
        TcpStream::connect(&self.address).unwrap();
    }

    /// Has the broker close a connection that does not speak Kafka.
    fn offend(&self) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        // It closes with bytes unread, which may be a reset.
        let _ = stream.read_to_end(&mut Vec::new());
    }

    fn config(&self, args: &[&str]) -> (Option<i32>, String) {
        self.run(&[&["config"], args].concat())
    }

    fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(PARSHALL);
        command.args(args).args(["--bootstrap-server", &self.address]).env_remove("PARSHALL_LOG");
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    /// Stops it cleanly, and returns the rest of its log.
    fn stop(&mut self) -> String {
        common::signal(&self.process, "-TERM");
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        assert!(self.process.wait().unwrap().success(), "{rest}");
        rest
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn levels_are_changed_while_it_runs() {
    let mut broker = Broker::start(&[("PARSHALL_LOG", "warn,coordinator=trace")]);
    let described = broker.config(&["describe", "broker-logger", "1"]).1;
    for line in ["  coordinator=TRACE sens", "  broker.net=WARN sens", "  root=WARN sens"] {
        assert!(described.contains(line), "{described}");
    }
    let alter = |broker: &Broker, args: &[&str]| broker.config(&[&["alter", "broker-logger", "1"], args].concat());
    let done = (Some(0), "Completed updating config for broker-logger 1.\n".to_owned());
    assert_eq!(alter(&broker, &["--set", "broker.net=DEBUG"]), done);
    broker.visit();
    broker.until("connection closed");
    let (code, refused) = alter(&broker, &["--set", "broker.nets=DEBUG"]);
    assert!(code == Some(1) && refused.contains("Logger broker.nets does not exist!"), "{refused}");

    assert_eq!(alter(&broker, &["--set", "root=INFO", "--set", "parshall=ERROR", "--delete", "broker.net"]), done);
    broker.until("is that of the one above it");
    broker.visit();
    broker.offend();
    let lines = broker.until("an HTTP request on the Kafka port");
    assert!(lines.iter().all(|line| line.contains(" WARN ")), "{lines:?}");
    let rest = broker.stop();
    assert!(!rest.contains("SIGTERM"), "the binary's own line has the level INFO: {rest}");
}

#[test]
fn lines_can_be_objects() {
    let mut broker = Broker::start(&[("PARSHALL_LOG_FORMAT", "json"), ("PARSHALL_LOG", "debug")]);
    broker.offend();
    let lines = broker.until("an HTTP request on the Kafka port");
    let objects: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = objects.last().unwrap();
    assert_eq!((&last["level"], &last["target"]), (&"WARN".into(), &"broker::net".into()));
    assert!(last["timestamp"].is_string() && last["reason"].is_string(), "{last}");
    assert!(last["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{last}");
}

#[test]
fn a_peer_has_a_few_lines_a_minute() {
    let mut broker = Broker::start(&[("PARSHALL_LOG", "warn")]);
    for _ in 0..50 {
        broker.offend();
    }
    let log = broker.stop();
    let lines = log.lines().filter(|line| line.contains("HTTP")).count();
    assert!((1..=10).contains(&lines), "{log}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test damages files")]
fn a_batch_that_cannot_be_read_has_a_few_lines_a_minute() {
    let mut broker = Broker::start(&[]);
    let produced = ["perf", "produce", "--topic", "numbers", "--num-records", "10", "--record-size", "100"];
    assert_eq!(broker.run(&["topic", "create", "numbers"]).0, Some(0));
    assert_eq!(broker.run(&produced).0, Some(0));
    broker.stop();
    let segment = broker.data.path().join("numbers-0/00000000000000000000.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&segment, bytes).unwrap();

    let data = std::mem::replace(&mut broker.data, tempfile::tempdir().unwrap());
    let mut broker = Broker::start_in(data, &[("PARSHALL_LOG", "warn")]);
    for _ in 0..30 {
        let (code, told) = broker.run(&["consume", "numbers", "--from-beginning"]);
        assert!(code == Some(1) && told.contains("CORRUPT_MESSAGE"), "{told}");
    }
    let log = broker.stop();
    let lines = log.lines().filter(|line| line.contains("stored batches cannot be read")).count();
    assert!((1..=10).contains(&lines), "{log}");
}

#[test]
fn a_level_that_does_not_exist_is_refused() {
    for (name, value, told) in [
        ("PARSHALL_LOG", "info,broker=loud", "\"broker=loud\" is not off"),
        ("PARSHALL_LOG_FORMAT", "xml", "text or json"),
    ] {
        let output = Command::new(PARSHALL).args(["topic", "list"]).env(name, value).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(told), "{text}");
    }
}
