//! The figures that charts and tables show: what they are called, ours, and what was published.

use super::format;
use crate::result::{CaseResult, Flow, Latency, Measure, Measured, Published};

/// What a case is about: what it produced, or what it consumed where it only consumes.
pub(super) fn throughput(measured: &Measured) -> Option<&Flow> {
    measured.produced.as_ref().or(measured.consumed.as_ref())
}

/// Of producers, or from end to end where only that was measured.
pub(super) fn latency(measured: &Measured) -> Option<&Latency> {
    measured.latency.as_ref().or(measured.end_to_end.as_ref())
}

/// What an axis of it says.
pub(super) fn title(measure: Measure) -> &'static str {
    match measure {
        Measure::RecordsPerS => "records/s",
        Measure::MibPerS => "MiB/s",
        Measure::ConsumedRecordsPerS => "consumed records/s",
        Measure::ConsumedMibPerS => "consumed MiB/s",
        Measure::LatencyMean => "mean latency, ms",
        Measure::LatencyP99 => "latency p99, ms",
        Measure::BrokerCpu => "CPU of the busiest broker, cores",
        Measure::BrokerCpuRatio => "CPU of the busiest broker, times that of the base case",
        Measure::BrokerCpuPerMillion => "broker CPU, s per million records",
        Measure::TransactionsPerS => "transactions/s",
        Measure::CommitP50 => "commit p50, ms",
        Measure::CommitP99 => "commit p99, ms",
        Measure::BrokerCpuPerTransaction => "broker CPU, ms per transaction",
    }
}

pub(super) fn is_latency(measure: Measure) -> bool {
    matches!(measure, Measure::LatencyMean | Measure::LatencyP99)
}

pub(super) fn value(measure: Measure, measured: &Measured) -> Option<f64> {
    let Measured { produced, consumed, transactions, cost, seconds, .. } = measured;
    let transactions = transactions.as_ref();
    match measure {
        Measure::RecordsPerS => produced.map(|flow| flow.records_per_s),
        Measure::MibPerS => produced.map(|flow| flow.mib_per_s),
        Measure::ConsumedRecordsPerS => consumed.map(|flow| flow.records_per_s),
        Measure::ConsumedMibPerS => consumed.map(|flow| flow.mib_per_s),
        Measure::LatencyMean => latency(measured).map(|latency| latency.mean_us / 1000.0),
        Measure::LatencyP99 => latency(measured).map(|latency| latency.p99_us as f64 / 1000.0),
        Measure::BrokerCpu => {
            let most = cost.brokers.iter().map(|broker| broker.cpu_s).reduce(f64::max);
            most.filter(|_| *seconds > 0.0).map(|cpu_s| cpu_s / seconds)
        }
        // It takes two cases: `Group::value`.
        Measure::BrokerCpuRatio => None,
        Measure::BrokerCpuPerMillion => cost.broker_cpu_s_per_million,
        Measure::TransactionsPerS => transactions.map(|flow| flow.committed_per_s),
        Measure::CommitP50 => transactions.map(|flow| flow.commit.p50_us as f64 / 1000.0),
        Measure::CommitP99 => transactions.map(|flow| flow.commit.p99_us as f64 / 1000.0),
        Measure::BrokerCpuPerTransaction => transactions.and_then(|flow| flow.broker_cpu_ms_each),
    }
}

/// In the same unit as [`value`].
pub(super) fn published(measure: Measure, published: &Published) -> Option<f64> {
    match measure {
        Measure::RecordsPerS => published.records_per_s,
        Measure::MibPerS => published.mib_per_s,
        Measure::ConsumedRecordsPerS => published.consumed_records_per_s,
        Measure::ConsumedMibPerS => published.consumed_mib_per_s,
        Measure::LatencyMean => published.latency_mean_ms,
        Measure::LatencyP99 => published.latency_p99_ms,
        // Others give percent of cores that they do not count.
        Measure::BrokerCpu | Measure::BrokerCpuRatio | Measure::BrokerCpuPerMillion => None,
        // No report that we have took the time of transactions.
        Measure::TransactionsPerS | Measure::CommitP50 | Measure::CommitP99 | Measure::BrokerCpuPerTransaction => None,
    }
}

/// A published figure, and ours if there is one.
pub(super) struct Beside {
    pub unit: &'static str,
    theirs: f64,
    ours: Option<f64>,
}

impl Beside {
    pub(super) fn ratio(&self) -> Option<f64> {
        self.ours.filter(|_| self.theirs > 0.0).map(|ours| ours / self.theirs)
    }

    pub(super) fn theirs_text(&self) -> String {
        format::number(self.theirs)
    }
}

/// The throughput by which a case is held against the report that it is taken from.
pub(super) fn beside_published(case: &CaseResult) -> Option<Beside> {
    const BY_WEIGHT: [(Measure, &str); 4] = [
        (Measure::RecordsPerS, "records/s"),
        (Measure::MibPerS, "MiB/s"),
        (Measure::ConsumedRecordsPerS, "records/s"),
        (Measure::ConsumedMibPerS, "MiB/s"),
    ];
    let theirs = case.published.as_ref()?;
    let found = BY_WEIGHT.into_iter().filter_map(|(measure, unit)| {
        let ours = case.measured().and_then(|measured| value(measure, measured));
        Some(Beside { unit, theirs: published(measure, theirs)?, ours })
    });
    let found: Vec<_> = found.collect();
    let comparable = found.iter().position(|beside| beside.ours.is_some()).unwrap_or(0);
    found.into_iter().nth(comparable)
}
