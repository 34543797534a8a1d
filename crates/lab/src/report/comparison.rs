//! The first target beside another one, case by case.

use super::durability;
use super::format::{self, NONE};
use super::group::Group;
use super::measure;
use crate::bottleneck::Limit;
use crate::compare::{Ratio, Spread};
use crate::result::{Measure, Measured, RunFacts};

/// Closer than this is no difference where each side ran once: runs differ as much from one to the next.
const SAME: f64 = 0.05;

pub(super) struct Comparison {
    pub first: String,
    pub second: String,
    pub findings: Vec<String>,
    pub rows: Vec<Row>,
}

pub(super) struct Row {
    pub anchor: String,
    pub id: String,
    pub title: String,
    /// Throughput, broker CPU, latency.
    pub cells: [Cell; 3],
}

/// What a figure of the first is of that of the second.
pub(super) struct Cell {
    pub ratio: String,
    /// How it looks for the first: "better", "worse" or "same".
    pub class: &'static str,
    pub figures: String,
    /// Where repetitions give one: "95 %: 1.9 - 2.1", and whether that is noise.
    pub interval: String,
}

#[derive(Clone, Copy)]
enum Better {
    More,
    Less,
}

/// What the first target has to each other one; none for targets that have no case in common with it.
pub(super) fn comparisons(run: &RunFacts, groups: &[Group<'_>]) -> Vec<Comparison> {
    let labels: Vec<_> = run.targets.iter().map(|target| target.label.as_str()).collect();
    let [first, others @ ..] = &labels[..] else { return Vec::new() };
    let all = others.iter().map(|second| comparison(run, first, second, groups));
    all.filter(|comparison| !comparison.rows.is_empty()).collect()
}

type Pair<'a> = (&'a Group<'a>, &'a Group<'a>);

fn comparison(run: &RunFacts, first: &str, second: &str, groups: &[Group<'_>]) -> Comparison {
    let measured = || groups.iter().filter(|group| group.measured().is_some());
    let on_second = |id: &str| measured().find(|group| group.case.target == second && group.case.id == id);
    let on_first = measured().filter(|group| group.case.target == first);
    let pairs: Vec<Pair<'_>> = on_first.filter_map(|group| Some((group, on_second(&group.case.id)?))).collect();
    Comparison {
        first: first.to_owned(),
        second: second.to_owned(),
        findings: durability::difference(run, groups).into_iter().chain(findings(&pairs)).collect(),
        rows: pairs.iter().map(row).collect(),
    }
}

fn findings(pairs: &[Pair<'_>]) -> Vec<String> {
    let is_asked_for =
        |group: &Group<'_>| group.measured().is_some_and(|measured| measured.verdict.limit == Limit::TargetRate);
    let free = pairs.iter().filter(|(a, b)| !(is_asked_for(a) && is_asked_for(b)));
    let known = [
        ("throughput, where it was not the rate that was asked for", ratios(free, Group::rate)),
        ("broker CPU per million records", ratios(pairs.iter(), cpu)),
        ("latency p99, where neither was saturated", ratios(pairs.iter(), p99_ms)),
    ];
    let sentence = |(what, ratios): (&str, Vec<f64>)| {
        let middle = Spread::of(&ratios)?.median;
        let cases = format::counted(ratios.len(), "case");
        Some(format!("{} the {what} (median of {cases})", format::ratio(middle)))
    };
    known.into_iter().filter_map(sentence).collect()
}

fn ratios<'a>(pairs: impl Iterator<Item = &'a Pair<'a>>, value: fn(&Group<'a>) -> Option<f64>) -> Vec<f64> {
    pairs.filter_map(|(a, b)| Some(value(a)? / value(b).filter(|b| *b > 0.0)?)).collect()
}

fn cpu(group: &Group<'_>) -> Option<f64> {
    group.value(Measure::BrokerCpuPerMillion)
}

fn p99_ms(group: &Group<'_>) -> Option<f64> {
    group.honest_latency().map(|latency| latency.p99_us as f64 / 1000.0)
}

fn row((a, b): &Pair<'_>) -> Row {
    let latency = if [a, b].iter().any(|group| group.is_saturated() && group.value(Measure::LatencyP99).is_some()) {
        Cell { ratio: "saturated".to_owned(), ..Cell::empty() }
    } else {
        let p99_ms = |measured: &Measured| {
            let latency = measure::latency(measured).filter(|_| !measured.verdict.is_saturated);
            latency.map(|latency| latency.p99_us as f64 / 1000.0)
        };
        cell(&a.values(p99_ms), &b.values(p99_ms), "ms", Better::Less)
    };
    let rate = |measured: &Measured| measure::throughput(measured).map(|flow| flow.records_per_s);
    let cpu = |measured: &Measured| measured.cost.broker_cpu_s_per_million;
    Row {
        anchor: a.anchor.clone(),
        id: a.case.id.clone(),
        title: a.case.title.clone(),
        cells: [
            cell(&a.values(rate), &b.values(rate), "records/s", Better::More),
            cell(&a.values(cpu), &b.values(cpu), "s", Better::Less),
            latency,
        ],
    }
}

impl Cell {
    fn empty() -> Self {
        Self { ratio: NONE.to_owned(), class: "muted", figures: String::new(), interval: String::new() }
    }
}

fn cell(a: &[f64], b: &[f64], unit: &str, better: Better) -> Cell {
    let (Some(ratio), Some(first), Some(second)) = (Ratio::of(a, b), Spread::of(a), Spread::of(b)) else {
        return Cell::empty();
    };
    let is_same = ratio.is_noise().unwrap_or((ratio.ratio - 1.0).abs() <= SAME);
    let class = match better {
        _ if is_same => "same",
        Better::More if ratio.ratio > 1.0 => "better",
        Better::Less if ratio.ratio < 1.0 => "better",
        Better::More | Better::Less => "worse",
    };
    let noise = if ratio.is_noise() == Some(true) { ", noise" } else { "" };
    let interval = |(least, most)| format!("95 %: {} – {}{noise}", format::number(least), format::number(most));
    Cell {
        ratio: format::ratio(ratio.ratio),
        class,
        figures: format!("{} : {} {unit}", format::number(first.median), format::number(second.median)),
        interval: ratio.interval.map_or(String::new(), interval),
    }
}
