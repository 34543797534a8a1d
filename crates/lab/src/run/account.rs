//! The results of a case: rates, latencies, cost and verdict, from samples and counters.

use super::watch::{Watched, broker_costs};
use crate::bottleneck::{ClientCpu, Observation, Verdict};
use crate::consume::ConsumeStats;
use crate::result::{
    BrokerCost, BrokerLimits, Cost, CountsFrom, Flow, Latency, Measured, NetworkFacts, Preflight, TransactionFlow,
};
use crate::scenario::{Load, Loop};
use crate::stats::{Stats, Tally};

/// CPU time comes in steps of 10 ms; less than this means nothing.
const CPU_WINDOW_S_MIN: f64 = 0.5;
/// Who was interrupted earlier has not shown what it can do.
const JUDGED_S_MIN: f64 = 1.0;

pub(super) struct Facts<'a> {
    pub(super) load: &'a Load,
    pub(super) watched: &'a Watched,
    pub(super) produced: &'a Stats,
    pub(super) consumed: &'a ConsumeStats,
    pub(super) end_to_end: &'a Tally,
    pub(super) brokers: usize,
    /// Of the brokers that are sampled, in that order.
    pub(super) broker_ids: &'a [Option<i32>],
    pub(super) is_local: bool,
    /// What made the brokers' machines smaller than this one.
    pub(super) limits: Option<&'a BrokerLimits>,
    /// Of the machine that puts the load.
    pub(super) cores: u32,
    pub(super) preflight: &'a Preflight,
    pub(super) label: &'a str,
    pub(super) is_interrupted: bool,
}

pub(super) fn measured(facts: &Facts<'_>) -> Measured {
    let Facts { load, watched, produced, .. } = facts;
    let (tally, elapsed) = if watched.has_warmed_up { produced.steady() } else { produced.total() };
    let requests = produced.requests();
    let window_s = (watched.to.at - watched.from.at).as_secs_f64();
    let produced_flow = (load.producers > 0).then(|| {
        // Requests are counted with the warm-up; their part of the rest is as large as that of the records.
        let part = tally.records as f64 / produced.total().0.records.max(1) as f64;
        Flow::new(tally.records, tally.bytes, (requests.requests as f64 * part) as u64, elapsed.as_secs_f64())
    });
    let consumed_flow = (load.consumers > 0).then(|| {
        let (all, fetches) = (facts.consumed.consumed(), facts.consumed.fetches().fetches);
        if load.producers == 0 && !watched.has_warmed_up {
            // As Kafka's tool has it: from the assignment to the last record.
            let seconds = facts.consumed.elapsed().saturating_sub(all.joining).as_secs_f64();
            return Flow::new(all.records, all.bytes, fetches, seconds);
        }
        let records = watched.to.consumed_records - watched.from.consumed_records;
        let bytes = watched.to.consumed_bytes - watched.from.consumed_bytes;
        // Fetches are counted from the first to the last, too.
        let part = records as f64 / all.records.max(1) as f64;
        Flow::new(records, bytes, (fetches as f64 * part) as u64, window_s)
    });
    let counts_from = match (load.rate(), load.rate_loop) {
        (Some(_), Loop::Open) => CountsFrom::Due,
        _ => CountsFrom::Sent,
    };
    let cost = cost(facts, produced_flow.as_ref(), consumed_flow.as_ref());
    Measured {
        seconds: if load.producers > 0 { elapsed.as_secs_f64() } else { window_s },
        latency: Latency::of(&tally, counts_from),
        end_to_end: Latency::of(facts.end_to_end, CountsFrom::Sent),
        transactions: transactions(produced, &cost, window_s),
        failures: produced.failures(),
        verdict: verdict(facts, &tally, produced_flow.or(consumed_flow), &cost, window_s),
        produced: produced_flow,
        consumed: consumed_flow,
        cost,
        broker_limits: facts.limits.cloned(),
        series: watched.seconds.clone(),
    }
}

