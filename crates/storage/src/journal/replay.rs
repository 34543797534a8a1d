//! What a crash left in the journal is written into the segments, before any log is opened.
//!
//! The newest file's last whole frame says from which frame on something may be needed. Entries are written in the
//! order in which they were made. Left out is what the log has in synced segments by its recovery point, what it has
//! deleted, and what belongs to another topic or to the log as it was before a truncation. Doing it again changes
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::Uuid;

use super::format::{EntryHeader, FRAME_BYTES_MAX, FileHeader, FrameHeader, NotAHeader, next_entry};
use super::noted_files::check_noted;
use super::ring::{file_path, slot_of};
use super::{JournalError, Known};
use crate::disk::{BLOCK_BYTES, Disk, File, OpenMode, read_up_to, write_all_at};
use crate::failed_sync;
use crate::journaled::voided;
use crate::names::{self, Kind, Stage};
use crate::partition_metadata;
use crate::truncations::Truncations;

/// What replay found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    pub frames: u64,
    pub entries: u64,
    /// Bytes that the segments did not have.
    pub written_bytes: u64,
    /// Frames that are needed and cannot be read: what was acknowledged may be gone.
    pub lost_frames: u64,
}

/// A file with a header.
pub(super) struct Found {
    pub(super) slot: u32,
    pub(super) header: FileHeader,
    pub(super) file: Arc<dyn File>,
}

/// The files of a data directory's journal.
pub(super) struct Files {
    /// From the oldest to the newest.
    pub(super) begun: Vec<Found>,
    /// Slots of files that were never begun, or whose headers are garbage.
    pub(super) empty: Vec<u32>,
    /// How many of those have something where their headers should be.
    garbage: u64,
}

impl Files {
    pub(super) fn slots(&self) -> BTreeSet<u32> {
        self.begun.iter().map(|found| found.slot).chain(self.empty.iter().copied()).collect()
    }

    /// Greater than those of all that were begun.
    pub(super) fn next_sequence(&self) -> u64 {
        self.begun.last().map_or(0, |newest| newest.header.file_sequence.saturating_add(1))
    }
}

/// Finds the files. One of another data directory or version is an error, and so is one that is not there.
pub(super) fn find_files(disk: &dyn Disk, dir: &Path, directory_id: Uuid) -> Result<Files, JournalError> {
    let files = find_present(disk, dir, directory_id)?;
    check_noted(disk, dir, &files.slots())?;
    Ok(files)
}

/// The same, whatever is missing.
pub(super) fn find_present(disk: &dyn Disk, dir: &Path, directory_id: Uuid) -> Result<Files, JournalError> {
    let mut files = Files { begun: Vec::new(), empty: Vec::new(), garbage: 0 };
    for entry in disk.read_dir(dir)?.into_iter().filter(|entry| !entry.is_dir) {
        let Some(slot) = slot_of(&entry.name) else { continue };
        let path = file_path(dir, slot);
        let file = disk.open(&path, OpenMode::Read)?;
        let mut block = vec![0; BLOCK_BYTES];
        let length = read_up_to(&*file, &mut block, 0)?;
        match FileHeader::read(&block[..length]) {
            Ok(header) if header.directory_id != directory_id => {
                return Err(JournalError::Foreign { path, found: header.directory_id, expected: directory_id });
            }
            Ok(header) => files.begun.push(Found { slot, header, file }),
            Err(NotAHeader::Empty) => {
                files.garbage += u64::from(block.iter().any(|&byte| byte != 0));
                files.empty.push(slot);
            }
            Err(NotAHeader::Version(version)) => return Err(JournalError::Version { path, version }),
        }
    }
    files.begun.sort_by_key(|found| found.header.file_sequence);
    Ok(files)
}

/// The frame of a file's epoch at a position, if there is a whole one, and its entries.
fn frame_at<'a>(found: &Found, buffer: &'a mut [u8], position: u64) -> io::Result<Option<(FrameHeader, &'a [u8])>> {
    // The header says how long the frame is.
    let length = read_up_to(&*found.file, &mut buffer[..BLOCK_BYTES], position)?;
    let claimed = FrameHeader::claimed_bytes(&buffer[..length]);
    let Some(claimed) = claimed.filter(|&claimed| claimed <= FRAME_BYTES_MAX) else { return Ok(None) };
    let length = read_up_to(&*found.file, &mut buffer[..claimed], position)?;
    let frame = FrameHeader::read(&buffer[..length]);
    let is_of_epoch = |header: &FrameHeader| header.epoch == found.header.epoch;
    Ok(frame.filter(|(header, _)| is_of_epoch(header) || crate::injected_fault!(JournalReplaysEarlierLap)))
}

