//! Which bytes of a segment are known to be bad, and which have been checked.

use std::io;
use std::ops::Range;

use super::{BatchPosition, Segment};
use crate::scan::{BadRange, Item};

impl Segment {
    pub(crate) fn bad_ranges(&self) -> Vec<BadRange> {
        self.state.lock().bad.clone()
    }

    /// Remembers bad bytes. Returns false if they were known, or were cut.
    pub(crate) fn mark_bad(&self, range: BadRange) -> bool {
        if self.is_cut() {
            return false;
        }
        let mut state = self.state.lock();
        if state.bad.iter().any(|known| known.position <= range.position && known.end_position >= range.end_position) {
            return false;
        }
        state.bad.retain(|known| known.end_position <= range.position || known.position >= range.end_position);
        let index = state.bad.partition_point(|known| known.position < range.position);
        state.bad.insert(index, range);
        state.checked.remove(&(range.position..range.end_position));
        for hint in &mut state.hints {
            if (range.position..range.end_position).contains(&u64::from(hint.1)) {
                *hint = (-1, 0);
            }
        }
        tracing::error!(
            dir = %self.dir.display(), segment = range.segment, position = range.position,
            end_position = range.end_position, first_offset = range.first_offset, next_offset = range.next_offset,
            "bad batch found: these offsets cannot be read"
        );
        true
    }

    /// Forgets bad bytes that are good again up to `position` and `offset`.
    pub(crate) fn note_mended(&self, range: &BadRange, position: u64, offset: i64) {
        let mut state = self.state.lock();
        if let Some(index) = state.bad.iter().position(|known| known == range) {
            if position == range.end_position {
                state.bad.remove(index);
            } else {
                state.bad[index] = BadRange { position, first_offset: offset, ..*range };
            }
        }
        state.checked.add(range.position..position);
    }

    /// Whether this process has checked the CRCs of these bytes.
    pub(crate) fn is_checked(&self, bytes: &Range<u64>) -> bool {
        self.state.lock().checked.has(bytes)
    }

    pub(crate) fn note_checked(&self, bytes: Range<u64>) {
        self.state.lock().checked.add(bytes);
    }

    /// Checks the CRCs of the batches from `start` to `end`. Returns false if one of them is bad, which is marked, or
    /// if the file was cut meanwhile.
    pub(crate) fn check(&self, start: BatchPosition, end: u64, size: u64, upper_offset: i64) -> io::Result<bool> {
        let (start, lowest) = start;
        let mut walk = self.verified(self.log_file()?, size, upper_offset).from(start, lowest);
        while walk.position() < end {
            let good = walk.position();
            if let Some(Item::Bad { range, .. }) = walk.step()? {
                self.mark_bad(range);
                self.note_checked(start..good);
                return Ok(false);
            }
        }
        self.note_checked(start..walk.position());
        Ok(!self.is_cut())
    }
}
