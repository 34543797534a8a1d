//! The ring of files: frames go into the newest one, and the oldest is written anew when nothing in it is needed.
//!
//! A file is needed as long as a log has entries in it that are not in synced segments. Files are begun in turn, so
//! the frames that are needed follow each other without a gap, whatever becomes free in between.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use wire::Uuid;

use super::format::FileHeader;
use super::frame::Frame;
use crate::disk::{BLOCK_BYTES, Disk, File, OpenMode, write_all_at};
use crate::journaled::Frames;
use crate::view::LogView;

/// The pieces in which a new file is filled with zeros.
const ZEROS_BYTES: usize = 1 << 20;

pub(super) fn file_path(dir: &Path, slot: u32) -> PathBuf {
    dir.join(format!("journal-{slot}.parshall"))
}

/// The slot of a file of the journal, by its name.
pub(super) fn slot_of(name: &str) -> Option<u32> {
    let slot = name.strip_prefix("journal-")?.strip_suffix(".parshall")?.parse().ok()?;
    (format!("journal-{slot}.parshall") == name).then_some(slot)
}

/// What a log has in a file.
struct Entries {
    view: Weak<LogView>,
    /// The log's truncations when the entries were made: later ones void them.
    truncations: u64,
    /// All of the entries' offsets are below.
    next_offset: i64,
}

impl Entries {
    fn are_needed(&self) -> bool {
        if crate::injected_fault!(JournalFreedBeforeSync) {
            return false;
        }
        self.view.upgrade().is_some_and(|view| {
            let stays = view.truncation_count() == self.truncations && !view.is_retired();
            stays && view.synced_offset() < self.next_offset
        })
    }
}

struct RingFile {
    slot: u32,
    file: Arc<dyn File>,
    /// Sequence of its first frame.
    first_frame: u64,
    /// By the name of the log's directory.
    logs: HashMap<Arc<str>, Entries>,
}

impl RingFile {
    fn is_needed(&self) -> bool {
        self.logs.values().any(Entries::are_needed)
    }
}

/// An aligned block for a file's header.
struct HeaderBlock(Vec<u8>);

impl HeaderBlock {
    fn write(&mut self, header: &FileHeader, file: &dyn File) -> io::Result<()> {
        let start = self.0.as_ptr().align_offset(BLOCK_BYTES);
        let block = &mut self.0[start..start + BLOCK_BYTES];
        header.write(block);
        write_all_at(file, &mut [IoSlice::new(block)], 0)
    }
}

/// Why a frame is in no file.
#[derive(Debug)]
pub(super) enum NotWritten {
    /// There is no file for it now.
    NoRoom,
    Failed(io::Error),
}

pub(super) struct Ring {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    directory_id: Uuid,
    frames: Arc<Frames>,
    file_bytes: u64,
    files_max: usize,
    /// In the order in which they were begun.
    begun: VecDeque<RingFile>,
    /// How many of the oldest are known not to be needed: what is not needed once is never needed again.
    free: usize,
    /// Files that are ready to be begun.
    ready: Vec<(u32, Arc<dyn File>)>,
    /// Where the next frame goes in the newest file.
    position: u64,
    next_file_sequence: u64,
    /// There was no file when one was to be begun last.
    had_no_file: bool,
    header: HeaderBlock,
}

