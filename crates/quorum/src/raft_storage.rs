//! The storage of raft's entries: on disk in Kafka's format, and in memory from the newest snapshot on.
//!
//! Raft reads from memory only, so that no read can fail in the middle of it. What is in memory is bounded by how often
//! snapshots are written.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use platform::Clock;
use protobuf::Message as _;
use raft::eraftpb::{Entry, EntryType, HardState};
use raft::{GetEntriesContext, RaftState, StorageError};
use storage::disk::{OpenMode, read_exact_at, write_all_at};
use storage::set_aside::set_aside;
use storage::{CleanupPolicy, Disk, Log, LogConfig, LogError, OpenOptions, Origin, ReadError};
use wire::Uuid;
use wire::batch::Batch;

use super::snapshot::{self, Snapshot, SnapshotId};
use super::synced::{self, SyncedOffset};
use super::{Options, QuorumError, VoterKey, VoterSet, batches, copies, state_file, voters};

/// The id of the metadata log's topic (`Uuid.METADATA_TOPIC_ID`).
const TOPIC_ID: Uuid = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// Bytes that are read from the log at a time.
const READ_BYTES: u32 = 1 << 20;

/// Snapshots that are kept: should the newest turn out unreadable, the one before it and the log from there on do.
const SNAPSHOTS_KEPT: usize = 2;

/// From so many entries on they are synced together. Fewer are cheaper one by one: the mark that many need is written
/// and taken back with a sync of a file and of its directory each.
const TOGETHER_MIN: usize = 8;

/// An entry and where it ends in the log.
struct Stored {
    entry: Entry,
    end_offset: i64,
}

pub(super) struct Storage {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    /// After all entries that were applied.
    voters: VoterSet,
    log: Log,
    /// From the one behind the snapshot on.
    entries: VecDeque<Stored>,
    entries_bytes: u64,
    /// Of the newest snapshot: raft's index of the last entry in it, and what it is called. Before the first one, both
    /// say nothing was there.
    snapshot_index: u64,
    snapshot_id: SnapshotId,
    hard_state: HardState,
    synced: SyncedOffset,
    /// From where on entries are being written that were not acknowledged yet, if many are.
    unpromised_offset: Option<i64>,
    /// Whether a member needs a newer snapshot than there is.
    is_snapshot_wanted: Cell<bool>,
}

/// What the log says about changes of the voters.
struct Changes {
    /// The newest set, whether its entry is committed or not.
    newest: VoterSet,
    /// Index of the last change, and of the one before.
    last: u64,
    before_last: u64,
    /// Whether one voter was all there was at all times.
    is_alone: bool,
    /// Size of the last batch.
    tail_bytes: usize,
}

impl Changes {
    fn record(&mut self, index: u64, set: VoterSet, own: VoterKey) {
        self.before_last = std::mem::replace(&mut self.last, index);
        self.is_alone &= is_alone(&set, own);
        self.newest = set;
    }
}

fn is_alone(set: &VoterSet, own: VoterKey) -> bool {
    matches!(&set.voters[..], [voter] if voter.key() == own)
}

/// Writes the snapshot that a cluster begins with: nothing but its voters. Durable when this returns. All voters write
/// the same, as entry 1 of epoch 1.
pub(super) fn bootstrap(disk: &dyn Disk, dir: &Path, clock: &dyn Clock, voters: &VoterSet) -> Result<(), QuorumError> {
    if !is_blank(disk, dir)? {
        return Err(QuorumError::corrupt("a cluster cannot begin where there is metadata"));
    }
    disk.create_dir_all(dir)?;
    let id = SnapshotId { end_offset: 0, epoch: 1 };
    let snapshot = Snapshot { id, index: 1, voters: voters.clone(), values: Vec::new() };
    Ok(snapshot.write(disk, dir, clock.now_ms())?)
}

/// Whether the directory is that of a node that belongs to no cluster: there is no snapshot, nothing in the log, and
/// nothing that says there was.
pub(super) fn is_blank(disk: &dyn Disk, dir: &Path) -> Result<bool, QuorumError> {
    if !disk.exists(dir)? {
        return Ok(true);
    }
    for entry in disk.read_dir(dir)? {
        let is_log = entry.name.ends_with(".log");
        if entry.name.strip_suffix(copies::COPY_SUFFIX).unwrap_or(&entry.name).ends_with(".checkpoint")
            || is_log && disk.open(&dir.join(&entry.name), OpenMode::Read)?.len()? > 0
        {
            return Ok(false);
        }
    }
    Ok(synced::read(disk, dir)?.is_none_or(|offset| offset == 0))
}

