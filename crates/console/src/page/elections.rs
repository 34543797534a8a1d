//! Elections of leaders: of the preferred ones, and of whoever is left.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::Form;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use client::{ClientError, ElectionKind, TopicPartition};
use wire::ErrorCode;

use super::partition::{find, look};
use super::partitions::{Filter, is_electable, partition_href};
use super::topic_changes::{ConfirmPage, Confirmation};
use crate::failure::{Failure, render};
use crate::format::{bytes, count, counted};
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext, confirmed};
use crate::snapshot::{Partition, Snapshot};

/// A controller writes what comes of a request in one go, which has an end.
pub(super) const PARTITIONS_AT_ONCE: usize = 1000;
const ERRORS_SHOWN: usize = 50;

/// What came of something that was done to many partitions.
#[derive(Template)]
#[template(path = "outcome.html")]
pub(super) struct OutcomePage {
    layout: Layout,
    title: &'static str,
    /// How many went well, in sentences.
    facts: Vec<String>,
    errors: Vec<(String, String)>,
    errors_left_out: usize,
    /// Where to go on, and what it is called.
    next: (String, &'static str),
}

impl OutcomePage {
    pub(super) fn new(
        context: &RequestContext,
        title: &'static str,
        facts: Vec<String>,
        mut errors: Vec<(String, String)>,
        next: (String, &'static str),
    ) -> Self {
        let errors_left_out = errors.len().saturating_sub(ERRORS_SHOWN);
        errors.truncate(ERRORS_SHOWN);
        Self { layout: context.layout(Section::Partitions), title, facts, errors, errors_left_out, next }
    }
}

pub(crate) async fn elect_preferred(Change(context): Change, Form(filter): Form<Filter>) -> Result<Response, Failure> {
    let snapshot = context.fresh().await?;
    let found = filter.found(&snapshot)?;
    let right = found.iter().filter(|(_, partition)| partition.is_preferred()).count();
    let wanted: Vec<_> = found.iter().filter(|(_, partition)| !partition.is_preferred()).collect();
    let (electable, others): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|(_, partition)| is_electable(&snapshot, partition));
    let mut errors: Vec<_> =
        others.into_iter().map(|(of, partition)| (of.to_string(), why_not(&snapshot, partition))).collect();
    let (mut changed, mut right) = (0, right);
    for part in electable.chunks(PARTITIONS_AT_ONCE) {
        let part: BTreeSet<_> = part.iter().map(|(of, _)| of.clone()).collect();
        for (of, elected) in context.client.elect_leaders(ElectionKind::Preferred, Some(&part)).await? {
            match elected {
                Ok(()) => changed += 1,
                Err(error) if error.code() == Some(ErrorCode::ELECTION_NOT_NEEDED) => right += 1,
                Err(error) => errors.push((of.to_string(), error.to_string())),
            }
        }
    }
    // What goes wrong here is said by the next page.
    let _ = context.fresh().await;
    let facts = vec![
        match changed {
            1 => "1 partition has another leader now.".to_owned(),
            _ => format!("{} have another leader now.", counted(changed, "partition")),
        },
        match right {
            1 => "1 was led by its preferred replica already.".to_owned(),
            _ => format!("{} were led by their preferred replicas already.", count(right as u64)),
        },
    ];
    let next = (format!("{}/partitions?show=not-preferred", context.base), "Partitions not led as preferred");
    Ok(render(StatusCode::OK, &OutcomePage::new(&context, "Preferred leaders", facts, errors, next)))
}

/// Why the first replica cannot lead.
fn why_not(snapshot: &Snapshot, partition: &Partition) -> String {
    match partition.replicas.first() {
        Some(first) if !snapshot.is_alive(*first) => format!("broker {first}, which should lead it, is down"),
        Some(first) => format!("the replica on broker {first}, which should lead it, is not in sync"),
        None => "it has no replicas".to_owned(),
    }
}

/// Brokers that run and have a replica which could lead in context of those in sync.
fn survivors(snapshot: &Snapshot, partition: &Partition) -> Vec<i32> {
    partition.replicas.iter().copied().filter(|id| snapshot.is_alive(*id)).collect()
}

fn is_lost(snapshot: &Snapshot, of: &TopicPartition, partition: &Partition) -> Result<i32, Failure> {
    if !partition.is_offline() {
        return Err(Failure::wrong(format!("{of} has a leader: another one can be made leader without a loss")));
    }
    let chosen = survivors(snapshot, partition).first().copied();
    chosen.ok_or_else(|| {
        let brokers: Vec<_> = partition.replicas.iter().map(ToString::to_string).collect();
        Failure::wrong(format!("no broker with a replica of {of} runs: start one of {}", brokers.join(", ")))
    })
}

/// What an unclean election loses, as far as anybody can say.
fn losses(snapshot: &Snapshot, partition: &Partition, chosen: i32, last_end: Option<i64>) -> Vec<String> {
    let lost: Vec<_> = partition.isr.iter().filter(|id| **id != chosen).map(ToString::to_string).collect();
    let mut losses = vec![match lost.as_slice() {
        [] => format!("what the last leader had and broker {chosen} has not"),
        _ => format!("what only broker {} had, in sync at the end, and broker {chosen} has not", lost.join(" and ")),
    }];
    if let Some(end) = last_end {
        let start = partition.start.map_or(String::new(), |start| format!(", from {}", count(start)));
        losses.push(format!(
            "its log ended at offset {}{start} when it was seen last: what is behind the end of broker \
             {chosen}'s log is gone, and other records may come in its place",
            count(end)
        ));
    }
    if let Some(replica) = partition.sizes.get(&chosen) {
        let lag = match replica.offset_lag {
            lag if lag > 0 => format!(", at least {} behind", counted(lag as usize, "record")),
            _ => String::new(),
        };
        losses.push(format!("broker {chosen} has {} of it{lag}", bytes(replica.size_bytes)));
    }
    let sleeping = partition.isr.iter().filter(|id| !snapshot.is_alive(**id)).map(ToString::to_string);
    let sleeping: Vec<_> = sleeping.collect();
    if !sleeping.is_empty() {
        losses.push(format!("if broker {} comes back instead, nothing is lost", sleeping.join(" or ")));
    }
    losses
}

pub(crate) async fn unclean_form(Change(context): Change) -> Result<Response, Failure> {
    let snapshot = look(&context).await?;
    let (of, partition) = find(&context, &snapshot)?;
    let chosen = is_lost(&snapshot, &of, partition)?;
    let page = ConfirmPage {
        layout: context.layout(Section::Partitions),
        title: format!("Make broker {chosen} the leader of {of}"),
        losses: losses(&snapshot, partition, chosen, context.cluster.history().last_end(&of)),
        back: partition_href(&context, &of),
        name: of.to_string(),
        action: "Elect it and lose records",
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn elect_unclean(
    Change(context): Change,
    Form(form): Form<Confirmation>,
) -> Result<Response, Failure> {
    let snapshot = context.fresh().await?;
    let (of, partition) = find(&context, &snapshot)?;
    confirmed(&form.confirm, &of.to_string())?;
    is_lost(&snapshot, &of, partition)?;
    let wanted = BTreeSet::from([of.clone()]);
    let elected = context.client.elect_leaders(ElectionKind::Unclean, Some(&wanted)).await?;
    if let Some(error) = elected.into_values().find_map(Result::err) {
        return Err(ClientError::into(error));
    }
    let path = format!("/partitions/{}/{}", crate::format::escape(&of.topic), of.partition);
    Ok(context.done(&path, "leaders-elected").await.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Broker;

    #[test]
    fn an_unclean_election_says_what_is_lost() {
        let size = client::LogDirReplica { size_bytes: 2048, offset_lag: 30, is_future: false };
        let partition = Partition {
            leader: -1,
            replicas: vec![1, 2, 3],
            isr: vec![1],
            sizes: [(2, size)].into(),
            ..Partition::default()
        };
        let broker = |id, is_alive| (id, Broker { id, is_alive, ..Broker::default() });
        let mut snapshot =
            Snapshot { brokers: [broker(1, false), broker(2, true), broker(3, true)].into(), ..Snapshot::empty() };
        let of = TopicPartition::new("t", 0);
        assert_eq!(is_lost(&snapshot, &of, &partition).ok(), Some(2));
        let losses = losses(&snapshot, &partition, 2, Some(1500));
        assert!(losses[0].contains("only broker 1 had"), "{losses:?}");
        assert!(losses[1].contains("ended at offset 1,500"), "{losses:?}");
        assert_eq!(losses[2], "broker 2 has 2.00 KiB of it, at least 30 records behind");
        assert!(losses[3].contains("broker 1 comes back"), "{losses:?}");
        // Nobody is left, or nobody is missing.
        snapshot.brokers.values_mut().for_each(|broker| broker.is_alive = false);
        assert!(is_lost(&snapshot, &of, &partition).unwrap_err().what().contains("start one of 1, 2, 3"));
        let led = Partition { leader: 1, ..partition };
        assert!(is_lost(&snapshot, &of, &led).unwrap_err().what().contains("has a leader"));
    }
}
