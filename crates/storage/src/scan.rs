//! Reading a segment's batches in order, and finding the way back after damage.
//!
//! [`Scanner`] is a window over the file: bounded memory however large a batch claims to be. [`Walk`] steps from header
//! to header. Where no valid batch is, it searches for the next one ([`Scanner::find_batch`]) and yields the bytes in
//! between as a [`BadRange`]. A header whose checksum does not fit is believed in nothing, neither its length nor its
//! offsets. A walk that does not check all checksums believes a header that is followed by exactly what it says, and
//! checks the others.

use std::io;
use std::sync::Arc;

use wire::batch::{BatchHeader, CRC_COVERS_FROM, HEADER_BYTES, LENGTH_OVERHEAD_BYTES, MAGIC};

use crate::disk::{File, read_up_to};

/// Bytes of a segment that hold no valid batch, and the offsets that are missing for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRange {
    /// Base offset of the segment.
    pub segment: i64,
    pub position: u64,
    /// Exclusive.
    pub end_position: u64,
    /// Follows the last valid batch before.
    pub first_offset: i64,
    /// Base offset of the first valid batch behind, or the end of the segment.
    pub next_offset: i64,
}

/// Buffer of a walk over headers: with small batches many headers come in one read.
pub(crate) const WALK_BUFFER_BYTES: usize = 4096;
/// Buffer of a walk that checks CRCs, so reads all.
pub(crate) const VERIFY_BUFFER_BYTES: usize = 128 * 1024;
/// What a search may spend on checking CRCs of candidates, in multiples of the bytes that it searches. Bytes made to
/// look like headers everywhere end the search instead of hanging it.
const SEARCH_EFFORT: u64 = 16;
const SEARCH_EFFORT_MIN_BYTES: u64 = 64 << 20;

/// A window over a file's first `limit` bytes.
pub(crate) struct Scanner {
    file: Arc<dyn File>,
    limit: u64,
    buffer: Vec<u8>,
    capacity: usize,
    start: u64,
}

impl Scanner {
    pub(crate) fn new(file: Arc<dyn File>, limit: u64, capacity: usize) -> Self {
        assert!(capacity >= HEADER_BYTES);
        Self { file, limit, buffer: Vec::new(), capacity, start: 0 }
    }

    /// At least `wanted` bytes (at most the capacity) from `position` on, fewer only where the file ends.
    fn window(&mut self, position: u64, wanted: usize) -> io::Result<&[u8]> {
        let have = self.start + self.buffer.len() as u64;
        if position < self.start || position + wanted as u64 > have {
            let left = self.limit.saturating_sub(position).min(self.capacity as u64) as usize;
            self.buffer.resize(left, 0);
            let filled = read_up_to(&*self.file, &mut self.buffer, position);
            self.buffer.truncate(*filled.as_ref().unwrap_or(&0));
            self.start = position;
            filled?;
        }
        Ok(&self.buffer[(position - self.start) as usize..])
    }

    /// The header at a position; `None` where there is not even room for one.
    pub(crate) fn header(&mut self, position: u64) -> io::Result<Option<BatchHeader>> {
        let window = self.window(position, HEADER_BYTES)?;
        Ok(window.first_chunk().map(BatchHeader::parse))
    }

    /// The header at a position if it can be one: see [`is_plausible`].
    pub(crate) fn plausible_header(&mut self, position: u64, offsets: Offsets) -> io::Result<Option<BatchHeader>> {
        let limit = self.limit;
        Ok(self.header(position)?.filter(|header| is_plausible(header, limit.saturating_sub(position), offsets)))
    }

    /// Whether the CRC of a batch whose header is plausible fits its bytes.
    pub(crate) fn crc_fits(&mut self, position: u64, header: &BatchHeader) -> io::Result<bool> {
        let end = position + header.size() as u64;
        let mut at = position + CRC_COVERS_FROM as u64;
        let mut crc = 0;
        while at < end {
            let window = self.window(at, 1)?;
            if window.is_empty() {
                return Ok(false);
            }
            let part = &window[..window.len().min((end - at) as usize)];
            crc = crc32c::crc32c_append(crc, part);
            at += part.len() as u64;
        }
        Ok(crc == header.crc)
    }

