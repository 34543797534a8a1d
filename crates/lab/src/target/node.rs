//! One broker as a child process: what it prints, and its end.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::{Instant, sleep};

use super::TargetError;

pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What a child process reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Nothing,
    /// A pipe that ends with this process, whatever ends it: a child that watches it does not outlive us.
    UntilWeEnd,
}

/// A child process that is killed when it is dropped, with all that it started.
#[derive(Debug)]
pub(super) struct Node {
    /// For messages: "the broker".
    what: String,
    child: Child,
    /// All that it prints goes here.
    log: PathBuf,
}

impl Node {
    pub(super) fn spawn(what: String, mut command: Command, input: Input, log: PathBuf) -> Result<Self, TargetError> {
        let open = || {
            let file = File::create(&log)?;
            Ok((file.try_clone()?, file))
        };
        let (stdout, stderr) = open().map_err(|error| TargetError::Data { dir: log.clone(), error })?;
        let stdin = if input == Input::Nothing { Stdio::null() } else { Stdio::piped() };
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        // A group of its own: the terminal's Ctrl-C is not for it.
        command.process_group(0);
        let child =
            command.spawn().map_err(|error| TargetError::Start { program: command.get_program().into(), error })?;
        Ok(Self { what, child, log })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What `found` finds in the whole lines that it has printed.
    pub(super) fn find_printed<T>(&self, found: impl Fn(&str) -> Option<T>) -> Option<T> {
        let printed = self.printed();
        // A line that is not complete may still grow.
        let complete = printed.rfind('\n').map_or(0, |end| end + 1);
        found(&printed[..complete])
    }

    /// Waits for a process that ends by itself, and must end well.
    pub(super) async fn until_done(&mut self, limit: Duration) -> Result<(), TargetError> {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                _ => self.must_run()?,
            }
            if Instant::now() >= deadline {
                return Err(self.not_ready(limit));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    pub(super) fn must_run(&mut self) -> Result<(), TargetError> {
        let status = match self.child.try_wait() {
            Ok(None) => return Ok(()),
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Err(TargetError::Died { what: self.what.clone(), status, reason: self.reason() })
    }

    pub(super) fn not_ready(&self, limit: Duration) -> TargetError {
        TargetError::NotReady { what: self.what.clone(), limit_s: limit.as_secs(), reason: self.reason() }
    }

    pub(super) fn not_together(&self, seen: usize, brokers: usize, limit: Duration) -> TargetError {
        TargetError::NotTogether { what: self.what.clone(), seen, brokers, limit_s: limit.as_secs() }
    }

    fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The line of what it has printed that says best what is wrong.
    pub(super) fn reason(&self) -> String {
        let printed = self.printed();
        reason(&printed).unwrap_or("it printed nothing").to_owned()
    }

    /// Asks it to stop.
    pub(super) fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// What happens when this process has ended.
    #[cfg(test)]
    pub(super) fn end_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for its end, until a point in time.
    pub(super) async fn until_ended(&mut self, deadline: Instant) {
        while self.is_running() && Instant::now() < deadline {
            sleep(POLL_INTERVAL).await;
        }
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// How it has ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn signal(&mut self, signal: Signal) {
        // The id of a child that has been waited for may belong to another process by now.
        let group = self.is_running().then(|| i32::try_from(self.child.id()).ok()).flatten();
        if let Some(group) = group.and_then(Pid::from_raw) {
            // It fails if the process has ended.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        // Does not take long after that signal.
        let _ = self.child.wait();
    }
}

/// The line that says best what went wrong: the first error of a Java program, whose last line is often a place in its
/// code; of others the last line.
fn reason(printed: &str) -> Option<&str> {
    let is_error = |line: &&str| {
        line.contains("] ERROR ") || line.starts_with("Error: ") || line.starts_with("Exception in thread ")
    };
    let last = || printed.lines().rfind(|line| !line.trim().is_empty());
    printed.lines().find(is_error).or_else(last).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_tells_most_is_found() {
        assert_eq!(reason("WARN slow disk\nerror: no such setting\n\n"), Some("error: no such setting"));
        let java = "Exception in thread \"main\" SomeException: Invalid value abc\n\tat Some.main(Some.java)\n";
        assert_eq!(reason(java), java.lines().next());
        let log = "[10:00] INFO starts (a.B)\n[10:01] ERROR the port is taken (a.C)\n[10:02] INFO ends (a.B)\n";
        assert_eq!(reason(log), Some("[10:01] ERROR the port is taken (a.C)"));
        assert_eq!(reason("\n"), None);
    }
}
