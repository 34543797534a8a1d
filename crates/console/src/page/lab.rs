//! `/clusters/NAME/lab`: starting a suite against the cluster, watching it, reports, and runs beside each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use crate::benchmark_runner::{Compared, Laboratory, Order, Run, RunState};
use crate::failure::{Failure, render};
use crate::format::{counted, duration, escape};
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext};

/// A report is a page by itself: it has its own style in it, and no script.
const REPORT_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox allow-popups";
/// How often each case may be run.
const REPEAT_MAX: u32 = 20;

#[derive(Template)]
#[template(path = "lab.html")]
struct Page {
    layout: Layout,
    events: String,
    suites: Vec<SuiteRow>,
    runs: Vec<RunRow>,
    /// Suites with several runs, and where their history is.
    histories: Vec<(String, String)>,
    /// A run goes on.
    is_busy: bool,
    can_change: bool,
    has_laboratory: bool,
}

struct SuiteRow {
    name: String,
    title: String,
    description: String,
    cases: String,
    time: String,
    /// Why it cannot be run here.
    lack: Option<String>,
}

struct RunRow {
    href: String,
    id: String,
    suite: String,
    state: (String, &'static str),
    cases: String,
    has_report: bool,
}

pub(super) fn laboratory(context: &RequestContext) -> Result<Arc<dyn Laboratory>, Failure> {
    let laboratory = context.console.laboratory.clone();
    laboratory.ok_or_else(|| Failure::not_found("this console runs no suites"))
}

pub(crate) async fn show(context: RequestContext) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let brokers = snapshot.alive();
    let laboratory = context.console.laboratory.clone();
    let suites = laboratory.iter().flat_map(|laboratory| laboratory.suites()).map(|suite| SuiteRow {
        lack: (suite.brokers as usize > brokers)
            .then(|| format!("needs {}", counted(suite.brokers as usize, "broker"))),
        cases: counted(suite.cases, "case"),
        time: duration(suite.seconds),
        name: suite.name,
        title: suite.title,
        description: suite.description,
    });
    let runs: Vec<_> = laboratory.iter().flat_map(|laboratory| laboratory.runs()).collect();
    let page = Page {
        layout: context.layout(Section::Lab),
        events: context.events(),
        suites: suites.collect(),
        is_busy: runs.iter().any(|run| run.state == RunState::Running),
        runs: runs.iter().map(|run| run_row(&context, run)).collect(),
        histories: histories(&context, &runs),
        can_change: context.can_change(),
        has_laboratory: laboratory.is_some(),
    };
    Ok(render(StatusCode::OK, &page))
}

fn histories(context: &RequestContext, runs: &[Run]) -> Vec<(String, String)> {
    let mut measured = BTreeMap::<&str, usize>::new();
    runs.iter().filter(|run| run.has_report).for_each(|run| *measured.entry(&run.suite).or_default() += 1);
    let several = measured.into_iter().filter(|(_, runs)| *runs > 1);
    several.map(|(suite, _)| (suite.to_owned(), format!("{}/lab/history/{}", context.base, escape(suite)))).collect()
}

fn run_row(context: &RequestContext, run: &Run) -> RunRow {
    RunRow {
        href: format!("{}/lab/runs/{}", context.base, escape(&run.id)),
        id: run.id.clone(),
        suite: run.suite.clone(),
        state: state(run),
        cases: counted(run.lines.len(), "case"),
        has_report: run.has_report,
    }
}

fn state(run: &Run) -> (String, &'static str) {
    match &run.state {
        RunState::Running => ("runs".to_owned(), "warn"),
        RunState::Finished => ("finished".to_owned(), "good"),
        RunState::Ended(_) => ("ended early".to_owned(), "bad"),
    }
}

#[derive(Deserialize)]
pub(crate) struct Start {
    suite: String,
    #[serde(default)]
    repeat: String,
}

pub(crate) async fn start(Change(context): Change, Form(form): Form<Start>) -> Result<Response, Failure> {
    let repeat = match form.repeat.trim() {
        "" => 1,
        text => text.parse().ok().filter(|repeat| (1..=REPEAT_MAX).contains(repeat)).ok_or_else(|| {
            Failure::wrong(format!("each case can be run 1 to {REPEAT_MAX} times, and not {text:?} times"))
        })?,
    };
    let order = Order {
        suite: form.suite,
        name: context.cluster.name.clone(),
        bootstrap_servers: context.cluster.client.config().bootstrap_servers.clone(),
        repeat,
    };
    let id = laboratory(&context)?.start(&order).map_err(Failure::wrong)?;
    Ok(Redirect::to(&format!("{}/lab/runs/{}", context.base, escape(&id))).into_response())
}

#[derive(Template)]
#[template(path = "lab_run.html")]
struct RunPage {
    layout: Layout,
    base: String,
    events: String,
    id: String,
    href: String,
    state: (String, &'static str),
    words: Option<String>,
    lines: Vec<String>,
    has_report: bool,
    is_running: bool,
    others: Vec<String>,
    can_change: bool,
}

pub(crate) async fn run(context: RequestContext) -> Result<Response, Failure> {
    let runs = laboratory(&context)?.runs();
    let id = context.param("run");
    let run = runs.iter().find(|run| run.id == id);
    let run = run.ok_or_else(|| Failure::not_found(format!("there is no run {id:?}")))?;
    let others = runs.iter().filter(|other| other.id != run.id && other.suite == run.suite && other.has_report);
    let page = RunPage {
        layout: context.layout(Section::Lab),
        base: context.base.clone(),
        events: context.events(),
        href: format!("{}/lab/runs/{}", context.base, escape(id)),
        state: state(run),
        words: match &run.state {
            RunState::Ended(words) => Some(words.clone()),
            _ => None,
        },
        lines: run.lines.clone(),
        has_report: run.has_report,
        is_running: run.state == RunState::Running,
        others: others.map(|other| other.id.clone()).collect(),
        can_change: context.can_change(),
        id: run.id.clone(),
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn stop(Change(context): Change) -> Result<Response, Failure> {
    laboratory(&context)?.stop(context.param("run")).map_err(Failure::wrong)?;
    Ok(Redirect::to(&format!("{}/lab/runs/{}", context.base, escape(context.param("run")))).into_response())
}

pub(crate) async fn report(context: RequestContext) -> Result<Response, Failure> {
    let id = context.param("run");
    let report = laboratory(&context)?.report(id);
    let report = report.ok_or_else(|| Failure::not_found(format!("there is no report of {id:?}")))?;
    let headers =
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, REPORT_POLICY)];
    Ok((headers, report).into_response())
}

#[derive(Deserialize)]
pub(crate) struct With {
    with: String,
}

#[derive(Template)]
#[template(path = "lab_compare.html")]
struct ComparePage {
    layout: Layout,
    href: String,
    first: String,
    second: String,
    rows: Vec<Compared>,
}

pub(crate) async fn compare(context: RequestContext, Query(query): Query<With>) -> Result<Response, Failure> {
    let first = context.param("run").to_owned();
    let rows = laboratory(&context)?.compare(&first, &query.with).map_err(Failure::wrong)?;
    let href = format!("{}/lab/runs/{}", context.base, escape(&first));
    let page = ComparePage { layout: context.layout(Section::Lab), href, first, second: query.with, rows };
    Ok(render(StatusCode::OK, &page))
}
