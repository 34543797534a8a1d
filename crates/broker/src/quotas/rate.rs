//! A rate over windows, and for how long one that is too high has to wait (Kafka's `Rate` in windowed mode, and
//! `QuotaUtils.throttleTime`).

use super::samples::Samples;

#[derive(Debug)]
pub struct Rate {
    samples: Samples,
}

impl Rate {
    pub fn new(windows_max: i32, window_seconds: i32) -> Self {
        Self { samples: Samples::new(windows_max, window_seconds) }
    }

    /// Counts an amount. Returns for how many ms nothing may follow for the rate to be `quota` again.
    pub fn record(&mut self, amount: f64, quota: f64, now_ms: i64) -> f64 {
        self.samples.record(amount, now_ms);
        self.wait_ms(quota, now_ms)
    }

    /// The same, unless the rate would be too high: then nothing is counted. What is larger than all windows may hold
    /// is let through where nothing else is counted. It would wait for ever.
    pub fn try_record(&mut self, amount: f64, quota: f64, now_ms: i64) -> Result<f64, f64> {
        let (before, _) = self.samples.sum(now_ms);
        let wait_ms = self.record(amount, quota, now_ms);
        if wait_ms > 0.0 && before > 0.0 {
            self.samples.record(-amount, now_ms);
            return Err(wait_ms);
        }
        Ok(wait_ms)
    }

    fn wait_ms(&mut self, quota: f64, now_ms: i64) -> f64 {
        let (sum, elapsed_ms) = self.samples.sum(now_ms);
        let elapsed_ms = self.counted_ms(elapsed_ms) as f64;
        let rate = sum * 1000.0 / elapsed_ms;
        if rate > quota { ((rate - quota) / quota * elapsed_ms).round() } else { 0.0 }
    }

    /// All windows but the last count as if they were over, so that a first burst is no rate.
    fn counted_ms(&self, elapsed_ms: i64) -> i64 {
        let window_ms = self.samples.window_ms();
        let missing = (self.samples.windows_max() - 1 - elapsed_ms / window_ms).max(0);
        (elapsed_ms + missing * window_ms).max(window_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_waits_as_long_as_in_kafka() {
        let mut rate = Rate::new(11, 1);
        // Written by org.apache.kafka.common.metrics.stats.Rate with a quota of 1000.
        for (now_ms, amount, wait_ms) in [
            (100_000, 5000.0, 0.0),
            (100_000, 7000.0, 2000.0),
            (100_400, 500.0, 2100.0),
            (101_200, 3000.0, 5300.0),
            (105_999, 4000.0, 8501.0),
            (110_100, 9000.0, 18400.0),
            (111_000, 1.0, 17501.0),
            (111_500, 1.0, 5702.0),
            (112_100, 2500.0, 7602.0),
            (117_000, 100.0, 702.0),
            (140_000, 20000.0, 10000.0),
            (140_001, 1.0, 10000.0),
        ] {
            assert_eq!(rate.record(amount, 1000.0, now_ms), wait_ms, "{now_ms}");
        }
    }

    #[test]
    fn what_is_refused_does_not_count() {
        let mut rate = Rate::new(11, 1);
        assert_eq!(rate.try_record(9000.0, 1000.0, 0), Ok(0.0));
        assert_eq!(rate.try_record(2000.0, 1000.0, 0), Err(1000.0));
        assert_eq!(rate.try_record(1000.0, 1000.0, 0), Ok(0.0));
        assert_eq!(rate.try_record(50_000.0, 1000.0, 20_000), Ok(40_000.0));
        assert_eq!(rate.try_record(1.0, 1000.0, 20_000), Err(40_001.0));
    }
}
