//! What is deleted, and when: old segments by time, by size, by DeleteRecords, and the oldest when the disk is needed.
//!
//! The rule about time, which no jump of the wall clock can turn against fresh data: a segment goes when its greatest
//! timestamp is more than `retention.ms` before the wall clock's now, and
//! - this process appended to it last at least `retention.ms` ago by the monotonic clock; or
//! - this process did not append to it, and it would be due also by the wall clock at the log's opening plus the
//!   monotonic time since (a jump forward after the opening does not count), or the log has been open for
//!   `retention.ms`.

use std::io;

use wire::batch::NONE;

use crate::config::Now;
use crate::error::LogError;
use crate::log::{DeletedFile, Log, remove_if_there};
use crate::names::{self, Kind, Stage};
use crate::part::Part;
use crate::segment::Segment;
use crate::view::LogView;

/// Why a segment is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    LogStartOffset,
    Time,
    Size,
}

impl Log {
    /// Raises the log start offset (DeleteRecords). What lies below cannot be read any more, and goes with the next
    /// [`Log::delete_old_segments`]. What lies above is made durable first, so that the offsets below are never given
    /// out again. Returns the log start offset.
    pub fn delete_records(&mut self, before_offset: i64) -> Result<i64, LogError> {
        self.view.check()?;
        let (log_start_offset, log_end_offset, synced_offset) = {
            let published = self.view.published();
            (published.log_start_offset, published.log_end_offset, published.synced_offset)
        };
        if before_offset > log_end_offset {
            return Err(LogError::OffsetOutOfRange { offset: before_offset, log_start_offset, log_end_offset });
        }
        if before_offset > synced_offset {
            self.view.sync()?;
        }
        if before_offset > log_start_offset {
            self.view.publish(|published| published.log_start_offset = before_offset);
            self.view.epochs().truncate_from_start(before_offset);
        }
        Ok(before_offset.max(log_start_offset))
    }

