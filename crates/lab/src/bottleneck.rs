//! What limited a run, by rules that are written down here and in docs/lab.md.
//!
//! The rules look at what a run shows from outside, so that they can judge figures which others have published as
//! well as our own: a report without CPU figures is judged by the rules that need none.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A rate counts as reached from this part of it on.
const RATE_REACHED: f64 = 0.98;
/// The buffer counts as full all the time from this part on: a producer that just fills it waits a little less.
const BUFFER_FULL: f64 = 0.6;
/// A broker, or a machine, that is busier than this is saturated.
const CPU_EXHAUSTED: f64 = 0.8;
const MACHINE_EXHAUSTED: f64 = 0.9;
/// A producer or consumer is one task, which cannot use more than one core.
const TASK_EXHAUSTED: f64 = 0.85;
/// Of what the disk or the network was measured to carry.
const CARRIES: f64 = 0.8;
/// Others that use more than this part of the machine have taken part in the run.
const DISTURBING: f64 = 0.15;
/// Others that use more than this part have limited it.
const OVERWHELMING: f64 = 0.4;
/// Fewer records in a batch than this, and the producer waits for answers, not for records.
const LONE_RECORDS: f64 = 2.0;
/// Latency within this factor of `linger.ms` is the linger.
const LINGER_FACTOR: f64 = 1.5;
/// The part of a run's time that brokers had the client wait because of a quota.
const THROTTLED: f64 = 0.05;
/// What Kafka adds to a lone record in a batch: headers of batch and record.
const BATCH_OVERHEAD_BYTES: f64 = 70.0;

#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The rate that was asked for; what it could carry is not known.
    TargetRate,
    ClientCpu,
    /// `buffer.memory` is full all the time; latency is its size over the throughput.
    ClientBuffer,
    /// Requests of few records, as many under way as may be: the round trip sets the rate.
    InFlightWindow,
    Linger,
    BrokerCpu,
    Disk,
    Network,
    Quota,
    /// Other processes of the machine.
    Noise,
    /// No limit was reached, or the figures do not show it.
    Unknown,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TargetRate => "target rate",
            Self::ClientCpu => "client CPU",
            Self::ClientBuffer => "client buffer",
            Self::InFlightWindow => "in-flight window",
            Self::Linger => "linger",
            Self::BrokerCpu => "broker CPU",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Quota => "quota",
            Self::Noise => "noise",
            Self::Unknown => "unknown",
        })
    }
}

/// What limited a run, and why we say so.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Verdict {
    pub limit: Limit,
    /// A sentence with the figures that decided.
    pub evidence: String,
    /// Whether more was offered than was carried: then latency says how long the queue was, and is no headline.
    pub is_saturated: bool,
    /// What else a reader has to know: disturbances, errors.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// Of a run that ended before it could show anything.
    pub(crate) fn too_short(seconds: f64) -> Self {
        let evidence = format!("it was stopped after {seconds:.1} s, which is too early to judge");
        Self { limit: Limit::Unknown, evidence, is_saturated: false, warnings: Vec::new() }
    }
}

/// What is known of a run. What is not known is `None`, or 0 where that means the same.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    pub target_records_per_s: Option<f64>,
    pub records_per_s: f64,
    /// Values only.
    pub record_bytes: f64,
    pub mean_latency_s: Option<f64>,
    pub producers: u32,
    /// Of all groups.
    pub consumers: u32,
    /// `buffer.memory` of one producer.
    pub buffer_bytes: f64,
    pub batch_bytes: f64,
    pub linger_s: f64,
    /// `max.in.flight.requests.per.connection` times the brokers that are sent to.
    pub in_flight_slots: f64,
    /// Records in one batch, and in one request, which has a batch for each partition; where they were counted.
    pub records_per_batch: Option<f64>,
    pub records_per_request: Option<f64>,
    /// The busiest broker, as a part of its machine.
    pub broker_cpu: Option<f64>,
    pub client: Option<ClientCpu>,
    /// Of the time of the run.
    pub throttled: f64,
    /// What was written to the disk, as a part of what the disk was measured to carry.
    pub disk: Option<f64>,
    /// The same of the network.
    pub network: Option<f64>,
    /// Records that were not delivered, by reason.
    pub failures: BTreeMap<String, u64>,
    /// Records that were acknowledged and not consumed when the producers ended.
    pub backlog_records: u64,
}

/// CPU of the machine that put the load, in cores.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientCpu {
    pub client: f64,
    /// Brokers on the same machine.
    pub brokers: f64,
    pub others: f64,
    pub cores: f64,
}

