//! Rewriting a batch: with another codec, or with some of its records (for compaction).

use super::{Batch, BatchBuilder, BatchError, BatchHeader};
use crate::compress::{self, Codec};
use crate::record::{Record, RecordError, RecordReader};
use bytes::BytesMut;

/// The batch with its records, here decompressed as `section`, compressed anew.
pub fn recompress(batch: &Batch, section: &[u8], codec: Codec, level: Option<i32>) -> Batch {
    let header = BatchHeader { attributes: batch.header.attributes.with_codec(codec), ..batch.header };
    let mut compressed = BytesMut::with_capacity(section.len());
    compress::compress(codec, level, section, &mut compressed);
    Batch::assemble(header, &compressed)
}

/// The time after which a batch's tombstones may be removed (KIP-534). An existing one is never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteHorizon {
    /// Set it if a tombstone is kept.
    ForTombstones(i64),
    /// Set it in any case: the batch is the marker of a transaction that has no records any more.
    Always(i64),
}

/// What is left of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retained {
    /// Every record: the batch can be copied as it is.
    All,
    /// Some records, or all with a new delete horizon. Offsets, sequences and the range of the batch are as they were.
    Some(Batch),
    /// No record. [`Batch::emptied`] keeps what the batch says of its producer.
    Nothing,
}

