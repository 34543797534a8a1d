//! Transaction markers: the one record of a control batch that has a producer id (`EndTransactionMarker`).

use std::io;

use bytes::Bytes;
use wire::batch::{BatchHeader, HEADER_BYTES};
use wire::record::RecordReader;
use wire::state::Stored;
use wire::state::control::{ControlType, EndTxnMarker};

use crate::disk::{File, read_up_to};

/// A marker is a single record with two small fields.
const MARKER_BYTES_MAX: usize = 256;

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

/// The same of a batch in a file.
pub(crate) fn read_at(file: &dyn File, position: u64, header: &BatchHeader) -> io::Result<Option<Marker>> {
    let mut section = [0; MARKER_BYTES_MAX];
    let len = (header.size() - HEADER_BYTES).min(section.len());
    let len = read_up_to(file, &mut section[..len], position + HEADER_BYTES as u64)?;
    Ok(read(header, &section[..len]))
}
