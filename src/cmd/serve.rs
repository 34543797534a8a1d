//! `parshall serve`: runs the broker until SIGTERM or Ctrl-C. Alone it is a cluster of one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use broker::Server;
use clap::builder::BoolishValueParser;
use configuration::load::{self, ConfigFile, Loaded, Sources};
use configuration::{BrokerConfig, ConfigError, Membership};
use platform::Env;
use platform::loggers::Loggers;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

use self::embedded_console::EmbeddedConsole;
use super::failure::Usage;
use super::properties;
use crate::logging;
use crate::push::Push;

#[cfg_attr(not(feature = "console"), path = "serve/no_console.rs")]
mod embedded_console;
mod first_users;
mod open_listeners;

/// Environment variables with our prefix that are not settings of the broker.
const OTHER_VARIABLES: [&str; 10] = [
    "PARSHALL_BOOTSTRAP_SERVER",
    "PARSHALL_COMMAND_CONFIG",
    "PARSHALL_CONSOLE",
    "PARSHALL_CONSOLE_COMMAND_CONFIG",
    "PARSHALL_CONSOLE_PASSWORD_FILE",
    "PARSHALL_CONSOLE_TLS_KEYSTORE",
    "PARSHALL_INSECURE",
    "PARSHALL_PROFILE",
    logging::LEVELS,
    logging::FORMAT,
];

/// Run a broker: alone, or as a node of a cluster.
///
/// It listens on 127.0.0.1:9092, keeps its data in ./parshall-data, and prints one line when it is ready.
/// SIGTERM and Ctrl-C stop it cleanly; after a kill or a power loss it starts again with all that it acknowledged.
///
/// Its console is on http://127.0.0.1:9644, with its metrics under /metrics, for this machine only: see --console.
///
/// A listener that others than this machine reach has to ask its clients who they are, by SASL or by certificates:
/// without, the broker does not start, unless --insecure says that everybody who reaches it may use it.
///
/// Settings have Kafka's names. A flag wins over the environment, the environment over the file, the file over the
/// defaults. In the environment log.retention.hours is PARSHALL_LOG_RETENTION_HOURS.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  parshall serve
  parshall serve --set listeners=SASL_SSL://:9092 --set advertised.listeners=SASL_SSL://kafka.example.com:9092 \\
    --set ssl.keystore.location=tls/node-1.pem --set sasl.enabled.mechanisms=SCRAM-SHA-512
  parshall serve --data-dir /var/lib/parshall --set log.retention.hours=24 --set num.partitions=3
  parshall serve --config server.toml
  parshall serve --config /etc/kafka/server.properties

Three nodes that begin a cluster, each on a machine of its own, in a network where nobody else is. The first; the others
differ in --node-id and --listen:
  parshall serve --node-id 1 --listen 10.0.0.1:9092 --insecure \\
    --controller-quorum-voters 1@10.0.0.1:9093,2@10.0.0.2:9093,3@10.0.0.3:9093

A fourth that joins them:
  parshall serve --node-id 4 --listen 10.0.0.4:9092 --insecure --join 10.0.0.1:9093,10.0.0.2:9093

Three on this machine, to try it out:
  parshall cluster start

A configuration file:
  \"log.dirs\" = \"/var/lib/parshall\"
  [log]
  retention.hours = 24

What acks=all means is set by log.ack.durability, and for a topic by ack.durability:
  disk  the records are on disk before they are acknowledged (the default)
  os    they are in the operating system's cache, as with Apache Kafka")]
