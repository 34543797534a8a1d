//! The frame that is being filled. Its memory is aligned, as durable writes want it.

use std::io;

use wire::Uuid;

use super::format::{EntryHeader, FRAME_HEADER_BYTES, FrameHeader, padded};
use super::tail::Tail;
use crate::disk::{BLOCK_BYTES, read_exact_at};

pub(super) struct Frame {
    memory: Vec<u8>,
    /// Where the aligned part begins.
    start: usize,
    /// How far the frame is filled, from there.
    length: usize,
    bytes_max: usize,
    entries: u32,
}

/// How many bytes the entries of a tail take.
pub(super) fn bytes_of(directory: &str, tail: &Tail) -> u64 {
    let headers = tail.pieces.len() * EntryHeader::header_bytes(directory);
    headers as u64 + tail.length()
}

impl Frame {
    /// One that takes so many bytes at most, whole blocks.
    pub(super) fn new(bytes_max: usize) -> Self {
        let memory = vec![0; bytes_max + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        Self { memory, start, length: FRAME_HEADER_BYTES, bytes_max, entries: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Whether entries of so many bytes still fit.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.length as u64 + bytes <= self.bytes_max as u64
    }

    /// How many bytes of a file the frame takes.
    pub(super) fn frame_bytes(&self) -> usize {
        padded(self.length)
    }

    /// Adds what a log has behind its durable part, which must fit. After an error nothing is added.
    pub(super) fn push(&mut self, topic_id: Uuid, directory: &str, tail: &Tail) -> io::Result<()> {
        let mut at = self.length;
        for piece in &tail.pieces {
            let header = EntryHeader {
                topic_id,
                directory,
                segment: piece.segment.base_offset(),
                position: piece.position,
                next_offset: piece.next_offset,
                length: u32::try_from(piece.length).map_err(io::Error::other)?,
            };
            let header_end = at + EntryHeader::header_bytes(directory);
            let end = header_end + piece.length as usize;
            header.write(&mut self.memory[self.start + at..self.start + header_end]);
            let batches = &mut self.memory[self.start + header_end..self.start + end];
            read_exact_at(&*piece.segment.log_file()?, batches, piece.position)?;
            at = end;
        }
        self.length = at;
        self.entries += tail.pieces.len() as u32;
        Ok(())
    }

    /// Completes the frame. Returns what is to be written.
    pub(super) fn seal(&mut self, epoch: u64, sequence: u64, needed_from: u64) -> &[u8] {
        let (length, entries) = (self.length, self.entries);
        let frame = &mut self.memory[self.start..self.start + padded(length)];
        frame[length..].fill(0);
        let entry_bytes = (length - FRAME_HEADER_BYTES) as u32;
        FrameHeader { epoch, sequence, needed_from, entry_bytes, entries }.write(&mut frame[..length]);
        frame
    }

    pub(super) fn clear(&mut self) {
        (self.length, self.entries) = (FRAME_HEADER_BYTES, 0);
    }
}
