//! `/clusters/NAME/partitions/TOPIC/N/compare`: whether the replicas of one partition have the same records.

use std::time::Duration;

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use client::{ReplicaComparison, ReplicaProblem, TopicPartition};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};
use wire::batch::BatchHeader;

use super::messages::permit;
use super::partition::{find, look};
use super::partitions::partition_href;
use crate::failure::{Failure, render};
use crate::format::{bytes, count, moment};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;

/// Records that are compared if nothing else is asked for, and at most.
const LAST: i64 = 1000;
const LAST_MAX: i64 = 100_000;
/// A comparison ends after so much of the leader's replica, or after this time.
const BYTES_MAX: u64 = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Template)]
#[template(path = "replicas.html")]
struct Page {
    layout: Layout,
    base: String,
    of: TopicPartition,
    href: String,
    last: i64,
    last_max: i64,
    /// Of replicas.
    count: usize,
    compared: Option<Compared>,
}

struct Compared {
    tiles: Vec<(&'static str, String)>,
    /// What all of it comes to, and how that looks.
    verdict: (&'static str, &'static str),
    cut: Option<String>,
    rows: Vec<Row>,
    differences: Vec<Difference>,
}

struct Row {
    broker: i32,
    is_leader: bool,
    problem: Option<String>,
}

/// The first batch of a replica that is not the leader's.
struct Difference {
    broker: i32,
    offset: i64,
    leader: i32,
    /// What the batches have: of this replica, and of the leader's.
    facts: Vec<(&'static str, String, String)>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CompareQuery {
    /// How many of the last records.
    #[serde(default)]
    last: Option<i64>,
}

pub(crate) async fn compare(context: RequestContext, Query(asked): Query<CompareQuery>) -> Result<Response, Failure> {
    let snapshot = look(&context).await?;
    let (of, partition) = find(&context, &snapshot)?;
    let compared = match asked.last {
        Some(last) if (1..=LAST_MAX).contains(&last) => Some(run(&context, &of, last).await?),
        Some(_) => return Err(Failure::wrong(format!("from 1 to {LAST_MAX} records can be compared"))),
        None => None,
    };
    let page = Page {
        layout: context.layout(Section::Partitions),
        base: context.base.clone(),
        href: partition_href(&context, &of),
        last: asked.last.unwrap_or(LAST),
        last_max: LAST_MAX,
        count: partition.replicas.len(),
        compared,
        of,
    };
    Ok(render(StatusCode::OK, &page))
}

async fn run(context: &RequestContext, of: &TopicPartition, last: i64) -> Result<Compared, Failure> {
    let _permit = permit(context).await?;
    let deadline = Instant::now() + TIMEOUT;
    let client = &context.client;
    let is_compacted = client.compacted(&[of.topic.as_str()].into()).await?.contains(&of.topic);
    let mut comparison = client.compare_replicas(of, is_compacted, Some(last)).await?;
    while !comparison.is_complete() && comparison.bytes < BYTES_MAX {
        if timeout_at(deadline, comparison.step()).await.is_err() {
            break;
        }
    }
    Ok(Compared::new(of, &comparison))
}

impl Compared {
    fn new(of: &TopicPartition, comparison: &ReplicaComparison) -> Self {
        let ReplicaComparison { leader, from, to, end, batches, alike, problems, .. } = comparison;
        let is_cut = !comparison.is_complete();
        let others = alike.iter().chain(problems.keys()).filter(|id| *id != leader);
        let mut brokers: Vec<_> = others.copied().collect();
        brokers.sort_unstable();
        brokers.insert(0, *leader);
        let rows = brokers.into_iter().map(|broker| Row {
            broker,
            is_leader: broker == *leader,
            problem: problems.get(&broker).map(ToString::to_string),
        });
        let differences = problems.iter().filter_map(|(broker, problem)| match problem {
            ReplicaProblem::Differs(found) => {
                let facts = facts(found.replica.as_ref(), found.leader.as_ref());
                Some(Difference { broker: *broker, offset: found.offset, leader: *leader, facts })
            }
            _ => None,
        });
        Self {
            tiles: vec![
                ("Offsets compared", format!("{} to {}", count(*from), count(*to))),
                ("Batches", count(*batches)),
                ("Log size of them", bytes(comparison.bytes)),
            ],
            verdict: match (problems.is_empty(), from == to && is_cut) {
                (false, _) => ("Not all replicas have what the leader has", "bad"),
                (true, true) => ("Nothing was compared", "warn"),
                (true, false) => ("All replicas have the same", "good"),
            },
            cut: is_cut.then(|| {
                format!(
                    "It ended early, at offset {} of {}: a comparison here ends after {} or {} s. \
                     “parshall partition verify-replicas {}:{}” compares all that there is.",
                    count(*to),
                    count(*end),
                    bytes(BYTES_MAX),
                    TIMEOUT.as_secs(),
                    of.topic,
                    of.partition
                )
            }),
            rows: rows.collect(),
            differences: differences.collect(),
        }
    }
}

fn facts(replica: Option<&BatchHeader>, leader: Option<&BatchHeader>) -> Vec<(&'static str, String, String)> {
    let fact = |name, shown: fn(&BatchHeader) -> String| {
        let shown = |header: Option<&BatchHeader>| header.map_or_else(|| "no batch".to_owned(), shown);
        (name, shown(replica), shown(leader))
    };
    let known = |number: i64| if number < 0 { "–".to_owned() } else { number.to_string() };
    let facts = [
        fact("Offsets", |header| format!("{} to {}", count(header.base_offset), count(header.last_offset()))),
        fact("Records", |header| count(header.record_count)),
        fact("Leader epoch", |header| header.partition_leader_epoch.to_string()),
        fact("CRC", |header| format!("{:08x}", header.crc)),
        fact("Size", |header| bytes(header.size() as u64)),
        fact("Newest timestamp", |header| moment(header.max_timestamp)),
    ];
    let producer = |header: Option<&BatchHeader>| header.map_or(String::new(), |header| known(header.producer_id));
    facts.into_iter().chain([("Producer id", producer(replica), producer(leader))]).collect()
}
