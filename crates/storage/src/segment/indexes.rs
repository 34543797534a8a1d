//! The lengths of the index files are believed; what is in them is checked at each use. Indexes that do not fit the log
//! are trimmed or made anew.

use std::io;
use std::sync::atomic::Ordering;

use wire::batch::HEADER_BYTES;

use super::state::{NO_TIMESTAMP, State};
use super::{LocatedBatch, Segment, TimestampOffset};
use crate::index::{Entries, Entry, OffsetEntry, TimeEntry, entry_in_file, floor_in_file};
use crate::names::Kind;
use crate::scan::Item;

/// How far recovery walks for the greatest timestamp. It is farther from the last entry of the time index only where
/// timestamps do not grow; then whoever asks for it first walks, and the time index gets no entries until then.
const TIMESTAMP_WALK_BYTES_MAX: u64 = 64 * 1024;

impl Segment {
    /// Believes the indexes' lengths; what is in them is checked at each use. If even the lengths cannot be right, the
    /// indexes are made anew.
    pub(super) fn ensure_loaded(&self, size: u64, upper_offset: i64) -> io::Result<()> {
        if self.state.lock().is_loaded || self.load_indexes()? {
            return Ok(());
        }
        tracing::warn!(dir = %self.dir.display(), segment = self.base_offset, "indexes missing or broken, rebuilding");
        self.rebuild_indexes(size, upper_offset)
    }

    /// Has readers do without the indexes, until [`Segment::trim_indexes`] has brought them in step with the log.
    pub(crate) fn defer_indexes(&self) {
        self.state.lock().is_loaded = true;
    }

    fn load_indexes(&self) -> io::Result<bool> {
        let Some((entries, times)) = self.index_lengths()? else { return Ok(false) };
        let mut state = self.state.lock();
        if !state.is_loaded {
            state.is_loaded = true;
            state.offsets = Entries::in_file(entries);
            state.times = Entries::in_file(times);
        }
        Ok(true)
    }

    /// How many entries the files have; `None` if that cannot be right.
    fn index_lengths(&self) -> io::Result<Option<(usize, usize)>> {
        if !self.disk.exists(&self.path(Kind::Index))? || !self.disk.exists(&self.path(Kind::TimeIndex))? {
            return Ok(None);
        }
        let (index_len, time_len) = (self.index_file()?.len()?, self.time_index_file()?.len()?);
        // An entry stands for a batch at least, and the time index may have one more.
        let entries_max = self.size() / HEADER_BYTES as u64 + 1;
        let (entries, times) = (index_len / OffsetEntry::BYTES as u64, time_len / TimeEntry::BYTES as u64);
        let whole = index_len % OffsetEntry::BYTES as u64 == 0 && time_len % TimeEntry::BYTES as u64 == 0;
        let fits = whole && entries <= entries_max && times <= entries_max;
        Ok(fits.then_some((entries as usize, times as usize)))
    }