impl Storage {
    /// Opens what is there, or starts as a node that waits for a snapshot. Returns the snapshot that the state is to
    /// start from.
    pub(super) fn open(options: &Options) -> Result<(Self, Option<Snapshot>), QuorumError> {
        let Options { disk, clock, dir, segment_bytes, .. } = options;
        let config = LogConfig {
            segment_bytes: *segment_bytes,
            segment_ms: i64::MAX,
            retention_bytes: -1,
            retention_ms: -1,
            file_delete_delay_ms: 0,
            cleanup_policy: CleanupPolicy::DELETE,
            ..LogConfig::default()
        };
        disk.create_dir_all(dir)?;
        synced::sync(&**disk, dir)?;
        let (snapshot, damaged) = newest_snapshot(&**disk, dir)?;
        let snapshot_id = snapshot.as_ref().map_or(SnapshotId { end_offset: 0, epoch: 0 }, |snapshot| snapshot.id);
        let promised_offset = synced::read(&**disk, dir)?.unwrap_or(0);
        if promised_offset > snapshot_id.end_offset && !has_log(&**disk, dir)? {
            return Err(QuorumError::corrupt(format!("it is not there, and was on disk up to {promised_offset}")));
        }
        let mut log = open_log(disk, dir, config, promised_offset.max(snapshot_id.end_offset), &**clock)?;
        let state = state_file::read(&**disk, dir);
        if let Ok(Some((_, Some(offset)))) = &state {
            if *offset < promised_offset {
                return Err(QuorumError::corrupt(format!(
                    "offset {promised_offset} was promised, and {offset} was not"
                )));
            }
            // There was a power loss in the middle of many entries, and any of them may be torn. None was acknowledged.
            tracing::warn!(offset, "the metadata log is cut where entries were being written");
            log.truncate_to(*offset, clock.now())?;
        }
        let end_offset = log.log_end_offset();
        if end_offset < promised_offset && promised_offset > snapshot_id.end_offset {
            return Err(QuorumError::corrupt(format!(
                "it ends at offset {end_offset}, and was on disk up to {promised_offset}"
            )));
        }
        let synced = SyncedOffset::open(&**disk, dir, promised_offset.min(end_offset.max(snapshot_id.end_offset)))?;
        let mut storage = Self {
            disk: disk.clone(),
            clock: clock.clone(),
            dir: dir.clone(),
            voters: snapshot.as_ref().map_or_else(VoterSet::default, |snapshot| snapshot.voters.clone()),
            log,
            entries: VecDeque::new(),
            entries_bytes: 0,
            snapshot_index: snapshot.as_ref().map_or(0, |snapshot| snapshot.index),
            snapshot_id,
            hard_state: HardState::default(),
            synced,
            unpromised_offset: None,
            is_snapshot_wanted: Cell::new(false),
        };
        let changes = storage.load_entries(options.key())?;
        storage.load_hard_state(state, &changes)?;
        storage.sync_again(changes.tail_bytes)?;
        storage.raise_synced_offset();
        for id in damaged {
            snapshot::set_aside(&*storage.disk, &storage.dir, id)?;
        }
        Ok((storage, snapshot))
    }

