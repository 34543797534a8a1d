//! Snapshots: the state as records, so that the log before it is not needed any more.
//!
//! The files are Kafka's: `END_OFFSET-EPOCH.checkpoint`, record batches between a SnapshotHeader and a SnapshotFooter,
//! the voters first. What raft needs to know beside that is in tagged fields of the header, which Kafka skips. A file
//! is written under a temporary name and renamed when it is on disk; an incomplete one is ignored. Each has a copy.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use raft::eraftpb;
use storage::disk::Disk;
use storage::set_aside;
use wire::state::Stored;
use wire::state::control::{ControlType, SnapshotFooterRecord};

use super::{Position, QuorumError, VoterSet, batches, copies};

/// More than any metadata that fits the other bounds.
const BYTES_MAX: usize = 1 << 30;
/// No log gets so far, and counting on does not overflow.
const END_OFFSET_MAX: i64 = i64::MAX / 2;
/// Records of one batch.
const BATCH_BYTES: usize = 1 << 20;

/// Which part of the log a snapshot stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotId {
    /// The first offset that is not in it.
    pub end_offset: i64,
    /// Epoch of the last record in it.
    pub epoch: i32,
}

impl SnapshotId {
    pub(super) fn position(self) -> Position {
        Position { offset: self.end_offset - 1, epoch: self.epoch }
    }

    fn path(self, dir: &Path) -> PathBuf {
        dir.join(format!("{:020}-{:010}.checkpoint", self.end_offset, self.epoch))
    }

    fn parse(name: &str) -> Option<Self> {
        let (end_offset, epoch) = name.strip_suffix(".checkpoint")?.split_once('-')?;
        let is_number = |digits: &str, length| digits.len() == length && digits.bytes().all(|b| b.is_ascii_digit());
        if !is_number(end_offset, 20) || !is_number(epoch, 10) {
            return None;
        }
        Some(Self { end_offset: end_offset.parse().ok()?, epoch: epoch.parse().ok()? })
    }
}

/// A snapshot in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) id: SnapshotId,
    /// Raft's index of the last entry in it.
    pub(super) index: u64,
    pub(super) voters: VoterSet,
    pub(super) values: Vec<Bytes>,
}

wire::message! {
    /// SnapshotHeaderRecord, and what raft needs.
    pub struct Header {
        version: i16, 0..;
        last_contained_log_timestamp: i64, 0..;
        raft_index: i64, 0.., tag 10000;
        end_offset: i64, 0.., tag 10002;
        epoch: i32, 0.., tag 10003;
    }
}

impl Stored for Header {
    const VERSIONS: RangeInclusive<i16> = 0..=0;
    const FLEXIBLE_SINCE: i16 = 0;
}

impl Snapshot {
    pub(super) fn encode(&self, now_ms: i64) -> Bytes {
        let epoch = self.id.epoch;
        let mut out = BytesMut::new();
        let mut offset = 0i64;
        let mut add = |builder: wire::batch::BatchBuilder| {
            let batch = builder.base_offset(offset).leader_epoch(epoch).build();
            offset = batch.header.next_offset();
            out.extend_from_slice(&batch.bytes);
        };
        let mut body = BytesMut::new();
        let header = Header {
            version: 0,
            last_contained_log_timestamp: now_ms,
            raft_index: i64::try_from(self.index).unwrap_or(i64::MAX),
            end_offset: self.id.end_offset,
            epoch,
        };
        header.write_body(&mut body, 0);
        add(batches::of_control(ControlType::SnapshotHeader, &body, now_ms));
        add(self.voters.to_batch(true, now_ms));
        let mut batch = wire::batch::BatchBuilder::new();
        for value in &self.values {
            batch.push(now_ms, None, Some(value), &[]);
            if batch.size_bytes() >= BATCH_BYTES {
                add(std::mem::take(&mut batch));
            }
        }
        if !batch.is_empty() {
            add(batch);
        }
        body.clear();
        SnapshotFooterRecord { version: 0 }.write_body(&mut body, 0);
        add(batches::of_control(ControlType::SnapshotFooter, &body, now_ms));
        out.freeze()
    }

    pub(super) fn decode(bytes: Bytes) -> Result<Self, QuorumError> {
        let parsed = batches::parse(bytes)?;
        let [first, second, middle @ .., last] = &parsed[..] else {
            return Err(QuorumError::corrupt("a snapshot has no header, voters and footer"));
        };
        let header = control(first, ControlType::SnapshotHeader)?;
        control(last, ControlType::SnapshotFooter)?;
        let header = Header::read_body(&header, 0).map_err(QuorumError::corrupt)?;
        let voters = VoterSet::from_batch(second)?.ok_or_else(|| QuorumError::corrupt("a snapshot has no voters"))?;
        let mut values = Vec::new();
        for batch in middle {
            values.append(&mut batches::values(batch)?);
        }
        let index = u64::try_from(header.raft_index).map_err(QuorumError::corrupt)?;
        if header.raft_index < 1 || header.epoch < 1 || !(0..=END_OFFSET_MAX).contains(&header.end_offset) {
            return Err(QuorumError::corrupt("a snapshot is of no place in the log"));
        }
        let id = SnapshotId { end_offset: header.end_offset, epoch: header.epoch };
        Ok(Self { id, index, voters, values })
    }

