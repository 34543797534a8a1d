//! What a client may append: every check that Kafka makes of a Produce request's records, with Kafka's error codes.
//!
//! The rules are those of `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords` and `LogValidator`.
//! Where Kafka answers UNKNOWN_SERVER_ERROR (an unknown codec, bad compressed data, an overflowing length) the code
//! here says what is wrong, and decompression is bounded.
//!
//! Uncompressed records are walked in place, compressed ones as they are decompressed, in a small buffer. The bytes are
//! stored as they came, unless the topic asks for another codec or for its own timestamps.

use std::fmt;

use bytes::Bytes;

use super::{Batch, BatchHeader, NONE, rewrite};
use crate::ErrorCode;
use crate::compress::{Codec, CompressError, Decompressor};
use crate::record::{RecordError, Walked, walk, walk_compressed};

/// What a topic accepts, from its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `max.message.bytes`: of a whole batch, as it came.
    pub max_message_bytes: usize,
    /// Whether `cleanup.policy` has `compact`, so that every record needs a key.
    pub compacted: bool,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `compression.type`; `None` is `producer`.
    pub compression: Option<Compression>,
}

/// Kafka's defaults.
impl Default for Rules {
    fn default() -> Self {
        Self {
            max_message_bytes: 1024 * 1024 + 12,
            compacted: false,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 60 * 60 * 1000,
            compression: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// The codec that a topic's batches are stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    pub codec: Codec,
    pub level: Option<i32>,
}

impl Rules {
    /// Above [`Rules::max_message_bytes`], records may not be larger than this many times their compressed bytes ...
    const DECOMPRESSED_RATIO_MAX: usize = 1000;
    /// ... nor than this many times that limit.
    const DECOMPRESSED_TIMES_MAX: usize = 10;

    /// What `compressed` bytes may decompress to. What would be accepted without compression always is.
    fn decompressed_bytes_max(&self, compressed: usize) -> usize {
        let by_ratio = compressed.saturating_mul(Self::DECOMPRESSED_RATIO_MAX).max(self.max_message_bytes);
        by_ratio.min(self.max_message_bytes.saturating_mul(Self::DECOMPRESSED_TIMES_MAX))
    }
}

/// Why a batch is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    #[error("there is no record batch")]
    Empty,
    #[error("the records end in the middle of a batch")]
    Incomplete,
    #[error("there must be exactly one record batch per partition")]
    SeveralBatches,
    #[error("a batch length of {0} is not possible")]
    InvalidLength(i32),
    #[error("message format {0} does not exist")]
    UnknownMagic(i8),
    #[error("message format {0} is no longer supported, only format 2 is")]
    OldMagic(i8),
    #[error("the batch is corrupt: its CRC is {stored:#010x}, that of its bytes is {computed:#010x}")]
    WrongCrc { stored: u32, computed: u32 },
    #[error("a batch of {size} bytes is larger than the maximum of {max}")]
    TooLarge { size: usize, max: usize },
    #[error("compression codec {0} does not exist")]
    UnknownCodec(i16),
    #[error("zstd needs version 7 of the Produce request")]
    ZstdNotAllowed,
    #[error("the base offset of a produced batch is 0, not {0}")]
    BaseOffset(i64),
    #[error("the batch says it has {count} records, and that its last offset is {last_offset_delta} behind the first")]
    Count { count: i32, last_offset_delta: i32 },
    #[error("record {index} has the offset {offset_delta}")]
    OffsetGap { index: i32, offset_delta: i32 },
    #[error("clients may not write control records")]
    Control,
    #[error("clients may not set a delete horizon")]
    DeleteHorizon,
    #[error("producer id {id} with epoch {epoch} and sequence {sequence} is not possible")]
    Producer { id: i64, epoch: i16, sequence: i32 },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("{}", Summary(.0))]
    Rejected(Vec<Rejected>),
}

/// In the words of Kafka's `LogValidator`, which its tests compare.
struct Summary<'a>(&'a [Rejected]);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        let rejected = self.0;
        if rejected.iter().any(|record| record.reason.is_about_time()) {
            return f.write_str("One or more records have been rejected due to invalid timestamp");
        }
        let count = rejected.len();
        write!(f, "One or more records have been rejected due to {count} record errors in total, and only showing ")?;
        write!(f, "the first three errors at most:")?;
        rejected.iter().take(SHOWN).try_for_each(|record| write!(f, " {}: {};", record.index, record.reason))
    }
}

