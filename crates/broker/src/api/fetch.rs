//! Fetch (key 1), versions 4-18: read batches.
//!
//! Behaviour:
//! - The answer names ranges of log files; the connection sends them from the file. A partition's limit may cut a batch
//!   at the end, which clients expect; the first batch of an answer is whole, however large (KIP-74).
//! - With less than `min_bytes` at hand the request is parked, at most `max_wait_ms`: appends count down what is
//!   missing.
//! - Fetch sessions as of KIP-227: see [`sessions`].
//! - Leader epochs are checked (KIP-320); a `last_fetched_epoch` that diverges is answered with where it does
//!   (KIP-595).
//!
//! Skipped: followers (replica ids) come with replication; aborted transactions with transactions.

pub mod sessions;

use std::sync::Arc;
use std::time::Duration;

use log::{ReadError, Span};
use tokio::time::Instant;
use wire::api::Request;
use wire::api::fetch::{
    EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, PartitionData,
};
use wire::{ErrorCode, Records};

use self::sessions::{Opened, Target, Targets};
use super::Call;
use crate::Broker;
use crate::net::{COPY_BYTES_MAX, Frame};
use crate::partition::{FetchWait, Isolation, Partition, Registration};

/// Answers the request: its frame, records not copied.
pub(super) async fn answer(broker: Arc<Broker>, call: Call, request: FetchRequest) -> Frame {
    let (response, spans) = handle(&broker, call.context.api_version, request).await;
    Frame::encode_with_spans(&FetchRequest::API, call.context.api_version, call.correlation_id, &response, spans)
}

async fn handle(broker: &Arc<Broker>, version: i16, request: FetchRequest) -> (FetchResponse, Vec<Span>) {
    let deadline = Instant::now() + Duration::from_millis(request.max_wait_ms.max(0) as u64);
    let limits = Limits {
        min_bytes: i64::from(request.min_bytes),
        max_bytes: request.max_bytes.clamp(0, broker.config().fetch_max_bytes) as u32,
        isolation: if request.isolation_level == 1 { Isolation::ReadCommitted } else { Isolation::ReadUncommitted },
    };
    let mut session = match broker.fetch_sessions.open(request, version) {
        Ok(session) => session,
        Err(code) => return (FetchResponse { error_code: code, ..Default::default() }, Vec::new()),
    };
    session.targets.find_partitions(broker, version);
    let mut reads = read_all(&session.targets, &limits);
    if !reads.answer_now(&limits) && Instant::now() < deadline {
        let wait = FetchWait::new(limits.min_bytes - reads.bytes);
        let registration = Registration::new(&wait, session.targets.partitions());
        // What was appended between the first read and the registration was not counted.
        reads = read_all(&session.targets, &limits);
        if !reads.answer_now(&limits) {
            // Whether bytes came or time ran out, the answer is what is there.
            let _ = tokio::time::timeout_at(deadline, wait.wait()).await;
            drop(registration);
            session.targets.find_partitions(broker, version);
            reads = read_all(&session.targets, &limits);
        }
    }
    respond(broker, version, session, reads)
}

struct Limits {
    min_bytes: i64,
    max_bytes: u32,
    isolation: Isolation,
}

/// What was found for each target, in the targets' order.
struct Reads {
    parts: Vec<Read>,
    bytes: i64,
    /// Something the client should know at once: an error or a diverging epoch.
    urgent: bool,
}

impl Reads {
    fn answer_now(&self, limits: &Limits) -> bool {
        self.urgent || self.parts.is_empty() || self.bytes >= limits.min_bytes
    }
}

/// What was found for one partition.
#[derive(Default)]
struct Read {
    error: ErrorCode,
    high_watermark: i64,
    last_stable_offset: i64,
    log_start_offset: i64,
    diverging: Option<log::EpochEndOffset>,
    span: Option<Span>,
}

impl Read {
    fn error(error: ErrorCode) -> Self {
        Self { error, high_watermark: -1, last_stable_offset: -1, log_start_offset: -1, ..Self::default() }
    }
}

fn read_all(targets: &Targets, limits: &Limits) -> Reads {
    let mut reads = Reads { parts: Vec::with_capacity(targets.len()), bytes: 0, urgent: false };
    for target in targets.iter() {
        let left = i64::from(limits.max_bytes) - reads.bytes;
        let read = match &target.partition {
            Ok(partition) => read_one(partition, target, left, reads.bytes == 0, limits.isolation),
            Err(code) => Read::error(*code),
        };
        reads.urgent |= !read.error.is_none() || read.diverging.is_some();
        reads.bytes += read.span.as_ref().map_or(0, |span| i64::from(span.length));
        reads.parts.push(read);
    }
    reads
}

