//! Transaction markers: the one record of a control batch that has a producer id (`EndTransactionMarker`).

use bytes::Bytes;
use wire::batch::BatchHeader;
use wire::record::RecordReader;
use wire::state::Stored;
use wire::state::control::{ControlType, EndTxnMarker};

/// What a marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// Of the coordinator that wrote it.
    pub(crate) coordinator_epoch: i32,
    /// The transaction did not happen.
    pub(crate) is_abort: bool,
}

/// Whether a batch ends its producer's transaction. The control batches of a quorum have no producer.
pub(crate) fn is_marker(header: &BatchHeader) -> bool {
    header.attributes.is_control() && header.has_producer_id()
}

/// What a batch of that kind says. `None` if compaction took its record, and with it the transaction.
pub(crate) fn read(header: &BatchHeader, section: &[u8]) -> Option<Marker> {
    let record = RecordReader::new(header, section).next()?.ok()?;
    let (key, value) = (Bytes::copy_from_slice(record.key?), Bytes::copy_from_slice(record.value?));
    let is_abort = match ControlType::read(&key).ok()? {
        ControlType::Abort => true,
        ControlType::Commit => false,
        _ => return None,
    };
    let coordinator_epoch = EndTxnMarker::read_versioned(&value).ok()?.coordinator_epoch;
    Some(Marker { coordinator_epoch, is_abort })
}
