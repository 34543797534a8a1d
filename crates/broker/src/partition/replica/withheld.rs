//! What consumers may not read yet although the replicas have it: batches whose producers wait for the disk.
//!
//! Consumers read such a batch when its producer is answered, so that no power loss takes back what a consumer has
//! read. What was written with `acks=0` or `1` is not withheld for its own sake, but what lies behind a withheld batch
//! waits for it: offsets are read in order.

use std::collections::VecDeque;

/// Runs that are remembered one by one; beyond, the newest grows.
const RUNS_MAX: usize = 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// First offset of each run and the one behind it, in order and apart from each other.
    runs: VecDeque<(i64, i64)>,
    /// Where an append that is being made begins.
    appending: Option<i64>,
}

impl Withheld {
    /// From now on nothing from an offset on may be read. Called before the append, which readers may see before the
    /// appender can say what it was.
    pub(super) fn begin(&mut self, start_offset: i64) {
        self.appending = Some(start_offset);
    }

    /// What was appended is withheld from its first batch that has to be: all of it gets to the disk at once.
    pub(super) fn end(&mut self, first_offset: i64, end_offset: i64) {
        self.appending = None;
        self.push(first_offset, end_offset);
    }

    pub(super) fn push(&mut self, first_offset: i64, end_offset: i64) {
        if first_offset >= end_offset {
            return;
        }
        let is_full = self.runs.len() >= RUNS_MAX;
        match self.runs.back_mut() {
            Some(newest) if is_full || newest.1 >= first_offset => newest.1 = end_offset,
            _ => self.runs.push_back((first_offset, end_offset)),
        }
    }

    /// The offset that the high watermark must not pass. What is durable is forgotten.
    pub(super) fn limit(&mut self, durable_offset: i64) -> i64 {
        while self.runs.pop_front_if(|(_, end)| *end <= durable_offset).is_some() {}
        if storage::injected_fault!(ReadBeforeSync) {
            return i64::MAX;
        }
        let first = self.runs.front().map(|(start, _)| durable_offset.max(*start));
        first.or(self.appending).unwrap_or(i64::MAX)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.appending.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_first_batch_that_is_not_durable() {
        let mut withheld = Withheld::default();
        assert_eq!(withheld.limit(0), i64::MAX);
        withheld.push(5, 8);
        withheld.push(10, 12);
        withheld.push(12, 20);
        assert_eq!(withheld.limit(3), 5, "what was written before may be read");
        assert_eq!(withheld.limit(6), 6);
        assert_eq!(withheld.limit(8), 10);
        assert_eq!(withheld.limit(15), 15);
        assert_eq!((withheld.limit(20), withheld.is_empty()), (i64::MAX, true));
    }

    #[test]
    fn nothing_is_seen_of_an_append_before_it_is_known_what_it_is() {
        let mut withheld = Withheld::default();
        withheld.begin(7);
        assert_eq!((withheld.limit(7), withheld.is_empty()), (7, false));
        withheld.end(9, 10);
        assert_eq!(withheld.limit(7), 9);
        withheld.begin(10);
        // A duplicate, or a full disk.
        withheld.end(10, 10);
        assert_eq!(withheld.limit(10), i64::MAX);
    }

    #[test]
    fn many_runs_become_one() {
        let mut withheld = Withheld::default();
        for run in 0..2 * RUNS_MAX as i64 {
            withheld.push(2 * run, 2 * run + 1);
        }
        assert_eq!(withheld.runs.len(), RUNS_MAX);
        let last = 4 * RUNS_MAX as i64 - 1;
        assert_eq!((withheld.limit(last - 1), withheld.limit(last)), (last - 1, i64::MAX));
    }
}