/// A record that makes its batch unacceptable: one of a Produce response's `record_errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Position of the record in its batch.
    pub index: i32,
    pub reason: RejectReason,
}

impl Rejected {
    /// At most so many are listed.
    const COUNT_MAX: usize = 100;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectReason {
    #[error("Compacted topic cannot accept message without key")]
    NoKey,
    #[error(
        "Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within \
         [{earliest}, {latest}]"
    )]
    Timestamp { index: i32, timestamp: i64, earliest: i64, latest: i64 },
    #[error("Invalid timestamp type. Producer should not set timestamp type to LogAppendTime.")]
    LogAppendTime,
}

impl RejectReason {
    fn is_about_time(self) -> bool {
        self != Self::NoKey
    }
}

impl BatchError {
    /// The code that the partition gets in a Produce response.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidLength(_) | Self::UnknownMagic(_) | Self::WrongCrc { .. } => ErrorCode::CORRUPT_MESSAGE,
            Self::TooLarge { .. } => ErrorCode::MESSAGE_TOO_LARGE,
            Self::UnknownCodec(_) | Self::ZstdNotAllowed => ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            Self::Record(RecordError::Compress(CompressError::Corrupt(_))) => ErrorCode::CORRUPT_MESSAGE,
            Self::Record(RecordError::Compress(CompressError::TooLarge(_))) => ErrorCode::MESSAGE_TOO_LARGE,
            Self::Rejected(rejected) if rejected.iter().any(|record| record.reason.is_about_time()) => {
                ErrorCode::INVALID_TIMESTAMP
            }
            Self::Empty
            | Self::Incomplete
            | Self::SeveralBatches
            | Self::OldMagic(_)
            | Self::BaseOffset(_)
            | Self::Count { .. }
            | Self::OffsetGap { .. }
            | Self::Control
            | Self::DeleteHorizon
            | Self::Producer { .. }
            | Self::Record(_)
            | Self::Rejected(_) => ErrorCode::INVALID_RECORD,
        }
    }

    /// The records at fault, where it is single records.
    pub fn rejected(&self) -> &[Rejected] {
        match self {
            Self::Rejected(rejected) => rejected,
            _ => &[],
        }
    }
}

/// Checks the records of one partition of a Produce request. The batch that comes back is to be stored: the bytes as
/// they came, or with what the topic's rules change.
pub fn validate(records: &Bytes, rules: &Rules, produce_version: i16, now_ms: i64) -> Result<Batch, BatchError> {
    const ZSTD_SINCE: i16 = 7;

    let batch = Batch::parse(records)?;
    let header = &batch.header;
    if batch.bytes.len() != records.len() {
        return Err(BatchError::SeveralBatches);
    }
    if header.base_offset != 0 {
        return Err(BatchError::BaseOffset(header.base_offset));
    }
    check_size(&batch, rules)?;
    batch.verify_crc()?;
    let codec = header.attributes.codec().ok_or(BatchError::UnknownCodec(header.attributes.compression()))?;
    if codec == Codec::Zstd && produce_version < ZSTD_SINCE {
        return Err(BatchError::ZstdNotAllowed);
    }
    check_header(header)?;

    let limit = rules.decompressed_bytes_max(batch.section().len());
    let (stored, max_timestamp) = match rules.compression {
        Some(target) if target.codec != codec => {
            let section = batch.records(limit)?;
            let max_timestamp = Section::Plain(&section).check(header, rules, now_ms)?;
            let stored = rewrite::recompress(&batch, &section, target.codec, target.level);
            check_size(&stored, rules)?;
            (stored, max_timestamp)
        }
        _ => {
            let section = match codec {
                Codec::None => Section::Plain(batch.section()),
                _ => Section::Compressed { codec, bytes: batch.section(), limit },
            };
            let max_timestamp = section.check(header, rules, now_ms)?;
            (batch, max_timestamp)
        }
    };
    Ok(with_timestamps(stored, rules, max_timestamp, now_ms))
}

fn check_size(batch: &Batch, rules: &Rules) -> Result<(), BatchError> {
    match batch.bytes.len() {
        size if size > rules.max_message_bytes => Err(BatchError::TooLarge { size, max: rules.max_message_bytes }),
        _ => Ok(()),
    }
}

