//! The files of a run: one JSON file for the run and one for each case, in this schema (docs/lab.md).
//!
//! Fields are only ever added; a change of meaning raises [`SCHEMA_VERSION`]. Units stand in the names: `_us` are
//! microseconds, `_s` seconds, a MiB is 1,048,576 bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bottleneck::Verdict;
use crate::proc_probe::HostFacts;
use crate::stats::Tally;
use crate::text::Text;

/// The version of the files' meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The run as a whole: `run.json`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RunFacts {
    pub schema: u32,
    /// The scenario's name and title.
    pub name: String,
    pub title: String,
    pub description: String,
    /// The scenario as it was read; what a resumed run must agree with.
    pub scenario: String,
    /// `None`: each case runs for the scenario's own time. Otherwise the part of the scenario's records that is sent.
    pub scale: Option<f64>,
    /// How many seconds each case is measured, where that is not the scenario's own time.
    #[serde(default)]
    pub duration_s: Option<f64>,
    /// Wall clock, RFC 3339 in UTC.
    pub started: String,
    /// The command line that made it.
    pub command: String,
    /// With its commit: `0.1.0 (0123456789ab 2026-11-24)`.
    pub program_version: String,
    /// CRC-32C of the program's file, which also tells builds of one commit apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_checksum: Option<String>,
    pub targets: Vec<TargetFacts>,
    /// The machine that put the load.
    pub host: HostFacts,
    pub preflight: Preflight,
    pub charts: Vec<Chart>,
    /// What a search for the capacity has found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchFacts>,
}

/// A search for the highest rate that meets a goal (`parshall lab capacity`).
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SearchFacts {
    /// `p99 <= 20ms`.
    pub goal: String,
    pub capacities: Vec<Capacity>,
}

/// What the search has found, for one target.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Capacity {
    pub target: String,
    /// As fast as possible, whatever the latency.
    pub unlimited_records_per_s: f64,
    /// The highest rate that met the goal.
    pub highest_records_per_s: Option<f64>,
    /// The lowest that did not.
    pub lowest_missed_records_per_s: Option<f64>,
    /// Where latency begins to grow faster than the rate.
    pub knee_records_per_s: Option<f64>,
    /// What was tried, by rate.
    pub steps: Vec<CapacityStep>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct CapacityStep {
    pub records_per_s: f64,
    pub reached_records_per_s: f64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub meets_goal: bool,
}

impl Capacity {
    /// The answer in sentences.
    pub fn sentences(&self, goal: &str) -> Vec<String> {
        let mut sentences = vec![match (self.highest_records_per_s, self.lowest_missed_records_per_s) {
            (Some(highest), Some(missed)) => format!("{goal}: up to {highest:.0} records/s; missed at {missed:.0}"),
            (Some(highest), None) => format!("{goal}: met at all rates, up to {highest:.0} records/s"),
            (None, _) => format!("{goal}: met at no rate that was tried"),
        }];
        sentences
            .extend(self.knee_records_per_s.map(|knee| format!("the knee of the curve is at {knee:.0} records/s")));
        let unlimited = self.unlimited_records_per_s;
        sentences.push(format!("without a rate: {unlimited:.0} records/s, with no regard to latency"));
        sentences
    }
}

/// A chart of the report: a line for each target and each combination of the axes that are not `x`; published values
/// beside it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    pub title: String,
    /// Ids of cases in the scenario's file.
    pub cases: Vec<String>,
    /// The axis; without one there is a bar for each case.
    pub x: Option<String>,
    pub y: Measure,
}

/// A figure of a case.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    RecordsPerS,
    MibPerS,
    ConsumedRecordsPerS,
    ConsumedMibPerS,
    LatencyMean,
    LatencyP99,
    /// Of the busiest broker, in cores.
    BrokerCpu,
    /// The same over that of the base case.
    BrokerCpuRatio,
    BrokerCpuPerMillion,
    TransactionsPerS,
    CommitP50,
    CommitP99,
    BrokerCpuPerTransaction,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct TargetFacts {
    /// What cases call it.
    pub label: String,
    pub version: String,
    pub brokers: u32,
    /// Whether its brokers run on the machine that puts the load, and so share its CPU and disk.
    pub is_local: bool,
    /// Whether its brokers sync what they acknowledge, as far as they tell.
    #[serde(default)]
    pub durability: Option<Durability>,
    /// What brokers that were started for the run were told (`--broker-set`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// What a broker does before it acknowledges a record for which its topic says nothing else.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Durability {
    pub is_synced: bool,
    /// The setting that decides: `log.ack.durability=disk`.
    pub setting: String,
}

