//! `parshall lab compare`: two runs beside each other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use lab::{ComparedCase, ComparedFigure, ComparedSide, Limit, Ratio, Results, Spread};
use serde_json::{Value, json};

use crate::cmd::failure::Usage;
use crate::cmd::output::{self, visible};
use crate::cmd::table::{Column, table};

/// Compare two runs of the same cases: the figures of both, what limited each, and what may be concluded.
///
/// Each side is the directory of a run, or of one of its targets: DIR:kafka. A conclusion takes two repetitions of each
/// case or more. A difference is called noise if its interval of 95 % holds 1, the repetitions of both sides overlap,
/// or it is less than 1 %.
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
    let only = [(&first, &second), (&second, &first)].map(|(side, other)| side.lacking_in(other));
    if args.json {
        let [only_first, only_second] = only;
        output::print_json(&json!({
            "first": args.first, "second": args.second,
            "cases": compared.iter().map(case_json).collect::<Vec<_>>(),
            "only_first": only_first, "only_second": only_second,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("A: {}\nB: {}\n", args.first, args.second);
    for case in &compared {
        text.push_str(&of_case(case));
    }
    for (name, ids) in ["A", "B"].iter().zip(&only).filter(|(_, ids)| !ids.is_empty()) {
        text.push_str(&format!("\nmeasured in {name} only: {}\n", ids.join(", ")));
    }
    text.push_str("\nmedians, with the least and the most of all repetitions; A / B with its interval of 95 %\n");
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The figures of both sides, what limited each, and what may be concluded.
fn of_case(case: &ComparedCase) -> String {
    let ComparedCase { id, title, first, second, throughput, broker_cpu_per_record, latency_p99, .. } = case;
    let row = |name: &str, figure: &ComparedFigure| {
        [format!("  {name}"), of_spread(figure.first), of_spread(figure.second), of_ratio(figure.ratio)]
    };
    let p99 = if first.is_saturated || second.is_saturated {
        let of = |side: &ComparedSide| if side.is_saturated { "saturated" } else { "not compared" }.to_owned();
        ["  p99, ms".to_owned(), of(first), of(second), "-".to_owned()]
    } else {
        row("p99, ms", latency_p99)
    };
    let rows = [
        ["", "A", "B", "A / B"].map(str::to_owned),
        row("records/s", throughput),
        row("broker CPU, s per million", broker_cpu_per_record),
        p99,
        ["  limited by".to_owned(), of_limits(first), of_limits(second), String::new()],
    ];
    let columns = [Column::Fitted(0), Column::Fitted(0), Column::Fitted(0), Column::Fixed(0)];
    let mut text = format!("\n{}  {}\n", visible(id), visible(title));
    for line in table(&rows, &columns, "  ").lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for (name, side) in [("A", first), ("B", second)] {
        for warning in &side.warnings {
            text.push_str(&format!("  warning: {name}, {}\n", visible(warning)));
        }
    }
    text + &format!("  {}\n", case.conclusion)
}

/// `71600 (70000 to 72000)`.
pub(super) fn of_spread(spread: Option<Spread>) -> String {
    let Some(Spread { median, least, most, count }) = spread else { return "-".to_owned() };
    let range = if count > 1 { format!(" ({} to {})", number(least), number(most)) } else { String::new() };
    number(median) + &range
}

/// Three digits at least, and all in front of the point.
fn number(value: f64) -> String {
    let digits = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// `client buffer`, or `client buffer (2 of 3), noise (1 of 3)`.
fn of_limits(side: &ComparedSide) -> String {
    let all: usize = side.limits.iter().map(|(_, count)| count).sum();
    let one = |(limit, count): &(Limit, usize)| match *count == all {
        true => limit.to_string(),
        false => format!("{limit} ({count} of {all})"),
    };
    side.limits.iter().map(one).collect::<Vec<_>>().join(", ")
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

    /// Ids of the cases that were measured here and not there.
    fn lacking_in(&self, other: &Self) -> Vec<&str> {
        let there: BTreeSet<_> = other.measured_ids().collect();
        let mut ids: Vec<_> = self.measured_ids().filter(|id| !there.contains(id)).collect();
        ids.dedup();
        ids
    }

    fn measured_ids(&self) -> impl Iterator<Item = &str> {
        self.cases().filter(|case| case.measured().is_some()).map(|case| case.id.as_str())
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
    json!({
        "id": case.id,
        "title": case.title,
        "first": side_json(&case.first),
        "second": side_json(&case.second),
        "throughput": figure_json(&case.throughput, "records/s"),
        "broker_cpu_per_record": figure_json(&case.broker_cpu_per_record, "s/million records"),
        "latency_p99": figure_json(&case.latency_p99, "ms"),
        "conclusion": { "text": case.conclusion.to_string(), "is_difference": case.conclusion.is_difference() },
    })
}

fn side_json(side: &ComparedSide) -> Value {
    let limit = |(limit, count): &(Limit, usize)| json!({ "limit": limit, "repetitions": count });
    json!({
        "limits": side.limits.iter().map(limit).collect::<Vec<_>>(),
        "is_saturated": side.is_saturated,
        "warnings": side.warnings,
    })
}

/// `null` where neither side has it.
fn figure_json(figure: &ComparedFigure, unit: &str) -> Value {
    if figure.first.or(figure.second).is_none() {
        return Value::Null;
    }
    json!({
        "unit": unit,
        "first": figure.first.map(spread_json),
        "second": figure.second.map(spread_json),
        "ratio": figure.ratio.map(|ratio| ratio.ratio),
        "interval": figure.ratio.and_then(|ratio| ratio.interval),
        "is_noise": figure.ratio.and_then(|ratio| ratio.is_noise()),
    })
}

pub(super) fn spread_json(Spread { median, least, most, count }: Spread) -> Value {
    json!({ "median": median, "least": least, "most": most, "repetitions": count })
}

#[cfg(test)]
mod tests {
    use lab::{Conclusion, Side as OfSide};

    use super::*;

    fn figure(first: &[f64], second: &[f64]) -> ComparedFigure {
        ComparedFigure { first: Spread::of(first), second: Spread::of(second), ratio: Ratio::of(first, second) }
    }

    fn compared() -> ComparedCase {
        let side = |limits: &[(Limit, usize)]| ComparedSide {
            limits: limits.to_vec(),
            is_saturated: false,
            warnings: Vec::new(),
        };
        ComparedCase {
            id: "H1".to_owned(),
            title: "Batches".to_owned(),
            first: side(&[(Limit::BrokerCpu, 2)]),
            second: ComparedSide {
                is_saturated: true,
                warnings: vec!["repetition 2: disturbed\n".to_owned()],
                ..side(&[(Limit::ClientBuffer, 2), (Limit::Noise, 1)])
            },
            throughput: figure(&[71_600.0, 70_000.0], &[23_400.0, 23_000.0, 24_000.0]),
            broker_cpu_per_record: figure(&[3.0, 3.01], &[]),
            latency_p99: figure(&[], &[]),
            conclusion: Conclusion::Carries { side: OfSide::A, times: 3.02, is_least: false },
        }
    }

    #[test]
    fn both_sides_are_shown_with_what_limited_them_and_a_conclusion() {
        let expected = "
H1  Batches
                             A                       B                                       A / B
  records/s                  70800 (70000 to 71600)  23400 (23000 to 24000)                  3.02 [2.81, 3.24]
  broker CPU, s per million  3.00 (3.00 to 3.01)     -                                       -
  p99, ms                    not compared            saturated                               -
  limited by                 broker CPU              client buffer (2 of 3), noise (1 of 3)
  warning: B, repetition 2: disturbed\\n
  A carries 3.0 times as many records
";
        assert_eq!(of_case(&compared()), expected);
    }

    #[test]
    fn json_has_the_same() {
        let case = case_json(&compared());
        assert_eq!(case["throughput"]["second"]["least"], 23_000.0);
        assert_eq!(
            (&case["throughput"]["unit"], &case["throughput"]["is_noise"]),
            (&json!("records/s"), &json!(false))
        );
        assert_eq!(case["second"]["limits"][1], json!({ "limit": "noise", "repetitions": 1 }));
        assert_eq!(case["broker_cpu_per_record"]["ratio"], Value::Null);
        assert_eq!(case["latency_p99"], Value::Null);
        let expected = json!({ "text": "A carries 3.0 times as many records", "is_difference": true });
        assert_eq!(case["conclusion"], expected);
    }

    #[test]
    fn figures_have_three_digits_at_least() {
        let texts = [123_456.7, 99.96, 10.04, 1.234, 0.1234].map(number);
        assert_eq!(texts, ["123457", "100.0", "10.0", "1.23", "0.123"]);
    }
}
