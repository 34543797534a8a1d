//! `/clusters/NAME/lab/capacity`: searching for the highest rate that meets a goal, and what such a search has found.

use askama::Template;
use axum::extract::Form;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::lab_access::{ask, order, run_path};
use crate::benchmark_runner::{Capacity, CapacityOrder, Work};
use crate::failure::{Failure, render};
use crate::format::{count, milliseconds};
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext};

const ALL_ACKS: [&str; 3] = ["all", "1", "0"];
const PARTITIONS_MAX: u32 = 1000;
const STEP_SECONDS_MAX: u32 = 600;
/// Of a goal, or of sizes.
const TEXT_BYTES_MAX: usize = 200;
/// As many as most topics have.
const REPLICAS: usize = 3;

#[derive(Template)]
#[template(path = "lab_capacity.html")]
struct Page {
    layout: Layout,
    base: String,
    form: Search,
    all_acks: [&'static str; 3],
    partitions_max: u32,
    step_max: u32,
    brokers: usize,
    error: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Search {
    goal: String,
    record_size: String,
    partitions: String,
    replicas: String,
    acks: String,
    step: String,
}

impl Search {
    fn new(brokers: usize) -> Self {
        Self {
            goal: "p99 <= 20ms".to_owned(),
            record_size: "1024".to_owned(),
            partitions: "3".to_owned(),
            replicas: brokers.clamp(1, REPLICAS).to_string(),
            acks: "all".to_owned(),
            step: "10".to_owned(),
        }
    }

    /// What the laboratory looks at further; an error is a sentence.
    fn order(&self, brokers: usize) -> Result<CapacityOrder, String> {
        let number = |what: &str, text: &str, max: u32| match text.trim().parse() {
            Ok(number) if (1..=max).contains(&number) => Ok(number),
            _ => Err(format!("{what} is {text:?}: it takes a number from 1 to {}.", count(max))),
        };
        if !ALL_ACKS.contains(&self.acks.as_str()) {
            return Err(format!("acks is {:?}: it takes all, 1 or 0.", self.acks));
        }
        if self.goal.len().max(self.record_size.len()) > TEXT_BYTES_MAX {
            return Err(format!("A goal, and sizes, have at most {TEXT_BYTES_MAX} bytes."));
        }
        Ok(CapacityOrder {
            goal: self.goal.trim().to_owned(),
            record_size: self.record_size.trim().to_owned(),
            partitions: number("Partitions", &self.partitions, PARTITIONS_MAX)?,
            replicas: number("Replicas", &self.replicas, u32::try_from(brokers).unwrap_or(u32::MAX))?,
            acks: self.acks.clone(),
            step_seconds: number("Seconds", &self.step, STEP_SECONDS_MAX)?,
        })
    }
}

fn page(context: &RequestContext, form: Search, brokers: usize, error: Option<String>) -> Page {
    Page {
        layout: context.layout(Section::Lab),
        base: context.base.clone(),
        form,
        all_acks: ALL_ACKS,
        partitions_max: PARTITIONS_MAX,
        step_max: STEP_SECONDS_MAX,
        brokers,
        error,
    }
}

pub(crate) async fn form(Change(context): Change) -> Result<Response, Failure> {
    let brokers = context.snapshot().await?.alive();
    Ok(render(StatusCode::OK, &page(&context, Search::new(brokers), brokers, None)))
}

pub(crate) async fn start(Change(context): Change, Form(form): Form<Search>) -> Result<Response, Failure> {
    let brokers = context.snapshot().await?.alive();
    let started = match form.order(brokers) {
        Ok(wanted) => {
            let order = order(&context, Work::Capacity(wanted));
            ask(&context, move |laboratory| laboratory.start(&order)).await?
        }
        Err(error) => Err(error),
    };
    Ok(match started {
        Ok(id) => Redirect::to(&run_path(&context, &id)).into_response(),
        Err(error) => render(StatusCode::UNPROCESSABLE_ENTITY, &page(&context, form, brokers, Some(error))),
    })
}

/// What a search has found, as the page of its run shows it.
pub(super) struct CapacityView {
    pub tiles: Vec<(&'static str, String)>,
    pub steps: Vec<StepRow>,
}

pub(super) struct StepRow {
    pub rate: String,
    pub reached: String,
    pub p50: String,
    pub p99: String,
    pub meets_goal: bool,
}

impl From<Capacity> for CapacityView {
    fn from(capacity: Capacity) -> Self {
        let rate = |records: f64| format!("{}/s", count(records.round() as i64));
        let steps = capacity.steps.iter().map(|step| StepRow {
            rate: rate(step.records_per_second),
            reached: rate(step.reached_records_per_second),
            p50: milliseconds(step.latency_p50),
            p99: milliseconds(step.latency_p99),
            meets_goal: step.meets_goal,
        });
        let known = |records: Option<f64>| records.map_or_else(|| "none".to_owned(), rate);
        let tiles = vec![
            ("Highest rate that held", known(capacity.highest_records_per_second)),
            ("Goal", capacity.goal.clone()),
            ("Lowest rate that missed it", known(capacity.lowest_missed_records_per_second)),
            ("Knee of the curve", known(capacity.knee_records_per_second)),
            ("Without a limit", rate(capacity.unlimited_records_per_second)),
        ];
        Self { tiles, steps: steps.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_an_order_within_bounds() {
        let form = Search::new(5);
        let order = form.order(5).unwrap();
        assert_eq!((order.replicas, order.partitions, order.step_seconds), (3, 3, 10));
        assert_eq!(Search::new(1).order(1).unwrap().replicas, 1);
        let error = |form: Search| form.order(2).unwrap_err();
        assert_eq!(error(form.clone()), "Replicas is \"3\": it takes a number from 1 to 2.");
        let two = Search::new(2);
        assert!(error(Search { partitions: "0".to_owned(), ..two.clone() }).contains("from 1 to 1,000"));
        assert!(error(Search { step: "601".to_owned(), ..two.clone() }).contains("from 1 to 600"));
        assert!(error(Search { acks: "-1".to_owned(), ..two.clone() }).contains("all, 1 or 0"));
        assert!(error(Search { goal: "p".repeat(201), ..two }).contains("at most 200 bytes"));
    }
}