impl Observation {
    /// The part of its buffer that a producer uses on average: what waits is rate times latency (Little's law).
    fn buffer_used(&self) -> Option<f64> {
        let producers = f64::from(self.producers.max(1));
        let waiting = self.mean_latency_s? * self.records_per_s * self.record_bytes;
        (self.buffer_bytes > 0.0).then(|| waiting / (self.buffer_bytes * producers))
    }

    fn rate_reached(&self) -> Option<f64> {
        self.target_records_per_s.map(|target| self.records_per_s / target)
    }

    /// Counted, or what fits at least.
    fn records_per_batch(&self) -> f64 {
        let fits = (self.batch_bytes / (self.record_bytes + BATCH_OVERHEAD_BYTES)).floor().max(1.0);
        self.records_per_batch.unwrap_or(fits)
    }

    /// The first rule that holds decides.
    pub fn verdict(&self) -> Verdict {
        let (limit, evidence) = self.limit();
        let is_saturated = match limit {
            Limit::TargetRate | Limit::Linger => false,
            // Without a rate it went as fast as it could, whatever held it up.
            Limit::Unknown => self.rate_reached().is_none_or(|reached| reached < RATE_REACHED),
            _ => true,
        };
        Verdict { limit, evidence, is_saturated, warnings: self.warnings() }
    }

    fn limit(&self) -> (Limit, String) {
        let percent = |part: f64| part * 100.0;
        if let (Some(target), Some(reached)) = (self.target_records_per_s, self.rate_reached())
            && reached >= RATE_REACHED
        {
            let text = format!(
                "{:.1} % of the {target:.0} records/s that were asked for; it may carry more",
                percent(reached)
            );
            return (Limit::TargetRate, text);
        }
        if let Some(ClientCpu { others, cores, .. }) = self.client
            && others > OVERWHELMING * cores
        {
            return (Limit::Noise, format!("other processes used {others:.1} of the machine's {cores:.0} cores"));
        }
        if self.throttled > THROTTLED {
            return (
                Limit::Quota,
                format!("brokers had the client wait for {:.0} % of the time", percent(self.throttled)),
            );
        }
        if let Some(busy) = self.broker_cpu
            && busy >= CPU_EXHAUSTED
        {
            return (Limit::BrokerCpu, format!("the busiest broker used {:.0} % of its cores", percent(busy)));
        }
        if let Some(found) = self.cpu_limit() {
            return found;
        }
        if let Some(used) = self.disk.filter(|&used| used >= CARRIES) {
            let text = format!("the disk wrote {:.0} % of what it was measured to carry", percent(used));
            return (Limit::Disk, text);
        }
        if let Some(used) = self.network.filter(|&used| used >= CARRIES) {
            let text = format!("the network carried {:.0} % of what it was measured to carry", percent(used));
            return (Limit::Network, text);
        }
        self.client_limit()
    }

    /// CPU that client and brokers share, or that one producer has used up.
    fn cpu_limit(&self) -> Option<(Limit, String)> {
        let ClientCpu { client, brokers, others, cores } = self.client?;
        if client + brokers + others >= MACHINE_EXHAUSTED * cores {
            let limit = if brokers > client { Limit::BrokerCpu } else { Limit::ClientCpu };
            let text = format!(
                "client ({client:.1}) and brokers ({brokers:.1}) share a machine of {cores:.0} cores and have used it up"
            );
            return Some((limit, text));
        }
        let tasks = f64::from(self.producers + self.consumers);
        if tasks > 0.0 && tasks < cores && client >= TASK_EXHAUSTED * tasks {
            let text = format!(
                "clients used {client:.1} cores; {} producers and {} consumers can use one each",
                self.producers, self.consumers
            );
            return Some((Limit::ClientCpu, text));
        }
        None
    }

