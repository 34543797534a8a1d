//! Reads what is left of damaged metadata, and replaces the damaged files by it. The `recover` command calls this while
//! the node is down; reading changes nothing.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use storage::disk::{Disk, read_file};
use storage::set_aside::unused;
use wire::batch::{Batch, Batches};

use super::snapshot::{self, Snapshot, SnapshotId};
use super::{Position, QuorumError, VoterSet, batches, state_file, synced};

/// More than any segment of the metadata log.
const SEGMENT_BYTES_MAX: usize = 1 << 31;

/// The readable part of the metadata: the newest snapshot that is whole, and the entries behind it up to the first
/// trouble.
#[derive(Debug, Default)]
pub struct Readable {
    /// `None` if no snapshot can be read.
    pub voters: Option<VoterSet>,
    pub snapshot: Option<(Vec<Bytes>, Position)>,
    pub entries: Vec<(Vec<Bytes>, Position)>,
    /// Behind the last record that can be read, and behind the last that is known to have been on disk.
    pub end_offset: i64,
    pub synced_offset: i64,
    epoch: i32,
    index: u64,
    /// What is wrong, a line each. Empty if the node can start.
    pub trouble: Vec<String>,
}

/// Reads what can be read of the directory of a metadata log.
pub fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Readable> {
    let mut readable = Readable::default();
    if !disk.exists(dir)? {
        readable.trouble.push(format!("{} is not there", dir.display()));
        return Ok(readable);
    }
    for id in snapshot::list(disk, dir)? {
        match snapshot::look_at(disk, dir, id) {
            Ok(snapshot) => {
                readable.begin_with(snapshot);
                break;
            }
            Err(error) => readable.trouble.push(format!("the snapshot at offset {}: {}", id.end_offset, bare(&error))),
        }
    }
    if readable.snapshot.is_none() {
        readable.trouble.push("no snapshot can be read".to_owned());
    }
    let state = state_file::look_at(disk, dir).unwrap_or_else(|error| {
        readable.trouble.push(format!("the vote: {}", bare(&error)));
        None
    });
    let (hard_state, unpromised_offset) = state.unwrap_or_default();
    readable.synced_offset = synced::read(disk, dir)?.unwrap_or(0);
    readable.read_log(disk, dir, unpromised_offset)?;
    if readable.end_offset < readable.synced_offset {
        let (end, synced) = (readable.end_offset, readable.synced_offset);
        readable.trouble.push(format!("it can be read up to offset {end}, and was on disk up to {synced}"));
    }
    if readable.index < hard_state.commit {
        let (index, commit) = (readable.index, hard_state.commit);
        readable.trouble.push(format!("it can be read up to entry {index}, and entry {commit} was committed"));
    }
    readable.epoch = readable.epoch.max(i32::try_from(hard_state.term).unwrap_or(i32::MAX));
    Ok(readable)
}

/// The reason alone: how to go on is what the caller says.
fn bare(error: &QuorumError) -> String {
    match error {
        QuorumError::Corrupt(reason) => reason.to_string(),
        error => error.to_string(),
    }
}

impl Readable {
    fn begin_with(&mut self, snapshot: Snapshot) {
        let at = snapshot.id.position();
        (self.end_offset, self.epoch, self.index) = (snapshot.id.end_offset, snapshot.id.epoch, snapshot.index);
        self.voters = Some(snapshot.voters);
        self.snapshot = Some((snapshot.values, at));
    }

    fn read_log(&mut self, disk: &dyn Disk, dir: &Path, unpromised_offset: Option<i64>) -> io::Result<()> {
        let end = unpromised_offset.unwrap_or(i64::MAX);
        let names = disk.read_dir(dir)?.into_iter().map(|entry| entry.name);
        for name in names.filter(|name| name.ends_with(".log")) {
            let bytes = Bytes::from(read_file(disk, &dir.join(&name), SEGMENT_BYTES_MAX)?);
            for batch in Batches::new(bytes) {
                let outcome = batch.map_err(QuorumError::corrupt).and_then(|batch| self.add(&batch, end));
                match outcome {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(error) => {
                        self.trouble.push(format!("{name}, behind offset {}: {}", self.end_offset, bare(&error)));
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns whether there may be more.
    fn add(&mut self, batch: &Batch, end: i64) -> Result<bool, QuorumError> {
        let header = &batch.header;
        if header.next_offset() <= self.end_offset {
            return Ok(true);
        }
        if header.base_offset >= end {
            return Ok(false);
        }
        let (offset, epoch) = (header.base_offset, header.partition_leader_epoch);
        if offset != self.end_offset || epoch < self.epoch {
            return Err(QuorumError::corrupt(format!(
                "offset {offset} of epoch {epoch} follows {} of {}",
                self.end_offset, self.epoch
            )));
        }
        if let Some(set) = VoterSet::from_batch(batch)? {
            self.voters = Some(set);
        }
        let values = batches::values(batch)?;
        if !values.is_empty() {
            self.entries.push((values, Position { offset: header.last_offset(), epoch }));
        }
        (self.end_offset, self.epoch) = (header.next_offset(), epoch);
        self.index += 1;
        Ok(true)
    }

    /// Replaces the damaged directory by one with nothing but a snapshot of these records, and renames the damaged one.
    /// Returns its new name, if it was there. For a node that is the only voter.
    pub fn replace(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        voters: VoterSet,
        values: Vec<Bytes>,
        now_ms: i64,
    ) -> Result<Option<PathBuf>, QuorumError> {
        let id = SnapshotId { end_offset: self.end_offset.max(self.synced_offset), epoch: self.epoch.max(1) };
        let new = dir.with_extension("new");
        if disk.exists(&new)? {
            // Of an attempt that was cut short.
            set_aside_dir(disk, &new)?;
        }
        disk.create_dir_all(&new)?;
        Snapshot { id, index: self.index.max(1), voters, values }.write(disk, &new, now_ms)?;
        let kept_as = set_aside_dir(disk, dir)?;
        disk.rename(&new, dir)?;
        sync_parent(disk, dir)?;
        Ok(kept_as)
    }
}

/// Renames a directory that is damaged, if it is there. Returns the name that it has then.
pub fn set_aside_dir(disk: &dyn Disk, dir: &Path) -> Result<Option<PathBuf>, QuorumError> {
    if !disk.exists(dir)? {
        return Ok(None);
    }
    let to = unused(disk, dir)?;
    disk.rename(dir, &to)?;
    sync_parent(disk, dir)?;
    Ok(Some(to))
}

fn sync_parent(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    dir.parent().map_or(Ok(()), |parent| disk.sync_dir(parent))
}
