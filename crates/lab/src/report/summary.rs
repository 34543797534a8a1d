//! The summary at the top of the report: how many cases there are, what limited them, and a row for each.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::durability;
use super::format::{self, NONE};
use super::group::Group;
use super::measure::{self, Beside};
use crate::bottleneck::Limit;
use crate::compare::Spread;
use crate::result::{Capacity, Latency, Measure, Measured, Outcome, RunFacts};

/// A published figure counts as reached from this part of it on.
const REACHED: f64 = 0.98;

pub(super) struct Summary {
    pub counts: String,
    /// The most frequent first.
    pub limits: Vec<(Badge, usize)>,
    /// Sentences about the run as a whole.
    pub findings: Vec<String>,
    pub warnings: Vec<Warning>,
    pub columns: Columns,
    pub rows: Vec<Row>,
}

/// A limit, with the class of its colour: whose limit it is.
pub(super) struct Badge {
    pub text: String,
    pub class: &'static str,
}

/// A warning that several cases may share, except for its figures.
pub(super) struct Warning {
    pub text: String,
    /// Whether the text is that of the first case, and others have other figures.
    pub is_example: bool,
    /// Anchors and names of the cases.
    pub cases: Vec<(String, String)>,
}

/// Columns that are shown only where a case has something for them.
pub(super) struct Columns {
    pub has_targets: bool,
    pub has_consumed: bool,
    pub has_published: bool,
    pub has_broker_cpu: bool,
    pub has_memory: bool,
    pub has_saturated: bool,
}

pub(super) struct Row {
    pub anchor: String,
    pub id: String,
    pub title: String,
    pub target: String,
    /// Where targets differ in it: whether what is acknowledged is on disk.
    pub durability: Option<&'static str>,
    /// Whether the row above is of another case.
    pub is_first: bool,
    /// Whether the row above has another title: a matrix gives the same to all its cases.
    pub is_titled: bool,
    pub published: Option<Beside>,
    pub cells: Result<Cells, Missing>,
}

/// Why a case has no figures.
pub(super) struct Missing {
    pub kind: &'static str,
    pub reason: String,
}

pub(super) struct Cells {
    pub records_per_s: String,
    pub spread: Option<String>,
    pub mib_per_s: String,
    pub consumed: String,
    pub consumed_spread: Option<String>,
    pub ratio: String,
    /// Whether it has latencies that must not be shown.
    pub is_saturated: bool,
    pub p50: String,
    pub p99: String,
    pub broker_cpu: String,
    pub client_cpu: String,
    pub memory: String,
    pub badge: Badge,
}

impl Badge {
    pub(super) fn of(limit: Limit) -> Self {
        let class = match limit {
            Limit::TargetRate | Limit::Linger => "by-choice",
            Limit::ClientCpu | Limit::ClientBuffer | Limit::InFlightWindow => "by-client",
            Limit::BrokerCpu | Limit::Disk | Limit::Network | Limit::Quota => "by-server",
            Limit::Noise => "by-noise",
            Limit::Unknown => "by-nothing",
        };
        Self { text: limit.to_string(), class }
    }
}

