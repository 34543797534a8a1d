//! `/clusters/NAME/topics/TOPIC/messages`: records of a topic, from any context on, with or without a filter.
//!
//! A page is what its address says: positions stand in the query, so that it can be sent to somebody.

mod look;
mod query;

use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::extract::Query;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
pub(super) use look::permit;
pub(crate) use look::{Look, filter, look, watched};
pub(crate) use query::MessagesQuery;
use tokio::time::Instant;

use crate::decoding::Decoder;
use crate::expression::CHARS_MAX;
use crate::failure::{Failure, render};
use crate::format::{bytes, count, counted, escape, moment};
use crate::layout::{Layout, Section};
use crate::reading::{Message, Unknown, json_line};
use crate::request_context::RequestContext;
use crate::text::{Show, Shown};

/// What the form offers.
const LIMITS: [&str; 3] = ["50", "100", "500"];
/// Partitions that a sentence names.
const NAMED_MAX: usize = 5;
/// How long a page waits for schemas of its records.
const SCHEMAS_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Template)]
#[template(path = "messages.html")]
struct Page {
    layout: Layout,
    base: String,
    topic: String,
    /// Of this page, without a query.
    path: String,
    asked: MessagesQuery,
    partitions: usize,
    error: Option<String>,
    /// What is shown.
    summary: String,
    /// What is not shown of it, and why.
    problems: Vec<String>,
    /// How far it was looked, where that ended before the page was full, and where to go on.
    cut: Option<(String, String)>,
    rows: Vec<Row>,
    nothing: &'static str,
    older: Option<String>,
    newer: Option<String>,
    download: Option<String>,
    follow: String,
    can_change: bool,
}

#[derive(serde::Serialize)]
pub(super) struct Row {
    pub partition: i32,
    pub offset: i64,
    pub href: String,
    pub time: String,
    pub key: Cell,
    pub value: Cell,
    pub headers: String,
    pub size: String,
}

