//! `/clusters/NAME/partitions`: the partitions of all topics, found by what is wrong with them.

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use client::TopicPartition;
use serde::Deserialize;

use super::{Listing, Pages};
use crate::failure::{Failure, render};
use crate::format::{bytes, count, escape};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;
use crate::snapshot::{Partition, Snapshot};

const SHOWS: [(&str, &str); 6] = [
    ("all", "all"),
    ("offline", "those without a leader"),
    ("under-min-isr", "those under min.insync.replicas"),
    ("under-replicated", "those under-replicated"),
    ("not-preferred", "those not led as preferred"),
    ("moving", "those that move"),
];

#[derive(Template)]
#[template(path = "partitions.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    filter: Filter,
    shows: [(&'static str, &'static str); 6],
    brokers: Vec<String>,
    rows: Vec<Row>,
    pages: Pages,
    /// Partitions of the filter that would get another leader.
    electable: usize,
    moving: usize,
    can_change: bool,
}

/// Which partitions are meant.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Filter {
    /// Part of the topic's name, or a partition as `topic-0`.
    pub q: String,
    pub show: String,
    /// With a replica there.
    pub broker: String,
    /// This one and no other, as `topic-0`.
    pub partition: String,
}

struct Row {
    topic: String,
    index: i32,
    href: String,
    leader: Option<i32>,
    is_preferred: bool,
    replicas: Vec<Mark>,
    records: String,
    size: String,
}

pub(super) struct Mark {
    pub broker: i32,
    pub in_sync: bool,
    /// What there is to say of it.
    pub note: String,
}

impl Filter {
    pub(crate) fn of(partition: &TopicPartition) -> Self {
        Self { partition: partition.to_string(), ..Self::default() }
    }

    /// In the order of their names.
    pub(crate) fn found<'a>(&self, snapshot: &'a Snapshot) -> Result<Vec<(TopicPartition, &'a Partition)>, Failure> {
        let q = self.q.trim().to_lowercase();
        let broker = match self.broker.trim() {
            "" => None,
            id => Some(id.parse::<i32>().map_err(|_| Failure::wrong(format!("{id:?} is no broker")))?),
        };
        let is_shown: fn(&Partition) -> bool = match self.show.as_str() {
            "" | "all" | "moving" => |_| true,
            "offline" => Partition::is_offline,
            "under-min-isr" => Partition::is_under_min_isr,
            "under-replicated" => Partition::is_under_replicated,
            "not-preferred" => |partition| !partition.is_offline() && !partition.is_preferred(),
            other => return Err(Failure::wrong(format!("{other:?} cannot be shown"))),
        };
        let mut found = Vec::new();
        for (topic, of_topic) in &snapshot.topics {
            let is_named = topic.to_lowercase().contains(&q);
            for partition in &of_topic.partitions {
                let of = TopicPartition::new(topic.clone(), partition.index);
                let is_found = match self.partition.as_str() {
                    "" => is_named || of.to_string().to_lowercase() == q,
                    name => of.to_string() == name,
                };
                let is_there = broker.is_none_or(|id| partition.replicas.contains(&id));
                let is_moving = self.show != "moving" || snapshot.reassignments.contains_key(&of);
                if is_found && is_there && is_moving && is_shown(partition) {
                    found.push((of, partition));
                }
            }
        }
        Ok(found)
    }
}

/// Whether an election would make its first replica the leader.
pub(super) fn is_electable(snapshot: &Snapshot, partition: &Partition) -> bool {
    let is_ready = |first: &i32| partition.isr.contains(first) && snapshot.is_alive(*first);
    !partition.is_preferred() && partition.replicas.first().is_some_and(is_ready)
}

/// The replicas of a partition, with what is the matter with each.
pub(super) fn marks(snapshot: &Snapshot, of: &TopicPartition, partition: &Partition) -> Vec<Mark> {
    let reassignment = snapshot.reassignments.get(of);
    let marks = partition.replicas.iter().map(|broker| {
        let in_sync = partition.isr.contains(broker);
        let lag = partition.sizes.get(broker).map(|replica| replica.offset_lag);
        let mut notes = Vec::new();
        if reassignment.is_some_and(|reassignment| reassignment.adding.contains(broker)) {
            notes.push("new".to_owned());
        } else if reassignment.is_some_and(|reassignment| reassignment.removing.contains(broker)) {
            notes.push("leaves".to_owned());
        }
        match lag {
            _ if !snapshot.is_alive(*broker) => notes.push("down".to_owned()),
            Some(lag) if !in_sync && lag > 0 => notes.push(format!("{} behind", count(lag))),
            _ if !in_sync => notes.push("not in sync".to_owned()),
            _ => {}
        }
        Mark { broker: *broker, in_sync, note: notes.join(", ") }
    });
    marks.collect()
}