pub(super) fn summary(run: &RunFacts, groups: &[Group<'_>]) -> Summary {
    let above = [None].into_iter().chain(groups.iter().map(Some));
    Summary {
        counts: counts(groups),
        limits: limits(groups),
        findings: findings(run, groups),
        warnings: warnings(run, groups),
        columns: columns(run, groups),
        rows: groups.iter().zip(above).map(|(group, above)| row(run, group, above)).collect(),
    }
}

/// Those that differ only in figures together.
fn warnings(run: &RunFacts, groups: &[Group<'_>]) -> Vec<Warning> {
    let kind = |text: &str| text.replace(|character: char| character.is_ascii_digit() || character == '.', "");
    let mut warnings = Vec::<Warning>::new();
    for group in groups {
        for text in group.warnings() {
            let case = (group.anchor.clone(), name(run, group));
            match warnings.iter_mut().find(|warning| kind(&warning.text) == kind(&text)) {
                Some(warning) => {
                    warning.is_example |= warning.text != text;
                    warning.cases.push(case);
                }
                None => warnings.push(Warning { text, is_example: false, cases: vec![case] }),
            }
        }
    }
    // Repetitions of a case may warn of the same.
    warnings.iter_mut().for_each(|warning| warning.cases.dedup());
    warnings
}

/// `H1`, or `H1 on kafka` where there are several targets.
fn name(run: &RunFacts, group: &Group<'_>) -> String {
    let id = &group.case.id;
    if run.targets.len() > 1 { format!("{id} on {}", group.case.target) } else { id.clone() }
}

fn counts(groups: &[Group<'_>]) -> String {
    let count = |is_it: fn(&Outcome) -> bool| groups.iter().filter(|group| is_it(&group.case.outcome)).count();
    let measured = count(|outcome| matches!(outcome, Outcome::Measured(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped { .. }));
    let failed = count(|outcome| matches!(outcome, Outcome::Failed { .. }));
    let mut text = format!("{} measured", format::counted(measured, "case"));
    for (count, what) in [(skipped, "skipped"), (failed, "failed")] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text
}

fn limits(groups: &[Group<'_>]) -> Vec<(Badge, usize)> {
    let mut counts = BTreeMap::<Limit, usize>::new();
    for measured in groups.iter().filter_map(Group::measured) {
        *counts.entry(measured.verdict.limit).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts.into_iter().map(|(limit, count)| (Badge::of(limit), count)).collect()
}

fn findings(run: &RunFacts, groups: &[Group<'_>]) -> Vec<String> {
    if let Some(search) = &run.search {
        // The most that was carried is no answer to it: that may have missed the goal.
        let of_target = |capacity: &Capacity| {
            let target = &capacity.target;
            capacity
                .sentences(&search.goal)
                .into_iter()
                .map(move |text| format!("{target}: {text}."))
                .collect::<Vec<_>>()
        };
        return search.capacities.iter().flat_map(of_target).collect();
    }
    let mut findings: Vec<_> = durability::difference(run, groups).into_iter().collect();
    for target in run.targets.iter().map(|target| &target.label) {
        let own = || groups.iter().filter(|group| group.case.target == *target);
        let rates = own().filter_map(|group| Some((group, group.rate()?)));
        if let Some((group, rate)) = rates.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
            let (rate, id) = (format::number(rate), &group.case.id);
            findings.push(format!("The most that {target} carried: {rate} records/s, in {id}."));
        }
        let ratios: Vec<_> = own().filter_map(|group| measure::beside_published(group.case)?.ratio()).collect();
        if let Some(spread) = Spread::of(&ratios) {
            let reached = ratios.iter().filter(|ratio| **ratio >= REACHED).count();
            let (count, middle) = (format::counted(ratios.len(), "case"), format::ratio(spread.median));
            findings.push(format!(
                "{target} reached the published throughput in {reached} of {count}; the median is {middle}."
            ));
        }
    }
    findings
}

fn columns(run: &RunFacts, groups: &[Group<'_>]) -> Columns {
    let any = |has: fn(&Measured) -> bool| groups.iter().filter_map(Group::measured).any(has);
    Columns {
        has_targets: run.targets.len() > 1,
        has_consumed: any(|measured| measured.consumed.is_some()),
        has_published: groups.iter().any(|group| measure::beside_published(group.case).is_some()),
        has_broker_cpu: any(|measured| measured.cost.broker_cpu_s_per_million.is_some()),
        has_memory: any(|measured| !measured.cost.brokers.is_empty()),
        has_saturated: any(is_latency_hidden),
    }
}

fn is_latency_hidden(measured: &Measured) -> bool {
    measured.verdict.is_saturated && measure::latency(measured).is_some()
}

fn row(run: &RunFacts, group: &Group<'_>, above: Option<&Group<'_>>) -> Row {
    let case = group.case;
    let missing = |kind, reason: &str| Err(Missing { kind, reason: reason.to_owned() });
    Row {
        anchor: group.anchor.clone(),
        id: case.id.clone(),
        title: case.title.clone(),
        target: case.target.clone(),
        durability: durability::of_case(run, case),
        is_first: above.is_none_or(|above| above.case.id != case.id),
        is_titled: above.is_none_or(|above| above.case.group != case.group || above.case.title != case.title),
        published: measure::beside_published(case),
        cells: match &case.outcome {
            Outcome::Measured(measured) => Ok(cells(group, measured)),
            Outcome::Skipped { reason } => missing("skipped", reason),
            Outcome::Failed { reason } => missing("failed", reason),
        },
    }
}

fn cells(group: &Group<'_>, measured: &Measured) -> Cells {
    let spread = |measure| {
        group.spread(measure).map(|(least, most)| format!("{} – {}", format::number(least), format::number(most)))
    };
    let latency = |us: fn(&Latency) -> u64| {
        group.honest_latency().map_or(NONE.to_owned(), |latency| format::milliseconds(us(latency) as f64))
    };
    let memory = measured.cost.brokers.iter().map(|broker| broker.resident_bytes_max).max();
    let ratio = measure::beside_published(group.case).and_then(|beside| beside.ratio());
    Cells {
        records_per_s: format::maybe(group.value(Measure::RecordsPerS)),
        spread: spread(Measure::RecordsPerS),
        mib_per_s: format::maybe(measure::throughput(measured).map(|flow| flow.mib_per_s)),
        consumed: format::maybe(group.value(Measure::ConsumedRecordsPerS)),
        consumed_spread: spread(Measure::ConsumedRecordsPerS),
        ratio: ratio.map_or(NONE.to_owned(), format::ratio),
        is_saturated: is_latency_hidden(measured),
        p50: latency(|latency| latency.p50_us),
        p99: latency(|latency| latency.p99_us),
        broker_cpu: format::maybe(measured.cost.broker_cpu_s_per_million),
        client_cpu: format::maybe(measured.cost.client_cpu_s_per_million),
        memory: memory.filter(|bytes| *bytes > 0).map_or(NONE.to_owned(), format::memory),
        badge: Badge::of(measured.verdict.limit),
    }
}
