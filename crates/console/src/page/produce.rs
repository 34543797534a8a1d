//! Writing one record.

use std::time::Duration;

use askama::Template;
use axum::extract::Form;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use client::{Acks, Client, ClientConfig, ClientError, Delivered, Producer, ProducerConfig, ProducerRecord};
use serde::Deserialize;
use tokio::time::timeout;
use wire::compress::Codec;

use super::messages::watched;
use crate::failure::{Failure, render};
use crate::format::{escape, now_ms};
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext};

/// How long it is tried.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long it may take altogether: the last try has its own time.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Template)]
#[template(path = "produce.html")]
struct Page {
    layout: Layout,
    topic: String,
    list: String,
    partitions: usize,
    form: NewRecord,
    error: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewRecord {
    /// Empty: by the key.
    pub(super) partition: String,
    pub(super) key: String,
    pub(super) value: String,
    pub(super) is_null: Option<String>,
    /// `name=value` in each line.
    pub(super) headers: String,
    pub(super) compression: String,
}

impl NewRecord {
    pub(super) fn codecs(&self) -> impl Iterator<Item = (&'static str, bool)> {
        Codec::ALL.into_iter().map(|codec| (codec.name(), codec.name() == self.compression))
    }

    /// What to write, and how; an error is a sentence.
    pub(super) fn record(&self, partitions: usize, now_ms: i64) -> Result<(ProducerRecord, Codec), String> {
        let partition = match self.partition.trim() {
            "" => None,
            text => match text.parse::<i32>() {
                Ok(index) if usize::try_from(index).is_ok_and(|index| index < partitions) => Some(index),
                _ => return Err(format!("There is no partition {text:?}: they are 0 to {}.", partitions.max(1) - 1)),
            },
        };
        let compression = match self.compression.as_str() {
            "" => Codec::None,
            name => name.parse().map_err(|error| format!("{name:?} is no compression: {error}."))?,
        };
        let headers = self.headers.lines().map(str::trim).filter(|line| !line.is_empty());
        let headers = headers.map(|line| match line.split_once('=') {
            Some((name, value)) => Ok((bytes(name.trim_end()), Some(bytes(value.trim_start())))),
            None => Err(format!("A header is name=value, for example trace-id=42, and not {line:?}.")),
        });
        let record = ProducerRecord {
            partition,
            timestamp: now_ms,
            key: (!self.key.is_empty()).then(|| bytes(&self.key)),
            // A browser sends lines with ends of its own.
            value: self.is_null.is_none().then(|| bytes(&self.value.replace("\r\n", "\n"))),
            headers: headers.collect::<Result<_, _>>()?,
        };
        Ok((record, compression))
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(crate) async fn form(Change(context): Change) -> Result<Response, Failure> {
    let partitions = watched(&context).await?.partitions.len();
    Ok(render(StatusCode::OK, &page(&context, partitions, NewRecord::default(), None)))
}

fn page(context: &RequestContext, partitions: usize, form: NewRecord, error: Option<String>) -> Page {
    Page {
        layout: context.layout(Section::Topics),
        topic: context.param("topic").to_owned(),
        list: super::messages::path(context),
        partitions,
        form,
        error,
    }
}

pub(crate) async fn produce(Change(context): Change, Form(form): Form<NewRecord>) -> Result<Response, Failure> {
    let partitions = watched(&context).await?.partitions.len();
    let written = match form.record(partitions, now_ms()) {
        Ok((record, compression)) => write(&context, record, compression).await,
        Err(reason) => Err(reason),
    };
    match written {
        Ok(Delivered { partition, offset }) => {
            let list = format!("/topics/{}/messages", escape(context.param("topic")));
            let path = match offset {
                // The broker had it already from a try whose answer was lost.
                ..0 => format!("{list}?partition={partition}"),
                offset => format!("{list}/{partition}/{offset}"),
            };
            Ok(context.done(&path, "record-produced").await.into_response())
        }
        Err(error) => Ok(render(StatusCode::UNPROCESSABLE_ENTITY, &page(&context, partitions, form, Some(error)))),
    }
}

async fn write(context: &RequestContext, record: ProducerRecord, compression: Codec) -> Result<Delivered, String> {
    let client = Client::new(ClientConfig { deadline: DEADLINE, ..context.client.config().clone() });
    let config = ProducerConfig { acks: Acks::All, compression, linger: Duration::ZERO, ..ProducerConfig::default() };
    let sent = async {
        let producer = Producer::start(client, context.param("topic"), config).await?;
        let delivery = producer.send(record).await?;
        producer.close().await;
        delivery.await
    };
    match timeout(PATIENCE, sent).await {
        Ok(Ok(delivered)) => Ok(delivered),
        Ok(Err(error @ ClientError::Refused { .. })) => Err(format!("It was not written: {error}.")),
        Ok(Err(error)) => Err(format!("Whether it was written is not known: {error}.")),
        Err(_) => Err(format!("Whether it was written is not known: no answer came within {} s.", PATIENCE.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_records() {
        let form = NewRecord {
            partition: " 2 ".into(),
            key: "k".into(),
            value: "a\r\nb".into(),
            headers: "one = 1\r\n\r\ntwo=2=2\nthree=".into(),
            compression: "zstd".into(),
            is_null: None,
        };
        let (record, codec) = form.record(3, 42).unwrap();
        assert_eq!((record.partition, record.timestamp, codec), (Some(2), 42, Codec::Zstd));
        assert_eq!((record.key, record.value), (Some("k".into()), Some("a\nb".into())));
        let header = |name: &'static str, value: &'static str| (name.into(), Some(value.into()));
        assert_eq!(record.headers, [header("one", "1"), header("two", "2=2"), header("three", "")]);
        let tombstone = NewRecord { is_null: Some("on".into()), ..form.clone() };
        assert_eq!(tombstone.record(3, 0).unwrap().0.value, None);
        let empty = NewRecord::default().record(3, 0).unwrap().0;
        assert_eq!((empty.partition, empty.key, empty.value), (None, None, Some(Bytes::new())));
    }

    #[test]
    fn what_is_no_record_is_said_in_a_sentence() {
        let error = |form: NewRecord| form.record(3, 0).unwrap_err();
        let other = NewRecord::default();
        assert_eq!(
            error(NewRecord { partition: "3".into(), ..other.clone() }),
            "There is no partition \"3\": they are 0 to 2."
        );
        assert!(error(NewRecord { headers: "plain".into(), ..other.clone() }).contains("name=value"));
        assert!(error(NewRecord { compression: "rar".into(), ..other }).contains("none, gzip, snappy, lz4, zstd"));
    }
}
