//! `/clusters/NAME/topics`: all topics, searched and sorted.

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;

use super::{Listing, Pages};
use crate::failure::{Failure, render};
use crate::format::{bytes, count, rate};
use crate::history::History;
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;
use crate::snapshot::{Snapshot, Topic};

#[derive(Template)]
#[template(path = "topics.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    listing: Listing,
    shows_internal: bool,
    rows: Vec<Row>,
    pages: Pages,
    can_change: bool,
}

struct Row {
    name: String,
    is_internal: bool,
    partitions: String,
    replication_factor: usize,
    offline: usize,
    under_replicated: usize,
    records: String,
    rate: String,
    size: String,
    lag: String,
}

/// What rows are sorted by.
struct Figures<'a> {
    name: &'a str,
    topic: &'a Topic,
    size_bytes: i64,
    records: i64,
    rate: Option<f64>,
    lag: Option<i64>,
}

#[derive(Debug, serde::Deserialize)]
pub(crate) struct TopicsQuery {
    #[serde(default)]
    internal: Option<String>,
}

pub(crate) async fn show(
    context: RequestContext,
    Query(listing): Query<Listing>,
    Query(asked): Query<TopicsQuery>,
) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let shows_internal = asked.internal.is_some();
    let found = found(&snapshot, &context.cluster.history(), &listing, shows_internal);
    let (shown, pages) = listing.cut(found, "topic");
    let pages = pages.with(if shows_internal { "internal=on" } else { "" }.to_owned());
    let page = Page {
        layout: context.layout(Section::Topics),
        base: context.base.clone(),
        events: context.events(),
        rows: shown.iter().map(row).collect(),
        listing,
        shows_internal,
        pages,
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page))
}

fn found<'a>(snapshot: &'a Snapshot, history: &History, listing: &Listing, shows_internal: bool) -> Vec<Figures<'a>> {
    let part = listing.q.trim().to_lowercase();
    let mut lags = std::collections::HashMap::<&str, i64>::new();
    for (partition, position) in snapshot.groups.values().flat_map(|group| &group.positions) {
        // The slowest group counts.
        let of_topic = lags.entry(partition.topic.as_str()).or_default();
        *of_topic = (*of_topic).max(position.lag_records.unwrap_or(0));
    }
    let topics = snapshot.topics.iter().filter(|(name, topic)| {
        (shows_internal || !topic.is_internal) && (part.is_empty() || name.to_lowercase().contains(&part))
    });
    let mut found: Vec<_> = topics
        .map(|(name, topic)| Figures {
            name,
            topic,
            size_bytes: topic.size_bytes(),
            records: topic.records(),
            rate: history.topic_rate(name),
            lag: lags.get(name.as_str()).copied(),
        })
        .collect();
    match listing.sort.as_str() {
        "size" => found.sort_by_key(|of| -of.size_bytes),
        "records" => found.sort_by_key(|of| -of.records),
        "rate" => found.sort_by(|a, b| b.rate.unwrap_or(0.0).total_cmp(&a.rate.unwrap_or(0.0))),
        "partitions" => found.sort_by_key(|of| std::cmp::Reverse(of.topic.partitions.len())),
        "lag" => found.sort_by_key(|of| std::cmp::Reverse(of.lag)),
        "state" => found.sort_by_key(|of| std::cmp::Reverse((of.topic.offline(), of.topic.under_replicated()))),
        // The brokers' own ones are not what somebody looks for.
        _ => found.sort_by_key(|of| of.topic.is_internal),
    }
    found
}

fn row(of: &Figures<'_>) -> Row {
    Row {
        name: of.name.to_owned(),
        is_internal: of.topic.is_internal,
        partitions: count(of.topic.partitions.len() as u64),
        replication_factor: of.topic.replication_factor(),
        offline: of.topic.offline(),
        under_replicated: of.topic.under_replicated(),
        records: count(of.records),
        rate: of.rate.map_or_else(|| "–".to_owned(), rate),
        size: bytes(of.size_bytes),
        lag: of.lag.map_or_else(|| "–".to_owned(), count),
    }
}
