//! `/clusters/NAME/hanging-transactions`: transactions that are open in a partition and that no coordinator has
//! (KIP-664). All leaders are asked, so it is done when it is asked for, and not with each look.

use std::collections::BTreeSet;
use std::time::Duration;

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use client::{ClientError, ConnectionError, HangingTransaction, HangingTransactions, TopicPartition};
use serde::Deserialize;
use tokio::time::timeout;

use super::messages::permit;
use super::partitions::partition_href;
use crate::failure::{Failure, render};
use crate::format::{count, counted, duration, moment, now_ms};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;
use crate::snapshot::{Snapshot, max_timeout_ms};

/// `transaction.max.timeout.ms` of brokers that do not tell theirs: Kafka's default.
const MAX_TIMEOUT_MS: i64 = 900_000;
const MS_PER_MINUTE: i64 = 60_000;
/// A week.
const MINUTES_MAX: i64 = 7 * 24 * 60;
const TIMEOUT: Duration = Duration::from_secs(15);
const SHOWN: usize = 200;
const ERRORS_SHOWN: usize = 50;

#[derive(Template)]
#[template(path = "hanging_transactions.html")]
struct Page {
    layout: Layout,
    base: String,
    minutes: i64,
    minutes_max: i64,
    found: Option<Found>,
    can_change: bool,
}

/// What came of a search.
#[derive(Default)]
struct Found {
    /// All of it, and how that looks.
    verdict: String,
    class: &'static str,
    rows: Vec<Row>,
    left_out: usize,
    errors: Vec<(String, String)>,
    errors_left_out: usize,
}

struct Row {
    partition: String,
    href: String,
    producer_id: i64,
    producer_epoch: i32,
    start_offset: i64,
    last_write: String,
    idle: String,
    command: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SearchQuery {
    /// For how long nothing was written in it.
    #[serde(default)]
    minutes: Option<i64>,
}

pub(crate) async fn show(context: RequestContext, Query(asked): Query<SearchQuery>) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let (minutes, found) = match asked.minutes {
        Some(minutes) if (0..=MINUTES_MAX).contains(&minutes) => {
            let now_ms = now_ms();
            let result = search(&context, &snapshot, minutes * MS_PER_MINUTE, now_ms).await?;
            (minutes, Some(found(&context, &snapshot, result, now_ms)))
        }
        Some(_) => return Err(Failure::wrong(format!("from 0 to {MINUTES_MAX} minutes can be asked for"))),
        None => ((longest_ms(&context, &snapshot).await + MS_PER_MINUTE - 1) / MS_PER_MINUTE, None),
    };
    let page = Page {
        layout: context.layout(Section::Transactions),
        base: context.base.clone(),
        minutes: minutes.clamp(0, MINUTES_MAX),
        minutes_max: MINUTES_MAX,
        found,
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page))
}

/// How long a transaction may be open. What is younger may be on its way to an end.
pub(crate) async fn longest_ms(context: &RequestContext, snapshot: &Snapshot) -> i64 {
    let Some(broker) = snapshot.brokers.values().find(|broker| broker.is_alive) else { return MAX_TIMEOUT_MS };
    let asked = timeout(Duration::from_secs(2), max_timeout_ms(&context.client, broker.id));
    asked.await.ok().flatten().unwrap_or(MAX_TIMEOUT_MS)
}

/// Asks all leaders, and then the coordinators, for what is open and idle for longer.
pub(crate) async fn search(
    context: &RequestContext,
    snapshot: &Snapshot,
    idle_ms: i64,
    now_ms: i64,
) -> Result<Result<HangingTransactions, ClientError>, Failure> {
    let _permit = permit(context).await?;
    let all = snapshot.partitions().filter(|(_, partition)| !partition.is_offline());
    let all: BTreeSet<_> = all.map(|(topic, partition)| TopicPartition::new(topic, partition.index)).collect();
    let found = context.client.find_hanging_transactions(&all, None, idle_ms, now_ms);
    timeout(TIMEOUT, found).await.map_err(|_| {
        Failure::unavailable(format!(
            "the search has not ended within {} s; “parshall transaction find-hanging --all” waits longer",
            TIMEOUT.as_secs()
        ))
    })
}

pub(crate) fn is_too_old(error: &ClientError) -> bool {
    matches!(error, ClientError::Connection(ConnectionError::Unsupported { .. }))
}

