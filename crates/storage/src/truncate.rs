//! Cutting the end of a log: what a new leader does not have, or everything.
//!
//! Durably, and so that a crash in between leaves a shorter log and not one with a hole. Readers go on meanwhile.

use std::io;
use std::sync::Arc;

use crate::config::Now;
use crate::error::{LogError, ReadError};
use crate::journaled::LogPosition;
use crate::log::{Log, later_if_retriable, remove_if_there};
use crate::names::{self, Kind, Stage};
use crate::scan::Item;
use crate::segment::LocatedBatch;

impl Log {
    /// Cuts everything from the batch that has `offset` on, durably. Returns the new log end offset.
    pub fn truncate_to(&mut self, offset: i64, now: Now) -> Result<i64, LogError> {
        self.view.check()?;
        let view = self.view.clone();
        self.take_out_of_journal(offset)?;
        let _no_sync = view.sync_lock();
        let (parts, log_start_offset, log_end_offset) = {
            let published = self.view.published();
            (published.with_sizes(), published.log_start_offset, published.log_end_offset)
        };
        if offset >= log_end_offset {
            // An epoch may have been assigned without a record of it.
            self.view.epochs().truncate_from_end(log_end_offset);
            return Ok(log_end_offset);
        }
        if offset <= parts[0].segment.base_offset() {
            self.restart_at(offset, log_start_offset.min(offset), now)?;
            return Ok(offset);
        }
        let last = parts.partition_point(|part| part.segment.base_offset() < offset) - 1;
        let part = &parts[last];
        let (position, end_offset) = match part.segment.locate(offset, part.size, part.upper_offset) {
            Ok(None) => (part.size, offset.min(part.upper_offset)),
            Ok(Some((position, lowest))) => {
                let mut walk = part.headers()?.from(position, lowest);
                let base_offset = match walk.step()? {
                    Some(Item::Batch(_, header)) => header.base_offset,
                    _ => offset,
                };
                (position, base_offset.min(offset))
            }
            Err(ReadError::Corrupt { first_offset, .. }) => {
                let bad = part.segment.bad_ranges();
                let range = bad.iter().find(|range| range.first_offset == first_offset);
                (range.map_or(part.size, |range| range.position), first_offset.min(offset))
            }
            Err(error) => return Err(error.into()),
        };
        for removed in &parts[last + 1..] {
            removed.segment.pin()?;
        }
        // A new object for the same files: readers that still look at the old one would take the cut for damage.
        let segment = Arc::new(self.new_segment(part.segment.base_offset()));
        segment.pin()?;
        self.void_journal()?;
        self.note_truncation(end_offset)?;
        segment.set_size(position);
        segment.defer_indexes();
        if let Some(last_append_ms) = part.segment.last_append_ms() {
            segment.set_last_append_ms(last_append_ms);
        }
        // By offset: where the end of a segment was lost, the range has no bytes, and starts where the log ends now.
        for range in part.segment.bad_ranges().into_iter().filter(|range| range.next_offset <= end_offset) {
            segment.mark_bad(range);
        }
        self.view.publish(|published| {
            published.segments.truncate(last);
            published.segments.push(segment.clone());
            published.log_end_offset = end_offset;
            published.log_start_offset = published.log_start_offset.min(end_offset);
            published.synced_offset = published.synced_offset.min(end_offset);
            published.durable_offset = published.durable_offset.min(end_offset);
        });
        self.view.restart_journal(LogPosition { offset: end_offset, segment: segment.base_offset(), position });
        part.segment.set_cut();
        self.view.epochs().truncate_from_end(end_offset);
        self.active = segment;
        let cut = || {
            // From the end, each for itself: a crash in between leaves a shorter log, not one with a hole.
            for removed in parts[last + 1..].iter().rev() {
                self.remove_files(&removed.segment)?;
                self.disk.sync_dir(&self.dir)?;
            }
            let file = self.active.log_file()?;
            file.set_len(position)?;
            // Before anything is written over it: what was cut must not come back behind new batches.
            file.sync_data()
        };
        cut().map_err(|error| self.view.fail("truncating failed", &error))?;
        // Now there is no way back: a log whose parts do not fit together must not go on.
        match self.settle_after_truncation(end_offset, now) {
            Err(error) if !matches!(error, LogError::Failed(_)) => {
                Err(self.view.fail("truncating failed", &io::Error::other(error)))
            }
            result => {
                self.active.unpin();
                result.map(|()| end_offset)
            }
        }
    }

    /// Brings what is in the journal only into synced segments, if something is about to be cut: the journal is void
    /// for this log then.
    fn take_out_of_journal(&self, cut_to: i64) -> Result<(), LogError> {
        let (end, synced, durable) = {
            let published = self.view.published();
            (published.log_end_offset, published.synced_offset, published.durable_offset)
        };
        if cut_to < end && synced < durable { self.view.sync().map(|_| ()) } else { Ok(()) }
    }

