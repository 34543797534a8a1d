//! `/clusters/NAME/partitions/moves`: what moves, how far it has come, how fast it may be, and calling it off.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use client::{Reassignment, TopicPartition};
use serde::Deserialize;
use wire::ErrorCode;

use super::elections::{OutcomePage, PARTITIONS_AT_ONCE};
use super::partitions::partition_href;
use super::topic_changes::{ConfirmPage, Confirmation};
use super::{Listing, Pages};
use crate::failure::{Failure, render};
use crate::format::{byte_rate, bytes, count, counted, duration, percent};
use crate::history::History;
use crate::layout::{Layout, Section};
use crate::reassignment::{Plan, Throttle, read_rate, remove_throttles, throttle_rates};
use crate::request_context::{Change, RequestContext, confirmed};
use crate::snapshot::{Partition, Snapshot};

#[derive(Template)]
#[template(path = "moves.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    /// Of all of them; nothing moves where there are none.
    tiles: Vec<(&'static str, String)>,
    rows: Vec<Row>,
    pages: Pages,
    /// Brokers that are bound, in words.
    bounds: Vec<String>,
    can_change: bool,
}

struct Row {
    name: String,
    href: String,
    adding: String,
    removing: String,
    copied: String,
    part: f64,
    percent: u32,
    left: String,
}

/// How far a move is.
pub(crate) struct Progress {
    pub copied_bytes: i64,
    pub total_bytes: i64,
    pub bytes_per_second: Option<f64>,
}

impl Progress {
    pub(crate) fn of(snapshot: &Snapshot, history: &History, of: &TopicPartition, reassignment: &Reassignment) -> Self {
        let total_bytes = snapshot.partition(of).map_or(0, Partition::full_bytes);
        let total_bytes = total_bytes * reassignment.adding.len() as i64;
        Self {
            // What is about to be deleted may be there twice.
            copied_bytes: snapshot.copied_bytes(of, reassignment).min(total_bytes),
            total_bytes,
            bytes_per_second: history.copy_rate(of),
        }
    }

    fn all(snapshot: &Snapshot, history: &History) -> Self {
        let each: Vec<_> =
            snapshot.reassignments.iter().map(|(of, way)| Self::of(snapshot, history, of, way)).collect();
        Self {
            copied_bytes: each.iter().map(|progress| progress.copied_bytes).sum(),
            total_bytes: each.iter().map(|progress| progress.total_bytes).sum(),
            bytes_per_second: history.total_copy_rate(),
        }
    }

    pub(crate) fn left_bytes(&self) -> i64 {
        self.total_bytes - self.copied_bytes
    }

    /// `None` where nothing is known of its speed, or it stands still.
    pub(crate) fn left_seconds(&self) -> Option<f64> {
        match self.left_bytes() {
            0 => Some(0.0),
            left => self.bytes_per_second.filter(|rate| *rate > 0.0).map(|rate| left as f64 / rate),
        }
    }

    fn part(&self) -> f64 {
        match self.total_bytes {
            0 => 1.0,
            total => self.copied_bytes as f64 / total as f64,
        }
    }

    fn left_text(&self) -> String {
        match self.left_seconds() {
            Some(0.0) => "about to be in sync".to_owned(),
            Some(seconds) => duration(seconds.max(1.0)),
            None if self.bytes_per_second.is_some() => "waits".to_owned(),
            None => "–".to_owned(),
        }
    }
}

pub(crate) async fn show(context: RequestContext, Query(listing): Query<Listing>) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let rates = throttle_rates(&context.client, &snapshot).await;
    let page = page(&context, &snapshot, &rates, &listing);
    Ok(render(StatusCode::OK, &page))
}

fn page(context: &RequestContext, snapshot: &Snapshot, rates: &BTreeMap<i32, i64>, listing: &Listing) -> Page {
    let history = context.cluster.history();
    let (shown, pages) = listing.cut(snapshot.reassignments.iter().collect(), "partition");
    let rows = shown.into_iter().map(|(of, reassignment)| {
        let progress = Progress::of(snapshot, &history, of, reassignment);
        Row {
            name: of.to_string(),
            href: partition_href(context, of),
            adding: ids(&reassignment.adding),
            removing: ids(&reassignment.removing),
            copied: format!("{} of {}", bytes(progress.copied_bytes), bytes(progress.total_bytes)),
            part: progress.part(),
            percent: (progress.part() * 100.0) as u32,
            left: progress.left_text(),
        }
    });
    let all = Progress::all(snapshot, &history);
    let tiles = match snapshot.reassignments.len() {
        0 => Vec::new(),
        moving => vec![
            ("Partitions that move", count(moving as u64)),
            ("Copied", percent(all.part())),
            ("To be copied", bytes(all.left_bytes())),
            ("Rate", all.bytes_per_second.map_or_else(|| "–".to_owned(), byte_rate)),
            ("Time left", all.left_text()),
        ],
    };
    Page {
        layout: context.layout(Section::Partitions),
        base: context.base.clone(),
        events: context.events(),
        tiles,
        rows: rows.collect(),
        pages,
        bounds: bounds(rates),
        can_change: context.can_change(),
    }
}

