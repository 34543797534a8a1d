//! `parshall perf produce`: what kafka-producer-perf-test.sh does, and what it cannot.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use clap::ValueEnum;
use lab::{KeyDistribution, Pace, Payload, ProduceLoad, ProducerSettings, Schedule, Sizes, Stats};
use serde_json::json;
use tokio::task::JoinSet;

use super::watch::{INTERRUPTED, watch};
use super::{figures, lines, properties};
use crate::cmd::args::{self, Connection};
use crate::cmd::failure::Usage;
use crate::cmd::{output, time};

/// The client.id that Kafka's tool has.
const CLIENT_ID: &str = "perf-producer-client";
const PRODUCERS_MAX: u64 = 10_000;
const FAILED: u8 = 1;

/// Send records as fast as they are taken, or at a rate, and say how long they took.
///
/// At a rate, a record's latency counts from when it was due, so that a broker that stood still is seen by every record
/// that should have been sent meanwhile; --closed-loop counts as kafka-producer-perf-test does. Without a rate the
/// latency is mostly that of the producer's own buffer. Fails when any record was not delivered.
///
/// --engine raw loads a broker to its limit: every request carries one batch of batch.size that was made before the
/// start, and max.in.flight.requests.per.connection of them are under way to each broker.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall perf produce --topic orders --num-records 1000000 --record-size 1024 --throughput -1
  parshall perf produce --topic orders --record-size 100 --throughput 20000 --duration 30s --warmup-records 40000
  parshall perf produce --topic a --topic b --producers 8 --num-records 10000000 --record-size 100-2000 --output json
  parshall perf produce --topic orders --num-records 5000000 --record-size 1024 --throughput -1 \\
    --producer-props bootstrap.servers=kafka:9092 acks=1 batch.size=16384 linger.ms=5
  parshall perf produce --topic orders --record-size 100 --duration 10s --engine raw --producers 4 --producer-props acks=1")]
pub(crate) struct Args {
    /// Name of the topic; given several times, producers take them in turns
    #[arg(long, required = true, value_parser = args::name)]
    topic: Vec<String>,
    /// How many records, all producers together
    #[arg(long, value_name = "N", required_unless_present = "duration")]
    num_records: Option<u64>,
    /// How long to send, in place of a number of records or as its limit
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    duration: Option<Duration>,
    /// Bytes of each value: 1024, 100-2000 for sizes in between, 100:9,2000:1 for sizes with weights
    #[arg(long, value_name = "SIZES", required_unless_present_any = ["payload_file", "payload_monotonic"])]
    #[arg(conflicts_with_all = ["payload_file", "payload_monotonic"])]
    record_size: Option<Sizes>,
    /// Send values of this file, in any order
    #[arg(long, value_name = "FILE", conflicts_with = "payload_monotonic")]
    payload_file: Option<PathBuf>,
    /// What stands between the values of the file; \n is a line's end, \t a tab
    #[arg(long, value_name = "TEXT", default_value = "\\n", requires = "payload_file")]
    payload_delimiter: String,
    /// Send numbers that count up
    #[arg(long)]
    payload_monotonic: bool,
    /// The part of each value, from 0 to 1, that is the same in all and compresses to nothing
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    payload_repeated: f64,
    /// Records per second, all producers together; -1 for as many as are taken
    #[arg(long, value_name = "RATE", default_value_t = -1.0, allow_negative_numbers = true)]
    throughput: f64,
    /// Let the rate grow to --throughput in a straight line, for so long
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = args::duration)]
    ramp: Duration,
    /// Count latency from when a record is really sent, as Kafka's tool does, although a slow broker delays that
    #[arg(long)]
    closed_loop: bool,
    /// What sends: a producer that gathers records into batches as Kafka's does, or requests encoded before the start
    #[arg(long, value_enum, default_value = "client", value_name = "client|raw", hide_possible_values = true)]
    engine: Engine,
    /// Producers at work at the same time, with connections of their own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=PRODUCERS_MAX))]
    producers: u64,
    /// Leave so many of the first records out of the steady state, which gets a line of its own
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup_records: u64,
    /// Keys of the records; any of them where a range is given
    #[arg(long, value_enum, value_name = "none|range|random|skewed", hide_possible_values = true)]
    key_distribution: Option<Keys>,
    /// How many different keys
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    record_key_range: Option<u64>,
    /// A header of every record, as often as needed
    #[arg(long, short = 'H', value_name = "NAME=VALUE", value_parser = args::pair)]
    header: Vec<(String, String)>,
    /// Makes the same values and keys each time
    #[arg(long, value_name = "N", default_value_t = 0)]
    random_seed: u64,
    /// Milliseconds between the lines of progress
    #[arg(long, value_name = "MS", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    reporting_interval: u64,
    /// Settings of the producer by Kafka's names: acks=1 batch.size=16384 linger.ms=5 ...
    #[arg(long, visible_alias = "producer-props", value_name = "NAME=VALUE", num_args = 1.., value_parser = args::pair)]
    command_property: Vec<(String, String)>,
    /// A properties file with settings of the producer
    #[arg(long, visible_alias = "producer.config", value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// What is printed: the lines of Kafka's tool, a table, CSV with a line for each interval, or a JSON object
    #[arg(long, value_enum, default_value = "kafka", value_name = "kafka|table|csv|json", hide_possible_values = true)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Kafka,
    Table,
    Csv,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    Client,
    Raw,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Keys {
    None,
    Range,
    Random,
    Skewed,
}

