//! An invented run: two targets, repetitions, a matrix, saturated and skipped and failed cases.

use std::collections::BTreeMap;

use crate::bottleneck::{Limit, Verdict};
use crate::proc_probe::HostFacts;
use crate::result::{
    BrokerCost, CaseResult, Chart, Cost, CountsFrom, DiskFacts, Durability, Flow, Latency, Measure, Measured,
    NetworkFacts, Outcome, Preflight, Published, RunFacts, SCHEMA_VERSION, Second, TargetFacts,
};
use crate::stats::Tally;

const SECONDS: u32 = 20;
const WARM_UP_S: u32 = 3;
const RECORD_BYTES: f64 = 1024.0;
const MIB: f64 = 1_048_576.0;

pub(crate) fn run() -> RunFacts {
    let target = |label: &str, version: &str| TargetFacts {
        label: label.to_owned(),
        version: version.to_owned(),
        brokers: 1,
        is_local: true,
        durability: Some(match label {
            "kafka" => Durability { is_synced: false, setting: "log.flush.interval.messages=never".to_owned() },
            _ => Durability { is_synced: true, setting: "log.ack.durability=disk".to_owned() },
        }),
        settings: BTreeMap::new(),
    };
    let chart = |title: &str, cases: &str, x: Option<&str>, y| Chart {
        title: title.to_owned(),
        cases: cases.split(' ').map(str::to_owned).collect(),
        x: x.map(str::to_owned),
        y,
    };
    let (write_mib_per_s, synced_mib_per_s) = (1843.2, 611.4);
    let disk = DiskFacts { write_mib_per_s, synced_mib_per_s, sync_p50_us: 412, sync_p99_us: 2210 };
    let network = NetworkFacts {
        target: "kafka".to_owned(),
        broker: 1,
        round_trip_p50_us: 48,
        round_trip_p99_us: 131,
        upload_mib_per_s: 3120.0,
        download_mib_per_s: Some(2840.0),
    };
    RunFacts {
        schema: SCHEMA_VERSION,
        name: "huawei-dms".to_owned(),
        title: "Production rate and CPU usage".to_owned(),
        description:
            "What batches, replicas and acknowledgements cost, beside the figures of a cloud provider's report."
                .to_owned(),
        scenario: String::new(),
        scale: None,
        duration_s: None,
        started: "2026-11-22T04:10:02.548Z".to_owned(),
        command: "parshall lab run huawei-dms --target parshall --target kafka=localhost:9092 --repeat 3".to_owned(),
        program_version: "0.1.0".to_owned(),
        program_checksum: None,
        targets: vec![target("parshall", "Parshall 0.1.0, embedded"), target("kafka", "Apache Kafka 4.1.0")],
        host: HostFacts {
            os: "Debian GNU/Linux 12".to_owned(),
            kernel: "6.1.0-28-amd64".to_owned(),
            cpu: "AMD EPYC 7763 64-Core Processor".to_owned(),
            cores: 8,
            memory_bytes: 33 << 30,
            virtualized: Some("KVM".to_owned()),
        },
        preflight: Preflight { disk: Some(disk), network: vec![network] },
        charts: vec![
            chart("Throughput by partitions", "D3", Some("partitions"), Measure::RecordsPerS),
            chart("Throughput by size of records", "D2", Some("record.size"), Measure::RecordsPerS),
            chart("MiB/s of each case", "H1 H2 H4 H5", None, Measure::MibPerS),
            chart("Mean latency by batch", "G1", Some("batch / linger"), Measure::LatencyMean),
        ],
        search: None,
    }
}

/// Numbers that look measured and are the same each time.
struct Noise(u64);

impl Noise {
    fn of(text: &str) -> Self {
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(text.bytes().fold(0xcbf2_9ce4_8422_2325, hash))
    }

    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn about(&mut self, value: f64, by: f64) -> f64 {
        value * (1.0 + (self.next() - 0.5) * 2.0 * by)
    }
}

