//! Splits a batch that a broker finds too large in two (`ProducerBatch.split`).

use bytes::Bytes;
use wire::batch::{Batch, BatchBuilder, BatchError, add_sequence};
use wire::record::RecordReader;

use crate::settings::ProducerSettings;

/// A part of what was one batch.
pub(crate) struct Part {
    pub(crate) bytes: Bytes,
    pub(crate) records: usize,
    pub(crate) sequence: i32,
    /// Without compression.
    pub(crate) plain_bytes: usize,
}

/// Two batches of about the same size with the records and sequences of one; `None` if that has a single record.
pub(crate) fn halves(bytes: &Bytes, settings: &ProducerSettings) -> Result<Option<[Part; 2]>, BatchError> {
    let batch = Batch::parse(bytes)?;
    let header = &batch.header;
    if header.record_count < 2 {
        return Ok(None);
    }
    let section = batch.records(usize::MAX)?;
    let builder = |sequence: i32| {
        let mut builder = BatchBuilder::new().compression(settings.compression, settings.compression_level);
        if header.has_producer_id() {
            builder = builder.producer(header.producer_id, header.producer_epoch, sequence);
        }
        if header.attributes.is_transactional() { builder.transactional() } else { builder }
    };
    let (mut first, mut second) = (builder(header.base_sequence), None::<BatchBuilder>);
    let last = header.record_count as usize - 1;
    for (n, record) in RecordReader::new(header, &section).enumerate() {
        let record = record?;
        // Each half has one record at least.
        let is_full = first.size_bytes() >= section.len() / 2 || n == last;
        let target = match &mut second {
            Some(second) => second,
            None if n > 0 && is_full => second.insert(builder(add_sequence(header.base_sequence, n as i32))),
            None => &mut first,
        };
        let headers: Vec<_> = record.headers.iter().collect();
        target.push(record.timestamp, record.key, record.value, &headers);
    }
    let part = |builder: BatchBuilder, sequence| {
        let (records, plain_bytes) = (builder.len(), builder.size_bytes());
        Part { bytes: builder.build().bytes, records, sequence, plain_bytes }
    };
    Ok(second.map(|second| {
        let sequence = add_sequence(header.base_sequence, first.len() as i32);
        [part(first, header.base_sequence), part(second, sequence)]
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Content = (i64, Option<Vec<u8>>, usize);

    fn content(bytes: &Bytes) -> Vec<Content> {
        let batch = Batch::parse(bytes).unwrap();
        batch.verify_crc().unwrap();
        let section = batch.records(usize::MAX).unwrap();
        let records = RecordReader::new(&batch.header, &section).map(Result::unwrap);
        records.map(|record| (record.timestamp, record.value.map(<[u8]>::to_vec), record.headers.len())).collect()
    }

    #[test]
    fn halves_have_the_records_and_the_sequences_of_the_whole() {
        for codec in ["none", "lz4"] {
            let mut settings = ProducerSettings::default();
            settings.set("compression.type", codec).unwrap();
            for sizes in [&[10, 10][..], &[500, 1, 1], &[1, 1, 500], &[7; 100]] {
                let mut builder = BatchBuilder::new().compression(settings.compression, None);
                for (n, size) in sizes.iter().enumerate() {
                    builder.push(1000 + n as i64, None, Some(&vec![b'x'; *size]), &[(b"h", None)]);
                }
                let whole = builder.producer(7, 3, i32::MAX).transactional().build().bytes;
                let [first, second] = halves(&whole, &settings).unwrap().unwrap();
                assert_eq!([content(&first.bytes), content(&second.bytes)].concat(), content(&whole));
                assert!(first.records > 0 && second.records > 0, "{sizes:?}");
                let [a, b] = [&first, &second].map(|part| Batch::parse(&part.bytes).unwrap().header);
                assert_eq!((a.base_sequence, b.base_sequence), (i32::MAX, first.records as i32 - 1));
                assert_eq!([first.sequence, second.sequence], [a.base_sequence, b.base_sequence]);
                assert!(a.attributes.is_transactional() && (b.producer_id, b.producer_epoch) == (7, 3));
            }
        }
    }

    #[test]
    fn a_single_record_is_not_cut() {
        let mut builder = BatchBuilder::new();
        builder.push(0, None, Some(b"x"), &[]);
        assert!(halves(&builder.build().bytes, &ProducerSettings::default()).unwrap().is_none());
    }
}
