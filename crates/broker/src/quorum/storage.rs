//! Where raft's entries are: on disk in Kafka's format, and in memory from the newest snapshot on.
//!
//! Raft reads from memory only, so that no read can fail in the middle of it. What is in memory is bounded by how often
//! snapshots are written.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use log::{CleanupPolicy, Disk, Log, LogConfig, LogError, OpenOptions, Origin, ReadError};
use raft::eraftpb::{ConfState, Entry, EntryType, HardState};
use raft::{GetEntriesContext, RaftState, StorageError};
use wire::Uuid;
use wire::batch::Batch;

use super::snapshot::{self, Snapshot, SnapshotId};
use super::{Options, QuorumError, batches, state_file};
use crate::env::Clock;

/// The id of the metadata log's topic (`Uuid.METADATA_TOPIC_ID`).
const TOPIC_ID: Uuid = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// Bytes that are read from the log at a time.
const READ_BYTES: u32 = 1 << 20;

/// Snapshots that are kept: should the newest turn out unreadable, the one before it and the log from there on do.
const SNAPSHOTS_KEPT: usize = 2;

/// Raft's id of a node: 0 is nobody.
pub(super) fn raft_id(node_id: i32) -> u64 {
    node_id as u64 + 1
}

pub(super) fn node_id(raft_id: u64) -> i32 {
    i32::try_from(raft_id).map_or(-1, |id| id - 1)
}

/// An entry and where it ends in the log.
struct Stored {
    entry: Entry,
    end_offset: i64,
}

pub(super) struct Storage {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    voters: Vec<i32>,
    log: Log,
    /// From the one behind the snapshot on.
    entries: VecDeque<Stored>,
    entries_bytes: u64,
    /// Of the newest snapshot: raft's index of the last entry in it, and what it is called. Before the first one, both
    /// say nothing was there.
    snapshot_index: u64,
    snapshot_id: SnapshotId,
    hard_state: HardState,
}

impl Storage {
    /// Opens what is there, or starts anew. Returns the snapshot that the state is to start from.
    pub(super) fn open(options: &Options) -> Result<(Self, Option<Snapshot>), QuorumError> {
        let Options { disk, clock, dir, voters, segment_bytes, .. } = options;
        let config = LogConfig {
            segment_bytes: *segment_bytes,
            segment_ms: i64::MAX,
            retention_bytes: -1,
            retention_ms: -1,
            file_delete_delay_ms: 0,
            cleanup_policy: CleanupPolicy::DELETE,
            ..LogConfig::default()
        };
        let snapshot = if disk.exists(dir)? { newest_snapshot(&**disk, dir)? } else { None };
        let snapshot_id = snapshot.as_ref().map_or(SnapshotId { end_offset: 0, epoch: 0 }, |snapshot| snapshot.id);
        let log = open_log(disk, dir, config, snapshot_id.end_offset, &**clock)?;
        let mut storage = Self {
            disk: disk.clone(),
            clock: clock.clone(),
            dir: dir.clone(),
            voters: snapshot.as_ref().map_or(voters, |snapshot| &snapshot.voters).clone(),
            log,
            entries: VecDeque::new(),
            entries_bytes: 0,
            snapshot_index: snapshot.as_ref().map_or(0, |snapshot| snapshot.index),
            snapshot_id,
            hard_state: HardState::default(),
        };
        storage.load_entries()?;
        storage.load_hard_state()?;
        Ok((storage, snapshot))
    }

    fn load_entries(&mut self) -> Result<(), QuorumError> {
        let view = self.log.view();
        let mut next_offset = self.snapshot_id.end_offset;
        if view.log_start_offset() > next_offset {
            return Err(QuorumError::corrupt(format!(
                "it begins at offset {}, and no snapshot reaches so far",
                view.log_start_offset()
            )));
        }
        if view.log_end_offset() < next_offset {
            // The log was lost or cut, but the snapshot has all that was in it.
            tracing::warn!(end = view.log_end_offset(), next_offset, "the metadata log ends before its snapshot");
            self.log.truncate_fully_and_start_at(next_offset, self.clock.now())?;
            return Ok(());
        }
        while next_offset < view.log_end_offset() {
            let bytes = view.read(next_offset, view.log_end_offset(), READ_BYTES).map_err(unreadable)?;
            for batch in batches::parse(bytes)? {
                if batch.header.base_offset != next_offset {
                    let base_offset = batch.header.base_offset;
                    return Err(QuorumError::corrupt(format!("offset {base_offset} follows {next_offset}")));
                }
                next_offset = batch.header.next_offset();
                self.remember(entry_of(&batch, self.last_index() + 1)?, next_offset);
            }
        }
        Ok(())
    }

