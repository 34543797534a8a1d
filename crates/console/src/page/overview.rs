//! `/clusters/NAME`: whether the cluster is healthy, what it does, and its brokers.

use askama::Template;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::failure::{Failure, render};
use crate::format::{byte_rate, bytes, count, duration, percent, rate};
use crate::health_findings::{Finding, findings, verdict};
use crate::history::NodeRates;
use crate::journal_figures::{JournalState, JournalSummary};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;
use crate::snapshot::{Broker, Group, Snapshot};

#[derive(Template)]
#[template(path = "overview.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    name: String,
    cluster_id: String,
    verdict: (&'static str, &'static str),
    findings: Vec<Finding>,
    tiles: Vec<(&'static str, String)>,
    journal: Option<JournalSummary>,
    brokers: Vec<Row>,
    /// Whether brokers tell of themselves.
    has_figures: bool,
}

struct Row {
    id: i32,
    address: String,
    rack: Option<String>,
    is_alive: bool,
    is_silent: bool,
    is_controller: bool,
    leaders: String,
    leader_share: String,
    replicas: String,
    out_of_sync: usize,
    /// How `acks=all` gets to its disk, where that is not as it should be.
    direct: Option<&'static str>,
    cpu: String,
    memory: String,
    received: String,
    sent: String,
    size: String,
    /// Part of the disk that is used.
    disk_used: Option<f64>,
    disk: String,
}

pub(crate) async fn show(context: RequestContext) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let findings = findings(&snapshot, &context.cluster.history());
    let rates: Vec<_> = snapshot.brokers.keys().map(|id| context.cluster.history().node_rates(*id)).collect();
    let leaders = snapshot.brokers.values().map(|broker| broker.leaders).sum::<usize>().max(1);
    let brokers = snapshot.brokers.values().zip(&rates).map(|(broker, rates)| row(broker, *rates, leaders));
    let page = Page {
        layout: context.layout(Section::Overview),
        base: context.base.clone(),
        events: context.events(),
        name: context.cluster.name.clone(),
        cluster_id: snapshot.cluster_id.clone().unwrap_or_default(),
        verdict: verdict(&findings),
        findings,
        tiles: tiles(&context, &snapshot, &rates),
        journal: JournalSummary::of(snapshot.brokers.values().filter_map(Broker::journal)),
        brokers: brokers.collect(),
        has_figures: snapshot.brokers.values().any(|broker| broker.figures.is_some()),
    };
    Ok(render(StatusCode::OK, &page))
}

fn tiles(context: &RequestContext, snapshot: &Snapshot, rates: &[Option<NodeRates>]) -> Vec<(&'static str, String)> {
    let sum = |of: fn(&NodeRates) -> f64| rates.iter().flatten().map(of).reduce(|sum, rate| sum + rate);
    let in_sync = snapshot.partitions().filter(|(_, partition)| partition.is_under_replicated()).count();
    let lag = snapshot.groups.values().filter_map(Group::lag_records).max();
    let mut tiles = vec![
        ("Brokers", format!("{} of {}", snapshot.alive(), snapshot.brokers.len())),
        ("Topics", count(snapshot.topics.len() as u64)),
        ("Partitions", count(snapshot.partitions().count() as u64)),
        ("Under-replicated", count(in_sync as u64)),
        ("Records in", context.cluster.history().total_rate().map_or("–".to_owned(), rate)),
    ];
    let of_nodes = [
        ("Bytes in", sum(|rates| rates.received_bytes).map(byte_rate)),
        ("Bytes out", sum(|rates| rates.sent_bytes).map(byte_rate)),
        ("CPU (cores)", sum(|rates| rates.cpu).map(|cores| format!("{cores:.2}"))),
    ];
    tiles.extend(of_nodes.into_iter().filter_map(|(name, value)| Some((name, value?))));
    tiles.push(("Log size", bytes(snapshot.brokers.values().map(|broker| broker.size_bytes).sum::<i64>())));
    tiles.push(("Groups", count(snapshot.groups.len() as u64)));
    tiles.push(("Max lag", lag.map_or("–".to_owned(), count)));
    tiles
}

fn row(broker: &Broker, rates: Option<NodeRates>, all_leaders: usize) -> Row {
    let total: i64 = broker.dirs.iter().filter_map(|dir| dir.total_bytes).sum();
    let usable: i64 = broker.dirs.iter().filter_map(|dir| dir.usable_bytes).sum();
    let used = (total > 0).then(|| 1.0 - usable as f64 / total as f64);
    let forecast = broker.own_figures().and_then(|figures| figures.disk).map(|disk| disk.forecast_seconds);
    let forecast =
        forecast.filter(|seconds| seconds.is_finite()).map(|seconds| format!(", full in {}", duration(seconds)));
    let memory = broker.figures.as_ref().and_then(|figures| figures.memory_bytes);
    let direct = broker.journal().map(|journal| journal.state).filter(|state| state.class() == "warn");
    let dash = || "–".to_owned();
    Row {
        id: broker.id,
        address: if broker.host.is_empty() { dash() } else { broker.address() },
        rack: broker.rack.clone(),
        is_alive: broker.is_alive,
        is_silent: broker.silent_since.is_some(),
        is_controller: broker.is_controller,
        leaders: count(broker.leaders as u64),
        leader_share: percent(broker.leaders as f64 / all_leaders as f64),
        replicas: count(broker.replicas as u64),
        out_of_sync: broker.out_of_sync,
        direct: direct.map(JournalState::text),
        cpu: rates.map_or_else(dash, |rates| percent(rates.cpu)),
        memory: memory.map_or_else(dash, |memory| bytes(memory as i64)),
        received: rates.map_or_else(dash, |rates| byte_rate(rates.network_received_bytes)),
        sent: rates.map_or_else(dash, |rates| byte_rate(rates.network_sent_bytes)),
        size: bytes(broker.size_bytes),
        disk_used: used,
        disk: used
            .map_or_else(dash, |used| format!("{} of {}{}", percent(used), bytes(total), forecast.unwrap_or_default())),
    }
}

/// The data of a chart of the whole cluster.
pub(crate) async fn chart(context: RequestContext) -> Result<Response, Failure> {
    let history = context.cluster.history();
    let chart = match context.param("chart") {
        "records" => history.records_chart(),
        "bytes" => history.bytes_chart(),
        "cpu" => history.cpu_chart(),
        other => return Err(Failure::not_found(format!("there is no chart {other:?}"))),
    };
    Ok(Json(chart).into_response())
}
