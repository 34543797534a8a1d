//! `parshall lab compare`: two runs beside each other.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use lab::{ComparedCase, Ratio, Results};
use serde_json::{Value, json};

use crate::cmd::failure::Usage;
use crate::cmd::output;
use crate::cmd::table::{Column, table};

/// Compare two runs of the same cases: the first over the second, and whether the difference is more than noise.
///
/// Each side is the directory of a run, or of one of its targets: DIR:kafka. With two repetitions of each case or more
/// there is an interval of 95 %; a difference whose interval holds 1 is called noise.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall lab compare results/before results/after
  parshall lab compare results:parshall results:kafka --json")]
pub(super) struct Args {
    /// The first run
    #[arg(value_name = "DIR[:TARGET]")]
    first: String,
    /// The second run
    #[arg(value_name = "DIR[:TARGET]")]
    second: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let (first, second) = (Side::read(&args.first)?, Side::read(&args.second)?);
    let compared = lab::compare(first.cases(), second.cases());
    if compared.is_empty() {
        return Err(Usage("the two runs have measured no case in common".to_owned()).into());
    }
    if args.json {
        output::print_json(&json!({ "first": args.first, "second": args.second, "cases":
            compared.iter().map(case_json).collect::<Vec<_>>() }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![["CASE", "RECORDS/S", "BROKER CPU PER RECORD", "P99"].map(str::to_owned)];
    rows.extend(compared.iter().map(|case| {
        let [records, cpu, p99] = [case.throughput, case.broker_cpu_per_record, case.latency_p99].map(of_ratio);
        [case.id.clone(), records, cpu, p99]
    }));
    let mut text = table(&rows, &[Column::Fitted(0), Column::Fitted(0), Column::Fitted(0), Column::Fixed(0)], "  ");
    text.push_str(&format!("\n{} over {}; in brackets the interval of 95 %\n", args.first, args.second));
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

struct Side {
    results: Results,
    target: Option<String>,
}

impl Side {
    fn read(text: &str) -> Result<Self> {
        let (directory, target) = match text.rsplit_once(':') {
            Some((directory, target)) if !Path::new(text).exists() => (directory, Some(target.to_owned())),
            _ => (text, None),
        };
        let results = Results::read(&PathBuf::from(directory))?;
        let labels: Vec<_> = results.run.targets.iter().map(|target| target.label.clone()).collect();
        match &target {
            Some(target) if !labels.contains(target) => {
                Err(Usage(format!("{directory} has no target {target}; it has {}", labels.join(", "))).into())
            }
            None if labels.len() > 1 => {
                Err(Usage(format!("{directory} has several targets; name one: {directory}:{}", labels[0])).into())
            }
            _ => Ok(Self { results, target }),
        }
    }

    fn cases(&self) -> impl Iterator<Item = &lab::CaseResult> {
        self.results.cases.iter().filter(|case| self.target.as_ref().is_none_or(|target| *target == case.target))
    }
}

pub(in crate::cmd) fn of_ratio(ratio: Option<Ratio>) -> String {
    let Some(ratio) = ratio else { return "-".to_owned() };
    let interval = ratio.interval.map_or(String::new(), |(least, most)| format!(" [{least:.2}, {most:.2}]"));
    let note = match ratio.is_noise() {
        Some(true) => " noise",
        Some(false) => "",
        None => " (one run)",
    };
    format!("{:.2}{interval}{note}", ratio.ratio)
}

fn case_json(case: &ComparedCase) -> Value {
    let ratio = |ratio: Option<Ratio>| {
        ratio.map(|ratio| json!({ "ratio": ratio.ratio, "interval": ratio.interval, "is_noise": ratio.is_noise() }))
    };
    json!({
        "id": case.id,
        "throughput": ratio(case.throughput),
        "broker_cpu_per_record": ratio(case.broker_cpu_per_record),
        "latency_p99": ratio(case.latency_p99),
    })
}
