//! The results of records: counts, latencies, errors, of a window and of the whole run.
//!
//! Latency is kept in microseconds in HDR histograms, all of it and not a sample.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::metrics::{BatchFacts, ProducerMetrics};

/// The longest latency that is distinguished, in microseconds: an hour.
const LATENCY_US_MAX: u64 = 3_600_000_000;
/// Latencies are right to a tenth of a percent.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Counts and latencies of some records.
#[derive(Clone)]
pub struct Tally {
    pub records: u64,
    pub bytes: u64,
    /// In microseconds.
    pub latency: Histogram<u64>,
    latency_sum_us: u128,
    latency_max_us: u64,
}

impl Default for Tally {
    fn default() -> Self {
        let latency = Histogram::new_with_bounds(1, LATENCY_US_MAX, SIGNIFICANT_DIGITS);
        let latency = latency.expect("the bounds are in order");
        Self { records: 0, bytes: 0, latency, latency_sum_us: 0, latency_max_us: 0 }
    }
}

impl Tally {
    /// Counts a record.
    pub fn record(&mut self, latency_us: u64, bytes: u64) {
        self.record_many(1, latency_us, bytes);
    }

    /// Counts records of one latency that have so many bytes together.
    pub(crate) fn record_many(&mut self, records: u64, latency_us: u64, bytes: u64) {
        self.records += records;
        self.bytes += bytes;
        self.latency.saturating_record_n(latency_us, records);
        self.latency_sum_us += u128::from(latency_us) * u128::from(records);
        self.latency_max_us = self.latency_max_us.max(latency_us);
    }

    /// Counts what another has counted.
    pub fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.latency.add(&other.latency).expect("both have the same bounds");
        self.latency_sum_us += other.latency_sum_us;
        self.latency_max_us = self.latency_max_us.max(other.latency_max_us);
    }

    fn clear(&mut self) {
        (self.records, self.bytes, self.latency_sum_us, self.latency_max_us) = (0, 0, 0, 0);
        self.latency.reset();
    }

    pub fn mean_us(&self) -> f64 {
        if self.records == 0 { 0.0 } else { self.latency_sum_us as f64 / self.records as f64 }
    }

    pub fn max_us(&self) -> u64 {
        self.latency_max_us
    }

    pub fn quantile_us(&self, quantile: f64) -> u64 {
        self.latency.value_at_quantile(quantile)
    }
}

/// A record that was sent and is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// From when its latency counts, in microseconds since the start.
    pub(crate) at_us: u64,
    pub(crate) bytes: u32,
    pub(crate) is_warm_up: bool,
}

/// A batch whose records count alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentBatch {
    pub(crate) at_us: u64,
    pub(crate) records: u64,
    /// Of all values.
    pub(crate) bytes: u64,
    pub(crate) is_warm_up: bool,
}

/// Shared by the producers of a run and its display.
pub struct Stats {
    started: Instant,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    window: Tally,
    /// Without the window.
    total: Tally,
    steady: Tally,
    /// When the first record behind the warm-up was sent, and the last one answered; in microseconds since the start.
    steady_us: Option<(u64, u64)>,
    last_answer_us: u64,
    failed: BTreeMap<String, u64>,
    /// Transactions that were committed behind the warm-up.
    commits: Tally,
    requests: Requests,
    metrics: ProducerMetrics,
}

/// Requests that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub requests: u64,
    /// Of one partition each.
    pub batches: u64,
    /// How long brokers have throttled requests, because of a quota.
    pub throttled: Duration,
}

impl Stats {
    /// The clock of the run starts now.
    pub fn start() -> Self {
        Self { started: Instant::now(), inner: Mutex::default() }
    }

    /// Microseconds since the start.
    pub(crate) fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    pub(crate) fn acknowledged(&self, sent: &[Sent]) {
        let now_us = self.now_us();
        let mut inner = self.inner.lock();
        let Inner { window, steady, steady_us, last_answer_us, .. } = &mut *inner;
        *last_answer_us = now_us;
        for record in sent {
            let latency_us = now_us.saturating_sub(record.at_us);
            window.record(latency_us, u64::from(record.bytes));
            if !record.is_warm_up {
                steady.record(latency_us, u64::from(record.bytes));
                let (_, last) = steady_us.get_or_insert((record.at_us, now_us));
                *last = now_us;
            }
        }
    }

    pub(crate) fn acknowledged_batch(&self, batch: SentBatch) {
        let SentBatch { at_us, records, bytes, is_warm_up } = batch;
        let now_us = self.now_us();
        let latency_us = now_us.saturating_sub(at_us);
        let mut inner = self.inner.lock();
        inner.last_answer_us = now_us;
        inner.window.record_many(records, latency_us, bytes);
        if !is_warm_up {
            inner.steady.record_many(records, latency_us, bytes);
            inner.steady_us.get_or_insert((at_us, now_us)).1 = now_us;
        }
    }

    /// A request was sent.
    pub(crate) fn requested(&self, batches: impl Iterator<Item = BatchFacts>) {
        self.inner.lock().metrics.requested(batches);
    }

