//! What the runs of a suite have come to, for the console.

use std::path::Path;

use console::{HistoryCase, HistoryChange, HistoryFinding, HistoryRun, SuiteHistory};
use lab::{Finding, Trend};

use crate::cmd::lab::past_runs::PastRuns;

/// Runs of a suite that its history shows, the newest.
const HISTORY_MAX: usize = 20;

/// All runs of a suite that there are in a directory, or why there is nothing to show.
pub(super) fn of_suite(directory: &Path, suite: &str) -> Result<SuiteHistory, String> {
    let runs = PastRuns::in_directory(directory).map_err(|error| format!("cannot look for runs: {error}"))?;
    let history = runs.of_suite(suite).history(HISTORY_MAX);
    let history = history.ok_or_else(|| format!("no run of {suite:?} has measured anything"))?;
    let finding = |case: &lab::CaseHistory| HistoryFinding {
        target: case.target.clone(),
        changes: [&case.before, &case.first].map(change),
    };
    let cases = history.by_case().map(|on_targets| HistoryCase {
        id: on_targets[0].id.clone(),
        title: on_targets[0].title.clone(),
        findings: on_targets.iter().map(finding).collect(),
        charts: lab::history_charts(&history, on_targets),
    });
    let run = |run: &lab::HistoryRun| HistoryRun {
        id: run.directory.clone(),
        started: run.minute(),
        version: run.version.clone(),
        remarks: run.remarks.clone(),
    };
    Ok(SuiteHistory {
        cases: cases.collect(),
        runs: history.runs.iter().map(run).collect(),
        summary: history.summary(),
        left_out: history.left_out.into_iter().map(|run| (run.directory, run.reason)).collect(),
        title: history.title,
    })
}

fn change(finding: &Finding) -> HistoryChange {
    let is_better = match finding.trend {
        Trend::Better => Some(true),
        Trend::Worse => Some(false),
        Trend::NoDifference | Trend::Unknown => None,
    };
    HistoryChange { text: finding.to_string(), is_better }
}
