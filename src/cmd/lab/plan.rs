//! `parshall lab list`, `show` and `plan`: what there is, and what would run.

use anyhow::Result;
use lab::{Case, Extent, Load, Scenario, TargetSpec};
use serde_json::json;

use super::source;
use super::target::Targets;
use crate::cmd::output;
use crate::cmd::table::{Column, table};

/// What starting, settling and cleaning up take, for each case.
const OVERHEAD_S: f64 = 1.5;
/// Taken where nobody knows how fast a case will be.
const ASSUMED_MIB_PER_S: f64 = 300.0;
const MIB: f64 = 1_048_576.0;

/// List the suites that are built in.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  parshall lab list")]
pub(super) struct List {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Print a suite as the TOML file that it is: the way to a scenario of your own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall lab show quick > mine.toml
  parshall lab show --keys")]
pub(super) struct Show {
    /// Name of the suite
    #[arg(required_unless_present = "keys")]
    suite: Option<String>,
    /// Print the keys that a case can have, with their meaning and default
    #[arg(long)]
    keys: bool,
}

/// Say what a run would do, for how long, and how much disk it would take.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall lab plan huawei-dms
  parshall lab plan huawei-dms --scale 1 --repeat 3
  parshall lab plan mine.toml --case D3")]
pub(super) struct Args {
    /// Name of a suite, or a scenario's file
    scenario: String,
    /// Only the cases of this id, as often as needed
    #[arg(long, value_name = "ID")]
    case: Vec<String>,
    /// The part of each case's records that is sent; 1 is the report's own size
    #[arg(long, value_parser = scale)]
    scale: Option<f64>,
    /// Run each case so often
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    #[command(flatten)]
    targets: Targets,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A part, or a multiple.
pub(super) fn scale(text: &str) -> Result<f64, String> {
    let scale = text.parse::<f64>().ok().filter(|scale| *scale > 0.0 && *scale <= 1000.0);
    scale.ok_or_else(|| "a scale is a number above 0, for example 0.1".to_owned())
}

pub(super) fn extent(scale: Option<f64>) -> Extent {
    scale.map_or(Extent::Time, Extent::Scale)
}

pub(super) fn list(args: &List) -> Result<()> {
    let mut rows = Vec::new();
    for suite in lab::suites() {
        let scenario = source::scenario(suite.name, &[])?;
        let seconds = seconds(&scenario);
        rows.push((scenario, seconds));
    }
    if args.json {
        let row = |(scenario, seconds): &(Scenario, f64)| {
            json!({
                "name": scenario.name, "title": scenario.title, "description": scenario.description,
                "cases": scenario.cases.len(), "seconds": seconds,
            })
        };
        output::print_json(&rows.iter().map(row).collect::<Vec<_>>())?;
        return Ok(());
    }
    let mut lines = vec![["SUITE", "CASES", "TIME", "TITLE"].map(str::to_owned)];
    lines.extend(rows.iter().map(|(scenario, seconds)| {
        let Scenario { name, title, cases, .. } = scenario;
        [name.clone(), cases.len().to_string(), span(*seconds), title.clone()]
    }));
    let text = table(&lines, &[Column::Fitted(0), Column::Right(0), Column::Right(0), Column::Fixed(0)], "  ");
    output::print(&text)?;
    Ok(())
}

/// About how long a scenario takes when each case runs for its own time.
pub(in crate::cmd) fn seconds(scenario: &Scenario) -> f64 {
    scenario.cases.iter().map(|case| estimate(case, Extent::Time, None).seconds).sum()
}

pub(super) fn show(args: &Show) -> Result<()> {
    if args.keys {
        let defaults = Load::default().parameters();
        let row = |(name, meaning): &(&str, &str)| {
            let default = defaults.get(*name).map_or("", String::as_str);
            [(*name).to_owned(), format!("{} [{default}]", meaning.trim())]
        };
        let rows: Vec<_> = lab::KEYS.iter().map(row).collect();
        let keys = table(&rows, &[Column::Fitted(0), Column::Fixed(0)], " ");
        let settings = "producer.NAME, consumer.NAME, topic_settings.NAME: settings by Kafka's names\n\
                        id, title, repeat, stop, skip, published: see docs/lab.md\n";
        output::print(&(keys + settings))?;
    }
    if let Some(suite) = &args.suite {
        output::print(&source::text(suite)?)?;
    }
    Ok(())
}

pub(super) fn run(args: &Args) -> Result<()> {
    let scenario = source::scenario(&args.scenario, &args.case)?;
    let extent = extent(args.scale);
    let targets = args.targets.specs()?;
    let labels: Vec<_> = targets.iter().map(TargetSpec::label).collect();
    // How many brokers a cluster has that runs already is not known before it is asked.
    let is_started = |target: &&TargetSpec| !matches!(target, TargetSpec::Servers { .. });
    let has_too_few = |case: &Case| case.load.brokers_min() > u32::from(args.targets.brokers());
    let targets_of = |case: &Case| match has_too_few(case) {
        true => targets.len() - targets.iter().filter(is_started).count(),
        false => targets.len(),
    };
    let runs = |case: &Case| args.repeat.unwrap_or(case.repeat) as usize * targets_of(case);
    let estimates: Vec<_> =
        scenario.cases.iter().map(|case| (case, estimate(case, extent, Some(runs(case))))).collect();
    let seconds: f64 = estimates.iter().map(|(_, estimate)| estimate.seconds).sum();
    let disk_mib = estimates.iter().map(|(_, estimate)| estimate.disk_mib).fold(0.0, f64::max);
    if args.json {
        let row = |(case, estimate): &(&Case, Estimate)| {
            json!({
                "id": case.id, "title": case.title, "runs": runs(case), "seconds": estimate.seconds,
                "disk_mib": estimate.disk_mib, "parameters": case.load.parameters(),
            })
        };
        return Ok(output::print_json(&json!({
            "name": scenario.name, "targets": labels, "seconds": seconds, "disk_mib": disk_mib,
            "cases": estimates.iter().map(row).collect::<Vec<_>>(),
        }))?);
    }
    let mut rows = vec![["CASE", "RUNS", "TIME", "DISK", "LOAD"].map(str::to_owned)];
    rows.extend(estimates.iter().map(|(case, estimate)| {
        let disk = format!("{:.0} MiB", estimate.disk_mib);
        let skipped = match targets_of(case) == targets.len() {
            true => String::new(),
            false => format!("skipped: needs --brokers {}; ", case.load.brokers_min()),
        };
        [case.id.clone(), runs(case).to_string(), span(estimate.seconds), disk, skipped + &of_load(&case.load)]
    }));
    let columns = [Column::Fitted(0), Column::Right(0), Column::Right(0), Column::Right(0), Column::Fixed(0)];
    let mut text = table(&rows, &columns, "  ");
    text.push_str(&format!(
        "\n{} on {}: {} runs, about {}, at most about {disk_mib:.0} MiB of disk at a time (topics are deleted behind each case)\n",
        scenario.title,
        labels.join(" and "),
        scenario.cases.iter().map(runs).sum::<usize>(),
        span(seconds),
    ));
    if args.scale.is_none() {
        text.push_str("Each case runs for its own time; --scale 1 sends as many records as the report did.\n");
    }
    output::print(&text)?;
    Ok(())
}

struct Estimate {
    seconds: f64,
    /// At most, at a time.
    disk_mib: f64,
}

fn estimate(case: &Case, extent: Extent, runs: Option<usize>) -> Estimate {
    let load = &case.load;
    let bytes = load.record_size_bytes.sizes.mean_bytes().max(1.0);
    let published =
        case.published.as_ref().and_then(|published| published.records_per_s.or(published.consumed_records_per_s));
    let rate = load.rate().or(published).unwrap_or(ASSUMED_MIB_PER_S * MIB / bytes);
    let (seconds, records) = match extent {
        Extent::Scale(scale) if load.records > 0 => {
            let records = load.records as f64 * scale;
            (records / rate, records)
        }
        _ => {
            let seconds = load.warm_up_s + load.duration_s;
            // How fast it will be here nobody knows, only how fast it was there.
            let rate = load.rate().unwrap_or_else(|| rate.max(ASSUMED_MIB_PER_S * MIB / bytes));
            let records = if load.records > 0 { (load.records as f64).min(rate * seconds) } else { rate * seconds };
            (seconds, records)
        }
    };
    let runs = runs.unwrap_or(case.repeat as usize) as f64;
    let disk_mib = if runs > 0.0 { records * bytes * f64::from(load.replicas) / MIB } else { 0.0 };
    Estimate { seconds: (seconds + OVERHEAD_S) * runs, disk_mib }
}

fn of_load(load: &Load) -> String {
    let mut parts = Vec::new();
    if load.producers > 0 {
        let s = if load.producers == 1 { "" } else { "s" };
        parts.push(format!("{} producer{s} of {} B", load.producers, load.record_size_bytes));
    }
    if load.consumers > 0 {
        parts.push(format!("{} consumers", load.consumers * load.consumer_groups.max(1)));
    }
    parts.push(format!("{} partitions", load.topics * load.partitions));
    if load.replicas > 1 {
        parts.push(format!("{} replicas", load.replicas));
    }
    if let Some(rate) = load.rate() {
        parts.push(format!("{rate:.0}/s"));
    }
    if load.network_delay_ms > 0.0 {
        parts.push(format!("{} ms network delay", load.network_delay_ms));
    }
    parts.extend(load.producer.iter().chain(&load.consumer).map(|(name, value)| format!("{name}={value}")));
    parts.join(", ")
}

fn span(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        assert_eq!([30.0, 600.0, 7200.0].map(span), ["30 s", "10 min", "2.0 h"]);
    }

    #[test]
    fn an_estimate_is_bounded_by_what_the_report_sent() {
        let mut case = Case::plain("a", Load { records: 1000, ..Load::default() });
        case.load.rate_records_per_s = 100.0;
        let timed = estimate(&case, Extent::Time, None);
        assert_eq!((timed.seconds, timed.disk_mib), (19.5, 1000.0 * 1024.0 / MIB));
        let whole = estimate(&case, Extent::Scale(0.5), Some(2));
        assert_eq!((whole.seconds, whole.disk_mib), (13.0, 500.0 * 1024.0 / MIB));
    }
}
