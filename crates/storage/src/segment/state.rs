//! What a segment knows beside its bytes: index entries, timestamps, damage, and where readers are.

use super::lookups::Lookups;
use super::{LocatedBatch, TimestampOffset};
use crate::index::{Entries, OffsetEntry, TimeEntry};
use crate::scan::BadRange;
use crate::verified_ranges::VerifiedRanges;

/// The timestamp of a log without any.
pub(super) const NO_TIMESTAMP: i64 = -1;
/// How many positions that readers are likely to ask for next are remembered.
const HINTS: usize = 8;

pub(super) struct State {
    /// Whether the indexes' lengths are known.
    pub(super) is_loaded: bool,
    pub(super) offsets: Entries<OffsetEntry>,
    pub(super) times: Entries<TimeEntry>,
    /// `None` as long as nobody needed it. Kept for the active segment, unless recovery found it far to look for.
    pub(super) max_timestamp: Option<TimestampOffset>,
    /// Of the batches that were noted while `max_timestamp` was not known.
    pub(super) noted_timestamp: TimestampOffset,
    /// The timestamp in the last entry of the time index.
    pub(super) last_time_entry: i64,
    pub(super) bytes_since_entry: u64,
    pub(super) bad: Vec<BadRange>,
    pub(super) checked: VerifiedRanges,
    /// Offsets at which batches start, with their positions.
    pub(super) hints: [(i64, u32); HINTS],
    pub(super) next_hint: usize,
    pub(super) lookups: Lookups,
}

impl State {
    pub(super) fn empty() -> Self {
        Self {
            is_loaded: false,
            offsets: Entries::in_file(0),
            times: Entries::in_file(0),
            max_timestamp: None,
            noted_timestamp: TimestampOffset::NONE,
            last_time_entry: NO_TIMESTAMP,
            bytes_since_entry: 0,
            bad: Vec::new(),
            checked: VerifiedRanges::default(),
            hints: [(-1, 0); HINTS],
            next_hint: 0,
            lookups: Lookups::default(),
        }
    }

    /// As `LogSegment.append` and `LogSegment.recover` in Kafka, per batch.
    pub(super) fn note(&mut self, base_offset: i64, index_interval_bytes: u32, batch: &LocatedBatch) {
        let max = self.max_timestamp.as_mut().unwrap_or(&mut self.noted_timestamp);
        *max = max.max_with(&batch.header);
        if self.bytes_since_entry > u64::from(index_interval_bytes) {
            let relative_offset = (batch.header.last_offset() - base_offset) as u32;
            self.offsets.push(OffsetEntry { relative_offset, position: batch.position as u32 });
            self.note_max_timestamp(base_offset);
            self.bytes_since_entry = 0;
        }
        self.bytes_since_entry += batch.header.size() as u64;
    }

    pub(super) fn note_max_timestamp(&mut self, base_offset: i64) {
        if let Some(max) = self.max_timestamp
            && max.timestamp > self.last_time_entry
        {
            self.times.push(TimeEntry { timestamp: max.timestamp, relative_offset: (max.offset - base_offset) as u32 });
            self.last_time_entry = max.timestamp;
        }
    }

    pub(super) fn hint(&mut self, offset: i64, position: u64) {
        self.hints[self.next_hint] = (offset, position as u32);
        self.next_hint = (self.next_hint + 1) % HINTS;
    }

    pub(super) fn hinted(&self, offset: i64) -> Option<u64> {
        self.hints.iter().find(|hint| hint.0 == offset).map(|hint| u64::from(hint.1))
    }
}
