//! The report of a run: one HTML page for people to read and to send on.
//!
//! The page needs nothing from elsewhere and runs no script; charts are SVG, drawn here. Figures become text in this
//! module and its parts, the templates only place them and escape them.

mod axis;
mod bars;
mod case;
mod chart;
mod comparison;
mod drawing;
mod durability;
mod figure;
mod format;
mod group;
mod history;
mod labels;
mod measure;
mod relation;
#[cfg(test)]
pub(crate) mod sample;
mod scatter;
mod summary;
mod sweeps;
#[cfg(test)]
mod tests;
mod timeline;

use askama::Template;
pub use history::{history_charts, history_html};

use crate::result::{CaseResult, RunFacts, TargetFacts};
use case::{Body, CaseView};
use comparison::Comparison;
use figure::Figure;
pub use format::number;
use summary::Summary;

/// More cases than this are folded, each by itself.
const UNFOLDED_CASES_MAX: usize = 12;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    run: &'a RunFacts,
    style: &'static str,
    when: String,
    targets: Vec<String>,
    scale: String,
    summary: Summary,
    charts: Vec<Figure>,
    comparisons: Vec<Comparison>,
    cases: Vec<CaseView<'a>>,
    is_folded: bool,
    machine: Vec<(String, String)>,
}

/// One page for the whole run, with nothing outside it. Of a case's repetitions, the one in the middle by throughput
/// is shown in full.
pub fn report_html(run: &RunFacts, cases: &[CaseResult]) -> String {
    let groups = group::groups(run, cases);
    let charts = run.charts.iter().map(|chart| sweeps::figure(chart, run.search.as_ref(), &groups));
    let page = Page {
        run,
        style: include_str!("../templates/report.css"),
        when: when(&run.started),
        targets: run.targets.iter().map(target).collect(),
        scale: scale(run.scale, run.duration_s),
        summary: summary::summary(run, &groups),
        charts: charts.chain(scatter::figure(run, &groups)).collect(),
        comparisons: comparison::comparisons(run, &groups),
        cases: groups.iter().map(|group| case::view(run, group)).collect(),
        is_folded: groups.len() > UNFOLDED_CASES_MAX,
        machine: machine(run),
    };
    page.to_string() + "\n"
}

/// To the second: `2026-11-22 04:37:05 UTC`.
fn when(started: &str) -> String {
    let seconds = started.split_once(['.', 'Z']).map_or(started, |(seconds, _)| seconds);
    format!("{} UTC", seconds.replace('T', " "))
}

fn target(target: &TargetFacts) -> String {
    let TargetFacts { label, version, brokers, is_local, .. } = target;
    let brokers = format::counted(*brokers as usize, "broker");
    let note = if *is_local { ", on the machine that puts the load" } else { "" };
    // A cluster that runs somewhere does not tell what it is.
    let version = if version.is_empty() { String::new() } else { format!("{version}, ") };
    format!("{label}: {version}{brokers}{note}")
}

fn scale(scale: Option<f64>, duration_s: Option<f64>) -> String {
    match scale {
        None if duration_s.is_some() => format!("each case for {} s", duration_s.unwrap_or_default()),
        None => "each case for the scenario's own time".to_owned(),
        Some(1.0) => "all of the scenario's records".to_owned(),
        Some(part) => format!("{} % of the scenario's records", format::trimmed(&number(part * 100.0))),
    }
}

/// The machine, and what it can do without a broker.
fn machine(run: &RunFacts) -> Vec<(String, String)> {
    let host = &run.host;
    let ms = |us: u64| format::milliseconds(us as f64);
    let mut facts = vec![
        ("Processor".to_owned(), format!("{}, {}", host.cpu, format::counted(host.cores as usize, "core"))),
        ("Memory".to_owned(), format::memory(host.memory_bytes)),
        ("System".to_owned(), format!("{}, kernel {}", host.os, host.kernel)),
    ];
    facts.extend(host.virtualized.iter().map(|under| ("Virtual machine".to_owned(), under.clone())));
    facts.extend(run.preflight.disk.iter().map(|disk| {
        let (write, synced) = (number(disk.write_mib_per_s), number(disk.synced_mib_per_s));
        let (p50, p99) = (ms(disk.sync_p50_us), ms(disk.sync_p99_us));
        let text = format!(
            "writes {write} MiB/s, with a sync after each MiB {synced} MiB/s; a sync takes {p50} ms (p50), {p99} ms (p99)"
        );
        ("Disk".to_owned(), text)
    }));
    facts.extend(run.preflight.network.iter().map(|network| {
        let (p50, p99) = (ms(network.round_trip_p50_us), ms(network.round_trip_p99_us));
        let takes = format!("takes {} MiB/s", number(network.upload_mib_per_s));
        let sends = network.download_mib_per_s.map(|rate| format!(", sends {} MiB/s", number(rate)));
        let rates = takes + &sends.unwrap_or_default();
        let name = format!("Network to {}, broker {}", network.target, network.broker);
        (name, format!("round trip {p50} ms (p50), {p99} ms (p99); {rates}"))
    }));
    facts.push(("Program".to_owned(), format!("Parshall {}, results of schema {}", run.program_version, run.schema)));
    facts
}