    fn load_hard_state(&mut self) -> Result<(), QuorumError> {
        let found = match state_file::read(&*self.disk, &self.dir) {
            Err(QuorumError::Corrupt(reason)) if self.voters.len() == 1 => {
                // Nobody else votes, so no vote can be given twice. The term is that of the last entry.
                tracing::warn!(%reason, "the vote of the metadata quorum is made anew");
                None
            }
            found => found?,
        };
        let mut state = found.unwrap_or_default();
        if state.commit > self.last_index() {
            return Err(QuorumError::corrupt(format!(
                "it ends with entry {}, but entry {} was committed",
                self.last_index(),
                state.commit
            )));
        }
        let last_term = self.last_term();
        if state.term < last_term {
            state.term = last_term;
            state.vote = 0;
        }
        state.commit = state.commit.max(self.snapshot_index);
        self.hard_state = state;
        Ok(())
    }

    fn remember(&mut self, entry: Entry, end_offset: i64) {
        self.entries_bytes += entry.data.len() as u64;
        self.entries.push_back(Stored { entry, end_offset });
    }

    pub(super) fn voters(&self) -> &[i32] {
        &self.voters
    }

    pub(super) fn snapshot_index(&self) -> u64 {
        self.snapshot_index
    }

    fn last_index(&self) -> u64 {
        self.snapshot_index + self.entries.len() as u64
    }

    fn last_term(&self) -> u64 {
        self.entries.back().map_or(self.snapshot_id.epoch as u64, |stored| stored.entry.term)
    }

    fn stored(&self, index: u64) -> Option<&Stored> {
        let place = index.checked_sub(self.snapshot_index + 1)?;
        self.entries.get(usize::try_from(place).ok()?)
    }

    /// Offset of the last record of an entry.
    pub(super) fn offset_of(&self, index: u64) -> Option<i64> {
        if index == self.snapshot_index {
            return Some(self.snapshot_id.end_offset - 1);
        }
        self.stored(index).map(|stored| stored.end_offset - 1)
    }

    /// Bytes of the entries that are not in a snapshot.
    pub(super) fn entries_bytes(&self) -> u64 {
        self.entries_bytes
    }

    pub(super) fn free_bytes(&self) -> Result<u64, QuorumError> {
        Ok(self.disk.free_bytes(&self.dir)?)
    }

    /// The batch that proposes these values.
    pub(super) fn batch_of(&self, values: &[Bytes]) -> Batch {
        batches::of_values(values, self.clock.now_ms())
    }

    /// Puts entries on disk, each before the next. Those that are there already are passed over, so that it can be
    /// called again when the disk was full; those that contradict them replace them and all that follow.
    pub(super) fn append(&mut self, entries: &[Entry], leader: u64) -> Result<(), QuorumError> {
        for entry in entries {
            match self.stored(entry.index) {
                Some(stored) if stored.entry.term == entry.term => continue,
                Some(_) => self.truncate_from(entry.index)?,
                None if entry.index != self.last_index() + 1 => {
                    let last_index = self.last_index();
                    return Err(QuorumError::Raft(format!("entry {} follows {last_index}", entry.index).into()));
                }
                None => {}
            }
            self.append_one(entry, leader)?;
        }
        Ok(())
    }