/// What the machine can do without a broker: what `perf disk` and `perf net` measure, shortened.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Preflight {
    /// Of the disk under the embedded target's data; `None` for brokers elsewhere.
    pub disk: Option<DiskFacts>,
    /// By target's label and broker.
    pub network: Vec<NetworkFacts>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DiskFacts {
    pub write_mib_per_s: f64,
    pub synced_mib_per_s: f64,
    pub sync_p50_us: u64,
    pub sync_p99_us: u64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NetworkFacts {
    pub target: String,
    pub broker: i32,
    pub round_trip_p50_us: u64,
    pub round_trip_p99_us: u64,
    pub upload_mib_per_s: f64,
    /// `None` where no topic could be created for it.
    #[serde(default)]
    pub download_mib_per_s: Option<f64>,
}

/// One case on one target, once: `cases/*.json`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CaseResult {
    pub schema: u32,
    /// Its number in the scenario, from 1 on.
    pub number: u32,
    /// Unique in the scenario: `H1`, or `D3/partitions=2` where a matrix has made it.
    pub id: String,
    /// The id in the scenario's file.
    pub group: String,
    pub title: String,
    /// What the matrix varies, with this case's values.
    pub axes: BTreeMap<String, String>,
    /// All parameters, by the scenario's keys; `producer.acks` for the settings of clients.
    pub parameters: BTreeMap<String, String>,
    /// The label of the target.
    pub target: String,
    /// From 1 on.
    pub repetition: u32,
    pub started: String,
    /// A command that runs this case alone.
    pub reproduce: String,
    /// As in the run's own file, so that a case can be sent on by itself.
    #[serde(default)]
    pub host: HostFacts,
    #[serde(default)]
    pub preflight: Preflight,
    pub published: Option<Published>,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Measured(Box<Measured>),
    /// Not run, and why.
    Skipped {
        reason: String,
    },
    /// Could not be run to its end.
    Failed {
        reason: String,
    },
}

impl CaseResult {
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Skipped { .. } | Outcome::Failed { .. } => None,
        }
    }
}

/// What a report has published for a case.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Published {
    /// The points of a matrix that it is for; all where it is empty.
    #[serde(skip_serializing)]
    pub when: BTreeMap<String, Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mib_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_mean_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p95_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p99_9_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_max_ms: Option<f64>,
    /// Of consumers, where they were measured apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumed_records_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumed_mib_per_s: Option<f64>,
    /// Of each broker, in percent of all its cores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub broker_cpu_percent: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_memory_mib: Option<f64>,
    /// The id of the case with which the report compares this one: CPU of other machines says something only as a
    /// relation of two cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_case: Option<String>,
    /// Brokers that it was measured with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brokers: Option<u32>,
    /// What was published in words, or what is odd about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The results of a case, its warm-up left out.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Measured {
    /// From the end of the warm-up to the last answer.
    pub seconds: f64,
    pub produced: Option<Flow>,
    pub consumed: Option<Flow>,
    /// From when a record was due, or sent, to its acknowledgement.
    pub latency: Option<Latency>,
    /// From when a record was made until a consumer had it, by one clock, in whole milliseconds.
    pub end_to_end: Option<Latency>,
    /// Of producers that send in transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<TransactionFlow>,
    /// Records that were not delivered, by reason.
    pub failures: BTreeMap<String, u64>,
    pub cost: Cost,
    /// What made the brokers' machines smaller than this one; `None`: nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_limits: Option<BrokerLimits>,
    pub series: Vec<Second>,
    pub verdict: Verdict,
}

/// The part of the machine that each broker could have.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct BrokerLimits {
    /// `None`: all of the machine's.
    pub cpus: Option<f64>,
    pub memory_bytes: Option<u64>,
    /// By what means: `cgroup v2: 2 CPUs, 2GiB each`.
    pub means: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Flow {
    pub records: u64,
    /// Of values; of consumed records, of keys too.
    pub bytes: u64,
    pub records_per_s: f64,
    pub mib_per_s: f64,
    /// How many requests carried them; 0 where it is not known.
    pub requests: u64,
}

impl Flow {
    pub fn new(records: u64, bytes: u64, requests: u64, seconds: f64) -> Self {
        let rate = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let (records_per_s, mib_per_s) = (rate(records as f64), rate(bytes as f64 / 1_048_576.0));
        Self { records, bytes, records_per_s, mib_per_s, requests }
    }
}

/// Transactions that were committed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct TransactionFlow {
    pub committed: u64,
    pub committed_per_s: f64,
    /// From when all records of a transaction were acknowledged until the coordinator had answered.
    pub commit: Latency,
    /// CPU of all brokers for one of them, its records included.
    pub broker_cpu_ms_each: Option<f64>,
}

/// Latencies in microseconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Latency {
    pub counts_from: CountsFrom,
    pub mean_us: f64,
    pub p50_us: u64,
    pub p95_us: u64,
    pub p99_us: u64,
    pub p99_9_us: u64,
    pub p99_99_us: u64,
    pub max_us: u64,
    /// The distribution: parts of all records from 0 to 1, and the latency that they do not exceed.
    pub distribution: Vec<(f64, u64)>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountsFrom {
    /// Open loop: a stall of the broker shows in all records that should have been sent meanwhile.
    Due,
    /// Closed loop, or as fast as possible: contains the wait for space in the producer's buffer.
    Sent,
}

