//! `parshall lab capacity`: the highest rate that meets a latency goal.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use lab::{Capacity, Chart, Criterion, Event, Extent, Measure, Plan, Scenario, TargetSpec};
use serde_json::json;

use super::display::Display;
use super::live::Live;
use super::outlook::span;
use super::progress::Progress;
use super::run::{command_line, finish, own_directory, stop_on_interrupt};
use super::target::Targets;
use crate::cmd::failure::Usage;
use crate::cmd::table::{Column, table};
use crate::cmd::{args, output, time};

/// Find the highest rate that meets a goal, and draw latency against throughput on the way.
///
/// Goes as fast as it can for some seconds, then at parts of that rate until the goal is missed, then halves the gap.
/// Latency counts from when a record was due. A rate that is not reached has not met the goal.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall lab capacity --goal 'p99 <= 20ms'
  parshall lab capacity --goal 'p99.9 <= 5ms' --record-size 100 --partitions 6 --producers 3 --producer-props acks=all
  parshall lab capacity --goal 'p99 <= 20ms' --bootstrap-server kafka:9092 --step 30s")]
pub(super) struct Args {
    #[command(flatten)]
    load: CapacityLoad,
    /// How close the answer is to be, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    precision: f64,
    #[command(flatten)]
    targets: Targets,
    /// Where results go [default: parshall-results/capacity-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What has to hold, for which load.
#[derive(Debug, clap::Args)]
pub(in crate::cmd) struct CapacityLoad {
    /// What has to hold: p50, p99, p99.9, max, end_to_end_p99 ... and a bound
    #[arg(long, value_name = "BOUND", default_value = "p99 <= 20ms")]
    pub(in crate::cmd) goal: Criterion,
    /// How long each rate is tried, behind a warm-up of a fifth of it
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = args::duration)]
    pub(in crate::cmd) step: Duration,
    /// Bytes of each value: 1024, 100-2000 for sizes in between, 100:9,2000:1 for sizes with weights
    #[arg(long, value_name = "SIZES", default_value = "1024")]
    pub(in crate::cmd) record_size: String,
    /// Partitions of the topic
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(in crate::cmd) partitions: u32,
    /// Replicas of each partition
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(in crate::cmd) replicas: u32,
    /// Producers at work at the same time
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(in crate::cmd) producers: u32,
    /// Consumers at work at the same time, as one group
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(in crate::cmd) consumers: u32,
    /// Settings of the producers by Kafka's names: acks=1 batch.size=16384 linger.ms=5 ...
    #[arg(long, value_name = "NAME=VALUE", num_args = 1.., value_parser = args::pair)]
    pub(in crate::cmd) producer_props: Vec<(String, String)>,
}

pub(super) async fn run(args: Args) -> Result<ExitCode> {
    if !(0.1..=100.0).contains(&args.precision) {
        return Err(Usage("--precision is a number of percent from 0.1 to 100".to_owned()).into());
    }
    let plan = Plan {
        scenario: args.load.scenario()?,
        extent: Extent::Time,
        repeat: None,
        targets: args.targets.specs()?,
        brokers: args.targets.brokers(),
        data_parent: args.targets.data_dir(),
        directory: args.out.clone().unwrap_or_else(|| own_directory("capacity")),
        command: command_line(),
        command_for_case: None,
        program_version: env!("VERSION_WITH_COMMIT").to_owned(),
        wall_ms: time::now_ms,
        format_time: time::format_time,
    };
    let precision = args.precision / 100.0;
    let runs_max = lab::steps_max(precision) * plan.targets.len();
    let progress = Progress::of_search(&plan.scenario, runs_max);
    let display = Display::new(args.json);
    let labels: Vec<_> = plan.targets.iter().map(TargetSpec::label).collect();
    display.line(&format!(
        "{} on {}: at most {runs_max} runs, about {}\n",
        plan.scenario.title,
        labels.join(" and "),
        span(progress.left_s()),
    ));
    let mut live = Live::new(progress, display, &plan.directory);
    let stop = stop_on_interrupt();
    let show = |event: Event<'_>| live.show(&event);
    let found = lab::capacity(&plan, &args.load.goal, precision, &stop, show).await;
    live.end().await;
    let results = found?;
    let capacities = results.run.search.as_ref().map_or(&[][..], |search| &search.capacities);
    let goal = args.load.goal.to_string();
    if args.json {
        output::print_json(&json!({
            "directory": plan.directory.display().to_string(),
            "goal": goal,
            "targets": capacities,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for capacity in capacities {
        output::print(&text(capacity, &goal))?;
    }
    finish(&plan, &results, &[], false, stop.load(Ordering::Relaxed))
}

impl CapacityLoad {
    /// One case with all that the flags say; the search gives it its rates.
    pub(in crate::cmd) fn scenario(&self) -> Result<Scenario> {
        let step_s = self.step.as_secs_f64();
        let settings: String =
            self.producer_props.iter().map(|(name, value)| format!("producer.{name:?} = {value:?}\n")).collect();
        let text = format!(
            "name = \"capacity\"\ntitle = \"Capacity: {}\"\n[[case]]\nid = \"capacity\"\nduration_s = {step_s:?}\n\
             warm_up_s = {:?}\nrecord_size_bytes = {:?}\npartitions = {}\nreplicas = {}\nproducers = {}\n\
             consumers = {}\n{settings}",
            self.goal,
            (step_s / 5.0).ceil(),
            self.record_size,
            self.partitions,
            self.replicas,
            self.producers,
            self.consumers,
        );
        let mut scenario = Scenario::parse(&text).map_err(|error| Usage(error.reason().to_owned()))?;
        if self.producers == 0 {
            return Err(Usage("--producers is 1 at least".to_owned()).into());
        }
        let chart = |title: &str, y| Chart {
            title: title.to_owned(),
            cases: vec!["capacity".to_owned()],
            x: Some("rate_records_per_s".to_owned()),
            y,
        };
        scenario.charts = vec![
            chart("Latency against the rate", Measure::LatencyP99),
            chart("Busiest broker's CPU against the rate", Measure::BrokerCpu),
        ];
        Ok(scenario)
    }
}

fn text(capacity: &Capacity, goal: &str) -> String {
    let mut rows = vec![["RATE", "REACHED", "P50", "P99", "GOAL"].map(str::to_owned)];
    rows.extend(capacity.steps.iter().map(|step| {
        let ms = |us: u64| format!("{:.2} ms", us as f64 / 1000.0);
        let goal = if step.meets_goal { "met" } else { "missed" };
        let [rate, reached] = [step.records_per_s, step.reached_records_per_s].map(|rate| format!("{rate:.0}"));
        [rate, reached, ms(step.p50_us), ms(step.p99_us), goal.to_owned()]
    }));
    let columns = [Column::Right(14), Column::Right(14), Column::Right(10), Column::Right(10), Column::Fixed(0)];
    let answer = capacity.sentences(goal).join("\n");
    format!("\n{}\n{}{answer}\n", capacity.target, table(&rows, &columns, "  "))
}
