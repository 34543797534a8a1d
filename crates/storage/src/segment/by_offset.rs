//! How an offset becomes a position in the log file.

use std::io;

use super::{BatchPosition, Segment};
use crate::error::ReadError;
use crate::index::{OffsetEntry, floor_in_file};
use crate::scan::{BadRange, Item, Walk};

impl Segment {
    /// The position of the first batch that ends at or behind `offset`, in the first `size` bytes. `None` if there is
    /// none.
    pub(crate) fn locate(&self, offset: i64, size: u64, upper_offset: i64) -> Result<Option<BatchPosition>, ReadError> {
        self.find(offset, size, upper_offset, false)
    }

    /// The same for threads that must not wait: [`ReadError::Cold`] where something would have to be read from the
    /// disk, searched for or made anew.
    pub(crate) fn locate_at_once(
        &self,
        offset: i64,
        size: u64,
        upper_offset: i64,
    ) -> Result<Option<BatchPosition>, ReadError> {
        self.find(offset, size, upper_offset, true)
    }

    fn find(
        &self,
        offset: i64,
        size: u64,
        upper_offset: i64,
        is_urgent: bool,
    ) -> Result<Option<BatchPosition>, ReadError> {
        {
            let state = self.state.lock();
            if let Some(position) = state.hinted(offset)
                && position <= size
            {
                return Ok(Some((position, offset)).filter(|_| position < size));
            }
            if is_urgent && !state.is_loaded {
                return Err(ReadError::Cold);
            }
        }
        let mut walk = self.headers(self.log_reader(is_urgent)?, size, upper_offset);
        let (position, next_offset) = self.start_before(offset, size, upper_offset, &mut walk, is_urgent)?;
        walk = walk.from(position, next_offset);
        if is_urgent {
            walk = walk.without_search();
        }
        loop {
            let lowest = walk.next_offset();
            let Some(item) = walk.step()? else { break };
            match item {
                Item::Batch(position, header) if header.last_offset() >= offset => {
                    let lost = self.lost_at(offset).filter(|_| header.base_offset > offset);
                    return lost.map_or(Ok(Some((position, lowest))), |range| Err(corrupt(range)));
                }
                Item::Batch(..) => {}
                Item::Bad { range, .. } => {
                    self.mark_bad(range);
                    if offset < range.next_offset {
                        return Err(corrupt(range));
                    }
                }
            }
        }
        self.lost_at(offset).map_or(Ok(None), |range| Err(corrupt(range)))
    }

    /// The range that is known to be bad and has an offset. The end of a segment may be lost without a trace but the
    /// next segment's name; when that one is cut off later, batches follow where it was lost.
    fn lost_at(&self, offset: i64) -> Option<BadRange> {
        self.bad_ranges().into_iter().find(|range| (range.first_offset..range.next_offset).contains(&offset))
    }

    /// What is wrong with the batch that has `offset`, whose CRC does not fit. `None` if it does fit.
    pub(crate) fn find_damage(&self, offset: i64, size: u64, upper_offset: i64) -> io::Result<Option<BadRange>> {
        let mut walk = self.verified(self.log_file()?, size, upper_offset);
        let (position, lowest) = self.start_before(offset, size, upper_offset, &mut walk, false)?;
        walk = walk.from(position, lowest);
        while let Some(item) = walk.step()? {
            match item {
                Item::Batch(_, header) if header.last_offset() >= offset => break,
                Item::Batch(..) => {}
                Item::Bad { range, .. } => {
                    self.mark_bad(range);
                    if range.next_offset > offset {
                        return Ok(Some(range));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The start of a batch whose offsets are all at most `offset`, by the index; and the lowest offset there. `walk`
    /// is where that is looked for.
    fn start_before(
        &self,
        offset: i64,
        size: u64,
        upper_offset: i64,
        walk: &mut Walk,
        is_urgent: bool,
    ) -> io::Result<BatchPosition> {
        let start = (0, self.base_offset);
        if offset <= self.base_offset {
            return Ok(start);
        }
        let key = u32::try_from(offset - self.base_offset).unwrap_or(u32::MAX);
        self.ensure_loaded(size, upper_offset)?;
        let (recent, only_in_file, likely_slot) = {
            let state = self.state.lock();
            (state.offsets.floor_recent(key), state.offsets.only_in_file(), state.lookups.likely_slot(key))
        };
        if let Some(entry) = recent {
            return Ok(self.checked(entry, walk)?.unwrap_or(start));
        }
        if only_in_file == 0 {
            return Ok(start);
        }
        let index = self.index_reader(is_urgent);
        let found = index.and_then(|file| floor_in_file::<OffsetEntry>(&*file, only_in_file, key, likely_slot));
        let checked = match found {
            Ok(Some((slot, entry))) if entry.relative_offset <= key => {
                self.state.lock().lookups.note(key, slot);
                self.checked(entry, walk)?
            }
            Ok(None) => return Ok(start),
            _ => None,
        };
        if let Some(position) = checked {
            return Ok(position);
        }
        if is_urgent {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // Garbage in the index, or the batch that the entry names is damaged. Either way the log has the answer.
        tracing::warn!(dir = %self.dir.display(), segment = self.base_offset, "index entry does not fit, rebuilding");
        self.rebuild_indexes(size, upper_offset)?;
        let entry = self.state.lock().offsets.floor_recent(key);
        match entry {
            Some(entry) => Ok(self.checked(entry, walk)?.unwrap_or(start)),
            None => Ok(start),
        }
    }

    /// What an index entry says, if the batch there agrees. It is where the walk is afterwards.
    pub(super) fn checked(&self, entry: OffsetEntry, walk: &mut Walk) -> io::Result<Option<BatchPosition>> {
        walk.go_to(u64::from(entry.position), self.base_offset);
        let last = self.base_offset + i64::from(entry.relative_offset);
        Ok(match walk.peek()? {
            Some(header) if header.last_offset() == last => Some((u64::from(entry.position), header.base_offset)),
            _ => None,
        })
    }
}

fn corrupt(range: BadRange) -> ReadError {
    ReadError::Corrupt { first_offset: range.first_offset, next_offset: range.next_offset }
}
