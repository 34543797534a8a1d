//! `/clusters/NAME/brokers/ID`: one broker, its directories, what its requests spend their time on, its settings.

use askama::Template;
use axum::Json;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use client::Resource;

use super::Listing;
use super::configs::{ConfigRow, config_rows};
use crate::failure::{Failure, render, told};
use crate::format::{byte_rate, bytes, count, duration, milliseconds, percent, rate};
use crate::journal_figures::JournalState;
use crate::layout::{Layout, Section};
use crate::node_metrics::{OwnFigures, Requests, Throttles};
use crate::request_context::RequestContext;
use crate::snapshot::Broker;

#[derive(Template)]
#[template(path = "broker.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    cluster: String,
    id: i32,
    is_alive: bool,
    is_silent: bool,
    is_controller: bool,
    journal: Option<JournalState>,
    tiles: Vec<(&'static str, String)>,
    /// Whether it tells of itself.
    has_figures: bool,
    dirs: Vec<DirRow>,
    requests: Vec<RequestRow>,
    throttles: Vec<ThrottleRow>,
    edit_base: String,
    listing: Listing,
    configs: Vec<ConfigRow>,
    configs_error: Option<String>,
    can_change: bool,
}

struct DirRow {
    path: String,
    error: Option<String>,
    replicas: String,
    size: String,
    free: String,
}

struct RequestRow {
    api: String,
    count: String,
    mean: String,
    errors: String,
    stages: String,
}

struct ThrottleRow {
    quota: String,
    count: String,
    time: String,
    mean: String,
}

pub(crate) async fn show(context: RequestContext, Query(listing): Query<Listing>) -> Result<Response, Failure> {
    let id = context.number("broker")?;
    let snapshot = context.snapshot().await?;
    let broker = snapshot.brokers.get(&id).ok_or_else(|| Failure::not_found(format!("there is no broker {id}")))?;
    let configs = match broker.is_alive {
        true => config_rows(&context, &Resource::broker(id), &listing.q).await.map_err(|error| told(&error)),
        false => Err("it does not answer".to_owned()),
    };
    let (configs, configs_error) = match configs {
        Ok(configs) => (configs, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let dirs = broker.dirs.iter().map(|dir| DirRow {
        path: dir.path.clone(),
        error: dir.error.clone(),
        replicas: count(dir.replicas as u64),
        size: bytes(dir.size_bytes),
        free: match dir.usable_bytes.zip(dir.total_bytes) {
            Some((usable, total)) => format!("{} of {}", bytes(usable), bytes(total)),
            None => "–".to_owned(),
        },
    });
    let page = Page {
        layout: context.layout(Section::Overview),
        base: context.base.clone(),
        events: context.events(),
        cluster: context.cluster.name.clone(),
        id,
        is_alive: broker.is_alive,
        is_silent: broker.silent_since.is_some(),
        is_controller: broker.is_controller,
        journal: broker.journal().map(|journal| journal.state),
        tiles: tiles(&context, broker),
        has_figures: broker.figures.is_some(),
        dirs: dirs.collect(),
        requests: broker
            .own_figures()
            .map(OwnFigures::requests)
            .unwrap_or_default()
            .into_iter()
            .map(request_row)
            .collect(),
        throttles: broker
            .own_figures()
            .map(OwnFigures::throttles)
            .unwrap_or_default()
            .into_iter()
            .map(throttle_row)
            .collect(),
        edit_base: format!("{}/brokers/{id}/configs", context.base),
        listing,
        configs,
        configs_error,
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page))
}

fn tiles(context: &RequestContext, broker: &Broker) -> Vec<(&'static str, String)> {
    let mut tiles = vec![
        ("Leaders", count(broker.leaders as u64)),
        ("Replicas", count(broker.replicas as u64)),
        ("Not in sync", count(broker.out_of_sync as u64)),
        ("Logs", bytes(broker.size_bytes)),
    ];
    if let Some(rates) = context.cluster.history().node_rates(broker.id) {
        tiles.push(("CPU, of one core", percent(rates.cpu)));
        tiles.push(("Records in", rate(rates.received_records)));
        tiles.push(("Network in", byte_rate(rates.network_received_bytes)));
        tiles.push(("Network out", byte_rate(rates.network_sent_bytes)));
    }
    if let Some(memory) = broker.figures.as_ref().and_then(|figures| figures.memory_bytes) {
        tiles.push(("Memory", bytes(memory as i64)));
    }
    if let Some(figures) = broker.own_figures() {
        tiles.push(("Connections", count(figures.connections as i64)));
        tiles.push(("Not on disk yet", bytes(figures.unsynced_bytes as i64)));
    }
    if let Some(journal) = broker.journal() {
        tiles.push(("Only in the journal, at most", bytes(journal.needed_bytes as i64)));
        tiles.push(("The oldest of that", duration(journal.oldest_seconds)));
    }
    if let Some(uptime_seconds) = broker.figures.as_ref().and_then(|figures| figures.uptime_seconds) {
        tiles.push(("Up since", duration(uptime_seconds)));
    }
    if let Some(figures) = broker.own_figures() {
        tiles.push(("Version", figures.version.clone()));
    }
    tiles
}

/// The data of a chart of a broker.
pub(crate) async fn chart(context: RequestContext) -> Result<Response, Failure> {
    let (id, name) = (context.number("broker")?, context.param("chart"));
    let chart = context.cluster.history().broker_chart(id, name);
    let chart = chart.ok_or_else(|| Failure::not_found(format!("there is no chart {name:?}")))?;
    Ok(Json(chart).into_response())
}

fn throttle_row(of: Throttles) -> ThrottleRow {
    ThrottleRow {
        count: count(of.count as i64),
        time: duration(of.seconds),
        mean: milliseconds(of.seconds / of.count.max(1.0)),
        quota: of.key,
    }
}

fn request_row(of: Requests) -> RequestRow {
    let per_request = |seconds: f64| milliseconds(seconds / of.count.max(1.0));
    let mut stages = of.stages.clone();
    stages.sort_by(|a, b| b.1.total_cmp(&a.1));
    let stages: Vec<_> = stages.iter().map(|(stage, seconds)| format!("{stage} {}", per_request(*seconds))).collect();
    RequestRow {
        count: count(of.count as i64),
        mean: per_request(of.seconds),
        errors: count(of.errors as i64),
        stages: stages.join(", "),
        api: of.api,
    }
}
