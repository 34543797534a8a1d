//! Compression of record batches: gzip, snappy (raw and xerial framing), lz4 frames, zstd.
//!
//! Decompression never trusts a claimed length. [`Decompressor`] hands the output out piece by piece and stops at its
//! limit; blocks are only as large as their compressed bytes can make them.

use std::io::{self, Read, Write};
use std::str::FromStr;

use bytes::{BufMut, Bytes, BytesMut};

use crate::lz4;

/// A compression codec, by its number in a batch's attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Codec {
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec with this number, if there is one.
    pub fn from_id(id: i16) -> Option<Self> {
        usize::try_from(id).ok().and_then(|id| Self::ALL.get(id).copied())
    }

    pub fn id(self) -> i16 {
        self as i16
    }

    /// Kafka's name of the codec, as in `compression.type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl FromStr for Codec {
    type Err = UnknownCodec;

    fn from_str(name: &str) -> Result<Self, UnknownCodec> {
        Self::ALL.into_iter().find(|codec| codec.name() == name).ok_or(UnknownCodec)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a codec is one of none, gzip, snappy, lz4, zstd")]
pub struct UnknownCodec;

/// Why compressed bytes could not be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompressError {
    #[error("the {} data is corrupt", .0.name())]
    Corrupt(Codec),
    #[error("the decompressed data is larger than {0} bytes")]
    TooLarge(usize),
}

/// What most clients write in one block, and the unit in which we compress and decompress.
const BLOCK_BYTES: usize = 32 * 1024;
/// Output of the stream codecs per step.
const STEP_BYTES: usize = 16 * 1024;

/// Appends `input`, compressed. `level` is the codec's own scale; `None`, and a codec without levels, use the default.
/// Kafka's levels 2-17 of lz4 are ratios that the pure Rust encoder does not have: it has one.
pub fn compress(codec: Codec, level: Option<i32>, input: &[u8], out: &mut BytesMut) {
    // Every sink here is memory, so the writers below cannot fail.
    const IN_MEMORY: &str = "memory takes every write";
    match codec {
        Codec::None => out.put_slice(input),
        Codec::Gzip => {
            let level = level.and_then(|level| u32::try_from(level).ok()).unwrap_or(6).min(9);
            let mut encoder = flate2::write::GzEncoder::new(out.writer(), flate2::Compression::new(level));
            encoder.write_all(input).expect(IN_MEMORY);
            encoder.finish().expect(IN_MEMORY);
        }
        Codec::Snappy => compress_xerial(input, out),
        Codec::Lz4 => lz4::compress(input, out),
        Codec::Zstd => {
            let level = level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
            let mut encoder = zstd::stream::write::Encoder::new(out.writer(), level).expect("zstd clamps its levels");
            // Lets the encoder size its window by the input, which spares readers memory.
            encoder.set_pledged_src_size(Some(input.len() as u64)).expect("nothing has been written yet");
            encoder.write_all(input).expect(IN_MEMORY);
            encoder.finish().expect(IN_MEMORY);
        }
    }
}

/// Decompresses all of `input`. At most `limit` bytes come out, and memory grows only as they do.
pub fn decompress(codec: Codec, input: &[u8], limit: usize) -> Result<Bytes, CompressError> {
    let mut decompressor = Decompressor::new(codec, input, limit)?;
    let mut out = BytesMut::with_capacity(input.len().saturating_mul(4).min(limit));
    loop {
        let piece = decompressor.fill()?;
        if piece.is_empty() {
            return Ok(out.freeze());
        }
        let length = piece.len();
        out.put_slice(piece);
        decompressor.consume(length);
    }
}

/// Hands out what `input` decompresses to, piece by piece: [`Decompressor::fill`], then [`Decompressor::consume`],
/// until a piece is empty.
pub struct Decompressor<'a> {
    codec: Codec,
    source: Source<'a>,
    /// What has been decompressed and not been consumed is `piece[start..]`.
    piece: Vec<u8>,
    start: usize,
    /// Output that is still allowed.
    left: usize,
    limit: usize,
}

