//! `/clusters/NAME/partitions/TOPIC/N`: the replicas of one partition, side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use client::TopicPartition;

use super::partition_producers::{Producers, Row as ProducerRow};
use super::partitions::{Filter, is_electable, partition_href};
use super::transactions::href as transaction_href;
use super::{Listing, Pages};
use crate::embedded_broker::{PartitionChange, PartitionState};
use crate::failure::{Failure, render};
use crate::format::{bytes, count, counted, moment, name_shown, now_ms};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;
use crate::snapshot::{Partition, Snapshot};

const CHANGES_SHOWN: usize = 50;

#[derive(Template)]
#[template(path = "partition.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    topic: String,
    index: i32,
    href: String,
    verdict: (&'static str, &'static str),
    tiles: Vec<(&'static str, String)>,
    findings: Vec<(&'static str, String)>,
    replicas: Vec<Row>,
    producers: Vec<ProducerRow>,
    has_open_transaction: bool,
    /// Why they are not known.
    producers_error: Option<String>,
    pages: Pages,
    changes: Vec<ChangeRow>,
    changes_left_out: usize,
    /// Since when this console looks, where it knows nothing else.
    seen_since: Option<String>,
    is_offline: bool,
    is_moving: bool,
    /// What elects the preferred replica, if that is possible.
    electable: Option<Filter>,
    can_change: bool,
}

struct Row {
    broker: i32,
    is_alive: bool,
    is_leader: bool,
    is_preferred: bool,
    in_sync: bool,
    /// On its way here or away.
    way: &'static str,
    size: String,
    lag: String,
    dir: String,
    future: Option<String>,
}

struct ChangeRow {
    when: String,
    cause: String,
    /// Each as it was and as it is then, where that is different.
    leader: (String, Option<String>),
    leader_epoch: (String, Option<String>),
    isr: (String, Option<String>),
    replicas: (String, Option<String>),
}

fn change_row(change: &PartitionChange) -> ChangeRow {
    let pair = |old: String, new: String| if old == new { (new, None) } else { (old, Some(new)) };
    let pair_of = |shown: &dyn Fn(&PartitionState) -> String| pair(shown(&change.before), shown(&change.after));
    let listed = |ids: &[i32]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let leader = |leader: Option<i32>| leader.map_or_else(|| "none".to_owned(), |leader| leader.to_string());
    ChangeRow {
        when: match change.after_ms {
            Some(after_ms) => format!("{} to {}", moment(after_ms), moment(change.at_ms)),
            None => moment(change.at_ms),
        },
        cause: change.cause.clone(),
        leader: pair_of(&|state| leader(state.leader)),
        leader_epoch: pair_of(&|state| state.leader_epoch.to_string()),
        isr: pair_of(&|state| listed(&state.isr)),
        replicas: pair_of(&|state| listed(&state.replicas)),
    }
}

/// The partition of a page's path.
pub(super) fn find<'a>(
    context: &RequestContext,
    snapshot: &'a Snapshot,
) -> Result<(TopicPartition, &'a Partition), Failure> {
    let of = TopicPartition::new(context.param("topic"), context.number("partition")?);
    match snapshot.partition(&of) {
        Some(partition) => Ok((of, partition)),
        None => Err(Failure::not_found(format!("there is no partition {of}"))),
    }
}

/// A snapshot with the partition of a page's path, if there is one.
pub(super) async fn look(context: &RequestContext) -> Result<Arc<Snapshot>, Failure> {
    context.snapshot_with(|snapshot| find(context, snapshot).is_ok()).await
}

#[derive(Debug, serde::Deserialize)]
pub(crate) struct PartitionQuery {
    /// A page of the producers, from 1.
    #[serde(default)]
    producers: usize,
}

