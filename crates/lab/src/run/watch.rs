//! Samples a case while it runs: once a second, and at the ends of the measured time.

use std::process;

use tokio::time::Instant;

use crate::consume::ConsumeStats;
use crate::proc_probe::{HostSample, ProcessSample, sample_host, sample_process};
use crate::result::{BrokerCost, Second};
use crate::stats::{Stats, Tally};
use crate::target::Target;

const MIB: f64 = 1_048_576.0;

/// The ends of what is measured, and the seconds between.
pub(super) struct Watched {
    pub(super) seconds: Vec<Second>,
    /// The end of the warm-up; the start where it was all over before.
    pub(super) from: Moment,
    /// When producers had their last answer, or consumers without any had read enough.
    pub(super) to: Moment,
    pub(super) has_warmed_up: bool,
}

/// All counters at one moment.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) at: Instant,
    pub(super) client: ProcessSample,
    /// `None` for a process that cannot be seen (any more).
    pub(super) brokers: Vec<Option<ProcessSample>>,
    pub(super) host: HostSample,
    /// Of all groups together.
    pub(super) consumed_records: u64,
    pub(super) consumed_bytes: u64,
}

/// What to sample.
pub(super) struct Watch<'a> {
    pub(super) produced: &'a Stats,
    pub(super) consumed: &'a ConsumeStats,
    pub(super) target: &'a Target,
    /// How often each record is read.
    pub(super) readers: u64,
    pub(super) has_producers: bool,
    pub(super) has_consumers: bool,
}

impl Watch<'_> {
    pub(super) fn now(&self) -> Moment {
        let consumed = self.consumed.consumed();
        Moment {
            at: Instant::now(),
            client: sample_process(process::id()).unwrap_or_default(),
            brokers: self.target.sample_brokers(),
            host: sample_host().unwrap_or_default(),
            consumed_records: consumed.records,
            consumed_bytes: consumed.bytes,
        }
    }

    /// What has happened from one moment to the next. `window` is what was acknowledged in between, `produced` what was
    /// acknowledged in all, `failed` what has failed since.
    pub(super) fn second(&self, from: &Moment, to: &Moment, window: &Tally, produced: u64, failed: u64) -> Second {
        let seconds = (to.at - from.at).as_secs_f64().max(1e-9);
        let consumed_records = to.consumed_records - from.consumed_records;
        let consumed_bytes = to.consumed_bytes - from.consumed_bytes;
        let host = to.host.since(&from.host);
        let read = to.consumed_records / self.readers.max(1);
        Second {
            at_s: 0.0,
            is_warm_up: false,
            produced_records_per_s: window.records as f64 / seconds,
            produced_mib_per_s: window.bytes as f64 / MIB / seconds,
            consumed_records_per_s: consumed_records as f64 / seconds,
            consumed_mib_per_s: consumed_bytes as f64 / MIB / seconds,
            latency_mean_us: window.mean_us(),
            latency_p50_us: window.quantile_us(0.5).min(window.max_us()),
            latency_p99_us: window.quantile_us(0.99).min(window.max_us()),
            latency_max_us: window.max_us(),
            failed_records: failed,
            backlog_records: if self.has_producers && self.has_consumers { produced.saturating_sub(read) } else { 0 },
            client_cpu: (to.client.cpu.saturating_sub(from.client.cpu)).as_secs_f64() / seconds,
            broker_cpu: broker_costs(from, to).iter().map(|cost| cost.cpu_s / seconds).collect(),
            broker_resident_bytes: to
                .brokers
                .iter()
                .map(|sample| sample.as_ref().map_or(0, |s| s.resident_bytes))
                .collect(),
            client_resident_bytes: to.client.resident_bytes,
            host_cpu: host.busy.as_secs_f64() / seconds,
            disk_written_mib_per_s: host.disk_written_bytes as f64 / MIB / seconds,
            network_mib_per_s: (host.received_bytes + host.sent_bytes) as f64 / MIB / seconds,
        }
    }
}

/// What each broker has taken in between, in the order of the samples; `resident_bytes_max` is that of the later
/// moment.
pub(super) fn broker_costs(from: &Moment, to: &Moment) -> Vec<BrokerCost> {
    let pairs = from.brokers.iter().zip(&to.brokers);
    let cost = |pair: (&Option<ProcessSample>, &Option<ProcessSample>)| match pair {
        (Some(from), Some(to)) => BrokerCost {
            id: None,
            cpu_s: to.cpu.saturating_sub(from.cpu).as_secs_f64(),
            resident_bytes_max: to.resident_bytes,
            disk_read_bytes: to.read_bytes.saturating_sub(from.read_bytes),
            disk_written_bytes: to.written_bytes.saturating_sub(from.written_bytes),
        },
        _ => BrokerCost::default(),
    };
    pairs.map(cost).collect()
}
