//! `/clusters`: all clusters. `/` is the same, and with one only, that.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::future::join_all;

use crate::Console;
use crate::failure::{Failure, render};
use crate::format::{count, escape};
use crate::health_findings::{findings, verdict};
use crate::layout::Layout;

#[derive(Template)]
#[template(path = "clusters.html")]
struct Page {
    layout: Layout,
    rows: Vec<Row>,
    /// Whether clusters can be added.
    can_add: bool,
}

struct Row {
    name: String,
    href: String,
    is_saved: bool,
    verdict: (&'static str, &'static str),
    /// The worst that is wrong.
    finding: String,
    brokers: String,
    topics: String,
    partitions: String,
    groups: String,
}

fn address(name: &str) -> String {
    format!("/clusters/{}", escape(name))
}

pub(crate) async fn show_first(State(console): State<Arc<Console>>) -> Result<Response, Failure> {
    match console.clusters().as_slice() {
        [only] => Ok(Redirect::to(&address(&only.name)).into_response()),
        _ => show(State(console)).await,
    }
}

pub(crate) async fn show(State(console): State<Arc<Console>>) -> Result<Response, Failure> {
    let clusters = console.clusters();
    if console.is_starting() {
        return Err(Failure::unavailable("the broker is starting: try again in a moment"));
    }
    let order: Vec<_> = clusters.iter().map(|cluster| cluster.name.clone()).collect();
    // What there is to say of a cluster with users is for them.
    let (closed, clusters): (Vec<_>, Vec<_>) = clusters.into_iter().partition(|cluster| cluster.has_users());
    // All at the same time: one that does not answer keeps nobody waiting for the others.
    let snapshots = join_all(clusters.iter().map(|cluster| cluster.snapshot())).await;
    let mut rows = Vec::new();
    for (cluster, snapshot) in clusters.iter().zip(snapshots) {
        let (name, href, is_saved) = (cluster.name.clone(), address(&cluster.name), cluster.is_saved);
        let row = match snapshot {
            Ok(snapshot) => {
                let findings = findings(&snapshot, &cluster.history());
                Row {
                    verdict: verdict(&findings),
                    finding: findings.into_iter().next().map(|finding| finding.what).unwrap_or_default(),
                    brokers: format!("{} of {}", snapshot.alive(), snapshot.brokers.len()),
                    topics: count(snapshot.topics.len() as u64),
                    partitions: count(snapshot.partitions().count() as u64),
                    groups: count(snapshot.groups.len() as u64),
                    name,
                    href,
                    is_saved,
                }
            }
            Err(finding) => Row {
                verdict: ("Does not answer", "bad"),
                finding,
                brokers: String::new(),
                topics: String::new(),
                partitions: String::new(),
                groups: String::new(),
                name,
                href,
                is_saved,
            },
        };
        rows.push(row);
    }
    rows.extend(closed.iter().map(|cluster| Row {
        verdict: ("Log in", ""),
        finding: "It is shown to its users.".to_owned(),
        brokers: String::new(),
        topics: String::new(),
        partitions: String::new(),
        groups: String::new(),
        name: cluster.name.clone(),
        href: address(&cluster.name),
        is_saved: cluster.is_saved,
    }));
    rows.sort_by_key(|row| order.iter().position(|name| *name == row.name));
    let can_add = console.options.saved_clusters.is_some() && !console.options.is_read_only;
    Ok(render(StatusCode::OK, &Page { layout: Layout::outside(&console), rows, can_add }))
}