pub(crate) fn measured(id: &str, target: &str, repetition: u32, records_per_s: f64) -> CaseResult {
    let mut noise = Noise::of(&format!("{id}{target}{repetition}"));
    let (typical_us, cpu, resident_bytes) = if target == "kafka" { (2600.0, 1.9, 1.1e9) } else { (900.0, 0.7, 9e7) };
    let seconds = f64::from(SECONDS - WARM_UP_S);
    let records = (records_per_s * seconds) as u64;
    let produced = Flow::new(records, (records as f64 * RECORD_BYTES) as u64, records / 15, seconds);
    let broker_cpu = noise.about(cpu, 0.1) * (records_per_s / 400_000.0).powf(0.6);
    let client_cpu = noise.about(0.8, 0.1) * (records_per_s / 400_000.0).powf(0.7);
    let cost = Cost {
        client_cpu_s: client_cpu * seconds,
        client_resident_bytes_max: 61 << 20,
        brokers: vec![BrokerCost {
            id: Some(1),
            cpu_s: broker_cpu * seconds,
            resident_bytes_max: noise.about(resident_bytes, 0.2) as u64,
            disk_read_bytes: 0,
            disk_written_bytes: produced.bytes,
        }],
        others_cpu_s: 0.4,
        cores: 8,
        broker_cpu_s_per_million: Some(broker_cpu * 1e6 / records_per_s),
        broker_cpu_s_per_gib: Some(broker_cpu * 1024.0 / produced.mib_per_s),
        client_cpu_s_per_million: Some(client_cpu * 1e6 / records_per_s),
    };
    let evidence = format!("100.0 % of the {records_per_s:.0} records/s that were asked for; it may carry more");
    let measured = Measured {
        seconds,
        produced: Some(produced),
        consumed: None,
        latency: latency(&mut noise, typical_us, CountsFrom::Due),
        end_to_end: None,
        transactions: None,
        failures: BTreeMap::new(),
        cost,
        broker_limits: None,
        series: series(&mut noise, records_per_s, typical_us, [broker_cpu, client_cpu]),
        verdict: Verdict { limit: Limit::TargetRate, evidence, is_saturated: false, warnings: Vec::new() },
    };
    let parameters = [
        ("partitions", "3"),
        ("records", "100000000"),
        ("record.size", "1024"),
        ("producer.acks", "1"),
        ("producer.batch.size", "16384"),
        ("producer.linger.ms", "0"),
        ("throughput", "102400"),
    ];
    CaseResult {
        schema: SCHEMA_VERSION,
        number: 1,
        id: id.to_owned(),
        group: id.split('/').next().unwrap_or(id).to_owned(),
        title: "Batches of 16 KiB".to_owned(),
        axes: BTreeMap::new(),
        parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        target: target.to_owned(),
        repetition,
        started: "2026-11-22T04:11:00Z".to_owned(),
        reproduce: format!("parshall lab run huawei-dms --case {id} --target {target}"),
        host: run().host,
        preflight: run().preflight,
        published: None,
        outcome: Outcome::Measured(Box::new(measured)),
    }
}

fn latency(noise: &mut Noise, typical_us: f64, counts_from: CountsFrom) -> Option<Latency> {
    let mut tally = Tally::default();
    for _ in 0..20_000 {
        let tail = (1.0 - noise.next()).max(1e-5).powf(-0.55);
        tally.record((typical_us * tail) as u64, 1024);
    }
    Latency::of(&tally, counts_from)
}

