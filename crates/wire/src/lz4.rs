//! LZ4 frames as Kafka's clients write them (`org.apache.kafka.common.compress.Lz4BlockInputStream`): version 1,
//! independent blocks, no dictionary. Used by [`crate::compress`] only.
//!
//! A block is decompressed into a buffer that its compressed bytes can fill at most, not into the size that the header
//! allows (up to 4 MB).

use bytes::{BufMut, BytesMut};

const MAGIC: u32 = 0x184D_2204;
const VERSION_MASK: u8 = 0b1100_0000;
const VERSION: u8 = 0b0100_0000;
const INDEPENDENT_BLOCKS: u8 = 1 << 5;
const BLOCK_CHECKSUM: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const RESERVED: u8 = 0b11;
/// In a block's size: the block is stored uncompressed.
const STORED: u32 = 1 << 31;
/// Block size 4 in the header: 64 KB.
const BLOCK_SIZE_ID: u8 = 4 << 4;
const BLOCK_BYTES: usize = 64 * 1024;
/// A length in LZ4 grows by at most 255 per byte.
const EXPANSION_MAX: usize = 255;

/// Appends `input` as one frame.
pub(crate) fn compress(input: &[u8], out: &mut BytesMut) {
    let descriptor = [VERSION | INDEPENDENT_BLOCKS, BLOCK_SIZE_ID];
    out.put_u32_le(MAGIC);
    out.put_slice(&descriptor);
    out.put_u8(header_checksum(&descriptor));
    let mut block = vec![0; lz4_flex::block::get_maximum_output_size(BLOCK_BYTES.min(input.len()))];
    for chunk in input.chunks(BLOCK_BYTES) {
        let length = lz4_flex::block::compress_into(chunk, &mut block).expect("the buffer is large enough");
        if length < chunk.len() {
            out.put_u32_le(length as u32);
            out.put_slice(&block[..length]);
        } else {
            out.put_u32_le(chunk.len() as u32 | STORED);
            out.put_slice(chunk);
        }
    }
    out.put_u32_le(0);
}

/// A frame that is being decompressed. Every function returns `None` when the frame is corrupt.
pub(crate) struct Frame<'a> {
    input: &'a [u8],
    flags: u8,
    block_bytes_max: usize,
    ended: bool,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Option<Self> {
        let (magic, rest) = input.split_first_chunk()?;
        let (&[flags, block], _) = rest.split_first_chunk()?;
        if u32::from_le_bytes(*magic) != MAGIC
            || flags & (VERSION_MASK | RESERVED) != VERSION
            || flags & INDEPENDENT_BLOCKS == 0
            || block & 0b1000_1111 != 0
        {
            return None;
        }
        // 4 to 7: 64 KB, 256 KB, 1 MB, 4 MB.
        let block_size_id = block >> 4;
        if block_size_id < 4 {
            return None;
        }
        let descriptor_bytes = if flags & CONTENT_SIZE == 0 { 2 } else { 10 };
        let (descriptor, rest) = rest.split_at_checked(descriptor_bytes)?;
        let (&checksum, input) = rest.split_first()?;
        if checksum != header_checksum(descriptor) {
            return None;
        }
        Some(Self { input, flags, block_bytes_max: 1 << (8 + 2 * block_size_id), ended: false })
    }

    /// Replaces `piece` by the next block; by nothing after the last.
    pub(crate) fn next_block(&mut self, piece: &mut Vec<u8>) -> Option<()> {
        piece.clear();
        // A block may be empty, but an empty piece means the end.
        while piece.is_empty() && !self.ended {
            let size = self.number()?;
            let length = (size & !STORED) as usize;
            if length == 0 {
                self.ended = true;
                if self.flags & CONTENT_CHECKSUM != 0 {
                    self.number()?;
                }
                break;
            }
            if length > self.block_bytes_max {
                return None;
            }
            let (block, rest) = self.input.split_at_checked(length)?;
            self.input = rest;
            if self.flags & BLOCK_CHECKSUM != 0 && self.number()? != xxh32(block) {
                return None;
            }
            if size & STORED != 0 {
                piece.extend_from_slice(block);
            } else {
                piece.resize(self.block_bytes_max.min(length * EXPANSION_MAX), 0);
                let written = lz4_flex::block::decompress_into(block, piece).ok()?;
                piece.truncate(written);
            }
        }
        Some(())
    }

    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.input.split_first_chunk()?;
        self.input = rest;
        Some(u32::from_le_bytes(*number))
    }
}

