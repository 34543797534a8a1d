//! Transaction markers: the one record of a control batch (`EndTransactionMarker`).

use wire::batch::{Batch, HEADER_BYTES};

/// Reads the coordinator's epoch out of a transaction marker. `None` for all other batches.
pub(crate) fn coordinator_epoch(batch: &Batch) -> Option<i32> {
    if !batch.header.attributes.is_control() || !batch.header.has_producer_id() {
        return None;
    }
    Some(in_records(batch.bytes.get(HEADER_BYTES..).unwrap_or_default()).unwrap_or(-1))
}

/// `records` is an uncompressed record: length, attributes, timestamp delta, offset delta, key, value.
pub(crate) fn in_records(mut records: &[u8]) -> Option<i32> {
    let records = &mut records;
    varint(records)?;
    *records = records.get(1..)?;
    varint(records)?;
    varint(records)?;
    let key_bytes = usize::try_from(varint(records)?).ok()?;
    *records = records.get(key_bytes..)?;
    let value_bytes = usize::try_from(varint(records)?).ok()?;
    let value = records.get(..value_bytes)?;
    // A version, then the epoch.
    Some(i32::from_be_bytes(*value.get(2..)?.first_chunk()?))
}

/// A zigzag varint of at most ten bytes.
fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}