impl Row {
    fn fields(&self) -> [(&'static str, &Cell); 2] {
        [("key", &self.key), ("value", &self.value)]
    }
}

#[derive(serde::Serialize)]
pub(super) struct Cell {
    pub text: String,
    pub is_content: bool,
    pub note: Option<String>,
}

impl From<Shown> for Cell {
    fn from(shown: Shown) -> Self {
        Self { text: shown.text, is_content: shown.is_content, note: shown.note }
    }
}

/// The page of the messages of a topic, without a query.
pub(super) fn path(context: &RequestContext) -> String {
    format!("{}/topics/{}/messages", context.base, escape(context.param("topic")))
}

/// Finds the schemas that records name, unless that takes too long: then they are shown without.
pub(crate) async fn prepare(decoder: &Decoder, messages: &[Message]) {
    decoder.prepare(messages.iter().flat_map(Message::fields), Instant::now() + SCHEMAS_PATIENCE).await;
}

/// What is shown of records. Decoding takes its time, and others of this process wait for
/// none of it.
pub(super) async fn rows(path: &str, messages: Vec<Message>, decoder: &Decoder) -> Result<Vec<Row>, Failure> {
    prepare(decoder, &messages).await;
    let (path, decoder) = (path.to_owned(), decoder.clone());
    let rows = move || messages.iter().map(|message| row(&path, message, &decoder)).collect();
    tokio::task::spawn_blocking(rows).await.map_err(|error| Failure::unavailable(error.to_string()))
}

fn row(path: &str, message: &Message, decoder: &Decoder) -> Row {
    Row {
        partition: message.partition,
        offset: message.offset,
        href: format!("{path}/{}/{}{}", message.partition, message.offset, decoder.show().query()),
        time: time(message.timestamp),
        key: decoder.beginning(message.key.as_deref()).into(),
        value: decoder.beginning(message.value.as_deref()).into(),
        headers: count(message.header_count as u64),
        size: bytes(message.size_bytes() as u64),
    }
}

/// Of a record, which may have none.
pub(super) fn time(ms: i64) -> String {
    match ms {
        ..0 => "none".to_owned(),
        ms => format!("{}.{:03}", moment(ms), ms.rem_euclid(1000)),
    }
}

pub(crate) async fn show(context: RequestContext, Query(asked): Query<MessagesQuery>) -> Result<Response, Failure> {
    let watched = watched(&context).await?;
    let path = path(&context);
    let mut page = Page {
        layout: context.layout(Section::Topics),
        base: context.base.clone(),
        topic: context.param("topic").to_owned(),
        follow: format!("{path}/follow?{}", asked.filter_query()),
        path,
        partitions: watched.partitions.len(),
        error: None,
        summary: String::new(),
        problems: Vec::new(),
        cut: None,
        rows: Vec::new(),
        nothing: "",
        older: None,
        newer: None,
        download: None,
        can_change: context.can_change(),
        asked: asked.clone(),
    };
    let plan = match asked.plan(watched.partitions.len()) {
        Ok(plan) => plan,
        Err(error) => {
            page.error = Some(error);
            page.nothing = "Nothing was looked at.";
            return Ok(render(StatusCode::BAD_REQUEST, &page));
        }
    };
    let mut look = look(&context, &watched, &plan).await?;
    page.summary = summary(&look, plan.partition, plan.is_newest_first());
    page.problems = problems(&look);
    page.nothing = match plan.is_filtered() {
        true => "None of them matches.",
        false => "There are no records here.",
    };
    page.older = look.older.as_ref().map(|before| asked.link(None, Some(before)));
    page.newer = look.newer.as_ref().map(|after| asked.link(Some(after), None));
    page.cut = look.is_cut.then(|| {
        let on = if plan.is_backward() { &page.older } else { &page.newer };
        (how_far(&look, plan.is_backward()), on.clone().unwrap_or_default())
    });
    page.download = (!look.messages.is_empty())
        .then(|| format!("{}/download{}", page.path, asked.link(Some(&look.starts), Some(&look.ends))));
    page.rows = rows(&page.path, std::mem::take(&mut look.messages), &context.decoder(plan.show)).await?;
    Ok(render(StatusCode::OK, &page))
}

/// What should be known of an expression that was no use for some records.
pub(super) fn not_evaluated(unknown: &Unknown) -> Option<String> {
    let (partition, offset, reason) = unknown.first.as_ref()?;
    let records = counted(usize::try_from(unknown.count).unwrap_or(usize::MAX), "record");
    Some(format!(
        "The expression could not be evaluated on {records}; the first has offset {} of partition {partition}: {reason}.",
        count(*offset)
    ))
}

fn summary(look: &Look, partition: Option<i32>, is_newest_first: bool) -> String {
    let order = if is_newest_first { "the newest first" } else { "the oldest first" };
    let mut summary = match look.messages.len() {
        0 => String::new(),
        shown => format!("{}, {order}. Times are in UTC.", counted(shown, "record")),
    };
    if let Some(partition) = partition
        && let Some(log) = look.bounds.get(&partition)
    {
        let range = match log.is_empty() {
            true => format!(" Partition {partition} is empty; its next offset is {}.", count(log.end)),
            false => format!(" Partition {partition} has the offsets {} to {}.", count(log.start), count(log.end - 1)),
        };
        summary.push_str(&range);
    }
    if let Some(unknown) = not_evaluated(&look.unknown) {
        summary = format!("{summary} {unknown}");
    }
    summary.trim_start().to_owned()
}

fn problems(look: &Look) -> Vec<String> {
    let named = look.problems.iter().take(NAMED_MAX);
    let mut problems: Vec<_> =
        named.map(|(partition, problem)| format!("Partition {partition} is not shown in full: {problem}.")).collect();
    if look.problems.len() > NAMED_MAX {
        problems.push(format!("And {} more.", counted(look.problems.len() - NAMED_MAX, "partition")));
    }
    problems.extend(look.notes.iter().cloned());
    problems
}

fn how_far(look: &Look, is_backward: bool) -> String {
    let to = |(partition, span): (&i32, &std::ops::Range<i64>)| match is_backward {
        true => format!("partition {partition} down to offset {}", count(span.start)),
        false => format!("partition {partition} up to offset {}", count(span.end)),
    };
    let moved: Vec<_> = look.spans.iter().filter(|(_, span)| !span.is_empty()).collect();
    let mut named: Vec<_> = moved.iter().take(NAMED_MAX).map(|(partition, span)| to((partition, span))).collect();
    if moved.len() > NAMED_MAX {
        named.push(format!("and {} more", counted(moved.len() - NAMED_MAX, "partition")));
    }
    let looked = format!("Looked through {} records ({})", count(look.records), bytes(look.bytes));
    match named.is_empty() {
        true => format!("{looked}."),
        false => format!("{looked}: {}.", named.join(", ")),
    }
}

/// What a page shows, as lines of JSON.
pub(crate) async fn download(context: RequestContext, Query(asked): Query<MessagesQuery>) -> Result<Response, Failure> {
    let watched = watched(&context).await?;
    let plan = asked.plan(watched.partitions.len()).map_err(Failure::wrong)?;
    let look = look(&context, &watched, &plan).await?;
    let decoder = context.decoder(plan.show);
    prepare(&decoder, &look.messages).await;
    let topic = context.param("topic").to_owned();
    let name = attachment(&format!("{topic}.jsonl"));
    // Line by line, since a line takes more memory than its record.
    let lines = stream::unfold((look, 0), move |(look, at)| {
        let line = look.messages.get(at).map(|message| json_line(&topic, message, &decoder));
        async move { Some((Ok::<_, std::convert::Infallible>(line?), (look, at + 1))) }
    });
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// A header that has a browser save what it is sent. Of the name remains what no header can stumble over.
pub(super) fn attachment(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_');
    let name: String = name.chars().take(200).map(|char| if is_plain(char) { char } else { '_' }).collect();
    format!("attachment; filename=\"{name}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_breaks_no_header() {
        assert_eq!(attachment("orders-0-12.bin"), "attachment; filename=\"orders-0-12.bin\"");
        assert_eq!(attachment("a\"\r\nb;\\ü/"), "attachment; filename=\"a___b____\"");
        assert_eq!(attachment(&"a".repeat(1000)).len(), "attachment; filename=\"\"".len() + 200);
    }

    #[test]
    fn a_record_may_have_no_time() {
        assert_eq!([time(-1), time(1_795_357_211_042)], ["none", "2026-11-22 14:20:11.042"]);
    }
}
