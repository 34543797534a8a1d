//! The records of a Produce request. The first byte chooses the topic's rules, and whether length and CRC are set right
//! so that the checks behind them are reached. What is accepted must be readable by everyone, for ever.

use bytes::Bytes;
use wire::batch::{
    Batch, Batches, Compression, DeleteHorizon, HEADER_BYTES, Retained, Rules, TimestampType, crc, retain, validate,
};
use wire::compress::Codec;
use wire::record::RecordReader;

const NOW_MS: i64 = 1_700_000_000_000;
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

pub(crate) fn run(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let mut records = data.to_vec();
    if choice & 1 != 0 && records.len() >= HEADER_BYTES {
        let length = records.len() as i32 - 12;
        records[8..12].copy_from_slice(&length.to_be_bytes());
        records[16] = 2;
        let crc = crc(&records);
        records[17..21].copy_from_slice(&crc.to_be_bytes());
    }
    let rules = Rules {
        max_message_bytes: MAX_MESSAGE_BYTES,
        compacted: choice & 2 != 0,
        timestamp_type: if choice & 4 != 0 { TimestampType::LogAppendTime } else { TimestampType::CreateTime },
        compression: Codec::from_id(i16::from(choice >> 4)).map(|codec| Compression { codec, level: None }),
        ..Rules::default()
    };
    let records = Bytes::from(records);
    // A range of a log or of a Fetch response may hold anything.
    Batches::new(records.clone()).for_each(drop);
    match validate(&records, &rules, 9, NOW_MS) {
        Ok(batch) => check(&batch),
        Err(error) => assert!(!error.code().is_none() && error.code().0 > 0, "{error}"),
    }
}

fn check(batch: &Batch) {
    assert_eq!(Batch::parse(&batch.bytes).as_ref(), Ok(batch));
    assert_eq!(batch.verify_crc(), Ok(()));
    let section = batch.records(MAX_MESSAGE_BYTES * 10).expect("what was accepted is within the limit");
    let mut count = 0;
    for (i, record) in RecordReader::new(&batch.header, &section).enumerate() {
        let record = record.expect("what was accepted can be read");
        assert_eq!(record.offset, i as i64);
        assert_eq!(record.headers.iter().count(), record.headers.len());
        count += 1;
    }
    assert_eq!(count, batch.header.record_count);
    let horizon = DeleteHorizon::ForTombstones(NOW_MS);
    if let Retained::Some(left) =
        retain(batch, &section, horizon, |record| record.offset % 2 == 0).expect("it can be compacted")
    {
        assert_eq!(left.header.last_offset(), batch.header.last_offset());
        let section = left.records(usize::MAX).expect("it was just built");
        assert!(
            RecordReader::new(&left.header, &section).all(|record| record.is_ok_and(|record| record.offset % 2 == 0))
        );
    }
}