fn ids(ids: &[i32]) -> String {
    match ids {
        [] => "–".to_owned(),
        ids => ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Brokers by what they are bound to.
fn bounds(rates: &BTreeMap<i32, i64>) -> Vec<String> {
    let mut by_rate = BTreeMap::<i64, Vec<i32>>::new();
    for (broker, rate) in rates {
        by_rate.entry(*rate).or_default().push(*broker);
    }
    let bounds = by_rate.into_iter().map(|(rate, brokers)| {
        let noun = if brokers.len() == 1 { "broker" } else { "brokers" };
        format!("{noun} {} to {}", ids(&brokers), byte_rate(rate as f64))
    });
    bounds.collect()
}

#[derive(Deserialize)]
pub(crate) struct NewThrottle {
    #[serde(default)]
    throttle: String,
    /// `set` or `remove`.
    action: String,
}

pub(crate) async fn throttle(Change(context): Change, Form(new): Form<NewThrottle>) -> Result<Response, Failure> {
    let snapshot = context.fresh().await?;
    let client = &context.client;
    if new.action == "remove" {
        remove_throttles(client, &snapshot).await?;
        return Ok(context.done("/partitions/moves", "throttle-removed").await.into_response());
    }
    let rate = read_rate(&new.throttle).map_err(Failure::wrong)?;
    let rate = rate.ok_or_else(|| Failure::wrong("say how many MiB per second; nothing was changed"))?;
    Throttle::new(&snapshot, &Plan::default()).set(client, &snapshot, rate).await?;
    Ok(context.done("/partitions/moves", "throttle-set").await.into_response())
}

pub(crate) async fn cancel_one(Change(context): Change) -> Result<Response, Failure> {
    let of = TopicPartition::new(context.param("topic"), context.number("partition")?);
    let cancelled = context.client.alter_reassignments(&BTreeMap::from([(of, None)])).await?;
    if let Some(error) = cancelled.into_values().find_map(Result::err) {
        return Err(error.into());
    }
    Ok(context.done("/partitions/moves", "reassignment-cancelled").await.into_response())
}

pub(crate) async fn cancel_form(Change(context): Change) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let all = Progress::all(&snapshot, &context.cluster.history());
    let page = ConfirmPage {
        layout: context.layout(Section::Partitions),
        title: format!("Cancel the moves of {}", counted(snapshot.reassignments.len(), "partition")),
        losses: vec![
            format!("{} that were copied: the new replicas are deleted", bytes(all.copied_bytes)),
            "no records: all partitions go back to the replicas that they had, some in another order, so that another \
             one is preferred as the leader"
                .to_owned(),
        ],
        name: context.cluster.name.clone(),
        action: "Cancel all moves",
        back: format!("{}/partitions/moves", context.base),
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn cancel_all(Change(context): Change, Form(form): Form<Confirmation>) -> Result<Response, Failure> {
    confirmed(&form.confirm, &context.cluster.name)?;
    let snapshot = context.fresh().await?;
    let moving: Vec<_> = snapshot.reassignments.keys().collect();
    let mut errors = Vec::new();
    for part in moving.chunks(PARTITIONS_AT_ONCE) {
        let part = part.iter().map(|of| ((*of).clone(), None)).collect();
        for (of, cancelled) in context.client.alter_reassignments(&part).await? {
            match cancelled {
                // It has arrived meanwhile.
                Err(error) if error.code() == Some(ErrorCode::NO_REASSIGNMENT_IN_PROGRESS) => {}
                Err(error) => errors.push((of.to_string(), error.to_string())),
                Ok(()) => {}
            }
        }
    }
    if errors.is_empty() {
        return Ok(context.done("/partitions/moves", "reassignments-cancelled").await.into_response());
    }
    let facts = vec![format!("{} of {} moves were cancelled.", moving.len() - errors.len(), moving.len())];
    let next = (format!("{}/partitions/moves", context.base), "What still moves");
    Ok(render(StatusCode::CONFLICT, &OutcomePage::new(&context, "Moves cancelled", facts, errors, next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_time() {
        let progress = |copied_bytes, bytes_per_second| Progress { copied_bytes, total_bytes: 4000, bytes_per_second };
        assert_eq!(progress(1000, Some(100.0)).left_seconds(), Some(30.0));
        let texts = [progress(1000, Some(100.0)), progress(1000, None), progress(0, Some(0.0)), progress(4000, None)];
        let expected = ["30 s", "–", "waits", "about to be in sync"];
        assert_eq!(texts.map(|progress| progress.left_text()), expected);
        assert_eq!(progress(1000, None).part(), 0.25);
        assert_eq!(Progress { copied_bytes: 0, total_bytes: 0, bytes_per_second: None }.part(), 1.0);
    }

    #[test]
    fn bounds_are_told_together() {
        let rates = BTreeMap::from([(1, 1 << 20), (2, 5 << 20), (3, 1 << 20)]);
        assert_eq!(bounds(&rates), ["brokers 1, 3 to 1.00 MiB/s", "broker 2 to 5.00 MiB/s"]);
    }
}
