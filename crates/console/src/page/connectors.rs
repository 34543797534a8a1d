//! `/clusters/NAME/connect`: the connectors of all its Connect clusters, searched and sorted.

use std::cmp::Reverse;

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;

use super::{Listing, Pages};
use crate::connect::{Connector, Connectors};
use crate::failure::{Failure, render};
use crate::format::{count, duration, escape, group_part, name_shown};
use crate::health_findings::AGE_MAX;
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;

#[derive(Template)]
#[template(path = "connectors.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    listing: Listing,
    rows: Vec<Row>,
    pages: Pages,
    connects: Vec<ConnectRow>,
    can_change: bool,
}

struct Row {
    name: String,
    href: String,
    connect: String,
    kind: String,
    class: String,
    state: String,
    state_class: &'static str,
    tasks: String,
    tasks_failed: usize,
    topics: String,
}

pub(super) struct ConnectRow {
    pub name: String,
    pub version: String,
    pub age: String,
    pub trouble: Option<String>,
}

/// As a person writes it: Connect has RUNNING.
pub(super) fn state_text(state: &str) -> String {
    let mut letters = state.chars();
    letters.next().into_iter().chain(letters.flat_map(char::to_lowercase)).collect()
}

pub(super) fn state_class(state: &str) -> &'static str {
    match state {
        "RUNNING" => "good",
        "FAILED" => "bad",
        "UNASSIGNED" | "RESTARTING" => "warn",
        _ => "",
    }
}

/// The path of a connector's page within its cluster.
pub(super) fn connector_path(connect: &str, connector: &str) -> String {
    format!("/connect/{}/{}", escape(connect), group_part(connector))
}

pub(super) fn connect_row(known: &Connectors) -> ConnectRow {
    let age = known.at.map(|at| at.elapsed());
    let seen = match age {
        Some(age) => format!("What is shown of it was seen {} ago.", duration(age.as_secs_f64())),
        None => "Nothing is known of it yet.".to_owned(),
    };
    let trouble = match (&known.trouble, age) {
        (Some((_, reason)), _) => Some(format!("{reason}. {seen}")),
        (None, Some(age)) if age <= AGE_MAX => None,
        (None, _) => Some(format!("Connect at {} is slow to answer. {seen}", known.name)),
    };
    ConnectRow {
        name: known.name.clone(),
        version: if known.version.is_empty() { "–".to_owned() } else { known.version.clone() },
        age: age.map_or_else(|| "never".to_owned(), |age| format!("{} ago", duration(age.as_secs_f64()))),
        trouble,
    }
}

pub(crate) async fn show(context: RequestContext, Query(listing): Query<Listing>) -> Result<Response, Failure> {
    let connects = context.cluster.connectors().await;
    let found = found(&connects, &listing);
    let (shown, pages) = listing.cut(found, "connector");
    let page = Page {
        layout: context.layout(Section::Connect),
        base: context.base.clone(),
        events: context.events(),
        rows: shown.into_iter().map(|found| row(&context.base, found)).collect(),
        listing,
        pages,
        connects: connects.iter().map(connect_row).collect(),
        can_change: context.can_change() && !connects.is_empty(),
    };
    Ok(render(StatusCode::OK, &page))
}

/// A Connect cluster's name, and a connector of it.
type Found<'a> = (&'a str, &'a str, &'a Connector);

fn found<'a>(connects: &'a [Connectors], listing: &Listing) -> Vec<Found<'a>> {
    let part = listing.q.trim().to_lowercase();
    let all = connects.iter().flat_map(|connect| {
        connect.connectors.iter().map(|(name, connector)| (connect.name.as_str(), name.as_str(), connector))
    });
    let matches = |text: &str| text.to_lowercase().contains(&part);
    let mut found: Vec<_> = all
        .filter(|(connect, name, connector)| matches(name) || matches(connector.class()) || matches(connect))
        .collect();
    found.sort_by_key(|(_, name, _)| *name);
    match listing.sort.as_str() {
        "state" => found.sort_by_key(|(_, _, of)| Reverse((of.has_failed(), of.tasks_failed(), of.state != "RUNNING"))),
        "tasks" => found.sort_by_key(|(_, _, of)| Reverse(of.tasks.len())),
        "connect" => found.sort_by_key(|(connect, ..)| *connect),
        _ => {}
    }
    found
}

fn row(base: &str, (connect, name, connector): Found<'_>) -> Row {
    Row {
        name: name_shown(name),
        href: format!("{base}{}", connector_path(connect, name)),
        connect: connect.to_owned(),
        kind: connector.kind.clone(),
        class: connector.class().to_owned(),
        state: state_text(&connector.state),
        state_class: state_class(&connector.state),
        tasks: format!("{} of {}", count(connector.tasks_running() as u64), count(connector.tasks.len() as u64)),
        tasks_failed: connector.tasks_failed(),
        topics: name_shown_or_dash(connector.topics()),
    }
}

fn name_shown_or_dash(name: &str) -> String {
    if name.is_empty() { "–".to_owned() } else { name_shown(name) }
}
