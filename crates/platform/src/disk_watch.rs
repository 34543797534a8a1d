//! Whether the disk answers.
//!
//! A disk that hangs fails nothing: a write or a sync just does not return, and its caller waits with it. So all that
//! changes the disk goes through a [`WatchedDisk`], which records what is under way, and code that acts for this node
//! checks [`DiskWatch::is_stalled`] before it does: the leader of the metadata quorum steps down, the broker has the
//! controller fence it, and producers are refused instead of waiting.
//!
//! A slow disk is not a stalled one. An operation is late after `disk.stall.timeout.ms`, and a second more for each 16
//! MiB that the syncs under way have to bring to the disk. A disk that was stalled is trusted again when nothing has
//! been late for that time, by half of the measure, so that a borderline disk does not flap.
//!
//! Reads are not watched, nor is the removal of files, which may take long where there is much to remove.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use storage::disk::{DirEntry, Disk, File, OpenMode, is_exhausted};

use crate::env::Clock;
use crate::open_files::OpenFiles;

/// Bytes that even a slow disk writes in a second.
const BYTES_PER_SECOND_MIN: u64 = 16 << 20;

/// What is under way on a disk.
pub struct DiskWatch {
    clock: Arc<dyn Clock>,
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last_number: u64,
    under_way: Vec<Operation>,
    /// When something was last found to be late. None while the disk is trusted.
    late_at: Option<Duration>,
}

struct Operation {
    number: u64,
    began: Duration,
    /// What it has to bring to the disk.
    bytes: u64,
}

impl DiskWatch {
    pub fn new(clock: Arc<dyn Clock>, timeout: Duration) -> Self {
        Self { clock, timeout, state: Mutex::default() }
    }

    /// Records that an operation begins, and returns its number for [`Self::end`].
    pub fn begin(&self, bytes: u64) -> u64 {
        let began = self.clock.monotonic();
        let mut state = self.state.lock();
        state.last_number += 1;
        let number = state.last_number;
        state.under_way.push(Operation { number, began, bytes });
        number
    }

    pub fn end(&self, number: u64) {
        let now = self.clock.monotonic();
        let mut state = self.state.lock();
        // A late operation counts, even without a call meanwhile.
        state.look(now, self.timeout);
        state.under_way.retain(|operation| operation.number != number);
    }

    /// Whether the disk has not answered for so long that other nodes should take over.
    pub fn is_stalled(&self) -> bool {
        let now = self.clock.monotonic();
        let mut state = self.state.lock();
        state.look(now, self.timeout);
        state.late_at.is_some()
    }

    fn watch<R>(&self, bytes: u64, operate: impl FnOnce() -> R) -> R {
        let number = self.begin(bytes);
        let result = operate();
        self.end(number);
        result
    }
}

impl State {
    fn look(&mut self, now: Duration, timeout: Duration) {
        let measure = if self.late_at.is_some() { timeout / 2 } else { timeout };
        let bytes: u64 = self.under_way.iter().map(|operation| operation.bytes).sum();
        let allowed = measure + Duration::from_millis(bytes / (BYTES_PER_SECOND_MIN / 1000));
        let is_late = |operation: &Operation| now.saturating_sub(operation.began) >= allowed;
        if self.under_way.iter().any(is_late) {
            self.late_at = Some(now);
        } else if self.late_at.is_some_and(|at| now.saturating_sub(at) >= timeout) {
            self.late_at = None;
        }
    }
}

/// A disk that is watched, and whose open files are counted.
pub struct WatchedDisk {
    disk: Arc<dyn Disk>,
    watch: Arc<DiskWatch>,
    open_files: Arc<OpenFiles>,
}

struct WatchedFile {
    file: Arc<dyn File>,
    watch: Arc<DiskWatch>,
    open_files: Arc<OpenFiles>,
    /// Written through this handle since its last sync began.
    unsynced_bytes: AtomicU64,
}

impl WatchedDisk {
    pub fn new(disk: Arc<dyn Disk>, watch: Arc<DiskWatch>, open_files: Arc<OpenFiles>) -> Self {
        Self { disk, watch, open_files }
    }

    fn open_now(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        match mode {
            OpenMode::Read | OpenMode::ReadWrite | OpenMode::Durable => self.disk.open(path, mode),
            OpenMode::Create | OpenMode::CreateEmpty => self.watch.watch(0, || self.disk.open(path, mode)),
        }
    }
}

impl Drop for WatchedFile {
    fn drop(&mut self) {
        self.open_files.record_closed();
    }
}

