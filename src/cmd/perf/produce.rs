//! `parshall perf produce`: what kafka-producer-perf-test.sh does, and what it cannot.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use lab::{
    Clock, Engine, EngineError, HdrLog, KeyDistribution, Pace, Payload, ProduceLoad, ProducerSettings, Schedule, Sizes,
    Stats,
};
use serde_json::json;
use tokio::task::JoinSet;

use super::concurrent_consumers::{Along, ConsumerFlags};
use super::figures::{self, Part};
use super::metrics::Metrics;
use super::watch::{INTERRUPTED, watch};
use super::{Output, OutputFlags, lines, properties};
use crate::cmd::args::{self, Connection};
use crate::cmd::failure::Usage;
use crate::cmd::properties::read_bytes;
use crate::cmd::{output, time};

/// The client.id that Kafka's tool has.
const CLIENT_ID: &str = "perf-producer-client";
const PRODUCERS_MAX: u64 = 10_000;
const FAILED: u8 = 1;
/// `ProducerPerformance.DEFAULT_TRANSACTION_DURATION_MS`.
const TRANSACTION_DURATION: Duration = Duration::from_secs(3);

/// Send records as fast as they are taken, or at a rate, and say how long they took.
///
/// At a rate, a record's latency counts from when it was due, so that a broker that stood still is seen by every record
/// that should have been sent meanwhile; --closed-loop counts as kafka-producer-perf-test does. Without a rate the
/// latency is mostly that of the producer's own buffer. Fails when any record was not delivered.
///
/// --engine raw loads a broker to its limit: every request carries one batch of batch.size that was made before the
/// start, and max.in.flight.requests.per.connection of them are under way to each broker. --engine librdkafka sends as
/// the producers of many languages do; it is there when this program was built with the feature librdkafka.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall perf produce --topic orders --num-records 1000000 --record-size 1024 --throughput -1
  parshall perf produce --topic orders --record-size 100 --throughput 20000 --duration 30s --warmup-records 40000
  parshall perf produce --topic a --topic b --producers 8 --num-records 10000000 --record-size 100-2000 --output json
  parshall perf produce --topic orders --num-records 5000000 --record-size 1024 --throughput -1 \\
    --producer-props bootstrap.servers=kafka:9092 acks=1 batch.size=16384 linger.ms=5
  parshall perf produce --topic orders --record-size 100 --throughput 20000 --duration 30s --consumers 4
  parshall perf produce --topic orders --num-records 1000000 --record-size 100 --transaction-duration-ms 500
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
    /// What sends: a producer that gathers records into batches as Kafka's does, requests encoded before the start, or
    /// the producer of librdkafka
    #[arg(long, default_value = "client", value_name = "client|raw|librdkafka")]
    engine: Engine,
    /// Producers at work at the same time, with connections of their own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=PRODUCERS_MAX))]
    producers: u64,
    /// Leave so many of the first records out of the steady state, which gets a line of its own
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup_records: u64,
    /// Keys of the records; any of them where a range is given
    #[arg(long, value_name = "none|range|random|skewed")]
    key_distribution: Option<KeyDistribution>,
    /// How many different keys
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    record_key_range: Option<u64>,
    /// A header of every record, as often as needed
    #[arg(long, short = 'H', value_name = "NAME=VALUE", value_parser = args::pair)]
    header: Vec<(String, String)>,
    /// Makes the same values and keys each time
    #[arg(long, value_name = "N", default_value_t = 0)]
    random_seed: u64,
    /// Send in transactions, under this transactional.id; further producers get a number behind it
    #[arg(long, value_name = "ID", value_parser = args::name)]
    transactional_id: Option<String>,
    /// Milliseconds after which a transaction is committed, 3000 unless it is given; alone it makes up an ID
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    transaction_duration_ms: Option<u64>,
    /// Print at the end what producers and consumers did underneath, by the names of Kafka's metrics
    #[arg(long)]
    print_metrics: bool,
    /// Write the latencies of each interval to a log that the tools of HdrHistogram read, in microseconds
    #[arg(long, value_name = "FILE")]
    hdr_file: Option<PathBuf>,
    /// Milliseconds between the lines of progress
    #[arg(long, value_name = "MS", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    reporting_interval: u64,
    /// Settings of the producer by Kafka's names: acks=1 batch.size=16384 linger.ms=5 ...
    #[arg(long, visible_alias = "producer-props", value_name = "NAME=VALUE", num_args = 1.., value_parser = args::pair)]
    command_property: Vec<(String, String)>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    along: ConsumerFlags,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let (settings, given) = settings(&args)?;
    let payload = payload(&args)?;
    let pace = pace(&args)?;
    let wrong = |error: EngineError| Usage(error.to_string());
    args.engine.check(&settings, args.producers).map_err(wrong)?;
    if args.print_metrics && args.engine == Engine::Librdkafka {
        return Err(Usage("--print-metrics needs engine client or raw: librdkafka counts otherwise".to_owned()).into());
    }
    if args.print_metrics && args.output.kind() == Output::Csv {
        return Err(Usage("--print-metrics has no place in CSV".to_owned()).into());
    }
    let client_id = settings.client_id.clone().unwrap_or_else(|| CLIENT_ID.to_owned());
    let connection = properties::connection(given, &args.connection)?;
    connection.tell_profile()?;
    let client = connection.named(&client_id)?;
    args.engine.check_security(&client.config().connection.security).map_err(wrong)?;
    // A broker that is not there is an error before the clock starts.
    client.any_broker().await?;
    if args.output.kind() == Output::Kafka && args.warmup_records > 0 {
        output::print(&format!(
            "Warmup first {} records. Steady state results will print after the complete test summary.\n",
            args.warmup_records
        ))?;
    }
    if args.output.kind() == Output::Csv {
        output::print(figures::CSV_HEADER)?;
    }
    let clock = Clock::at(time::now_ms());
    // Nor does it count how long the transaction coordinator takes to know the producers.
    let mut clients = Vec::new();
    for n in 0..args.producers {
        let client = connection.named(&client_id)?;
        clients.push((settings_of(&settings, n).transactions(&client).await?, client));
    }
    let mut along = Along::start(&args.along, &args.topic, &connection, clock).await?;
    let mut hdr_log = match &args.hdr_file {
        Some(file) => {
            Some(HdrLog::create(file, clock.now_ms()).with_context(|| format!("cannot write {}", file.display()))?)
        }
        None => None,
    };
    let stats = Arc::new(Stats::start());
    let stop = Arc::new(AtomicBool::new(false));
    let started_wall_ms = clock.now_ms();
    let mut producers = JoinSet::new();
    for (n, (transactions, client)) in (0..).zip(clients) {
        let load = ProduceLoad {
            topic: args.topic[n as usize % args.topic.len()].clone(),
            records: args.num_records.map(|records| lab::share(records, args.producers, n)),
            duration: args.duration,
            pace: pace.turn(n, args.producers),
            warm_up_records: lab::share(args.warmup_records, args.producers, n),
            warm_up: Duration::ZERO,
            settings: settings_of(&settings, n),
            transaction_duration: args.transaction_duration_ms.map_or(TRANSACTION_DURATION, Duration::from_millis),
            transactions,
            payload: payload.clone(),
            seed: args.random_seed.wrapping_add(n),
            started_wall_ms,
        };
        let (stats, stop) = (Arc::clone(&stats), Arc::clone(&stop));
        producers.spawn(args.engine.produce(client, load, stats, stop));
    }
    let period = Duration::from_millis(args.reporting_interval);
    let interrupted = watch(&mut producers, &stop, period, |elapsed| {
        let window = stats.take_window();
        if let Some(hdr_log) = &mut hdr_log {
            hdr_log.write(&window, elapsed)?;
        }
        match args.output.kind() {
            Output::Kafka => output::print(&lines::window(&window, elapsed)),
            Output::Csv => {
                let consumed = along.as_mut().map_or(String::new(), |along| along.csv_window(elapsed));
                output::print(&(figures::csv(&Part::new("window", &window, elapsed)) + &consumed))
            }
            Output::Table | Output::Json => Ok(()),
        }
    });
    let interrupted = interrupted.await?;
    if let Some(mut hdr_log) = hdr_log {
        hdr_log.finish(&stats.take_window(), stats.total().1)?;
    }
    if let Some(along) = &mut along {
        along.finish(stats.total().0.records, interrupted).await?;
    }
    let metrics = args.print_metrics.then(|| metrics(&client_id, &stats, along.as_ref()));
    report(&args, pace, &stats, along.as_ref(), metrics.as_ref(), started_wall_ms)?;
    if let Some(unread) = along.as_ref().map(Along::unread).filter(|&unread| unread > 0) {
        eprintln!("{unread} records were not read by the consumers");
    }
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

