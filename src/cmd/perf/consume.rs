//! `parshall perf consume`: what kafka-consumer-perf-test.sh does, and what it cannot.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use client::{IsolationLevel, ResetOffset};
use lab::{ConsumeLoad, ConsumeStats, ConsumerSettings};
use tokio::task::JoinSet;

use super::figures::{self, Part};
use super::metrics::Metrics;
use super::watch::{INTERRUPTED, watch};
use super::{Output, OutputFlags, lines, properties};
use crate::cmd::args::{self, Connection};
use crate::cmd::failure::Usage;
use crate::cmd::{output, time};

/// The client.id that Kafka's tool has.
const CLIENT_ID: &str = "perf-consumer-client";
const CONSUMERS_MAX: u64 = 10_000;

/// Read records as fast as they come, and say how fast that was.
///
/// Several consumers share the partitions as members of one group; with --no-group each of them reads everything. Ends
/// when enough is read, or when nothing has come for --timeout. Times are UTC.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall perf consume --topic orders --num-records 1000000
  parshall perf consume --topic orders --num-records 10000000 --consumers 4 --show-detailed-stats
  parshall perf consume --topic orders --duration 30s --from-latest --output json
  parshall perf consume --broker-list kafka:9092 --topic orders --messages 1000000 --fetch-size 10000000 --threads 1")]
