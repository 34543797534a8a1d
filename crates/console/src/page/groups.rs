//! `/clusters/NAME/groups`: all groups, searched and sorted, and those that rebalance all the time.

use std::cmp::Reverse;

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;

use super::group::{RebalanceRow, members_text, progress, rebalance_rows, state_class};
use super::{Listing, Pages};
use crate::failure::{Failure, render};
use crate::format::{count, group_part, name_shown};
use crate::history::History;
use crate::layout::{Layout, Section};
use crate::rebalances::{advice, cause_text, unrest};
use crate::request_context::RequestContext;
use crate::snapshot::{Age, Group, Snapshot};

/// Of all groups, where some rebalance all the time.
const REBALANCES_SHOWN: usize = 20;
const RESTLESS_SHOWN: usize = 5;

#[derive(Template)]
#[template(path = "groups.html")]
struct Page {
    layout: Layout,
    events: String,
    listing: Listing,
    gaps: Vec<String>,
    restless: Vec<Restless>,
    rows: Vec<Row>,
    pages: Pages,
    rebalances: Vec<RebalanceRow>,
}

struct Restless {
    id: String,
    href: String,
    times: usize,
    cause: String,
    advice: &'static str,
}

struct Row {
    id: String,
    href: String,
    state: String,
    state_class: &'static str,
    kind: String,
    protocol: String,
    coordinator: i32,
    members: String,
    topics: String,
    lag_records: String,
    lag_age: String,
    progress: (String, &'static str),
}

/// What rows are sorted by.
struct Figures<'a> {
    id: &'a str,
    group: &'a Group,
    lag_records: Option<i64>,
    lag_age: Option<Age>,
}

pub(crate) async fn show(context: RequestContext, Query(listing): Query<Listing>) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let (shown, pages) = listing.cut(found(&snapshot, &listing), "group");
    let rows = {
        let history = context.cluster.history();
        shown.iter().map(|of| row(&context, &history, of)).collect()
    };
    let restless = restless(&context, &snapshot);
    let rebalances: Vec<_> = snapshot.rebalances.iter().rev().collect();
    let shown = if restless.is_empty() { 0 } else { REBALANCES_SHOWN };
    let page = Page {
        layout: context.layout(Section::Groups),
        events: context.events(),
        gaps: snapshot.gaps.iter().filter(|gap| gap.starts_with("consumer groups")).cloned().collect(),
        rebalances: rebalance_rows(&context.base, &rebalances, shown, snapshot.at_ms),
        restless,
        rows,
        listing,
        pages,
    };
    Ok(render(StatusCode::OK, &page))
}

fn found<'a>(snapshot: &'a Snapshot, listing: &Listing) -> Vec<Figures<'a>> {
    let part = listing.q.trim().to_lowercase();
    let groups = snapshot.groups.iter().filter(|(id, _)| part.is_empty() || id.to_lowercase().contains(&part));
    let mut found: Vec<_> = groups
        .map(|(id, group)| Figures { id, group, lag_records: group.lag_records(), lag_age: group.lag_age() })
        .collect();
    match listing.sort.as_str() {
        "state" => found.sort_by_key(|of| (urgency(&of.group.state), &of.group.state)),
        "members" => found.sort_by_key(|of| Reverse(of.group.members.len())),
        "lag" => found.sort_by_key(|of| Reverse(of.lag_records)),
        "age" => found.sort_by(|a, b| seconds(b).total_cmp(&seconds(a))),
        _ => {}
    }
    found
}

fn seconds(of: &Figures<'_>) -> f64 {
    of.lag_age.map_or(-1.0, |age| age.seconds)
}

/// What is well comes last.
fn urgency(state: &str) -> usize {
    ["bad", "warn", "", "muted", "good"].iter().position(|class| *class == state_class(state)).unwrap_or(0)
}

fn row(context: &RequestContext, history: &History, of: &Figures<'_>) -> Row {
    let Figures { id, group, lag_records, lag_age } = of;
    let dash = || "–".to_owned();
    Row {
        id: name_shown(id),
        href: format!("{}/groups/{}", context.base, group_part(id)),
        state: group.state.clone(),
        state_class: state_class(&group.state),
        kind: if group.kind.is_empty() { dash() } else { name_shown(&group.kind) },
        protocol: if group.protocol.is_empty() { dash() } else { name_shown(&group.protocol) },
        coordinator: group.coordinator,
        members: members_text(group),
        topics: count(group.topics().len() as u64),
        lag_records: lag_records.map_or_else(dash, count),
        lag_age: lag_age.map_or_else(dash, |age| age.to_string()),
        progress: progress(history, id, group),
    }
}

fn restless(context: &RequestContext, snapshot: &Snapshot) -> Vec<Restless> {
    let restless = unrest(snapshot).into_iter().take(RESTLESS_SHOWN).map(|unrest| Restless {
        id: name_shown(unrest.group),
        href: format!("{}/groups/{}#rebalances", context.base, group_part(unrest.group)),
        times: unrest.times,
        cause: cause_text(unrest.cause).to_owned(),
        advice: advice(unrest.cause),
    });
    restless.collect()
}

#[cfg(test)]
mod tests {
    use client::TopicPartition;

    use super::*;
    use crate::snapshot::Position;

    fn group(state: &str, lag: i64, seconds: f64) -> Group {
        let position = Position { lag_records: Some(lag), lag_age: Some(Age::exactly(seconds)), ..Position::default() };
        let positions = [(TopicPartition::new("t", 0), position)].into();
        Group { state: state.to_owned(), positions, ..Group::default() }
    }

    #[test]
    fn groups_are_searched_and_sorted() {
        let mut snapshot = Snapshot::empty();
        let groups = [
            ("calm", group("Stable", 0, 0.0)),
            ("Late", group("Stable", 5, 900.0)),
            ("long", group("PreparingRebalance", 70, 3.0)),
            ("off", group("Empty", 6, 10.0)),
        ];
        snapshot.groups = groups.into_iter().map(|(id, group)| (id.to_owned(), group)).collect();
        let ids = |q: &str, sort: &str| {
            let listing = Listing { q: q.to_owned(), sort: sort.to_owned(), page: 0 };
            found(&snapshot, &listing).iter().map(|of| of.id).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ids("", ""), "Late calm long off");
        assert_eq!(ids(" L", "lag"), "long Late calm");
        assert_eq!(ids("", "age"), "Late off long calm");
        assert_eq!(ids("", "state"), "long off Late calm");
    }
}