fn metrics(client_id: &str, stats: &Stats, along: Option<&Along>) -> Metrics {
    let mut metrics = Metrics::default();
    let failed = stats.failures().values().sum();
    metrics.add_producers(client_id, &stats.metrics(), failed, stats.total().1);
    if let Some(along) = along {
        along.add_metrics(&mut metrics);
    }
    metrics
}

fn report(
    args: &Args,
    pace: Pace,
    stats: &Stats,
    along: Option<&Along>,
    metrics: Option<&Metrics>,
    started_wall_ms: i64,
) -> Result<()> {
    let (total, elapsed) = stats.total();
    let (steady, steady_elapsed) = stats.steady();
    let total_part = Part::new("total", &total, elapsed);
    let steady_part = Part::new("steady state", &steady, steady_elapsed);
    match args.output.kind() {
        Output::Kafka => {
            output::print(&lines::total(&total, elapsed, false))?;
            if args.warmup_records > 0 {
                output::print(&lines::total(&steady, steady_elapsed, true))?;
            }
            if let Some(along) = along {
                output::print(&along.lines(started_wall_ms))?;
            }
            output::print(&metrics.map(Metrics::lines).unwrap_or_default())?;
        }
        Output::Table => {
            let mut parts = vec![total_part];
            if args.warmup_records > 0 {
                parts.push(steady_part);
            }
            parts.extend(along.map(Along::part));
            output::print(&(figures::text(&parts) + &metrics.map(Metrics::lines).unwrap_or_default()))?;
        }
        Output::Csv => {
            let consumed = along.map_or(String::new(), |along| figures::csv(&along.part()));
            output::print(&(figures::csv(&total_part) + &figures::csv(&steady_part) + &consumed))?;
        }
        Output::Json => {
            let mut object = json!({
                "total": figures::json(&total_part),
                "steady_state": figures::json(&steady_part),
                "latency_counts_from": match pace {
                    Pace::OpenLoop(_) => "when a record was due",
                    Pace::Unlimited | Pace::ClosedLoop(_) => "when a record was sent",
                },
                "producers": args.producers,
                "failures": stats.failures(),
            });
            if let Some(along) = along {
                object["consumed"] = along.json();
            }
            let transactions = stats.metrics().commit_us.count;
            if transactions > 0 {
                object["transactions_committed"] = transactions.into();
            }
            if let Some(metrics) = metrics {
                object["metrics"] = metrics.json();
            }
            output::print_json(&object)?;
        }
    }
    Ok(())
}