fn found(
    context: &RequestContext,
    snapshot: &Snapshot,
    result: Result<HangingTransactions, ClientError>,
    now_ms: i64,
) -> Found {
    let result = match result {
        Ok(result) => result,
        Err(error) => {
            return Found {
                verdict: format!("Nothing is known: a coordinator does not tell of its transactions ({error})."),
                class: "warn",
                ..Found::default()
            };
        }
    };
    let all = snapshot.partitions().filter(|(_, partition)| !partition.is_offline()).count();
    let (verdict, class) = verdict(&result, all);
    let is_old = class == "muted";
    let errors = result.errors.iter().filter(|_| !is_old);
    Found {
        rows: result.hanging.iter().take(SHOWN).map(|one| row(context, one, now_ms)).collect(),
        left_out: result.hanging.len().saturating_sub(SHOWN),
        errors: errors.clone().take(ERRORS_SHOWN).map(|(of, error)| (of.to_string(), error.to_string())).collect(),
        errors_left_out: errors.count().saturating_sub(ERRORS_SHOWN),
        verdict,
        class,
    }
}

fn verdict(result: &HangingTransactions, partitions: usize) -> (String, &'static str) {
    let HangingTransactions { hanging, errors } = result;
    if hanging.is_empty() && !errors.is_empty() && errors.values().all(is_too_old) {
        return ("The brokers cannot tell of producers, as Kafka before 3.0.".to_owned(), "muted");
    }
    let looked_at = counted(partitions.saturating_sub(errors.len()), "partition");
    match (hanging.len(), errors.is_empty()) {
        (0, true) => (format!("No transaction hangs in {looked_at}."), "good"),
        (0, false) => (format!("No transaction hangs in {looked_at}; others could not be looked at."), "warn"),
        (1, _) => (format!("1 transaction hangs, of {looked_at}."), "bad"),
        (many, _) => (format!("{} transactions hang, of {looked_at}.", count(many as u64)), "bad"),
    }
}

/// What ends one, for a shell.
pub(crate) fn abort_command(one: &HangingTransaction) -> String {
    let TopicPartition { topic, partition } = &one.partition;
    let offset = one.producer.transaction_start_offset.unwrap_or(-1);
    format!("parshall transaction abort {topic}:{partition} --start-offset {offset}")
}

fn row(context: &RequestContext, one: &HangingTransaction, now_ms: i64) -> Row {
    let producer = &one.producer;
    let idle_ms = (now_ms - producer.last_timestamp_ms).max(0);
    Row {
        partition: one.partition.to_string(),
        href: partition_href(context, &one.partition),
        producer_id: producer.producer_id,
        producer_epoch: producer.producer_epoch,
        start_offset: producer.transaction_start_offset.unwrap_or(-1),
        last_write: moment(producer.last_timestamp_ms),
        idle: duration(idle_ms as f64 / 1000.0),
        command: abort_command(one),
    }
}

#[cfg(test)]
mod tests {
    use client::PartitionProducer;

    use super::*;

    fn hanging(partition: i32) -> HangingTransaction {
        let producer = PartitionProducer {
            producer_id: 4000,
            producer_epoch: 3,
            last_sequence: 9,
            last_timestamp_ms: 0,
            coordinator_epoch: None,
            transaction_start_offset: Some(42),
        };
        HangingTransaction { partition: TopicPartition::new("orders", partition), producer }
    }

    #[test]
    fn a_search_says_what_was_looked_at_and_what_is_not_known() {
        let of = |partition| TopicPartition::new("orders", partition);
        let api = "DescribeProducers";
        let too_old: ClientError = ConnectionError::Unsupported { address: "kafka:9092".to_owned(), api }.into();
        let verdict = |hanging: &[HangingTransaction], errors: &[(TopicPartition, ClientError)]| {
            let errors = errors.iter().cloned().collect();
            verdict(&HangingTransactions { hanging: hanging.to_vec(), errors }, 8)
        };
        assert_eq!(verdict(&[], &[]), ("No transaction hangs in 8 partitions.".to_owned(), "good"));
        assert_eq!(verdict(&[hanging(0)], &[]), ("1 transaction hangs, of 8 partitions.".to_owned(), "bad"));
        let (text, class) = verdict(&[], &[(of(0), ClientError::NoLeader(of(0)))]);
        assert_eq!((text.contains("in 7 partitions; others"), class), (true, "warn"));
        // All brokers are too old: one line, and no table of errors.
        assert_eq!(verdict(&[], &[(of(0), too_old.clone()), (of(1), too_old)]).1, "muted");
    }

    #[test]
    fn what_hangs_comes_with_the_command_that_ends_it() {
        assert_eq!(abort_command(&hanging(1)), "parshall transaction abort orders:1 --start-offset 42");
    }
}
