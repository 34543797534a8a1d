//! The two indexes of a segment, byte-compatible with Kafka's `OffsetIndex` and `TimeIndex`.
//!
//! Entries gather in memory and go to the file in one write now and then, so that an append costs no extra system call.
//! A few of the latest stay in memory, which serves the readers near the end. What is older is found in the file by
//! a binary search. Entries are hints: whoever uses one checks the batch that it points to, so that a garbage index
//! costs time and nothing else.

use std::io::{self, IoSlice};
use std::ops::Range;

use crate::disk::{File, read_exact_at, write_all_at};

/// So many entries wait for being written together; twice as many are held in memory at most.
pub(crate) const ENTRIES_PER_WRITE: usize = 64;

const BLOCK_BYTES: usize = 4096;

pub(crate) trait Entry: Copy {
    type Key: Ord + Copy;
    const BYTES: usize;
    /// What one read of a file gives.
    const PER_BLOCK: usize = BLOCK_BYTES / Self::BYTES;
    fn key(&self) -> Self::Key;
    fn encode(&self, out: &mut Vec<u8>);
    /// `bytes` holds [`Self::BYTES`] bytes.
    fn decode(bytes: &[u8]) -> Self;
}

/// Where the batch starts whose last offset this is. Kafka, when it wrote several batches at once, notes the first
/// batch's position with the last one's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetEntry {
    pub(crate) relative_offset: u32,
    pub(crate) position: u32,
}

/// The greatest timestamp up to here, and the last offset of the batch that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeEntry {
    pub(crate) timestamp: i64,
    pub(crate) relative_offset: u32,
}

fn field<const N: usize>(bytes: &[u8], position: usize) -> [u8; N] {
    *bytes[position..].first_chunk().expect("an entry's bytes are all there")
}

impl Entry for OffsetEntry {
    type Key = u32;
    const BYTES: usize = 8;

    fn key(&self) -> u32 {
        self.relative_offset
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.relative_offset.to_be_bytes());
        out.extend(self.position.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        Self { relative_offset: u32::from_be_bytes(field(bytes, 0)), position: u32::from_be_bytes(field(bytes, 4)) }
    }
}

impl Entry for TimeEntry {
    type Key = i64;
    const BYTES: usize = 12;

    fn key(&self) -> i64 {
        self.timestamp
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.timestamp.to_be_bytes());
        out.extend(self.relative_offset.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        Self { timestamp: i64::from_be_bytes(field(bytes, 0)), relative_offset: u32::from_be_bytes(field(bytes, 8)) }
    }
}

/// The entries of one index: how many there are, how many of them the file has, and the latest of them.
#[derive(Debug)]
pub(crate) struct Entries<E> {
    count: usize,
    written: usize,
    /// The entries `count - recent.len() .. count`, which include all that are not written.
    recent: Vec<E>,
}