    fn load_entries(&mut self, own: VoterKey) -> Result<Changes, QuorumError> {
        let is_alone = is_alone(&self.voters, own);
        let mut changes = Changes { newest: self.voters.clone(), last: 0, before_last: 0, is_alone, tail_bytes: 0 };
        let view = self.log.view();
        let mut next_offset = self.snapshot_id.end_offset;
        if view.log_start_offset() > next_offset {
            return Err(QuorumError::corrupt(format!(
                "it begins at offset {}, and no snapshot reaches so far",
                view.log_start_offset()
            )));
        }
        if view.log_end_offset() > 0 && self.snapshot_index == 0 {
            return Err(QuorumError::corrupt("there are records and no snapshot with the voters"));
        }
        let is_behind = view.log_start_offset() < next_offset;
        if view.log_end_offset() < next_offset
            || is_behind && view.epoch_for_offset(next_offset - 1) != Some(self.snapshot_id.epoch)
        {
            // A snapshot has just been installed that the log does not lead to, or the log was lost. The snapshot has
            // all that was in it, unless the synced offset is higher.
            if self.synced.offset() > next_offset {
                return Err(QuorumError::corrupt(format!("it does not lead to the snapshot at offset {next_offset}")));
            }
            tracing::warn!(end = view.log_end_offset(), next_offset, "the metadata log ends before its snapshot");
            self.log.truncate_fully_and_start_at(next_offset, self.clock.now())?;
            return Ok(changes);
        }
        while next_offset < view.log_end_offset() {
            let bytes = view.read(next_offset, view.log_end_offset(), READ_BYTES).map_err(unreadable)?;
            for batch in batches::parse(bytes)? {
                if batch.header.base_offset != next_offset {
                    let base_offset = batch.header.base_offset;
                    return Err(QuorumError::corrupt(format!("offset {base_offset} follows {next_offset}")));
                }
                next_offset = batch.header.next_offset();
                let index = self.last_index() + 1;
                let set = VoterSet::from_batch(&batch)?;
                if i64::from(batch.header.partition_leader_epoch) < self.last_term() as i64 {
                    let epoch = batch.header.partition_leader_epoch;
                    return Err(QuorumError::corrupt(format!("epoch {epoch} follows {}", self.last_term())));
                }
                changes.tail_bytes = batch.bytes.len();
                let entry = entry_of(&batch, index, set.as_ref().map(|set| (set, &changes.newest)))?;
                self.remember(entry, next_offset);
                if let Some(set) = set {
                    changes.record(index, set, own);
                }
            }
        }
        Ok(changes)
    }

    fn load_hard_state(
        &mut self,
        found: Result<Option<(HardState, Option<i64>)>, QuorumError>,
        changes: &Changes,
    ) -> Result<(), QuorumError> {
        let (mut state, _) = match found {
            // There is no other voter, so no vote can be given twice. The term is that of the last entry.
            Err(QuorumError::Corrupt(reason)) if changes.is_alone => {
                tracing::warn!(%reason, "the vote of the metadata quorum is made anew");
                set_aside(&*self.disk, &self.dir.join(state_file::NAME))?;
                <(HardState, _)>::default()
            }
            Err(QuorumError::Corrupt(reason)) => return Err(QuorumError::VoteLost(reason)),
            Ok(None) if !changes.is_alone && !self.entries.is_empty() => {
                return Err(QuorumError::VoteLost("the file raft-state is not there".into()));
            }
            found => found?.unwrap_or_default(),
        };
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
        // A change of the voters is proposed when the one before is committed. It decides who votes in elections, and
        // must not fall behind by two changes because the commit was not worth a write.
        state.commit = state.commit.max(self.snapshot_index).max(changes.before_last);
        self.hard_state = state;
        Ok(())
    }

    /// Writes the last batch once more. If a sync of it failed before the process ended, the kernel has it, and says
    /// that the disk does too.
    fn sync_again(&self, tail_bytes: usize) -> Result<(), QuorumError> {
        if tail_bytes > 0 {
            let (path, size) = self.last_segment()?;
            let file = self.disk.open(&path, OpenMode::ReadWrite)?;
            let mut tail = vec![0; tail_bytes];
            let position = size.saturating_sub(tail_bytes as u64);
            read_exact_at(&*file, &mut tail, position)?;
            write_all_at(&*file, &mut [IoSlice::new(&tail)], position)?;
            file.sync_data()?;
        }
        // With the directory.
        if self.snapshot_index > 0 { self.write_state() } else { Ok(()) }
    }

    /// The last file of the log that has something in it.
    fn last_segment(&self) -> Result<(PathBuf, u64), QuorumError> {
        for entry in self.disk.read_dir(&self.dir)?.iter().rev().filter(|entry| entry.name.ends_with(".log")) {
            let path = self.dir.join(&entry.name);
            let size = self.disk.open(&path, OpenMode::Read)?.len()?;
            if size > 0 {
                return Ok((path, size));
            }
        }
        Err(QuorumError::corrupt("it has records and no segment"))
    }

