//! The cluster that a run measures: brokers that are started for it and stopped after it, or an existing cluster.
//!
//! A [`Target`] owns its processes and their data. Both are removed when it is stopped or dropped, however a run ends.
//! A kill of this process leaves the data behind, and Apache Kafka. Brokers do not get the terminal's Ctrl-C: the run
//! ends first.

mod affinity;
mod cgroup;
mod kafka;
mod limits;
mod local;
mod loopback;
mod node;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::{Broker, Client, ClientConfig, ClientError, Security};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::broker_size::BrokerSize;
use crate::metrics_endpoint::{EndpointError, Endpoints};
use crate::proc_probe::{ProcessSample, is_this_program, listener_of, sample_process};
use limits::Limits;
pub(crate) use limits::{Limited, Sizing};
pub use local::{LocalBroker, LocalCluster, LocalSecurity, LocalSpec};
pub use loopback::Ports;
use node::Node;

/// Environment variables with this prefix are configs of a broker; it gets those of the run and no others.
const OWN_VARIABLES: &str = "PARSHALL_";
const EMBEDDED_READY_MAX: Duration = Duration::from_secs(30);
/// The setting for what requests of a broker of ours may take, and which part of its memory it takes by itself.
const REQUESTS_MEMORY: &str = "queued.max.request.bytes";
const REQUESTS_PART: u64 = 8;
/// How long servers that should be running are tried.
const SERVERS_DEADLINE: Duration = Duration::from_secs(10);
/// How long brokers may take to stop before they are killed.
const STOP_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq)]
pub enum TargetSpec {
    /// Brokers of our own as child processes (`program serve`).
    Embedded { program: PathBuf, settings: Vec<(String, String)> },
    /// Apache Kafka from its distribution, or a directory with its jars. Each node is broker and controller.
    Kafka { home: PathBuf, settings: Vec<(String, String)> },
    /// An existing cluster. `metrics` are the URLs of its brokers' metrics, if they have any.
    Servers { bootstrap: Vec<String>, security: Security, metrics: Vec<String> },
}

/// A cluster that is ready.
#[derive(Debug)]
pub struct Target {
    /// "parshall", "kafka", or the servers.
    pub label: String,
    pub bootstrap_servers: Vec<String>,
    /// How to connect to them.
    pub security: Security,
    /// By the brokers' ids, as far as they run on this machine.
    pub processes: BTreeMap<i32, u32>,
    /// For example "Apache Kafka 4.3.1"; empty if unknown.
    pub version: String,
    /// Of brokers elsewhere.
    endpoints: Option<Endpoints>,
    // Before the directory: brokers that still run would write to it while it is removed.
    nodes: Vec<Node>,
    /// Where some case limits its brokers. Behind them: their groups are removed when they have ended.
    limits: Option<Limits>,
    dir: Option<TempDir>,
}

#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("cannot prepare the data of the brokers in {}: {error}", dir.display())]
    Data { dir: PathBuf, error: io::Error },
    #[error("cannot start {}: {error}", program.display())]
    Start { program: PathBuf, error: io::Error },
    #[error("the machines of the brokers cannot be limited: {0}")]
    Limits(io::Error),
    #[error("there is no Java at {}: set JAVA_HOME, or put java on the PATH", java.display())]
    NoJava { java: PathBuf },
    #[error("no Apache Kafka in {0}: there is neither {0}/libs/kafka_*.jar nor {0}/kafka_*.jar", home.display())]
    NoKafka { home: PathBuf },
    #[error("{what} ended while it started ({status}): {reason}")]
    Died { what: String, status: String, reason: String },
    #[error("{what} was not ready within {limit_s} s: {reason}")]
    NotReady { what: String, limit_s: u64, reason: String },
    #[error("{what} saw {seen} of {brokers} brokers after {limit_s} s")]
    NotTogether { what: String, seen: usize, brokers: usize, limit_s: u64 },
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl TargetSpec {
    /// What a target that is made of it is called.
    pub fn label(&self) -> String {
        match self {
            Self::Embedded { .. } => "parshall".to_owned(),
            Self::Kafka { .. } => "kafka".to_owned(),
            Self::Servers { bootstrap, .. } => bootstrap.join(","),
        }
    }

    /// What its brokers are told; nothing for those that run already.
    pub(crate) fn settings(&self) -> &[(String, String)] {
        match self {
            Self::Embedded { settings, .. } | Self::Kafka { settings, .. } => settings,
            Self::Servers { .. } => &[],
        }
    }
}

