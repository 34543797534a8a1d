//! Producer snapshots: `00000000000000000042.snapshot` holds the producers' states before offset 42.
//!
//! Kafka's `ProducerSnapshot`, version 1, which `kafka-dump-log.sh` reads: version, CRC-32C of what follows, entries. Only
//! the last batch of each producer is kept in it.

use std::io::{self, IoSlice};
use std::path::Path;

use crate::disk::{Disk, OpenMode, read_file, write_all_at};
use crate::names::{self, Kind, Stage};
use crate::producers::{BatchMetadata, ProducerState};

const VERSION: i16 = 1;
const CRC_AT: usize = 2;
const CRC_COVERS_FROM: usize = 6;
const ENTRY_BYTES: usize = 46;
/// More than a million producers.
const FILE_BYTES_MAX: usize = 64 << 20;

pub(crate) fn encode(states: &[ProducerState]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CRC_COVERS_FROM + 4 + states.len() * ENTRY_BYTES);
    bytes.extend(VERSION.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend((states.len() as i32).to_be_bytes());
    for state in states {
        let last = state.last_batch();
        bytes.extend(state.producer_id.to_be_bytes());
        bytes.extend(state.producer_epoch.to_be_bytes());
        bytes.extend(state.last_sequence().to_be_bytes());
        bytes.extend(last.map_or(-1, |batch| batch.last_offset).to_be_bytes());
        bytes.extend(last.map_or(0, |batch| batch.offset_delta).to_be_bytes());
        bytes.extend(state.last_timestamp.to_be_bytes());
        bytes.extend(state.coordinator_epoch.to_be_bytes());
        bytes.extend(state.current_txn_first_offset.unwrap_or(-1).to_be_bytes());
    }
    let crc = crc32c::crc32c(&bytes[CRC_COVERS_FROM..]);
    bytes[CRC_AT..CRC_COVERS_FROM].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// `None` for anything but a whole and undamaged snapshot.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<ProducerState>> {
    fn field<const N: usize>(entry: &[u8], at: usize) -> Option<[u8; N]> {
        entry.get(at..)?.first_chunk().copied()
    }
    let crc = u32::from_be_bytes(field(bytes, CRC_AT)?);
    let covered = bytes.get(CRC_COVERS_FROM..)?;
    if i16::from_be_bytes(field(bytes, 0)?) != VERSION || crc != crc32c::crc32c(covered) {
        return None;
    }
    let count = usize::try_from(i32::from_be_bytes(field(covered, 0)?)).ok()?;
    let entries = &covered[4..];
    if entries.len() != count.checked_mul(ENTRY_BYTES)? {
        return None;
    }
    let state = |entry: &[u8]| {
        let mut state = ProducerState::new(i64::from_be_bytes(field(entry, 0)?));
        state.producer_epoch = i16::from_be_bytes(field(entry, 8)?);
        state.last_timestamp = i64::from_be_bytes(field(entry, 26)?);
        state.coordinator_epoch = i32::from_be_bytes(field(entry, 34)?);
        state.current_txn_first_offset = Some(i64::from_be_bytes(field(entry, 38)?)).filter(|&offset| offset >= 0);
        let batch = BatchMetadata {
            last_sequence: i32::from_be_bytes(field(entry, 10)?),
            last_offset: i64::from_be_bytes(field(entry, 14)?),
            offset_delta: i32::from_be_bytes(field(entry, 22)?),
            timestamp: state.last_timestamp,
        };
        if batch.last_offset >= 0 {
            state.push(batch);
        }
        Some(state)
    };
    entries.chunks_exact(ENTRY_BYTES).map(state).collect()
}

/// Writes a snapshot. A torn one is recognised by its CRC, so the write needs no ceremony.
pub(crate) fn write(disk: &dyn Disk, dir: &Path, offset: i64, states: &[ProducerState], sync: bool) -> io::Result<()> {
    let file = disk.open(&names::path(dir, offset, Kind::Snapshot, Stage::Live), OpenMode::CreateEmpty)?;
    write_all_at(&*file, &mut [IoSlice::new(&encode(states))], 0)?;
    if sync { file.sync_data() } else { Ok(()) }
}

/// `None` if the snapshot is missing or damaged.
pub(crate) fn read(disk: &dyn Disk, dir: &Path, offset: i64) -> io::Result<Option<Vec<ProducerState>>> {
    match read_file(disk, &names::path(dir, offset, Kind::Snapshot, Stage::Live), FILE_BYTES_MAX) {
        Ok(bytes) => Ok(decode(&bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => Ok(None),
        Err(error) => Err(error),
    }
}
