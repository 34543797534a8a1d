//! For a broker that is down: what is in its journal, and how it comes into the segments without a start.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::Uuid;

use super::format::{EntryHeader, next_entry};
use super::noted_files::{missing_files, note_files};
use super::replay::{Needed, Replayed, find_files, find_present, replay, walk, walk_needed};
use super::ring::{Ring, file_path};
use super::{JournalError, Known};
use crate::disk::{BLOCK_BYTES, Disk, OpenMode};

/// A file of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalFile {
    pub path: PathBuf,
    pub size_bytes: u64,
    /// `None` if it was never begun, or its header is garbage.
    pub begun: Option<BegunFile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunFile {
    pub file_sequence: u64,
    pub first_frame: u64,
    /// Whole ones, needed or not.
    pub frames: u64,
}

/// What a replay would read, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inspected<'a> {
    /// A frame, before its entries.
    Frame {
        path: PathBuf,
        sequence: u64,
        entries: u32,
        size_bytes: u64,
    },
    Entry(InspectedEntry<'a>),
    /// So many frames from this one on are damaged or missing.
    Lost {
        first_frame: u64,
        frames: u64,
    },
}

/// Where batches in the journal belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InspectedEntry<'a> {
    /// Sequence of its frame.
    pub frame: u64,
    /// Name of the log's directory.
    pub directory: &'a str,
    pub topic_id: Uuid,
    /// Base offset of the segment.
    pub segment: i64,
    /// In the segment's log file.
    pub position: u64,
    /// All of the offsets are below.
    pub next_offset: i64,
    pub length_bytes: u32,
}

/// What is needed of a journal, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeededSum {
    pub frames: u64,
    pub entries: u64,
    /// Names of the logs' directories.
    pub directories: BTreeSet<String>,
    /// Of the batches.
    pub bytes: u64,
    pub lost_frames: u64,
}

impl NeededSum {
    pub fn add(&mut self, inspected: &Inspected<'_>) {
        match inspected {
            Inspected::Frame { .. } => self.frames += 1,
            Inspected::Entry(entry) => {
                self.entries += 1;
                self.bytes += u64::from(entry.length_bytes);
                if !self.directories.contains(entry.directory) {
                    self.directories.insert(entry.directory.to_owned());
                }
            }
            Inspected::Lost { frames, .. } => self.lost_frames = self.lost_frames.saturating_add(*frames),
        }
    }
}

/// Looks at the journal of a data directory, and calls `each` with what is needed. Changes nothing.
pub fn inspect(
    disk: &dyn Disk,
    dir: &Path,
    directory_id: Uuid,
    each: &mut dyn FnMut(Inspected<'_>) -> Result<(), JournalError>,
) -> Result<Vec<JournalFile>, JournalError> {
    let files = find_files(disk, dir, directory_id)?;
    let mut states = Vec::new();
    for found in &files.begun {
        let first_frame = found.header.first_frame;
        let frames = walk(found, &mut |_, _| Ok(()))?.saturating_sub(first_frame);
        let begun = BegunFile { file_sequence: found.header.file_sequence, first_frame, frames };
        let (path, size_bytes) = (file_path(dir, found.slot), found.file.len()?);
        states.push(JournalFile { path, size_bytes, begun: Some(begun) });
    }
    for slot in &files.empty {
        let path = file_path(dir, *slot);
        let size_bytes = disk.open(&path, OpenMode::Read)?.len()?;
        states.push(JournalFile { path, size_bytes, begun: None });
    }
    walk_needed(&files, &mut |needed| match needed {
        Needed::Lost { first_frame, frames } => each(Inspected::Lost { first_frame, frames }),
        Needed::Frame { slot, header, mut entries } => {
            let (path, frame) = (file_path(dir, slot), header.sequence);
            let size_bytes = header.frame_bytes() as u64;
            each(Inspected::Frame { path, sequence: frame, entries: header.entries, size_bytes })?;
            for _ in 0..header.entries {
                let Some((entry, _)) = next_entry(&mut entries) else { break };
                let EntryHeader { topic_id, directory, segment, position, next_offset, length: length_bytes } = entry;
                let entry = InspectedEntry { frame, directory, topic_id, segment, position, next_offset, length_bytes };
                each(Inspected::Entry(entry))?;
            }
            Ok(())
        }
    })?;
    Ok(states)
}

/// Removes the files of a journal in which nothing is needed: see [`apply`].
pub fn remove(disk: &dyn Disk, dir: &Path, directory_id: Uuid) -> Result<(), JournalError> {
    let files = find_files(disk, dir, directory_id)?;
    note_files(disk, dir, &BTreeSet::new())?;
    // The newest last: it says that the others do not count.
    for slot in files.empty.iter().copied().chain(files.begun.iter().map(|found| found.slot)) {
        disk.remove_file(&file_path(dir, slot))?;
        disk.sync_dir(dir)?;
    }
    Ok(())
}

/// Has files that are missing not expected any more. Returns them. What only they had is lost.
pub fn forget(disk: &dyn Disk, dir: &Path, directory_id: Uuid) -> Result<Vec<PathBuf>, JournalError> {
    let present = find_present(disk, dir, directory_id)?.slots();
    let missing = missing_files(disk, dir, &present)?;
    if !missing.is_empty() {
        note_files(disk, dir, &present)?;
    }
    Ok(missing)
}

/// Replays what a crash left as a start does, and leaves a journal in which nothing is needed. `epoch` is a random
/// number.
pub fn apply(
    disk: Arc<dyn Disk>,
    dir: &Path,
    directory_id: Uuid,
    epoch: u64,
    known: &dyn Fn(&str) -> Known,
) -> Result<Replayed, JournalError> {
    let files = find_files(&*disk, dir, directory_id)?;
    let replayed = replay(&*disk, dir, &files, known)?;
    note_files(&*disk, dir, &BTreeSet::new())?;
    if let Some(newest) = files.begun.last() {
        let path = file_path(dir, newest.slot);
        let file = disk.open(&path, OpenMode::Durable)?;
        let bytes = file.len()?;
        if bytes < BLOCK_BYTES as u64 {
            disk.remove_file(&path)?;
            return Ok(replayed);
        }
        let mut ring = Ring::new(disk, dir.to_owned(), directory_id, epoch, bytes, 1, files.next_sequence());
        ring.start_with(newest.slot, file)?;
    }
    Ok(replayed)
}