    /// As raft has it. `data` is what [`Self::encode`] made.
    pub(super) fn to_message(&self, data: Bytes) -> eraftpb::Snapshot {
        let mut message = eraftpb::Snapshot { data, ..eraftpb::Snapshot::default() };
        let metadata = message.mut_metadata();
        metadata.index = self.index;
        metadata.term = self.id.epoch as u64;
        *metadata.mut_conf_state() = self.voters.conf_state();
        message
    }

    /// Twice, and durable when this returns.
    pub(super) fn write(&self, disk: &dyn Disk, dir: &Path, now_ms: i64) -> io::Result<()> {
        copies::write(disk, &self.id.path(dir), &self.encode(now_ms))
    }
}

/// The value of a control batch of this type.
fn control(batch: &wire::batch::Batch, expected: ControlType) -> Result<Bytes, QuorumError> {
    let records = batches::records(batch)?;
    match &records[..] {
        [(key, value)] if batch.header.attributes.is_control() && ControlType::read(key) == Ok(expected) => {
            Ok(value.clone())
        }
        _ => Err(QuorumError::corrupt(format!("a snapshot has no {expected:?} where it belongs"))),
    }
}

/// The snapshots in a directory of which there is at least one copy, the newest first.
pub(super) fn list(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<SnapshotId>> {
    let id = |name: &str| SnapshotId::parse(name.strip_suffix(copies::COPY_SUFFIX).unwrap_or(name));
    let mut ids: Vec<SnapshotId> = disk.read_dir(dir)?.iter().filter_map(|entry| id(&entry.name)).collect();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids.dedup();
    Ok(ids)
}

/// Reads a snapshot, or its copy, from which it is then restored.
pub(super) fn read(disk: &dyn Disk, dir: &Path, id: SnapshotId) -> Result<Snapshot, QuorumError> {
    copies::read(disk, &id.path(dir), BYTES_MAX, |bytes| parse(id, bytes))?.ok_or_else(missing)
}

/// The same, without restoring anything.
pub(super) fn look_at(disk: &dyn Disk, dir: &Path, id: SnapshotId) -> Result<Snapshot, QuorumError> {
    copies::look_at(disk, &id.path(dir), BYTES_MAX, |bytes| parse(id, bytes))?.ok_or_else(missing)
}

fn missing() -> QuorumError {
    QuorumError::corrupt("a snapshot is not there")
}

fn parse(id: SnapshotId, bytes: Vec<u8>) -> Result<Snapshot, QuorumError> {
    let snapshot = Snapshot::decode(bytes.into())?;
    match snapshot.id == id {
        true => Ok(snapshot),
        false => Err(QuorumError::corrupt(format!("a snapshot is {:?} by its name and {:?} inside", id, snapshot.id))),
    }
}

/// Removes a snapshot and its copy. The removal need not be durable.
pub(super) fn remove(disk: &dyn Disk, dir: &Path, id: SnapshotId) -> io::Result<()> {
    let path = id.path(dir);
    for path in [copies::copy_of(&path), path] {
        match disk.remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Renames what is there of a damaged snapshot.
pub(super) fn set_aside(disk: &dyn Disk, dir: &Path, id: SnapshotId) -> io::Result<()> {
    let path = id.path(dir);
    for path in [copies::copy_of(&path), path] {
        set_aside::set_aside(disk, &path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Voter;
    use super::*;

    fn snapshot(values: usize) -> Snapshot {
        let id = SnapshotId { end_offset: 4711, epoch: 3 };
        let values = (0..values).map(|n| Bytes::from(vec![n as u8; 100_000])).collect();
        let voter = Voter { node_id: 1, directory_id: wire::Uuid([7; 16]), host: "h".to_owned(), port: 9093 };
        Snapshot { id, index: 815, voters: VoterSet::new(vec![voter]), values }
    }

    #[test]
    fn is_read_back_in_any_size() {
        for values in [0, 1, 30] {
            let snapshot = snapshot(values);
            assert_eq!(Snapshot::decode(snapshot.encode(5)).unwrap(), snapshot);
        }
    }

    #[test]
    fn one_that_is_not_whole_is_an_error() {
        let snapshot = snapshot(1);
        let bytes = snapshot.encode(5);
        for length in (0..bytes.len()).step_by(7) {
            assert!(Snapshot::decode(bytes.slice(..length)).is_err(), "{length}");
        }
        for index in (0..bytes.len()).step_by(11) {
            let mut bad = bytes.to_vec();
            bad[index] ^= 1;
            // Offsets and epochs of batches lie outside their CRCs, and say nothing here.
            if let Ok(read) = Snapshot::decode(bad.into()) {
                assert_eq!(read, snapshot);
            }
        }
    }

    #[test]
    fn names_are_kafkas() {
        let id = SnapshotId { end_offset: 4711, epoch: 3 };
        assert_eq!(id.path(Path::new("d")).to_str(), Some("d/00000000000000004711-0000000003.checkpoint"));
        assert_eq!(SnapshotId::parse("00000000000000004711-0000000003.checkpoint"), Some(id));
        for name in ["bootstrap.checkpoint", "1-2.checkpoint", "0000000000000000471x-0000000003.checkpoint"] {
            assert_eq!(SnapshotId::parse(name), None);
        }
    }
}
