//! Which leader epoch wrote which offsets (KIP-101, KIP-279; `LeaderEpochFileCache`).
//!
//! The file `leader-epoch-checkpoint` is written by the log's sync, before it promises anything, so that an append
//! never waits for it. A garbage file is rebuilt from the log's batches, which carry their epochs.

use std::io;
use std::path::Path;

use crate::checkpoint::{CheckpointError, read_lines, write_lines};
use crate::disk::Disk;
use crate::names::LEADER_EPOCH_CHECKPOINT;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEntry {
    pub epoch: i32,
    pub start_offset: i64,
}

/// The answer to "where does this epoch end in your log?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEndOffset {
    /// The largest epoch that is at most the requested one; -1 if unknown.
    pub epoch: i32,
    /// Exclusive; -1 if unknown.
    pub end_offset: i64,
}

impl EpochEndOffset {
    pub const UNDEFINED: Self = Self { epoch: -1, end_offset: -1 };
}

/// The epochs of one log: ascending in epoch and in start offset.
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    entries: Vec<EpochEntry>,
    is_dirty: bool,
}

impl Epochs {
    /// Reads the checkpoint. `None` if it is missing or garbage.
    pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Self>> {
        let parse = |line: &str| {
            let (epoch, start_offset) = line.trim().split_once(' ')?;
            let entry = EpochEntry { epoch: epoch.parse().ok()?, start_offset: start_offset.parse().ok()? };
            (entry.epoch >= 0 && entry.start_offset >= 0).then_some(entry)
        };
        let entries = match read_lines(disk, &dir.join(LEADER_EPOCH_CHECKPOINT), parse) {
            Ok(Some(entries)) => entries,
            Ok(None) | Err(CheckpointError::Garbage { .. }) => return Ok(None),
            Err(CheckpointError::Io(error)) => return Err(error),
        };
        let ascending = entries.is_sorted_by(|a, b| a.epoch < b.epoch && a.start_offset < b.start_offset);
        Ok(ascending.then_some(Self { entries, is_dirty: false }))
    }

