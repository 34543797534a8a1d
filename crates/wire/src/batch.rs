//! Record batches (magic 2): the 61-byte header, and a batch as it came from the network.
//!
//! A batch is stored as it was received. Only its base offset and its partition leader epoch are stamped by the broker,
//! and both lie outside what the CRC covers (`org.apache.kafka.common.record.DefaultRecordBatch`).

use bytes::{BufMut, Bytes, BytesMut};

use self::record::RecordError;
use crate::compress::{self, Codec};

mod build;
pub mod record;
mod rewrite;
mod validate;

pub use build::BatchBuilder;
pub use rewrite::{DeleteHorizon, Retained, recompress, retain};
pub use validate::{BatchError, Compression, RejectReason, Rejected, Rules, TimestampType, validate};

/// Length of the header: what a batch without records takes.
pub const HEADER_BYTES: usize = 61;
/// Base offset and batch length: what precedes the bytes that the length counts.
pub const LENGTH_OVERHEAD_BYTES: usize = 12;
/// Position of the first byte that the CRC covers.
pub const CRC_COVERS_FROM: usize = 21;
/// The only magic that is served; Kafka 4 dropped 0 and 1.
pub const MAGIC: i8 = 2;
/// Timestamp, producer id, epoch or sequence that is not there.
pub const NONE: i64 = -1;

/// The fixed part of a batch, in the order of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    pub base_offset: i64,
    /// Bytes that follow this field.
    pub length: i32,
    pub partition_leader_epoch: i32,
    pub magic: i8,
    pub crc: u32,
    pub attributes: Attributes,
    pub last_offset_delta: i32,
    /// Of the first record, or the delete horizon (see [`Attributes::has_delete_horizon`]).
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub record_count: i32,
}

/// Smallest length that Kafka takes for one of a record of any format.
const LEGACY_RECORD_BYTES_MIN: i32 = 14;

/// An empty batch with no producer and no timestamps. Its CRC is not set.
impl Default for BatchHeader {
    fn default() -> Self {
        Self {
            base_offset: 0,
            length: (HEADER_BYTES - LENGTH_OVERHEAD_BYTES) as i32,
            partition_leader_epoch: -1,
            magic: MAGIC,
            crc: 0,
            attributes: Attributes::default(),
            last_offset_delta: 0,
            base_timestamp: NONE,
            max_timestamp: NONE,
            producer_id: NONE,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: 0,
        }
    }
}

impl BatchHeader {
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        fn at<const N: usize>(bytes: &[u8; HEADER_BYTES], position: usize) -> [u8; N] {
            *bytes[position..].first_chunk().expect("the header is long enough")
        }
        Self {
            base_offset: i64::from_be_bytes(at(bytes, 0)),
            length: i32::from_be_bytes(at(bytes, 8)),
            partition_leader_epoch: i32::from_be_bytes(at(bytes, 12)),
            magic: bytes[16] as i8,
            crc: u32::from_be_bytes(at(bytes, 17)),
            attributes: Attributes(i16::from_be_bytes(at(bytes, 21))),
            last_offset_delta: i32::from_be_bytes(at(bytes, 23)),
            base_timestamp: i64::from_be_bytes(at(bytes, 27)),
            max_timestamp: i64::from_be_bytes(at(bytes, 35)),
            producer_id: i64::from_be_bytes(at(bytes, 43)),
            producer_epoch: i16::from_be_bytes(at(bytes, 51)),
            base_sequence: i32::from_be_bytes(at(bytes, 53)),
            record_count: i32::from_be_bytes(at(bytes, 57)),
        }
    }

    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut out = &mut bytes[..];
        out.put_i64(self.base_offset);
        out.put_i32(self.length);
        out.put_i32(self.partition_leader_epoch);
        out.put_i8(self.magic);
        out.put_u32(self.crc);
        out.put_i16(self.attributes.0);
        out.put_i32(self.last_offset_delta);
        out.put_i64(self.base_timestamp);
        out.put_i64(self.max_timestamp);
        out.put_i64(self.producer_id);
        out.put_i16(self.producer_epoch);
        out.put_i32(self.base_sequence);
        out.put_i32(self.record_count);
        bytes
    }

    /// Bytes of the whole batch, header included.
    pub fn size(&self) -> usize {
        LENGTH_OVERHEAD_BYTES + usize::try_from(self.length).unwrap_or_default()
    }

    /// The CRC does not cover the base offset, so this must bear any.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(self.last_offset_delta.into())
    }

    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// The time of the record with this timestamp delta. It wraps as in Java, so that reading inverts writing for every
    /// pair of base and delta.
    pub fn record_timestamp(&self, delta: i64) -> i64 {
        if self.attributes.is_log_append_time() { self.max_timestamp } else { self.base_timestamp.wrapping_add(delta) }
    }

    /// Whether the length and the magic can be those of a batch. The order of the checks is that of
    /// `org.apache.kafka.common.record.ByteBufferLogInputStream`.
    pub fn check(&self) -> Result<(), BatchError> {
        if !(LEGACY_RECORD_BYTES_MIN..=i32::MAX - LENGTH_OVERHEAD_BYTES as i32).contains(&self.length) {
            return Err(BatchError::InvalidLength(self.length));
        }
        match self.magic {
            MAGIC => {}
            0 | 1 => return Err(BatchError::OldMagic(self.magic)),
            magic => return Err(BatchError::UnknownMagic(magic)),
        }
        if self.size() < HEADER_BYTES {
            return Err(BatchError::InvalidLength(self.length));
        }
        Ok(())
    }

    /// Whether an idempotent or transactional producer sent it.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id >= 0
    }

    /// Sequence of the last record. Sequences run from 0 to `i32::MAX` and wrap to 0.
    pub fn last_sequence(&self) -> i32 {
        add_sequence(self.base_sequence, self.last_offset_delta)
    }
}

