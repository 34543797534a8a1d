//! Which transactions keep the last stable offset back (`ProducerStateManager.firstUnstableOffset`): those that are
//! open, and those that have ended but whose markers may not be on all replicas yet. A leader that lost such a marker
//! would decide the transaction anew, after somebody has read it.
//!
//! Pure. The writer takes note of what it is about to append, before readers can see it; whoever knows the high
//! watermark says how far markers are replicated. Both in [`LogView`](crate::LogView), which owns this.

use std::collections::{BTreeSet, VecDeque};

/// Beyond, the two oldest that have ended become one, which ends with the later.
const UNREPLICATED_MAX: usize = 4096;

/// Transactions that have ended with markers that may not be replicated: one, or several that were merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unreplicated {
    first_offset: i64,
    first_marker: i64,
    last_marker: i64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Transactions {
    /// First offsets of those that are open.
    open: BTreeSet<i64>,
    /// In the order of their markers.
    unreplicated: VecDeque<Unreplicated>,
    /// The first offsets of those.
    unreplicated_offsets: BTreeSet<i64>,
    /// Nothing from the first offset on is stable before everything below the second is replicated.
    held: Option<(i64, i64)>,
    /// Markers below are known to be replicated.
    replicated_to: i64,
}

impl Transactions {
    /// A transaction has begun with the batch at `first_offset`.
    pub(crate) fn begin(&mut self, first_offset: i64) {
        self.open.insert(first_offset);
    }

    /// A transaction has ended with the marker at `marker`, which lies behind all others. Returns the last stable
    /// offset with it, as the transaction index has it: the first offset of the next one that is open, or the one
    /// behind the marker.
    pub(crate) fn end(&mut self, first_offset: i64, marker: i64) -> i64 {
        self.open.remove(&first_offset);
        self.add_unreplicated(first_offset, marker);
        self.first_undecided_offset().unwrap_or(marker + 1)
    }

    fn add_unreplicated(&mut self, first_offset: i64, marker: i64) {
        let is_known = self.unreplicated.back().is_some_and(|last| last.last_marker >= marker);
        if is_known || marker < self.replicated_to || crate::injected_fault!(UnreplicatedIsStable) {
            return;
        }
        self.unreplicated.push_back(Unreplicated { first_offset, first_marker: marker, last_marker: marker });
        self.unreplicated_offsets.insert(first_offset);
        if self.unreplicated.len() > UNREPLICATED_MAX
            && let Some(oldest) = self.unreplicated.pop_front()
            && let Some(next) = self.unreplicated.front_mut()
        {
            self.unreplicated_offsets.remove(&oldest.first_offset.max(next.first_offset));
            next.first_offset = next.first_offset.min(oldest.first_offset);
            next.first_marker = oldest.first_marker;
        }
    }

    /// Holds the last stable offset at `offset` until everything below `end_offset` is replicated: transactions may
    /// have ended there of which nothing else is known.
    pub(crate) fn hold(&mut self, offset: i64, end_offset: i64) {
        self.held = Some((offset, end_offset)).filter(|_| end_offset > self.replicated_to.max(offset));
    }

    /// Everything below is on all replicas in sync.
    pub(crate) fn note_replicated(&mut self, high_watermark: i64) {
        self.replicated_to = self.replicated_to.max(high_watermark);
        self.held = self.held.filter(|held| held.1 > high_watermark);
        while let Some(replicated) = self.unreplicated.pop_front_if(|next| next.last_marker < high_watermark) {
            self.unreplicated_offsets.remove(&replicated.first_offset);
        }
    }

    /// The log ends here now. Transactions that have lost their markers by that are not known to be open again.
    pub(crate) fn truncate_to(&mut self, end_offset: i64) {
        self.open.split_off(&end_offset);
        self.replicated_to = self.replicated_to.min(end_offset);
        self.held = self.held.map(|held| (held.0, held.1.min(end_offset))).filter(|held| held.0 < held.1);
        while let Some(lost) = self.unreplicated.pop_back_if(|last| last.first_marker >= end_offset) {
            self.unreplicated_offsets.remove(&lost.first_offset);
        }
        if let Some(last) = self.unreplicated.back_mut() {
            last.last_marker = last.last_marker.min(end_offset - 1);
        }
    }

