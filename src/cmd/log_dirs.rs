//! `parshall log-dirs`: what brokers keep on their disks.

use anyhow::{Result, bail};
use client::LogDir;
use serde_json::{Value, json};

use super::args::{self, Connection};
use super::output;
use super::table::Column::{Fitted, Fixed, Right};
use super::table::table;

const MIB: f64 = 1_048_576.0;

/// Show the log directories of all brokers, or where the replicas of topics are.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall log-dirs
  parshall log-dirs --topic orders
  parshall log-dirs --json")]
pub(crate) struct Args {
    /// Show the replicas of this topic, as often as needed
    #[arg(long, value_parser = args::name)]
    topic: Vec<String>,
    /// Print one JSON array, with the replicas
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// A directory, and whose it is.
type OfBroker = (i32, LogDir);

pub(crate) async fn run(args: Args) -> Result<()> {
    let client = args.connection.client("log-dirs").await?;
    client.existing(&args.topic.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let (mut dirs, mut silent) = (Vec::new(), Vec::new());
    for (broker, described) in client.describe_log_dirs().await? {
        match described {
            Ok(described) => dirs.extend(described.into_iter().map(|dir| (broker, dir))),
            Err(error) => silent.push(format!("broker {broker}: {error}")),
        }
    }
    if !args.topic.is_empty() {
        for (_, dir) in &mut dirs {
            dir.replicas.retain(|partition, _| args.topic.contains(&partition.topic));
        }
    }
    match (args.json, args.topic.is_empty()) {
        (true, _) => output::print_json(&dirs.iter().map(to_json).collect::<Vec<_>>())?,
        (false, true) => output::print(&of_dirs(&dirs))?,
        (false, false) => output::print(&of_replicas(&dirs))?,
    }
    match silent.is_empty() {
        true => Ok(()),
        false => bail!("not all brokers have answered: {}", silent.join("; ")),
    }
}

fn to_json((broker, dir): &OfBroker) -> Value {
    let replicas = dir.replicas.iter().map(|(partition, replica)| {
        json!({
            "topic": partition.topic, "partition": partition.partition, "size_bytes": replica.size_bytes,
            "offset_lag": replica.offset_lag, "is_future": replica.is_future,
        })
    });
    json!({
        "broker": broker, "path": dir.path, "error": dir.error.as_ref().map(ToString::to_string),
        "total_bytes": dir.total_bytes, "usable_bytes": dir.usable_bytes, "replicas": replicas.collect::<Vec<_>>(),
    })
}

fn mib(bytes: i64) -> String {
    format!("{:.1}", bytes as f64 / MIB)
}

fn of_dirs(dirs: &[OfBroker]) -> String {
    let header = ["BROKER", "REPLICAS", "LOGS-MIB", "USABLE-MIB", "TOTAL-MIB", "STATE", "DIRECTORY"];
    let mut rows = vec![header.map(str::to_owned)];
    rows.extend(dirs.iter().map(|(broker, dir)| {
        let (broker, replicas) = (broker.to_string(), dir.replicas.len().to_string());
        let size = mib(dir.replicas.values().map(|replica| replica.size_bytes).sum());
        let [usable, total] = [dir.usable_bytes, dir.total_bytes].map(|bytes| bytes.map_or("-".to_owned(), mib));
        let state = dir.error.as_ref().map_or("in use".to_owned(), ToString::to_string);
        [broker, replicas, size, usable, total, state, dir.path.clone()]
    }));
    table(&rows, &[Right(0), Right(0), Right(0), Right(0), Right(0), Fitted(0), Fixed(0)], "  ")
}

fn of_replicas(dirs: &[OfBroker]) -> String {
    let of_dir = |(broker, dir): &OfBroker| {
        let (broker, path) = (*broker, dir.path.clone());
        let replicas = dir.replicas.clone().into_iter();
        replicas.map(move |(partition, replica)| (partition, broker, replica, path.clone())).collect::<Vec<_>>()
    };
    let mut replicas: Vec<_> = dirs.iter().flat_map(of_dir).collect();
    replicas.sort_by(|(a, of_a, ..), (b, of_b, ..)| (a, of_a).cmp(&(b, of_b)));
    let mut rows = vec![["PARTITION", "BROKER", "SIZE-MIB", "LAG", "DIRECTORY"].map(str::to_owned)];
    rows.extend(replicas.into_iter().map(|(partition, broker, replica, path)| {
        let (size, lag) = (mib(replica.size_bytes), replica.offset_lag.to_string());
        [partition.to_string(), broker.to_string(), size, lag, path]
    }));
    table(&rows, &[Fitted(0), Right(0), Right(0), Right(0), Fixed(0)], "  ")
}