    fn append_one(&mut self, entry: &Entry, leader: u64) -> Result<(), QuorumError> {
        if entry.entry_type != EntryType::EntryNormal {
            return Err(QuorumError::Raft("changes of the voters are not served yet".into()));
        }
        let batch = if entry.data.is_empty() {
            batches::of_leader_change(node_id(leader), &self.voters, self.clock.now_ms())
        } else {
            Batch::parse(&entry.data).map_err(QuorumError::corrupt)?
        };
        let epoch = i32::try_from(entry.term).map_err(|error| QuorumError::Raft(error.to_string().into()))?;
        let results = self.log.append(std::slice::from_ref(&batch), Origin::Replication, epoch, self.clock.now())?;
        let appended = match results.into_iter().next() {
            Some(Ok(appended)) => appended,
            Some(Err(log::AppendError::DiskFull)) => return Err(QuorumError::DiskFull),
            Some(Err(log::AppendError::Exhausted)) => {
                let error = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
                return Err(QuorumError::Log(LogError::Exhausted(Arc::new(error))));
            }
            Some(Err(error)) => return Err(QuorumError::Raft(error.to_string().into())),
            None => return Err(QuorumError::Raft("an append has no result".into())),
        };
        self.log.view().sync()?;
        self.remember(entry.clone(), appended.last_offset + 1);
        Ok(())
    }

    fn truncate_from(&mut self, index: u64) -> Result<(), QuorumError> {
        let offset = self.offset_of(index - 1).ok_or_else(|| QuorumError::Raft("an old entry is replaced".into()))?;
        self.log.truncate_to(offset + 1, self.clock.now())?;
        while self.last_index() >= index {
            let Some(stored) = self.entries.pop_back() else { break };
            self.entries_bytes -= stored.entry.data.len() as u64;
        }
        Ok(())
    }

    /// Takes the state that raft wants kept. Its commit alone is not worth a write.
    pub(super) fn set_hard_state(&mut self, state: &HardState) -> Result<(), QuorumError> {
        if (state.term, state.vote) != (self.hard_state.term, self.hard_state.vote) {
            // What is committed here is on disk here.
            state_file::write(&*self.disk, &self.dir, state)?;
        }
        self.hard_state = state.clone();
        Ok(())
    }

    pub(super) fn set_commit(&mut self, commit: u64) {
        self.hard_state.commit = commit;
    }

    /// Writes a snapshot of the state after the entry `index`, and lets go of what it and its predecessor make useless.
    pub(super) fn write_snapshot(&mut self, index: u64, values: Vec<Bytes>) -> Result<(), QuorumError> {
        let (Some(offset), Ok(term)) = (self.offset_of(index), raft::Storage::term(self, index)) else {
            return Err(QuorumError::Raft(format!("entry {index} is not there").into()));
        };
        let epoch = i32::try_from(term).unwrap_or(i32::MAX);
        let id = SnapshotId { end_offset: offset + 1, epoch };
        let snapshot = Snapshot { id, index, voters: self.voters.clone(), values };
        snapshot.write(&*self.disk, &self.dir, self.clock.now_ms())?;
        self.start_after(index, id);
        self.clean_up()
    }

    /// Replaces everything by a snapshot that another voter sent.
    pub(super) fn install(&mut self, snapshot: &Snapshot) -> Result<(), QuorumError> {
        snapshot.write(&*self.disk, &self.dir, self.clock.now_ms())?;
        self.log.truncate_fully_and_start_at(snapshot.id.end_offset, self.clock.now())?;
        self.entries.clear();
        self.entries_bytes = 0;
        (self.snapshot_index, self.snapshot_id) = (snapshot.index, snapshot.id);
        self.voters.clone_from(&snapshot.voters);
        self.hard_state.commit = self.hard_state.commit.max(snapshot.index);
        Ok(())
    }

    fn start_after(&mut self, index: u64, id: SnapshotId) {
        while self.snapshot_index < index {
            let Some(stored) = self.entries.pop_front() else { break };
            self.entries_bytes -= stored.entry.data.len() as u64;
            self.snapshot_index += 1;
        }
        self.snapshot_id = id;
    }

    /// Removes snapshots beyond those that are kept, and segments before the oldest of them.
    fn clean_up(&mut self) -> Result<(), QuorumError> {
        let ids = snapshot::list(&*self.disk, &self.dir)?;
        let now = self.clock.now();
        if let Some(oldest) = ids.get(SNAPSHOTS_KEPT - 1) {
            self.log.delete_records(oldest.end_offset)?;
        }
        self.log.roll(now)?;
        self.log.delete_old_segments(self.log.log_end_offset(), now)?;
        self.log.remove_deleted_files(now)?;
        for id in ids.iter().skip(SNAPSHOTS_KEPT) {
            snapshot::remove(&*self.disk, &self.dir, *id)?;
        }
        Ok(())
    }