    /// The first valid batch after the bad one at `position`: plausible, with the right CRC.
    pub(crate) fn find_batch(&mut self, position: u64, offsets: Offsets) -> io::Result<Option<(u64, BatchHeader)>> {
        // Most likely one bit of the payload flipped, and the length still tells where the next batch starts. If it was
        // a bit of the length, the offsets do not follow, and the search finds what is in between.
        if let Some(bad) = self.plausible_header(position, offsets)? {
            let next = position + bad.size() as u64;
            if let Some(header) = self.plausible_header(next, offsets)?
                && header.base_offset == bad.next_offset()
                && self.crc_fits(next, &header)?
            {
                return Ok(Some((next, header)));
            }
        }
        const MAGIC_AT: usize = 16;
        let mut effort = (self.limit.saturating_sub(position) * SEARCH_EFFORT).max(SEARCH_EFFORT_MIN_BYTES);
        let mut at = position + 1;
        loop {
            let window = self.window(at, HEADER_BYTES)?;
            if window.len() < HEADER_BYTES {
                return Ok(None);
            }
            let starts = window.len() - HEADER_BYTES + 1;
            let candidate = window[MAGIC_AT..MAGIC_AT + starts].iter().position(|&byte| byte == MAGIC as u8);
            let Some(skipped) = candidate else {
                at += starts as u64;
                continue;
            };
            at += skipped as u64;
            if let Some(header) = self.plausible_header(at, offsets)? {
                effort = effort.saturating_sub(header.size() as u64);
                if self.crc_fits(at, &header)? {
                    return Ok(Some((at, header)));
                }
                if effort == 0 {
                    return Ok(None);
                }
            }
            at += 1;
        }
    }
}

/// The offsets that a batch at some place can have: from `lowest` to `upper` (exclusive).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offsets {
    pub(crate) lowest: i64,
    pub(crate) upper: i64,
}

/// Whether the fields that are not covered by the CRC, and those that are needed to find the next batch, make sense.
/// `room` is how many bytes there are from the header's start on.
pub(crate) fn is_plausible(header: &BatchHeader, room: u64, offsets: Offsets) -> bool {
    let length_min = (HEADER_BYTES - LENGTH_OVERHEAD_BYTES) as i32;
    header.magic == MAGIC
        && header.length >= length_min
        && header.size() as u64 <= room
        && header.base_offset >= offsets.lowest
        && header.last_offset_delta >= 0
        && header.base_offset.checked_add(i64::from(header.last_offset_delta)).is_some_and(|last| last < offsets.upper)
        && header.record_count >= 0
}

/// What a [`Walk`] came upon.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    Batch(u64, BatchHeader),
    /// Nothing valid between two places; `is_tail` if no valid batch follows in this segment.
    Bad {
        range: BadRange,
        is_tail: bool,
    },
}

/// Steps over the batches of one segment.
pub(crate) struct Walk {
    scanner: Scanner,
    segment: i64,
    position: u64,
    /// No valid batch from here on has a lower offset.
    next_offset: i64,
    upper_offset: i64,
    /// Of the batch before; not known at the start.
    epoch: Option<i32>,
    /// Ranges that are known to be bad, in order.
    known: Vec<BadRange>,
    verify: bool,
    /// Whether to look for the next valid batch behind damage.
    searches: bool,
}

impl Walk {
    /// Over the first `limit` bytes of the segment's file, from the start. `upper_offset` is the next segment's base
    /// offset or the log end offset. With `verify` the CRC of each batch is checked.
    pub(crate) fn new(file: Arc<dyn File>, segment: i64, limit: u64, upper_offset: i64, verify: bool) -> Self {
        let capacity = if verify { VERIFY_BUFFER_BYTES } else { WALK_BUFFER_BYTES };
        let scanner = Scanner::new(file, limit, capacity);
        Self {
            scanner,
            segment,
            position: 0,
            next_offset: segment,
            upper_offset,
            epoch: None,
            known: Vec::new(),
            verify,
            searches: true,
        }
    }

    /// Goes on from a place where a batch starts.
    pub(crate) fn from(mut self, position: u64, next_offset: i64) -> Self {
        self.go_to(position, next_offset);
        self
    }

    /// The same. What was read there already is not read again.
    pub(crate) fn go_to(&mut self, position: u64, next_offset: i64) {
        (self.position, self.next_offset) = (position, next_offset);
    }