impl Disk for WatchedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.open_files.make_room();
        let file = match self.open_now(path, mode) {
            // Connections may have taken more descriptors than their part.
            Err(error) if is_exhausted(&error) => {
                self.open_files.give_up_some();
                self.open_now(path, mode)?
            }
            opened => opened?,
        };
        self.open_files.record_opened();
        let (watch, open_files) = (Arc::clone(&self.watch), Arc::clone(&self.open_files));
        Ok(Arc::new(WatchedFile { file, watch, open_files, unsynced_bytes: AtomicU64::new(0) }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.watch.watch(0, || self.disk.create_dir_all(path))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.disk.read_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watch.watch(0, || self.disk.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.watch.watch(0, || self.disk.sync_dir(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_bytes(path)
    }

    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.total_bytes(path)
    }
}

impl File for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_cached_at(buffer, position)
    }

    fn write_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        let taken = self.watch.watch(0, || self.file.write_at(slices, position))?;
        self.unsynced_bytes.fetch_add(taken as u64, Ordering::Relaxed);
        Ok(taken)
    }

    fn sync_data(&self) -> io::Result<()> {
        let bytes = self.unsynced_bytes.swap(0, Ordering::Relaxed);
        self.watch.watch(bytes, || self.file.sync_data())
    }

    fn drop_cached(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.file.drop_cached(position, bytes)
    }

    fn allocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.watch.watch(0, || self.file.allocate(position, bytes))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.watch.watch(0, || self.file.set_len(len))
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.fd()
    }
}

#[cfg(test)]
mod tests {
    use storage::SimDisk;

    use super::*;
    use crate::simulation::SimClock;

    fn watch() -> (SimClock, DiskWatch) {
        let clock = SimClock::default();
        (clock.clone(), DiskWatch::new(Arc::new(clock), Duration::from_millis(2000)))
    }

    #[test]
    fn what_does_not_return_in_time_is_a_stall() {
        let (clock, watch) = watch();
        clock.pass(5000);
        assert!(!watch.is_stalled());
        let first = watch.begin(0);
        clock.pass(1000);
        let second = watch.begin(0);
        clock.pass(999);
        assert!(!watch.is_stalled());
        clock.pass(1);
        assert!(watch.is_stalled());
        watch.end(first);
        watch.end(second);
    }

    #[test]
    fn a_stall_that_nobody_saw_is_one_for_a_while() {
        let (clock, watch) = watch();
        let operation = watch.begin(0);
        clock.pass(2500);
        watch.end(operation);
        assert!(watch.is_stalled());
        clock.pass(1999);
        assert!(watch.is_stalled());
        clock.pass(1);
        assert!(!watch.is_stalled());
    }

    #[test]
    fn a_slow_disk_is_not_stalled_and_one_that_was_has_to_be_better() {
        let (clock, watch) = watch();
        let slowly = |times: u32| {
            for _ in 0..times {
                let operation = watch.begin(0);
                clock.pass(1900);
                watch.end(operation);
            }
        };
        slowly(20);
        assert!(!watch.is_stalled());
        let operation = watch.begin(0);
        clock.pass(2000);
        watch.end(operation);
        slowly(20);
        assert!(watch.is_stalled(), "it is as slow as before");
        for _ in 0..3 {
            let operation = watch.begin(0);
            clock.pass(900);
            watch.end(operation);
        }
        assert!(!watch.is_stalled());
    }

    #[test]
    fn a_sync_of_much_may_take_its_time() {
        let (clock, watch) = watch();
        let large = watch.begin(64 << 20);
        clock.pass(1000);
        let small = watch.begin(0);
        clock.pass(4900);
        assert!(!watch.is_stalled(), "the small one waits for the large one");
        watch.end(large);
        assert!(watch.is_stalled(), "the small one does not");
        watch.end(small);
    }

    #[test]
    fn a_file_says_how_much_there_is_to_sync() {
        let clock = SimClock::default();
        let watch = Arc::new(DiskWatch::new(Arc::new(clock), Duration::from_millis(2000)));
        let sim = SimDisk::new(1);
        let disk = WatchedDisk::new(Arc::new(sim.clone()), Arc::clone(&watch), Arc::new(OpenFiles::new(u64::MAX)));
        let file = disk.open(Path::new("/a"), OpenMode::Create).unwrap();
        storage::disk::write_all_at(&*file, &mut [IoSlice::new(b"abc"), IoSlice::new(b"d")], 0).unwrap();
        assert_eq!(sim.get(Path::new("/a")).unwrap(), b"abcd");
        file.sync_data().unwrap();
        assert!(watch.state.lock().under_way.is_empty());
        assert!(!watch.is_stalled());
    }
}
