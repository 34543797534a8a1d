//! Building a batch from records, as the Java client does (`MemoryRecordsBuilder`): uncompressed batches come out byte
//! for byte the same.

use bytes::BytesMut;

use super::{Attributes, Batch, BatchHeader, HEADER_BYTES};
use crate::compress::{self, Codec};
use crate::record::{Header, put_record};

/// Collects records and makes a batch of them.
///
/// ```
/// use wire::batch::BatchBuilder;
///
/// let mut builder = BatchBuilder::new();
/// builder.push(1_700_000_000_000, Some(b"key"), Some(b"value"), &[]);
/// let batch = builder.build();
/// assert_eq!(batch.header.record_count, 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct BatchBuilder {
    pub(super) header: BatchHeader,
    codec: Codec,
    level: Option<i32>,
    section: BytesMut,
}

impl BatchBuilder {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn base_offset(mut self, offset: i64) -> Self {
        self.header.base_offset = offset;
        self
    }

    pub fn leader_epoch(mut self, epoch: i32) -> Self {
        self.header.partition_leader_epoch = epoch;
        self
    }

    /// `level` as in [`compress::compress`].
    pub fn compression(mut self, codec: Codec, level: Option<i32>) -> Self {
        self.codec = codec;
        self.level = level;
        self
    }

    pub fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Self {
        self.header.producer_id = id;
        self.header.producer_epoch = epoch;
        self.header.base_sequence = base_sequence;
        self
    }

    pub fn transactional(mut self) -> Self {
        self.header.attributes = self.header.attributes.with_transactional();
        self
    }

    /// The records are for the broker and the clients' libraries, not for applications.
    pub fn control(mut self) -> Self {
        self.header.attributes = self.header.attributes.with_control();
        self
    }

    /// All records have this time, whatever they are pushed with.
    pub fn log_append_time(mut self, now_ms: i64) -> Self {
        self.header.attributes = self.header.attributes.with_log_append_time();
        self.header.max_timestamp = now_ms;
        self
    }

    /// The base timestamp becomes the time after which tombstones may go (KIP-534). Before the first record.
    pub(super) fn delete_horizon(mut self, horizon_ms: i64) -> Self {
        self.header.attributes = self.header.attributes.with_delete_horizon();
        self.header.base_timestamp = horizon_ms;
        self
    }

    /// Appends a record at the next offset.
    pub fn push(&mut self, timestamp: i64, key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header<'_>]) {
        let offset_delta = if self.is_empty() { 0 } else { self.header.last_offset_delta + 1 };
        self.push_at(offset_delta, timestamp, key, value, headers.iter().copied());
    }

    /// Appends a record `offset_delta` behind the base offset. The deltas must grow.
    pub(super) fn push_at<'h>(
        &mut self,
        offset_delta: i32,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = Header<'h>> + Clone,
    ) {
        let header = &mut self.header;
        if header.record_count == 0 && !header.attributes.has_delete_horizon() {
            header.base_timestamp = timestamp;
        }
        if !header.attributes.is_log_append_time() {
            header.max_timestamp = header.max_timestamp.max(timestamp);
        }
        header.last_offset_delta = offset_delta;
        header.record_count += 1;
        let timestamp_delta = timestamp.wrapping_sub(header.base_timestamp);
        put_record(&mut self.section, timestamp_delta, offset_delta, key, value, headers);
    }

    /// Records so far.
    pub fn len(&self) -> usize {
        self.header.record_count as usize
    }

    pub fn is_empty(&self) -> bool {
        self.header.record_count == 0
    }

    /// Bytes of the batch if it were built now without compression.
    pub fn size_bytes(&self) -> usize {
        HEADER_BYTES + self.section.len()
    }

    pub fn build(self) -> Batch {
        let last_offset_delta = self.header.last_offset_delta;
        self.build_up_to(last_offset_delta)
    }

    /// Builds a batch that ends at an offset behind its last record.
    pub(super) fn build_up_to(mut self, last_offset_delta: i32) -> Batch {
        self.header.last_offset_delta = last_offset_delta;
        if self.codec == Codec::None {
            return Batch::assemble(self.header, &self.section);
        }
        self.header.attributes = self.header.attributes.with_codec(self.codec);
        let mut compressed = BytesMut::with_capacity(self.section.len() / 2);
        compress::compress(self.codec, self.level, &self.section, &mut compressed);
        Batch::assemble(self.header, &compressed)
    }

    /// Starts from the header of a batch that exists: its producer, flags, codec and base offset.
    pub(super) fn like(header: &BatchHeader, codec: Codec) -> Self {
        let mut attributes = Attributes::default();
        let mut max_timestamp = super::NONE;
        if header.attributes.is_transactional() {
            attributes = attributes.with_transactional();
        }
        if header.attributes.is_control() {
            attributes = attributes.with_control();
        }
        if header.attributes.is_log_append_time() {
            attributes = attributes.with_log_append_time();
            max_timestamp = header.max_timestamp;
        }
        let header = BatchHeader {
            base_offset: header.base_offset,
            partition_leader_epoch: header.partition_leader_epoch,
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            attributes,
            max_timestamp,
            ..BatchHeader::default()
        };
        Self { header, codec, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordReader;

    #[test]
    fn what_is_built_is_read() {
        for codec in Codec::ALL {
            let mut builder = BatchBuilder::new().base_offset(40).compression(codec, None).producer(7, 1, 5);
            builder.push(1000, Some(b"a"), None, &[(b"h", None), (b"h", Some(b"x"))]);
            builder.push(990, None, Some(b"b"), &[]);
            let batch = builder.build();
            assert_eq!(Batch::parse(&batch.bytes), Ok(batch.clone()));
            assert_eq!(batch.verify_crc(), Ok(()));
            let header = batch.header;
            assert_eq!((header.base_timestamp, header.max_timestamp, header.last_offset()), (1000, 1000, 41));
            assert_eq!((header.producer_id, header.producer_epoch, header.last_sequence()), (7, 1, 6));
            let section = batch.records(1000).unwrap();
            let records: Vec<_> = RecordReader::new(&header, &section).map(Result::unwrap).collect();
            assert_eq!(records[0].headers.iter().count(), 2);
            assert_eq!((records[1].offset, records[1].timestamp, records[1].value), (41, 990, Some(&b"b"[..])));
        }
    }

    #[test]
    fn log_append_time_replaces_the_records_time() {
        let mut builder = BatchBuilder::new().log_append_time(5000);
        builder.push(9000, None, None, &[]);
        let batch = builder.build();
        let record = RecordReader::new(&batch.header, batch.section()).next().unwrap().unwrap();
        assert_eq!((record.timestamp, batch.header.max_timestamp), (5000, 5000));
    }
}
