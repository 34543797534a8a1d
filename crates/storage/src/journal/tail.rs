//! What a log has behind its durable part.

use std::io;
use std::sync::Arc;

use crate::disk::Disk;
use crate::journaled::{Journaled, LogPosition, void};
use crate::segment::Segment;
use crate::view::LogView;

/// Batches in one segment.
pub(crate) struct Piece {
    pub(crate) segment: Arc<Segment>,
    pub(crate) position: u64,
    pub(crate) length: u64,
    pub(crate) next_offset: i64,
}

/// Batches behind the durable part of a log, up to its end.
pub(crate) struct Tail {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) end: LogPosition,
}

impl Tail {
    pub(crate) fn length(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.length).sum()
    }
}

impl LogView {
    /// What lies behind the durable part; `None` where that part's end is not known, or the log has failed: then what
    /// is read of it may not be what was written.
    pub(super) fn tail(&self, journaled: &Journaled) -> Option<Tail> {
        let from = journaled.end.filter(|_| self.failure().is_none())?;
        let published = self.published();
        let segments = &published.segments;
        let first = segments.binary_search_by_key(&from.segment, |segment| segment.base_offset()).ok()?;
        let (mut pieces, mut position) = (Vec::new(), from.position);
        for index in first..segments.len() {
            let part = published.part(index);
            let length = part.size.checked_sub(position)?;
            if length > 0 {
                pieces.push(Piece { segment: part.segment, position, length, next_offset: part.upper_offset });
            }
            position = 0;
        }
        let active = segments.last()?;
        let end =
            LogPosition { offset: published.log_end_offset, segment: active.base_offset(), position: active.size() };
        Some(Tail { pieces, end })
    }

    /// Notes that what frames have of this log must not be replayed, durably, if there are any that would be. What is
    /// still wanted has to be in synced segments by then, and nothing may be appended before this returns.
    pub(crate) fn void_journal(&self, disk: &dyn Disk) -> io::Result<()> {
        let mut journaled = self.journaled();
        if let Some((frames, last)) = &journaled.last
            && *last >= frames.needed_from()
            && !crate::injected_fault!(JournalNotVoided)
        {
            void(disk, self.dir(), frames.epoch, last + 1)?;
        }
        journaled.last = None;
        Ok(())
    }
}