    /// Writes the checkpoint if it is not up to date.
    pub(crate) fn flush(&mut self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        if self.is_dirty {
            let lines = self.entries.iter().map(|entry| format!("{} {}", entry.epoch, entry.start_offset));
            write_lines(disk, &dir.join(LEADER_EPOCH_CHECKPOINT), lines)?;
            self.is_dirty = false;
        }
        Ok(())
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    pub(crate) fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    pub(crate) fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// Notes that `epoch` wrote from `start_offset` on, if that is news. Entries that contradict it go.
    pub(crate) fn assign(&mut self, epoch: i32, start_offset: i64) {
        let is_news = |latest: EpochEntry| latest.epoch != epoch || start_offset < latest.start_offset;
        if epoch < 0 || !self.latest().is_none_or(is_news) {
            return;
        }
        while self.latest().is_some_and(|entry| entry.epoch >= epoch || entry.start_offset >= start_offset) {
            self.entries.pop();
        }
        self.entries.push(EpochEntry { epoch, start_offset });
        self.is_dirty = true;
    }

    /// Notes the epoch of a batch that is in the log. Unlike [`Epochs::assign`] it never takes anything back.
    pub(crate) fn observe(&mut self, epoch: i32, base_offset: i64) {
        if epoch >= 0 && self.latest().is_none_or(|latest| epoch > latest.epoch) {
            self.assign(epoch, base_offset);
        }
    }

    pub(crate) fn epoch_for_offset(&self, offset: i64) -> Option<i32> {
        let after = self.entries.partition_point(|entry| entry.start_offset <= offset);
        after.checked_sub(1).map(|at| self.entries[at].epoch)
    }

    /// `LeaderEpochFileCache.endOffsetFor`.
    pub(crate) fn end_offset_for(&self, requested: i32, log_end_offset: i64) -> EpochEndOffset {
        let Some(latest) = self.latest().filter(|_| requested >= 0) else { return EpochEndOffset::UNDEFINED };
        if requested == latest.epoch {
            return EpochEndOffset { epoch: requested, end_offset: log_end_offset };
        }
        let higher = self.entries.partition_point(|entry| entry.epoch <= requested);
        let Some(next) = self.entries.get(higher) else { return EpochEndOffset::UNDEFINED };
        let epoch = higher.checked_sub(1).map_or(requested, |floor| self.entries[floor].epoch);
        EpochEndOffset { epoch, end_offset: next.start_offset }
    }

    /// Forgets what the log does not have any more behind its new end.
    pub(crate) fn truncate_from_end(&mut self, end_offset: i64) {
        let kept = self.entries.partition_point(|entry| entry.start_offset < end_offset);
        self.is_dirty |= kept < self.entries.len();
        self.entries.truncate(kept);
    }

    /// Forgets what the log does not have any more before its new start.
    pub(crate) fn truncate_from_start(&mut self, start_offset: i64) {
        let before = self.entries.partition_point(|entry| entry.start_offset <= start_offset);
        if before == 0 || (before == 1 && self.entries[0].start_offset == start_offset) {
            return;
        }
        self.entries.drain(..before - 1);
        self.entries[0].start_offset = start_offset;
        self.is_dirty = true;
    }

    pub(crate) fn clear(&mut self) {
        self.is_dirty |= !self.entries.is_empty();
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{read_file, replace_file};
    use crate::simdisk::SimDisk;

    fn of(entries: &[(i32, i64)]) -> Epochs {
        let mut epochs = Epochs::default();
        for &(epoch, start_offset) in entries {
            epochs.assign(epoch, start_offset);
        }
        epochs
    }

    fn listed(epochs: &Epochs) -> Vec<(i32, i64)> {
        epochs.entries().iter().map(|entry| (entry.epoch, entry.start_offset)).collect()
    }

    #[test]
    fn end_offsets_follow_kip_279() {
        let epochs = of(&[(2, 10), (3, 20), (7, 30)]);
        let end = |epoch| {
            let end = epochs.end_offset_for(epoch, 99);
            (end.epoch, end.end_offset)
        };
        assert_eq!(end(7), (7, 99));
        assert_eq!(end(3), (3, 30));
        assert_eq!(end(5), (3, 30));
        assert_eq!(end(2), (2, 20));
        assert_eq!(end(1), (1, 10));
        assert_eq!(end(8), (-1, -1));
        assert_eq!(end(-1), (-1, -1));
        assert_eq!(Epochs::default().end_offset_for(0, 5), EpochEndOffset::UNDEFINED);
    }

    #[test]
    fn contradicting_entries_go_and_repeated_ones_are_no_news() {
        let mut epochs = of(&[(1, 0), (2, 10), (3, 20)]);
        epochs.assign(3, 25);
        assert_eq!(listed(&epochs), [(1, 0), (2, 10), (3, 20)]);
        epochs.assign(4, 10);
        assert_eq!(listed(&epochs), [(1, 0), (4, 10)]);
        epochs.observe(3, 50);
        epochs.observe(-1, 50);
        assert_eq!(listed(&epochs), [(1, 0), (4, 10)]);
    }

    #[test]
    fn truncation_keeps_the_epoch_that_covers_the_start() {
        let mut epochs = of(&[(1, 0), (2, 10), (3, 20)]);
        epochs.truncate_from_start(15);
        assert_eq!(listed(&epochs), [(2, 15), (3, 20)]);
        epochs.truncate_from_end(20);
        assert_eq!(listed(&epochs), [(2, 15)]);
        assert_eq!(epochs.epoch_for_offset(14), None);
        assert_eq!(epochs.epoch_for_offset(15), Some(2));
    }

    #[test]
    fn the_checkpoint_is_kafkas_and_garbage_is_not_believed() {
        let disk = SimDisk::new(1);
        let dir = Path::new("/");
        let mut epochs = of(&[(0, 0), (5, 42)]);
        epochs.flush(&disk, dir).unwrap();
        let path = dir.join(LEADER_EPOCH_CHECKPOINT);
        assert_eq!(read_file(&disk, &path, 99).unwrap(), b"0\n2\n0 0\n5 42\n");
        assert_eq!(listed(&Epochs::load(&disk, dir).unwrap().unwrap()), listed(&epochs));
        for garbage in [&b"0\n2\n5 42\n0 0\n"[..], b"0\n1\n-1 0\n", b"junk", b"0\n1\n1 2 3\n"] {
            replace_file(&disk, &path, garbage).unwrap();
            assert!(Epochs::load(&disk, dir).unwrap().is_none());
        }
    }
}