enum Source<'a> {
    Stored(&'a [u8]),
    Gzip(Box<flate2::bufread::MultiGzDecoder<&'a [u8]>>),
    Zstd(zstd::stream::read::Decoder<'static, &'a [u8]>),
    Snappy(&'a [u8]),
    Xerial(&'a [u8]),
    Lz4(lz4::Frame<'a>),
}

impl<'a> Decompressor<'a> {
    /// At most `limit` bytes will come out before [`CompressError::TooLarge`].
    pub fn new(codec: Codec, input: &'a [u8], limit: usize) -> Result<Self, CompressError> {
        let corrupt = CompressError::Corrupt(codec);
        let source = match codec {
            Codec::None => Source::Stored(input),
            Codec::Gzip => Source::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(input))),
            Codec::Snappy => match input.strip_prefix(XERIAL_MAGIC) {
                Some(rest) => Source::Xerial(rest.get(XERIAL_VERSIONS_BYTES..).ok_or(corrupt)?),
                None => Source::Snappy(input),
            },
            Codec::Lz4 => Source::Lz4(lz4::Frame::new(input).ok_or(corrupt)?),
            // A frame may ask for a window of up to 128 MB (zstd's own bound, and what level 22 writes). The system
            // hands its pages out as they are written, so it costs no more memory than what is decompressed.
            Codec::Zstd => {
                Source::Zstd(zstd::stream::read::Decoder::with_buffer(input).map_err(|_: io::Error| corrupt)?)
            }
        };
        Ok(Self { codec, source, piece: Vec::new(), start: 0, left: limit, limit })
    }

    /// Decompressed bytes that have not been consumed; empty at the end.
    #[inline]
    pub fn fill(&mut self) -> Result<&[u8], CompressError> {
        if self.start == self.piece.len() {
            self.start = 0;
            self.next_piece()?;
        }
        Ok(&self.piece[self.start..])
    }

    /// Marks `length` bytes of what [`Decompressor::fill`] returned as read.
    #[inline]
    pub fn consume(&mut self, length: usize) {
        self.start = (self.start + length).min(self.piece.len());
    }

    fn next_piece(&mut self) -> Result<(), CompressError> {
        let corrupt = CompressError::Corrupt(self.codec);
        let too_large = CompressError::TooLarge(self.limit);
        let piece = &mut self.piece;
        match &mut self.source {
            Source::Stored(input) => {
                let (next, rest) = input.split_at(input.len().min(STEP_BYTES));
                piece.clear();
                piece.extend_from_slice(next);
                *input = rest;
            }
            Source::Gzip(decoder) => read_step(decoder, piece).map_err(|_| corrupt)?,
            Source::Zstd(decoder) => read_step(decoder, piece).map_err(|_| corrupt)?,
            Source::Snappy(input) => {
                piece.clear();
                let block = std::mem::take(input);
                if !block.is_empty() {
                    decompress_snappy(block, piece, self.left, too_large)?;
                }
            }
            Source::Xerial(input) => {
                piece.clear();
                // A block may be empty, but an empty piece means the end.
                while piece.is_empty() && !input.is_empty() {
                    let (length, rest) = input.split_first_chunk().ok_or(corrupt)?;
                    let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| corrupt)?;
                    let (block, rest) = rest.split_at_checked(length).ok_or(corrupt)?;
                    *input = rest;
                    decompress_snappy(block, piece, self.left, too_large)?;
                }
            }
            Source::Lz4(frame) => frame.next_block(piece).ok_or(corrupt)?,
        }
        self.left = self.left.checked_sub(piece.len()).ok_or(too_large)?;
        Ok(())
    }
}

/// Replaces `piece` by the next bytes of a stream.
fn read_step(stream: &mut impl Read, piece: &mut Vec<u8>) -> io::Result<()> {
    piece.resize(STEP_BYTES, 0);
    let length = stream.read(piece)?;
    piece.truncate(length);
    Ok(())
}

/// snappy-java's framing: this, two version numbers, and blocks that each follow their length.
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
const XERIAL_VERSIONS_BYTES: usize = 8;

fn compress_xerial(input: &[u8], out: &mut BytesMut) {
    out.put_slice(XERIAL_MAGIC);
    // The version of the framing, and the oldest that can read it.
    out.put_i32(1);
    out.put_i32(1);
    let mut encoder = snap::raw::Encoder::new();
    let mut block = vec![0; snap::raw::max_compress_len(BLOCK_BYTES)];
    for chunk in input.chunks(BLOCK_BYTES) {
        let length = encoder.compress(chunk, &mut block).expect("the buffer is large enough for any block");
        out.put_i32(length as i32);
        out.put_slice(&block[..length]);
    }
}

/// Decompresses one snappy block into `piece`, which is empty.
fn decompress_snappy(
    block: &[u8],
    piece: &mut Vec<u8>,
    left: usize,
    too_large: CompressError,
) -> Result<(), CompressError> {
    /// The densest element copies 64 bytes and takes 3.
    const EXPANSION_MAX: usize = 64 / 3 + 1;
    let corrupt = CompressError::Corrupt(Codec::Snappy);
    let length = snap::raw::decompress_len(block).map_err(|_| corrupt)?;
    if length > block.len() * EXPANSION_MAX {
        return Err(corrupt);
    }
    if length > left {
        return Err(too_large);
    }
    piece.resize(length, 0);
    let written = snap::raw::Decoder::new().decompress(block, piece).map_err(|_| corrupt)?;
    if written == length { Ok(()) } else { Err(corrupt) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPRESSED: [Codec; 4] = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    fn compressed(codec: Codec, input: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        compress(codec, None, input, &mut out);
        out
    }

    /// Text with a period that no block size divides, and bytes that do not compress.
    fn samples() -> Vec<Vec<u8>> {
        let text: Vec<u8> =
            b"The flume carries the stream and measures it. ".iter().copied().cycle().take(200_001).collect();
        let mut state = 1u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        vec![Vec::new(), vec![7], text, noise.take(70_000).collect(), vec![0; 1 << 20]]
    }

    #[test]
    fn every_codec_returns_what_it_got() {
        for codec in Codec::ALL {
            for sample in samples() {
                let out = compressed(codec, &sample);
                let back = decompress(codec, &out, sample.len()).unwrap();
                assert!(back == sample, "{codec:?} {}", sample.len());
            }
        }
    }

    #[test]
    fn levels_are_applied_and_clamped() {
        let text = &samples()[2];
        let size = |codec, level| {
            let mut out = BytesMut::new();
            compress(codec, Some(level), text, &mut out);
            assert!(decompress(codec, &out, text.len()).unwrap() == text);
            out.len()
        };
        assert!(size(Codec::Gzip, 1) > size(Codec::Gzip, 9));
        assert_eq!(size(Codec::Gzip, 99), size(Codec::Gzip, 9));
        assert!(size(Codec::Zstd, -50) > size(Codec::Zstd, 19));
        assert!(size(Codec::Zstd, i32::MAX) > 0);
        assert!(size(Codec::Zstd, i32::MIN) > 0);
    }

    #[test]
    fn reads_raw_snappy() {
        let text = &samples()[2];
        let raw = snap::raw::Encoder::new().compress_vec(text).unwrap();
        assert_eq!(decompress(Codec::Snappy, &raw, text.len()).unwrap(), text);
        assert_eq!(decompress(Codec::Snappy, &raw, text.len() - 1), Err(CompressError::TooLarge(text.len() - 1)));
    }

    #[test]
    fn output_stops_at_the_limit() {
        for codec in COMPRESSED {
            let bomb = compressed(codec, &vec![0; 16 << 20]);
            assert_eq!(decompress(codec, &bomb, 1 << 20), Err(CompressError::TooLarge(1 << 20)), "{codec:?}");
        }
    }

    #[test]
    fn a_claimed_length_is_not_believed() {
        // Four bytes that claim to be 4 GiB of snappy, raw and as a xerial block.
        let claim = [0xff, 0xff, 0xff, 0xff, 0x0f, 0];
        assert_eq!(decompress(Codec::Snappy, &claim, usize::MAX), Err(CompressError::Corrupt(Codec::Snappy)));
        // Nor is it when it is beyond the limit: so few bytes cannot hold it.
        assert_eq!(decompress(Codec::Snappy, &claim, 1000), Err(CompressError::Corrupt(Codec::Snappy)));
        let framed = [XERIAL_MAGIC, &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 6], &claim].concat();
        assert_eq!(decompress(Codec::Snappy, &framed, usize::MAX), Err(CompressError::Corrupt(Codec::Snappy)));
        for length in [-1, i32::MIN, i32::MAX, 7] {
            let framed = [XERIAL_MAGIC, &[0; 8], &i32::to_be_bytes(length), &claim].concat();
            assert_eq!(decompress(Codec::Snappy, &framed, usize::MAX), Err(CompressError::Corrupt(Codec::Snappy)));
        }
    }

    #[test]
    fn truncated_data_is_corrupt() {
        for codec in COMPRESSED {
            let out = compressed(codec, &samples()[2]);
            for end in (0..out.len()).step_by(out.len().div_ceil(500)) {
                let result = decompress(codec, &out[..end], usize::MAX);
                // A snappy stream has no end mark, so it may be cut between two blocks; nothing at all is no bytes.
                assert!(
                    matches!(result, Err(CompressError::Corrupt(_))) || codec == Codec::Snappy || end == 0,
                    "{codec:?} {end}"
                );
            }
        }
    }

    #[test]
    fn codecs_have_kafkas_names_and_numbers() {
        for (id, codec) in Codec::ALL.into_iter().enumerate() {
            assert_eq!(codec.id(), id as i16);
            assert_eq!(Codec::from_id(id as i16), Some(codec));
            assert_eq!(codec.name().parse(), Ok(codec));
        }
        assert_eq!(Codec::from_id(5), None);
        assert_eq!(Codec::from_id(-1), None);
        assert_eq!("brotli".parse::<Codec>(), Err(UnknownCodec));
    }
}
