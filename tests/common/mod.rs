//! A broker of our own as a process, and commands against it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

pub const PARSHALL: &str = env!("CARGO_BIN_EXE_parshall");

/// A broker on a free port. It is killed, and its data removed, at the end of the test.
pub struct Broker {
    pub process: Child,
    pub address: String,
    pub data_dir: tempfile::TempDir,
    /// Where its console answers, if it has one.
    pub console: Option<String>,
}

impl Broker {
    pub fn start() -> Self {
        Self::start_with(&["--console", "off"])
    }

    /// One with flags of its own.
    pub fn start_with(flags: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), flags)
    }

    /// One with data from before.
    pub fn start_in(data_dir: tempfile::TempDir, flags: &[&str]) -> Self {
        let (process, line) = Self::serve(data_dir.path(), "127.0.0.1:0", flags);
        let console = line.trim_end().split(", console on http://").nth(1).map(str::to_owned);
        Self { process, address: address(&line), data_dir, console }
    }

    /// Starts the process and waits for the line that says that it is ready.
    fn serve(data_dir: &Path, listen: &str, flags: &[&str]) -> (Child, String) {
        let mut command = Command::new(PARSHALL);
        command.args([
            "serve",
            "--set",
            "offsets.topic.num.partitions=4",
            "--set",
            "group.initial.rebalance.delay.ms=0",
        ]);
        command.args(flags).args(["--listen", listen, "--data-dir"]).arg(data_dir).env("PARSHALL_LOG", "warn");
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(" is ready on "), "not ready: {line:?}");
        (process, line)
    }

    /// Kills it and starts it again, with the same data at the same address.
    pub fn kill_and_restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = Self::serve(self.data_dir.path(), &self.address, &["--console", "off"]).0;
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PARSHALL);
        command
            .args(args)
            .env("PARSHALL_BOOTSTRAP_SERVER", &self.address)
            .env_remove("PARSHALL_LOG")
            .env_remove("PARSHALL_COMMAND_CONFIG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str], input: &str) -> Output {
        let mut process = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = process.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let output = process.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }

    /// What a command prints that must succeed.
    pub fn ok(&self, args: &[&str]) -> String {
        self.ok_with(args, "")
    }

    pub fn ok_with(&self, args: &[&str], input: &str) -> String {
        let output = self.run(args, input);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The one line of a command that must fail.
    pub fn fails(&self, args: &[&str], input: &str) -> String {
        let output = self.run(args, input);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{args:?}: {text}");
        text
    }

    /// All values of a topic, sorted.
    pub fn values(&self, topic: &str) -> Vec<String> {
        let mut values: Vec<_> =
            self.ok(&["consume", topic, "--from-beginning", "--until-end"]).lines().map(str::to_owned).collect();
        values.sort();
        values
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Of the line that says that a broker is ready.
fn address(line: &str) -> String {
    let address = line.split(" is ready on ").nth(1).and_then(|rest| rest.split(',').next());
    address.unwrap_or_else(|| panic!("no address: {line:?}")).to_owned()
}

pub fn signal(process: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &process.id().to_string()]).status().unwrap().success());
}
