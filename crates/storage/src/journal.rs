//! The journal: what has to be acknowledged from the disk is copied there, of all partitions in one durable write.
//!
//! Segments are written through the page cache and synced later, in large pieces. They are the truth for readers and
//! tools; the journal is read only after a crash, before any log is opened ([`Journal::open`]).
//!
//! What holds:
//! - A log's durable offset rises only after the write that has all below it has returned, and what is durable of a log
//!   is a prefix of it ([`Journal::commit`]).
//! - A file is written anew only when all of its entries are in synced segments, or void ([`ring`]).
//! - Entries of a log are voided, durably, before anything is appended behind a truncation (`journaled.rs`).
//! - Replay writes the same bytes however often it is done, and nothing into synced, deleted or other logs
//!   ([`replay`]).

mod format;
mod frame;
#[cfg(test)]
mod hostile_tests;
mod noted_files;
mod offline;
mod replay;
mod ring;
mod tail;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use wire::Uuid;

use self::format::FRAME_BYTES_MAX;
use self::frame::Frame;
use self::noted_files::{note_files, noted_files, remove_noted};
pub use self::offline::{BegunFile, Inspected, InspectedEntry, JournalFile, NeededSum, apply, forget, inspect, remove};
pub use self::replay::Replayed;
use self::replay::{find_files, replay};
use self::ring::{NotWritten, Ring, file_path, make_file};
use crate::checkpoint::Offsets;
use crate::disk::{BLOCK_BYTES, Disk, OpenMode};
use crate::journaled::{Journaled, LogPosition, void};
use crate::view::LogView;

/// The greatest and the least size of a file.
const FILE_BYTES_MAX: u64 = 16 << 20;
const FILE_BYTES_MIN: u64 = 64 << 10;
/// Above so much of the ring, logs with much to write go to their segments; above the other, all do.
const PRESSED_PERCENT: usize = 50;
const FULL_PERCENT: usize = 90;
/// A file is made if it takes no more of the free space: one in so many bytes.
const FREE_PART: u64 = 16;
/// What is much then.
const PRESSED_BYTES: u64 = 16 << 10;
/// Whoever asks for the figures waits no longer for a write, which takes as long as the disk.
const FIGURES_PATIENCE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error(
        "{} belongs to the data directory {found}, and this one is {expected}; put this directory's own journal back, or \
         move the file away if it was copied here by mistake",
        .path.display()
    )]
    Foreign { path: PathBuf, found: Uuid, expected: Uuid },
    #[error(
        "{} is missing, and the broker was not stopped cleanly: what it acknowledged last may be nowhere else. Put the \
         file back, or start with what is there after 'parshall journal forget --data-dir {}'",
        .path.display(), .dir.display()
    )]
    Missing { path: PathBuf, dir: PathBuf },
    #[error("{} has version {version}, which a later release writes; start that release", .path.display())]
    Version { path: PathBuf, version: u32 },
    #[error("the journal cannot be read or written: {0}")]
    Io(#[from] io::Error),
}

/// How large the journal may become, and what goes past it.
#[derive(Clone, Copy, Debug)]
pub struct JournalLimits {
    /// Of all files.
    pub bytes: u64,
    /// A log with so much to make durable is synced in its segment.
    pub bypass_bytes: u64,
}

/// What the checkpoints have of a log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    pub recovery_point: i64,
    pub log_start_offset: i64,
}

impl Known {
    /// Of the log whose directory has this name.
    pub fn of(directory: &str, recovery_points: &Offsets, log_start_offsets: &Offsets) -> Self {
        let key = directory.rsplit_once('-').and_then(|(topic, index)| Some((topic.to_owned(), index.parse().ok()?)));
        let offset_of = |offsets: &Offsets| key.as_ref().and_then(|key| offsets.get(key).copied()).unwrap_or(0);
        Self { recovery_point: offset_of(recovery_points), log_start_offset: offset_of(log_start_offsets) }
    }
}

/// What became of one log in a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// All that the log had is durable: so many bytes by this commit.
    Durable { bytes: u64 },
    /// The log has to be synced in its segment instead.
    Direct(DirectReason),
}

/// Why a log is synced in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectReason {
    /// It has much to make durable.
    Large,
    /// The disk does not keep up with two copies, or there is no file yet.
    NoRoom,
    /// Where its durable part ends is not known: it was just opened or truncated. Or it has failed.
    Unknown,
    /// A write of the journal has failed. It is used again after a restart.
    Failed,
}

/// What there is to tell of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalFigures {
    /// Acknowledged bytes that are in the journal and may not be in synced segments.
    pub needed_bytes: u64,
    pub files: usize,
    /// Why logs are synced in their segments now, whatever they have to make durable.
    pub bypassed: Option<BypassReason>,
}

/// Why the journal is bypassed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BypassReason {
    /// Segments are not synced fast enough. Logs with little to make durable may go on.
    FillingUp,
    /// The disk has no room for the file that is wanted.
    NoSpace,
    /// A write has failed.
    Failed,
}

