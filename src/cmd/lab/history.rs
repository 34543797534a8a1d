//! `parshall lab history`: a suite over builds.

use std::path::{Path, PathBuf};

use anyhow::Result;
use lab::{CaseHistory, Finding, History, HistoryFigure, HistoryPoint, Limit, Ratio, Results, Step};
use serde_json::{Value, json};

use super::compare::{of_spread, spread_json};
use super::past_runs::PastRuns;
use super::run::RESULTS;
use crate::cmd::failure::{self, Usage};
use crate::cmd::output::{self, visible};
use crate::cmd::table::{Column, table};

/// Show all runs of a suite in the order of time, and whether the newest is better or worse.
///
/// Throughput, p99 and broker CPU of each case and target: the median of each run with its least and most, the change
/// against the run before and against the first run, and a conclusion. A change within the noise is no difference.
/// Noise is what the repetitions of a run differ by, and the runs of one build. Runs on another host, or of another
/// scenario or length than the newest, are listed apart.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall lab history
  parshall lab history quick --out history.html
  parshall lab history huawei-dms --in results --last 5
  parshall lab history results/monday results/tuesday --json")]
pub(super) struct Args {
    /// Name of a suite or scenario, or directories of runs [default: the suite that ran last]
    #[arg(value_name = "SUITE|DIR")]
    runs: Vec<String>,
    /// Where the runs of a suite are kept
    #[arg(long = "in", value_name = "DIR", default_value = RESULTS)]
    parent: PathBuf,
    /// So many runs, the newest
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(2..=1000))]
    last: u16,
    /// Write a page with charts
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let found = find(&args.runs, &args.parent)?;
    let history = found.history(args.last.into());
    let history = history.ok_or_else(|| Usage("none of the runs has measured anything".to_owned()))?;
    if let Some(path) = &args.out {
        write(path, &lab::history_html(&history))?;
    }
    if args.json {
        output::print_json(&of_json(&history))?;
        return Ok(());
    }
    output::print(&text(&history))?;
    if let Some(path) = &args.out {
        output::print(&format!("\npage: {}\n", path.display()))?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a file that the user names")]
fn write(path: &Path, page: &str) -> Result<()> {
    std::fs::write(path, page).map_err(|error| failure::of_file("write", path, &error))
}

/// The runs that are named. A suite wins, so that a directory beside it changes nothing.
fn find(named: &[String], parent: &Path) -> Result<PastRuns> {
    let is_suite = |name: &String| lab::suite(name).is_some() || !Results::are_in(Path::new(name));
    let suite = match named {
        [] => None,
        [name] if is_suite(name) => Some(name.as_str()),
        directories => {
            if let Some(other) = directories.iter().find(|directory| !Results::are_in(Path::new(directory))) {
                return Err(Usage(format!("{other} is no run; name directories of runs, or one suite")).into());
            }
            return Ok(PastRuns::read(directories.iter().map(|name| (name.clone(), PathBuf::from(name)))));
        }
    };
    let place = parent.display();
    let runs = PastRuns::in_directory(parent).map_err(|error| failure::of_file("look for runs in", parent, &error))?;
    let suites: Vec<_> = runs.suites().iter().map(|(name, count)| format!("{name} ({count})")).collect();
    let suite = match (suite, runs.suites().first()) {
        (_, None) => return Err(Usage(format!("there is no run in {place}; parshall lab run makes one")).into()),
        (Some(suite), Some(_)) => suite.to_owned(),
        (None, Some((newest, _))) => (*newest).to_owned(),
    };
    let runs = runs.of_suite(&suite);
    if runs.runs.is_empty() {
        return Err(Usage(format!("there is no run of {suite} in {place}; it has {}", suites.join(", "))).into());
    }
    Ok(runs)
}

fn text(history: &History) -> String {
    let count = history.runs.len();
    let mut text = format!("{}  {}\n\n", visible(&history.name), visible(&history.title));
    let head = ["run", "started, UTC", "parshall", "directory", "remarks"].map(str::to_owned);
    let runs = history.runs.iter().zip(1..).map(|(run, number): (_, usize)| {
        [number.to_string(), run.minute(), run.version.clone(), run.directory.clone(), run.remarks.clone()]
    });
    let columns = [Column::Right(0), Column::Fitted(0), Column::Fitted(0), Column::Fitted(0), Column::Fixed(0)];
    push_table(&mut text, &[head].into_iter().chain(runs).collect::<Vec<_>>(), &columns);
    if !history.left_out.is_empty() {
        text.push_str("\nleft out:\n");
        for run in &history.left_out {
            text.push_str(&format!("  {}: {}\n", visible(&run.directory), visible(&run.reason)));
        }
    }
    for case in &history.cases {
        text.push_str(&of_case(&history.name_of(case), case));
    }
    text.push_str(
        "\nmedians, with the least and the most of all repetitions; before, first: the change of the geometric mean against\n\
         the run before and the first run, ~ within the noise, ? of unknown noise\n",
    );
    if count > 1 {
        let [before, first] = history.summary();
        text.push_str(&format!("\nrun {count} against the run before: {before}\n"));
        if count > 2 {
            text.push_str(&format!("run {count} against the first run: {first}\n"));
        }
    }
    text
}

fn push_table<R: AsRef<[String]>>(text: &mut String, rows: &[R], columns: &[Column]) {
    for line in table(rows, columns, "  ").lines() {
        text.push_str(&format!("  {}\n", line.trim_end()));
    }
}

fn of_case(name: &str, case: &CaseHistory) -> String {
    // The run before the second one is the first.
    let has_first = case.points.len() > 2;
    let per_figure = if has_first { 3 } else { 2 };
    let head = |title: &str| [title, "before", "first"].map(str::to_owned).into_iter().take(per_figure);
    let row = |point: &HistoryPoint| {
        let figure = |figure: HistoryFigure| {
            let at = figure as usize;
            let change =
                |step: &Option<Step>| step.as_ref().map_or_else(String::new, |step| of_change(step.ratios[at]));
            let is_saturated = figure == HistoryFigure::LatencyP99 && point.side.is_saturated;
            let spread = if is_saturated { "saturated".to_owned() } else { of_spread(point.figures[at]) };
            [spread, change(&point.before), change(&point.first)].into_iter().take(per_figure)
        };
        [(point.run + 1).to_string()].into_iter().chain(HistoryFigure::ALL.into_iter().flat_map(figure)).collect()
    };
    let titles = ["records/s", "p99, ms", "broker CPU, s per million"];
    let mut rows: Vec<Vec<_>> = vec![["run".to_owned()].into_iter().chain(titles.into_iter().flat_map(head)).collect()];
    rows.extend(case.points.iter().map(row));
    let figure = [Column::Fitted(0), Column::Right(0), Column::Right(0)];
    let columns: Vec<_> = [Column::Right(0)].into_iter().chain([&figure[..per_figure]; 3].concat()).collect();
    let mut text = format!("\n{}  {}\n", visible(name), visible(&case.title));
    push_table(&mut text, &rows, &columns);
    text.push_str(&format!("  against the run before: {}\n", case.before));
    if has_first {
        text.push_str(&format!("  against the first run: {}\n", case.first));
    }
    text
}

/// `+31 %`, or `-1.2 % ~`.
fn of_change(ratio: Option<Ratio>) -> String {
    let Some(ratio) = ratio else { return "-".to_owned() };
    let mark = match ratio.is_noise() {
        Some(true) => " ~",
        Some(false) => "",
        None => " ?",
    };
    ratio.change() + mark
}

fn of_json(history: &History) -> Value {
    let run = |run: &lab::HistoryRun| json!({ "directory": run.directory, "started": run.started, "version": run.version, "remarks": run.remarks });
    let other = |run: &lab::LeftOut| json!({ "directory": run.directory, "reason": run.reason });
    json!({
        "name": history.name,
        "title": history.title,
        "runs": history.runs.iter().map(run).collect::<Vec<_>>(),
        "left_out": history.left_out.iter().map(other).collect::<Vec<_>>(),
        "cases": history.cases.iter().map(|case| case_json(history, case)).collect::<Vec<_>>(),
    })
}

fn case_json(history: &History, case: &CaseHistory) -> Value {
    json!({
        "id": case.id,
        "title": case.title,
        "target": case.target,
        "points": case.points.iter().map(|point| point_json(history, point)).collect::<Vec<_>>(),
        "before": finding_json(&case.before),
        "first": finding_json(&case.first),
    })
}

fn point_json(history: &History, point: &HistoryPoint) -> Value {
    let figure = |figure: HistoryFigure| {
        let at = figure as usize;
        let ratio = |step: &Option<Step>| {
            let ratio = step.as_ref()?.ratios[at]?;
            Some(json!({ "ratio": ratio.ratio, "interval": ratio.interval, "is_noise": ratio.is_noise() }))
        };
        point.figures[at].map(|spread| {
            let mut json = spread_json(spread);
            json["unit"] = json!(figure.unit());
            json["before"] = json!(ratio(&point.before));
            json["first"] = json!(ratio(&point.first));
            json
        })
    };
    let limit = |(limit, count): &(Limit, usize)| json!({ "limit": limit, "repetitions": count });
    let finding = |step: &Option<Step>| step.as_ref().map(|step| finding_json(&step.finding));
    let [throughput, latency_p99, broker_cpu_per_record] = HistoryFigure::ALL.map(figure);
    json!({
        "directory": history.runs[point.run].directory,
        "target_version": point.version,
        "throughput": throughput,
        "latency_p99": latency_p99,
        "broker_cpu_per_record": broker_cpu_per_record,
        "limits": point.side.limits.iter().map(limit).collect::<Vec<_>>(),
        "is_saturated": point.side.is_saturated,
        "before": finding(&point.before),
        "first": finding(&point.first),
    })
}

fn finding_json(finding: &Finding) -> Value {
    json!({ "trend": finding.trend, "reason": finding.reason, "text": finding.to_string() })
}