pub(crate) struct Args {
    /// Address to listen on (the setting `listeners`)
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Directory of the data (the setting `log.dirs`); where neither is given ./parshall-data, or ./parshall-data-N for
    /// a node of a cluster that was started with --node-id N
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Number of this node, unique in its cluster (the setting `node.id`)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    node_id: Option<i32>,
    /// The nodes that begin a cluster together, this one among them, and where they reach each other: the same list on
    /// each of them (the setting `controller.quorum.voters`)
    #[arg(long, value_name = "ID@HOST:PORT,...", conflicts_with = "join")]
    controller_quorum_voters: Option<String>,
    /// Join the cluster of these nodes: the addresses where they reach each other, not those of clients (the setting
    /// `controller.quorum.bootstrap.servers`)
    #[arg(long, value_name = "HOST:PORT,...")]
    join: Option<String>,
    /// The rack or zone of this node, so that replicas spread over several (the setting `broker.rack`)
    #[arg(long, value_name = "NAME")]
    rack: Option<String>,
    #[command(flatten)]
    console: embedded_console::ConsoleArgs,
    /// File with settings: a properties file, as Kafka's server.properties, where it is called so, else TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A setting by Kafka's name, as often as needed
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// Let everybody who reaches them use listeners that do not ask who clients are, and a console without a password,
    /// from other machines too
    #[arg(long, env = "PARSHALL_INSECURE", value_parser = BoolishValueParser::new())]
    insecure: bool,
    /// A user of a new cluster: SCRAM-SHA-256=[name=NAME,password=PASSWORD] or SCRAM-SHA-512, or @FILE with such lines,
    /// so that no password is in the command. Changes nothing where the cluster is there already
    #[arg(long, value_name = "USER|@FILE")]
    add_scram: Vec<String>,
    /// Stop cleanly when the standard input ends, as a pipe does when the process behind it is gone
    #[arg(long, hide_short_help = true)]
    until_stdin_ends: bool,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a setting is NAME=VALUE, for example num.partitions=3")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

pub(crate) async fn run(args: Args, loggers: Arc<Loggers>) -> Result<()> {
    platform::panics::count_and_log();
    let until_stdin_ends = args.until_stdin_ends;
    let (console, is_insecure) = (args.console.clone(), args.insecure);
    let env = Env { loggers, ..Env::real() };
    let first_users = first_users::read(&args.add_scram, &*env.random)?;
    let loaded = configuration(args)?;
    open_listeners::check(&loaded.config, is_insecure)?;
    let console = EmbeddedConsole::start(&console, &loaded.config, is_insecure).await?;
    for notice in &loaded.notices {
        tracing::info!("{notice}");
    }
    let push = Push::new(&loaded.config)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let reason_to_stop = async {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "interrupted",
            () = end_of_stdin(), if until_stdin_ends => "the standard input has ended",
        }
    };
    tokio::pin!(reason_to_stop);
    let server = tokio::select! {
        started = Server::start_with_users(loaded.config, env, first_users) => started?,
        // A node may wait for others for as long as it takes, and has promised nothing to anybody yet.
        reason = &mut reason_to_stop => {
            tracing::info!("{reason}: stopping before it was ready");
            return Ok(());
        }
    };
    console.show(&server);
    push.start(server.metrics());
    let open_text = server.open_inter_broker_address().map(|address| {
        format!(", inter-broker port {address} is open: whoever reaches it can act as a broker, so firewall it")
    });
    println!(
        "parshall {} is ready on {}, data in {}{}{}",
        env!("CARGO_PKG_VERSION"),
        server.addresses().iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        server.data_dir().display(),
        console.url().map_or_else(String::new, |url| format!(", console on {url}")),
        open_text.unwrap_or_default()
    );
    let reason = tokio::select! {
        reason = reason_to_stop => reason,
        error = renew_certificates(&server), if server.has_certificates() => bail!("cannot listen to SIGHUP: {error}"),
        () = server.disk_failed() => bail!(
            "the disk of {} has failed (the log says how), so this node stops and others take over what it leads; \
             look at the disk before you start it again",
            server.data_dir().display()
        ),
    };
    tracing::info!("{reason}: stopping");
    server.stop().await;
    Ok(())
}

/// Reads the certificates anew upon each SIGHUP. Returns why it cannot.
async fn renew_certificates(server: &Server) -> std::io::Error {
    let mut hangup = match signal(SignalKind::hangup()) {
        Ok(hangup) => hangup,
        Err(error) => return error,
    };
    while hangup.recv().await.is_some() {
        tracing::info!("SIGHUP: reading the certificates");
        server.renew_certificates().await;
    }
    std::future::pending().await
}

/// Whatever is there to read is of no interest.
async fn end_of_stdin() {
    let mut stdin = tokio::io::stdin();
    let mut ignored = [0; 64];
    while stdin.read(&mut ignored).await.is_ok_and(|bytes| bytes > 0) {}
}

