//! `parshall lab run` and `parshall lab report`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use lab::{Criterion, Event, Outcome, Plan, Results};
use serde_json::json;

use super::display::Display;
use super::live::Live;
use super::outlook::{Length, Outlook};
use super::progress::Progress;
use super::source;
use super::target::Targets;
use crate::cmd::args::quoted;
use crate::cmd::{output, time};

const FAILED: u8 = 1;
/// What a shell shows for a command that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;
/// Where runs are kept that are told no place.
pub(super) const RESULTS: &str = "parshall-results";

/// Run a suite or a scenario, and write its results and a report.
///
/// Without --scale, --duration and --budget each case runs for the scenario's own time, which makes a built-in suite
/// about ten minutes; --scale 1 sends as many records as the report did. Several targets take turns, case by case. A
/// run that was interrupted goes on when it is started again with the same --out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall lab run quick
  parshall lab run huawei-dms --repeat 3 --out results
  parshall lab run google-managed --budget 5m --brokers 3
  parshall lab run design-analysis --case D2 --case D3 --bootstrap-server kafka:9092
  parshall lab run quick --target embedded --target kafka --kafka-home /opt/kafka
  parshall lab run mine.toml --fail-if 'p99 > 20ms' --fail-if 'failed_records > 0'")]
pub(super) struct Args {
    /// Name of a suite, or a scenario's file
    scenario: String,
    /// Only the cases of this id, as often as needed
    #[arg(long, value_name = "ID")]
    case: Vec<String>,
    #[command(flatten)]
    length: Length,
    /// Run each case so often, for its spread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    #[command(flatten)]
    targets: Targets,
    /// Where results go [default: parshall-results/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Exit with 1 when a case is so, as often as needed: 'p99 > 20ms', 'mib_per_s < 50', 'failed_records > 0'
    #[arg(long, value_name = "BOUND")]
    fail_if: Vec<Criterion>,
    /// Print one JSON object with all results at the end
    #[arg(long)]
    json: bool,
}

/// Make the report of a run anew from its results.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  parshall lab report parshall-results/quick-20260101-120000")]
pub(super) struct Report {
    /// The directory of the run
    directory: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn report(args: &Report) -> Result<()> {
    let path = lab::report(&args.directory)?;
    match args.json {
        true => output::print_json(&json!({ "report": path.display().to_string() }))?,
        false => output::print(&format!("{}\n", path.display()))?,
    }
    Ok(())
}

pub(super) async fn run(args: Args) -> Result<ExitCode> {
    let scenario = source::scenario(&args.scenario, &args.case)?;
    let directory = args.out.clone().unwrap_or_else(|| own_directory(&scenario.name));
    let outlook = Outlook::new(scenario, &args.length, args.repeat, &args.targets)?;
    let display = Display::new(args.json);
    display.line(&format!("{}\n", outlook.summary()));
    let mut live = Live::new(Progress::of_run(&outlook), display, &directory);
    let (targets, length) = (args.targets.flags(), args.length.flag(&outlook.scenario));
    let command_for_case = format!("parshall lab run {}{targets}{length}", quoted(&args.scenario));
    let plan = Plan {
        scenario: outlook.scenario,
        extent: outlook.extent,
        repeat: args.repeat,
        targets: args.targets.specs()?,
        brokers: args.targets.brokers(),
        data_parent: args.targets.data_dir(),
        directory,
        command: command_line(),
        command_for_case: Some(command_for_case),
        program_version: env!("VERSION_WITH_COMMIT").to_owned(),
        wall_ms: time::now_ms,
        format_time: time::format_time,
    };
    let stop = stop_on_interrupt();
    let results = lab::run(&plan, &stop, |event: Event<'_>| live.show(&event)).await;
    live.end().await;
    finish(&plan, &results?, &args.fail_if, args.json, stop.load(Ordering::Relaxed))
}

/// Says where results are, and what of them must not be.
pub(super) fn finish(
    plan: &Plan,
    results: &Results,
    fail_if: &[Criterion],
    is_json: bool,
    is_interrupted: bool,
) -> Result<ExitCode> {
    let report = plan.directory.join("report.html");
    if is_json {
        output::print_json(&json!({
            "directory": plan.directory.display().to_string(),
            "report": report.display().to_string(),
            "run": results.run,
            "cases": results.cases,
        }))?;
    } else {
        output::print(&format!("\nreport: {}\n", report.display()))?;
    }
    let mut is_failed = false;
    for case in &results.cases {
        is_failed |= matches!(case.outcome, Outcome::Failed { .. });
        for criterion in fail_if.iter().filter(|criterion| criterion.holds(case)) {
            eprintln!("{} on {}: {criterion}", case.id, case.target);
            is_failed = true;
        }
    }
    if is_interrupted {
        eprintln!("interrupted; the same command with --out {} goes on", quoted(&plan.directory.display().to_string()));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(if is_failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// Set by the first Ctrl-C, or SIGTERM.
pub(super) fn stop_on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, terminated) = (Arc::clone(&stop), Arc::clone(&stop));
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stopped.store(true, Ordering::Relaxed);
        }
    });
    tokio::spawn(async move {
        let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        if let Ok(mut terminate) = terminate {
            terminate.recv().await;
            terminated.store(true, Ordering::Relaxed);
        }
    });
    stop
}

/// A new one for each run.
pub(super) fn own_directory(name: &str) -> PathBuf {
    let digits: String = time::format_time(time::now_ms()).chars().filter(char::is_ascii_digit).take(14).collect();
    let (day, clock) = digits.split_at(8.min(digits.len()));
    PathBuf::from(RESULTS).join(format!("{name}-{day}-{clock}"))
}

/// As it could be typed again.
pub(super) fn command_line() -> String {
    let words = std::env::args().skip(1).map(|word| quoted(&word));
    std::iter::once("parshall".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
