//! One segment: a log file with its two indexes, and how an offset becomes a position in it.
//!
//! The writer alone appends; any thread may read. `size` is what readers may see: it is published after the bytes are
//! written (by [`LogView`](crate::LogView), which also keeps it in step with the log's end offset). Files are opened on
//! first use and closed when idle ([`files`]).

mod allocation;
mod by_offset;
mod by_timestamp;
mod damage;
mod files;
mod indexes;
mod lookups;
mod recent_writes;
mod state;
mod timestamp_offset;
mod txn_index;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use wire::batch::BatchHeader;

use self::files::Handle;
use self::recent_writes::RecentWrites;
use self::state::State;
pub use self::timestamp_offset::TimestampOffset;
use self::txn_index::{Known, TxnIndex};
use crate::disk::{Disk, File, OpenMode};
use crate::index::{ENTRIES_PER_WRITE, Entry, OffsetEntry, TimeEntry};
use crate::names::{self, Kind, Stage};
use crate::scan::{Item, Walk};

pub(crate) struct Segment {
    disk: Arc<dyn Disk>,
    dir: Arc<Path>,
    base_offset: i64,
    index_interval_bytes: u32,
    log: Handle,
    index: Handle,
    time_index: Handle,
    txn_index: Handle,
    /// Whether the files stay open, because they cannot be opened again.
    is_pinned: AtomicBool,
    /// Whether any of them was used since somebody looked for idle ones.
    is_used: AtomicBool,
    size: AtomicU64,
    /// Up to where the writer has had space allocated.
    allocated: AtomicU64,
    /// What of `size` is known to be on disk.
    synced_size: AtomicU64,
    /// Set with the files' last sync, when the segment does not grow any more.
    indexes_synced: AtomicBool,
    /// By the monotonic clock; `i64::MIN` if this process appended nothing to it.
    last_append_ms: AtomicI64,
    recent_writes: Mutex<Option<RecentWrites>>,
    retired: Arc<AtomicBool>,
    /// A truncation is about to cut the file, or has: another object stands for it now.
    is_cut: AtomicBool,
    state: Mutex<State>,
    /// Its aborted transactions. Not locked together with `state`.
    aborted: Mutex<Known>,
    /// What most segments have to say of those.
    has_no_aborted: AtomicBool,
}

/// Where a batch starts, and the lowest offset that can be there.
pub(crate) type BatchPosition = (u64, i64);

/// A batch in a segment's log file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocatedBatch {
    pub(crate) position: u64,
    pub(crate) header: BatchHeader,
}