    /// The commit is a lower bound, and what is not on disk here is not known to be committed here after a crash.
    fn write_state(&self) -> Result<(), QuorumError> {
        let mut state = self.hard_state.clone();
        state.commit = state.commit.min(self.last_index());
        Ok(state_file::write(&*self.disk, &self.dir, &state, self.unpromised_offset)?)
    }

    fn remember(&mut self, entry: Entry, end_offset: i64) {
        self.entries_bytes += size_bytes(&entry);
        self.entries.push_back(Stored { entry, end_offset });
    }

    fn forget(&mut self, stored: &Stored) {
        self.entries_bytes -= size_bytes(&stored.entry);
    }

    pub(super) fn voters(&self) -> &VoterSet {
        &self.voters
    }

    /// Takes the set that an applied entry leads to.
    pub(super) fn set_voters(&mut self, voters: VoterSet) {
        self.voters = voters;
    }

    pub(super) fn snapshot_index(&self) -> u64 {
        self.snapshot_index
    }

    /// Whether a snapshot of the newest state is needed, for a member that is not in the existing one.
    pub(super) fn is_snapshot_wanted(&self) -> bool {
        self.is_snapshot_wanted.get()
    }

    pub(super) fn last_index(&self) -> u64 {
        self.snapshot_index + self.entries.len() as u64
    }

    fn last_term(&self) -> u64 {
        self.entries.back().map_or(self.snapshot_id.epoch as u64, |stored| stored.entry.term)
    }

