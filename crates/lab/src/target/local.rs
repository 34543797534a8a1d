//! Brokers of our own as child processes on loopback. The lab measures them, and `parshall cluster start` runs them for
//! trying things out.
//!
//! None of them outlives this process: they are killed when they are dropped, and stop by themselves when the pipe ends
//! that they read from. They do not get the terminal's Ctrl-C: who started them stops them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use client::Security;
use tokio::time::{Instant, sleep};

use super::loopback::{Ports, until_all_see_all};
use super::node::{Input, Node, POLL_INTERVAL};
use super::{TargetError, ready};

/// What is started.
#[derive(Clone, Debug)]
pub struct LocalSpec {
    /// `program serve` is a broker.
    pub program: PathBuf,
    /// Of each broker; their ids run from 1. A single broker gets no voters and may choose its port.
    pub ports: Vec<Ports>,
    /// Where the first broker shows its metrics; the others do behind it.
    pub console_port: Option<u16>,
    /// Where each broker has a directory for its data, and beside it a file for what it prints.
    pub dir: PathBuf,
    /// Of each broker.
    pub settings: Vec<(String, String)>,
    /// `None` is plain text.
    pub secured: Option<LocalSecurity>,
    /// Variables of the environment that they do not get.
    pub hidden_variables: Vec<OsString>,
    /// PARSHALL_LOG for them, where it is not that of this process.
    pub log_level: Option<&'static str>,
}

/// Brokers that ask who comes.
#[derive(Clone, Debug)]
pub struct LocalSecurity {
    /// What each broker is told of it, with where it listens for clients.
    pub flags: Vec<Vec<OsString>>,
    /// How they are connected to.
    pub client: Security,
}

/// One of the brokers.
#[derive(Clone, Debug)]
pub struct LocalBroker {
    pub id: usize,
    pub process: u32,
    /// Where clients reach it, once it is ready.
    pub address: String,
    /// "parshall 0.1.0", once it is ready.
    pub version: String,
    pub data_dir: PathBuf,
    /// What it prints.
    pub log: PathBuf,
    /// What starts it again, with the same data directory.
    pub command: Vec<OsString>,
}

/// Brokers that run.
#[derive(Debug)]
pub struct LocalCluster {
    brokers: Vec<LocalBroker>,
    /// In the order of `brokers`.
    nodes: Vec<Node>,
    /// How they are connected to.
    security: Security,
}

impl LocalSpec {
    /// Starts all of them, and waits for none: the first is ready when it has met most of the others.
    pub fn spawn(&self) -> Result<LocalCluster, TargetError> {
        fs::create_dir_all(&self.dir).map_err(|error| TargetError::Data { dir: self.dir.clone(), error })?;
        let security = self.secured.as_ref().map_or_else(Security::default, |secured| secured.client.clone());
        let mut cluster = LocalCluster { brokers: Vec::new(), nodes: Vec::new(), security };
        for (index, ports) in self.ports.iter().enumerate() {
            let id = index + 1;
            let data_dir = self.dir.join(format!("broker-{id}"));
            let log = self.dir.join(format!("broker-{id}.log"));
            let arguments = self.arguments(id, *ports, data_dir.as_os_str());
            let mut command = Command::new(&self.program);
            // First, so that it is no part of a restart.
            command.args(["serve", "--until-stdin-ends"]).args(&arguments);
            for name in &self.hidden_variables {
                command.env_remove(name);
            }
            if let Some(level) = self.log_level {
                command.env("PARSHALL_LOG", level);
            }
            let what = if self.ports.len() == 1 { "the broker".to_owned() } else { format!("broker {id}") };
            let node = Node::spawn(what, command, Input::UntilWeEnd, log.clone())?;
            let again = [self.program.clone().into_os_string(), "serve".into()];
            cluster.brokers.push(LocalBroker {
                id,
                process: node.id(),
                address: String::new(),
                version: String::new(),
                data_dir,
                log,
                command: again.into_iter().chain(arguments).collect(),
            });
            cluster.nodes.push(node);
        }
        Ok(cluster)
    }

    fn arguments(&self, id: usize, ports: Ports, data_dir: &OsStr) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        if self.ports.len() > 1 {
            let voter = |(index, ports): (usize, &Ports)| format!("{}@127.0.0.1:{}", index + 1, ports.brokers);
            let voters = self.ports.iter().enumerate().map(voter).collect::<Vec<_>>().join(",");
            arguments.extend(["--node-id".into(), id.to_string().into()]);
            arguments.extend(["--controller-quorum-voters".into(), voters.into()]);
        }
        match self.secured.as_ref().and_then(|secured| secured.flags.get(id - 1)) {
            Some(flags) => arguments.extend(flags.iter().cloned()),
            None => arguments.extend(["--listen".into(), format!("127.0.0.1:{}", ports.clients).into()]),
        }
        arguments.extend(["--data-dir".into(), data_dir.to_owned()]);
        let console_port = self.console_port.map(|first| usize::from(first) + id - 1);
        let console = console_port.map_or_else(|| "off".to_owned(), |port| format!("127.0.0.1:{port}"));
        arguments.extend(["--console".into(), console.into()]);
        for (name, value) in &self.settings {
            arguments.extend(["--set".into(), format!("{name}={value}").into()]);
        }
        arguments
    }
}

