//! The lines that Kafka's perf tools print, to the letter.

use std::time::Duration;

use lab::Tally;

fn ms(us: u64) -> u64 {
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
}