    /// A batch was split in two.
    pub(crate) fn split(&self) {
        self.inner.lock().metrics.split_batches += 1;
    }

    /// A transaction was committed, which took so long.
    pub(crate) fn committed(&self, took: Duration, is_warm_up: bool) {
        let took_us = took.as_micros() as u64;
        let mut inner = self.inner.lock();
        inner.metrics.commit_us.count(took_us);
        if !is_warm_up {
            inner.commits.record(took_us, 0);
        }
    }

    /// Transactions that were committed behind the warm-up, and how long that took each.
    pub(crate) fn commits(&self) -> Tally {
        self.inner.lock().commits.clone()
    }

    /// A request with so many batches was answered; `throttle_time_ms` as the broker has it.
    pub(crate) fn answered(&self, batches: usize, latency: Duration, throttle_time_ms: i32) {
        let mut inner = self.inner.lock();
        inner.metrics.latency_us.count(latency.as_micros() as u64);
        inner.metrics.throttle_ms.count(throttle_time_ms.max(0) as u64);
        inner.requests.requests += 1;
        inner.requests.batches += batches as u64;
        inner.requests.throttled += Duration::from_millis(throttle_time_ms.max(0) as u64);
    }

    /// Requests were answered, of which no more is known.
    #[cfg(feature = "librdkafka")]
    pub(crate) fn counted(&self, requests: Requests) {
        let mut inner = self.inner.lock();
        inner.requests.requests += requests.requests;
        inner.requests.batches += requests.batches;
        inner.requests.throttled += requests.throttled;
    }

    pub(crate) fn failed(&self, records: usize, reason: &str) {
        let mut inner = self.inner.lock();
        match inner.failed.get_mut(reason) {
            Some(count) => *count += records as u64,
            None => _ = inner.failed.insert(reason.to_owned(), records as u64),
        }
    }

    /// What was answered since the last call.
    pub fn take_window(&self) -> Tally {
        let mut inner = self.inner.lock();
        let Inner { window, total, .. } = &mut *inner;
        total.add(window);
        let taken = window.clone();
        window.clear();
        taken
    }

    /// All that was answered, and how long it took from the start to the last answer.
    pub fn total(&self) -> (Tally, Duration) {
        let inner = self.inner.lock();
        let mut total = inner.total.clone();
        total.add(&inner.window);
        (total, Duration::from_micros(inner.last_answer_us))
    }

    /// What came behind the warm-up, and from its first record to its last answer.
    pub fn steady(&self) -> (Tally, Duration) {
        let inner = self.inner.lock();
        let (first, last) = inner.steady_us.unwrap_or_default();
        (inner.steady.clone(), Duration::from_micros(last.saturating_sub(first)))
    }

    /// All requests that were answered.
    pub fn requests(&self) -> Requests {
        self.inner.lock().requests
    }

    /// What the producers did underneath.
    pub fn metrics(&self) -> ProducerMetrics {
        self.inner.lock().metrics.clone()
    }

    /// How many records failed, by reason.
    pub fn failures(&self) -> BTreeMap<String, u64> {
        self.inner.lock().failed.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(at_us: u64, is_warm_up: bool) -> Sent {
        Sent { at_us, bytes: 100, is_warm_up }
    }

    #[tokio::test(start_paused = true)]
    async fn latencies_count_from_when_a_record_was_due_and_windows_add_up() {
        let stats = Stats::start();
        tokio::time::advance(Duration::from_millis(5)).await;
        stats.acknowledged(&[sent(1000, true), sent(3000, false)]);
        let window = stats.take_window();
        assert_eq!((window.records, window.bytes, window.mean_us(), window.max_us()), (2, 200, 3000.0, 4000));
        tokio::time::advance(Duration::from_millis(5)).await;
        stats.acknowledged(&[sent(9000, false)]);
        assert_eq!(stats.take_window().records, 1);
        let (total, elapsed) = stats.total();
        assert_eq!((total.records, elapsed), (3, Duration::from_millis(10)));
        let (steady, elapsed) = stats.steady();
        assert_eq!((steady.records, elapsed), (2, Duration::from_millis(7)));
        assert_eq!(steady.mean_us(), 1500.0);
    }

    #[test]
    fn commits_of_the_warm_up_are_left_out() {
        let stats = Stats::start();
        stats.committed(Duration::from_millis(90), true);
        stats.committed(Duration::from_millis(4), false);
        assert_eq!((stats.commits().records, stats.commits().max_us()), (1, 4000));
        assert_eq!(stats.metrics().commit_us.count, 2);
    }

    #[test]
    fn failures_are_counted_by_reason() {
        let stats = Stats::start();
        stats.failed(3, "REQUEST_TIMED_OUT");
        stats.failed(4, "REQUEST_TIMED_OUT");
        stats.failed(1, "other");
        assert_eq!(stats.failures().into_values().collect::<Vec<_>>(), [7, 1]);
    }
}