pub(crate) async fn show(context: RequestContext, Query(asked): Query<PartitionQuery>) -> Result<Response, Failure> {
    let snapshot = look(&context).await?;
    let (of, partition) = find(&context, &snapshot)?;
    let known = |value: Option<i64>| value.map_or_else(|| "–".to_owned(), count);
    let (producers, producers_error) = match partition.is_offline() {
        true => (Producers::default(), Some("nobody leads the partition".to_owned())),
        false => match Producers::ask(&context.client, &of).await {
            Ok(producers) => (producers, None),
            Err(reason) => (Producers::default(), Some(reason)),
        },
    };
    let end = producers.high_watermark.or(partition.end);
    let records = end.zip(partition.start).map(|(end, start)| (end - start).max(0));
    let tiles = vec![
        ("Leader", if partition.is_offline() { "none".to_owned() } else { format!("broker {}", partition.leader) }),
        ("Leader epoch", partition.leader_epoch.to_string()),
        ("In sync", format!("{} of {}", partition.isr.len(), partition.replicas.len())),
        ("First offset", known(partition.start)),
        ("End", known(end)),
        ("Last stable offset", known(producers.last_stable_offset)),
        ("Records", known(records)),
    ];
    let (seen_since_ms, changes) = context.cluster.partition_changes(&of);
    let mut findings = findings(&snapshot, &of, partition);
    findings.extend(producers.finding(now_ms()));
    let has_open_transaction = producers.has_open_transaction();
    let listing = Listing { page: asked.producers, ..Listing::default() };
    let (shown, pages) = listing.cut(producers.producers, "producer");
    let ids: BTreeMap<_, _> = snapshot.transactions.ids.iter().map(|(id, known)| (known.producer_id, id)).collect();
    let transactional_id = |producer_id| {
        let id = ids.get(&producer_id)?;
        Some((name_shown(id), transaction_href(&context, id)))
    };
    let page = Page {
        producers: shown.iter().map(|one| ProducerRow::new(one, transactional_id(one.producer_id))).collect(),
        has_open_transaction,
        producers_error,
        pages: pages.second("producers", "#producers"),
        changes: changes.iter().take(CHANGES_SHOWN).map(change_row).collect(),
        changes_left_out: changes.len().saturating_sub(CHANGES_SHOWN),
        seen_since: context.cluster.local.is_none().then(|| moment(seen_since_ms.unwrap_or(snapshot.at_ms))),
        layout: context.layout(Section::Partitions),
        base: context.base.clone(),
        events: context.events(),
        href: partition_href(&context, &of),
        verdict: verdict(partition),
        tiles,
        findings,
        replicas: rows(&snapshot, &of, partition),
        is_offline: partition.is_offline(),
        is_moving: snapshot.reassignments.contains_key(&of),
        electable: is_electable(&snapshot, partition).then(|| Filter::of(&of)),
        topic: of.topic,
        index: of.partition,
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page))
}

fn verdict(partition: &Partition) -> (&'static str, &'static str) {
    match partition {
        _ if partition.is_offline() => ("offline", "bad"),
        _ if partition.is_under_replicated() => ("under-replicated", "warn"),
        _ => ("all in sync", "good"),
    }
}

fn rows(snapshot: &Snapshot, of: &TopicPartition, partition: &Partition) -> Vec<Row> {
    let reassignment = snapshot.reassignments.get(of);
    let path = |id: i32, dir: usize| {
        let broker = snapshot.brokers.get(&id)?;
        Some(broker.dirs.get(dir)?.path.clone())
    };
    let rows = partition.replicas.iter().map(|id| Row {
        broker: *id,
        is_alive: snapshot.is_alive(*id),
        is_leader: partition.leader == *id,
        is_preferred: partition.replicas.first() == Some(id),
        in_sync: partition.isr.contains(id),
        way: match reassignment {
            Some(way) if way.adding.contains(id) => "new",
            Some(way) if way.removing.contains(id) => "leaves when the move is done",
            _ => "",
        },
        size: partition.sizes.get(id).map_or_else(|| "–".to_owned(), |replica| bytes(replica.size_bytes)),
        lag: partition.sizes.get(id).map_or_else(|| "–".to_owned(), |replica| count(replica.offset_lag)),
        dir: partition.dirs.get(id).and_then(|dir| path(*id, *dir)).unwrap_or_else(|| "–".to_owned()),
        future: partition.futures.get(id).map(|(dir, replica)| {
            let (path, size) = (path(*id, *dir).unwrap_or_default(), bytes(replica.size_bytes));
            format!("moves to {path}: {size}, {} behind", counted(replica.offset_lag.max(0) as usize, "record"))
        }),
    });
    rows.collect()
}