/// The sequence `delta` records after `sequence`, wrapping from `i32::MAX` to 0.
pub fn add_sequence(sequence: i32, delta: i32) -> i32 {
    ((i64::from(sequence) + i64::from(delta)) & i64::from(i32::MAX)) as i32
}

/// The attribute bits of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub i16);

impl Attributes {
    const COMPRESSION: i16 = 0b111;
    const LOG_APPEND_TIME: i16 = 1 << 3;
    const TRANSACTIONAL: i16 = 1 << 4;
    const CONTROL: i16 = 1 << 5;
    const DELETE_HORIZON: i16 = 1 << 6;

    /// The number of the codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    pub fn compression(self) -> i16 {
        self.0 & Self::COMPRESSION
    }

    /// The codec, if the number is that of one.
    pub fn codec(self) -> Option<Codec> {
        Codec::from_id(self.compression())
    }

    pub fn with_codec(self, codec: Codec) -> Self {
        Self(self.0 & !Self::COMPRESSION | codec.id())
    }

    /// Whether the records' time is the broker's (`message.timestamp.type=LogAppendTime`).
    pub fn is_log_append_time(self) -> bool {
        self.0 & Self::LOG_APPEND_TIME != 0
    }

    pub fn with_log_append_time(self) -> Self {
        Self(self.0 | Self::LOG_APPEND_TIME)
    }

    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    pub fn with_transactional(self) -> Self {
        Self(self.0 | Self::TRANSACTIONAL)
    }

    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    pub fn with_control(self) -> Self {
        Self(self.0 | Self::CONTROL)
    }

    /// Whether the base timestamp is the time after which tombstones may be removed (KIP-534).
    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    pub fn with_delete_horizon(self) -> Self {
        Self(self.0 | Self::DELETE_HORIZON)
    }
}

/// A whole batch: its header, parsed, and all of its bytes, header included. The two agree, but for the base offset and
/// the leader epoch of a batch that is about to be stored: those are stamped in the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub header: BatchHeader,
    pub bytes: Bytes,
}

impl Batch {
    /// The batch at the start of `bytes`, which must hold all of it. Its header is plausible, its CRC is not checked.
    pub fn parse(bytes: &Bytes) -> Result<Self, BatchError> {
        let Some(start) = bytes.first_chunk() else {
            return Err(match prefix_error(bytes) {
                Some(error) => error,
                None => BatchError::Incomplete,
            });
        };
        let header = BatchHeader::parse(start);
        header.check()?;
        if bytes.len() < header.size() {
            return Err(BatchError::Incomplete);
        }
        Ok(Self { header, bytes: bytes.slice(..header.size()) })
    }

    /// Compares the CRC with the bytes.
    pub fn verify_crc(&self) -> Result<(), BatchError> {
        match crc(&self.bytes) {
            computed if computed == self.header.crc => Ok(()),
            computed => Err(BatchError::WrongCrc { stored: self.header.crc, computed }),
        }
    }

