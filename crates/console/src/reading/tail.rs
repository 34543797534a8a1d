//! Following the ends of partitions.

use std::collections::BTreeMap;
use std::time::Duration;

use client::{Client, TopicPartition};
use tokio::time::Instant;
use wire::ErrorCode;

use super::scan::{Budget, Filter, Scan};
use super::{Message, Spans, bounds};

/// What one round may look at.
const RECORDS_MAX: u64 = 10_000;
const BYTES_MAX: u64 = 8 * 1024 * 1024;
const TIME_MAX: Duration = Duration::from_millis(500);
/// And how many it hands out.
const MESSAGES_MAX: usize = 20;
const HEADERS_MAX: usize = 100;
/// Where the end is farther away, what lies between is passed over.
const BEHIND_MAX: i64 = 1000;

pub(crate) struct Tail {
    client: Client,
    topic: String,
    filter: Filter,
    /// Where to read on, by partition.
    positions: BTreeMap<i32, i64>,
}

/// What has come since the last round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// In the order of their times.
    pub messages: Vec<Message>,
    /// Records that match and are too many, or that came too fast to be looked at.
    pub left_out: u64,
    pub problem: Option<String>,
}

impl Tail {
    /// From the ends of these partitions on.
    pub(crate) fn new(client: Client, topic: String, filter: Filter, spans: &Spans) -> Self {
        let positions = spans.iter().map(|(partition, span)| (*partition, span.end)).collect();
        Self { client, topic, filter, positions }
    }

    pub(crate) async fn round(&mut self) -> Round {
        let of = |partition| TopicPartition::new(self.topic.clone(), partition);
        let offsets = self.positions.iter().map(|(partition, offset)| (of(*partition), *offset)).collect();
        let mut round = Round::default();
        let mut budget = Budget::new(RECORDS_MAX, BYTES_MAX, Instant::now() + TIME_MAX);
        let mut lost = Vec::new();
        for (of, fetched) in self.client.fetch_each(&offsets).await {
            let batches = match fetched {
                Ok(batches) => batches,
                Err(error) => {
                    // Records were deleted, or the topic is another one.
                    if error.code() == Some(ErrorCode::OFFSET_OUT_OF_RANGE) {
                        lost.push(of.partition);
                    }
                    round.problem = Some(error.to_string());
                    continue;
                }
            };
            let Some(position) = self.positions.get_mut(&of.partition) else { continue };
            let end = batches.high_watermark;
            let scan = Scan {
                partition: of.partition,
                batches,
                offsets: *position..i64::MAX,
                filter: self.filter.clone(),
                // All are counted.
                limit: usize::MAX,
                is_backward: false,
                headers_max: HEADERS_MAX,
                budget: budget.clone(),
            };
            let Ok(scanned) = tokio::task::spawn_blocking(move || scan.run()).await else { continue };
            budget = scanned.budget;
            *position = scanned.next;
            round.messages.extend(scanned.messages);
            round.problem = scanned.problem.or(round.problem.take());
            if end - *position > BEHIND_MAX || scanned.has_failed {
                round.left_out += u64::try_from(end - *position).unwrap_or(0);
                *position = end.max(*position);
            }
        }
        for (partition, span) in bounds(&self.client, &self.topic, &lost).await.spans {
            self.positions.insert(partition, span.end);
        }
        round.messages.sort_by_key(|message| message.timestamp);
        round.left_out += round.messages.len().saturating_sub(MESSAGES_MAX) as u64;
        round.messages.truncate(MESSAGES_MAX);
        round
    }
}