    fn stored(&self, index: u64) -> Option<&Stored> {
        let position = index.checked_sub(self.snapshot_index + 1)?;
        self.entries.get(usize::try_from(position).ok()?)
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

    /// The largest entry that the log takes.
    pub(super) fn entry_bytes_max(&self) -> usize {
        self.log.config().segment_bytes as usize
    }

    pub(super) fn free_bytes(&self) -> Result<u64, QuorumError> {
        Ok(self.disk.free_bytes(&self.dir)?)
    }

    /// The batch that proposes these values.
    pub(super) fn batch_of(&self, values: &[Bytes]) -> Batch {
        batches::of_values(values, self.clock.now_ms())
    }

    /// Puts entries on disk. Entries that are there already are skipped, so that it can be called again when the disk
    /// was full; entries that contradict stored ones replace them and all that follow.
    ///
    /// A few entries are synced one by one. Of many any may be torn after a crash, so the offset where they begin is
    /// written to disk before, and removed before any of them is acknowledged.
    pub(super) fn append(&mut self, entries: &[Entry], leader: u64) -> Result<(), QuorumError> {
        let is_there = |entry: &&Entry| self.stored(entry.index).is_some_and(|stored| stored.entry.term == entry.term);
        let new = &entries[entries.iter().take_while(is_there).count()..];
        if let Some(first) = new.first() {
            if first.index <= self.last_index() {
                self.truncate_from(first.index)?;
            }
            if self.unpromised_offset.is_none() && new.len() >= TOGETHER_MIN {
                self.mark_unpromised(Some(self.log.log_end_offset()))?;
            }
        }
        for entry in new {
            if self.unpromised_offset.is_none() {
                self.sync()?;
            }
            self.append_one(entry, leader)?;
        }
        self.sync()?;
        if self.unpromised_offset.is_some() {
            self.mark_unpromised(None)?;
        }
        self.raise_synced_offset();
        Ok(())
    }

    /// Records how far the log is on disk, so that a loss of its end is noticed.
    fn raise_synced_offset(&mut self) {
        self.synced.raise(self.log.view().synced_offset());
    }

    fn sync(&self) -> Result<(), QuorumError> {
        let view = self.log.view();
        if view.synced_offset() < view.log_end_offset() {
            view.sync()?;
        }
        Ok(())
    }

    fn mark_unpromised(&mut self, offset: Option<i64>) -> Result<(), QuorumError> {
        let before = std::mem::replace(&mut self.unpromised_offset, offset);
        self.write_state().inspect_err(|_| self.unpromised_offset = before)
    }

    fn append_one(&mut self, entry: &Entry, leader: u64) -> Result<(), QuorumError> {
        if entry.index != self.last_index() + 1 {
            let last_index = self.last_index();
            return Err(QuorumError::Raft(format!("entry {} follows {last_index}", entry.index).into()));
        }
        let batch = match entry.get_entry_type() {
            EntryType::EntryNormal if entry.data.is_empty() => {
                let leader_id = voters::node_id(leader).unwrap_or(-1);
                let voter_ids = self.voters.voters.iter().map(|voter| voter.node_id);
                batches::of_leader_change(leader_id, voter_ids, self.clock.now_ms())
            }
            EntryType::EntryNormal => Batch::parse(&entry.data).map_err(QuorumError::corrupt)?,
            EntryType::EntryConfChange => Batch::parse(&entry.context).map_err(QuorumError::corrupt)?,
            EntryType::EntryConfChangeV2 => {
                return Err(QuorumError::Raft("joint changes of the voters are not served".into()));
            }
        };
        let epoch = i32::try_from(entry.term).map_err(|error| QuorumError::Raft(error.to_string().into()))?;
        let results = self.log.append(std::slice::from_ref(&batch), Origin::Replication, epoch, self.clock.now())?;
        let appended = match results.into_iter().next() {
            Some(Ok(appended)) => appended,
            Some(Err(storage::AppendError::DiskFull)) => return Err(QuorumError::DiskFull),
            Some(Err(storage::AppendError::Exhausted)) => {
                let error = io::Error::from(io::ErrorKind::OutOfMemory);
                return Err(QuorumError::Log(LogError::Exhausted(Arc::new(error))));
            }
            Some(Err(error)) => return Err(QuorumError::Raft(error.to_string().into())),
            None => return Err(QuorumError::Raft("an append has no result".into())),
        };
        self.remember(entry.clone(), appended.last_offset + 1);
        Ok(())
    }

    fn truncate_from(&mut self, index: u64) -> Result<(), QuorumError> {
        let offset = self.offset_of(index - 1).ok_or_else(|| QuorumError::Raft("an old entry is replaced".into()))?;
        self.lower_synced_offset(offset + 1)?;
        self.log.truncate_to(offset + 1, self.clock.now())?;
        while self.last_index() >= index {
            let Some(stored) = self.entries.pop_back() else { break };
            self.forget(&stored);
        }
        Ok(())
    }

    /// Lowers the synced offset durably before the log is truncated.
    fn lower_synced_offset(&mut self, offset: i64) -> Result<(), QuorumError> {
        if self.synced.offset() > offset {
            self.synced.lower(offset)?;
        }
        Ok(())
    }

    /// Takes the state that raft wants kept. Its commit alone is not worth a write.
    pub(super) fn set_hard_state(&mut self, state: &HardState) -> Result<(), QuorumError> {
        let before = std::mem::replace(&mut self.hard_state, state.clone());
        if (state.term, state.vote) != (before.term, before.vote) {
            self.write_state().inspect_err(|_| self.hard_state = before)?;
        }
        Ok(())
    }

    /// Records durably that an entry is committed: a change of the members. A majority of the remaining voters must
    /// suffice after a restart too, although the set before still has the removed one.
    pub(super) fn keep_commit(&mut self, index: u64) -> Result<(), QuorumError> {
        self.hard_state.commit = self.hard_state.commit.max(index);
        self.write_state()
    }

    pub(super) fn set_commit(&mut self, commit: u64) {
        self.hard_state.commit = commit;
    }

    /// Writes a snapshot of the state after the entry `index`, and drops the log that it and its predecessor replace.
    pub(super) fn write_snapshot(&mut self, index: u64, values: Vec<Bytes>) -> Result<(), QuorumError> {
        let (Some(offset), Ok(term)) = (self.offset_of(index), raft::Storage::term(self, index)) else {
            return Err(QuorumError::Raft(format!("entry {index} is not there").into()));
        };
        let epoch = i32::try_from(term).unwrap_or(i32::MAX);
        let id = SnapshotId { end_offset: offset + 1, epoch };
        let snapshot = Snapshot { id, index, voters: self.voters.clone(), values };
        snapshot.write(&*self.disk, &self.dir, self.clock.now_ms())?;
        self.is_snapshot_wanted.set(false);
        self.start_after(index, id);
        self.clean_up()
    }

    /// Replaces everything by a snapshot that another voter sent.
    pub(super) fn install(&mut self, snapshot: &Snapshot) -> Result<(), QuorumError> {
        // What it replaces may have diverged.
        self.lower_synced_offset(snapshot.id.end_offset.min(self.snapshot_id.end_offset))?;
        snapshot.write(&*self.disk, &self.dir, self.clock.now_ms())?;
        self.log.truncate_fully_and_start_at(snapshot.id.end_offset, self.clock.now())?;
        self.entries.clear();
        self.entries_bytes = 0;
        (self.snapshot_index, self.snapshot_id) = (snapshot.index, snapshot.id);
        self.voters.clone_from(&snapshot.voters);
        self.hard_state.commit = self.hard_state.commit.max(snapshot.index);
        self.raise_synced_offset();
        Ok(())
    }

    fn start_after(&mut self, index: u64, id: SnapshotId) {
        while self.snapshot_index < index {
            let Some(stored) = self.entries.pop_front() else { break };
            self.forget(&stored);
            self.snapshot_index += 1;
        }
        self.snapshot_id = id;
    }

    /// Removes snapshots beyond the number to keep, and segments before the oldest kept one.
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
        self.write_state()?;
        self.log.close()?;
        Ok(())
    }
}

