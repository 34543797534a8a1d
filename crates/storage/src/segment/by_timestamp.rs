//! How a timestamp becomes a position in the log file, and which timestamp is the greatest.

use std::io;

use super::{BatchPosition, Segment, TimestampOffset};
use crate::error::ReadError;
use crate::index::{TimeEntry, entry_in_file, floor_in_file};
use crate::scan::Item;

impl Segment {
    /// The greatest timestamp in the first `size` bytes, with the last offset of its batch.
    pub(crate) fn max_timestamp(&self, size: u64, upper_offset: i64) -> io::Result<TimestampOffset> {
        if let Some(known) = self.state.lock().max_timestamp {
            return Ok(known);
        }
        let (start, next_offset, mut max) = self.start_of_max_timestamp(size, upper_offset)?;
        let file = self.log_file()?;
        let mut walk = self.headers(file, size, upper_offset).from(start, next_offset);
        while let Some(item) = walk.step()? {
            if let Item::Batch(_, header) = item {
                max = max.max_with(&header);
            }
        }
        let mut state = self.state.lock();
        if state.noted_timestamp.timestamp > max.timestamp {
            max = state.noted_timestamp;
        }
        Ok(*state.max_timestamp.get_or_insert(max))
    }

    /// Up to where the time index tells the greatest timestamp: its last entry, if the batch that it names agrees.
    pub(super) fn start_of_max_timestamp(&self, size: u64, upper: i64) -> io::Result<(u64, i64, TimestampOffset)> {
        let nothing = (0, self.base_offset, TimestampOffset::NONE);
        self.ensure_loaded(size, upper)?;
        let count = self.state.lock().times.count();
        if count == 0 {
            return Ok(nothing);
        }
        let Ok(entry) = self.time_index_file().and_then(|file| entry_in_file::<TimeEntry>(&*file, count - 1)) else {
            return Ok(nothing);
        };
        Ok(match self.checked_time(entry, size, upper)? {
            Some((position, lowest)) => {
                let offset = self.base_offset + i64::from(entry.relative_offset);
                (position, lowest, TimestampOffset { timestamp: entry.timestamp, offset })
            }
            None => nothing,
        })
    }

    /// The position of the batch that an entry of the time index names, if it has that timestamp.
    fn checked_time(&self, entry: TimeEntry, size: u64, upper_offset: i64) -> io::Result<Option<BatchPosition>> {
        let offset = self.base_offset + i64::from(entry.relative_offset);
        let (position, lowest) = match self.locate(offset, size, upper_offset) {
            Ok(Some(position)) => position,
            Err(ReadError::Io(error)) => return Err(io::Error::new(error.kind(), error.to_string())),
            _ => return Ok(None),
        };
        let file = self.log_file()?;
        let mut walk = self.walk(file, size, upper_offset, false).from(position, lowest);
        let header = walk.peek()?;
        let fits = header.is_some_and(|h| h.last_offset() == offset && h.max_timestamp == entry.timestamp);
        Ok(fits.then_some((position, lowest)))
    }

    /// A position before which no batch has a timestamp of `timestamp` or more, and the lowest offset there.
    pub(crate) fn start_before_timestamp(&self, timestamp: i64, size: u64, upper: i64) -> io::Result<(u64, i64)> {
        let start = (0, self.base_offset);
        let key = timestamp.saturating_sub(1);
        self.ensure_loaded(size, upper)?;
        let (recent, only_in_file) = {
            let state = self.state.lock();
            (state.times.floor_recent(key), state.times.only_in_file())
        };
        let entry = match recent {
            Some(entry) => entry,
            None if only_in_file == 0 => return Ok(start),
            None => {
                let found = self.time_index_file().and_then(|file| floor_in_file(&*file, only_in_file, key, None));
                match found {
                    Ok(Some((_, entry))) => entry,
                    _ => return Ok(start),
                }
            }
        };
        // If the batch has the entry's timestamp, the entry was written by a log, not by a cosmic ray; then all before
        // it is at most as late.
        Ok(self.checked_time(entry, size, upper)?.unwrap_or(start))
    }
}
