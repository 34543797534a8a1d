//! `/clusters/NAME/lab/history/SUITE`: all runs of a suite in the order of time, as charts, and what they come to.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;

use super::lab_access::{ask, run_path};
use crate::benchmark_runner::{HistoryCase, HistoryRun, SuiteHistory};
use crate::failure::{Failure, render};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;

#[derive(Template)]
#[template(path = "lab_history.html")]
struct Page {
    layout: Layout,
    base: String,
    suite: String,
    title: String,
    /// Against the run before, and against the first; empty where there is one run only.
    summary: Vec<(&'static str, String)>,
    cases: Vec<HistoryCase>,
    has_several_targets: bool,
    runs: Vec<RunRow>,
    left_out: Vec<(String, String)>,
}

struct RunRow {
    href: String,
    run: HistoryRun,
}

pub(crate) async fn show(context: RequestContext) -> Result<Response, Failure> {
    let suite = context.param("suite").to_owned();
    let wanted = suite.clone();
    let history = ask(&context, move |laboratory| laboratory.history(&wanted)).await?;
    let SuiteHistory { title, summary: [before, first], cases, runs, left_out } =
        history.map_err(Failure::not_found)?;
    let row = |run: HistoryRun| RunRow { href: run_path(&context, &run.id), run };
    let page = Page {
        layout: context.layout(Section::Lab),
        base: context.base.clone(),
        suite,
        title,
        summary: match runs.len() {
            0 | 1 => Vec::new(),
            _ => vec![("Newest against the run before", before), ("Newest against the first run", first)],
        },
        has_several_targets: cases.iter().any(|case| case.findings.len() > 1),
        cases,
        runs: runs.into_iter().rev().map(row).collect(),
        left_out,
    };
    Ok(render(StatusCode::OK, &page))
}