fn header_checksum(descriptor: &[u8]) -> u8 {
    (xxh32(descriptor) >> 8) as u8
}

/// xxHash, 32 bits, seed 0.
fn xxh32(input: &[u8]) -> u32 {
    const P1: u32 = 0x9E37_79B1;
    const P2: u32 = 0x85EB_CA77;
    const P3: u32 = 0xC2B2_AE3D;
    const P4: u32 = 0x27D4_EB2F;
    const P5: u32 = 0x1656_67B1;
    fn lane(state: u32, bytes: [u8; 4]) -> u32 {
        state.wrapping_add(u32::from_le_bytes(bytes).wrapping_mul(P2)).rotate_left(13).wrapping_mul(P1)
    }

    let (stripes, tail) = input.as_chunks::<16>();
    let mut hash = P5;
    if !stripes.is_empty() {
        let mut state = [P1.wrapping_add(P2), P2, 0, 0u32.wrapping_sub(P1)];
        for stripe in stripes {
            for (state, bytes) in state.iter_mut().zip(stripe.as_chunks().0) {
                *state = lane(*state, *bytes);
            }
        }
        hash = state.iter().zip([1, 7, 12, 18]).fold(0u32, |sum, (state, by)| sum.wrapping_add(state.rotate_left(by)));
    }
    hash = hash.wrapping_add(input.len() as u32);
    let (words, bytes) = tail.as_chunks::<4>();
    for word in words {
        hash = hash.wrapping_add(u32::from_le_bytes(*word).wrapping_mul(P3)).rotate_left(17).wrapping_mul(P4);
    }
    for byte in bytes {
        hash = hash.wrapping_add(u32::from(*byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 13)).wrapping_mul(P3);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

    use super::*;

    fn text(length: usize) -> Vec<u8> {
        (0..length).map(|i| b"a flume, a stream, a measure; "[i * i / 7 % 30]).collect()
    }

    fn frame(info: FrameInfo, input: &[u8]) -> Vec<u8> {
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(input).unwrap();
        encoder.finish().unwrap()
    }

    fn read(input: &[u8]) -> Option<Vec<u8>> {
        let mut frame = Frame::new(input)?;
        let (mut piece, mut out) = (Vec::new(), Vec::new());
        loop {
            frame.next_block(&mut piece)?;
            if piece.is_empty() {
                return Some(out);
            }
            out.extend_from_slice(&piece);
        }
    }

    #[test]
    fn hashes_as_the_reference_does() {
        // From the xxHash specification's reference implementation.
        assert_eq!(xxh32(b""), 0x02CC_5D05);
        assert_eq!(xxh32(b"a"), 0x550D_7456);
        assert_eq!(xxh32(b"Nobody inspects the spammish repetition"), 0xE229_3B2F);
    }

    #[test]
    fn reads_what_others_write() {
        for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB] {
            for length in [0, 1, 65_536, 300_000] {
                let input = text(length);
                let info = FrameInfo::new().block_size(size).block_mode(BlockMode::Independent);
                assert!(read(&frame(info.clone(), &input)) == Some(input.clone()));
                let info = info.block_checksums(true).content_checksum(true).content_size(Some(length as u64));
                assert!(read(&frame(info, &input)) == Some(input));
            }
        }
    }

    #[test]
    fn others_read_what_we_write() {
        for length in [0, 1, 65_536, 300_000] {
            let input = text(length);
            let mut out = BytesMut::new();
            compress(&input, &mut out);
            let mut back = Vec::new();
            FrameDecoder::new(&out[..]).read_to_end(&mut back).unwrap();
            assert!(back == input);
        }
        // What Java's client starts a frame with.
        let mut out = BytesMut::new();
        compress(&[], &mut out);
        assert_eq!(out[..], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82, 0, 0, 0, 0]);
    }

    #[test]
    fn refuses_what_consumers_cannot_read() {
        let linked = frame(FrameInfo::new().block_mode(BlockMode::Linked), &text(200_000));
        assert_eq!(read(&linked), None);
        let info = FrameInfo::new().block_mode(BlockMode::Independent).block_checksums(true);
        let good = frame(info, &text(1000));
        assert!(read(&good).is_some());
        for position in [0, 4, 5, 6, 12, good.len() - 6] {
            let mut bad = good.clone();
            bad[position] ^= 1;
            assert_eq!(read(&bad), None, "{position}");
        }
    }
}