impl Segment {
    /// A segment whose log file has `size` bytes. Nothing is read or opened yet; the indexes are loaded on first
    /// use, or trimmed by [`Segment::trim_indexes`].
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: Arc<Path>,
        retired: Arc<AtomicBool>,
        base_offset: i64,
        index_interval_bytes: u32,
        size: u64,
    ) -> Self {
        Self {
            disk,
            dir,
            base_offset,
            index_interval_bytes,
            log: Handle::default(),
            index: Handle::default(),
            time_index: Handle::default(),
            txn_index: Handle::default(),
            is_pinned: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
            size: AtomicU64::new(size),
            allocated: AtomicU64::new(0),
            synced_size: AtomicU64::new(0),
            indexes_synced: AtomicBool::new(false),
            last_append_ms: AtomicI64::new(i64::MIN),
            recent_writes: Mutex::default(),
            retired,
            is_cut: AtomicBool::new(false),
            state: Mutex::new(State::empty()),
            aborted: Mutex::default(),
            has_no_aborted: AtomicBool::new(false),
        }
    }

    /// Makes the log file of a new segment. Its name is durable after the directory's next sync.
    pub(crate) fn create(&self) -> io::Result<()> {
        self.disk.open(&self.path(Kind::Log), OpenMode::CreateEmpty)?;
        self.begin_txn_index();
        let mut state = self.state.lock();
        state.is_loaded = true;
        state.max_timestamp = Some(TimestampOffset::NONE);
        Ok(())
    }

    /// Takes files that are open already, and empty, for its own.
    pub(crate) fn adopt(&self, log: Arc<dyn File>, index: Arc<dyn File>, time_index: Arc<dyn File>) {
        for (handle, file) in [(&self.log, log), (&self.index, index), (&self.time_index, time_index)] {
            handle.get_or_keep(file);
        }
        self.begin_txn_index();
        let mut state = self.state.lock();
        state.is_loaded = true;
        state.max_timestamp = Some(TimestampOffset::NONE);
    }

    fn begin_txn_index(&self) {
        *self.aborted.lock() = Some(TxnIndex::EMPTY);
        self.has_no_aborted.store(true, Ordering::Release);
    }

    /// Whether it is known that no aborted transaction ends in it.
    pub(crate) fn has_no_aborted(&self) -> bool {
        self.has_no_aborted.load(Ordering::Acquire)
    }

    pub(crate) fn base_offset(&self) -> i64 {
        self.base_offset
    }

    pub(crate) fn path(&self, kind: Kind) -> PathBuf {
        names::path(&self.dir, self.base_offset, kind, Stage::Live)
    }

    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    pub(crate) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Release);
    }

    /// Whether what this object says of the file may not be so any more. To be asked after the file was read.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }

    /// From here on this object does not write to the indexes any more.
    pub(crate) fn set_cut(&self) {
        let _not_rebuilding = self.state.lock();
        self.is_cut.store(true, Ordering::SeqCst);
    }

    pub(crate) fn last_append_ms(&self) -> Option<i64> {
        Some(self.last_append_ms.load(Ordering::Relaxed)).filter(|&at| at != i64::MIN)
    }

    pub(crate) fn set_last_append_ms(&self, monotonic_ms: i64) {
        self.last_append_ms.store(monotonic_ms, Ordering::Relaxed);
    }

    fn walk(&self, file: Arc<dyn File>, size: u64, upper_offset: i64, verify: bool) -> Walk {
        Walk::new(file, self.base_offset, size, upper_offset, verify)
    }

    /// A walk over headers that goes around what is known to be bad.
    pub(crate) fn headers(&self, file: Arc<dyn File>, size: u64, upper_offset: i64) -> Walk {
        self.walk(file, size, upper_offset, false).with_known_bad(self.bad_ranges())
    }

    /// A walk that checks CRCs.
    pub(crate) fn verified(&self, file: Arc<dyn File>, size: u64, upper_offset: i64) -> Walk {
        self.walk(file, size, upper_offset, true)
    }

    // --- Appending

    /// Takes note of batches that were written. Called by the writer, before the new size is published. Returns whether
    /// enough index entries have gathered for [`Segment::write_indexes`].
    pub(crate) fn note_appended(&self, batches: &[LocatedBatch]) -> bool {
        self.indexes_synced.store(false, Ordering::Release);
        let mut state = self.state.lock();
        if let Some(first) = batches.first() {
            state.hint(first.header.base_offset, first.position);
        }
        for batch in batches {
            state.note(self.base_offset, self.index_interval_bytes, batch);
        }
        state.offsets.unwritten().max(state.times.unwritten()) >= ENTRIES_PER_WRITE
    }

    pub(crate) fn write_indexes(&self) -> io::Result<()> {
        self.write_entries(&mut self.state.lock())
    }

    /// Whether an index has no room for another batch (Kafka's `isFull`: the time index keeps one entry for the roll).
    pub(crate) fn indexes_full(&self, segment_index_bytes: u32, more: usize) -> bool {
        let state = self.state.lock();
        let room = segment_index_bytes as usize;
        state.offsets.count() + more >= room / OffsetEntry::BYTES
            || state.times.count() + more >= (room / TimeEntry::BYTES).saturating_sub(1)
    }

    fn write_entries(&self, state: &mut State) -> io::Result<()> {
        if state.offsets.unwritten() > 0 {
            state.offsets.write(&*self.index_file()?)?;
        }
        if state.times.unwritten() > 0 {
            state.times.write(&*self.time_index_file()?)?;
        }
        Ok(())
    }

    /// Completes and writes the indexes; on a roll and on a clean close (`LogSegment.onBecomeInactiveSegment`).
    pub(crate) fn complete_indexes(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.note_max_timestamp(self.base_offset);
        self.write_entries(&mut state)?;
        state.offsets.release_memory();
        state.times.release_memory();
        // A segment without entries has its files nevertheless, as in Kafka.
        self.open_files()
    }

    // --- Durability

    pub(crate) fn synced_size(&self) -> u64 {
        self.synced_size.load(Ordering::Acquire)
    }

    pub(crate) fn set_synced_size(&self, size: u64) {
        self.synced_size.store(size, Ordering::Release);
    }

    /// Makes the first `size` bytes durable.
    pub(crate) fn sync_log(&self, size: u64) -> io::Result<()> {
        if self.synced_size() < size {
            self.log_file()?.sync_data()?;
            self.set_synced_size(size);
        }
        Ok(())
    }

    /// Makes the indexes of a segment durable that does not grow any more.
    pub(crate) fn sync_indexes(&self) -> io::Result<()> {
        if !self.indexes_synced.load(Ordering::Acquire) {
            self.index_file()?.sync_data()?;
            self.time_index_file()?.sync_data()?;
            self.indexes_synced.store(true, Ordering::Release);
        }
        Ok(())
    }

    pub(crate) fn first_header(&self, size: u64, upper_offset: i64) -> io::Result<Option<BatchHeader>> {
        let file = self.log_file()?;
        let mut walk = self.headers(file, size, upper_offset);
        while let Some(item) = walk.step()? {
            if let Item::Batch(_, header) = item {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }
}