/// What is called with a frame and its entries.
type EachFrame<'a> = dyn FnMut(&FrameHeader, &[u8]) -> Result<(), JournalError> + 'a;

/// Calls `each` with the frames of a file that are whole. Returns the sequence behind the last.
///
/// Behind a damaged one the next is found, as none is longer than the longest. Behind the last stand those of an
/// earlier lap, which have smaller sequences, and what was torn.
pub(super) fn walk(found: &Found, each: &mut EachFrame<'_>) -> Result<u64, JournalError> {
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    let (mut position, mut sequence) = (BLOCK_BYTES as u64, found.header.first_frame);
    let mut give_up = position + FRAME_BYTES_MAX as u64;
    while position <= give_up {
        match frame_at(found, &mut buffer, position)? {
            Some((header, entries))
                if header.sequence >= sequence || crate::injected_fault!(JournalReplaysEarlierLap) =>
            {
                each(&header, entries)?;
                sequence = header.sequence.saturating_add(1);
                position += header.frame_bytes() as u64;
                give_up = position + FRAME_BYTES_MAX as u64;
            }
            _ => position += BLOCK_BYTES as u64,
        }
    }
    Ok(sequence)
}

/// What is needed of a journal.
pub(super) enum Needed<'a> {
    Frame {
        slot: u32,
        header: &'a FrameHeader,
        entries: &'a [u8],
    },
    /// So many frames from this one on are damaged or missing.
    Lost {
        first_frame: u64,
        frames: u64,
    },
}

/// Calls `each` with what is needed, in the order in which it was written.
pub(super) fn walk_needed(
    files: &Files,
    each: &mut dyn FnMut(Needed<'_>) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    let Some(newest) = files.begun.last() else { return Ok(()) };
    let mut needed_from = newest.header.needed_from;
    walk(newest, &mut |header, _| {
        needed_from = header.needed_from;
        Ok(())
    })?;
    let of_epoch: Vec<_> = files.begun.iter().filter(|found| found.header.epoch == newest.header.epoch).collect();
    let ends = of_epoch.iter().skip(1).map(|next| Some(next.header.first_frame)).chain([None]);
    let mut expected = needed_from;
    for (found, end) in of_epoch.iter().zip(ends) {
        if end.is_some_and(|end| end <= needed_from) {
            continue;
        }
        tell_lost(&mut expected, found.header.first_frame, each)?;
        walk(found, &mut |header, entries| {
            if header.sequence < needed_from {
                return Ok(());
            }
            tell_lost(&mut expected, header.sequence, each)?;
            expected = header.sequence.saturating_add(1);
            each(Needed::Frame { slot: found.slot, header, entries })
        })?;
        tell_lost(&mut expected, end.unwrap_or(0), each)?;
    }
    Ok(())
}

/// What was expected and does not come, as a later frame does.
fn tell_lost(
    expected: &mut u64,
    found: u64,
    each: &mut dyn FnMut(Needed<'_>) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    if found <= *expected {
        return Ok(());
    }
    let first_frame = std::mem::replace(expected, found);
    each(Needed::Lost { first_frame, frames: found - first_frame })
}

/// Writes into the segments what they may lack, and makes it durable. `known` says what the checkpoints have of a log.
pub(super) fn replay(
    disk: &dyn Disk,
    dir: &Path,
    files: &Files,
    known: &dyn Fn(&str) -> Known,
) -> Result<Replayed, JournalError> {
    // Each has one at least.
    let mut replayed = Replayed { lost_frames: files.garbage, ..Replayed::default() };
    let Some(newest) = files.begun.last() else { return Ok(replayed) };
    let mut logs = Logs { disk, dir, epoch: newest.header.epoch, known, logs: BTreeMap::new() };
    walk_needed(files, &mut |needed| match needed {
        Needed::Lost { frames, .. } => {
            replayed.lost_frames = replayed.lost_frames.saturating_add(frames);
            Ok(())
        }
        Needed::Frame { header, mut entries, .. } => {
            replayed.frames += 1;
            for _ in 0..header.entries {
                let Some((entry, batches)) = next_entry(&mut entries) else { break };
                replayed.entries += 1;
                replayed.written_bytes += logs.write(header.sequence, &entry, batches)?;
            }
            Ok(())
        }
    })?;
    logs.sync()?;
    Ok(replayed)
}

/// A log that entries are written into.
struct ReplayedLog {
    topic_id: Option<Uuid>,
    /// All below is in synced segments, or deleted.
    from_offset: i64,
    /// Entries of older frames are void.
    from_frame: u64,
    /// Base offset of the first segment.
    first_segment: i64,
    files: BTreeMap<i64, Arc<dyn File>>,
}

struct Logs<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    epoch: u64,
    known: &'a dyn Fn(&str) -> Known,
    /// `None` for a directory that is not there any more.
    logs: BTreeMap<String, Option<ReplayedLog>>,
}