impl Target {
    /// Whether its brokers run on this machine, and so share its CPU and disk with the load.
    pub fn is_local(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Whether its brokers run on this machine, from the file of this program.
    pub(crate) fn is_this_program(&self) -> bool {
        self.is_local() && self.processes.values().all(|&pid| is_this_program(pid))
    }

    /// Returns when the brokers serve. Their data goes to a new directory in `data_parent`, or else where the system
    /// has its temporary files. Servers that run already have as many brokers as they have. Without `sizing` the
    /// machines of the brokers cannot be limited.
    pub(crate) async fn start(
        spec: &TargetSpec,
        brokers: u16,
        data_parent: Option<&Path>,
        sizing: Option<&Sizing>,
    ) -> Result<Self, TargetError> {
        match spec {
            TargetSpec::Embedded { program, settings } => {
                Self::embedded(program, settings, brokers, data_parent, sizing).await
            }
            TargetSpec::Kafka { home, settings } => kafka::start(home, settings, brokers, data_parent, sizing).await,
            TargetSpec::Servers { bootstrap, security, metrics } => {
                let servers = Self::servers(bootstrap, security, SERVERS_DEADLINE).await?;
                let has_endpoints = !metrics.is_empty();
                let endpoints = if has_endpoints { Some(Endpoints::start(metrics).await?) } else { None };
                Ok(Self { endpoints, ..servers })
            }
        }
    }

    /// The processes of its brokers, where they can be seen; `None` for one that has ended.
    pub(crate) fn sample_brokers(&self) -> Vec<Option<ProcessSample>> {
        match &self.endpoints {
            Some(endpoints) => endpoints.samples(),
            None => self.processes.values().map(|&pid| sample_process(pid).ok()).collect(),
        }
    }

    /// The ids of the brokers whose samples there are, in the same order.
    pub(crate) fn broker_ids(&self) -> Vec<Option<i32>> {
        match &self.endpoints {
            Some(endpoints) => endpoints.broker_ids().to_vec(),
            None => self.processes.keys().copied().map(Some).collect(),
        }
    }

    /// Whether its brokers were started for this run.
    pub(crate) fn is_started(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Gives each broker a machine of this size, in place of the one that it had. `None` where nothing can be limited.
    pub(crate) fn limit(&self, size: BrokerSize) -> io::Result<Option<Limited>> {
        self.limits.as_ref().map(|limits| limits.apply(size)).transpose()
    }

    /// For a client of its brokers.
    pub fn client_config(&self) -> ClientConfig {
        client_config(&self.bootstrap_servers, &self.security)
    }

    /// Asks the brokers to stop, kills brokers that take too long, and removes their data.
    pub async fn stop(mut self) {
        for node in &mut self.nodes {
            node.terminate();
        }
        let deadline = Instant::now() + STOP_MAX;
        for mut node in self.nodes.drain(..) {
            node.until_ended(deadline).await;
        }
        if let Some(dir) = self.dir.take() {
            // There may be much to remove.
            let removed = tokio::task::spawn_blocking(|| dir.close()).await;
            if let Ok(Err(error)) = removed {
                tracing::warn!(%error, "the data of the brokers cannot be removed");
            }
        }
    }

    async fn embedded(
        program: &Path,
        settings: &[(String, String)],
        brokers: u16,
        data_parent: Option<&Path>,
        sizing: Option<&Sizing>,
    ) -> Result<Self, TargetError> {
        let dir = data_dir(data_parent)?;
        let ports = match brokers {
            1 => vec![Ports { clients: 0, brokers: 0 }],
            _ => Ports::free(brokers).map_err(|error| TargetError::Data { dir: dir.path().to_owned(), error })?,
        };
        // As with Apache Kafka's brokers. A setting that comes later wins.
        let own = [
            ("auto.create.topics.enable", Some("false".to_owned())),
            ("group.initial.rebalance.delay.ms", Some("0".to_owned())),
            (REQUESTS_MEMORY, requests_memory(sizing)),
        ];
        let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let spec = LocalSpec {
            program: program.to_owned(),
            ports,
            console_port: None,
            dir: dir.path().to_owned(),
            settings: own.chain(settings.iter().cloned()).collect(),
            secured: None,
            hidden_variables: own_variables(std::env::vars_os().map(|(name, _)| name)).collect(),
            log_level: Some("warn"),
        };
        let mut cluster = spec.spawn()?;
        let processes = by_id(cluster.brokers().iter().map(|broker| broker.process));
        let limits = sizing.map(|sizing| sizing.limits(processes.values().copied())).transpose();
        let limits = limits.map_err(TargetError::Limits)?;
        cluster.until_ready(EMBEDDED_READY_MAX, |_| {}).await?;
        Ok(Self {
            label: "parshall".to_owned(),
            bootstrap_servers: cluster.bootstrap_servers(),
            security: Security::default(),
            processes,
            version: cluster.brokers().first().map(|broker| broker.version.clone()).unwrap_or_default(),
            endpoints: None,
            nodes: cluster.into_nodes(),
            limits,
            dir: Some(dir),
        })
    }

    async fn servers(bootstrap: &[String], security: &Security, deadline: Duration) -> Result<Self, TargetError> {
        let config = ClientConfig { deadline, ..client_config(bootstrap, security) };
        let cluster = Client::new(config).cluster().await?;
        let here = cluster.brokers.values().filter(|broker| is_here(broker));
        let process = |broker: &Broker| Some((broker.id, listener_of(u16::try_from(broker.port).ok()?)?));
        Ok(Self {
            label: bootstrap.join(","),
            bootstrap_servers: bootstrap.to_vec(),
            security: security.clone(),
            processes: here.filter_map(process).collect(),
            version: String::new(),
            endpoints: None,
            nodes: Vec::new(),
            limits: None,
            dir: None,
        })
    }
}

/// Of brokers that were started: their ids run from 1.
fn by_id(processes: impl Iterator<Item = u32>) -> BTreeMap<i32, u32> {
    (1..).zip(processes).collect()
}

fn client_config(bootstrap: &[String], security: &Security) -> ClientConfig {
    let mut config = ClientConfig::new(bootstrap.to_vec());
    config.connection.security = security.clone();
    config
}

/// What our brokers take by themselves is a part of the memory that they find when they start, before a case limits it.
fn requests_memory(sizing: Option<&Sizing>) -> Option<String> {
    Some((sizing?.memory_min?.0 / REQUESTS_PART).to_string())
}

/// A new directory for all that the brokers write.
fn data_dir(parent: Option<&Path>) -> Result<TempDir, TargetError> {
    let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
    let dir = tempfile::Builder::new().prefix("parshall-lab-").tempdir_in(&parent);
    dir.map_err(|error| TargetError::Data { dir: parent, error })
}

fn own_variables(names: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    names.filter(|name| name.as_encoded_bytes().starts_with(OWN_VARIABLES.as_bytes()))
}

/// Version and first address of a line like "parshall 0.1.0 is ready on 127.0.0.1:9092, data in /data".
fn ready(printed: &str) -> Option<(String, String)> {
    let (version, rest) = printed.lines().find_map(|line| line.split_once(" is ready on "))?;
    let (address, _) = rest.split_once(',')?;
    Some((version.to_owned(), address.to_owned()))
}

/// Whether a broker's address leads to this machine.
fn is_here(broker: &Broker) -> bool {
    broker.host == "localhost" || broker.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// A program for a broker, and the directory for its data.
    fn program(script: &str) -> (TempDir, TargetSpec) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        let source = dir.path().join("source");
        fs::write(&source, format!("#!/bin/sh\n{script}\n")).unwrap();
        // Another process makes the copy: a child of another test could inherit our open file for a moment, and a
        // program that is open for writing cannot be run.
        let installed = Command::new("install").args(["-m", "755"]).args([&source, &program]).status().unwrap();
        assert!(installed.success());
        let settings = vec![("num.partitions".to_owned(), "3".to_owned())];
        (dir, TargetSpec::Embedded { program, settings })
    }

    const READY: &str = "\
        [ \"$1 $2 $5\" = 'serve --until-stdin-ends --data-dir' ] || exit 9\n\
        mkdir \"$6\"; echo \"$@\" >\"$6/arguments\"; echo $PARSHALL_LOG >\"$6/log\"\n\
        echo 'something else'; echo \"parshall 9.8.7 is ready on 127.0.0.1:4711, data in $6\"\n";

    fn children(parent: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect()
    }

    fn is_running(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    #[tokio::test]
    async fn a_broker_is_started_and_stopped() {
        let (dir, spec) = program(&format!("{READY}sleep 60 & wait"));
        let target = Target::start(&spec, 1, Some(dir.path()), None).await.unwrap();
        assert_eq!((target.label.as_str(), target.version.as_str()), ("parshall", "parshall 9.8.7"));
        assert_eq!(target.bootstrap_servers, ["127.0.0.1:4711"]);
        let pid = target.processes[&1];
        assert!(is_running(pid));
        let [data] = &children(dir.path())[..] else { panic!("{:?}", children(dir.path())) };
        let arguments = fs::read_to_string(data.join("broker-1/arguments")).unwrap();
        let settings =
            "--set auto.create.topics.enable=false --set group.initial.rebalance.delay.ms=0 --set num.partitions=3\n";
        assert!(arguments.ends_with(settings), "{arguments}");
        assert_eq!(fs::read_to_string(data.join("broker-1/log")).unwrap(), "warn\n");
        assert!(fs::read_to_string(data.join("broker-1.log")).unwrap().contains("something else"));
        target.stop().await;
        assert!(!is_running(pid));
        assert!(children(dir.path()).is_empty());
    }

    #[tokio::test]
    async fn brokers_end_with_the_pipe_that_they_read_from() {
        let (dir, spec) = program(&format!("{READY}exec cat"));
        let mut target = Target::start(&spec, 1, Some(dir.path()), None).await.unwrap();
        let node = &mut target.nodes[0];
        assert!(node.ended().is_none());
        node.end_input();
        node.until_ended(Instant::now() + STOP_MAX).await;
        assert!(node.ended().unwrap().success());
    }

    #[tokio::test]
    async fn dropping_it_kills_and_removes_too() {
        // It does not care for SIGTERM.
        let (dir, spec) = program(&format!("trap '' TERM\n{READY}sleep 60 & wait"));
        let target = Target::start(&spec, 1, Some(dir.path()), None).await.unwrap();
        let pid = target.processes[&1];
        drop(target);
        assert!(!is_running(pid));
        assert!(children(dir.path()).is_empty());
    }

    #[tokio::test]
    async fn what_cannot_start_says_why() {
        let (dir, spec) = program("echo 'first' >&2; echo 'the disk is on fire' >&2; exit 3");
        let error = Target::start(&spec, 1, Some(dir.path()), None).await.unwrap_err();
        assert_eq!(error.to_string(), "the broker ended while it started (exit status: 3): the disk is on fire");
        assert!(children(dir.path()).is_empty());

        // The others are not waited for.
        let (dir, spec) = program("[ $4 = 2 ] && { echo 'error: no room' >&2; exit 1; }; sleep 60 & wait");
        let error = Target::start(&spec, 3, Some(dir.path()), None).await.unwrap_err();
        assert_eq!(error.to_string(), "broker 2 ended while it started (exit status: 1): error: no room");
        assert!(children(dir.path()).is_empty());

        let error = Target::start(&spec, 1, Some(&dir.path().join("missing")), None).await.unwrap_err();
        assert!(matches!(error, TargetError::Data { .. }), "{error}");
        let spec = TargetSpec::Embedded { program: dir.path().join("missing"), settings: Vec::new() };
        let error = Target::start(&spec, 1, None, None).await.unwrap_err();
        assert!(matches!(error, TargetError::Start { .. }), "{error}");
    }

    #[tokio::test]
    async fn servers_must_be_there() {
        let error = Target::servers(&["127.0.0.1:1".to_owned()], &Security::default(), Duration::from_millis(10))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("cannot connect"), "{error}");
    }

    #[test]
    fn only_loopback_addresses_are_here() {
        let broker = |host: &str| Broker { id: 1, host: host.to_owned(), port: 9092, rack: None };
        assert!(["127.0.0.1", "127.0.0.2", "::1", "localhost"].iter().all(|host| is_here(&broker(host))));
        assert!(!["10.0.0.1", "kafka-1", ""].iter().any(|host| is_here(&broker(host))));
    }

    #[test]
    fn settings_of_the_environment_stay_outside() {
        let names = ["PATH", "PARSHALL_NUM_PARTITIONS", "PARSHALL", "MY_PARSHALL_X"].map(OsString::from);
        assert_eq!(own_variables(names.into_iter()).collect::<Vec<_>>(), ["PARSHALL_NUM_PARTITIONS"]);
    }
}
