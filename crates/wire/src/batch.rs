//! Record batches (magic 2): the 61-byte header, and a batch as it came from the network.
//!
//! A batch is stored as it was received. Only its base offset and its partition leader epoch are stamped by the broker,
//! and both lie outside what the CRC covers (`org.apache.kafka.common.record.DefaultRecordBatch`).

use bytes::{BufMut, Bytes};

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
        LENGTH_OVERHEAD_BYTES + self.length as usize
    }

    pub fn last_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    pub fn next_offset(&self) -> i64 {
        self.last_offset() + 1
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

    pub fn with_compression(self, codec: i16) -> Self {
        Self(self.0 & !Self::COMPRESSION | codec)
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

    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Whether the base timestamp is the time after which tombstones may be removed (KIP-534).
    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }
}

/// A whole batch: its header, parsed, and all of its bytes, header included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub header: BatchHeader,
    pub bytes: Bytes,
}

/// CRC-32C of what the CRC of a batch covers. `batch` is the whole batch.
pub fn crc(batch: &[u8]) -> u32 {
    crc32c::crc32c(&batch[CRC_COVERS_FROM..])
}