/// The newest readable snapshot, and the unreadable ones.
fn newest_snapshot(disk: &dyn Disk, dir: &Path) -> Result<(Option<Snapshot>, Vec<SnapshotId>), QuorumError> {
    let mut damaged = Vec::new();
    for id in snapshot::list(disk, dir)? {
        match snapshot::read(disk, dir, id) {
            Ok(snapshot) => return Ok((Some(snapshot), damaged)),
            Err(QuorumError::Corrupt(reason)) => {
                tracing::error!(?id, %reason, "a snapshot of the metadata is damaged");
                damaged.push(id);
            }
            Err(error) => return Err(error),
        }
    }
    Ok((None, damaged))
}

fn has_log(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
    Ok(disk.read_dir(dir)?.iter().any(|entry| entry.name.ends_with(".log")))
}

fn open_log(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    config: LogConfig,
    recovery_point: i64,
    clock: &dyn Clock,
) -> Result<Log, QuorumError> {
    let now = clock.now();
    let is_new = !has_log(&**disk, dir)?;
    let is_named = storage::partition_metadata::read_topic_id(&**disk, dir)? == Some(TOPIC_ID);
    let (log, report) = if is_new && !is_named {
        Log::create(disk.clone(), dir.to_owned(), config, TOPIC_ID, now)?
    } else {
        if !is_named {
            storage::partition_metadata::write_topic_id(&**disk, dir, TOPIC_ID)?;
        }
        let options = OpenOptions { recovery_point, log_start_offset: 0, clean_shutdown: false, now };
        Log::open(disk.clone(), dir.to_owned(), config, options)?
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

fn size_bytes(entry: &Entry) -> u64 {
    (entry.data.len() + entry.context.len()) as u64
}

/// The entry that a batch is. `change` is the set that it holds, if it is a change of the voters, and the one before.
fn entry_of(batch: &Batch, index: u64, change: Option<(&VoterSet, &VoterSet)>) -> Result<Entry, QuorumError> {
    let term = u64::try_from(batch.header.partition_leader_epoch).map_err(QuorumError::corrupt)?;
    let mut entry = Entry { index, term, ..Entry::default() };
    if let Some((after, before)) = change {
        entry.set_entry_type(EntryType::EntryConfChange);
        entry.data = after.change_from(before).write_to_bytes().map_err(QuorumError::corrupt)?.into();
        entry.context = batch.bytes.clone();
    } else if !batch.header.attributes.is_control() {
        entry.data = batch.bytes.clone();
    }
    Ok(entry)
}

impl raft::Storage for Storage {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.hard_state.clone(), self.voters.conf_state()))
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

    /// A member that has come since the snapshot takes only a newer one. It gets it a little later.
    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<raft::eraftpb::Snapshot> {
        let unavailable = || raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable);
        if request_index > self.snapshot_index {
            self.is_snapshot_wanted.set(true);
            return Err(unavailable());
        }
        let stored = snapshot::read(&*self.disk, &self.dir, self.snapshot_id).map_err(|error| {
            tracing::error!(%error, "the newest snapshot of the metadata cannot be read; another is written");
            self.is_snapshot_wanted.set(true);
            unavailable()
        })?;
        if stored.voters.by_raft_id(to).is_none() {
            self.is_snapshot_wanted.set(true);
            return Err(unavailable());
        }
        Ok(stored.to_message(stored.encode(self.clock.now_ms())))
    }
}