fn transactions(produced: &Stats, cost: &Cost, window_s: f64) -> Option<TransactionFlow> {
    let commits = produced.commits();
    let brokers_cpu_s: f64 = cost.brokers.iter().map(|broker| broker.cpu_s).sum();
    let committed = commits.records;
    Some(TransactionFlow {
        commit: Latency::of(&commits, CountsFrom::Sent)?,
        committed,
        committed_per_s: if window_s > 0.0 { committed as f64 / window_s } else { 0.0 },
        broker_cpu_ms_each: (brokers_cpu_s > 0.0).then(|| brokers_cpu_s * 1000.0 / committed as f64),
    })
}

fn cost(facts: &Facts<'_>, produced: Option<&Flow>, consumed: Option<&Flow>) -> Cost {
    let watched = facts.watched;
    let (from, to) = (&watched.from, &watched.to);
    let mut brokers: Vec<BrokerCost> = broker_costs(from, to);
    for (index, broker) in brokers.iter_mut().enumerate() {
        let residents = watched.seconds.iter().filter_map(|second| second.broker_resident_bytes.get(index));
        broker.id = facts.broker_ids.get(index).copied().flatten();
        broker.resident_bytes_max = residents.copied().max().unwrap_or(0).max(broker.resident_bytes_max);
    }
    let client_residents = watched.seconds.iter().map(|second| second.client_resident_bytes);
    let client_cpu_s = to.client.cpu.saturating_sub(from.client.cpu).as_secs_f64();
    let brokers_cpu_s: f64 = brokers.iter().map(|broker| broker.cpu_s).sum();
    let host = to.host.since(&from.host);
    let busy_s = host.busy.as_secs_f64() + host.stolen.as_secs_f64();
    let local_brokers_s = if facts.is_local { brokers_cpu_s } else { 0.0 };
    let flows = || produced.into_iter().chain(consumed);
    let millions = flows().map(|flow| flow.records as f64).sum::<f64>() / 1e6;
    let gib = flows().map(|flow| flow.bytes as f64).sum::<f64>() / f64::from(1 << 30);
    let per = |cpu_s: f64, count: f64| (count > 0.0).then(|| cpu_s / count);
    let seen = brokers_cpu_s > 0.0;
    Cost {
        client_cpu_s,
        client_resident_bytes_max: client_residents.max().unwrap_or(0).max(to.client.resident_bytes),
        others_cpu_s: (busy_s - client_cpu_s - local_brokers_s).max(0.0),
        cores: facts.cores,
        broker_cpu_s_per_million: per(brokers_cpu_s, millions).filter(|_| seen),
        broker_cpu_s_per_gib: per(brokers_cpu_s, gib).filter(|_| seen),
        client_cpu_s_per_million: per(client_cpu_s, millions),
        brokers,
    }
}

