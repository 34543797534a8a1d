//! Which bytes of a segment this process wrote in the last hours: scrubbing leaves them alone.
//!
//! Their CRCs were checked on the way in, and what is read back so soon comes from the page cache, which tells nothing
//! about the disk.

use super::Segment;

/// No byte is left alone for longer after it was written.
const RECENT_MS: i64 = 24 * 3600 * 1000;

/// All bytes from a position on, the first of them written at a time by the monotonic clock.
pub(super) struct RecentWrites {
    start: u64,
    since_ms: i64,
}

impl RecentWrites {
    fn are_recent(&self, monotonic_ms: i64) -> bool {
        monotonic_ms.saturating_sub(self.since_ms) < RECENT_MS
    }
}

impl Segment {
    /// Takes note that this process wrote the bytes from `start` on. Called by the writer.
    pub(crate) fn note_write(&self, start: u64, monotonic_ms: i64) {
        let mut writes = self.recent_writes.lock();
        if !writes.as_ref().is_some_and(|writes| writes.are_recent(monotonic_ms)) {
            *writes = Some(RecentWrites { start, since_ms: monotonic_ms });
        }
    }

    /// Where the recent writes start, between two batches; `size` if there are none.
    pub(crate) fn recent_writes_start(&self, size: u64, monotonic_ms: i64) -> u64 {
        let writes = self.recent_writes.lock();
        writes.as_ref().filter(|writes| writes.are_recent(monotonic_ms)).map_or(size, |writes| writes.start.min(size))
    }
}
