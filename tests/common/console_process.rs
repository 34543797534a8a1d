//! `parshall console` as a process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::PARSHALL;

/// `parshall console`, until it is dropped. It keeps clusters in a directory of its own.
pub struct Console {
    process: Child,
    pub address: String,
    _state: Option<tempfile::TempDir>,
}

impl Console {
    pub fn start(flags: &[&str]) -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut console = Self::start_in(state.path(), flags);
        console._state = Some(state);
        console
    }

    pub fn start_in(state: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(PARSHALL);
        command.args(["console", "--console", "127.0.0.1:0"]).args(flags).env_remove("PARSHALL_BOOTSTRAP_SERVER");
        command.env("XDG_STATE_HOME", state);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().split_once("http://").unwrap_or_else(|| panic!("no console: {line:?}")).1;
        Self { address: address.to_owned(), process, _state: None }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