fn verdict(facts: &Facts<'_>, tally: &Tally, flow: Option<Flow>, cost: &Cost, window_s: f64) -> Verdict {
    let Facts { load, watched, produced, .. } = facts;
    let settings = load.producer_settings().unwrap_or_default();
    let flow = flow.unwrap_or_default();
    let requests = produced.requests();
    let records = produced.total().0.records;
    let in_cores = |cpu_s: f64| if window_s > 0.0 { cpu_s / window_s } else { 0.0 };
    let busiest = cost.brokers.iter().map(|broker| in_cores(broker.cpu_s)).fold(0.0, f64::max);
    let cores = f64::from(cost.cores.max(1));
    let broker_cores = facts.limits.and_then(|limits| limits.cpus).map_or(cores, |cpus| cpus.min(cores));
    let brokers_cpu = cost.brokers.iter().map(|broker| in_cores(broker.cpu_s)).sum();
    let host = watched.to.host.since(&watched.from.host);
    let mib_per_s = |bytes: u64| bytes as f64 / 1_048_576.0 / window_s.max(1e-9);
    let disk = facts.preflight.disk.as_ref().filter(|_| facts.is_local);
    let networks = facts.preflight.network.iter().filter(|network| network.target == facts.label && !facts.is_local);
    let has_producers = load.producers > 0;
    let is_long_enough = window_s >= CPU_WINDOW_S_MIN;
    let observation = Observation {
        target_records_per_s: load.rate(),
        records_per_s: flow.records_per_s,
        record_bytes: if flow.records > 0 { flow.bytes as f64 / flow.records as f64 } else { 0.0 },
        mean_latency_s: (has_producers && tally.records > 0).then(|| tally.mean_us() / 1e6),
        producers: load.producers,
        consumers: load.consumers * load.consumer_groups.max(1),
        buffer_bytes: settings.buffer_bytes as f64,
        batch_bytes: settings.batch_bytes as f64,
        linger_s: settings.linger.as_secs_f64(),
        in_flight_slots: (settings.in_flight_max * facts.brokers) as f64 * f64::from(load.producers.max(1)),
        records_per_batch: (requests.batches > 0).then(|| records as f64 / requests.batches as f64),
        records_per_request: (requests.requests > 0).then(|| records as f64 / requests.requests as f64),
        broker_cpu: (busiest > 0.0 && facts.is_local && is_long_enough).then(|| busiest / broker_cores),
        client: is_long_enough.then(|| ClientCpu {
            client: in_cores(cost.client_cpu_s),
            brokers: if facts.is_local { brokers_cpu } else { 0.0 },
            others: in_cores(cost.others_cpu_s),
            cores,
        }),
        throttled: in_cores(requests.throttled.as_secs_f64()) / f64::from(load.producers.max(1)),
        disk: disk.map(|disk| mib_per_s(host.disk_written_bytes) / disk.write_mib_per_s.max(1e-9)),
        network: network_used(networks, mib_per_s(host.sent_bytes), mib_per_s(host.received_bytes)),
        failures: produced.failures(),
        backlog_records: watched.seconds.last().map_or(0, |second| second.backlog_records),
    };
    let is_too_short = facts.is_interrupted && (window_s < JUDGED_S_MIN || !watched.has_warmed_up);
    let mut verdict = match is_too_short {
        true => Verdict::too_short(window_s),
        false => observation.verdict(),
    };
    if !watched.has_warmed_up {
        verdict.warnings.push("no record was given behind the warm-up; nothing is left out".to_owned());
    }
    if facts.is_interrupted {
        verdict.warnings.push("interrupted".to_owned());
    }
    verdict
}

/// The part of what the network was measured to carry, in the direction that is used more. The best way to a broker
/// stands for all: the machine's own interface has no more.
fn network_used<'a>(
    networks: impl Iterator<Item = &'a NetworkFacts>,
    sent_mib_per_s: f64,
    received_mib_per_s: f64,
) -> Option<f64> {
    let (mut up, mut down) = (0.0, 0.0);
    for network in networks {
        up = network.upload_mib_per_s.max(up);
        down = network.download_mib_per_s.unwrap_or(0.0).max(down);
    }
    let used = |(rate, carries): (f64, f64)| (carries > 0.0).then(|| rate / carries);
    [(sent_mib_per_s, up), (received_mib_per_s, down)].into_iter().filter_map(used).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_of_the_network_is_judged_by_its_own_rate() {
        let way = |upload_mib_per_s, download_mib_per_s| NetworkFacts {
            target: "kafka:9092".to_owned(),
            broker: 1,
            round_trip_p50_us: 50,
            round_trip_p99_us: 90,
            upload_mib_per_s,
            download_mib_per_s,
        };
        let ways = [way(100.0, Some(400.0)), way(80.0, Some(300.0))];
        assert_eq!(network_used(ways.iter(), 90.0, 200.0), Some(0.9));
        assert_eq!(network_used(ways.iter(), 10.0, 380.0), Some(0.95));
        // Nothing says how much may come in.
        assert_eq!(network_used([way(100.0, None)].iter(), 10.0, 380.0), Some(0.1));
        assert_eq!(network_used([].iter(), 10.0, 380.0), None);
    }
}
