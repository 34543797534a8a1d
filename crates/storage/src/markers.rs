//! Transaction markers: the one record of a control batch that has a producer id (`EndTransactionMarker`).

use bytes::Bytes;
use wire::batch::{Batch, BatchHeader};
use wire::record::RecordReader;
use wire::state::Stored;
use wire::state::control::{ControlType, EndTxnMarker};

/// Whether a batch ends its producer's transaction. The control batches of a quorum have no producer.
pub(crate) fn is_marker(header: &BatchHeader) -> bool {
    header.attributes.is_control() && header.has_producer_id()
}

/// The epoch of the coordinator that wrote a marker. `None` if compaction took the record, and with it the transaction.
pub(crate) fn coordinator_epoch(header: &BatchHeader, section: &[u8]) -> Option<i32> {
    let record = RecordReader::new(header, section).next().and_then(Result::ok);
    let value = record.and_then(|record| record.value).map(Bytes::copy_from_slice);
    value.and_then(|value| EndTxnMarker::read_versioned(&value).ok()).map(|marker| marker.coordinator_epoch)
}

/// Whether a marker says that the transaction did not happen.
pub(crate) fn is_abort(marker: &Batch) -> bool {
    let record = RecordReader::new(&marker.header, marker.section()).next().and_then(Result::ok);
    let key = record.and_then(|record| record.key).map(Bytes::copy_from_slice);
    key.is_some_and(|key| ControlType::read(&key) == Ok(ControlType::Abort))
}