/// A file of settings: properties by its name, TOML otherwise.
pub(super) fn config_file(path: &Path) -> Result<ConfigFile> {
    if path.extension().is_some_and(|extension| extension == "properties") {
        return Ok(ConfigFile::Properties(properties::read(path)?));
    }
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    Ok(ConfigFile::Toml { name, text })
}

fn configuration(args: Args) -> Result<Loaded> {
    let file = args.config.as_deref().map(config_file).transpose()?;
    let mut flags = args.settings;
    if let Some(address) = args.listen {
        flags.push(("listeners".into(), format!("PLAINTEXT://{address}")));
    }
    if let Some(dir) = args.data_dir {
        let dir = dir.to_str().context("--data-dir is not UTF-8")?;
        flags.push(("log.dirs".into(), dir.to_owned()));
    }
    let own_id = args.node_id.map(|id| id.to_string());
    let named = [
        ("node.id", own_id.clone()),
        ("controller.quorum.voters", args.controller_quorum_voters),
        ("controller.quorum.bootstrap.servers", args.join),
        ("broker.rack", args.rack),
    ];
    flags.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !OTHER_VARIABLES.contains(&name.as_str()))
        .collect();
    let mut sources = Sources { flags, environment, file };
    let mut loaded = load::load(sources.clone());
    if let Ok(Loaded { config, .. }) = &loaded {
        let is_alone = config.membership() == Ok(Membership::Alone);
        if !is_alone && !says_any(config, ["node.id", "broker.id"]) {
            // The number of another node would take that node's place.
            bail!(Usage("a node of a cluster has a number of its own: name it with --node-id".to_owned()));
        }
        let mut missing = Vec::new();
        if !says_any(config, ["log.dirs", "log.dir"]) {
            let suffix = own_id.filter(|_| !is_alone).map_or_else(String::new, |id| format!("-{id}"));
            missing.push(("log.dirs".to_owned(), format!("./parshall-data{suffix}")));
        }
        let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        missing.extend(advertised(config, &host_name).map(|text| ("advertised.listeners".to_owned(), text)));
        if !missing.is_empty() {
            sources.flags.extend(missing);
            loaded = load::load(sources);
        }
    }
    loaded.map_err(all_of)
}

/// One error that says what all of them say.
pub(super) fn all_of(errors: Vec<ConfigError>) -> anyhow::Error {
    anyhow!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// Who listens without a host, which is on every interface, tells clients the name of the machine, as Kafka does
/// (`KafkaConfig.effectiveAdvertisedBrokerListeners`). `None` where every listener has a host.
fn advertised(config: &BrokerConfig, host_name: &str) -> Option<String> {
    let endpoints = config.advertised_endpoints().ok()?;
    let unnamed = endpoints.iter().filter(|endpoint| endpoint.host.is_empty() && endpoint.port > 0);
    let mut texts: Vec<_> = unnamed.map(|told| format!("{}://{host_name}:{}", told.name, told.port)).collect();
    if texts.is_empty() {
        return None;
    }
    texts.extend(config.said("advertised.listeners").map(str::to_owned));
    Some(texts.join(","))
}

fn says_any(config: &BrokerConfig, names: [&str; 2]) -> bool {
    names.iter().any(|name| config.said(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_without_a_host_is_told_by_the_name_of_the_machine() {
        let advertised = |settings: &[(&str, &str)]| {
            let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            advertised(&BrokerConfig::new(settings.collect()).unwrap(), "host")
        };
        let listeners = ("listeners", "PLAINTEXT://:9092,SECOND://:9192,THIRD://10.0.0.1:9292");
        let protocols = ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT,THIRD:PLAINTEXT");
        let told = advertised(&[listeners, protocols]).unwrap();
        assert_eq!(told, "PLAINTEXT://host:9092,SECOND://host:9192");
        let said = ("advertised.listeners", "PLAINTEXT://kafka.example.com:9092");
        let told = advertised(&[listeners, protocols, said]).unwrap();
        assert_eq!(told, "SECOND://host:9192,PLAINTEXT://kafka.example.com:9092");
        assert_eq!(advertised(&[("listeners", "PLAINTEXT://10.0.0.1:9092")]), None);
        assert_eq!(advertised(&[]), None);
    }
}