    /// Leaves everything on disk in order.
    pub(super) fn close(&mut self) -> Result<(), QuorumError> {
        state_file::write(&*self.disk, &self.dir, &self.hard_state)?;
        self.log.close()?;
        Ok(())
    }
}

/// The newest snapshot that can be read. Those that cannot are removed, lest they count as kept.
fn newest_snapshot(disk: &dyn Disk, dir: &std::path::Path) -> Result<Option<Snapshot>, QuorumError> {
    for id in snapshot::list(disk, dir)? {
        match snapshot::read(disk, dir, id) {
            Ok(snapshot) => return Ok(Some(snapshot)),
            Err(QuorumError::Corrupt(reason)) => {
                tracing::error!(?id, %reason, "a snapshot of the metadata is damaged, and removed");
                snapshot::remove(disk, dir, id)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn open_log(
    disk: &Arc<dyn Disk>,
    dir: &std::path::Path,
    config: LogConfig,
    recovery_point: i64,
    clock: &dyn Clock,
) -> Result<Log, QuorumError> {
    let now = clock.now();
    let is_there = disk.exists(dir)? && log::metadata::read_topic_id(&**disk, dir)? == Some(TOPIC_ID);
    let (log, report) = if is_there {
        let options = OpenOptions { recovery_point, log_start_offset: 0, clean_shutdown: false, now };
        Log::open(disk.clone(), dir.to_owned(), config, options)?
    } else {
        Log::create(disk.clone(), dir.to_owned(), config, TOPIC_ID, now)?
    };
    if let Some(cut) = report.cut {
        tracing::warn!(offset = cut.offset, bytes = cut.bytes, "the torn end of the metadata log was cut");
    }
    Ok(log)
}

fn unreadable(error: ReadError) -> QuorumError {
    match error {
        ReadError::Corrupt { first_offset, next_offset } => {
            QuorumError::corrupt(format!("offsets {first_offset} to {next_offset} (exclusive) cannot be read"))
        }
        error => QuorumError::Log(error.into()),
    }
}

fn entry_of(batch: &Batch, index: u64) -> Result<Entry, QuorumError> {
    let term = u64::try_from(batch.header.partition_leader_epoch).map_err(QuorumError::corrupt)?;
    let data = if batch.header.attributes.is_control() { Bytes::new() } else { batch.bytes.clone() };
    Ok(Entry { index, term, data, ..Entry::default() })
}

impl raft::Storage for Storage {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let voters: Vec<u64> = self.voters.iter().map(|id| raft_id(*id)).collect();
        Ok(RaftState::new(self.hard_state.clone(), ConfState::from((voters, Vec::new()))))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.snapshot_index {
            return Err(StorageError::Compacted.into());
        }
        if high > self.last_index() + 1 {
            return Err(StorageError::Unavailable.into());
        }
        let from = (low - self.snapshot_index - 1) as usize;
        let count = high.saturating_sub(low) as usize;
        let mut entries: Vec<Entry> =
            self.entries.iter().skip(from).take(count).map(|stored| stored.entry.clone()).collect();
        raft::util::limit_size(&mut entries, max_size.into());
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        match self.stored(index) {
            Some(stored) => Ok(stored.entry.term),
            None if index == self.snapshot_index => Ok(self.snapshot_id.epoch as u64),
            None if index < self.snapshot_index => Err(StorageError::Compacted.into()),
            None => Err(StorageError::Unavailable.into()),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.snapshot_index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(Self::last_index(self))
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<raft::eraftpb::Snapshot> {
        let unavailable = |_| raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable);
        if request_index > self.snapshot_index {
            return Err(StorageError::SnapshotTemporarilyUnavailable.into());
        }
        let stored = snapshot::read(&*self.disk, &self.dir, self.snapshot_id).map_err(unavailable)?;
        let voters: Vec<u64> = stored.voters.iter().map(|id| raft_id(*id)).collect();
        let data = stored.encode(self.clock.now_ms());
        let mut snapshot = raft::eraftpb::Snapshot { data, ..raft::eraftpb::Snapshot::default() };
        let metadata = snapshot.mut_metadata();
        metadata.index = stored.index;
        metadata.term = stored.id.epoch as u64;
        *metadata.mut_conf_state() = ConfState::from((voters, Vec::new()));
        Ok(snapshot)
    }
}