fn series(noise: &mut Noise, records_per_s: f64, typical_us: f64, [broker_cpu, client_cpu]: [f64; 2]) -> Vec<Second> {
    let second = |at: u32| {
        let part = if at <= WARM_UP_S { f64::from(at) / f64::from(WARM_UP_S + 1) } else { 1.0 };
        let rate = noise.about(records_per_s * part, 0.04);
        let mib_per_s = rate * RECORD_BYTES / MIB;
        let stall = if at == 13 { 40.0 } else { 1.0 };
        Second {
            at_s: f64::from(at),
            is_warm_up: at <= WARM_UP_S,
            produced_records_per_s: rate,
            produced_mib_per_s: mib_per_s,
            latency_mean_us: noise.about(typical_us * 1.3, 0.2),
            latency_p50_us: noise.about(typical_us, 0.1) as u64,
            latency_p99_us: noise.about(typical_us * 9.0 * stall, 0.3) as u64,
            latency_max_us: noise.about(typical_us * 20.0 * stall, 0.3) as u64,
            client_cpu: noise.about(client_cpu * part, 0.1),
            broker_cpu: vec![noise.about(broker_cpu * part, 0.1)],
            broker_resident_bytes: vec![(80 << 20) + (u64::from(at) << 19)],
            client_resident_bytes: 61 << 20,
            host_cpu: noise.about((client_cpu + broker_cpu + 0.1) * part, 0.05),
            disk_written_mib_per_s: noise.about(mib_per_s, 0.5),
            ..Second::default()
        }
    };
    (1..=SECONDS).map(second).collect()
}

fn change(case: &mut CaseResult, change: impl FnOnce(&mut Measured)) {
    if let Outcome::Measured(measured) = &mut case.outcome {
        change(measured);
    }
}

/// The same case, saturated.
pub(crate) fn saturated(mut case: CaseResult, limit: Limit, evidence: &str) -> CaseResult {
    let mut noise = Noise::of(&case.id);
    change(&mut case, |measured| {
        measured.latency = latency(&mut noise, 300_000.0, CountsFrom::Sent);
        measured.verdict = Verdict { limit, evidence: evidence.to_owned(), is_saturated: true, warnings: Vec::new() };
    });
    case
}

/// The same case with its number in the scenario, and the published figures.
fn placed(number: u32, title: &str, published: Option<Published>, case: CaseResult) -> CaseResult {
    CaseResult { number, title: title.to_owned(), published, ..case }
}

fn with_axis(axis: &str, value: &str, case: CaseResult) -> CaseResult {
    CaseResult { axes: [(axis.to_owned(), value.to_owned())].into(), ..case }
}

fn published([records_per_s, mib_per_s, mean_ms, max_ms]: [f64; 4]) -> Published {
    Published {
        records_per_s: Some(records_per_s),
        mib_per_s: Some(mib_per_s),
        latency_mean_ms: Some(mean_ms),
        latency_max_ms: Some(max_ms),
        broker_cpu_percent: vec![54.0, 55.0, 51.65],
        brokers: Some(3),
        ..Published::default()
    }
}

