//! Looking at records of a topic, forwards or backwards, without a group and without a trace.
//!
//! Records of one partition stay in their order. Partitions are merged by time: the next record is the oldest (or,
//! going backwards, the newest) of those that are next in their partitions, so a partition whose next one is not known
//! yet is read before anything is taken. Backwards means windows of offsets, each behind the other and larger where
//! records are rare. Everything is bounded: what is looked at, how long it takes, and what is kept.

mod bounds;
mod cursor;
mod evaluation;
mod message;
mod scan;
mod tail;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use client::{ByPartition, Client, FetchedBatches, TopicPartition};
use tokio::time::{Instant, sleep};

use cursor::Cursor;
use scan::{Budget, Scan};

pub(crate) use bounds::{Bounds, begin_at, bounds};
pub(crate) use evaluation::{Evaluation, Unknown};
pub(crate) use message::{Message, json_line};
pub(crate) use scan::Filter;
pub(crate) use tail::{Round, Tail};

/// A look at records ends when it has looked at so many, or at so many bytes, or took so long.
const RECORDS_MAX: u64 = 100_000;
const BYTES_MAX: u64 = 64 * 1024 * 1024;
const TIME_MAX: Duration = Duration::from_secs(5);
/// Leaders may have nothing to send for a moment although there is something.
const EMPTY_ROUNDS_MAX: usize = 5;
const EMPTY_ROUND_PAUSE: Duration = Duration::from_millis(100);
/// Headers that are kept, of all records together.
const HEADERS_MAX: usize = 100_000;

/// Offsets by partition, from the first to before the second.
pub(crate) type Spans = BTreeMap<i32, Range<i64>>;

type Offsets = BTreeMap<TopicPartition, i64>;

/// What is looked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub topic: String,
    pub filter: Filter,
    pub limit: usize,
    pub is_backward: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// In the order in which they were met.
    pub messages: Vec<Message>,
    /// What has been looked through.
    pub spans: Spans,
    /// Whether it ended because it was enough, and neither all was found that was wanted nor all had been looked at.
    pub is_cut: bool,
    pub records: u64,
    pub bytes: u64,
    /// Partitions of which not all can be shown, and why.
    pub problems: BTreeMap<i32, String>,
}

/// Looks through these offsets.
pub(crate) async fn read(client: &Client, wanted: &Wanted, spans: &Spans) -> Found {
    let budget = Budget::new(RECORDS_MAX, BYTES_MAX, Instant::now() + TIME_MAX);
    let fetch = |offsets: Offsets| {
        let client = client.clone();
        async move { client.fetch_each(&offsets).await }
    };
    look(fetch, wanted, spans, budget).await
}

async fn look<F, A>(fetch: F, wanted: &Wanted, spans: &Spans, mut budget: Budget) -> Found
where
    F: Fn(Offsets) -> A,
    A: Future<Output = ByPartition<FetchedBatches>>,
{
    let mut cursors: Vec<_> = spans
        .iter()
        .map(|(partition, span)| Cursor::new(*partition, span.clone(), wanted.is_backward, wanted.limit / spans.len()))
        .collect();
    let mut found = Found::default();
    let mut empty_rounds = 0;
    loop {
        while found.messages.len() < wanted.limit && !cursors.iter().any(Cursor::is_hungry) {
            match take(&mut cursors, wanted.is_backward) {
                Some(message) => found.messages.push(message),
                None => break,
            }
        }
        if found.messages.len() == wanted.limit || !cursors.iter().any(Cursor::is_hungry) {
            break;
        }
        if budget.is_spent() {
            found.is_cut = true;
            // In the order of what is known.
            while found.messages.len() < wanted.limit
                && let Some(message) = take(&mut cursors, wanted.is_backward)
            {
                found.messages.push(message);
            }
            break;
        }
        let (records, bytes) = budget.used();
        round(&fetch, wanted, &mut cursors, &mut budget).await;
        if budget.used() != (records, bytes) {
            empty_rounds = 0;
            continue;
        }
        empty_rounds += 1;
        if empty_rounds > EMPTY_ROUNDS_MAX {
            for cursor in cursors.iter_mut().filter(|cursor| cursor.is_hungry()) {
                cursor.fail(format!("its leader sends nothing from offset {} on", cursor.at()));
            }
        }
        sleep(EMPTY_ROUND_PAUSE).await;
    }
    (found.records, found.bytes) = budget.used();
    for cursor in cursors {
        found.spans.insert(cursor.partition, cursor.covered());
        found.problems.extend(cursor.into_problem());
    }
    found
}

/// Asks once for what those need that do not know their next record.
async fn round<F, A>(fetch: &F, wanted: &Wanted, cursors: &mut [Cursor], budget: &mut Budget)
where
    F: Fn(Offsets) -> A,
    A: Future<Output = ByPartition<FetchedBatches>>,
{
    let of = |partition| TopicPartition::new(wanted.topic.clone(), partition);
    let hungry = cursors.iter_mut().filter(|cursor| cursor.is_hungry());
    let offsets = hungry.map(|cursor| (of(cursor.partition), cursor.next_window())).collect();
    let mut answers = fetch(offsets).await;
    let headers_max = HEADERS_MAX / wanted.limit;
    for cursor in cursors {
        let batches = match answers.remove(&of(cursor.partition)) {
            None => continue,
            Some(Ok(fetched)) => fetched,
            Some(Err(error)) => {
                cursor.fail(error.to_string());
                continue;
            }
        };
        let scan = Scan {
            partition: cursor.partition,
            batches,
            offsets: cursor.rest(),
            filter: wanted.filter.clone(),
            limit: wanted.limit,
            is_backward: wanted.is_backward,
            headers_max,
            budget: budget.clone(),
        };
        // Decompressing takes its time, and others of this process wait for none of it.
        match tokio::task::spawn_blocking(move || scan.run()).await {
            Ok(scanned) => {
                *budget = scanned.budget.clone();
                cursor.absorb(scanned);
            }
            Err(_) => cursor.fail("its records could not be looked at".to_owned()),
        }
    }
}

/// The next record of all that are known.
fn take(cursors: &mut [Cursor], is_backward: bool) -> Option<Message> {
    let next = cursors.iter_mut().filter(|cursor| cursor.next().is_some());
    // Of several at the same time, the first partition is the first, and backwards the last one.
    let time = |cursor: &&mut Cursor| (cursor.next().map(|message| message.timestamp), cursor.partition);
    match is_backward {
        false => next.min_by_key(time),
        true => next.max_by_key(time),
    }?
    .take()
}
