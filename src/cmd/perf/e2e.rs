//! `parshall perf e2e`: what kafka-e2e-latency.sh does.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use lab::EndToEndLoad;
use serde_json::json;

use super::{Output, lines, properties};
use crate::cmd::args::{self, Connection};
use crate::cmd::{output, time};

const CLIENT_ID: &str = "perf-e2e-client";
/// A line is printed for one record of so many.
const RECORDS_PER_LINE: u64 = 1000;
const RECORD_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Send one record at a time and read it back, and say how long that took.
///
/// The topic must not have another producer meanwhile. Settings of --command-config that say how clients send or read
/// have no effect: nothing waits for company.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall perf e2e --topic orders --num-records 10000 --producer-acks all --record-size 100
  parshall perf e2e --bootstrap-server kafka:9092 --topic orders --num-records 1000 --producer-acks 1 --record-size 20 \\
    --record-key-size 10 --num-headers 2 --record-header-key-size 5 --record-header-size 20")]
pub(crate) struct Args {
    /// Name of the topic
    #[arg(long, value_parser = args::name)]
    topic: String,
    /// How many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    num_records: u64,
    /// When a record counts as delivered: by all in-sync replicas, or by the leader (1)
    #[arg(long, value_enum, default_value = "1", value_name = "all|1", hide_possible_values = true)]
    producer_acks: Acks,
    /// Bytes of each value
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=RECORD_BYTES_MAX))]
    record_size: u64,
    /// Bytes of each key; none without
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=RECORD_BYTES_MAX))]
    record_key_size: u64,
    /// Headers of each record
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=10_000))]
    num_headers: u64,
    /// Bytes of each header's name
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=RECORD_BYTES_MAX))]
    record_header_key_size: u64,
    /// Bytes of each header's value
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=RECORD_BYTES_MAX))]
    record_header_size: u64,
    /// A properties file; its bootstrap.servers counts
    #[arg(long, value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// What is printed: the lines of Kafka's tool, or one JSON object at the end
    #[arg(long, value_enum, default_value = "kafka", value_name = "kafka|json", hide_possible_values = true)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Acks {
    #[value(alias = "-1")]
    All,
    #[value(name = "1")]
    Leader,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let servers = properties::apply(args.command_config.as_deref(), &[], |_, _| Ok(()))?;
    let connection = properties::connection(servers, &args.connection)?;
    let load = EndToEndLoad {
        topic: args.topic,
        records: args.num_records,
        acks: match args.producer_acks {
            Acks::All => client::Acks::All,
            Acks::Leader => client::Acks::Leader,
        },
        value_bytes: args.record_size as usize,
        key_bytes: args.record_key_size as usize,
        headers: args.num_headers as usize,
        header_key_bytes: args.record_header_key_size as usize,
        header_value_bytes: args.record_header_size as usize,
        started_wall_ms: time::now_ms(),
    };
    let (producer, consumer) = (connection.named(CLIENT_ID), connection.named(CLIENT_ID));
    // A broker that is not there is an error at once.
    producer.any_broker().await?;
    let is_kafka = args.output == Output::Kafka;
    let mut out = std::io::stdout();
    let mut broken = None;
    let tally = lab::end_to_end(producer, consumer, &load, |number, latency| {
        if is_kafka && broken.is_none() && number % RECORDS_PER_LINE == 0 {
            broken = writeln!(out, "{number}\t{}", latency.as_micros() as f64 / 1000.0).err();
        }
    });
    let tally = tally.await?;
    if let Some(error) = broken {
        return Err(error.into());
    }
    if is_kafka {
        output::print(&lines::end_to_end(&tally))?;
    } else {
        output::print_json(&json!({
            "records": tally.records,
            "latency_us": {
                "mean": tally.mean_us(),
                "p50": tally.quantile_us(0.5),
                "p99": tally.quantile_us(0.99),
                "p99_9": tally.quantile_us(0.999),
                "max": tally.max_us(),
            },
        }))?;
    }
    Ok(())
}
