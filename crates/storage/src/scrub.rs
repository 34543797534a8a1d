//! Checking the CRCs of what lies on disk, in small steps, in the background.

use crate::config::Now;
use crate::error::LogError;
use crate::scan::{BadRange, Item};
use crate::view::LogView;

/// Where scrubbing goes on. The default is the start of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubCursor {
    segment: i64,
    position: u64,
    next_offset: i64,
}

/// What one step found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    pub bytes: u64,
    pub batches: u64,
    /// News only; all are in [`LogView::bad_ranges`].
    pub bad_ranges: Vec<BadRange>,
    /// The end of the log was reached, the cursor is back at its start.
    pub is_done: bool,
}

impl LogView {
    /// Checks about `bytes_max` bytes, at least one batch, with a small buffer. Bad batches are marked: reading them is
    /// a [`ReadError::Corrupt`](crate::ReadError) from then on. What this process wrote in the last 24 hours is left
    /// out.
    pub fn scrub(&self, cursor: &mut ScrubCursor, bytes_max: u64, now: Now) -> Result<Scrubbed, LogError> {
        let mut scrubbed = Scrubbed::default();
        let (part, is_last) = {
            let published = self.published();
            let bases = &published.segments;
            let at = bases.partition_point(|segment| segment.base_offset() < cursor.segment).min(bases.len() - 1);
            (published.part_for(bases[at].base_offset()), at + 1 == bases.len())
        };
        let base = part.segment.base_offset();
        if base != cursor.segment || cursor.position > part.size {
            *cursor = ScrubCursor { segment: base, position: 0, next_offset: base };
        }
        let start = cursor.position;
        let end = part.segment.recent_writes_start(part.size, now.monotonic_ms);
        if start < end {
            let file = part.segment.log_file()?;
            let walk = part.segment.verified(file, part.size, part.upper_offset);
            let mut walk = walk.from(start, cursor.next_offset).with_known_bad(part.segment.bad_ranges());
            while scrubbed.bytes < bytes_max.max(1)
                && cursor.position < end
                && let Some(item) = walk.step()?
            {
                match item {
                    Item::Batch(..) => scrubbed.batches += 1,
                    Item::Bad { range, .. } => {
                        if part.segment.mark_bad(range) {
                            scrubbed.bad_ranges.push(range);
                        }
                    }
                }
                scrubbed.bytes = walk.position() - start;
                (cursor.position, cursor.next_offset) = (walk.position(), walk.next_offset());
            }
        }
        if cursor.position >= end {
            scrubbed.is_done = is_last;
            let segment = if is_last { 0 } else { part.upper_offset };
            *cursor = ScrubCursor { segment, position: 0, next_offset: segment };
        }
        Ok(scrubbed)
    }
}