impl From<Keys> for KeyDistribution {
    fn from(keys: Keys) -> Self {
        match keys {
            Keys::None => Self::None,
            Keys::Range => Self::Range,
            Keys::Random => Self::Random,
            Keys::Skewed => Self::Skewed,
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let (settings, servers) = settings(&args)?;
    let payload = payload(&args)?;
    let pace = pace(&args)?;
    let client_id = settings.client_id.clone().unwrap_or_else(|| CLIENT_ID.to_owned());
    let connection = properties::connection(servers, &args.connection)?;
    // A broker that is not there is an error before the clock starts.
    connection.named(&client_id).any_broker().await?;
    if args.output == Output::Kafka && args.warmup_records > 0 {
        output::print(&format!(
            "Warmup first {} records. Steady state results will print after the complete test summary.\n",
            args.warmup_records
        ))?;
    }
    if args.output == Output::Csv {
        output::print(figures::CSV_HEADER)?;
    }
    let stats = Arc::new(Stats::start());
    let stop = Arc::new(AtomicBool::new(false));
    let started_wall_ms = time::now_ms();
    let share = |sum: u64, n: u64| sum / args.producers + u64::from(n < sum % args.producers);
    let mut producers = JoinSet::new();
    for n in 0..args.producers {
        let load = ProduceLoad {
            topic: args.topic[n as usize % args.topic.len()].clone(),
            records: args.num_records.map(|records| share(records, n)),
            duration: args.duration,
            pace,
            warm_up_records: share(args.warmup_records, n),
            settings: settings.clone(),
            payload: payload.clone(),
            seed: args.random_seed.wrapping_add(n),
            started_wall_ms,
        };
        let client = connection.named(&client_id);
        let (stats, stop) = (Arc::clone(&stats), Arc::clone(&stop));
        match args.engine {
            Engine::Client => producers.spawn(lab::produce(client, load, stats, stop)),
            Engine::Raw => producers.spawn(lab::produce_raw(client, load, stats, stop)),
        };
    }
    let period = Duration::from_millis(args.reporting_interval);
    let interrupted = watch(&mut producers, &stop, period, |elapsed| {
        let window = stats.take_window();
        match args.output {
            Output::Kafka => output::print(&lines::window(&window, elapsed)),
            Output::Csv => output::print(&figures::csv("window", &window, elapsed)),
            Output::Table | Output::Json => Ok(()),
        }
    });
    let interrupted = interrupted.await?;
    report(&args, pace, &stats)?;
    let failures = stats.failures();
    for (reason, records) in &failures {
        eprintln!("{records} records were not delivered: {reason}");
    }
    Ok(match (interrupted, failures.is_empty()) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(FAILED),
    })
}

fn report(args: &Args, pace: Pace, stats: &Stats) -> Result<()> {
    let (total, elapsed) = stats.total();
    let (steady, steady_elapsed) = stats.steady();
    match args.output {
        Output::Kafka => {
            output::print(&lines::total(&total, elapsed, false))?;
            if args.warmup_records > 0 {
                output::print(&lines::total(&steady, steady_elapsed, true))?;
            }
        }
        Output::Table => {
            let parts = [("total", &total, elapsed), ("steady state", &steady, steady_elapsed)];
            let shown = if args.warmup_records > 0 { 2 } else { 1 };
            output::print(&figures::table(&parts[..shown]))?;
        }
        Output::Csv => {
            output::print(&figures::csv("total", &total, elapsed))?;
            output::print(&figures::csv("steady state", &steady, steady_elapsed))?;
        }
        Output::Json => {
            output::print_json(&json!({
                "total": figures::json(&total, elapsed),
                "steady_state": figures::json(&steady, steady_elapsed),
                "latency_counts_from": match pace {
                    Pace::OpenLoop(_) => "when a record was due",
                    Pace::Unlimited | Pace::ClosedLoop(_) => "when a record was sent",
                },
                "producers": args.producers,
                "failures": stats.failures(),
            }))?;
        }
    }
    Ok(())
}

/// The producer's settings, and the servers where they name some.
fn settings(args: &Args) -> Result<(ProducerSettings, Option<String>)> {
    let mut settings = ProducerSettings::default();
    let set = |name: &str, value: &str| settings.set(name, value);
    let servers = properties::apply(args.command_config.as_deref(), &args.command_property, set)?;
    settings.is_idempotent().map_err(|error| Usage(error.to_string()))?;
    Ok((settings, servers))
}

fn payload(args: &Args) -> Result<Payload> {
    if !(0.0..=1.0).contains(&args.payload_repeated) {
        return Err(Usage("--payload-repeated is a part from 0 to 1".to_owned()).into());
    }
    let payload = if args.payload_monotonic {
        Payload::numbers()
    } else if let Some(file) = &args.payload_file {
        let delimiter = args.payload_delimiter.replace("\\n", "\n").replace("\\t", "\t");
        let content = String::from_utf8(properties::read(file)?)
            .map_err(|_| Usage(format!("{} is not UTF-8", file.display())))?;
        let values = content.split(&delimiter).filter(|value| !value.is_empty());
        let values = values.map(|value| Bytes::copy_from_slice(value.as_bytes())).collect();
        Payload::given(values).map_err(|error| Usage(format!("{}: {error}", file.display())))?
    } else {
        let sizes = args.record_size.clone().unwrap_or(Sizes::Fixed(0));
        Payload::random(sizes, args.payload_repeated, args.random_seed)
    };
    let keys = args.key_distribution.map(KeyDistribution::from);
    let keys =
        keys.unwrap_or(if args.record_key_range.is_some() { KeyDistribution::Random } else { KeyDistribution::None });
    let headers = args.header.iter().map(|(name, value)| (name.clone().into(), value.clone().into())).collect();
    Ok(payload.with_keys(keys, args.record_key_range.unwrap_or(u64::MAX)).with_headers(headers))
}

/// The share of one producer.
fn pace(args: &Args) -> Result<Pace> {
    if args.throughput.is_nan() || args.throughput == 0.0 {
        return Err(Usage("--throughput is a number of records per second, or -1".to_owned()).into());
    }
    let schedule = Schedule { records_per_s: args.throughput, ramp: args.ramp };
    let pace = match (args.throughput < 0.0, args.closed_loop) {
        (true, _) => Pace::Unlimited,
        (false, true) => Pace::ClosedLoop(schedule),
        (false, false) => Pace::OpenLoop(schedule),
    };
    Ok(pace.share(1.0 / args.producers as f64))
}
