//! What the tests of both coordinators share: random numbers, a clock, and batches in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use platform::Clock;
use storage::Now;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use wire::ErrorCode;
use wire::batch::{Batch, Batches};
use wire::record::RecordReader;

/// xorshift64*
#[derive(Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut rng =
            Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (stream + 1).wrapping_mul(0xd1b5_4a32_d192_ed03));
        rng.below(1);
        rng
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    pub(crate) fn any<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() { None } else { Some(of[self.below(of.len() as u64) as usize].clone()) }
    }

    pub(crate) async fn pause(&mut self, up_to_ms: u64) {
        sleep(Duration::from_millis(self.below(up_to_ms) + 1)).await;
    }
}

/// Monotonic time is tokio's, which tests pause; the wall clock can jump.
pub(crate) struct TestClock {
    started: Instant,
    pub(crate) wall_offset_ms: AtomicI64,
}

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), wall_offset_ms: AtomicI64::new(1_700_000_000_000) })
    }
}

impl Clock for TestClock {
    fn now(&self) -> Now {
        let monotonic_ms = self.started.elapsed().as_millis() as i64;
        Now { monotonic_ms, wall_ms: monotonic_ms + self.wall_offset_ms.load(Ordering::Relaxed) }
    }
}

/// A batch in a log.
pub(crate) struct Entry {
    pub(crate) batch: Batch,
    /// Whoever waits until it is durable.
    pub(crate) waiting: Option<oneshot::Sender<Result<i64, ErrorCode>>>,
}

pub(crate) fn end_offset(log: &[Entry]) -> i64 {
    log.last().map_or(0, |entry| entry.batch.header.next_offset())
}

/// The batch with another base offset.
pub(crate) fn stamp(mut batch: Batch, base_offset: i64) -> Batch {
    batch.header.base_offset = base_offset;
    let mut bytes = BytesMut::from(&batch.bytes[..]);
    bytes[..8].copy_from_slice(&base_offset.to_be_bytes());
    batch.bytes = bytes.freeze();
    batch
}

/// Shows key and value of every record in a log's bytes.
pub(crate) fn for_each_record(bytes: Bytes, mut record_read: impl FnMut(&[u8], Option<&[u8]>)) {
    for batch in Batches::new(bytes) {
        let batch = batch.unwrap();
        let section = batch.records(usize::MAX).unwrap();
        for record in RecordReader::new(&batch.header, &section) {
            let record = record.unwrap();
            record_read(record.key.unwrap(), record.value);
        }
    }
}
