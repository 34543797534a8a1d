//! `parshall perf e2e`: what kafka-e2e-latency.sh does.

use std::io;
use std::time::Duration;

use anyhow::Result;
use clap::{FromArgMatches, ValueEnum};
use lab::{EndToEndLoad, Tally};
use tokio::time::Instant;

use super::figures::{self, Part};
use super::{Output, OutputFlags, lines, properties};
use crate::cmd::args::{self, Connection};
use crate::cmd::failure::Usage;
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
    --record-key-size 10 --num-headers 2 --record-header-key-size 5 --record-header-size 20
  parshall perf e2e kafka:9092 orders 1000 all 20 client.properties    (as before Kafka 4.2)")]
pub(crate) struct Args {
    /// The form that Kafka's tool had before it had flags: BROKERS TOPIC RECORDS ACKS BYTES [PROPERTIES-FILE]
    #[arg(value_name = "BROKERS TOPIC RECORDS ACKS BYTES", hide = true)]
    #[arg(conflicts_with_all = ["topic", "num_records", "producer_acks", "record_size"])]
    positional: Vec<String>,
    /// Name of the topic
    #[arg(long, value_parser = args::name, required_unless_present = "positional")]
    topic: Option<String>,
    /// How many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(required_unless_present = "positional")]
    num_records: Option<u64>,
    /// When a record counts as delivered: by all in-sync replicas, or by the leader (1)
    #[arg(long, value_enum, default_value = "1", value_name = "all|1", hide_possible_values = true)]
    producer_acks: Acks,
    /// Bytes of each value
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=RECORD_BYTES_MAX))]
    #[arg(required_unless_present = "positional")]
    record_size: Option<u64>,
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
    #[command(flatten)]
    output: OutputFlags,
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

impl Args {
    /// The flags that the older form stands for.
    fn from_positional(values: &[String]) -> Result<Self, Usage> {
        if !(5..=6).contains(&values.len()) {
            let form = "the form without flags is BROKERS TOPIC RECORDS ACKS BYTES [PROPERTIES-FILE]";
            return Err(Usage(format!("{form}; see 'parshall perf e2e --help'")));
        }
        let names =
            ["--bootstrap-server", "--topic", "--num-records", "--producer-acks", "--record-size", "--command-config"];
        let flags = names.into_iter().zip(values).flat_map(|(name, value)| [name, value.as_str()]);
        let command = <Self as clap::Args>::augment_args(clap::Command::new("e2e").no_binary_name(true));
        let parsed = command.try_get_matches_from(flags).and_then(|matches| Self::from_arg_matches(&matches));
        parsed.map_err(|error| {
            let text = error.to_string();
            Usage(text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
        })
    }
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let is_positional = !args.positional.is_empty();
    let args = if is_positional { Args::from_positional(&args.positional)? } else { args };
    let (Some(topic), Some(records), Some(value_bytes)) = (args.topic, args.num_records, args.record_size) else {
        return Err(Usage("--topic, --num-records and --record-size are needed".to_owned()).into());
    };
    let mut given = properties::apply(&properties::pairs(&args.connection, &[])?, |_, _| Ok(()))?;
    // The brokers of the older form count more than those of the file.
    given.servers = given.servers.filter(|_| !is_positional);
    let connection = properties::connection(given, &args.connection)?;
    connection.tell_profile()?;
    let load = EndToEndLoad {
        topic,
        records,
        acks: match args.producer_acks {
            Acks::All => client::Acks::All,
            Acks::Leader => client::Acks::Leader,
        },
        value_bytes: value_bytes as usize,
        key_bytes: args.record_key_size as usize,
        headers: args.num_headers as usize,
        header_key_bytes: args.record_header_key_size as usize,
        header_value_bytes: args.record_header_size as usize,
        started_wall_ms: time::now_ms(),
    };
    let (producer, consumer) = (connection.named(CLIENT_ID)?, connection.named(CLIENT_ID)?);
    // A broker that is not there is an error at once.
    producer.any_broker().await?;
    if args.output.kind() == Output::Csv {
        output::print(figures::CSV_HEADER)?;
    }
    let mut progress = Progress {
        output: args.output.kind(),
        value_bytes,
        window: Tally::default(),
        since: Instant::now(),
        broken: None,
    };
    let started = Instant::now();
    let tally = lab::end_to_end(producer, consumer, &load, |number, latency| progress.count(number, latency));
    let tally = tally.await?;
    if let Some(error) = progress.broken {
        return Err(error.into());
    }
    let total = Part::new("total", &tally, started.elapsed());
    match args.output.kind() {
        Output::Kafka => output::print(&lines::end_to_end(&tally))?,
        Output::Table => output::print(&figures::text(&[total]))?,
        Output::Csv => output::print(&figures::csv(&total))?,
        Output::Json => output::print_json(&figures::json(&total))?,
    }
    Ok(())
}

/// What is printed while it runs.
struct Progress {
    output: Output,
    value_bytes: u64,
    window: Tally,
    since: Instant,
    /// Why printing has failed.
    broken: Option<io::Error>,
}

impl Progress {
    fn count(&mut self, number: u64, latency: Duration) {
        self.window.record(latency.as_micros() as u64, self.value_bytes);
        let shown = match self.output {
            Output::Kafka if number.is_multiple_of(RECORDS_PER_LINE) => {
                output::print(&format!("{number}\t{}\n", latency.as_micros() as f64 / 1000.0))
            }
            Output::Csv if self.window.records == RECORDS_PER_LINE => {
                let shown = output::print(&figures::csv(&Part::new("window", &self.window, self.since.elapsed())));
                (self.window, self.since) = (Tally::default(), Instant::now());
                shown
            }
            _ => Ok(()),
        };
        if let Err(error) = shown {
            self.broken.get_or_insert(error);
        }
    }
}
