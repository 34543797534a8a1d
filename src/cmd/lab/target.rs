//! What a run measures: flags that name it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::ValueEnum;
use client::Security;
use lab::TargetSpec;

use crate::cmd::args::quoted;
use crate::cmd::failure::Usage;
use crate::cmd::{args, properties};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Targets {
    /// What is measured, as often as needed: brokers of our own that are started for it, or Apache Kafka [default:
    /// embedded]
    #[arg(long, value_enum, value_name = "embedded|kafka", hide_possible_values = true)]
    target: Vec<Kind>,
    /// A cluster that runs already, as HOST:PORT,HOST:PORT; as often as there are clusters
    #[arg(long, value_name = "SERVERS")]
    bootstrap_server: Vec<String>,
    /// Where a broker of that cluster publishes its metrics for Prometheus, as often as it has brokers: their CPU and
    /// memory are read there
    #[arg(long, value_name = "URL", requires = "bootstrap_server")]
    metrics: Vec<String>,
    /// A properties file of Kafka's clients for clusters that run already: security.protocol, sasl.jaas.config ...
    #[arg(long, value_name = "FILE", env = "PARSHALL_COMMAND_CONFIG", hide_env_values = true)]
    command_config: Option<PathBuf>,
    /// Apache Kafka's distribution, or a directory with its jars
    #[arg(long, value_name = "DIR", env = "KAFKA_HOME", hide_env_values = true)]
    kafka_home: Option<PathBuf>,
    /// Brokers of each target that is started
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=99))]
    brokers: u16,
    /// A setting of each broker that is started, as often as needed
    #[arg(long = "broker-set", value_name = "NAME=VALUE", value_parser = args::pair)]
    broker_set: Vec<(String, String)>,
    /// Where brokers that are started keep their data meanwhile; the system's place for temporary files otherwise
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Embedded,
    Kafka,
}

impl Targets {
    pub(super) fn specs(&self) -> Result<Vec<TargetSpec>> {
        let mut specs = Vec::new();
        let is_default = self.target.is_empty() && self.bootstrap_server.is_empty();
        for kind in self.target.iter().copied().chain(is_default.then_some(Kind::Embedded)) {
            specs.push(match kind {
                Kind::Embedded => {
                    let program = std::env::current_exe().context("cannot find this program's own file")?;
                    TargetSpec::Embedded { program, settings: self.broker_set.clone() }
                }
                Kind::Kafka => {
                    let home = self.kafka_home.clone().ok_or_else(|| {
                        Usage("--target kafka needs --kafka-home, the directory of Apache Kafka".to_owned())
                    })?;
                    TargetSpec::Kafka { home, settings: self.broker_set.clone() }
                }
            });
        }
        let security = match self.bootstrap_server.is_empty() {
            true => Security::default(),
            false => properties::security_of(self.command_config.as_deref())?,
        };
        if self.bootstrap_server.len() > 1 && !self.metrics.is_empty() {
            return Err(Usage("--metrics goes with one --bootstrap-server".to_owned()).into());
        }
        for servers in &self.bootstrap_server {
            let servers =
                servers.split(',').map(|server| client::bootstrap_server(server.trim())).collect::<Result<_, _>>();
            let (security, metrics) = (security.clone(), self.metrics.clone());
            specs.push(TargetSpec::Servers { bootstrap: servers.map_err(Usage)?, security, metrics });
        }
        Ok(specs)
    }

    pub(super) fn brokers(&self) -> u16 {
        self.brokers
    }

    pub(super) fn data_dir(&self) -> Option<PathBuf> {
        self.data_dir.clone()
    }

    /// The flags again, for a command that somebody copies.
    pub(super) fn flags(&self) -> String {
        let mut flags = String::new();
        let mut add = |name: &str, value: &str| flags.push_str(&format!(" {name} {}", quoted(value)));
        for kind in &self.target {
            add("--target", if *kind == Kind::Embedded { "embedded" } else { "kafka" });
        }
        if let Some(home) = self.kafka_home.as_ref().filter(|_| self.target.contains(&Kind::Kafka)) {
            add("--kafka-home", &home.display().to_string());
        }
        self.bootstrap_server.iter().for_each(|servers| add("--bootstrap-server", servers));
        if let Some(file) = self.command_config.as_ref().filter(|_| !self.bootstrap_server.is_empty()) {
            add("--command-config", &file.display().to_string());
        }
        self.metrics.iter().for_each(|url| add("--metrics", url));
        if self.brokers != 1 {
            add("--brokers", &self.brokers.to_string());
        }
        self.broker_set.iter().for_each(|(name, value)| add("--broker-set", &format!("{name}={value}")));
        flags
    }
}
