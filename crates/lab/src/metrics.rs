//! The client metrics of producers and consumers, counted since the start.

use std::time::Duration;

/// How often something was counted, and how much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub count: u64,
    pub total: u64,
    pub max: u64,
}

impl Sum {
    pub(crate) fn count(&mut self, amount: u64) {
        self.count += 1;
        self.total += amount;
        self.max = self.max.max(amount);
    }

    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total as f64 / self.count as f64 }
    }
}

/// Of all producers of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerMetrics {
    /// Records of each request.
    pub requests: Sum,
    /// Bytes of each batch as it was sent.
    pub batches: Sum,
    /// The same before compression.
    pub plain_bytes: u64,
    /// From when a batch was begun until it was sent first.
    pub queue_us: Sum,
    /// From a request to its answer.
    pub latency_us: Sum,
    pub throttle_ms: Sum,
    pub retried_records: u64,
    pub split_batches: u64,
    /// Each from its last record on.
    pub commit_us: Sum,
}

/// A batch as it was sent.
pub(crate) struct BatchFacts {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    pub(crate) plain_bytes: usize,
    /// How long it had waited.
    pub(crate) queued: Duration,
    pub(crate) is_retry: bool,
}

impl ProducerMetrics {
    pub(crate) fn requested(&mut self, batches: impl Iterator<Item = BatchFacts>) {
        let mut sum = 0;
        for batch in batches {
            let records = batch.records as u64;
            sum += records;
            self.batches.count(batch.bytes as u64);
            self.plain_bytes += batch.plain_bytes as u64;
            if batch.is_retry {
                self.retried_records += records;
            } else {
                self.queue_us.count(batch.queued.as_micros() as u64);
            }
        }
        self.requests.count(sum);
    }
}