    /// Before the recovery point is in doubt: else a crash in between would have entries replayed into segments that
    /// were compacted since.
    fn void_journal(&self) -> Result<(), LogError> {
        let voided = self.view.void_journal(&*self.disk);
        voided.map_err(|error| self.view.write_error("voiding the journal failed", error))
    }

    /// As far as the next start believes a recovery point that is noted now.
    pub fn believed_recovery_point(&self, noted: i64) -> i64 {
        self.truncations.believed(noted)
    }

    /// Notes that a recovery point above the log's new end is not to be believed any more.
    fn note_truncation(&mut self, log_end_offset: i64) -> Result<(), LogError> {
        let synced_offset = self.view.synced_offset();
        if log_end_offset >= synced_offset {
            return Ok(());
        }
        let noted = self.truncations.note(&*self.disk, &self.dir, log_end_offset, synced_offset);
        noted.map_err(|error| self.view.write_error("noting a truncation failed", error))
    }

    /// Makes all that is known of the log fit its new end.
    fn settle_after_truncation(&mut self, log_end_offset: i64, now: Now) -> Result<(), LogError> {
        self.reopen_active(log_end_offset)?;
        let first = self.active.first_header(self.active.size(), log_end_offset)?;
        self.active_first_timestamp = first.map(|header| header.max_timestamp);
        // If the disk is full, the next sync writes them.
        later_if_retriable(self.view.flush_epochs())?;
        self.reload_producers(log_end_offset, now)?;
        Ok(())
    }

    /// Brings the active segment's indexes in step with its log file.
    fn reopen_active(&self, log_end_offset: i64) -> Result<(), LogError> {
        let segment = &self.active;
        let (position, next_offset, _) = segment.trim_indexes(log_end_offset - 1, log_end_offset)?;
        let mut walk = segment.headers(segment.log_file()?, segment.size(), log_end_offset).from(position, next_offset);
        while let Some(item) = walk.step()? {
            if let Item::Batch(position, header) = item
                && segment.note_appended(&[LocatedBatch { position, header }])
            {
                self.index_result(segment.write_indexes())?;
            }
        }
        Ok(())
    }

    /// Drops everything; the log goes on at `offset`.
    pub fn truncate_fully_and_start_at(&mut self, offset: i64, now: Now) -> Result<(), LogError> {
        self.view.check()?;
        let view = self.view.clone();
        self.take_out_of_journal(i64::MIN)?;
        let _no_sync = view.sync_lock();
        self.restart_at(offset, offset, now)
    }

    fn restart_at(&mut self, offset: i64, log_start_offset: i64, now: Now) -> Result<(), LogError> {
        let old = self.view.published().segments.clone();
        for segment in &old {
            segment.pin()?;
        }
        let segment = Arc::new(self.new_segment(offset));
        self.void_journal()?;
        self.note_truncation(offset)?;
        let replace = || {
            // With the first sync of the directory, so that none comes back beside another history.
            self.remove_snapshots(|_| true)?;
            for segment in old.iter().rev() {
                self.remove_files(segment)?;
                self.disk.sync_dir(&self.dir)?;
            }
            segment.create()?;
            self.disk.sync_dir(&self.dir)
        };
        replace().map_err(|error| self.view.fail("truncating failed", &error))?;
        self.active = segment.clone();
        self.active_created_ms = now.wall_ms;
        self.active_first_timestamp = None;
        self.view.publish(|published| {
            published.segments = vec![segment];
            published.log_start_offset = log_start_offset;
            published.log_end_offset = offset;
            published.synced_offset = offset;
            published.durable_offset = offset;
        });
        self.view.restart_journal(LogPosition { offset, segment: offset, position: 0 });
        self.view.epochs().clear();
        self.producers.clear();
        self.view.change_transactions(|transactions| transactions.restart_at(offset));
        self.last_snapshot = offset;
        self.previous_snapshot = -1;
        later_if_retriable(self.view.flush_epochs())
    }

    /// Removes the producer snapshots whose offsets are of the given kind.
    pub(crate) fn remove_snapshots(&self, of: impl Fn(i64) -> bool) -> io::Result<()> {
        for entry in self.disk.read_dir(&self.dir)? {
            if let Some((offset, Kind::Snapshot, Stage::Live)) = names::parse(&entry.name)
                && of(offset)
            {
                remove_if_there(&*self.disk, &self.dir.join(&entry.name))?;
                // Before more is promised: a truncation's would come back beside another history.
                self.view.note_dir_changed();
            }
        }
        Ok(())
    }
}