fn of_one_target(target: &str) -> Vec<CaseResult> {
    let speed = if target == "kafka" { 1.0 } else { 2.1 };
    let mut cases = Vec::new();
    for repetition in 1..=3 {
        let rate = 39_100.0 * speed * (1.0 + 0.05 * (f64::from(repetition) - 2.0));
        let evidence = "92 % of buffer.memory was waiting all the time: latency is its size over the throughput";
        let case = saturated(measured("H1", target, repetition, rate), Limit::ClientBuffer, evidence);
        cases.push(placed(1, "Batches of one record", Some(published([37_696.73, 36.81, 796.54, 3838.0])), case));
    }
    let of_h2 = Published {
        latency_p50_ms: Some(1.0),
        latency_p95_ms: Some(3.0),
        latency_p99_ms: Some(164.0),
        latency_p99_9_ms: Some(406.0),
        note: Some("hit its own throttle; what it could carry is not known".to_owned()),
        ..published([102_399.32, 100.0, 4.62, 751.0])
    };
    cases.push(placed(2, "Batches of 16 KiB", Some(of_h2), measured("H2", target, 1, 102_398.0)));
    let mut case = saturated(
        measured("H4", target, 1, 21_020.0 * speed),
        Limit::BrokerCpu,
        "the busiest broker used 86 % of its cores",
    );
    change(&mut case, |measured| {
        measured.failures.insert("REQUEST_TIMED_OUT".to_owned(), 17);
        measured.verdict.warnings = vec![
            "17 records were not delivered".to_owned(),
            "disturbed: other processes used 1.6 of the machine's 8 cores".to_owned(),
        ];
    });
    cases.push(placed(3, "Three replicas, asynchronous", Some(published([15_245.88, 14.89, 1963.88, 7471.0])), case));
    let reason = "the target has 1 broker, and 3 replicas need 3".to_owned();
    let case = CaseResult { outcome: Outcome::Skipped { reason }, ..measured("H5", target, 1, 1.0) };
    cases.push(placed(4, "Three replicas, synchronous", Some(published([5180.78, 5.06, 5692.27, 10_312.0])), case));
    for partitions in 1..=9_u32 {
        let rate = 380_000.0 * speed * f64::from(partitions.min(4)).powf(0.8);
        let case = measured(&format!("D3/partitions={partitions}"), target, 1, rate);
        let case = saturated(case, Limit::ClientCpu, "3 producers used 2.9 cores; each can use one");
        let records_per_s = partitions.is_multiple_of(3).then_some(1_100_000.0 + 20_000.0 * f64::from(partitions));
        let published = Published { records_per_s, ..Published::default() };
        let case = with_axis("partitions", &partitions.to_string(), case);
        cases.push(placed(4 + partitions, "Partitions, three producers", Some(published), case));
    }
    cases
}

/// What a scenario's file gives for both targets, and some cases of one of them.
pub(super) fn cases() -> Vec<CaseResult> {
    let mut cases: Vec<_> = ["parshall", "kafka"].into_iter().flat_map(of_one_target).collect();
    for (at, size) in [10, 20, 40, 60, 80, 100, 150, 200, 400, 800, 1000, 2000, 5000, 10_000].into_iter().enumerate() {
        let case = measured(&format!("D2/record.size={size}"), "parshall", 1, 4e6 / (1.0 + f64::from(size) / 300.0));
        cases.push(placed(20 + at as u32, "Size of records", None, with_axis("record.size", &size.to_string(), case)));
    }
    let batches =
        [("1 KB / 10 ms", 48_049.0, 608.0), ("10 KB / 10 ms", 160_694.0, 171.0), ("100 KB / 10 ms", 117_187.0, 268.0)];
    for (at, (batch, rate, mean_ms)) in batches.into_iter().enumerate() {
        let case = with_axis("batch / linger", batch, measured(&format!("G1/{batch}"), "parshall", 1, rate * 1.4));
        let evidence = "batches of 1.0 records and a full buffer";
        let case = if at == 0 { saturated(case, Limit::InFlightWindow, evidence) } else { case };
        let published = published([rate, rate / 1048.0, mean_ms, 4.0 * mean_ms]);
        cases.push(placed(40 + at as u32, "Batch and linger", Some(published), case));
    }
    let mut both = measured("C6", "kafka", 1, 261_000.0);
    change(&mut both, |measured| {
        measured.consumed = measured.produced.map(|flow| Flow { records_per_s: flow.records_per_s * 0.93, ..flow });
        measured.end_to_end = latency(&mut Noise::of("C6"), 5200.0, CountsFrom::Due);
        for second in &mut measured.series {
            second.consumed_records_per_s = second.produced_records_per_s * 0.93;
            second.backlog_records = (second.at_s * 18_000.0) as u64;
        }
    });
    cases.push(placed(50, "One producer and one consumer", None, both));
    let reason = "topic lab-D5 could not be created: TOPIC_ALREADY_EXISTS".to_owned();
    let failed = CaseResult { outcome: Outcome::Failed { reason }, ..measured("D5", "kafka", 1, 1.0) };
    cases.push(placed(51, "Consumers only", None, failed));
    cases
}