impl LocalCluster {
    /// Brokers that run, as far as is known.
    pub fn brokers(&self) -> &[LocalBroker] {
        &self.brokers
    }

    pub fn bootstrap_servers(&self) -> Vec<String> {
        self.brokers.iter().map(|broker| broker.address.clone()).collect()
    }

    pub(super) fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }

    /// Waits until all serve, and then until they know each other, for so long at most each. `show` is called for each
    /// that serves.
    pub async fn until_ready(
        &mut self,
        limit: Duration,
        mut show: impl FnMut(&LocalBroker),
    ) -> Result<(), TargetError> {
        let deadline = Instant::now() + limit;
        let mut waiting: Vec<_> = (0..self.nodes.len()).collect();
        while let Some(&first) = waiting.first() {
            let mut still_waiting = Vec::new();
            for index in waiting {
                match self.nodes[index].find_printed(ready) {
                    Some((version, address)) => {
                        let broker = &mut self.brokers[index];
                        (broker.version, broker.address) = (version, address);
                        show(broker);
                    }
                    None => still_waiting.push(index),
                }
            }
            waiting = still_waiting;
            if waiting.is_empty() {
                break;
            }
            for node in &mut self.nodes {
                node.must_run()?;
            }
            if Instant::now() >= deadline {
                return Err(self.nodes[first].not_ready(limit));
            }
            sleep(POLL_INTERVAL).await;
        }
        if self.nodes.len() > 1 {
            let bootstrap_servers = self.bootstrap_servers();
            until_all_see_all(&bootstrap_servers, &self.security, &mut self.nodes, limit).await?;
        }
        Ok(())
    }

    /// Brokers that have ended since the last call, with what is known of why.
    pub fn take_ended(&mut self) -> Vec<(LocalBroker, String)> {
        let mut ended = Vec::new();
        for index in (0..self.nodes.len()).rev() {
            if let Some(status) = self.nodes[index].ended() {
                let node = self.nodes.remove(index);
                let reason = match status.code() {
                    // A killed process had no time to log anything.
                    None => status.to_string(),
                    Some(_) => format!("{status}: {}", node.reason()),
                };
                ended.push((self.brokers.remove(index), reason));
            }
        }
        ended.reverse();
        ended
    }

    /// Stops one after the other, so that each can hand over what it leads, and kills brokers that take too long.
    /// `show` is called for each before its turn.
    pub async fn stop_in_turn(mut self, each_max: Duration, mut show: impl FnMut(&LocalBroker)) {
        for (broker, mut node) in self.brokers.drain(..).zip(self.nodes.drain(..)) {
            show(&broker);
            node.terminate();
            node.until_ended(Instant::now() + each_max).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(brokers: u16) -> LocalSpec {
        LocalSpec {
            program: "parshall".into(),
            ports: Ports::from(9092, brokers).unwrap(),
            console_port: None,
            dir: "data".into(),
            settings: vec![("num.partitions".to_owned(), "3".to_owned())],
            secured: None,
            hidden_variables: Vec::new(),
            log_level: None,
        }
    }

    fn arguments(brokers: u16, id: usize) -> String {
        let spec = spec(brokers);
        let arguments = spec.arguments(id, spec.ports[id - 1], OsStr::new("d"));
        arguments.iter().map(|argument| argument.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn brokers_are_told_of_each_other() {
        assert_eq!(
            arguments(3, 2),
            "--node-id 2 --controller-quorum-voters 1@127.0.0.1:9095,2@127.0.0.1:9096,3@127.0.0.1:9097 \
             --listen 127.0.0.1:9093 --data-dir d --console off --set num.partitions=3"
        );
        assert_eq!(arguments(1, 1), "--listen 127.0.0.1:9092 --data-dir d --console off --set num.partitions=3");
    }

    #[test]
    fn brokers_that_ask_who_comes_are_told_so_each() {
        let flags = vec![vec!["--config".into(), "a".into()], vec!["--config".into(), "b".into()]];
        let secured = Some(LocalSecurity { flags, client: Security::default() });
        let spec = LocalSpec { secured, ..spec(2) };
        let arguments = spec.arguments(2, spec.ports[1], OsStr::new("d"));
        let line = arguments.iter().map(|argument| argument.to_str().unwrap()).collect::<Vec<_>>().join(" ");
        assert!(line.contains(" --config b --data-dir d ") && !line.contains("--listen"), "{line}");
    }
}