/// The producer's settings, and where and how to connect.
fn settings(args: &Args) -> Result<(ProducerSettings, properties::Given)> {
    let mut settings = ProducerSettings::default();
    let set = |name: &str, value: &str| settings.set(name, value);
    let given = properties::apply(&properties::pairs(&args.connection, &args.command_property)?, set)?;
    let made_up = || args.transaction_duration_ms.map(|_| format!("performance-producer-{}", random()));
    let transactional_id = args.transactional_id.clone().or(settings.transactional_id.take());
    settings.transactional_id = transactional_id.or_else(made_up);
    settings.is_idempotent().map_err(|error| Usage(error.to_string()))?;
    Ok((settings, given))
}

/// Those of one of several producers: each needs a transactional id of its own.
fn settings_of(settings: &ProducerSettings, producer: u64) -> ProducerSettings {
    let mut settings = settings.clone();
    if let Some(id) = settings.transactional_id.as_mut().filter(|_| producer > 0) {
        id.push_str(&format!("-{producer}"));
    }
    settings
}

/// What no other run makes up.
fn random() -> wire::Uuid {
    let bits = RandomState::new().hash_one(time::now_ms());
    let more = RandomState::new().hash_one(std::process::id());
    wire::Uuid::from_random(((u128::from(bits) << 64) | u128::from(more)).to_be_bytes())
}

fn payload(args: &Args) -> Result<Payload> {
    if !(0.0..=1.0).contains(&args.payload_repeated) {
        return Err(Usage("--payload-repeated is a part from 0 to 1".to_owned()).into());
    }
    let payload = if args.payload_monotonic {
        Payload::numbers()
    } else if let Some(file) = &args.payload_file {
        let delimiter = args.payload_delimiter.replace("\\n", "\n").replace("\\t", "\t");
        let content =
            String::from_utf8(read_bytes(file)?).map_err(|_| Usage(format!("{} is not UTF-8", file.display())))?;
        let values = content.split(&delimiter).filter(|value| !value.is_empty());
        let values = values.map(|value| Bytes::copy_from_slice(value.as_bytes())).collect();
        Payload::given(values).map_err(|error| Usage(format!("{}: {error}", file.display())))?
    } else {
        let sizes = args.record_size.clone().unwrap_or(Sizes::Fixed(0));
        Payload::random(sizes, args.payload_repeated, args.random_seed)
    };
    let keys = args.key_distribution;
    let keys =
        keys.unwrap_or(if args.record_key_range.is_some() { KeyDistribution::Random } else { KeyDistribution::None });
    let headers = args.header.iter().map(|(name, value)| (name.clone().into(), value.clone().into())).collect();
    Ok(payload.with_keys(keys, args.record_key_range.unwrap_or(u64::MAX)).with_headers(headers))
}

/// Of all producers together.
fn pace(args: &Args) -> Result<Pace> {
    if args.throughput.is_nan() || args.throughput == 0.0 {
        return Err(Usage("--throughput is a number of records per second, or -1".to_owned()).into());
    }
    let schedule = Schedule::new(args.throughput, args.ramp);
    Ok(match (args.throughput < 0.0, args.closed_loop) {
        (true, _) => Pace::Unlimited,
        (false, true) => Pace::ClosedLoop(schedule),
        (false, false) => Pace::OpenLoop(schedule),
    })
}