impl Latency {
    pub fn of(tally: &Tally, counts_from: CountsFrom) -> Option<Self> {
        let quantile = |part: f64| tally.quantile_us(part).min(tally.max_us());
        (tally.records > 0).then(|| Self {
            counts_from,
            mean_us: tally.mean_us(),
            p50_us: quantile(0.5),
            p95_us: quantile(0.95),
            p99_us: quantile(0.99),
            p99_9_us: quantile(0.999),
            p99_99_us: quantile(0.9999),
            max_us: tally.max_us(),
            distribution: parts(tally.records).into_iter().map(|part| (part, quantile(part))).collect(),
        })
    }
}

/// Where a distribution is sampled: ever finer towards the slowest of so many records, as HDR plots have it.
fn parts(records: u64) -> Vec<f64> {
    const STEPS: u32 = 8;
    let mut parts = vec![0.0];
    let mut left = 1.0;
    while left * records as f64 >= 1.0 {
        parts.extend((1..=STEPS).map(|step| 1.0 - left + left / 2.0 * f64::from(step) / f64::from(STEPS)));
        left /= 2.0;
    }
    parts.push(1.0);
    parts
}

/// The resources that it took.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Cost {
    /// CPU time of the generator, in seconds.
    pub client_cpu_s: f64,
    /// Resident memory of the generator, the most of all seconds.
    #[serde(default)]
    pub client_resident_bytes_max: u64,
    /// One for each broker whose process can be seen.
    pub brokers: Vec<BrokerCost>,
    /// CPU time that other processes of the machine took.
    pub others_cpu_s: f64,
    /// Cores of the machine.
    pub cores: u32,
    /// CPU of all brokers for a million records that were produced or consumed, and for a MiB.
    pub broker_cpu_s_per_million: Option<f64>,
    pub broker_cpu_s_per_gib: Option<f64>,
    pub client_cpu_s_per_million: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct BrokerCost {
    /// `None`: its metrics do not tell.
    #[serde(default)]
    pub id: Option<i32>,
    pub cpu_s: f64,
    /// The most of all seconds.
    pub resident_bytes_max: u64,
    pub disk_read_bytes: u64,
    pub disk_written_bytes: u64,
}

/// One second of a case, its warm-up included.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Second {
    /// Since the start of the load; when this second ended.
    pub at_s: f64,
    pub is_warm_up: bool,
    pub produced_records_per_s: f64,
    pub produced_mib_per_s: f64,
    pub consumed_records_per_s: f64,
    pub consumed_mib_per_s: f64,
    /// Of the records that were acknowledged in this second; 0 where there were none.
    pub latency_mean_us: f64,
    pub latency_p50_us: u64,
    pub latency_p99_us: u64,
    pub latency_max_us: u64,
    pub failed_records: u64,
    /// Acknowledged and not yet consumed, where there are consumers.
    pub backlog_records: u64,
    /// In cores: 1.0 is one core busy all the time.
    pub client_cpu: f64,
    pub broker_cpu: Vec<f64>,
    pub broker_resident_bytes: Vec<u64>,
    #[serde(default)]
    pub client_resident_bytes: u64,
    pub host_cpu: f64,
    pub disk_written_mib_per_s: f64,
    /// Over the machine's interfaces, the loopback left out.
    pub network_mib_per_s: f64,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bottleneck::Limit;

    /// A run of which nothing is known.
    pub(crate) fn measured() -> Measured {
        let verdict =
            Verdict { limit: Limit::Unknown, evidence: String::new(), is_saturated: false, warnings: Vec::new() };
        Measured {
            seconds: 1.0,
            produced: None,
            consumed: None,
            latency: None,
            end_to_end: None,
            transactions: None,
            failures: BTreeMap::new(),
            cost: Cost::default(),
            broker_limits: None,
            series: Vec::new(),
            verdict,
        }
    }

    #[test]
    fn a_distribution_is_finest_where_few_records_are() {
        let parts = parts(1000);
        assert!(parts.is_sorted());
        assert_eq!((parts[0], *parts.last().unwrap()), (0.0, 1.0));
        let finest = parts[parts.len() - 2];
        assert!(finest > 0.999 && finest < 1.0, "{finest}");
        let mut tally = Tally::default();
        (1..=1000).for_each(|n| tally.record(n, 1));
        let latency = Latency::of(&tally, CountsFrom::Due).unwrap();
        assert_eq!((latency.p50_us, latency.p99_us, latency.max_us), (500, 990, 1000));
        assert_eq!(latency.distribution.last(), Some(&(1.0, 1000)));
        assert_eq!(Latency::of(&Tally::default(), CountsFrom::Due), None);
    }

    #[test]
    fn a_result_reads_back_as_it_was_written() {
        let flow = Flow::new(1000, 1_048_576, 10, 2.0);
        assert_eq!((flow.records_per_s, flow.mib_per_s), (500.0, 0.5));
        let text = serde_json::to_string(&flow).unwrap();
        assert_eq!(serde_json::from_str::<Flow>(&text).unwrap(), flow);
    }
}
