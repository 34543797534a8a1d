//! How the journal's files look. All numbers are big-endian.
//!
//! A file is a block with a header, and frames one behind the other, each padded to whole blocks. The header is in the
//! block's first sector, which disks write whole or not at all. A frame is a header, entries and zeros; an entry is a
//! header, the name of the log's directory, and whole batches as they are in the segment.
//!
//! A frame belongs to the file if it has the file's epoch and the next sequence: so neither one of an earlier lap nor
//! a record that was made to look like a frame is taken for one. The epoch is drawn at each start.

use wire::Uuid;

use crate::disk::BLOCK_BYTES;

/// Frames are no longer.
pub(super) const FRAME_BYTES_MAX: usize = 1 << 20;
pub(super) const FRAME_HEADER_BYTES: usize = 64;
const ENTRY_HEADER_BYTES: usize = 48;
const FILE_HEADER_BYTES: usize = 64;

const FILE_MAGIC: [u8; 8] = *b"PARSHJNL";
const FRAME_MAGIC: [u8; 4] = *b"FRAM";
const VERSION: u32 = 1;

/// What a file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    /// Of the data directory.
    pub(super) directory_id: Uuid,
    /// Greater than that of each file that was begun before.
    pub(super) file_sequence: u64,
    pub(super) epoch: u64,
    /// Sequence of the first frame.
    pub(super) first_frame: u64,
    /// The first frame that is needed, in this file or an older one, when this one was begun.
    pub(super) needed_from: u64,
}

/// What stands in front of a frame's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) epoch: u64,
    pub(super) sequence: u64,
    /// The first frame that is needed.
    pub(super) needed_from: u64,
    /// Of all entries.
    pub(super) entry_bytes: u32,
    pub(super) entries: u32,
}

/// Where the batches of an entry belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryHeader<'a> {
    pub(super) topic_id: Uuid,
    /// Name of the log's directory.
    pub(super) directory: &'a str,
    /// Base offset of the segment.
    pub(super) segment: i64,
    /// In the segment's log file.
    pub(super) position: u64,
    /// All of the offsets are below.
    pub(super) next_offset: i64,
    /// Of the batches.
    pub(super) length: u32,
}

/// Why a file is none of the journal's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotAHeader {
    /// It was never begun, or is garbage.
    Empty,
    /// A later version has written it.
    Version(u32),
}

pub(super) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_BYTES)
}

/// Reads numbers from the front of bytes.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }
}

impl FileHeader {
    pub(super) fn write(&self, block: &mut [u8]) {
        block.fill(0);
        let mut bytes = Vec::with_capacity(FILE_HEADER_BYTES);
        bytes.extend(FILE_MAGIC);
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend(self.directory_id.0);
        for number in [self.file_sequence, self.epoch, self.first_frame, self.needed_from] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
        block[..bytes.len()].copy_from_slice(&bytes);
    }

    pub(super) fn read(block: &[u8]) -> Result<Self, NotAHeader> {
        let mut numbers = Numbers(block);
        let parse = |numbers: &mut Numbers<'_>| {
            Some(Self {
                directory_id: Uuid(numbers.array()?),
                file_sequence: numbers.u64()?,
                epoch: numbers.u64()?,
                first_frame: numbers.u64()?,
                needed_from: numbers.u64()?,
            })
        };
        if numbers.array() != Some(FILE_MAGIC) {
            return Err(NotAHeader::Empty);
        }
        match numbers.u32() {
            Some(VERSION) => {}
            Some(version) => return Err(NotAHeader::Version(version)),
            None => return Err(NotAHeader::Empty),
        }
        let header = parse(&mut numbers).ok_or(NotAHeader::Empty)?;
        let covered = block.len() - numbers.0.len();
        if numbers.u32() != Some(crc32c::crc32c(&block[..covered])) {
            return Err(NotAHeader::Empty);
        }
        Ok(header)
    }
}

impl FrameHeader {
    /// Completes a frame whose entries are there already. `frame` ends with them.
    pub(super) fn write(&self, frame: &mut [u8]) {
        frame[..4].copy_from_slice(&FRAME_MAGIC);
        let mut at = 8;
        for number in [self.epoch, self.sequence, self.needed_from] {
            frame[at..at + 8].copy_from_slice(&number.to_be_bytes());
            at += 8;
        }
        for number in [self.entry_bytes, self.entries] {
            frame[at..at + 4].copy_from_slice(&number.to_be_bytes());
            at += 4;
        }
        frame[at..FRAME_HEADER_BYTES].fill(0);
        let crc = crc32c::crc32c(&frame[8..]);
        frame[4..8].copy_from_slice(&crc.to_be_bytes());
    }

    /// How long the frame at the start of the bytes says that it is, if there is one.
    pub(super) fn claimed_bytes(bytes: &[u8]) -> Option<usize> {
        if bytes.first_chunk() != Some(&FRAME_MAGIC) {
            return None;
        }
        let entry_bytes = u32::from_be_bytes(*bytes.get(32..)?.first_chunk()?);
        FRAME_HEADER_BYTES.checked_add(entry_bytes as usize)
    }