    /// Limits of the producer's own settings.
    fn client_limit(&self) -> (Limit, String) {
        let Some(mean_latency_s) = self.mean_latency_s else {
            return (Limit::Unknown, "nothing that was measured had run out".to_owned());
        };
        let used = self.buffer_used().unwrap_or(0.0);
        let records_per_batch = self.records_per_batch();
        if used >= BUFFER_FULL && records_per_batch < LONE_RECORDS {
            let requests_per_s = self.records_per_s / self.records_per_request.unwrap_or(records_per_batch);
            let text = format!(
                "batches of {records_per_batch:.1} records and a full buffer: {:.0} requests under way at a time, \
                 {:.2} ms each; the latency is the wait before them",
                self.in_flight_slots,
                self.in_flight_slots / requests_per_s * 1000.0
            );
            return (Limit::InFlightWindow, text);
        }
        if used >= BUFFER_FULL {
            let text = format!(
                "{:.0} % of buffer.memory was waiting all the time: latency is its size over the throughput",
                used * 100.0
            );
            return (Limit::ClientBuffer, text);
        }
        if self.linger_s > 0.0 && mean_latency_s <= self.linger_s * LINGER_FACTOR {
            let text = format!("latency is linger.ms ({:.0} ms), and nothing had run out", self.linger_s * 1000.0);
            return (Limit::Linger, text);
        }
        (Limit::Unknown, "nothing that was measured had run out".to_owned())
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (reason, records) in &self.failures {
            warnings.push(format!("{records} records were not delivered: {reason}"));
        }
        if let Some(ClientCpu { others, cores, .. }) = self.client
            && others > DISTURBING * cores
        {
            warnings.push(format!("disturbed: other processes used {others:.1} of the machine's {cores:.0} cores"));
        }
        if self.backlog_records as f64 > self.records_per_s {
            warnings.push(format!("consumers were {} records behind when producers ended", self.backlog_records));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A producer whose buffer is full of full batches, on a machine that is not busy.
    fn buffer_bound() -> Observation {
        Observation {
            records_per_s: 50_000.0,
            record_bytes: 1024.0,
            mean_latency_s: Some(0.6),
            producers: 1,
            buffer_bytes: 33_554_432.0,
            batch_bytes: 16_384.0,
            in_flight_slots: 15.0,
            client: Some(ClientCpu { client: 0.4, brokers: 0.3, others: 0.1, cores: 4.0 }),
            ..Observation::default()
        }
    }

    fn limit(observation: &Observation) -> Limit {
        observation.verdict().limit
    }

    #[test]
    fn a_full_buffer_is_told_from_lone_records() {
        let mut run = buffer_bound();
        assert_eq!((limit(&run), run.verdict().is_saturated), (Limit::ClientBuffer, true));
        run.records_per_batch = Some(1.3);
        assert_eq!(limit(&run), Limit::InFlightWindow);
        let run = Observation { batch_bytes: 1024.0, ..buffer_bound() };
        assert_eq!(limit(&run), Limit::InFlightWindow);
        // Two producers have two buffers.
        let run = Observation { producers: 4, ..buffer_bound() };
        assert_eq!((limit(&run), run.verdict().is_saturated), (Limit::Unknown, true));
    }

    #[test]
    fn a_rate_that_was_reached_limits_and_does_not_saturate() {
        let run = Observation { target_records_per_s: Some(50_100.0), ..buffer_bound() };
        assert_eq!((limit(&run), run.verdict().is_saturated), (Limit::TargetRate, false));
        let run = Observation { target_records_per_s: Some(60_000.0), mean_latency_s: Some(0.01), ..buffer_bound() };
        assert_eq!((limit(&run), run.verdict().is_saturated), (Limit::Unknown, true));
    }

    #[test]
    fn what_has_run_out_comes_before_what_the_client_sees_of_it() {
        let cpu = |client, brokers, others| Some(ClientCpu { client, brokers, others, cores: 4.0 });
        for (expected, run) in [
            (Limit::BrokerCpu, Observation { broker_cpu: Some(0.86), ..buffer_bound() }),
            (Limit::BrokerCpu, Observation { client: cpu(1.5, 2.2, 0.0), producers: 4, ..buffer_bound() }),
            (Limit::ClientCpu, Observation { client: cpu(2.2, 1.5, 0.0), producers: 4, ..buffer_bound() }),
            (Limit::ClientCpu, Observation { client: cpu(0.95, 0.5, 0.0), ..buffer_bound() }),
            (Limit::Noise, Observation { client: cpu(1.0, 1.0, 2.0), ..buffer_bound() }),
            (Limit::Quota, Observation { throttled: 0.5, ..buffer_bound() }),
            (Limit::Disk, Observation { disk: Some(0.9), ..buffer_bound() }),
            (Limit::Network, Observation { network: Some(0.85), ..buffer_bound() }),
            (Limit::Linger, Observation { mean_latency_s: Some(0.006), linger_s: 0.005, ..buffer_bound() }),
            (Limit::Unknown, Observation { mean_latency_s: None, ..buffer_bound() }),
        ] {
            assert_eq!(limit(&run), expected, "{run:?}");
        }
    }

    #[test]
    fn disturbances_and_failures_are_said() {
        let client = Some(ClientCpu { client: 0.4, brokers: 0.3, others: 0.8, cores: 4.0 });
        let failures = BTreeMap::from([("REQUEST_TIMED_OUT".to_owned(), 7)]);
        let run = Observation { failures, backlog_records: 1_000_000, client, ..buffer_bound() };
        let warnings = run.verdict().warnings;
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(warnings[0].starts_with("7 records") && warnings[1].starts_with("disturbed"));
        assert!(buffer_bound().verdict().warnings.is_empty());
    }
}