impl<E: Entry> Entries<E> {
    /// Of an index whose file has `count` entries.
    pub(crate) fn in_file(count: usize) -> Self {
        Self { count, written: count, recent: Vec::new() }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn push(&mut self, entry: E) {
        if self.recent.len() >= 2 * ENTRIES_PER_WRITE {
            let unwritten = self.count - self.written;
            let old = (self.recent.len() - unwritten).min(ENTRIES_PER_WRITE);
            self.recent.drain(..old);
        }
        self.recent.push(entry);
        self.count += 1;
    }

    pub(crate) fn unwritten(&self) -> usize {
        self.count - self.written
    }

    /// How many entries are in the file only.
    pub(crate) fn only_in_file(&self) -> usize {
        self.count - self.recent.len()
    }

    /// The greatest entry in memory whose key is at most `key`.
    pub(crate) fn floor_recent(&self, key: E::Key) -> Option<E> {
        let end = self.recent.partition_point(|entry| entry.key() <= key);
        end.checked_sub(1).map(|last| self.recent[last])
    }

    /// Writes what the file lacks.
    pub(crate) fn write(&mut self, file: &dyn File) -> io::Result<()> {
        let unwritten = self.count - self.written;
        if unwritten == 0 {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(unwritten * E::BYTES);
        for entry in &self.recent[self.recent.len() - unwritten..] {
            entry.encode(&mut bytes);
        }
        write_all_at(file, &mut [IoSlice::new(&bytes)], (self.written * E::BYTES) as u64)?;
        self.written = self.count;
        Ok(())
    }

    /// Lets go of the memory of a segment that will not grow any more.
    pub(crate) fn release_memory(&mut self) {
        if self.written == self.count {
            self.recent = Vec::new();
        }
    }
}

/// The greatest of the file's first `count` entries whose key is at most `key`, with its place. `likely_slot` is a
/// place a little in front of it, if the caller is right.
pub(crate) fn floor_in_file<E: Entry>(
    file: &dyn File,
    count: usize,
    key: E::Key,
    likely_slot: Option<usize>,
) -> io::Result<Option<(usize, E)>> {
    let mut buffer = [0; BLOCK_BYTES];
    // All before `low` have a key of at most `key`, all from `high` on a greater one.
    let (mut low, mut high) = (0, count);
    if let Some(slot) = likely_slot.filter(|&slot| slot < count) {
        let end = count.min(slot + E::PER_BLOCK);
        match floor_in_block(file, slot..end, key, &mut buffer)? {
            Some((found, entry)) if found + 1 < end || end == count => return Ok(Some((found, entry))),
            Some((found, _)) => low = found,
            None => high = slot,
        }
    }
    while high - low > E::PER_BLOCK {
        let middle = low + (high - low) / 2;
        read_exact_at(file, &mut buffer[..E::BYTES], (middle * E::BYTES) as u64)?;
        if E::decode(&buffer).key() <= key {
            low = middle;
        } else {
            high = middle;
        }
    }
    floor_in_block(file, low..high, key, &mut buffer)
}

fn floor_in_block<E: Entry>(
    file: &dyn File,
    slots: Range<usize>,
    key: E::Key,
    buffer: &mut [u8; BLOCK_BYTES],
) -> io::Result<Option<(usize, E)>> {
    let block = &mut buffer[..slots.len() * E::BYTES];
    read_exact_at(file, block, (slots.start * E::BYTES) as u64)?;
    let entries = slots.zip(block.chunks_exact(E::BYTES).map(E::decode));
    Ok(entries.filter(|(_, entry)| entry.key() <= key).last())
}

/// The entry at a place in the file.
pub(crate) fn entry_in_file<E: Entry>(file: &dyn File, slot: usize) -> io::Result<E> {
    let mut buffer = [0; 16];
    read_exact_at(file, &mut buffer[..E::BYTES], (slot * E::BYTES) as u64)?;
    Ok(E::decode(&buffer))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::{Disk, OpenMode};
    use crate::simdisk::SimDisk;

    #[test]
    fn floor_finds_every_entry_in_memory_and_in_the_file() {
        let disk = SimDisk::new(1);
        let file = disk.open(Path::new("/index"), OpenMode::Create).unwrap();
        let mut entries = Entries::in_file(0);
        for n in 0..3000u32 {
            entries.push(OffsetEntry { relative_offset: 10 * n, position: n });
            if entries.unwritten() >= ENTRIES_PER_WRITE {
                entries.write(&*file).unwrap();
            }
        }
        entries.write(&*file).unwrap();
        assert_eq!(file.len().unwrap(), 3000 * 8);
        assert!(entries.recent.len() <= 2 * ENTRIES_PER_WRITE);
        for key in (0..30_100u32).step_by(7) {
            let expected = (key / 10).min(2999);
            for likely_slot in [None, Some(0), Some(1500), Some(expected as usize), Some(2999), Some(9999)] {
                let found = floor_in_file::<OffsetEntry>(&*file, 3000, key, likely_slot).unwrap().unwrap();
                assert_eq!((found.0 as u32, found.1.position), (expected, expected), "{key} {likely_slot:?}");
            }
            if let Some(entry) = entries.floor_recent(key) {
                assert_eq!(entry.position, expected);
            } else {
                assert!((expected as usize) < entries.only_in_file());
            }
        }
        assert_eq!(entry_in_file::<OffsetEntry>(&*file, 5).unwrap().relative_offset, 50);
        assert_eq!(floor_in_file::<OffsetEntry>(&*file, 0, 5, Some(0)).unwrap(), None);
    }

    #[test]
    fn entries_are_kafkas_bytes() {
        let mut bytes = Vec::new();
        OffsetEntry { relative_offset: 0x0102, position: 0x0304 }.encode(&mut bytes);
        TimeEntry { timestamp: 0x05, relative_offset: 0x06 }.encode(&mut bytes);
        assert_eq!(bytes, [0, 0, 1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 6]);
        assert_eq!(TimeEntry::decode(&bytes[8..]), TimeEntry { timestamp: 5, relative_offset: 6 });
    }
}
