//! Producer snapshots: `00000000000000000042.snapshot` holds the producers' states before offset 42.
//!
//! Kafka's `ProducerSnapshot`, version 1, which `kafka-dump-log.sh` reads. Only the last batch of each producer is in
//! it.

use std::io::{self, IoSlice};
use std::path::Path;

use wire::state::producer_snapshot::{ProducerEntry, ProducerSnapshot};

use crate::disk::{Disk, OpenMode, read_file, write_all_at};
use crate::names::{self, Kind, Stage};
use crate::producers::{BatchMetadata, ProducerState};

/// More than a million producers.
const FILE_BYTES_MAX: usize = 64 << 20;

fn entry_of(state: &ProducerState) -> ProducerEntry {
    let last = state.last_batch();
    ProducerEntry {
        producer_id: state.producer_id,
        epoch: state.producer_epoch,
        last_sequence: state.last_sequence(),
        last_offset: last.map_or(-1, |batch| batch.last_offset),
        offset_delta: last.map_or(0, |batch| batch.offset_delta),
        timestamp: state.last_timestamp,
        coordinator_epoch: state.coordinator_epoch,
        current_txn_first_offset: state.current_txn_first_offset.unwrap_or(-1),
    }
}

fn state_of(entry: &ProducerEntry) -> ProducerState {
    let mut state = ProducerState::new(entry.producer_id);
    state.producer_epoch = entry.epoch;
    state.last_timestamp = entry.timestamp;
    state.coordinator_epoch = entry.coordinator_epoch;
    state.current_txn_first_offset = Some(entry.current_txn_first_offset).filter(|&offset| offset >= 0);
    if entry.last_offset >= 0 {
        state.push(BatchMetadata {
            last_sequence: entry.last_sequence,
            last_offset: entry.last_offset,
            offset_delta: entry.offset_delta.max(0),
            timestamp: entry.timestamp,
        });
    }
    state
}

/// Writes a snapshot. A torn one is recognised by its CRC, so the write needs no ceremony.
pub(crate) fn write(disk: &dyn Disk, dir: &Path, offset: i64, states: &[ProducerState], sync: bool) -> io::Result<()> {
    let bytes = ProducerSnapshot::to_bytes(states.iter().map(entry_of).collect());
    let file = disk.open(&names::path(dir, offset, Kind::Snapshot, Stage::Live), OpenMode::CreateEmpty)?;
    write_all_at(&*file, &mut [IoSlice::new(&bytes)], 0)?;
    if sync { file.sync_data() } else { Ok(()) }
}

/// `None` if the snapshot is missing or damaged.
pub(crate) fn read(disk: &dyn Disk, dir: &Path, offset: i64) -> io::Result<Option<Vec<ProducerState>>> {
    match read_file(disk, &names::path(dir, offset, Kind::Snapshot, Stage::Live), FILE_BYTES_MAX) {
        Ok(bytes) => {
            let snapshot = ProducerSnapshot::from_bytes(&bytes.into()).ok();
            Ok(snapshot.map(|snapshot| snapshot.producer_entries.iter().map(state_of).collect()))
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The offsets of all snapshots there are, ascending.
pub(crate) fn offsets(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<i64>> {
    let of_snapshot = |name: &str| match names::parse(name) {
        Some((offset, Kind::Snapshot, Stage::Live)) => Some(offset),
        _ => None,
    };
    let mut offsets: Vec<i64> = disk.read_dir(dir)?.iter().filter_map(|entry| of_snapshot(&entry.name)).collect();
    offsets.sort_unstable();
    Ok(offsets)
}