pub(crate) struct Args {
    /// Name of the topic, as often as needed
    #[arg(long, required = true, value_parser = args::name)]
    topic: Vec<String>,
    /// How many records, all consumers together
    #[arg(long, alias = "messages", value_name = "N", required_unless_present = "duration")]
    num_records: Option<u64>,
    /// How long to read, in place of a number of records or as its limit
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    duration: Option<Duration>,
    /// Consumers at work at the same time, with connections of their own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=CONSUMERS_MAX))]
    consumers: u64,
    /// The group that they are members of; one of its own where none is given
    #[arg(long, value_name = "GROUP", value_parser = args::name)]
    group: Option<String>,
    /// Join no group: each consumer reads every partition
    #[arg(long, conflicts_with = "group")]
    no_group: bool,
    /// Start with what comes from now on, where the group has no offset
    #[arg(long)]
    from_latest: bool,
    /// Read all records, or none of transactions that are open or were aborted (isolation.level)
    #[arg(long, value_name = "read_uncommitted|read_committed")]
    isolation_level: Option<IsolationLevel>,
    /// Bytes of one partition in one answer (max.partition.fetch.bytes)
    #[arg(long, value_name = "BYTES", default_value = "1048576")]
    fetch_size: String,
    /// Milliseconds without a record after which a consumer ends
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    timeout: u64,
    /// Print at the end what the consumers did underneath, by the names of Kafka's metrics
    #[arg(long)]
    print_metrics: bool,
    /// Milliseconds between the lines of progress
    #[arg(long, value_name = "MS", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    reporting_interval: u64,
    /// Print a line at each interval
    #[arg(long)]
    show_detailed_stats: bool,
    /// Leave out the line that names the columns
    #[arg(long)]
    hide_header: bool,
    /// Settings of the consumer by Kafka's names: fetch.min.bytes=100000 fetch.max.wait.ms=500 ...
    #[arg(long, value_name = "NAME=VALUE", num_args = 1.., value_parser = args::pair)]
    command_property: Vec<(String, String)>,
    /// Taken and without effect, as in Kafka's tool
    #[arg(long, value_name = "N", hide = true)]
    threads: Option<u64>,
    /// Taken and without effect, as in Kafka's tool
    #[arg(long, value_name = "N", hide = true)]
    num_fetch_threads: Option<u64>,
    /// Taken and without effect: the system chooses
    #[arg(long, value_name = "BYTES", hide = true)]
    socket_buffer_size: Option<u64>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let (settings, given) = settings(&args)?;
    if args.print_metrics && args.output.kind() == Output::Csv {
        return Err(Usage("--print-metrics has no place in CSV".to_owned()).into());
    }
    let client_id = settings.client_id.clone().unwrap_or_else(|| CLIENT_ID.to_owned());
    let connection = properties::connection(given, &args.connection)?;
    // A broker that is not there is an error before the clock starts.
    connection.named(&client_id)?.any_broker().await?;
    let started_wall_ms = time::now_ms();
    let own_group = || format!("perf-consumer-{}-{started_wall_ms}", std::process::id());
    let named_group = args.group.clone().or_else(|| settings.group_id.clone());
    let group_id = (!args.no_group).then(|| named_group.unwrap_or_else(own_group));
    match args.output.kind() {
        _ if args.hide_header => {}
        Output::Kafka => output::print(lines::consumer_header(args.show_detailed_stats))?,
        Output::Csv => output::print(figures::CSV_HEADER)?,
        Output::Table | Output::Json => {}
    }
    let stats = Arc::new(ConsumeStats::start());
    let stop = Arc::new(AtomicBool::new(false));
    let mut consumers = JoinSet::new();
    for _ in 0..args.consumers {
        let load = ConsumeLoad {
            topics: args.topic.clone(),
            group_id: group_id.clone(),
            records: args.num_records,
            duration: args.duration,
            idle_max: Duration::from_millis(args.timeout),
            starts: BTreeMap::new(),
            rewinds: false,
            clock: None,
            settings: settings.clone(),
        };
        let (client, heart) = (connection.named(&client_id)?, connection.named(&client_id)?);
        let (stats, stop) = (Arc::clone(&stats), Arc::clone(&stop));
        consumers.spawn(async move { lab::consume(client, heart, load, &stats, &stop).await });
    }
    let mut before = stats.consumed();
    let period = Duration::from_millis(args.reporting_interval);
    let interrupted = watch(&mut consumers, &stop, period, |elapsed| {
        let so_far = stats.consumed();
        let since = std::mem::replace(&mut before, so_far);
        match args.output.kind() {
            Output::Kafka if args.show_detailed_stats => {
                output::print(&lines::consumer_window(time::now_ms(), since, so_far, elapsed))
            }
            Output::Csv => output::print(&figures::csv(&Part::read("window", so_far.since(since), elapsed, None))),
            Output::Kafka | Output::Table | Output::Json => Ok(()),
        }
    });
    let interrupted = interrupted.await?;
    report(&args, &client_id, &stats, started_wall_ms)?;
    let missing = args.num_records.is_some_and(|wanted| stats.consumed().records < wanted);
    if missing && stats.has_timed_out() {
        eprintln!(
            "only {} records have come before --timeout ({} ms) had passed without any",
            stats.consumed().records,
            args.timeout
        );
    }
    Ok(if interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

fn report(args: &Args, client_id: &str, stats: &ConsumeStats, started_wall_ms: i64) -> Result<()> {
    let (consumed, elapsed) = (stats.consumed(), stats.elapsed());
    let total = Part::read("total", consumed, elapsed, None);
    // What Kafka's tool divides by in its last two columns.
    let fetching = Part::read("fetching", consumed, elapsed.saturating_sub(consumed.joining), None);
    let mut metrics = Metrics::default();
    metrics.add_consumers(client_id, stats.fetches(), consumed, elapsed);
    match args.output.kind() {
        Output::Kafka if args.show_detailed_stats => {}
        Output::Kafka => output::print(&lines::consumer_total(started_wall_ms, consumed, elapsed))?,
        Output::Table => output::print(&figures::text(&[total, fetching]))?,
        Output::Csv => output::print(&(figures::csv(&total) + &figures::csv(&fetching)))?,
        Output::Json => {
            let mut object = figures::json(&total);
            object["joining_seconds"] = consumed.joining.as_secs_f64().into();
            object["consumers"] = args.consumers.into();
            object["timed_out"] = stats.has_timed_out().into();
            if args.print_metrics {
                object["metrics"] = metrics.json();
            }
            output::print_json(&object)?;
        }
    }
    if args.print_metrics && args.output.kind() != Output::Json {
        output::print(&metrics.lines())?;
    }
    Ok(())
}

/// The consumer's settings, and where and how to connect.
fn settings(args: &Args) -> Result<(ConsumerSettings, properties::Given)> {
    let mut settings = ConsumerSettings::default();
    let mut set = |name: &str, value: &str| settings.set(name, value);
    set("max.partition.fetch.bytes", &args.fetch_size)
        .map_err(|_| Usage("--fetch-size is a number of bytes up to 2147483647".to_owned()))?;
    let given = properties::apply(&properties::pairs(&args.connection, &args.command_property)?, set)?;
    if let Some(isolation) = args.isolation_level {
        settings.fetch.isolation = isolation;
    }
    if args.from_latest {
        settings.fetch.reset = ResetOffset::Latest;
    }
    Ok((settings, given))
}
