//! `/clusters/NAME/lab`: starting a suite against the cluster, watching it, reports, and runs beside each other.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::lab_access::{ask, order, run_path};
use super::lab_capacity::CapacityView;
use super::lab_progress::ProgressView;
use crate::benchmark_runner::{Compared, Laboratory, Run, RunState, Suite, Work};
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
    base: String,
    events: String,
    suites: Vec<SuiteRow>,
    runs: Vec<RunRow>,
    /// Suites with several runs, and where their history is.
    histories: Vec<(String, String)>,
    /// Of the run that goes on.
    progress: Option<ProgressView>,
    can_change: bool,
    has_laboratory: bool,
}

struct SuiteRow {
    name: String,
    title: String,
    description: String,
    /// How much it is.
    size: String,
    /// Why it cannot be run here.
    lack: Option<String>,
    is_own: bool,
    href: String,
}

struct RunRow {
    href: String,
    id: String,
    suite: String,
    state: (String, &'static str),
    cases: String,
    has_report: bool,
}

pub(crate) async fn show(context: RequestContext) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let brokers = snapshot.alive();
    let has_laboratory = context.console.laboratory.is_some();
    let (suites, runs, progress) = match has_laboratory {
        true => {
            let all = |laboratory: &dyn Laboratory| {
                let runs = laboratory.runs();
                let running = runs.iter().find(|run| run.state == RunState::Running);
                let progress = running.and_then(|run| Some((run.id.clone(), laboratory.progress(&run.id)?)));
                (laboratory.suites(), runs, progress)
            };
            ask(&context, all).await?
        }
        false => (Vec::new(), Vec::new(), None),
    };
    let page = Page {
        layout: context.layout(Section::Lab),
        base: context.base.clone(),
        events: context.events(),
        suites: suites.into_iter().map(|suite| suite_row(&context, suite, brokers)).collect(),
        runs: runs.iter().map(|run| run_row(&context, run)).collect(),
        histories: histories(&context, &runs),
        progress: progress.map(|(id, progress)| ProgressView::new(&context, &id, progress)),
        can_change: context.can_change(),
        has_laboratory,
    };
    Ok(render(StatusCode::OK, &page))
}

fn histories(context: &RequestContext, runs: &[Run]) -> Vec<(String, String)> {
    let mut measured = BTreeMap::<&str, usize>::new();
    runs.iter().filter(|run| run.has_report).for_each(|run| *measured.entry(&run.suite).or_default() += 1);
    let several = measured.into_iter().filter(|(_, runs)| *runs > 1);
    several.map(|(suite, _)| (suite.to_owned(), format!("{}/lab/history/{}", context.base, escape(suite)))).collect()
}

fn suite_row(context: &RequestContext, suite: Suite, brokers: usize) -> SuiteRow {
    let needed = suite.brokers as usize;
    let too_few = (needed > brokers).then(|| format!("needs {}", counted(needed, "broker")));
    SuiteRow {
        size: format!("{}, about {}", counted(suite.cases, "case"), duration(suite.seconds)),
        lack: suite.mistake.or(too_few),
        is_own: suite.is_own,
        href: format!("{}/lab/scenarios/{}", context.base, escape(&suite.name)),
        name: suite.name,
        title: suite.title,
        description: suite.description,
    }
}

fn run_row(context: &RequestContext, run: &Run) -> RunRow {
    RunRow {
        href: run_path(context, &run.id),
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
    let order = order(&context, Work::Suite { name: form.suite, repeat });
    let id = ask(&context, move |laboratory| laboratory.start(&order)).await?.map_err(Failure::wrong)?;
    Ok(Redirect::to(&run_path(&context, &id)).into_response())
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
    progress: Option<ProgressView>,
    /// Of a search.
    capacity: Option<CapacityView>,
    can_change: bool,
}

pub(crate) async fn run(context: RequestContext) -> Result<Response, Failure> {
    let id = context.param("run");
    let wanted = id.to_owned();
    let all = move |laboratory: &dyn Laboratory| {
        (laboratory.runs(), laboratory.progress(&wanted), laboratory.capacity(&wanted))
    };
    let (runs, progress, capacity) = ask(&context, all).await?;
    let run = runs.iter().find(|run| run.id == id);
    let run = run.ok_or_else(|| Failure::not_found(format!("there is no run {id:?}")))?;
    // What two searches have tried are not the same rates.
    let is_like = |other: &&Run| other.id != run.id && other.suite == run.suite && capacity.is_none();
    let others = runs.iter().filter(|other| other.has_report).filter(is_like);
    let page = RunPage {
        layout: context.layout(Section::Lab),
        base: context.base.clone(),
        events: context.events(),
        href: run_path(&context, id),
        state: state(run),
        words: match &run.state {
            RunState::Ended(words) => Some(words.clone()),
            _ => None,
        },
        lines: run.lines.clone(),
        has_report: run.has_report,
        is_running: run.state == RunState::Running,
        others: others.map(|other| other.id.clone()).collect(),
        progress: progress.map(|progress| ProgressView::new(&context, id, progress)),
        capacity: capacity.map(CapacityView::from),
        can_change: context.can_change(),
        id: run.id.clone(),
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn stop(Change(context): Change) -> Result<Response, Failure> {
    let id = context.param("run").to_owned();
    let path = run_path(&context, &id);
    ask(&context, move |laboratory| laboratory.stop(&id)).await?.map_err(Failure::wrong)?;
    Ok(Redirect::to(&path).into_response())
}

pub(crate) async fn report(context: RequestContext) -> Result<Response, Failure> {
    let id = context.param("run");
    let wanted = id.to_owned();
    let report = ask(&context, move |laboratory| laboratory.report(&wanted)).await?;
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
    let (a, b) = (first.clone(), query.with.clone());
    let rows = ask(&context, move |laboratory| laboratory.compare(&a, &b)).await?.map_err(Failure::wrong)?;
    let href = run_path(&context, &first);
    let page = ComparePage { layout: context.layout(Section::Lab), href, first, second: query.with, rows };
    Ok(render(StatusCode::OK, &page))
}
