//! `parshall perf net`: what the network to the brokers can do.

use std::time::Duration;

use anyhow::Result;
use lab::{NetProbe, NetResult};
use serde_json::json;

use crate::cmd::args::{self, Connection};
use crate::cmd::output;

const MIB: f64 = 1024.0 * 1024.0;

/// Measure the way to each broker: connecting, round trips of small requests, and how fast large ones arrive.
///
/// The large requests are for a topic that does not exist; nothing is stored.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall perf net --bootstrap-server kafka:9092
  parshall perf net --round-trips 10000 --json")]
pub(crate) struct Args {
    /// How many round trips
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    round_trips: u64,
    /// How long to send large requests
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = args::duration)]
    upload: Duration,
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
    let probe = NetProbe { round_trips: args.round_trips, upload: args.upload };
    let mut measured = Vec::new();
    for broker in brokers {
        let result = lab::probe_net(broker, &client.config().connection, probe).await?;
        if !args.json {
            output::print(&line(broker, &result))?;
        }
        measured.push((broker, result));
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
            })
        };
        output::print_json(&json!({ "brokers": measured.iter().map(one).collect::<Vec<_>>() }))?;
    }
    Ok(())
}

fn line(broker: &client::Broker, result: &NetResult) -> String {
    let NetResult { connect, round_trip, upload_bytes_per_s } = result;
    format!(
        "broker {} at {}: connect {} us, round trip p50 {} us, p99 {} us, max {} us, upload {:.1} MiB/s\n",
        broker.id,
        broker.address(),
        connect.as_micros(),
        round_trip.quantile_us(0.5),
        round_trip.quantile_us(0.99),
        round_trip.max_us(),
        upload_bytes_per_s / MIB,
    )
}