/// What is wrong with a partition, in words, and how bad it is.
pub(crate) fn findings(snapshot: &Snapshot, of: &TopicPartition, partition: &Partition) -> Vec<(&'static str, String)> {
    let mut findings = Vec::new();
    if partition.is_offline() {
        let isr: Vec<_> = partition.isr.iter().map(ToString::to_string).collect();
        findings.push((
            "bad",
            match isr.as_slice() {
                [] => "Nobody leads it: it can be neither written nor read, and nobody is known to have all of it."
                    .to_owned(),
                _ => format!(
                    "Nobody leads it: it can be neither written nor read. It is back when broker {} is.",
                    isr.join(" or ")
                ),
            },
        ));
    }
    let adding = snapshot.reassignments.get(of).map_or(&[][..], |reassignment| &reassignment.adding);
    let missing = partition.replicas.iter().filter(|id| !partition.isr.contains(id) && !adding.contains(id));
    for id in missing {
        let lag = partition.sizes.get(id).map(|replica| replica.offset_lag);
        findings.push((
            "warn",
            match lag {
                _ if !snapshot.is_alive(*id) => {
                    format!("The replica on broker {id} is not in sync: the broker is down or fenced.")
                }
                Some(lag) if lag > 0 => {
                    format!(
                        "The replica on broker {id} is not in sync: it is {} behind.",
                        counted(lag as usize, "record")
                    )
                }
                Some(_) => format!("The replica on broker {id} is not in sync yet, and has all records."),
                None => format!("The replica on broker {id} is not in sync, and its broker does not tell of it."),
            },
        ));
    }
    if !partition.is_offline()
        && !partition.is_preferred()
        && let Some(first) = partition.replicas.first()
    {
        let leader = partition.leader;
        findings
            .push(("", format!("Broker {leader} leads it; broker {first} is preferred, which keeps leaders even.")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Broker;

    #[test]
    fn what_is_wrong_is_said_in_words() {
        let broker = |id, is_alive| (id, Broker { id, is_alive, ..Broker::default() });
        let brokers = [broker(1, false), broker(2, true), broker(3, true), broker(4, true)];
        let mut snapshot = Snapshot { brokers: brokers.into(), ..Snapshot::empty() };
        let of = TopicPartition::new("t", 0);
        let size = client::LogDirReplica { size_bytes: 1, offset_lag: 1200, is_future: false };
        let replicas = vec![1, 2, 3];
        let partition =
            Partition { leader: 2, replicas, isr: vec![2], sizes: [(3, size)].into(), ..Partition::default() };
        let words = |snapshot: &Snapshot, partition: &Partition| {
            findings(snapshot, &of, partition).into_iter().map(|(class, _)| class).collect::<Vec<_>>()
        };
        assert_eq!(words(&snapshot, &partition), ["warn", "warn", ""]);
        assert!(findings(&snapshot, &of, &partition)[0].1.ends_with("down or fenced."));
        assert!(findings(&snapshot, &of, &partition)[1].1.ends_with("1,200 records behind."));
        let offline = Partition { leader: -1, isr: vec![1], ..partition };
        assert!(findings(&snapshot, &of, &offline)[0].1.ends_with("It is back when broker 1 is."));
        // What only comes is not wrong.
        let coming = Partition { leader: 2, replicas: vec![2, 4], isr: vec![2], ..Partition::default() };
        let reassignment = client::Reassignment { adding: vec![4], ..Default::default() };
        snapshot.reassignments.insert(of.clone(), reassignment);
        assert!(words(&snapshot, &coming).is_empty());
    }
}
