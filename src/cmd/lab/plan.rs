//! `parshall lab list`, `show` and `plan`: what there is, and what would run.

use anyhow::Result;
use lab::{Case, Load, Scenario};
use serde_json::{Value, json};

use super::outlook::{Estimate, Length, Outlook, seconds, span};
use super::source;
use super::target::Targets;
use crate::cmd::output;
use crate::cmd::table::{Column, table};

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
  parshall lab show quick --json | jq '.case[].id'
  parshall lab show --keys")]
pub(super) struct Show {
    /// Name of the suite
    #[arg(required_unless_present = "keys")]
    suite: Option<String>,
    /// Print the keys that a case can have, with their meaning and default
    #[arg(long)]
    keys: bool,
    /// Print the suite as one JSON object, or the keys as one JSON array
    #[arg(long)]
    json: bool,
}

/// Say what a run would do, for how long, and how much disk it would take.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall lab plan huawei-dms
  parshall lab plan huawei-dms --scale 1 --repeat 3
  parshall lab plan huawei-dms --budget 10m
  parshall lab plan mine.toml --case D3")]
pub(super) struct Args {
    /// Name of a suite, or a scenario's file
    scenario: String,
    /// Only the cases of this id, as often as needed
    #[arg(long, value_name = "ID")]
    case: Vec<String>,
    #[command(flatten)]
    length: Length,
    /// Run each case so often
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    #[command(flatten)]
    targets: Targets,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
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

pub(super) fn show(args: &Show) -> Result<()> {
    if args.keys {
        let defaults = Load::default().parameters();
        let keys = lab::KEYS.iter().map(|(name, meaning)| (*name, meaning.trim(), defaults.get(*name)));
        if args.json {
            let row = |(name, meaning, default)| json!({ "key": name, "meaning": meaning, "default": default });
            output::print_json(&keys.map(row).collect::<Vec<_>>())?;
        } else {
            let default = |default: Option<&String>| default.map_or("", String::as_str).to_owned();
            let row =
                |(name, meaning, given): (&str, &str, _)| [name.to_owned(), format!("{meaning} [{}]", default(given))];
            let keys = table(&keys.map(row).collect::<Vec<_>>(), &[Column::Fitted(0), Column::Fixed(0)], " ");
            let settings = "producer.NAME, consumer.NAME, topic_settings.NAME: settings by Kafka's names\n\
                            id, title, repeat, stop, skip, published: see docs/lab.md\n";
            output::print(&(keys + settings))?;
        }
    }
    if let Some(suite) = &args.suite {
        let text = source::text(suite)?;
        match args.json {
            true => output::print_json(&toml::from_str::<Value>(&text)?)?,
            false => output::print(&text)?,
        }
    }
    Ok(())
}

pub(super) fn run(args: &Args) -> Result<()> {
    let scenario = source::scenario(&args.scenario, &args.case)?;
    let outlook = Outlook::new(scenario, &args.length, args.repeat, &args.targets)?;
    let cases = &outlook.scenario.cases;
    if args.json {
        let row = |case: &Case| {
            let Estimate { seconds, disk_mib } = outlook.estimate(case);
            json!({
                "id": case.id, "title": case.title, "runs": outlook.runs(case), "seconds": seconds,
                "disk_mib": disk_mib, "parameters": case.load.parameters(),
            })
        };
        let Estimate { seconds, disk_mib } = outlook.total();
        return Ok(output::print_json(&json!({
            "name": outlook.scenario.name, "targets": outlook.labels(), "seconds": seconds, "disk_mib": disk_mib,
            "cases": cases.iter().map(row).collect::<Vec<_>>(),
        }))?);
    }
    let mut rows = vec![["CASE", "RUNS", "TIME", "DISK", "LOAD"].map(str::to_owned)];
    rows.extend(cases.iter().map(|case| {
        let Estimate { seconds, disk_mib } = outlook.estimate(case);
        let skipped = outlook.skipped(case).map_or(String::new(), |reason| format!("skipped: {reason}; "));
        let (runs, load) = (outlook.runs(case).to_string(), skipped + &of_load(&case.load));
        [case.id.clone(), runs, span(seconds), format!("{disk_mib:.0} MiB"), load]
    }));
    let columns = [Column::Fitted(0), Column::Right(0), Column::Right(0), Column::Right(0), Column::Fixed(0)];
    let mut text = table(&rows, &columns, "  ");
    text.push_str(&format!("\n{}\n", outlook.summary()));
    if args.length.is_own() {
        text.push_str(
            "Each case runs for its own time; --scale 1 sends as many records as the report did, --duration and \
             --budget set the time.\n",
        );
    }
    output::print(&text)?;
    Ok(())
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
    if load.broker_size().is_limited() {
        parts.push(format!("brokers of {}", load.broker_size()));
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