fn check_header(header: &BatchHeader) -> Result<(), BatchError> {
    let BatchHeader { record_count: count, last_offset_delta, .. } = *header;
    if count <= 0 || last_offset_delta != count - 1 {
        return Err(BatchError::Count { count, last_offset_delta });
    }
    if header.attributes.is_control() {
        return Err(BatchError::Control);
    }
    if header.attributes.has_delete_horizon() {
        return Err(BatchError::DeleteHorizon);
    }
    let BatchHeader { producer_id: id, producer_epoch: epoch, base_sequence: sequence, .. } = *header;
    let possible = if header.has_producer_id() {
        epoch >= 0 && sequence >= 0
    } else {
        // Transactions are known by their producer.
        !header.attributes.is_transactional()
    };
    if !possible {
        return Err(BatchError::Producer { id, epoch, sequence });
    }
    if header.attributes.is_log_append_time() {
        return Err(BatchError::Rejected(vec![Rejected { index: 0, reason: RejectReason::LogAppendTime }]));
    }
    Ok(())
}

/// The records of a batch that is checked.
enum Section<'a> {
    Plain(&'a [u8]),
    Compressed { codec: Codec, bytes: &'a [u8], limit: usize },
}

impl Section<'_> {
    #[inline]
    fn walk(&self, count: i32, record: impl FnMut(Walked) -> Result<(), BatchError>) -> Result<(), BatchError> {
        match *self {
            Self::Plain(bytes) => walk(bytes, count, record),
            Self::Compressed { codec, bytes, limit } => {
                walk_compressed(Decompressor::new(codec, bytes, limit).map_err(RecordError::from)?, count, record)
            }
        }
    }

    /// Checks every record and returns the largest timestamp. This walk only gathers what is needed for the checks.
    fn check(&self, header: &BatchHeader, rules: &Rules, now_ms: i64) -> Result<i64, BatchError> {
        let (mut min_timestamp, mut max_timestamp, mut keys) = (i64::MAX, NONE, 0);
        self.walk(header.record_count, |record| {
            if record.offset_delta != record.index {
                return Err(BatchError::OffsetGap { index: record.index, offset_delta: record.offset_delta });
            }
            let timestamp = header.record_timestamp(record.timestamp_delta);
            if timestamp != NONE {
                min_timestamp = min_timestamp.min(timestamp);
            }
            max_timestamp = max_timestamp.max(timestamp);
            keys += i32::from(record.has_key);
            Ok(())
        })?;
        let (earliest, latest) = rules.timestamps(now_ms);
        if rules.compacted && keys < header.record_count || min_timestamp < earliest || max_timestamp > latest {
            return Err(self.rejected(header, rules, now_ms));
        }
        Ok(max_timestamp)
    }

    /// Walks again for the records at fault.
    fn rejected(&self, header: &BatchHeader, rules: &Rules, now_ms: i64) -> BatchError {
        let (earliest, latest) = rules.timestamps(now_ms);
        let mut rejected = Vec::new();
        let walked = self.walk(header.record_count, |record| {
            let timestamp = header.record_timestamp(record.timestamp_delta);
            let reason = if rules.compacted && !record.has_key {
                RejectReason::NoKey
            } else if timestamp != NONE && !(earliest..=latest).contains(&timestamp) {
                RejectReason::Timestamp { index: record.index, timestamp, earliest, latest }
            } else {
                return Ok(());
            };
            if rejected.len() < Rejected::COUNT_MAX {
                rejected.push(Rejected { index: record.index, reason });
            }
            Ok(())
        });
        match walked {
            Ok(()) => BatchError::Rejected(rejected),
            Err(error) => error,
        }
    }
}

impl Rules {
    /// The earliest and the latest timestamp that a record may have.
    fn timestamps(&self, now_ms: i64) -> (i64, i64) {
        match self.timestamp_type {
            TimestampType::CreateTime => (
                now_ms.saturating_sub(self.timestamp_before_max_ms),
                now_ms.saturating_add(self.timestamp_after_max_ms),
            ),
            TimestampType::LogAppendTime => (i64::MIN, i64::MAX),
        }
    }
}

