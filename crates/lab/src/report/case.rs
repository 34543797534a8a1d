//! A case on one target in full: the verdict, its figures beside the published ones, its charts.

use std::borrow::Cow;

use super::figure::Figure;
use super::format::{self, NONE};
use super::group::Group;
use super::relation::Relation;
use super::summary::Badge;
use super::{measure, timeline};
use crate::result::{BrokerCost, CaseResult, CountsFrom, Latency, Measure, Measured, Outcome, Published, RunFacts};

pub(super) struct CaseView<'a> {
    pub anchor: &'a str,
    pub case: &'a CaseResult,
    pub body: Body,
    pub warnings: Vec<String>,
    /// What was published in words.
    pub note: Option<&'a str>,
}

pub(super) enum Body {
    Measured(Box<Detail>),
    Missing { kind: &'static str, reason: String },
}

pub(super) struct Detail {
    pub headline: String,
    pub badge: Badge,
    pub evidence: String,
    pub is_saturated: bool,
    pub has_published: bool,
    pub parts: Vec<Part>,
    pub repetitions: Vec<Repetition>,
    /// How many records were not delivered, and why.
    pub failures: Vec<String>,
    pub figures: Vec<Figure>,
}

/// Figures that belong together.
pub(super) struct Part {
    pub title: &'static str,
    /// Latencies of saturated runs stand back.
    pub is_queue: bool,
    pub rows: Vec<Row>,
}

/// A figure of ours beside the published one.
pub(super) struct Row {
    pub name: Cow<'static, str>,
    pub ours: String,
    pub published: String,
    pub ratio: String,
}

pub(super) struct Repetition {
    pub number: u32,
    pub is_shown: bool,
    pub throughput: String,
    pub p99: String,
    pub limit: String,
}

pub(super) fn view<'a>(run: &RunFacts, group: &'a Group<'a>) -> CaseView<'a> {
    let target = run.targets.iter().find(|target| target.label == group.case.target);
    let brokers = target.map(|target| target.brokers);
    let missing = |kind, reason: &str| (Body::Missing { kind, reason: reason.to_owned() }, Vec::new());
    let (body, warnings) = match &group.case.outcome {
        Outcome::Measured(measured) => (Body::Measured(Box::new(detail(group, measured, brokers))), group.warnings()),
        Outcome::Skipped { reason } => missing("skipped", reason),
        Outcome::Failed { reason } => missing("failed", reason),
    };
    let note = group.case.published.as_ref().and_then(|published| published.note.as_deref());
    CaseView { anchor: &group.anchor, case: group.case, body, warnings, note }
}

fn detail(group: &Group<'_>, measured: &Measured, brokers: Option<u32>) -> Detail {
    let parts = parts(group, measured, brokers);
    let failure =
        |(reason, count): (&String, &u64)| format!("{}: {reason}", format::counted(*count as usize, "record"));
    let flow = measure::throughput(measured).copied().unwrap_or_default();
    Detail {
        headline: format!("{} records/s, {} MiB/s", format::number(flow.records_per_s), format::number(flow.mib_per_s)),
        badge: Badge::of(measured.verdict.limit),
        evidence: sentence(&measured.verdict.evidence),
        is_saturated: group.is_saturated() && measure::latency(measured).is_some(),
        has_published: parts.iter().flat_map(|part| &part.rows).any(|row| row.published != NONE),
        parts,
        repetitions: if group.runs.len() > 1 { repetitions(group) } else { Vec::new() },
        failures: measured.failures.iter().map(failure).collect(),
        figures: timeline::figures(measured),
    }
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first: String = characters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", characters.as_str().trim_end_matches('.'))
}

fn repetitions(group: &Group<'_>) -> Vec<Repetition> {
    let of = |case: &&CaseResult| {
        let measured = case.measured()?;
        let p99 = |latency: &Latency| format::milliseconds(latency.p99_us as f64);
        let p99 = measure::latency(measured).map_or(NONE.to_owned(), p99);
        Some(Repetition {
            number: case.repetition,
            is_shown: case.repetition == group.case.repetition,
            throughput: format::maybe(measure::throughput(measured).map(|flow| flow.records_per_s)),
            p99: if measured.verdict.is_saturated { "saturated".to_owned() } else { p99 },
            limit: measured.verdict.limit.to_string(),
        })
    };
    group.runs.iter().filter_map(of).collect()
}

/// All that is known of us or of the report.
fn parts(group: &Group<'_>, measured: &Measured, brokers: Option<u32>) -> Vec<Part> {
    let none = Published::default();
    let published = group.case.published.as_ref().unwrap_or(&none);
    let is_queue = measured.verdict.is_saturated;
    let title = match measured.latency.as_ref().map(|latency| latency.counts_from) {
        _ if is_queue => "Length of the queue, as latency in ms",
        Some(CountsFrom::Due) => "Latency since a record was due, ms",
        Some(CountsFrom::Sent) => "Latency since a record was sent, ms",
        None => "Latency, ms",
    };
    let producer = latency_rows(measured.latency.as_ref(), published_latencies(published));
    let end_to_end = latency_rows(measured.end_to_end.as_ref(), [None; 7]);
    let parts = [
        Part { title: "Throughput", is_queue: false, rows: flow_rows(measured, published) },
        Part { title, is_queue, rows: producer },
        Part { title: "From end to end, ms", is_queue, rows: end_to_end },
        Part { title: "Transactions", is_queue: false, rows: transaction_rows(measured) },
        Part { title: "Cost", is_queue: false, rows: cost_rows(group, measured, published, brokers) },
    ];
    parts.into_iter().filter(|part| !part.rows.is_empty()).collect()
}

fn flow_rows(measured: &Measured, published: &Published) -> Vec<Row> {
    let flows = [
        ("Records/s", Measure::RecordsPerS),
        ("MiB/s", Measure::MibPerS),
        ("Consumed records/s", Measure::ConsumedRecordsPerS),
        ("Consumed MiB/s", Measure::ConsumedMibPerS),
    ];
    let flow = |(name, measure)| row(name, measure::value(measure, measured), measure::published(measure, published));
    let counted = measured.produced.filter(|flow| flow.requests > 0);
    let in_request = counted.map(|flow| flow.records as f64 / flow.requests as f64);
    flows.into_iter().filter_map(flow).chain(row("Records in a request", in_request, None)).collect()
}

fn transaction_rows(measured: &Measured) -> Vec<Row> {
    let rows = [
        ("Transactions/s", Measure::TransactionsPerS),
        ("Commit p50, ms", Measure::CommitP50),
        ("Commit p99, ms", Measure::CommitP99),
        ("Broker CPU, ms/transaction", Measure::BrokerCpuPerTransaction),
    ];
    rows.into_iter().filter_map(|(name, measure)| row(name, measure::value(measure, measured), None)).collect()
}

const LATENCIES: [&str; 7] = ["mean", "p50", "p95", "p99", "p99.9", "p99.99", "max"];

fn latencies_ms(latency: &Latency) -> [f64; 7] {
    let Latency { mean_us, p50_us, p95_us, p99_us, p99_9_us, p99_99_us, max_us, .. } = latency;
    let ms = |us: &u64| *us as f64 / 1000.0;
    [mean_us / 1000.0, ms(p50_us), ms(p95_us), ms(p99_us), ms(p99_9_us), ms(p99_99_us), ms(max_us)]
}

fn published_latencies(published: &Published) -> [Option<f64>; 7] {
    [
        published.latency_mean_ms,
        published.latency_p50_ms,
        published.latency_p95_ms,
        published.latency_p99_ms,
        published.latency_p99_9_ms,
        None,
        published.latency_max_ms,
    ]
}

fn latency_rows(latency: Option<&Latency>, theirs: [Option<f64>; 7]) -> Vec<Row> {
    let ours = latency.map_or([None; 7], |latency| latencies_ms(latency).map(Some));
    let all = LATENCIES.into_iter().zip(ours.into_iter().zip(theirs));
    all.filter_map(|(name, (ours, theirs))| row(name, ours, theirs)).collect()
}

fn row(name: &'static str, ours: Option<f64>, theirs: Option<f64>) -> Option<Row> {
    let ratio = ours.zip(theirs.filter(|theirs| *theirs > 0.0)).map(|(ours, theirs)| format::ratio(ours / theirs));
    (ours.is_some() || theirs.is_some()).then(|| Row {
        name: name.into(),
        ours: format::maybe(ours),
        published: format::maybe(theirs),
        ratio: ratio.unwrap_or_else(|| NONE.to_owned()),
    })
}

/// What others give is percent of cores and machines that are not ours: only its relations compare with ours.
fn cost_rows(group: &Group<'_>, measured: &Measured, published: &Published, brokers: Option<u32>) -> Vec<Row> {
    let Measured { cost, seconds, .. } = measured;
    let cores = |cpu_s: f64| format::maybe(Some(cpu_s / seconds).filter(|_| *seconds > 0.0));
    let named = |broker: &BrokerCost, text: String| match broker.id {
        Some(id) if cost.brokers.len() > 1 && text != NONE => format!("{id}: {text}"),
        _ => text,
    };
    let each =
        |text: &dyn Fn(&BrokerCost) -> String| listed(cost.brokers.iter().map(|broker| named(broker, text(broker))));
    let percent =
        published.broker_cpu_percent.iter().map(|percent| format::trimmed(&format::number(*percent)) + "\u{a0}%");
    let memory = |bytes: u64| if bytes > 0 { format::memory(bytes) } else { NONE.to_owned() };
    let published_memory = published.broker_memory_mib.map(|mib| format!("{} MiB", format::number(mib)));
    let count = |count: Option<u32>| count.map_or(NONE.to_owned(), |count| count.to_string());
    let ours = |name: &'static str, ours| (name.into(), ours, NONE.to_owned());
    let limits = measured.broker_limits.as_ref().map_or(NONE.to_owned(), |limits| limits.means.clone());
    let all: [Figures; 11] = [
        ("Broker CPU, cores".into(), each(&|broker| cores(broker.cpu_s)), listed(percent)),
        ours("Broker CPU, s/million records", format::maybe(cost.broker_cpu_s_per_million)),
        ours("Broker CPU, s/GiB", format::maybe(cost.broker_cpu_s_per_gib)),
        (
            "Broker memory, most".into(),
            each(&|broker| memory(broker.resident_bytes_max)),
            listed(published_memory.into_iter()),
        ),
        ours("Written by brokers", each(&|broker| memory(broker.disk_written_bytes))),
        ours("Client CPU, cores", cores(cost.client_cpu_s)),
        ours("Client CPU, s/million records", format::maybe(cost.client_cpu_s_per_million)),
        ours("Client memory, most", memory(cost.client_resident_bytes_max)),
        ours("Other processes, cores", cores(cost.others_cpu_s)),
        ("Brokers".into(), count(brokers), count(published.brokers)),
        ours("Size of each", limits),
    ];
    let all = all.into_iter().chain(relations(group));
    let known = all.filter(|(_, ours, published)| ours != NONE || published != NONE);
    known.map(|(name, ours, published)| Row { name, ours, published, ratio: NONE.to_owned() }).collect()
}

type Figures = (Cow<'static, str>, String, String);

/// What others compare with their base case, beside ours with the same.
fn relations(group: &Group<'_>) -> Vec<Figures> {
    let Some(base) = group.base else { return Vec::new() };
    let row = |what: &str, relation: Relation| {
        let times = |value: Option<f64>| value.map_or(NONE.to_owned(), format::ratio);
        let name = format!("{what}, times that of {}", base.id);
        relation.published.is_some().then(|| (name.into(), times(relation.ours), times(relation.published)))
    };
    let rows = [
        row("CPU of the busiest broker", Relation::cpu(group.case, base)),
        row("The same for a record", Relation::cpu_per_record(group.case, base)),
    ];
    rows.into_iter().flatten().collect()
}

/// One for each broker.
fn listed(values: impl Iterator<Item = String>) -> String {
    let values: Vec<_> = values.filter(|value| value != NONE).collect();
    if values.is_empty() { NONE.to_owned() } else { values.join(", ") }
}
