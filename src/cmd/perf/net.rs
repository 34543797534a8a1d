//! `parshall perf net`: what the network to the brokers can do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use client::Client;
use lab::{NetProbe, NetResult};
use serde_json::json;

use crate::cmd::args::{self, Connection};
use crate::cmd::{output, time};

const MIB: f64 = 1024.0 * 1024.0;

/// Measure the way to each broker: connecting, round trips of small requests, and how fast data goes up and down.
///
/// What goes up are large requests for a topic that does not exist; nothing is stored. What comes down are records of a
/// topic that is created for it, with a partition on each broker and 32 MiB at most in each, and deleted at the end.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall perf net --bootstrap-server kafka:9092
  parshall perf net --round-trips 10000 --json
  parshall perf net --download 0s   # creates no topic")]
pub(crate) struct Args {
    /// How many round trips
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    round_trips: u64,
    /// How long to send large requests
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = args::duration)]
    upload: Duration,
    /// How long to fetch records, which takes a topic; 0s: not at all
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = args::duration)]
    download: Duration,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let client = args.connection.client("perf-net").await?;
    let cluster = client.cluster().await?;
    let mut brokers: Vec<_> = cluster.brokers.values().collect();
    brokers.sort_by_key(|broker| broker.id);
    let (downloads, missing) = downloads(&client, args.download).await?;
    let probe = NetProbe { round_trips: args.round_trips, upload: args.upload };
    let mut measured = Vec::new();
    for broker in brokers {
        let result = lab::probe_net(broker, &client.config().connection, probe).await?;
        if !args.json {
            output::print(&line(broker, &result, downloads.get(&broker.id)))?;
        }
        measured.push((broker, result));
    }
    if let Some(reason) = missing.as_ref().filter(|_| !args.json) {
        output::print(&format!("download not measured: {reason}\n"))?;
    }
    if args.json {
        let one = |(broker, result): &(&client::Broker, NetResult)| {
            json!({
                "broker": broker.id,
                "address": broker.address(),
                "connect_us": result.connect.as_micros() as u64,
                "round_trip_us": {
                    "mean": result.round_trip.mean_us(),
                    "p50": result.round_trip.quantile_us(0.5),
                    "p99": result.round_trip.quantile_us(0.99),
                    "max": result.round_trip.max_us(),
                },
                "upload_mib_per_s": result.upload_bytes_per_s / MIB,
                "download_mib_per_s": downloads.get(&broker.id).map(|rate| rate / MIB),
            })
        };
        let brokers: Vec<_> = measured.iter().map(one).collect();
        output::print_json(&json!({ "brokers": brokers, "download_missing": missing }))?;
    }
    Ok(())
}

/// Bytes per second by broker, or why there are none.
async fn downloads(client: &Client, duration: Duration) -> Result<(BTreeMap<i32, f64>, Option<String>)> {
    if duration.is_zero() {
        return Ok((BTreeMap::new(), Some("--download is 0s".to_owned())));
    }
    let stop = AtomicBool::new(false);
    let probe = lab::probe_download(client, duration, time::now_ms(), &stop);
    tokio::pin!(probe);
    let rates = tokio::select! {
        rates = &mut probe => rates,
        _ = tokio::signal::ctrl_c() => {
            stop.store(true, Ordering::Relaxed);
            probe.await?;
            bail!("interrupted")
        }
    };
    Ok(match rates {
        Ok(rates) => (rates, None),
        Err(error) => (BTreeMap::new(), Some(error.to_string())),
    })
}

fn line(broker: &client::Broker, result: &NetResult, download: Option<&f64>) -> String {
    let NetResult { connect, round_trip, upload_bytes_per_s } = result;
    let download = download.map_or(String::new(), |rate| format!(", download {:.1} MiB/s", rate / MIB));
    format!(
        "broker {} at {}: connect {} us, round trip p50 {} us, p99 {} us, max {} us, upload {:.1} MiB/s{download}\n",
        broker.id,
        broker.address(),
        connect.as_micros(),
        round_trip.quantile_us(0.5),
        round_trip.quantile_us(0.99),
        round_trip.max_us(),
        upload_bytes_per_s / MIB,
    )
}
