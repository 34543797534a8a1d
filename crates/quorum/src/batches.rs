//! Entries as record batches, and back.

use bytes::Bytes;
use wire::batch::{Batch, BatchBuilder};
use wire::record::RecordReader;
use wire::state::Stored;
use wire::state::control::{ControlType, LeaderChangeMessage, Voter};

use super::QuorumError;

/// A batch of metadata records. The log stamps offset and epoch.
pub(super) fn of_values(values: &[Bytes], now_ms: i64) -> Batch {
    let mut builder = BatchBuilder::new();
    for value in values {
        builder.push(now_ms, None, Some(value), &[]);
    }
    builder.build()
}

/// A control batch of one record.
pub(super) fn of_control(control: ControlType, value: &[u8], now_ms: i64) -> BatchBuilder {
    let mut builder = BatchBuilder::new().control();
    builder.push(now_ms, Some(&control.write()), Some(value), &[]);
    builder
}

/// What a new leader writes first (`LeaderChangeMessage`), in the version that Kafka's tools read.
pub(super) fn of_leader_change(leader_id: i32, voter_ids: impl Iterator<Item = i32>, now_ms: i64) -> Batch {
    let voters: Vec<Voter> = voter_ids.map(|voter_id| Voter { voter_id, ..Voter::default() }).collect();
    let message = LeaderChangeMessage { version: 0, leader_id, voters: voters.clone(), granting_voters: voters };
    let mut value = bytes::BytesMut::new();
    message.write_body(&mut value, 0);
    of_control(ControlType::LeaderChange, &value, now_ms).build()
}

/// The records of a batch: their keys and values.
pub(super) fn records(batch: &Batch) -> Result<Vec<(Bytes, Bytes)>, QuorumError> {
    // What is written here is not compressed, and a batch fits in memory.
    let section = batch.records(batch.bytes.len()).map_err(QuorumError::corrupt)?;
    let copy = |field: Option<&[u8]>| field.map(Bytes::copy_from_slice).unwrap_or_default();
    RecordReader::new(&batch.header, &section)
        .map(|record| record.map(|record| (copy(record.key), copy(record.value))).map_err(QuorumError::corrupt))
        .collect()
}

/// The values of a batch of metadata records; none for a control batch.
pub(super) fn values(batch: &Batch) -> Result<Vec<Bytes>, QuorumError> {
    if batch.header.attributes.is_control() {
        return Ok(Vec::new());
    }
    Ok(records(batch)?.into_iter().map(|(_, value)| value).collect())
}

/// The batches of `bytes`, all of them whole.
pub(super) fn parse(bytes: Bytes) -> Result<Vec<Batch>, QuorumError> {
    let mut batches = wire::batch::Batches::new(bytes);
    let whole = batches.by_ref().collect::<Result<Vec<_>, _>>().map_err(QuorumError::corrupt)?;
    match batches.rest().len() {
        0 => Ok(whole),
        rest => Err(QuorumError::corrupt(format!("{rest} bytes follow the last batch"))),
    }
}
