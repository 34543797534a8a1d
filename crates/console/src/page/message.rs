//! `/clusters/NAME/topics/TOPIC/messages/PARTITION/OFFSET`: one record with all that it has.

use askama::Template;
use axum::extract::Query;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::messages::{attachment, path, permit, prepare, time, watched};
use crate::decoding::Decoder;
use crate::failure::{Failure, render};
use crate::format::{bytes, count};
use crate::layout::{Layout, Section};
use crate::reading::{Filter, Found, Message, Spans, Wanted, bounds, read};
use crate::request_context::RequestContext;
use crate::text::{Show, Shown, full, is_json, visible};

const HEADERS_SHOWN_MAX: usize = 200;
const HEADER_CHARS_MAX: usize = 1000;

#[derive(Template)]
#[template(path = "message.html")]
struct Page {
    layout: Layout,
    topic: String,
    /// Of all messages, and of this one.
    list: String,
    path: String,
    partition: i32,
    offset: i64,
    facts: Vec<(&'static str, String)>,
    headers: Vec<(String, Shown)>,
    header_count: usize,
    /// Name, size, what it says, and whether there are bytes to be saved.
    fields: Vec<(&'static str, String, Shown)>,
    show: Show,
    /// What keeps it so on the pages beside this one.
    show_part: String,
    previous: Option<i64>,
    next: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MessageQuery {
    show: String,
    /// `next` or `previous`: the record there, if there is none at this very offset.
    near: String,
}

pub(crate) async fn show(context: RequestContext, Query(asked): Query<MessageQuery>) -> Result<Response, Failure> {
    let show = Show::named(&asked.show).unwrap_or_default();
    let _permit = permit(&context).await?;
    let (message, span) = match find(&context, &asked.near).await? {
        (Ok(message), span) => (message, span),
        (Err(other), _) => {
            let (path, query) = (path(&context), show.query());
            return Ok(Redirect::to(&format!("{path}/{}/{}{query}", other.partition, other.offset)).into_response());
        }
    };
    let value = message.value.as_deref();
    let decoder = context.decoder(show);
    prepare(&decoder, std::slice::from_ref(&message)).await;
    let headers = message.headers.iter().take(HEADERS_SHOWN_MAX).map(|(name, value)| {
        let name = visible(&String::from_utf8_lossy(&name[..name.len().min(HEADER_CHARS_MAX)]), false);
        (name, header_value(value.as_deref(), show))
    });
    let size = |field: Option<&[u8]>| field.map_or_else(String::new, |field| bytes(field.len() as u64));
    let page = Page {
        layout: context.layout(Section::Topics),
        topic: context.param("topic").to_owned(),
        list: path(&context),
        path: format!("{}/{}/{}", path(&context), message.partition, message.offset),
        partition: message.partition,
        offset: message.offset,
        facts: facts(&message),
        headers: headers.collect(),
        header_count: message.header_count,
        fields: vec![
            ("key", size(message.key.as_deref()), key_shown(message.key.as_deref(), &decoder, show)),
            ("value", size(value), decoder.full(value)),
        ],
        show,
        show_part: show.query().replacen('?', "&", 1),
        previous: (message.offset > span.start).then(|| message.offset - 1),
        next: (message.offset + 1 < span.end).then(|| message.offset + 1),
    };
    Ok(render(StatusCode::OK, &page))
}

/// A key is seldom JSON, and nobody expects it to be.
fn key_shown(key: Option<&[u8]>, decoder: &Decoder, show: Show) -> Shown {
    let is_laid_out = key.and_then(|key| str::from_utf8(key).ok()).is_some_and(is_json);
    if show == Show::Json && !is_laid_out { full(key, Show::Text) } else { decoder.full(key) }
}

fn header_value(value: Option<&[u8]>, show: Show) -> Shown {
    let show = if show == Show::Hex { Show::Hex } else { Show::Text };
    let is_short = value.is_none_or(|value| value.len() <= HEADER_CHARS_MAX);
    match value {
        Some(value) if show == Show::Text && is_short => full(Some(value), show),
        value => crate::text::beginning(value, show),
    }
}

fn facts(message: &Message) -> Vec<(&'static str, String)> {
    let attributes = message.batch.attributes;
    let whose = match attributes.is_log_append_time() {
        true => "set by the broker when it was appended",
        false => "set by its producer",
    };
    let size = |field: &Option<_>| match field.as_deref() {
        None => "null".to_owned(),
        Some(field) => size(<[u8]>::len(field)),
    };
    let mut facts = vec![
        ("Partition", message.partition.to_string()),
        ("Offset", count(message.offset)),
        (
            "Time",
            match message.timestamp {
                ..0 => "none".to_owned(),
                ms => format!("{} UTC ({ms}), {whose}", time(ms)),
            },
        ),
        ("Key", size(&message.key)),
        ("Value", size(&message.value)),
        ("Headers", count(message.header_count as u64)),
        (
            "Batch",
            format!(
                "{} of {}, offsets {} to {}",
                crate::format::counted(usize::try_from(message.batch.record_count).unwrap_or(0), "record"),
                bytes(message.batch.size() as u64),
                count(message.batch.base_offset),
                count(message.batch.last_offset()),
            ),
        ),
        ("Compression", attributes.codec().map_or("unknown", |codec| codec.name()).to_owned()),
        ("Leader epoch", message.batch.partition_leader_epoch.to_string()),
    ];
    if message.batch.has_producer_id() {
        let transaction = if attributes.is_transactional() { ", in a transaction" } else { "" };
        let (id, epoch) = (message.batch.producer_id, message.batch.producer_epoch);
        facts.push(("Producer", format!("id {id}, epoch {epoch}{transaction}")));
    }
    facts
}

fn size(length: usize) -> String {
    match length {
        ..1024 => bytes(length as u64),
        _ => format!("{} ({} B)", bytes(length as u64), count(length as u64)),
    }
}

/// A field of a record as it is, to be saved.
pub(crate) async fn field(context: RequestContext) -> Result<Response, Failure> {
    let permit = permit(&context).await?;
    let (Ok(message) | Err(message), _) = find(&context, "").await?;
    let field = match context.param("field") {
        "key" => message.key,
        "value" => message.value,
        other => return Err(Failure::not_found(format!("a record has a key and a value, and no {other:?}"))),
    };
    let field =
        field.ok_or_else(|| Failure::not_found(format!("the {} of this record is null", context.param("field"))))?;
    let suffix = if context.param("field") == "key" { ".key" } else { "" };
    let name = format!("{}-{}-{}{suffix}.bin", context.param("topic"), message.partition, message.offset);
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, attachment(&name)),
    ];
    drop(permit);
    Ok((headers, field).into_response())
}

/// The record of the path and the offsets of its partition; as an error, the one that is near it.
async fn find(
    context: &RequestContext,
    near: &str,
) -> Result<(Result<Message, Message>, std::ops::Range<i64>), Failure> {
    let watched = watched(context).await?;
    let (topic, partition) = (context.param("topic"), context.number("partition")?);
    let offset = context.param("offset").parse::<i64>();
    let offset = offset.map_err(|_| Failure::not_found(format!("{:?} is no offset", context.param("offset"))))?;
    if !watched.partitions.contains(&partition) {
        return Err(Failure::not_found(format!("topic {topic} has no partition {partition}")));
    }
    let client = &context.client;
    let mut bounds = bounds(client, topic, &[partition]).await;
    let Some(log) = bounds.spans.remove(&partition) else {
        let problem = bounds.problems.remove(&partition).unwrap_or_default();
        return Err(Failure::unavailable(format!("partition {partition} cannot be read now: {problem}")));
    };
    if !log.contains(&offset) {
        let what = match log.is_empty() {
            true => format!("partition {partition} is empty: its next offset is {}", count(log.end)),
            false => format!(
                "partition {partition} has the offsets {} to {}, and not {}",
                count(log.start),
                count(log.end - 1),
                count(offset)
            ),
        };
        return Err(Failure::not_found(what));
    }
    let is_backward = near == "previous";
    let wanted = Wanted { topic: topic.to_owned(), filter: Filter::default(), limit: 1, is_backward };
    let span = if is_backward { log.start..offset + 1 } else { offset..log.end };
    let Found { messages, mut problems, .. } = read(client, &wanted, &Spans::from([(partition, span)])).await;
    match (messages.into_iter().next(), problems.remove(&partition)) {
        (Some(message), _) if message.offset == offset => Ok((Ok(message), log)),
        (Some(other), _) if !near.is_empty() => Ok((Err(other), log)),
        (None, Some(problem)) => Err(Failure::unavailable(format!("this record cannot be read: {problem}"))),
        (other, _) => Err(Failure::not_found(format!(
            "there is no record at offset {} of partition {partition}: it was removed by compaction, or it is the mark of \
             a transaction's end{}",
            count(offset),
            other.map_or_else(String::new, |other| format!("; the next one is at {}", count(other.offset)))
        ))),
    }
}