pub(crate) async fn show(
    context: RequestContext,
    Query(listing): Query<Listing>,
    Query(filter): Query<Filter>,
) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let found = filter.found(&snapshot)?;
    let electable = found.iter().filter(|(_, partition)| is_electable(&snapshot, partition)).count();
    let (shown, pages) = listing.cut(found, "partition");
    let rows = shown.iter().map(|(of, partition)| Row {
        href: partition_href(&context, of),
        topic: of.topic.clone(),
        index: of.partition,
        leader: (!partition.is_offline()).then_some(partition.leader),
        is_preferred: partition.is_preferred(),
        replicas: marks(&snapshot, of, partition),
        records: partition.records().map_or_else(|| "–".to_owned(), count),
        size: partition.size_bytes().map_or_else(|| "–".to_owned(), bytes),
    });
    let page = Page {
        layout: context.layout(Section::Partitions),
        base: context.base.clone(),
        events: context.events(),
        shows: SHOWS,
        brokers: snapshot.brokers.keys().map(ToString::to_string).collect(),
        rows: rows.collect(),
        pages: pages.with(format!("show={}&broker={}", escape(&filter.show), escape(&filter.broker))),
        filter,
        electable,
        moving: snapshot.reassignments.len(),
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page))
}

pub(super) fn partition_href(context: &RequestContext, of: &TopicPartition) -> String {
    format!("{}/partitions/{}/{}", context.base, escape(&of.topic), of.partition)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::snapshot::Topic;

    fn snapshot() -> Snapshot {
        let partition = |index, leader, isr: &[i32]| Partition {
            index,
            leader,
            replicas: vec![1, 2],
            isr: isr.to_vec(),
            ..Partition::default()
        };
        let topic = |partitions| Topic { partitions, ..Topic::default() };
        let mut orders = topic(vec![partition(0, 1, &[1, 2]), partition(1, 2, &[2]), partition(2, -1, &[1])]);
        orders.partitions.iter_mut().for_each(|partition| partition.min_in_sync = 2);
        let more = topic((0..12).map(|index| partition(index, 1, &[1, 2])).collect());
        let elsewhere = Partition { leader: 3, replicas: vec![3], isr: vec![3], ..Partition::default() };
        let topics = [("Orders", orders), ("more-1", more), ("else", topic(vec![elsewhere]))];
        let topics: BTreeMap<_, _> = topics.into_iter().map(|(name, topic)| (name.to_owned(), topic)).collect();
        Snapshot { topics, ..Snapshot::empty() }
    }

    #[test]
    fn partitions_are_found_by_name_state_and_broker() {
        let mut snapshot = snapshot();
        snapshot.reassignments.insert(TopicPartition::new("else", 0), Default::default());
        let found = |q: &str, show: &str, broker: &str| {
            let (q, show, broker) = (q.to_owned(), show.to_owned(), broker.to_owned());
            let filter = Filter { q, show, broker, ..Filter::default() };
            let found = filter.found(&snapshot).unwrap();
            found.iter().map(|(of, _)| of.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found("order", "", ""), "Orders-0 Orders-1 Orders-2");
        assert_eq!([found("orders-1", "", ""), found("more-1-1", "", "")], ["Orders-1", "more-1-1"]);
        assert_eq!(found("more-1", "", "").split(' ').count(), 12);
        assert_eq!([found("", "offline", ""), found("", "moving", "")], ["Orders-2", "else-0"]);
        assert_eq!(found("", "under-replicated", ""), "Orders-1 Orders-2");
        assert_eq!(found("", "under-min-isr", ""), "Orders-1 Orders-2");
        assert_eq!([found("", "not-preferred", ""), found("", "all", "3")], ["Orders-1", "else-0"]);
        // A topic may be called like another one's partition.
        snapshot
            .topics
            .insert("orders-1".to_owned(), Topic { partitions: vec![Partition::default()], ..Topic::default() });
        let found = |filter: Filter| filter.found(&snapshot).unwrap().len();
        assert_eq!(found(Filter { q: "orders-1".to_owned(), ..Filter::default() }), 2);
        assert_eq!(found(Filter::of(&TopicPartition::new("Orders", 1))), 1);
        let wrong = |filter: Filter| filter.found(&snapshot).is_err();
        assert!(wrong(Filter { show: "x".to_owned(), ..Filter::default() }));
        assert!(wrong(Filter { broker: "x".to_owned(), ..Filter::default() }));
    }
}