/// Sets the header's largest timestamp: the broker's time where the topic says so, and otherwise what the records have,
/// since not every client gets it right and searches by time rely on it.
fn with_timestamps(batch: Batch, rules: &Rules, max_timestamp: i64, now_ms: i64) -> Batch {
    let mut header = batch.header;
    match rules.timestamp_type {
        TimestampType::CreateTime => header.max_timestamp = max_timestamp,
        TimestampType::LogAppendTime => {
            header.max_timestamp = now_ms;
            header.attributes = header.attributes.with_log_append_time();
        }
    }
    if header == batch.header { batch } else { Batch::assemble(header, batch.section()) }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::batch::{BatchBuilder, HEADER_BYTES};
    use crate::compress;

    const NOW: i64 = 1_700_000_000_000;
    const VERSION: i16 = 12;

    fn builder(count: i64) -> BatchBuilder {
        let mut builder = BatchBuilder::new();
        for i in 0..count {
            builder.push(NOW + i, Some(b"key"), Some(b"value"), &[(b"h", None)]);
        }
        builder
    }

    /// A batch whose header `edit` changes, with a right CRC.
    fn edited(batch: &Batch, edit: impl FnOnce(&mut BatchHeader)) -> Bytes {
        let mut header = batch.header;
        edit(&mut header);
        let bytes = Batch::assemble(header, batch.section()).bytes;
        if header.length == batch.header.length {
            return bytes;
        }
        let mut bytes = BytesMut::from(&bytes[..]);
        bytes[8..12].copy_from_slice(&header.length.to_be_bytes());
        bytes.freeze()
    }

    fn check(bytes: &Bytes) -> Result<Batch, BatchError> {
        validate(bytes, &Rules::default(), VERSION, NOW)
    }

    fn code(bytes: &Bytes) -> i16 {
        check(bytes).map_or_else(|error| error.code().0, |_| 0)
    }

    #[test]
    fn a_good_batch_is_stored_as_it_came() {
        for codec in Codec::ALL {
            let batch = builder(100).compression(codec, None).producer(5, 0, 0).build();
            let stored = check(&batch.bytes).unwrap();
            assert_eq!(stored, batch, "{codec:?}");
            assert_eq!(stored.bytes.as_ptr(), batch.bytes.as_ptr(), "not copied");
        }
    }

    #[test]
    fn hostile_batches_get_kafkas_codes() {
        let one = builder(1).build();
        let edit = |edit: fn(&mut BatchHeader)| code(&edited(&one, edit));
        let mut wrong_crc = BytesMut::from(&one.bytes[..]);
        *wrong_crc.last_mut().unwrap() ^= 1;
        assert_eq!(code(&wrong_crc.freeze()), 2);
        assert_eq!(code(&Bytes::new()), 87);
        assert_eq!(edit(|h| (h.record_count, h.last_offset_delta) = (5, 4)), 87);
        assert_eq!(edit(|h| h.record_count = 5), 87);
        assert_eq!(edit(|h| h.record_count = -1), 87);
        assert_eq!(edit(|h| (h.record_count, h.last_offset_delta) = (0, -1)), 87);
        assert_eq!(edit(|h| h.magic = 7), 2);
        assert_eq!(edit(|h| h.magic = -1), 2);
        assert_eq!(edit(|h| h.magic = 1), 87);
        assert_eq!(edit(|h| h.magic = 0), 87);
        assert_eq!(edit(|h| h.length = -1), 2);
        assert_eq!(edit(|h| h.length = 0), 2);
        assert_eq!(edit(|h| h.length = 40), 2);
        assert_eq!(edit(|h| h.length = i32::MAX), 2);
        assert_eq!(edit(|h| h.length += 1), 87);
        assert_eq!(edit(|h| h.attributes = Attributes(7)), 76);
        assert_eq!(edit(|h| h.attributes = h.attributes.with_codec(Codec::Gzip)), 2);
        assert_eq!(edit(|h| h.attributes = h.attributes.with_control()), 87);
        assert_eq!(edit(|h| h.attributes = h.attributes.with_transactional()), 87);
        assert_eq!(edit(|h| h.attributes = h.attributes.with_delete_horizon()), 87);
        assert_eq!(edit(|h| h.attributes = h.attributes.with_log_append_time()), 32);
        assert_eq!(edit(|h| h.base_offset = 1), 87);
        assert_eq!(edit(|h| h.producer_id = 1), 87);
        assert_eq!(edit(|h| (h.producer_id, h.producer_epoch) = (1, 0)), 87);
        assert_eq!(edit(|h| (h.producer_id, h.producer_epoch, h.base_sequence) = (1, 0, 0)), 0);
        assert_eq!(code(&[&one.bytes[..], &one.bytes[..]].concat().into()), 87);
        assert_eq!(code(&[&one.bytes[..], &[0]].concat().into()), 87);
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_refused() {
        let batch = builder(3).build();
        for end in 0..batch.bytes.len() {
            assert!(check(&batch.bytes.slice(..end)).is_err(), "{end}");
        }
        for bit in 0..batch.bytes.len() * 8 {
            let mut bytes = BytesMut::from(&batch.bytes[..]);
            bytes[bit / 8] ^= 1 << (bit % 8);
            // The CRC does not cover the leader epoch, which the broker sets.
            assert_eq!(check(&bytes.freeze()).is_ok(), (12..16).contains(&(bit / 8)), "{bit}");
        }
    }

    #[test]
    fn offsets_are_contiguous() {
        let mut batch = BatchBuilder::new();
        batch.push(NOW, None, None, &[]);
        batch.push_at(2, NOW, None, None, std::iter::empty());
        let bytes = edited(&batch.build(), |h| h.last_offset_delta = 1);
        assert_eq!(check(&bytes), Err(BatchError::OffsetGap { index: 1, offset_delta: 2 }));
        assert_eq!(code(&bytes), 87);
    }

    #[test]
    fn size_is_limited() {
        let batch = builder(10).build();
        let size = batch.bytes.len();
        let rules = |max_message_bytes| Rules { max_message_bytes, ..Rules::default() };
        assert!(validate(&batch.bytes, &rules(size), VERSION, NOW).is_ok());
        let error = validate(&batch.bytes, &rules(size - 1), VERSION, NOW).unwrap_err();
        assert_eq!(error, BatchError::TooLarge { size, max: size - 1 });
        assert_eq!(error.code(), ErrorCode::MESSAGE_TOO_LARGE);
    }

    #[test]
    fn zstd_needs_version_7() {
        let batch = builder(1).compression(Codec::Zstd, None).build();
        assert_eq!(validate(&batch.bytes, &Rules::default(), 7, NOW), Ok(batch.clone()));
        let error = validate(&batch.bytes, &Rules::default(), 6, NOW).unwrap_err();
        assert_eq!(error.code(), ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
    }

    #[test]
    fn compacted_topics_need_keys() {
        let mut batch = builder(2);
        batch.push(NOW, None, None, &[]);
        batch.push(NOW, Some(b""), None, &[]);
        batch.push(NOW, None, None, &[]);
        let rules = Rules { compacted: true, ..Rules::default() };
        for codec in Codec::ALL {
            let bytes = batch.clone().compression(codec, None).build().bytes;
            let error = validate(&bytes, &rules, VERSION, NOW).unwrap_err();
            assert_eq!(error.code(), ErrorCode::INVALID_RECORD);
            assert_eq!(error.rejected().iter().map(|r| r.index).collect::<Vec<_>>(), [2, 4]);
            assert!(check(&bytes).is_ok());
        }
    }

    #[test]
    fn timestamps_are_kept_in_range() {
        let rules = Rules { timestamp_before_max_ms: 1000, timestamp_after_max_ms: 100, ..Rules::default() };
        let at = |timestamps: &[i64]| {
            let mut builder = BatchBuilder::new();
            timestamps.iter().for_each(|timestamp| builder.push(*timestamp, None, None, &[]));
            validate(&builder.build().bytes, &rules, VERSION, NOW)
        };
        assert!(at(&[NOW - 1000, NOW + 100, -1]).is_ok());
        for bad in [NOW - 1001, NOW + 101, -2, 0, i64::MIN, i64::MAX] {
            let error = at(&[NOW, bad]).unwrap_err();
            assert_eq!(error.code(), ErrorCode::INVALID_TIMESTAMP, "{bad}");
            assert_eq!(error.rejected().iter().map(|r| r.index).collect::<Vec<_>>(), [1], "{bad}");
        }
        assert_eq!(at(&[0; 1000]).unwrap_err().rejected().len(), Rejected::COUNT_MAX);
        // A timestamp's error outweighs a missing key's, as in Kafka.
        let mut builder = BatchBuilder::new();
        builder.push(NOW, None, None, &[]);
        builder.push(0, Some(b"k"), None, &[]);
        let rules = Rules { compacted: true, ..rules };
        let error = validate(&builder.build().bytes, &rules, VERSION, NOW).unwrap_err();
        assert_eq!((error.code(), error.rejected().len()), (ErrorCode::INVALID_TIMESTAMP, 2));
    }

    #[test]
    fn the_largest_timestamp_is_set_right() {
        for codec in [Codec::None, Codec::Lz4] {
            let batch = builder(5).compression(codec, None).build();
            let wrong = edited(&batch, |h| h.max_timestamp = 0);
            assert_eq!(check(&wrong).unwrap(), batch);
        }
        let batch = builder(5).build();
        let rules = Rules { timestamp_type: TimestampType::LogAppendTime, ..Rules::default() };
        let stored = validate(&batch.bytes, &rules, VERSION, 7).unwrap();
        assert_eq!(stored.header.max_timestamp, 7);
        assert!(stored.header.attributes.is_log_append_time());
        assert_eq!(Batch::parse(&stored.bytes), Ok(stored.clone()));
        assert_eq!(stored.verify_crc(), Ok(()));
    }

    #[test]
    fn topics_can_ask_for_a_codec() {
        for from in Codec::ALL {
            for codec in Codec::ALL {
                let batch = builder(50).compression(from, None).producer(3, 1, 9).build();
                let rules = Rules { compression: Some(Compression { codec, level: None }), ..Rules::default() };
                let stored = validate(&batch.bytes, &rules, VERSION, NOW).unwrap();
                assert_eq!(stored.header.attributes.codec(), Some(codec));
                assert_eq!(stored.verify_crc(), Ok(()));
                assert_eq!(stored.records(1 << 20), batch.records(1 << 20));
                assert_eq!(check(&stored.bytes), Ok(stored));
            }
        }
    }

    #[test]
    fn a_recompressed_batch_is_measured_again() {
        let mut builder = BatchBuilder::new().compression(Codec::Gzip, None);
        builder.push(NOW, None, Some(&[0; 10_000]), &[]);
        let rules = Rules {
            max_message_bytes: 9000,
            compression: Some(Compression { codec: Codec::None, level: None }),
            ..Rules::default()
        };
        let error = validate(&builder.build().bytes, &rules, VERSION, NOW).unwrap_err();
        assert_eq!(error.code(), ErrorCode::MESSAGE_TOO_LARGE);
    }

    /// One record of `size` zero bytes.
    fn bomb(codec: Codec, size: usize) -> Bytes {
        let mut builder = BatchBuilder::new().compression(codec, None);
        builder.push(NOW, None, Some(&vec![0; size]), &[]);
        builder.build().bytes
    }

    #[test]
    fn bombs_are_refused() {
        const MB: usize = 1024 * 1024;
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            assert_eq!(code(&bomb(codec, MB - 100)), 0, "{codec:?}: what is allowed uncompressed is allowed");
            assert_eq!(code(&bomb(codec, 11 * MB)), 10, "{codec:?}");
        }
        assert_eq!(code(&bomb(Codec::Zstd, 5 * MB)), 10, "the ratio is more than 1,000");
        assert_eq!(code(&bomb(Codec::Lz4, 5 * MB)), 0, "the ratio is about 250");
    }

    #[test]
    fn compressed_sections_are_walked_to_their_end() {
        for codec in Codec::ALL {
            let batch = builder(3).build();
            let of = |section: &[u8], count: i32| {
                let mut out = BytesMut::new();
                compress::compress(codec, None, section, &mut out);
                let attributes = batch.header.attributes.with_codec(codec);
                let header =
                    BatchHeader { attributes, record_count: count, last_offset_delta: count - 1, ..batch.header };
                code(&Batch::assemble(header, &out).bytes)
            };
            let section = batch.section();
            assert_eq!(of(section, 3), 0, "{codec:?}");
            assert_eq!(of(section, 2), 87, "{codec:?}");
            assert_eq!(of(section, 4), 87, "{codec:?}");
            assert_eq!(of(&section[..section.len() - 1], 3), 87, "{codec:?}");
            assert_eq!(of(&[section, &[0]].concat(), 3), 87, "{codec:?}");
        }
        assert_eq!(builder(3).size_bytes(), HEADER_BYTES + builder(3).build().section().len());
    }

    use crate::batch::Attributes;
}
