//! How long something took, in a few fixed buckets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in nanoseconds; what took longer than the last is in a bucket behind them.
const BOUNDS_NS: [u64; 16] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
];

#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

/// A histogram at one moment.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    /// The upper bound in seconds of each bucket, and what is in it alone.
    pub buckets: Vec<(f64, u64)>,
    pub count: u64,
    pub sum_seconds: f64,
}

impl Histogram {
    pub fn observe(&self, took: Duration) {
        self.add(1, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// So many that took as long.
    pub fn add(&self, times: u64, ns: u64) {
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < ns);
        self.buckets[bucket].fetch_add(times, Ordering::Relaxed);
        if ns > 0 {
            self.sum_ns.fetch_add(ns.saturating_mul(times), Ordering::Relaxed);
        }
    }

    pub fn snapshot(&self) -> Snapshot {
        let bounds = BOUNDS_NS.iter().map(|ns| Duration::from_nanos(*ns).as_secs_f64()).chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<_> = bounds.zip(counts).collect();
        // Counted from the buckets, so that the last of them never disagrees.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum_seconds = Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed)).as_secs_f64();
        Snapshot { buckets, count, sum_seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_what_took_no_longer_than_its_bound() {
        let histogram = Histogram::default();
        for took_us in [1, 50, 51, 10_000_000, 10_000_001] {
            histogram.observe(Duration::from_micros(took_us));
        }
        histogram.add(3, 100_000);
        let Snapshot { buckets, count, sum_seconds } = histogram.snapshot();
        let filled: Vec<_> = buckets.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0.000_05, 2), (0.000_1, 4), (10.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((count, sum_seconds), (8, 20.000_403));
    }
}