    /// The frame at the start of the bytes, and its entries; `None` if there is no whole and sound one.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut numbers = Numbers(bytes);
        if numbers.array() != Some(FRAME_MAGIC) {
            return None;
        }
        let crc = numbers.u32()?;
        let header = Self {
            epoch: numbers.u64()?,
            sequence: numbers.u64()?,
            needed_from: numbers.u64()?,
            entry_bytes: numbers.u32()?,
            entries: numbers.u32()?,
        };
        let end = FRAME_HEADER_BYTES.checked_add(header.entry_bytes as usize)?;
        let covered = bytes.get(8..end)?;
        let is_sound = end <= FRAME_BYTES_MAX && crc32c::crc32c(covered) == crc;
        is_sound.then_some((header, &covered[FRAME_HEADER_BYTES - 8..]))
    }

    /// How long the frame is in the file.
    pub(super) fn frame_bytes(&self) -> usize {
        padded(FRAME_HEADER_BYTES + self.entry_bytes as usize)
    }
}

impl EntryHeader<'_> {
    /// Bytes of the entry without the batches.
    pub(super) fn header_bytes(directory: &str) -> usize {
        ENTRY_HEADER_BYTES + directory.len()
    }

    pub(super) fn write(&self, bytes: &mut [u8]) {
        let name_bytes = u16::try_from(self.directory.len()).expect("the name of a directory is short");
        let mut written = Vec::with_capacity(ENTRY_HEADER_BYTES);
        written.extend(name_bytes.to_be_bytes());
        written.extend([0; 2]);
        written.extend(self.length.to_be_bytes());
        written.extend(self.topic_id.0);
        written.extend(self.segment.to_be_bytes());
        written.extend(self.position.to_be_bytes());
        written.extend(self.next_offset.to_be_bytes());
        let (header, name) = bytes.split_at_mut(ENTRY_HEADER_BYTES);
        header.copy_from_slice(&written);
        name.copy_from_slice(self.directory.as_bytes());
    }
}

/// Takes the first of a frame's entries, with its batches; `None` if there is no sound one.
pub(super) fn next_entry<'a>(entries: &mut &'a [u8]) -> Option<(EntryHeader<'a>, &'a [u8])> {
    let mut numbers = Numbers(entries);
    let name_bytes = numbers.u16()?;
    numbers.u16()?;
    let length = numbers.u32()?;
    let topic_id = Uuid(numbers.array()?);
    let (segment, position, next_offset) = (numbers.i64()?, numbers.u64()?, numbers.i64()?);
    let rest = &entries[ENTRY_HEADER_BYTES..];
    let (name, rest) = rest.split_at_checked(usize::from(name_bytes))?;
    let (batches, rest) = rest.split_at_checked(length as usize)?;
    let directory =
        std::str::from_utf8(name).ok().filter(|name| !name.contains('/') && *name != ".." && *name != ".")?;
    *entries = rest;
    Some((EntryHeader { topic_id, directory, segment, position, next_offset, length }, batches))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> FileHeader {
        FileHeader { directory_id: Uuid([7; 16]), file_sequence: 3, epoch: 99, first_frame: 12, needed_from: 5 }
    }

    fn entry(directory: &str, length: u32) -> EntryHeader<'_> {
        EntryHeader { topic_id: Uuid([1; 16]), directory, segment: 40, position: 4096, next_offset: 50, length }
    }

    /// A frame with one entry for each of some batches.
    fn frame(batches: &[&[u8]]) -> Vec<u8> {
        let mut frame = vec![0; FRAME_HEADER_BYTES];
        for batch in batches {
            let mut bytes = vec![0; EntryHeader::header_bytes("t-0")];
            entry("t-0", batch.len() as u32).write(&mut bytes);
            frame.extend(bytes);
            frame.extend(*batch);
        }
        let entry_bytes = (frame.len() - FRAME_HEADER_BYTES) as u32;
        FrameHeader { epoch: 99, sequence: 12, needed_from: 5, entry_bytes, entries: batches.len() as u32 }
            .write(&mut frame);
        frame
    }

    #[test]
    fn a_file_header_is_read_back_and_no_flipped_bit_is_overlooked() {
        let mut block = vec![1; BLOCK_BYTES];
        header().write(&mut block);
        assert_eq!(FileHeader::read(&block), Ok(header()));
        for bit in 0..8 * FILE_HEADER_BYTES {
            block[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(FileHeader::read(&block), Ok(header()), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        block[11] = 2;
        assert_eq!(FileHeader::read(&block), Err(NotAHeader::Version(2)));
    }

    #[test]
    fn a_frame_is_read_back_and_no_flipped_bit_is_overlooked() {
        let mut bytes = frame(&[b"one", b"", b"three"]);
        let (header, mut entries) = FrameHeader::read(&bytes).unwrap();
        assert_eq!((header.sequence, header.needed_from, header.frame_bytes()), (12, 5, BLOCK_BYTES));
        let read: Vec<_> = (0..3).map(|_| next_entry(&mut entries).unwrap()).collect();
        assert_eq!(read, [(entry("t-0", 3), &b"one"[..]), (entry("t-0", 0), b""), (entry("t-0", 5), b"three")]);
        assert_eq!((entries.len(), next_entry(&mut entries)), (0, None));
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(FrameHeader::read(&bytes).is_none(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn what_is_cut_short_or_claims_too_much_is_no_frame() {
        let bytes = frame(&[b"one"]);
        for length in 0..bytes.len() {
            assert!(FrameHeader::read(&bytes[..length]).is_none(), "{length}");
        }
        let mut claims = bytes;
        claims[32..36].fill(0xff);
        assert!(FrameHeader::read(&claims).is_none());
    }

    #[test]
    fn an_entry_that_leads_out_of_the_data_directory_is_none() {
        for name in ["../t-0", "a/b-0", ".."] {
            let mut bytes = vec![0; EntryHeader::header_bytes(name)];
            entry(name, 0).write(&mut bytes);
            assert_eq!(next_entry(&mut &bytes[..]), None, "{name}");
        }
    }
}