    /// The same, where all that is open is going to be noted anew.
    pub(crate) fn restart_at(&mut self, end_offset: i64) {
        self.truncate_to(end_offset);
        self.open.clear();
    }

    /// The first offset of the oldest open transaction.
    pub(crate) fn first_undecided_offset(&self) -> Option<i64> {
        self.open.first().copied()
    }

    /// The lowest first offset of all of them.
    pub(crate) fn first_unstable_offset(&self) -> Option<i64> {
        let firsts =
            [self.open.first().copied(), self.unreplicated_offsets.first().copied(), self.held.map(|held| held.0)];
        firsts.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_unstable_until_its_marker_is_replicated() {
        let mut transactions = Transactions::default();
        transactions.begin(10);
        transactions.begin(12);
        assert_eq!(transactions.end(10, 15), 12, "the next one that is open");
        assert_eq!(transactions.first_undecided_offset(), Some(12));
        assert_eq!(transactions.first_unstable_offset(), Some(10));
        transactions.note_replicated(15);
        assert_eq!(transactions.first_unstable_offset(), Some(10), "the marker itself is not replicated");
        transactions.note_replicated(16);
        assert_eq!(transactions.first_unstable_offset(), Some(12));
        assert_eq!(transactions.end(12, 20), 21, "nothing else is open");
        transactions.note_replicated(21);
        assert_eq!(transactions.first_unstable_offset(), None);
    }

    #[test]
    fn what_ended_first_may_have_begun_last() {
        let mut transactions = Transactions::default();
        transactions.begin(10);
        transactions.begin(12);
        transactions.end(12, 15);
        transactions.end(10, 16);
        transactions.note_replicated(16);
        assert_eq!(transactions.first_unstable_offset(), Some(10));
    }

    #[test]
    fn a_truncation_takes_back_what_it_cuts_and_nothing_else() {
        let mut transactions = Transactions::default();
        transactions.begin(1);
        transactions.end(1, 5);
        transactions.begin(6);
        transactions.end(6, 8);
        transactions.begin(9);
        transactions.truncate_to(8);
        assert_eq!((transactions.first_undecided_offset(), transactions.first_unstable_offset()), (None, Some(1)));
        transactions.note_replicated(6);
        assert_eq!(transactions.first_unstable_offset(), None, "whoever cut the log says that 6 is open again");
        // What was replicated is not noted again by a replay, but what comes instead of what was cut is.
        transactions.note_replicated(8);
        transactions.restart_at(7);
        transactions.end(1, 5);
        assert_eq!(transactions.first_unstable_offset(), None);
        transactions.end(6, 7);
        assert_eq!(transactions.first_unstable_offset(), Some(6));
    }

    #[test]
    fn many_that_nobody_replicates_take_little_room_and_hold_back_what_they_held() {
        let mut transactions = Transactions::default();
        let count = 3 * UNREPLICATED_MAX as i64;
        for n in 0..count {
            transactions.begin(2 * n);
            transactions.end(2 * n, 2 * n + 1);
        }
        assert_eq!(transactions.unreplicated.len(), UNREPLICATED_MAX);
        assert_eq!(transactions.unreplicated_offsets.len(), UNREPLICATED_MAX);
        assert_eq!(transactions.first_unstable_offset(), Some(0));
        transactions.note_replicated(2 * count - 2);
        assert_eq!(transactions.first_unstable_offset(), Some(2 * count - 2));
    }

    #[test]
    fn an_unknown_past_holds_until_it_is_replicated() {
        let mut transactions = Transactions::default();
        transactions.begin(3);
        transactions.end(3, 99);
        transactions.begin(101);
        transactions.end(101, 102);
        transactions.hold(3, 100);
        transactions.note_replicated(99);
        assert_eq!(transactions.first_unstable_offset(), Some(3));
        transactions.note_replicated(100);
        assert_eq!(transactions.first_unstable_offset(), Some(101));
    }

    #[test]
    fn an_unknown_past_that_is_cut_holds_with_what_is_left_of_it() {
        let mut transactions = Transactions::default();
        transactions.hold(3, 100);
        transactions.truncate_to(50);
        transactions.begin(50);
        transactions.end(50, 51);
        transactions.note_replicated(49);
        assert_eq!(transactions.first_unstable_offset(), Some(3));
        transactions.note_replicated(50);
        assert_eq!(transactions.first_unstable_offset(), Some(50));
    }
}
