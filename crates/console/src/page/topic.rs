//! `/clusters/NAME/topics/TOPIC`: its partitions, their replicas and offsets, and who reads it.

use askama::Template;
use axum::Json;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::{Listing, Pages};
use crate::failure::{Failure, render};
use crate::format::{bytes, count, counted, group_part, name_shown, rate};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;
use crate::snapshot::{Age, Partition, Snapshot, Topic};

#[derive(Template)]
#[template(path = "topic.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    topic: String,
    id: String,
    is_internal: bool,
    verdict: (String, &'static str),
    tiles: Vec<(&'static str, String)>,
    partitions: Vec<PartitionRow>,
    pages: Pages,
    groups: Vec<GroupRow>,
    can_change: bool,
}

struct PartitionRow {
    index: i32,
    leader: String,
    is_preferred: bool,
    epoch: i32,
    replicas: Vec<ReplicaMark>,
    start: String,
    end: String,
    records: String,
    size: String,
}

struct ReplicaMark {
    broker: i32,
    in_sync: bool,
}

struct GroupRow {
    id: String,
    href: String,
    state: String,
    members: String,
    lag_records: String,
    lag_seconds: String,
}

/// The topic of a page's path.
pub(super) fn find<'a>(context: &RequestContext, snapshot: &'a Snapshot) -> Result<&'a Topic, Failure> {
    let name = context.param("topic");
    snapshot.topics.get(name).ok_or_else(|| Failure::not_found(format!("there is no topic {name:?}")))
}

pub(crate) async fn show(context: RequestContext, Query(listing): Query<Listing>) -> Result<Response, Failure> {
    let snapshot = context.snapshot_with(|snapshot| snapshot.topics.contains_key(context.param("topic"))).await?;
    let topic = find(&context, &snapshot)?;
    let name = context.param("topic");
    let (partitions, pages) = listing.cut(topic.partitions.iter().collect(), "partition");
    let page = Page {
        layout: context.layout(Section::Topics),
        base: context.base.clone(),
        events: context.events(),
        topic: name.to_owned(),
        id: topic.id.clone(),
        is_internal: topic.is_internal,
        verdict: verdict(topic),
        tiles: tiles(&context, topic),
        partitions: partitions.into_iter().map(partition_row).collect(),
        pages,
        groups: group_rows(&context, &snapshot),
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page))
}

fn verdict(topic: &Topic) -> (String, &'static str) {
    match (topic.offline(), topic.under_replicated()) {
        (0, 0) => ("all in sync".to_owned(), "good"),
        (0, under_replicated) => (format!("{} under-replicated", counted(under_replicated, "partition")), "warn"),
        (offline, _) => (format!("{} offline", counted(offline, "partition")), "bad"),
    }
}

fn tiles(context: &RequestContext, topic: &Topic) -> Vec<(&'static str, String)> {
    vec![
        ("Partitions", count(topic.partitions.len() as u64)),
        ("Replicas", topic.replication_factor().to_string()),
        ("Records in", context.cluster.history().topic_rate(context.param("topic")).map_or("–".to_owned(), rate)),
        ("Records", count(topic.records())),
        ("Log size, all replicas", bytes(topic.size_bytes())),
    ]
}

fn partition_row(partition: &Partition) -> PartitionRow {
    let known = |value: Option<i64>| value.map_or_else(|| "–".to_owned(), count);
    PartitionRow {
        index: partition.index,
        leader: if partition.is_offline() { "none".to_owned() } else { partition.leader.to_string() },
        is_preferred: partition.replicas.first() == Some(&partition.leader),
        epoch: partition.leader_epoch,
        replicas: partition
            .replicas
            .iter()
            .map(|broker| ReplicaMark { broker: *broker, in_sync: partition.isr.contains(broker) })
            .collect(),
        start: known(partition.start),
        end: known(partition.end),
        records: known(partition.records()),
        size: partition.size_bytes().map_or_else(|| "–".to_owned(), bytes),
    }
}

fn group_rows(context: &RequestContext, snapshot: &Snapshot) -> Vec<GroupRow> {
    let topic = context.param("topic");
    let groups = snapshot.groups_of(topic).map(|(id, group)| {
        let here = group.positions.iter().filter(|(partition, _)| partition.topic == topic);
        let lag: Option<i64> = here.clone().filter_map(|(_, position)| position.lag_records).reduce(|a, b| a + b);
        let age = here.filter_map(|(_, position)| position.lag_age).reduce(Age::older);
        GroupRow {
            id: name_shown(id),
            href: format!("{}/groups/{}", context.base, group_part(id)),
            state: group.state.clone(),
            members: count(group.members.len() as u64),
            lag_records: lag.map_or_else(|| "–".to_owned(), count),
            lag_seconds: age.map_or_else(|| "–".to_owned(), |age| age.to_string()),
        }
    });
    groups.collect()
}

/// The data of the chart of a topic.
pub(crate) async fn chart(context: RequestContext) -> Result<Response, Failure> {
    Ok(Json(context.cluster.history().topic_chart(context.param("topic"))).into_response())
}