/// Keeps the records that `keep` wants, as Kafka's `MemoryRecords.filterTo` does. `section` are the records of the
/// batch, decompressed.
pub fn retain(
    batch: &Batch,
    section: &[u8],
    delete_horizon: DeleteHorizon,
    mut keep: impl FnMut(&Record<'_>) -> bool,
) -> Result<Retained, BatchError> {
    let header = &batch.header;
    let codec = header.attributes.codec().ok_or(BatchError::UnknownCodec(header.attributes.compression()))?;
    let (mut kept, mut dropped, mut tombstones) = (Vec::new(), false, false);
    for record in RecordReader::new(header, section) {
        let record = record?;
        if keep(&record) {
            tombstones |= record.value.is_none();
            kept.push(record);
        } else {
            dropped = true;
        }
    }
    if kept.is_empty() {
        return Ok(Retained::Nothing);
    }
    let horizon = match delete_horizon {
        _ if header.attributes.has_delete_horizon() => None,
        DeleteHorizon::ForTombstones(_) if !tombstones => None,
        DeleteHorizon::ForTombstones(horizon) | DeleteHorizon::Always(horizon) => Some(horizon),
    };
    if !dropped && horizon.is_none() {
        return Ok(Retained::All);
    }
    let mut builder = BatchBuilder::like(header, codec);
    if let Some(horizon) = horizon.or(header.attributes.has_delete_horizon().then_some(header.base_timestamp)) {
        builder = builder.delete_horizon(horizon);
    }
    for record in kept {
        let offset_delta = i32::try_from(record.offset - header.base_offset).map_err(|_| RecordError::OutOfRange)?;
        builder.push_at(offset_delta, record.timestamp, record.key, record.value, record.headers.iter());
    }
    Ok(Retained::Some(builder.build_up_to(header.last_offset_delta)))
}

impl Batch {
    /// The batch without its records: a header that keeps its range of offsets and its producer's last sequence.
    pub fn emptied(&self) -> Self {
        let max_timestamp = self.header.max_timestamp;
        let last_offset_delta = self.header.last_offset_delta;
        let mut builder = BatchBuilder::like(&self.header, Codec::None);
        builder.header.max_timestamp = max_timestamp;
        builder.build_up_to(last_offset_delta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HORIZON: DeleteHorizon = DeleteHorizon::ForTombstones(77_000);

    /// Offsets 10 to 14; offset 12 is a tombstone.
    fn batch(codec: Codec) -> Batch {
        let mut builder =
            BatchBuilder::new().base_offset(10).leader_epoch(3).producer(4, 5, 6).compression(codec, None);
        for i in 0..5u8 {
            let value = if i == 2 { None } else { Some(&b"value"[..]) };
            builder.push(1000 + i64::from(i), Some(&[b'a' + i]), value, &[(b"h", Some(b"1")), (b"h", None)]);
        }
        builder.build()
    }

    fn retained(batch: &Batch, horizon: DeleteHorizon, offsets: &[i64]) -> Retained {
        let section = batch.records(1 << 20).unwrap();
        retain(batch, &section, horizon, |record| offsets.contains(&record.offset)).unwrap()
    }

    #[test]
    fn what_is_kept_keeps_its_place() {
        for codec in Codec::ALL {
            let batch = batch(codec);
            let Retained::Some(left) = retained(&batch, HORIZON, &[11, 13]) else { panic!("some are left") };
            assert_eq!(left.verify_crc(), Ok(()));
            assert_eq!(left.header.attributes, batch.header.attributes);
            assert_eq!((left.header.base_offset, left.header.last_offset()), (10, 14));
            assert_eq!(left.header.last_sequence(), batch.header.last_sequence());
            assert_eq!((left.header.base_timestamp, left.header.max_timestamp), (1001, 1003));
            assert_eq!((left.header.partition_leader_epoch, left.header.record_count), (3, 2));
            let (before, after) = (batch.records(1 << 20).unwrap(), left.records(1 << 20).unwrap());
            let before: Vec<_> = RecordReader::new(&batch.header, &before).map(Result::unwrap).collect();
            let after: Vec<_> = RecordReader::new(&left.header, &after).map(Result::unwrap).collect();
            assert_eq!(after, [before[1], before[3]]);
        }
    }

    #[test]
    fn a_kept_tombstone_sets_the_horizon_once() {
        let batch = batch(Codec::None);
        let all = [10, 11, 12, 13, 14];
        let Retained::Some(first) = retained(&batch, HORIZON, &all) else { panic!("the horizon is new") };
        assert!(first.header.attributes.has_delete_horizon());
        assert_eq!(first.header.base_timestamp, 77_000);
        let section = first.records(1 << 20).unwrap();
        let times: Vec<_> =
            RecordReader::new(&first.header, &section).map(|record| record.unwrap().timestamp).collect();
        assert_eq!(times, [1000, 1001, 1002, 1003, 1004]);
        assert_eq!(retained(&first, DeleteHorizon::ForTombstones(99_000), &all), Retained::All);
        let Retained::Some(second) = retained(&first, DeleteHorizon::Always(99_000), &[12]) else {
            panic!("one is left")
        };
        assert_eq!((second.header.base_timestamp, second.header.max_timestamp), (77_000, 1002));
    }

    #[test]
    fn without_tombstones_nothing_changes() {
        let mut builder = BatchBuilder::new().control().transactional().producer(1, 0, -1);
        builder.push(1000, Some(&[0, 0, 0, 1]), Some(b""), &[]);
        let batch = builder.build();
        assert_eq!(retained(&batch, HORIZON, &[0]), Retained::All);
        let Retained::Some(marked) = retained(&batch, DeleteHorizon::Always(5), &[0]) else {
            panic!("the horizon is new")
        };
        assert!(marked.header.attributes.is_control() && marked.header.attributes.is_transactional());
        assert_eq!(marked.header.base_timestamp, 5);
    }

    #[test]
    fn an_emptied_batch_remembers_its_producer() {
        let batch = batch(Codec::Zstd);
        assert_eq!(retained(&batch, HORIZON, &[]), Retained::Nothing);
        let empty = batch.emptied();
        assert_eq!(Batch::parse(&empty.bytes), Ok(empty.clone()));
        assert_eq!(empty.verify_crc(), Ok(()));
        let expected = BatchHeader {
            length: empty.header.length,
            crc: empty.header.crc,
            attributes: batch.header.attributes.with_codec(Codec::None),
            base_timestamp: -1,
            record_count: 0,
            ..batch.header
        };
        assert_eq!((empty.header, empty.bytes.len()), (expected, 61));
        assert_eq!(retained(&empty, HORIZON, &[10]), Retained::Nothing);
    }
}