impl Logs<'_> {
    /// Returns how many bytes the segment did not have.
    fn write(&mut self, sequence: u64, entry: &EntryHeader<'_>, batches: &[u8]) -> Result<u64, JournalError> {
        if !self.logs.contains_key(entry.directory) {
            let log = self.look_at(entry.directory)?;
            self.logs.insert(entry.directory.to_owned(), log);
        }
        let (disk, path) = (self.disk, self.dir.join(entry.directory));
        let Some(Some(log)) = self.logs.get_mut(entry.directory) else { return Ok(0) };
        let is_wanted = log.topic_id == Some(entry.topic_id)
            && sequence >= log.from_frame
            && entry.next_offset > log.from_offset
            && entry.segment >= log.first_segment;
        if !is_wanted {
            return Ok(0);
        }
        let file = match log.files.entry(entry.segment) {
            std::collections::btree_map::Entry::Occupied(known) => Arc::clone(known.get()),
            std::collections::btree_map::Entry::Vacant(unknown) => {
                let file = disk.open(&names::path(&path, entry.segment, Kind::Log, Stage::Live), OpenMode::Create)?;
                failed_sync::read_from_disk_if_failed(disk, &path, &*file, entry.position)?;
                Arc::clone(unknown.insert(file))
            }
        };
        let mut there = vec![0; batches.len()];
        let length = read_up_to(&*file, &mut there, entry.position)?;
        if there[..length] == *batches {
            return Ok(0);
        }
        write_all_at(&*file, &mut [IoSlice::new(batches)], entry.position)?;
        Ok(batches.len() as u64)
    }

    fn look_at(&self, directory: &str) -> io::Result<Option<ReplayedLog>> {
        let dir: PathBuf = self.dir.join(directory);
        if !self.disk.exists(&dir)? {
            return Ok(None);
        }
        let Known { recovery_point, log_start_offset } = (self.known)(directory);
        let recovery_point = Truncations::load(self.disk, &dir)?.believed(recovery_point);
        let entries = self.disk.read_dir(&dir)?;
        let segments = entries.iter().filter_map(|entry| match names::parse(&entry.name) {
            Some((offset, Kind::Log, Stage::Live)) => Some(offset),
            _ => None,
        });
        Ok(Some(ReplayedLog {
            topic_id: partition_metadata::read_topic_id(self.disk, &dir)?,
            from_offset: recovery_point.max(log_start_offset),
            from_frame: voided(self.disk, &dir, self.epoch)?,
            first_segment: segments.min().unwrap_or(0),
            files: BTreeMap::new(),
        }))
    }

    /// Also what stood there already, and names: they may be in the page cache only.
    fn sync(&self) -> io::Result<()> {
        for (directory, log) in &self.logs {
            let Some(log) = log.as_ref().filter(|log| !log.files.is_empty()) else { continue };
            log.files.values().try_for_each(|file| file.sync_data())?;
            if !crate::injected_fault!(JournalLosesNames) {
                self.disk.sync_dir(&self.dir.join(directory))?;
            }
        }
        Ok(())
    }
}
