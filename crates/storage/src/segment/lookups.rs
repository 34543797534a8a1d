//! Where readers were in the offset index last. Who reads a log from front to back looks next a little behind: one read
//! of the index tells, where a search takes a dozen.
//!
//! What is remembered is a guess that the search checks, so that nothing has to be forgotten when the index is cut or
//! made anew.

use crate::index::{Entry, OffsetEntry};

/// How many readers of a segment do without a search.
const READERS: usize = 8;

#[derive(Clone, Copy)]
struct Lookup {
    relative_offset: u32,
    /// The place of the entry that was found.
    slot: usize,
}

#[derive(Default)]
pub(super) struct Lookups {
    latest: [Option<Lookup>; READERS],
    oldest: usize,
}

impl Lookups {
    /// The last one in front of an offset.
    fn nearest(&self, relative_offset: u32) -> Option<usize> {
        let key = |index: usize| self.latest[index].map(|lookup| lookup.relative_offset);
        let before = (0..READERS).filter(|&index| key(index).is_some_and(|key| key <= relative_offset));
        before.max_by_key(|&index| key(index))
    }

    /// The place of an entry that is likely to be a little in front of the one that is looked for.
    pub(super) fn likely_slot(&self, relative_offset: u32) -> Option<usize> {
        self.latest[self.nearest(relative_offset)?].map(|lookup| lookup.slot)
    }

    /// Remembers what was found: instead of the look-up that was likely to lead there, or of the oldest.
    pub(super) fn note(&mut self, relative_offset: u32, slot: usize) {
        let index = self.nearest(relative_offset).filter(|&index| {
            self.latest[index].is_some_and(|lookup| (lookup.slot..lookup.slot + OffsetEntry::PER_BLOCK).contains(&slot))
        });
        let index = index.unwrap_or_else(|| {
            self.oldest = (self.oldest + 1) % READERS;
            self.oldest
        });
        self.latest[index] = Some(Lookup { relative_offset, slot });
    }
}