    /// The records as they stand in the batch, compressed or not.
    pub fn section(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// The records, decompressed, for a [`crate::record::RecordReader`]. They may take `limit` bytes.
    pub fn records(&self, limit: usize) -> Result<Bytes, BatchError> {
        match self.header.attributes.codec() {
            Some(Codec::None) => Ok(self.bytes.slice(HEADER_BYTES..)),
            Some(codec) => Ok(compress::decompress(codec, self.section(), limit).map_err(RecordError::from)?),
            None => Err(BatchError::UnknownCodec(self.header.attributes.compression())),
        }
    }

    /// The same records with another base sequence of their producer.
    pub fn with_sequence(self, base_sequence: i32) -> Self {
        Self::assemble(BatchHeader { base_sequence, ..self.header }, self.section())
    }

    /// A batch of this header and section. Sets the header's length and CRC.
    fn assemble(mut header: BatchHeader, section: &[u8]) -> Self {
        let length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + section.len();
        header.length = i32::try_from(length).expect("a batch is shorter than 2 GiB");
        header.crc = crc32c::crc32c_append(crc(&header.to_bytes()), section);
        let mut bytes = BytesMut::with_capacity(header.size());
        bytes.put_slice(&header.to_bytes());
        bytes.put_slice(section);
        Self { header, bytes: bytes.freeze() }
    }
}

/// What is wrong with bytes that are too short for a header, as far as they go.
fn prefix_error(bytes: &[u8]) -> Option<BatchError> {
    if bytes.is_empty() {
        return Some(BatchError::Empty);
    }
    if bytes.len() < LENGTH_OVERHEAD_BYTES {
        return None;
    }
    let mut header = BatchHeader::default().to_bytes();
    header[..bytes.len()].copy_from_slice(bytes);
    BatchHeader::parse(&header).check().err()
}

/// The batches of a fetched or stored range, each with its CRC checked. A range may end in the middle of a batch, as a
/// Fetch response may; the iterator ends before it. After an error there is no next batch.
pub struct Batches {
    rest: Bytes,
}

impl Batches {
    pub fn new(bytes: Bytes) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read: after the last batch, the start of an incomplete one.
    pub fn rest(&self) -> &Bytes {
        &self.rest
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match Batch::parse(&self.rest) {
            Err(BatchError::Empty | BatchError::Incomplete) => return None,
            parsed => parsed.and_then(|batch| batch.verify_crc().map(|()| batch)),
        };
        self.rest = match &batch {
            Ok(batch) => self.rest.slice(batch.header.size()..),
            Err(_) => Bytes::new(),
        };
        Some(batch)
    }
}

/// CRC-32C of what the CRC of a batch covers. `batch` is the whole batch.
pub fn crc(batch: &[u8]) -> u32 {
    crc32c::crc32c(&batch[CRC_COVERS_FROM..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(base_offset: i64) -> Bytes {
        let mut builder = BatchBuilder::new().base_offset(base_offset);
        builder.push(0, None, Some(b"value"), &[]);
        builder.build().bytes
    }

    #[test]
    fn a_range_may_end_in_the_middle_of_a_batch() {
        let whole = [batch(0), batch(1), batch(2)].concat();
        let size = batch(0).len();
        for end in 0..=whole.len() {
            let mut batches = Batches::new(Bytes::copy_from_slice(&whole[..end]));
            let offsets: Vec<_> = batches.by_ref().map(|batch| batch.unwrap().header.base_offset).collect();
            assert_eq!(offsets, (0..(end / size) as i64).collect::<Vec<_>>());
            assert_eq!(batches.rest().len(), end % size);
        }
    }

    #[test]
    fn a_damaged_batch_is_the_last_item() {
        let mut bytes = [batch(0), batch(1), batch(2)].concat();
        let size = batch(0).len();
        bytes[2 * size - 1] ^= 1;
        let mut batches = Batches::new(bytes.clone().into());
        assert!(batches.next().unwrap().is_ok());
        assert!(matches!(batches.next(), Some(Err(BatchError::WrongCrc { .. }))));
        assert!(batches.next().is_none());
        bytes[size + 16] = 9;
        let items: Vec<_> = Batches::new(bytes.into()).skip(1).collect();
        assert_eq!(items, [Err(BatchError::UnknownMagic(9))]);
    }

    #[test]
    fn headers_of_garbage_do_not_panic() {
        for byte in [0, 0x7f, 0x80, 0xff] {
            let header = BatchHeader::parse(&[byte; HEADER_BYTES]);
            assert_eq!(header.to_bytes(), [byte; HEADER_BYTES]);
            let _ = (header.size(), header.last_offset(), header.next_offset(), header.last_sequence());
            assert!(header.check().is_err());
        }
    }

    #[test]
    fn sequences_wrap() {
        assert_eq!(add_sequence(i32::MAX, 1), 0);
        assert_eq!(add_sequence(i32::MAX - 1, 5), 3);
        assert_eq!(add_sequence(7, 0), 7);
    }
}
