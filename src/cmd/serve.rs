//! `parshall serve`: runs the broker until SIGTERM or Ctrl-C.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use broker::Server;
use broker::config::load::{self, Loaded, Sources};
use tokio::signal::unix::{SignalKind, signal};

/// Environment variables with our prefix that are not settings of the broker.
const OTHER_VARIABLES: [&str; 3] = ["PARSHALL_BOOTSTRAP_SERVER", "PARSHALL_COMMAND_CONFIG", "PARSHALL_LOG"];

/// Run a broker.
///
/// It listens on 127.0.0.1:9092, keeps its data in ./parshall-data, and prints one line when it is ready.
/// SIGTERM and Ctrl-C stop it cleanly; after a kill or a power loss it starts again with all that it acknowledged.
///
/// Settings have Kafka's names. A flag wins over the environment, the environment over the file, the file over the
/// defaults. In the environment log.retention.hours is PARSHALL_LOG_RETENTION_HOURS.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  parshall serve
  parshall serve --listen 0.0.0.0:9092 --set advertised.listeners=PLAINTEXT://kafka.example.com:9092
  parshall serve --data-dir /var/lib/parshall --set log.retention.hours=24 --set num.partitions=3
  parshall serve --config server.toml

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
    /// Directory of the data (the setting `log.dirs`); ./parshall-data where neither is given
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// TOML file with settings
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A setting by Kafka's name, as often as needed
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a setting is NAME=VALUE, for example num.partitions=3")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let loaded = configuration(args)?;
    for notice in &loaded.notices {
        tracing::info!("{notice}");
    }
    // From here on a signal stops the broker cleanly, also while it starts.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let server = Server::start(loaded.config, broker::Env::real()).await?;
    println!(
        "parshall {} is ready on {}, data in {}",
        env!("CARGO_PKG_VERSION"),
        server.addresses().iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        server.data_dir().display()
    );
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
        _ = interrupt.recv() => tracing::info!("interrupted: stopping"),
    }
    server.stop().await;
    Ok(())
}

fn configuration(args: Args) -> Result<Loaded> {
    let file = match args.config {
        Some(path) => {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
            Some((name, text))
        }
        None => None,
    };
    let mut flags = args.settings;
    if let Some(address) = args.listen {
        flags.push(("listeners".into(), format!("PLAINTEXT://{address}")));
    }
    if let Some(dir) = args.data_dir {
        let dir = dir.to_str().context("--data-dir is not UTF-8")?;
        flags.push(("log.dirs".into(), dir.to_owned()));
    }
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !OTHER_VARIABLES.contains(&name.as_str()))
        .collect();
    let mut sources = Sources { flags, environment, file };
    let mut loaded = load::load(sources.clone());
    if loaded.as_ref().is_ok_and(|loaded| ["log.dirs", "log.dir"].iter().all(|name| loaded.config.said(name).is_none()))
    {
        sources.flags.push(("log.dirs".into(), "./parshall-data".into()));
        loaded = load::load(sources);
    }
    loaded.map_err(|errors| anyhow!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))
}