/// See the module's documentation.
pub struct Journal {
    state: Mutex<State>,
    /// As they were when they could be read.
    figures: Mutex<JournalFigures>,
    /// The last file that was wanted could not be made.
    lacks_file: AtomicBool,
    /// A write has failed, or its use has ended. It changes under the lock of `state`.
    is_over: AtomicBool,
    /// How much of the ring was needed at the last commit.
    needed_percent: AtomicUsize,
    bypass_bytes: u64,
}

struct State {
    ring: Ring,
    frame: Frame,
}

/// A log whose tail is in the frame that is being filled.
struct Pending<'a> {
    index: usize,
    journaled: MutexGuard<'a, Journaled>,
    end: LogPosition,
    bytes: u64,
}

impl Journal {
    /// Replays what a crash left, and begins a new epoch, of which `epoch` is a random number. No log of the data
    /// directory may be open. `known` gets the names of their directories.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        directory_id: Uuid,
        epoch: u64,
        limits: JournalLimits,
        known: &dyn Fn(&str) -> Known,
    ) -> Result<(Self, Replayed), JournalError> {
        let files = find_files(&*disk, &dir, directory_id)?;
        let replayed = replay(&*disk, &dir, &files, known)?;
        let file_bytes = (limits.bytes / 8).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX).next_multiple_of(BLOCK_BYTES as u64);
        let files_max = usize::try_from(limits.bytes / file_bytes).unwrap_or(usize::MAX).max(2);
        let next_file_sequence = files.next_sequence();
        let mut ring =
            Ring::new(Arc::clone(&disk), dir.clone(), directory_id, epoch, file_bytes, files_max, next_file_sequence);
        // From the newest on: as soon as one says that nothing is needed, the others do not count.
        let begun = files.begun.iter().rev().map(|found| found.slot);
        let (mut is_started, mut outgrown) = (false, None);
        note_files(&*disk, &dir, &files.slots())?;
        for slot in begun.chain(files.empty.iter().copied()) {
            let path = file_path(&dir, slot);
            let file = disk.open(&path, OpenMode::Durable)?;
            let is_newest = !is_started && !files.begun.is_empty();
            let is_of_size = file.len()? == file_bytes;
            if is_newest {
                is_started = true;
                outgrown = (!is_of_size).then_some(slot);
                if file.len()? >= BLOCK_BYTES as u64 {
                    ring.start_with(slot, file)?;
                }
            } else if is_of_size && ring.has_place() {
                ring.add(slot, file);
            } else {
                remove_noted(&*disk, &dir, slot)?;
            }
        }
        if let Some(slot) = outgrown {
            ring.give_up_newest();
            remove_noted(&*disk, &dir, slot)?;
        }
        let frame_bytes_max = FRAME_BYTES_MAX.min(file_bytes as usize / 2);
        let state = State { ring, frame: Frame::new(frame_bytes_max) };
        // A frame has room for that.
        let bypass_bytes = limits.bypass_bytes.min(frame_bytes_max as u64 / 2);
        let journal = Self {
            state: Mutex::new(state),
            figures: Mutex::default(),
            lacks_file: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            needed_percent: AtomicUsize::new(0),
            bypass_bytes,
        };
        Ok((journal, replayed))
    }

    /// Makes all that the logs have durable, as far as it goes into the journal; each log once.
    pub fn commit(&self, logs: &[(&Arc<LogView>, Uuid)]) -> Vec<Committed> {
        let mut state = self.state.lock();
        let mut committed = vec![Committed::Direct(DirectReason::Failed); logs.len()];
        if self.is_over() {
            return committed;
        }
        let percent = state.ring.needed_percent();
        self.needed_percent.store(percent, Ordering::Relaxed);
        let bypass_bytes = match percent {
            FULL_PERCENT.. => 0,
            PRESSED_PERCENT.. => self.bypass_bytes.min(PRESSED_BYTES),
            _ => self.bypass_bytes,
        };
        let mut pending: Vec<Pending<'_>> = Vec::new();
        for (index, &(view, topic_id)) in logs.iter().enumerate() {
            let journaled = view.journaled();
            let Some(tail) = view.tail(&journaled) else {
                committed[index] = Committed::Direct(DirectReason::Unknown);
                continue;
            };
            let directory = view.directory();
            let bytes = frame::bytes_of(directory, &tail);
            if tail.length() == 0 {
                committed[index] = Committed::Durable { bytes: 0 };
                continue;
            }
            if bytes > bypass_bytes {
                let reason = if bytes > self.bypass_bytes { DirectReason::Large } else { DirectReason::NoRoom };
                committed[index] = Committed::Direct(reason);
                continue;
            }
            if !state.frame.has_room(bytes) {
                self.write(&mut state, logs, &mut pending, &mut committed);
            }
            if let Err(error) = state.frame.push(topic_id, directory, &tail) {
                // Its own sync tells what is wrong with it.
                tracing::warn!(dir = %view.dir().display(), %error, "the log cannot be read for the journal");
                committed[index] = Committed::Direct(DirectReason::Unknown);
                continue;
            }
            pending.push(Pending { index, journaled, end: tail.end, bytes: tail.length() });
        }
        self.write(&mut state, logs, &mut pending, &mut committed);
        committed
    }

    /// Whether [`Journal::make_file`] should be called.
    pub fn wants_file(&self) -> bool {
        let mut state = self.state.lock();
        !self.is_over() && state.ring.wants_file()
    }

    /// Makes another file, so that it is there when it is needed. Takes as long as writing it. Not to be called twice
    /// at the same time.
    pub fn make_file(&self) -> io::Result<()> {
        let made = self.make_next_file();
        self.lacks_file.store(made.is_err(), Ordering::Relaxed);
        made
    }

    fn make_next_file(&self) -> io::Result<()> {
        let (disk, dir, slot, bytes) = {
            let state = self.state.lock();
            let ring = &state.ring;
            (Arc::clone(ring.disk()), ring.dir().to_owned(), ring.unused_slot(), ring.file_bytes())
        };
        let free_bytes = disk.free_bytes(&dir)?;
        if free_bytes / FREE_PART < bytes {
            return Err(io::Error::other(format!("only {free_bytes} bytes of the disk are free")));
        }
        let file = make_file(&*disk, &dir, slot, bytes)?;
        let mut slots = noted_files(&*disk, &dir)?;
        slots.insert(slot);
        note_files(&*disk, &dir, &slots)?;
        self.state.lock().ring.add(slot, file);
        Ok(())
    }

    /// Whether anything would be replayed into a log whose directory has this name.
    pub fn holds(&self, directory: &str) -> bool {
        self.state.lock().ring.holds(directory)
    }

    /// Notes, durably, that nothing is to be replayed into a log that is about to be made in this directory.
    pub fn void(&self, disk: &dyn Disk, log_dir: &Path) -> io::Result<()> {
        let state = self.state.lock();
        let frames = state.ring.frames();
        // The frame whose write failed may be there.
        let below = frames.next() + u64::from(self.is_over());
        void(disk, log_dir, frames.epoch, below)
    }

    /// How much of the ring was needed at the last commit, in percent of its greatest size. Waits for nobody.
    pub fn needed_percent(&self) -> usize {
        self.needed_percent.load(Ordering::Relaxed)
    }

    /// As they are now, or as they were when they were last asked for while the disk keeps a write waiting.
    pub fn figures(&self) -> JournalFigures {
        let mut figures = self.figures.lock();
        if let Some(mut state) = self.state.try_lock_for(FIGURES_PATIENCE) {
            let ring = &mut state.ring;
            let bypassed = if self.is_over() {
                Some(BypassReason::Failed)
            } else if self.lacks_file.load(Ordering::Relaxed) && ring.is_full() {
                Some(BypassReason::NoSpace)
            } else {
                (ring.needed_percent() >= PRESSED_PERCENT).then_some(BypassReason::FillingUp)
            };
            *figures = JournalFigures { needed_bytes: ring.needed_bytes(), files: ring.file_count(), bypassed };
        }
        *figures
    }

    /// Whether nothing goes into it any more: a write has failed, or it was closed. Waits for nobody.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Ends its use. All logs are closed, so nothing in it is needed.
    pub fn close(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if self.is_over.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        state.ring.close()?;
        note_files(&**state.ring.disk(), state.ring.dir(), &BTreeSet::new())
    }

    /// Writes the frame, and raises the durable offsets of the logs in it.
    fn write(
        &self,
        state: &mut State,
        logs: &[(&Arc<LogView>, Uuid)],
        pending: &mut Vec<Pending<'_>>,
        committed: &mut [Committed],
    ) {
        let State { ring, frame } = state;
        if frame.is_empty() {
            return;
        }
        let frames = Arc::clone(ring.frames());
        let sequence = frames.next();
        let written = if self.is_over() { Err(NotWritten::NoRoom) } else { ring.write(frame) };
        if let Err(NotWritten::Failed(error)) = &written {
            tracing::error!(%error, "the journal cannot be written; logs are synced one by one until the next start");
            self.is_over.store(true, Ordering::Release);
        }
        for Pending { index, mut journaled, end, bytes } in pending.drain(..) {
            let view = logs[index].0;
            if !matches!(written, Err(NotWritten::NoRoom)) {
                // After an error, too: the frame may be on the disk.
                ring.note(view.directory(), view, end.offset);
                journaled.last = Some((Arc::clone(&frames), sequence));
            }
            committed[index] = match written {
                Ok(()) => {
                    journaled.end = Some(end);
                    view.raise_durable_offset(end.offset);
                    Committed::Durable { bytes }
                }
                Err(NotWritten::NoRoom) => Committed::Direct(DirectReason::NoRoom),
                Err(NotWritten::Failed(_)) if crate::injected_fault!(JournalPromisesFailedWrite) => {
                    view.raise_durable_offset(end.offset);
                    Committed::Durable { bytes }
                }
                Err(NotWritten::Failed(_)) => Committed::Direct(DirectReason::Failed),
            };
        }
        frame.clear();
    }
}