    /// Deletes the segments that the settings do not want any more, the oldest first; none that holds offsets at or
    /// above `high_watermark`. Their files are renamed, and removed by [`Log::remove_deleted_files`] later. Returns how
    /// many segments went.
    pub fn delete_old_segments(&mut self, high_watermark: i64, now: Now) -> Result<usize, LogError> {
        self.view.check()?;
        self.active.release_allocated_if_idle(now.monotonic_ms);
        let parts = self.view.published().with_sizes();
        let log_start_offset = self.view.log_start_offset();
        let mut excess = self.config.retention_bytes;
        if excess >= 0 {
            let size_bytes: u64 = parts.iter().map(|part| part.size).sum();
            excess = i64::try_from(size_bytes).unwrap_or(i64::MAX) - excess;
        }
        let mut doomed = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let is_active = index + 1 == parts.len();
            if part.upper_offset > high_watermark || (is_active && part.size == 0) {
                break;
            }
            let size = i64::try_from(part.size).unwrap_or(i64::MAX);
            let reason = if part.upper_offset <= log_start_offset {
                Reason::LogStartOffset
            } else if self.config.cleanup_policy.delete && self.is_expired(part, now)? {
                Reason::Time
            } else if self.config.cleanup_policy.delete && excess >= size && self.config.retention_bytes >= 0 {
                Reason::Size
            } else {
                break;
            };
            excess = excess.saturating_sub(size);
            tracing::info!(
                dir = %self.dir.display(), segment = part.segment.base_offset(), bytes = part.size, ?reason,
                "deleting a segment"
            );
            doomed.push(part.clone());
        }
        if doomed.is_empty() {
            return Ok(0);
        }
        if doomed.len() == parts.len() {
            self.roll(now)?;
        }
        self.delete_first(&doomed, now)?;
        Ok(doomed.len())
    }

    /// Deletes the oldest segment because its space is needed, whatever the settings say: never the active one, and
    /// none that holds offsets at or above `high_watermark`. Returns the bytes that it had; `None` if none may go.
    pub fn delete_oldest_segment(&mut self, high_watermark: i64, now: Now) -> Result<Option<u64>, LogError> {
        self.view.check()?;
        let Some(oldest) = self.view.oldest_deletable(high_watermark) else { return Ok(None) };
        tracing::info!(
            dir = %self.dir.display(), segment = oldest.segment.base_offset(), bytes = oldest.size,
            "deleting the oldest segment: the disk is needed"
        );
        self.delete_first(std::slice::from_ref(&oldest), now)?;
        Ok(Some(oldest.size))
    }

    /// Deletes segments that are the first of the log and not all of it.
    fn delete_first(&mut self, doomed: &[Part], now: Now) -> Result<(), LogError> {
        let count = doomed.len();
        let log_start_offset = doomed[count - 1].upper_offset;
        for part in doomed {
            part.segment.pin()?;
        }
        self.view.publish(|published| {
            published.segments.drain(..count);
            published.log_start_offset = published.log_start_offset.max(log_start_offset);
        });
        // Each for itself: a crash in between leaves a longer log, not one with a hole.
        for part in doomed {
            self.rename_to_deleted(&part.segment, now)?;
            self.disk.sync_dir(&self.dir)?;
        }
        self.remove_snapshots(|offset| offset < log_start_offset)?;
        self.view.epochs().truncate_from_start(self.view.log_start_offset());
        Ok(())
    }

    fn is_expired(&self, part: &Part, now: Now) -> Result<bool, LogError> {
        let retention_ms = self.config.retention_ms;
        if retention_ms < 0 {
            return Ok(false);
        }
        let max_timestamp = part.segment.max_timestamp(part.size, part.upper_offset)?.timestamp;
        if max_timestamp == NONE {
            return Ok(false);
        }
        let is_due = |wall_ms: i64| wall_ms.saturating_sub(max_timestamp) > retention_ms;
        let quiet_since = |monotonic_ms: i64| now.monotonic_ms.saturating_sub(monotonic_ms) >= retention_ms;
        let open_ms = now.monotonic_ms.saturating_sub(self.opened.monotonic_ms);
        Ok(is_due(now.wall_ms)
            && match part.segment.last_append_ms() {
                _ if crate::injected_fault!(RetentionByWallClock) => true,
                Some(last_append_ms) => quiet_since(last_append_ms),
                None => is_due(self.opened.wall_ms.saturating_add(open_ms)) || quiet_since(self.opened.monotonic_ms),
            })
    }

    /// Takes a pinned segment's names away.
    pub(crate) fn rename_to_deleted(&mut self, segment: &Segment, now: Now) -> io::Result<()> {
        for kind in Kind::OF_SEGMENT {
            let (live, path) =
                (segment.path(kind), names::path(&self.dir, segment.base_offset(), kind, Stage::Deleted));
            if self.disk.exists(&live)? {
                self.disk.rename(&live, &path)?;
                let size_bytes = if kind == Kind::Log { segment.size() } else { 0 };
                self.deleted.push(DeletedFile { path, size_bytes, since_ms: now.monotonic_ms });
            }
        }
        Ok(())
    }

    /// Removes the files that were deleted at least `file.delete.delay.ms` ago; to be called now and then. A reader
    /// that still has one open keeps it readable. Returns how many are left.
    pub fn remove_deleted_files(&mut self, now: Now) -> Result<usize, LogError> {
        let delay_ms = self.config.file_delete_delay_ms;
        let (due, left) = std::mem::take(&mut self.deleted)
            .into_iter()
            .partition(|file: &DeletedFile| now.monotonic_ms.saturating_sub(file.since_ms) >= delay_ms);
        self.deleted = left;
        for file in due {
            remove_if_there(&*self.disk, &file.path)?;
        }
        Ok(self.deleted.len())
    }

    /// Removes all files that were deleted, without waiting, because their space is needed. Returns how many bytes of
    /// batches were in them.
    pub fn remove_deleted_files_now(&mut self) -> Result<u64, LogError> {
        let mut bytes = 0;
        while let Some(file) = self.deleted.last() {
            remove_if_there(&*self.disk, &file.path)?;
            bytes += file.size_bytes;
            self.deleted.pop();
        }
        Ok(bytes)
    }
}

impl LogView {
    /// The segment that [`Log::delete_oldest_segment`] would delete.
    fn oldest_deletable(&self, high_watermark: i64) -> Option<Part> {
        let published = self.published();
        let oldest = (published.segments.len() > 1).then(|| published.part(0));
        oldest.filter(|oldest| oldest.upper_offset <= high_watermark)
    }

    /// The greatest timestamp of the segment that [`Log::delete_oldest_segment`] would delete; -1 if it has none.
    pub fn oldest_deletable_timestamp(&self, high_watermark: i64) -> io::Result<Option<i64>> {
        let Some(oldest) = self.oldest_deletable(high_watermark) else { return Ok(None) };
        Ok(Some(oldest.segment.max_timestamp(oldest.size, oldest.upper_offset)?.timestamp))
    }
}