impl Ring {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        directory_id: Uuid,
        epoch: u64,
        file_bytes: u64,
        files_max: usize,
        next_file_sequence: u64,
    ) -> Self {
        Self {
            disk,
            dir,
            directory_id,
            frames: Arc::new(Frames::new(epoch)),
            file_bytes,
            files_max,
            begun: VecDeque::new(),
            free: 0,
            ready: Vec::new(),
            position: 0,
            next_file_sequence,
            had_no_file: false,
            header: HeaderBlock(vec![0; 2 * BLOCK_BYTES]),
        }
    }

    pub(super) fn frames(&self) -> &Arc<Frames> {
        &self.frames
    }

    /// Adds a file that is as long as the others.
    pub(super) fn add(&mut self, slot: u32, file: Arc<dyn File>) {
        self.ready.push((slot, file));
    }

    /// Whether there are fewer files than there may be.
    pub(super) fn has_place(&self) -> bool {
        self.file_count() < self.files_max
    }

    pub(super) fn file_count(&self) -> usize {
        self.begun.len() + self.ready.len()
    }

    /// How much of the ring is needed, in percent of its greatest size.
    pub(super) fn needed_percent(&mut self) -> usize {
        100 * self.needed_files() / self.files_max.max(1)
    }

    fn needed_files(&mut self) -> usize {
        let free = self.free_files();
        self.begun.len() - free
    }

    /// How many of the oldest files are not needed.
    fn free_files(&mut self) -> usize {
        while self.free + 1 < self.begun.len() && !self.begun[self.free].is_needed() {
            self.free += 1;
        }
        self.free
    }

    pub(super) fn needed_bytes(&mut self) -> u64 {
        match self.needed_files() {
            0 => 0,
            // The newest counts only if it is needed.
            1 if !self.begun.back().is_some_and(RingFile::is_needed) => 0,
            files => (files as u64 - 1) * self.file_bytes + self.position,
        }
    }

    /// Whether another file should be made, so that it is there when the newest is full.
    pub(super) fn wants_file(&mut self) -> bool {
        let has_room = !self.begun.is_empty() && self.position < self.file_bytes / 2;
        !has_room && self.ready.is_empty() && self.has_place() && self.free_files() == 0
    }

    /// Whether the newest file was too full for what came last, and there is still no other.
    pub(super) fn is_full(&mut self) -> bool {
        self.had_no_file && self.ready.is_empty() && self.free_files() == 0
    }

    /// A slot without a file.
    pub(super) fn unused_slot(&self) -> u32 {
        let is_used =
            |slot| self.begun.iter().any(|file| file.slot == slot) || self.ready.iter().any(|ready| ready.0 == slot);
        (0..).find(|&slot| !is_used(slot)).expect("there are few files")
    }

    /// Whether something would be replayed into the log of a directory of this name.
    pub(super) fn holds(&self, directory: &str) -> bool {
        let needed_from = self.frames.needed_from();
        let ends = self.begun.iter().skip(1).map(|next| next.first_frame).chain([u64::MAX]);
        self.begun.iter().zip(ends).any(|(file, end)| end > needed_from && file.logs.contains_key(directory))
    }

    /// Writes the next frame. When this returns it is durable. After an error it may be on the disk nevertheless.
    pub(super) fn write(&mut self, frame: &mut Frame) -> Result<(), NotWritten> {
        let bytes = frame.frame_bytes() as u64;
        if self.begun.is_empty() || self.position + bytes > self.file_bytes {
            let begun = self.begin_file();
            self.had_no_file = matches!(begun, Err(NotWritten::NoRoom));
            begun?;
        }
        let needed_from = self.needed_from();
        let sealed = frame.seal(self.frames.epoch, self.frames.next(), needed_from);
        let newest = self.begun.back().ok_or(NotWritten::NoRoom)?;
        let written = write_all_at(&*newest.file, &mut [IoSlice::new(sealed)], self.position);
        if written.is_ok() {
            self.position += bytes;
            self.frames.written(needed_from);
        }
        written.map_err(NotWritten::Failed)
    }

    /// The first frame that is needed, or the next one.
    fn needed_from(&mut self) -> u64 {
        let free = self.free_files();
        self.begun.get(free).map_or(self.frames.next(), |file| file.first_frame)
    }

    /// Notes that the newest file has entries of a log.
    pub(super) fn note(&mut self, directory: &Arc<str>, view: &Arc<LogView>, next_offset: i64) {
        let Some(newest) = self.begun.back_mut() else { return };
        let entries = Entries { view: Arc::downgrade(view), truncations: view.truncation_count(), next_offset };
        newest.logs.insert(Arc::clone(directory), entries);
    }

    /// Takes a file into use: one that is ready, or the oldest if it is not needed.
    fn begin_file(&mut self) -> Result<(), NotWritten> {
        let (slot, file) = match self.ready.pop() {
            Some(ready) => ready,
            None if self.begun.len() > 1 && self.free_files() > 0 => {
                let oldest = self.begun.pop_front().ok_or(NotWritten::NoRoom)?;
                self.free -= 1;
                (oldest.slot, oldest.file)
            }
            None => return Err(NotWritten::NoRoom),
        };
        let first_frame = self.frames.next();
        let needed_from = self.needed_from();
        self.write_header(&*file, first_frame, needed_from).map_err(NotWritten::Failed)?;
        self.begun.push_back(RingFile { slot, file, first_frame, logs: HashMap::new() });
        self.position = BLOCK_BYTES as u64;
        Ok(())
    }

    fn write_header(&mut self, file: &dyn File, first_frame: u64, needed_from: u64) -> io::Result<()> {
        let header = FileHeader {
            directory_id: self.directory_id,
            file_sequence: self.next_file_sequence,
            epoch: self.frames.epoch,
            first_frame,
            needed_from,
        };
        self.header.write(&header, file)?;
        self.next_file_sequence += 1;
        Ok(())
    }

    /// Begins the ring with a file in which nothing is needed, whatever it and others hold.
    pub(super) fn start_with(&mut self, slot: u32, file: Arc<dyn File>) -> io::Result<()> {
        self.add(slot, file);
        match self.begin_file() {
            Ok(()) | Err(NotWritten::NoRoom) => Ok(()),
            Err(NotWritten::Failed(error)) => Err(error),
        }
    }

    /// Lets go of the file that the ring was begun with.
    pub(super) fn give_up_newest(&mut self) {
        self.begun.pop_back();
        self.position = 0;
    }

    /// Notes that nothing is needed any more. All logs are in synced segments.
    pub(super) fn close(&mut self) -> io::Result<()> {
        let Some(newest) = self.begun.back().map(|newest| Arc::clone(&newest.file)) else { return Ok(()) };
        let next = self.frames.next();
        self.write_header(&*newest, next, next)
    }

    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }
}

/// Makes a file of zeros, durably: what is written over it later changes no metadata of the file system.
pub(super) fn make_file(disk: &dyn Disk, dir: &Path, slot: u32, bytes: u64) -> io::Result<Arc<dyn File>> {
    let path = file_path(dir, slot);
    let made = || {
        let file = disk.open(&path, OpenMode::CreateEmpty)?;
        let zeros = vec![0; ZEROS_BYTES];
        let mut position = 0;
        while position < bytes {
            let piece = &zeros[..usize::try_from(bytes - position).unwrap_or(ZEROS_BYTES).min(ZEROS_BYTES)];
            write_all_at(&*file, &mut [IoSlice::new(piece)], position)?;
            position += piece.len() as u64;
        }
        file.sync_data()?;
        disk.sync_dir(dir)?;
        disk.open(&path, OpenMode::Durable)
    };
    made().inspect_err(|_| {
        // Half a file is of no use, and its room may be wanted.
        let _ = disk.remove_file(&path);
    })
}