fn read_one(partition: &Partition, target: &Target, left: i64, first: bool, isolation: Isolation) -> Read {
    if let Err(code) = partition.check_leader_epoch(target.current_leader_epoch) {
        return Read::error(code);
    }
    let mut read = Read {
        high_watermark: partition.high_watermark(),
        last_stable_offset: partition.last_stable_offset(),
        log_start_offset: partition.log_start_offset(),
        ..Read::default()
    };
    if target.last_fetched_epoch >= 0
        && let found = partition.end_offset_for_epoch(target.last_fetched_epoch)
        && (found.epoch < target.last_fetched_epoch || found.end_offset < target.fetch_offset)
    {
        if found.end_offset < 0 {
            return Read::error(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        read.diverging = Some(found);
        return read;
    }
    let max_bytes = i64::from(target.max_bytes).min(left).max(0);
    if max_bytes == 0 && !first {
        return read;
    }
    match partition.span(target.fetch_offset, max_bytes as u32, isolation) {
        // Only the first batch of an answer may exceed the limits.
        Ok(span) if span.length == 0 || (i64::from(span.length) > max_bytes && !first) => {}
        Ok(span) => read.span = Some(span),
        Err(error) => read.error = error_code(partition, &error),
    }
    read
}

fn error_code(partition: &Partition, error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OffsetOutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        ReadError::Corrupt { .. } => {
            tracing::warn!(topic = %partition.topic, partition = partition.index, %error, "a stored batch is unreadable");
            ErrorCode::CORRUPT_MESSAGE
        }
        _ => {
            tracing::error!(topic = %partition.topic, partition = partition.index, %error, "a read failed");
            ErrorCode::KAFKA_STORAGE_ERROR
        }
    }
}

/// Builds the answer: everything for a full fetch, only what has changed for an incremental one.
fn respond(broker: &Broker, version: i16, session: Opened, reads: Reads) -> (FetchResponse, Vec<Span>) {
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    let mut spans = Vec::new();
    let targets = session.targets;
    let mut sent = Vec::with_capacity(targets.len());
    for (target, read) in targets.iter().zip(reads.parts) {
        let has_records = read.span.is_some();
        let changed = session.is_full
            || has_records
            || !read.error.is_none()
            || read.diverging.is_some()
            || target.sent_high_watermark != read.high_watermark
            || target.sent_log_start_offset != read.log_start_offset;
        sent.push(sessions::Sent {
            high_watermark: read.high_watermark,
            log_start_offset: read.log_start_offset,
            has_records,
        });
        if !changed {
            continue;
        }
        let data = partition_data(target, read, &mut spans);
        match responses.last_mut() {
            Some(last) if last.topic_id == target.topic_id && *last.topic == *target.topic => {
                last.partitions.push(data);
            }
            _ => responses.push(FetchableTopicResponse {
                topic: target.topic.to_string(),
                topic_id: target.topic_id,
                partitions: vec![data],
            }),
        }
    }
    let session_id = broker.fetch_sessions.close(session.ticket, targets, &sent, version);
    let response = FetchResponse { session_id, responses, ..Default::default() };
    (response, spans)
}

fn partition_data(target: &Target, read: Read, spans: &mut Vec<Span>) -> PartitionData {
    let records = match read.span {
        None => Records::Inline(bytes::Bytes::new()),
        Some(span) if span.length as usize <= COPY_BYTES_MAX => match copy(&span) {
            Ok(bytes) => Records::Inline(bytes),
            Err(error) => {
                tracing::error!(topic = %target.topic, partition = target.index, %error, "a read failed");
                return PartitionData {
                    partition_index: target.index,
                    error_code: ErrorCode::KAFKA_STORAGE_ERROR,
                    high_watermark: -1,
                    records: Some(Records::Inline(bytes::Bytes::new())),
                    ..Default::default()
                };
            }
        },
        Some(span) => {
            let length = span.length;
            spans.push(span);
            Records::Elsewhere(length)
        }
    };
    PartitionData {
        partition_index: target.index,
        error_code: read.error,
        high_watermark: read.high_watermark,
        last_stable_offset: read.last_stable_offset,
        log_start_offset: read.log_start_offset,
        diverging_epoch: read
            .diverging
            .map_or_else(EpochEndOffset::default, |at| EpochEndOffset { epoch: at.epoch, end_offset: at.end_offset }),
        current_leader: LeaderIdAndEpoch::default(),
        aborted_transactions: None,
        records: Some(records),
        ..Default::default()
    }
}

fn copy(span: &Span) -> std::io::Result<bytes::Bytes> {
    let mut bytes = vec![0; span.length as usize];
    log::disk::read_exact_at(&*span.file, &mut bytes, span.position)?;
    Ok(bytes.into())
}
