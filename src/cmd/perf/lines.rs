//! The lines that Kafka's perf tools print, to the letter.

use std::time::Duration;

use lab::{Consumed, Tally};

use crate::cmd::time;

pub(super) fn ms(us: u64) -> u64 {
    (us + 500) / 1000
}

fn rates(tally: &Tally, elapsed: Duration) -> (f64, f64) {
    let seconds = elapsed.as_secs_f64().max(1e-6);
    (tally.records as f64 / seconds, tally.bytes as f64 / seconds / (1024.0 * 1024.0))
}

/// What was acknowledged since the line before (`ProducerPerformance.Stats.printWindow`).
pub(super) fn window(tally: &Tally, elapsed: Duration) -> String {
    let (records, mib) = rates(tally, elapsed);
    format!(
        "{} records sent, {records:.1} records/sec ({mib:.2} MB/sec), {:.1} ms avg latency, {:.1} ms max latency.\n",
        tally.records,
        tally.mean_us() / 1000.0,
        ms(tally.max_us()) as f64,
    )
}

/// The sum of the run, or of what came behind the warm-up (`ProducerPerformance.Stats.printTotal`).
pub(super) fn total(tally: &Tally, elapsed: Duration, is_steady: bool) -> String {
    let (records, mib) = rates(tally, elapsed);
    let [p50, p95, p99, p999] = [0.5, 0.95, 0.99, 0.999].map(|quantile| ms(tally.quantile_us(quantile)));
    format!(
        "{}{} records sent, {records:.6} records/sec ({mib:.2} MB/sec), {:.2} ms avg latency, {:.2} ms max latency, \
         {p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th.\n",
        tally.records,
        if is_steady { " steady state" } else { "" },
        tally.mean_us() / 1000.0,
        ms(tally.max_us()) as f64,
    )
}

/// The names of the columns (`ConsumerPerformance.printHeader`).
pub(super) fn consumer_header(is_detailed: bool) -> &'static str {
    if is_detailed {
        "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, \
         fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
    } else {
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, \
         fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}

/// By what rates are divided; never 0.
fn seconds(time: Duration) -> f64 {
    time.as_secs_f64().max(1e-3)
}

/// As `SimpleDateFormat("yyyy-MM-dd HH:mm:ss:SSS")` writes it, in UTC.
fn date(ms: i64) -> String {
    time::format_time(ms).replace('T', " ").replace('.', ":").replace('Z', "")
}

/// The sum of the run.
pub(super) fn consumer_total(started_ms: i64, consumed: Consumed, elapsed: Duration) -> String {
    let Consumed { records, bytes, joining } = consumed;
    let fetching = elapsed.saturating_sub(joining);
    format!(
        "{}, {}, {:.4}, {:.4}, {records}, {:.4}, {}, {}, {:.4}, {:.4}\n",
        date(started_ms),
        date(started_ms + elapsed.as_millis() as i64),
        mib(bytes),
        mib(bytes) / seconds(elapsed),
        records as f64 / seconds(elapsed),
        joining.as_millis(),
        fetching.as_millis(),
        mib(bytes) / seconds(fetching),
        records as f64 / seconds(fetching),
    )
}

/// What has come since the line before: sums so far, rates of the interval.
pub(super) fn consumer_window(now_ms: i64, before: Consumed, now: Consumed, elapsed: Duration) -> String {
    let new = now.since(before);
    let joining = new.joining.min(elapsed);
    let fetching = elapsed - joining;
    let (new_mib, new_records) = (mib(new.bytes), new.records as f64);
    format!(
        "{}, 0, {:.4}, {:.4}, {}, {:.4}, {}, {}, {:.4}, {:.4}\n",
        date(now_ms),
        mib(now.bytes),
        new_mib / seconds(elapsed),
        now.records,
        new_records / seconds(elapsed),
        joining.as_millis(),
        fetching.as_millis(),
        new_mib / seconds(fetching),
        new_records / seconds(fetching),
    )
}

/// The sum of one record at a time (`EndToEndLatency`).
pub(super) fn end_to_end(tally: &Tally) -> String {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| tally.quantile_us(quantile) / 1000);
    format!(
        "Avg latency: {:.4} ms\nPercentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}\n",
        tally.mean_us() / 1000.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        let mut tally = Tally::default();
        (1..=1000).for_each(|n| tally.record(n * 1000, 1024));
        tally
    }

    /// Against lines of kafka-producer-perf-test.sh of Kafka 4.3.1.
    #[test]
    fn they_are_kafkas() {
        let elapsed = Duration::from_millis(2500);
        assert_eq!(
            window(&tally(), elapsed),
            "1000 records sent, 400.0 records/sec (0.39 MB/sec), 500.5 ms avg latency, 1000.0 ms max latency.\n"
        );
        assert_eq!(
            total(&tally(), elapsed, true),
            "1000 steady state records sent, 400.000000 records/sec (0.39 MB/sec), 500.50 ms avg latency, \
             1000.00 ms max latency, 500 ms 50th, 950 ms 95th, 990 ms 99th, 999 ms 99.9th.\n"
        );
    }

    /// Against lines of kafka-e2e-latency.sh of Kafka 4.3.1.
    #[test]
    fn end_to_end_is_kafkas() {
        assert_eq!(
            end_to_end(&tally()),
            "Avg latency: 500.5000 ms\nPercentiles: 50th = 500, 99th = 990, 99.9th = 999\n"
        );
    }

    /// Against lines of kafka-consumer-perf-test.sh of Kafka 4.3.1.
    #[test]
    fn a_consumers_are_kafkas_too() {
        let before = Consumed { records: 1000, bytes: 1 << 20, joining: Duration::from_millis(500) };
        let now = Consumed { records: 3000, bytes: 3 << 20, joining: Duration::from_millis(500) };
        assert_eq!(
            consumer_total(1_700_000_000_123, now, Duration::from_millis(2500)),
            "2023-11-14 22:13:20:123, 2023-11-14 22:13:22:623, 3.0000, 1.2000, 3000, 1200.0000, 500, 2000, 1.5000, \
             1500.0000\n"
        );
        assert_eq!(
            consumer_window(1_700_000_000_000, before, now, Duration::from_secs(1)),
            "2023-11-14 22:13:20:000, 0, 3.0000, 2.0000, 3000, 2000.0000, 0, 1000, 2.0000, 2000.0000\n"
        );
    }
}