    /// Knows the leader epoch of the batch before.
    pub(crate) fn after_epoch(mut self, epoch: Option<i32>) -> Self {
        self.epoch = epoch;
        self
    }

    pub(crate) fn with_known_bad(mut self, known: Vec<BadRange>) -> Self {
        self.known = known;
        self
    }

    /// Fails with `WouldBlock` where it would have to search, which may take long.
    pub(crate) fn without_search(mut self) -> Self {
        self.searches = false;
        self
    }

    /// Where the next step starts.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The lowest offset that the next batch can have.
    pub(crate) fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// The header where the next step starts, if it is plausible.
    pub(crate) fn peek(&mut self) -> io::Result<Option<BatchHeader>> {
        let offsets = Offsets { lowest: self.next_offset, upper: self.upper_offset };
        self.scanner.plausible_header(self.position, offsets)
    }

    pub(crate) fn step(&mut self) -> io::Result<Option<Item>> {
        let limit = self.scanner.limit;
        if self.position >= limit {
            return Ok(None);
        }
        let after = self.known.partition_point(|range| range.end_position <= self.position);
        if let Some(&range) = self.known.get(after)
            && range.position <= self.position
        {
            (self.position, self.next_offset) = (range.end_position, range.next_offset.max(self.next_offset));
            return Ok(Some(Item::Bad { range, is_tail: range.end_position >= limit }));
        }
        let offsets = Offsets { lowest: self.next_offset, upper: self.upper_offset };
        if let Some(header) = self.scanner.plausible_header(self.position, offsets)?
            && self.is_believable(&header, offsets)?
        {
            let position = self.position;
            self.position += header.size() as u64;
            self.next_offset = header.next_offset();
            self.epoch = Some(header.partition_leader_epoch);
            return Ok(Some(Item::Batch(position, header)));
        }
        if !self.searches {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let found = self.scanner.find_batch(self.position, offsets)?;
        let (end_position, next_offset) = match found {
            Some((position, header)) => (position, header.base_offset),
            None => (limit, self.upper_offset),
        };
        let range = BadRange {
            segment: self.segment,
            position: self.position,
            end_position,
            first_offset: self.next_offset,
            next_offset,
        };
        (self.position, self.next_offset) = (end_position, next_offset);
        Ok(Some(Item::Bad { range, is_tail: found.is_none() }))
    }

    /// Whether a plausible batch is what it seems: its CRC fits, or, without `verify`, it is followed by exactly what
    /// it says. Base offset and leader epoch are not covered by the CRC: if they jump up, and what is behind it is back
    /// where one would expect it, it was not the log that jumped.
    fn is_believable(&mut self, header: &BatchHeader, offsets: Offsets) -> io::Result<bool> {
        // In this order the window moves forward only.
        if self.verify && !self.scanner.crc_fits(self.position, header)? {
            return Ok(false);
        }
        let next = self.position + header.size() as u64;
        let behind = self.scanner.plausible_header(next, offsets)?;
        let is_followed = match &behind {
            Some(behind) => {
                behind.base_offset == header.next_offset()
                    && behind.partition_leader_epoch >= header.partition_leader_epoch
            }
            None => next >= self.scanner.limit && header.next_offset() == self.upper_offset,
        };
        if is_followed {
            return Ok(true);
        }
        if !self.verify && !self.scanner.crc_fits(self.position, header)? {
            return Ok(false);
        }
        let Some(behind) = behind else { return Ok(true) };
        // What only looks like a header contradicts nothing.
        if !self.scanner.crc_fits(next, &behind)? {
            return Ok(true);
        }
        if header.base_offset > self.next_offset && behind.base_offset < header.next_offset() {
            return Ok(false);
        }
        let has_jumped = self.epoch.is_some_and(|before| header.partition_leader_epoch > before)
            && behind.partition_leader_epoch < header.partition_leader_epoch;
        if !has_jumped {
            return Ok(true);
        }
        // One of the two has a flipped bit, and the next one tells which.
        let third = self.scanner.plausible_header(next + behind.size() as u64, offsets)?;
        Ok(third.is_none_or(|third| third.partition_leader_epoch >= header.partition_leader_epoch))
    }
}
