//! `/clusters/NAME/topics/TOPIC/messages/many`: producing many records from templates, and how far that is.

use std::sync::Arc;

use ::bytes::Bytes;
use axum::extract::Form;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::messages::{path, watched};
use super::produce::NewRecord;
use crate::failure::{Failure, render};
use crate::format::{bytes, count, duration, percent, rate};
use crate::layout::{Layout, Section};
use crate::production::{Order, Production, RecordTemplate};
use crate::record_template::Template;
use crate::request_context::{Change, RequestContext};

const COUNT_MAX: u32 = 10_000;
const RATE_MAX: u32 = 10_000;
/// Of all records, as far as their templates are long.
const BYTES_MAX: usize = 256 << 20;
/// At the rate that was asked for.
const SECONDS_MAX: u32 = 3600;

#[derive(askama::Template)]
#[template(path = "produce_many.html")]
struct FormPage {
    layout: Layout,
    topic: String,
    list: String,
    partitions: usize,
    form: ManyRecords,
    count_max: u32,
    rate_max: u32,
    error: Option<String>,
    runs: Vec<RunRow>,
}

struct RunRow {
    href: String,
    what: String,
    state: (&'static str, &'static str),
}

#[derive(askama::Template)]
#[template(path = "production.html")]
struct RunPage {
    layout: Layout,
    events: String,
    topic: String,
    list: String,
    href: String,
    state: (&'static str, &'static str),
    is_running: bool,
    written: u32,
    count: u32,
    tiles: Vec<(&'static str, String)>,
    error: Option<String>,
    rows: Vec<PartitionRow>,
    can_change: bool,
}

struct PartitionRow {
    partition: i32,
    records: String,
    /// The first and the last, if they are known.
    offsets: Option<(i64, i64)>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ManyRecords {
    #[serde(flatten)]
    record: NewRecord,
    #[serde(default)]
    count: String,
    #[serde(default)]
    rate: String,
}

impl ManyRecords {
    /// What to write, and how fast; an error is a sentence.
    fn order(&self, partitions: usize) -> Result<Order, String> {
        let number = |what: &str, text: &str, max: u32| match text.trim().parse() {
            Ok(number) if (1..=max).contains(&number) => Ok(number),
            _ => Err(format!("{what} is {text:?}: it takes a number from 1 to {}.", count(max))),
        };
        let count = number("Records", &self.count, COUNT_MAX)?;
        let rate = match self.rate.trim() {
            "" => None,
            text => Some(number("Records per second", text, RATE_MAX)?),
        };
        if rate.is_some_and(|rate| count / rate > SECONDS_MAX) {
            return Err("It would take more than an hour: choose fewer records, or a higher rate.".to_owned());
        }
        let (record, compression) = self.record.record(partitions, 0)?;
        let fields = [&record.key, &record.value].into_iter().chain(record.headers.iter().map(|(_, value)| value));
        let size: usize = fields.flatten().map(Bytes::len).sum();
        if size * count as usize > BYTES_MAX {
            let max = bytes(BYTES_MAX as u64);
            return Err(format!("The records would take more than {max} altogether: choose fewer, or shorter ones."));
        }
        let template = |bytes: &[u8]| Template::parse(&String::from_utf8_lossy(bytes));
        let headers = record.headers.iter().map(|(name, value)| {
            let value = template(value.as_deref().unwrap_or_default())?;
            Ok((name.clone(), value))
        });
        let record = RecordTemplate {
            partition: record.partition,
            key: record.key.as_deref().map(template).transpose()?,
            value: record.value.as_deref().map(template).transpose()?,
            headers: headers.collect::<Result<_, String>>()?,
        };
        Ok(Order { record, compression, count, rate })
    }
}

pub(crate) async fn form(Change(context): Change) -> Result<Response, Failure> {
    let partitions = watched(&context).await?.partitions.len();
    let form = ManyRecords { record: NewRecord::default(), count: "100".to_owned(), rate: String::new() };
    Ok(render(StatusCode::OK, &form_page(&context, partitions, form, None)))
}

fn form_page(context: &RequestContext, partitions: usize, form: ManyRecords, error: Option<String>) -> FormPage {
    let runs = context.console.productions.of_topic(&context.cluster.name, context.param("topic"));
    let runs = runs.iter().map(|run| RunRow {
        href: format!("{}/many/{}", path(context), run.id),
        what: format!("{} of {} records", count(run.progress().records()), count(run.order.count)),
        state: state(run),
    });
    FormPage {
        layout: context.layout(Section::Topics),
        topic: context.param("topic").to_owned(),
        list: path(context),
        partitions,
        form,
        count_max: COUNT_MAX,
        rate_max: RATE_MAX,
        error,
        runs: runs.collect(),
    }
}

pub(crate) async fn start(Change(context): Change, Form(form): Form<ManyRecords>) -> Result<Response, Failure> {
    let partitions = watched(&context).await?.partitions.len();
    let started = form.order(partitions).and_then(|order| {
        let topic = context.param("topic");
        let started = context.console.productions.start(&context.client, &context.cluster.name, topic, order);
        started.ok_or_else(|| "Others are produced right now: wait until one of them has ended.".to_owned())
    });
    match started {
        Ok(run) => Ok(Redirect::to(&format!("{}/many/{}", path(&context), run.id)).into_response()),
        Err(error) => {
            let page = form_page(&context, partitions, form, Some(error));
            Ok(render(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
    }
}

fn find(context: &RequestContext) -> Result<Arc<Production>, Failure> {
    let id = context.param("run");
    let found = id
        .parse()
        .ok()
        .and_then(|id| context.console.productions.find(&context.cluster.name, context.param("topic"), id));
    found.ok_or_else(|| Failure::not_found(format!("the console does not know of {id:?}; it forgets old ones")))
}

fn state(run: &Production) -> (&'static str, &'static str) {
    let progress = run.progress();
    match (progress.ended, progress.error, progress.is_stopped) {
        (None, _, false) => ("under way", ""),
        (None, _, true) => ("stopping", ""),
        (Some(_), Some(_), _) => ("failed", "bad"),
        (Some(_), None, true) => ("stopped", "warn"),
        (Some(_), None, false) => ("done", "good"),
    }
}

pub(crate) async fn show(context: RequestContext) -> Result<Response, Failure> {
    let run = find(&context)?;
    let progress = run.progress();
    let (written, seconds) = (progress.records(), progress.took().as_secs_f64());
    let tiles = vec![
        ("Written", format!("{} of {}", count(written), count(run.order.count))),
        ("Progress", percent(f64::from(written) / f64::from(run.order.count))),
        ("Failed", count(progress.failed)),
        ("Time", duration(seconds)),
        ("Rate", rate(f64::from(written) / seconds.max(0.001))),
    ];
    let rows = progress.written.iter().map(|(partition, written)| PartitionRow {
        partition: *partition,
        records: count(written.records),
        offsets: written.offsets,
    });
    let page = RunPage {
        layout: context.layout(Section::Topics),
        events: context.events(),
        topic: context.param("topic").to_owned(),
        list: path(&context),
        href: format!("{}/many/{}", path(&context), run.id),
        state: state(&run),
        is_running: run.is_running(),
        written,
        count: run.order.count,
        tiles,
        error: progress.error.clone(),
        rows: rows.collect(),
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn stop(Change(context): Change) -> Result<Response, Failure> {
    let run = find(&context)?;
    run.stop();
    Ok(Redirect::to(&format!("{}/many/{}", path(&context), run.id)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(count: &str, rate: &str, value: &str) -> ManyRecords {
        let record = NewRecord { value: value.to_owned(), ..NewRecord::default() };
        ManyRecords { record, count: count.to_owned(), rate: rate.to_owned() }
    }

    #[test]
    fn a_form_is_an_order_within_bounds() {
        let order = form("10000", "10", "{{i}}").order(1).unwrap();
        assert_eq!((order.count, order.rate), (10_000, Some(10)));
        assert_eq!(order.record.value, Some(Template::parse("{{i}}").unwrap()));
        assert_eq!(form("1", "", "x").order(1).unwrap().rate, None);
        let error = |form: ManyRecords| form.order(1).unwrap_err();
        assert_eq!(error(form("10001", "", "x")), "Records is \"10001\": it takes a number from 1 to 10,000.");
        assert!(error(form("0", "", "x")).contains("from 1") && error(form("5", "0", "x")).contains("per second"));
        assert!(error(form("10000", "1", "x")).contains("more than an hour"));
        assert!(error(form("10000", "", &"x".repeat(30_000))).contains("more than 256 MiB"));
        assert!(error(form("1", "", "{{name}}")).contains("no placeholder"));
    }

    #[test]
    fn keys_and_headers_are_templates_too() {
        let (key, headers) = ("{{uuid}}".to_owned(), "one={{random 1 6}}\ntwo=2".to_owned());
        let record = NewRecord { key, headers, ..NewRecord::default() };
        let order = ManyRecords { record, ..form("1", "", "") }.order(1).unwrap();
        assert_eq!(order.record.key, Some(Template::parse("{{uuid}}").unwrap()));
        let values: Vec<_> = order.record.headers.into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, [Template::parse("{{random 1 6}}").unwrap(), Template::parse("2").unwrap()]);
    }
}