    /// Prepares the indexes for a walk that notes every batch from some position on ([`Segment::note_appended`]): keeps
    /// the entries below `offset` that agree with the log, drops the rest, and says where the walk has to start:
    /// position, lowest offset there, whether everything had to be dropped.
    pub(crate) fn trim_indexes(&self, offset: i64, upper_offset: i64) -> io::Result<(u64, i64, bool)> {
        let size = self.size();
        if offset <= self.base_offset {
            self.reset_indexes()?;
            return Ok((0, self.base_offset, false));
        }
        let Some((count, times)) = self.index_lengths()? else {
            self.reset_indexes()?;
            return Ok((0, self.base_offset, size > 0));
        };
        let (index, time_index) = (self.index_file()?, self.time_index_file()?);
        let key = u32::try_from(offset.saturating_sub(self.base_offset)).unwrap_or(u32::MAX);
        let found = floor_in_file::<OffsetEntry>(&*index, count, key, None)?;
        let start = match found {
            Some((slot, entry)) => {
                let mut walk = self.headers(self.log_file()?, size, upper_offset);
                self.checked(entry, &mut walk)?.map(|start| (slot, start))
            }
            None => None,
        };
        // The walk writes the entry of the batch at which it starts again.
        let Some((kept, (position, next_offset))) = start else {
            self.reset_indexes()?;
            return Ok((0, self.base_offset, found.is_some()));
        };
        let (mut kept_times, mut end) = (0, times);
        while kept_times < end {
            let middle = kept_times + (end - kept_times) / 2;
            let entry = entry_in_file::<TimeEntry>(&*time_index, middle)?;
            if i64::from(entry.relative_offset) < next_offset - self.base_offset {
                kept_times = middle + 1;
            } else {
                end = middle;
            }
        }
        index.set_len((kept * OffsetEntry::BYTES) as u64)?;
        time_index.set_len((kept_times * TimeEntry::BYTES) as u64)?;
        let last_time_entry = match kept_times {
            0 => NO_TIMESTAMP,
            n => entry_in_file::<TimeEntry>(&*time_index, n - 1)?.timestamp,
        };
        {
            let mut state = self.state.lock();
            state.is_loaded = true;
            state.offsets = Entries::in_file(kept);
            state.times = Entries::in_file(kept_times);
            state.bytes_since_entry = u64::MAX;
            state.last_time_entry = last_time_entry;
            state.max_timestamp = None;
        }
        // The greatest timestamp before it: what the time index knows, and the batches behind its last entry.
        let (known_to, _, known) = self.start_of_max_timestamp(position, next_offset)?;
        if known.timestamp < last_time_entry {
            // Garbage in the time index would forbid all later entries.
            self.reset_indexes()?;
            return Ok((0, self.base_offset, true));
        }
        if position.saturating_sub(known_to) <= TIMESTAMP_WALK_BYTES_MAX {
            self.max_timestamp(position, next_offset)?;
        }
        Ok((position, next_offset, false))
    }

    /// Empties the indexes, to be filled again by a walk from the start.
    fn reset_indexes(&self) -> io::Result<()> {
        self.index_file()?.set_len(0)?;
        self.time_index_file()?.set_len(0)?;
        let mut state = self.state.lock();
        let (bad, checked) = (std::mem::take(&mut state.bad), std::mem::take(&mut state.checked));
        *state = State { is_loaded: true, max_timestamp: Some(TimestampOffset::NONE), bad, checked, ..State::empty() };
        self.indexes_synced.store(false, Ordering::Release);
        Ok(())
    }

    /// Fills both indexes from the log's headers. Readers do this when they meet an entry that does not fit.
    pub(super) fn rebuild_indexes(&self, size: u64, upper_offset: i64) -> io::Result<()> {
        let file = self.log_file()?;
        let mut walk = self.headers(file, size, upper_offset);
        let mut fresh = State { max_timestamp: Some(TimestampOffset::NONE), ..State::empty() };
        while let Some(item) = walk.step()? {
            if let Item::Batch(position, header) = item {
                fresh.note(self.base_offset, self.index_interval_bytes, &LocatedBatch { position, header });
            }
        }
        fresh.note_max_timestamp(self.base_offset);
        let (index, time_index) = (self.index_file()?, self.time_index_file()?);
        // What the writer notes in the meantime is dropped: the index has fewer entries then, none of them wrong.
        let mut state = self.state.lock();
        if self.is_cut() {
            return Err(io::Error::other("the segment was cut meanwhile"));
        }
        index.set_len(0)?;
        time_index.set_len(0)?;
        fresh.offsets.write(&*index)?;
        fresh.times.write(&*time_index)?;
        state.offsets = fresh.offsets;
        state.times = fresh.times;
        state.last_time_entry = fresh.last_time_entry;
        state.bytes_since_entry = fresh.bytes_since_entry;
        state.is_loaded = true;
        self.indexes_synced.store(false, Ordering::Release);
        Ok(())
    }
}
