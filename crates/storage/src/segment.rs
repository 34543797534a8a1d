//! One segment: a log file with its two indexes, and how an offset becomes a position in it.
//!
//! The writer alone appends; any thread may read. `size` is what readers may see: it is published after the bytes are
//! written (by [`LogView`](crate::LogView), which also keeps it in step with the log's end offset). Files are opened on
//! first use and let go again ([`files`]).

mod files;
mod timestamp_offset;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use wire::batch::{BatchHeader, HEADER_BYTES};

use self::files::Handle;
pub use self::timestamp_offset::TimestampOffset;
use crate::disk::{Disk, File, OpenMode};
use crate::error::ReadError;
use crate::index::{ENTRIES_PER_WRITE, Entries, Entry, OffsetEntry, TimeEntry, entry_in_file, floor_in_file};
use crate::names::{self, Kind, Stage};
use crate::scan::{BadRange, Item, Walk};
use crate::verified_ranges::VerifiedRanges;

/// The timestamp of a log without any.
const NO_TIMESTAMP: i64 = -1;
/// How far recovery walks for the greatest timestamp. It is farther from the last entry of the time index only where
/// timestamps do not grow; then whoever asks for it first walks, and the time index gets no entries until then.
const TIMESTAMP_WALK_BYTES_MAX: u64 = 64 * 1024;
/// How many places readers are likely to ask for next are remembered.
const HINTS: usize = 8;

pub(crate) struct Segment {
    disk: Arc<dyn Disk>,
    dir: Arc<Path>,
    base_offset: i64,
    index_interval_bytes: u32,
    log: Handle,
    index: Handle,
    time_index: Handle,
    /// Whether the files stay open, because they cannot be opened again.
    is_pinned: AtomicBool,
    /// Whether any of them was used since somebody looked for idle ones.
    is_used: AtomicBool,
    size: AtomicU64,
    /// What of `size` is known to be on disk.
    synced_size: AtomicU64,
    /// Set with the files' last sync, when the segment does not grow any more.
    indexes_synced: AtomicBool,
    /// By the monotonic clock; `i64::MIN` if this process appended nothing to it.
    last_append_ms: AtomicI64,
    retired: Arc<AtomicBool>,
    /// A truncation is about to cut the file, or has: another object stands for it now.
    is_cut: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// Whether the indexes' lengths are known.
    is_loaded: bool,
    offsets: Entries<OffsetEntry>,
    times: Entries<TimeEntry>,
    /// `None` as long as nobody needed it. Kept for the active segment, unless recovery found it far to look for.
    max_timestamp: Option<TimestampOffset>,
    /// Of the batches that were noted while `max_timestamp` was not known.
    noted_timestamp: TimestampOffset,
    /// The timestamp in the last entry of the time index.
    last_time_entry: i64,
    bytes_since_entry: u64,
    bad: Vec<BadRange>,
    checked: VerifiedRanges,
    /// Offsets at which batches start, with their positions.
    hints: [(i64, u32); HINTS],
    next_hint: usize,
}

/// Where a batch starts, and the lowest offset that can be there.
pub(crate) type BatchPosition = (u64, i64);

/// A batch's place in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) position: u64,
    pub(crate) header: BatchHeader,
}

impl Segment {
    /// A segment whose log file has `size` bytes. Nothing is read or opened yet; what the indexes have is told by
    /// [`Segment::load_indexes`] or [`Segment::rebuild`].
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
            is_pinned: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
            size: AtomicU64::new(size),
            synced_size: AtomicU64::new(0),
            indexes_synced: AtomicBool::new(false),
            last_append_ms: AtomicI64::new(i64::MIN),
            retired,
            is_cut: AtomicBool::new(false),
            state: Mutex::new(State::empty()),
        }
    }

    /// Makes the log file of a new segment. Its name is durable after the directory's next sync.
    pub(crate) fn create(&self) -> io::Result<()> {
        self.disk.open(&self.path(Kind::Log), OpenMode::CreateEmpty)?;
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
        let mut state = self.state.lock();
        state.is_loaded = true;
        state.max_timestamp = Some(TimestampOffset::NONE);
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

    // --- Damage

    pub(crate) fn bad_ranges(&self) -> Vec<BadRange> {
        self.state.lock().bad.clone()
    }

    /// Remembers bad bytes. Returns false if they were known, or were cut.
    pub(crate) fn mark_bad(&self, range: BadRange) -> bool {
        if self.is_cut() {
            return false;
        }
        let mut state = self.state.lock();
        if state.bad.iter().any(|known| known.position <= range.position && known.end_position >= range.end_position) {
            return false;
        }
        state.bad.retain(|known| known.end_position <= range.position || known.position >= range.end_position);
        let place = state.bad.partition_point(|known| known.position < range.position);
        state.bad.insert(place, range);
        state.checked.remove(&(range.position..range.end_position));
        for hint in &mut state.hints {
            if (range.position..range.end_position).contains(&u64::from(hint.1)) {
                *hint = (-1, 0);
            }
        }
        tracing::error!(
            dir = %self.dir.display(), segment = range.segment, position = range.position,
            end_position = range.end_position, first_offset = range.first_offset, next_offset = range.next_offset,
            "bad batch found: these offsets cannot be read"
        );
        true
    }

    /// Forgets bad bytes that are good again up to `position` and `offset`.
    pub(crate) fn note_mended(&self, range: &BadRange, position: u64, offset: i64) {
        let mut state = self.state.lock();
        if let Some(place) = state.bad.iter().position(|known| known == range) {
            if position == range.end_position {
                state.bad.remove(place);
            } else {
                state.bad[place] = BadRange { position, first_offset: offset, ..*range };
            }
        }
        state.checked.add(range.position..position);
    }

    /// Whether this process has checked the CRCs of these bytes.
    pub(crate) fn is_checked(&self, bytes: &Range<u64>) -> bool {
        self.state.lock().checked.has(bytes)
    }

    pub(crate) fn note_checked(&self, bytes: Range<u64>) {
        self.state.lock().checked.add(bytes);
    }

    /// Checks the CRCs of the batches from a place up to `end`. Says no, and marks it, if one of them is bad, or if the
    /// file was cut meanwhile.
    pub(crate) fn check(&self, place: BatchPosition, end: u64, size: u64, upper_offset: i64) -> io::Result<bool> {
        let (start, lowest) = place;
        let mut walk = self.verified(self.log_file()?, size, upper_offset).from(start, lowest);
        while walk.position() < end {
            let good = walk.position();
            if let Some(Item::Bad { range, .. }) = walk.step()? {
                self.mark_bad(range);
                self.note_checked(start..good);
                return Ok(false);
            }
        }
        self.note_checked(start..walk.position());
        Ok(!self.is_cut())
    }

    // --- Appending

    /// Takes note of batches that were written. Called by the writer, before the new size is published. Returns whether
    /// enough index entries have gathered for [`Segment::write_indexes`].
    pub(crate) fn note_appended(&self, batches: &[Placed]) -> bool {
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

    // --- Finding

    /// The place of the first batch that ends at or behind `offset`, in the first `size` bytes. `None` if there is
    /// none.
    pub(crate) fn locate(&self, offset: i64, size: u64, upper_offset: i64) -> Result<Option<BatchPosition>, ReadError> {
        self.find(offset, size, upper_offset, false)
    }

    /// The same for threads that must not wait: [`ReadError::Cold`] where something would have to be read from the
    /// disk, searched for or made anew.
    pub(crate) fn locate_at_once(
        &self,
        offset: i64,
        size: u64,
        upper_offset: i64,
    ) -> Result<Option<BatchPosition>, ReadError> {
        self.find(offset, size, upper_offset, true)
    }

    fn find(
        &self,
        offset: i64,
        size: u64,
        upper_offset: i64,
        is_urgent: bool,
    ) -> Result<Option<BatchPosition>, ReadError> {
        {
            let state = self.state.lock();
            if let Some(position) = state.hinted(offset)
                && position <= size
            {
                return Ok(Some((position, offset)).filter(|_| position < size));
            }
            if is_urgent && !state.is_loaded {
                return Err(ReadError::Cold);
            }
        }
        let file = self.log_reader(is_urgent)?;
        let (position, next_offset) = self.start_before(offset, size, upper_offset, is_urgent)?;
        let mut walk = self.headers(file, size, upper_offset).from(position, next_offset);
        if is_urgent {
            walk = walk.without_search();
        }
        loop {
            let lowest = walk.next_offset();
            let Some(item) = walk.step()? else { break };
            match item {
                Item::Batch(position, header) if header.last_offset() >= offset => return Ok(Some((position, lowest))),
                Item::Batch(..) => {}
                Item::Bad { range, .. } => {
                    self.mark_bad(range);
                    if offset < range.next_offset {
                        return Err(ReadError::Corrupt {
                            first_offset: range.first_offset,
                            next_offset: range.next_offset,
                        });
                    }
                }
            }
        }
        // The end of the segment may be lost without a trace but the next segment's name.
        match self.bad_ranges().last() {
            Some(range) if offset >= range.first_offset && offset < range.next_offset => {
                Err(ReadError::Corrupt { first_offset: range.first_offset, next_offset: range.next_offset })
            }
            _ => Ok(None),
        }
    }

    /// What is wrong with the batch that has `offset`, whose CRC does not fit. `None` if it does fit.
    pub(crate) fn find_damage(&self, offset: i64, size: u64, upper_offset: i64) -> io::Result<Option<BadRange>> {
        let (position, lowest) = self.start_before(offset, size, upper_offset, false)?;
        let mut walk = self.verified(self.log_file()?, size, upper_offset).from(position, lowest);
        while let Some(item) = walk.step()? {
            match item {
                Item::Batch(_, header) if header.last_offset() >= offset => break,
                Item::Batch(..) => {}
                Item::Bad { range, .. } => {
                    self.mark_bad(range);
                    if range.next_offset > offset {
                        return Ok(Some(range));
                    }
                }
            }
        }
        Ok(None)
    }

    /// A place at which a batch starts whose offsets are all at most `offset`, by the index; and the lowest offset
    /// there.
    fn start_before(&self, offset: i64, size: u64, upper_offset: i64, is_urgent: bool) -> io::Result<BatchPosition> {
        let start = (0, self.base_offset);
        if offset <= self.base_offset {
            return Ok(start);
        }
        let key = u32::try_from(offset - self.base_offset).unwrap_or(u32::MAX);
        self.ensure_loaded(size, upper_offset)?;
        let only_in_file = {
            let state = self.state.lock();
            let recent = state.offsets.floor_recent(key);
            let only_in_file = state.offsets.only_in_file();
            drop(state);
            if let Some(entry) = recent {
                return Ok(self.checked(entry, size, upper_offset, is_urgent)?.unwrap_or(start));
            }
            only_in_file
        };
        if only_in_file == 0 {
            return Ok(start);
        }
        let index = self.index_reader(is_urgent);
        let found = index.and_then(|file| floor_in_file::<OffsetEntry>(&*file, only_in_file, key));
        let checked = match found {
            Ok(Some((_, entry))) if entry.relative_offset <= key => {
                self.checked(entry, size, upper_offset, is_urgent)?
            }
            Ok(None) => return Ok(start),
            _ => None,
        };
        if let Some(place) = checked {
            return Ok(place);
        }
        if is_urgent {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // Garbage in the index, or the batch that the entry names is damaged. Either way the log has the answer.
        tracing::warn!(dir = %self.dir.display(), segment = self.base_offset, "index entry does not fit, rebuilding");
        self.rebuild_indexes(size, upper_offset)?;
        let entry = self.state.lock().offsets.floor_recent(key);
        match entry {
            Some(entry) => Ok(self.checked(entry, size, upper_offset, false)?.unwrap_or(start)),
            None => Ok(start),
        }
    }

    /// What an index entry says, if the batch there agrees.
    fn checked(&self, entry: OffsetEntry, size: u64, upper: i64, is_urgent: bool) -> io::Result<Option<BatchPosition>> {
        let file = self.log_reader(is_urgent)?;
        let mut walk = self.walk(file, size, upper, false).from(u64::from(entry.position), self.base_offset);
        let last = self.base_offset + i64::from(entry.relative_offset);
        Ok(match walk.peek()? {
            Some(header) if header.last_offset() == last => Some((u64::from(entry.position), header.base_offset)),
            _ => None,
        })
    }

    /// The greatest timestamp in the first `size` bytes, with the last offset of its batch.
    pub(crate) fn max_timestamp(&self, size: u64, upper_offset: i64) -> io::Result<TimestampOffset> {
        if let Some(known) = self.state.lock().max_timestamp {
            return Ok(known);
        }
        let (start, next_offset, mut max) = self.start_of_max_timestamp(size, upper_offset)?;
        let file = self.log_file()?;
        let mut walk = self.headers(file, size, upper_offset).from(start, next_offset);
        while let Some(item) = walk.step()? {
            if let Item::Batch(_, header) = item {
                max = max.max_with(&header);
            }
        }
        let mut state = self.state.lock();
        if state.noted_timestamp.timestamp > max.timestamp {
            max = state.noted_timestamp;
        }
        Ok(*state.max_timestamp.get_or_insert(max))
    }

    /// Up to where the time index tells the greatest timestamp: its last entry, if the batch that it names agrees.
    fn start_of_max_timestamp(&self, size: u64, upper: i64) -> io::Result<(u64, i64, TimestampOffset)> {
        let nothing = (0, self.base_offset, TimestampOffset::NONE);
        self.ensure_loaded(size, upper)?;
        let count = self.state.lock().times.count();
        if count == 0 {
            return Ok(nothing);
        }
        let Ok(entry) = self.time_index_file().and_then(|file| entry_in_file::<TimeEntry>(&*file, count - 1)) else {
            return Ok(nothing);
        };
        Ok(match self.checked_time(entry, size, upper)? {
            Some((position, lowest)) => {
                let offset = self.base_offset + i64::from(entry.relative_offset);
                (position, lowest, TimestampOffset { timestamp: entry.timestamp, offset })
            }
            None => nothing,
        })
    }

    /// The position of the batch that an entry of the time index names, if it has that timestamp.
    fn checked_time(&self, entry: TimeEntry, size: u64, upper_offset: i64) -> io::Result<Option<BatchPosition>> {
        let offset = self.base_offset + i64::from(entry.relative_offset);
        let (position, lowest) = match self.locate(offset, size, upper_offset) {
            Ok(Some(place)) => place,
            Err(ReadError::Io(error)) => return Err(io::Error::new(error.kind(), error.to_string())),
            _ => return Ok(None),
        };
        let file = self.log_file()?;
        let mut walk = self.walk(file, size, upper_offset, false).from(position, lowest);
        let header = walk.peek()?;
        let fits = header.is_some_and(|h| h.last_offset() == offset && h.max_timestamp == entry.timestamp);
        Ok(fits.then_some((position, lowest)))
    }

    /// A place before which no batch has a timestamp of `timestamp` or more, and the lowest offset there.
    pub(crate) fn start_before_timestamp(&self, timestamp: i64, size: u64, upper: i64) -> io::Result<(u64, i64)> {
        let start = (0, self.base_offset);
        let key = timestamp.saturating_sub(1);
        self.ensure_loaded(size, upper)?;
        let (recent, only_in_file) = {
            let state = self.state.lock();
            (state.times.floor_recent(key), state.times.only_in_file())
        };
        let entry = match recent {
            Some(entry) => entry,
            None if only_in_file == 0 => return Ok(start),
            None => {
                let found = self.time_index_file().and_then(|file| floor_in_file(&*file, only_in_file, key));
                match found {
                    Ok(Some((_, entry))) => entry,
                    _ => return Ok(start),
                }
            }
        };
        // If the batch has the entry's timestamp, the entry was written by a log, not by a cosmic ray; then all before
        // it is at most as late.
        Ok(self.checked_time(entry, size, upper)?.unwrap_or(start))
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

    // --- Opening

    /// Believes the indexes' lengths; what is in them is checked at each use. If even the lengths cannot be right, the
    /// indexes are made anew.
    fn ensure_loaded(&self, size: u64, upper_offset: i64) -> io::Result<()> {
        if self.state.lock().is_loaded || self.load_indexes()? {
            return Ok(());
        }
        tracing::warn!(dir = %self.dir.display(), segment = self.base_offset, "indexes missing or broken, rebuilding");
        self.rebuild_indexes(size, upper_offset)
    }

    /// Has readers do without the indexes, until [`Segment::trim_indexes`] has brought them in step with the log.
    pub(crate) fn defer_indexes(&self) {
        self.state.lock().is_loaded = true;
    }

    fn load_indexes(&self) -> io::Result<bool> {
        let Some((entries, times)) = self.index_lengths()? else { return Ok(false) };
        let mut state = self.state.lock();
        if !state.is_loaded {
            state.is_loaded = true;
            state.offsets = Entries::in_file(entries);
            state.times = Entries::in_file(times);
        }
        Ok(true)
    }

    /// How many entries the files have; `None` if that cannot be right.
    fn index_lengths(&self) -> io::Result<Option<(usize, usize)>> {
        if !self.disk.exists(&self.path(Kind::Index))? || !self.disk.exists(&self.path(Kind::TimeIndex))? {
            return Ok(None);
        }
        let (index_len, time_len) = (self.index_file()?.len()?, self.time_index_file()?.len()?);
        // An entry stands for a batch at least, and the time index may have one more.
        let entries_max = self.size() / HEADER_BYTES as u64 + 1;
        let (entries, times) = (index_len / OffsetEntry::BYTES as u64, time_len / TimeEntry::BYTES as u64);
        let whole = index_len % OffsetEntry::BYTES as u64 == 0 && time_len % TimeEntry::BYTES as u64 == 0;
        let fits = whole && entries <= entries_max && times <= entries_max;
        Ok(fits.then_some((entries as usize, times as usize)))
    }

    /// Prepares the indexes for a walk that notes every batch from some place on ([`Segment::note_appended`]): keeps
    /// the entries below `offset` that agree with the log, drops the rest, and says where the walk has to start:
    /// position, lowest offset there, whether everything had to be dropped.
    pub(crate) fn trim_indexes(&self, offset: i64, upper_offset: i64) -> io::Result<(u64, i64, bool)> {
        let size = self.size();
        if offset <= self.base_offset {
            self.reset_indexes()?;
            return Ok((0, self.base_offset, false));
        }
        let Some((count, times)) = self.index_lengths()? else {
            self.reset_indexes()?;
            return Ok((0, self.base_offset, size > 0));
        };
        let (index, time_index) = (self.index_file()?, self.time_index_file()?);
        let key = u32::try_from(offset.saturating_sub(self.base_offset)).unwrap_or(u32::MAX);
        let found = floor_in_file::<OffsetEntry>(&*index, count, key)?;
        let place = match found {
            Some((slot, entry)) => self.checked(entry, size, upper_offset, false)?.map(|place| (slot, place)),
            None => None,
        };
        // The walk writes the entry of the batch at which it starts again.
        let Some((kept, (position, next_offset))) = place else {
            self.reset_indexes()?;
            return Ok((0, self.base_offset, found.is_some()));
        };
        let (mut kept_times, mut end) = (0, times);
        while kept_times < end {
            let middle = kept_times + (end - kept_times) / 2;
            let entry = entry_in_file::<TimeEntry>(&*time_index, middle)?;
            if i64::from(entry.relative_offset) < next_offset - self.base_offset {
                kept_times = middle + 1;
            } else {
                end = middle;
            }
        }
        index.set_len((kept * OffsetEntry::BYTES) as u64)?;
        time_index.set_len((kept_times * TimeEntry::BYTES) as u64)?;
        let last_time_entry = match kept_times {
            0 => NO_TIMESTAMP,
            n => entry_in_file::<TimeEntry>(&*time_index, n - 1)?.timestamp,
        };
        {
            let mut state = self.state.lock();
            state.is_loaded = true;
            state.offsets = Entries::in_file(kept);
            state.times = Entries::in_file(kept_times);
            state.bytes_since_entry = u64::MAX;
            state.last_time_entry = last_time_entry;
            state.max_timestamp = None;
        }
        // The greatest timestamp before that place: what the time index knows, and the batches behind its last entry.
        let (known_to, _, known) = self.start_of_max_timestamp(position, next_offset)?;
        if known.timestamp < last_time_entry {
            // Garbage in the time index would forbid all later entries.
            self.reset_indexes()?;
            return Ok((0, self.base_offset, true));
        }
        if position.saturating_sub(known_to) <= TIMESTAMP_WALK_BYTES_MAX {
            self.max_timestamp(position, next_offset)?;
        }
        Ok((position, next_offset, false))
    }

    /// Empties the indexes, to be filled again by a walk from the start.
    fn reset_indexes(&self) -> io::Result<()> {
        self.index_file()?.set_len(0)?;
        self.time_index_file()?.set_len(0)?;
        let mut state = self.state.lock();
        let (bad, checked) = (std::mem::take(&mut state.bad), std::mem::take(&mut state.checked));
        *state = State { is_loaded: true, max_timestamp: Some(TimestampOffset::NONE), bad, checked, ..State::empty() };
        self.indexes_synced.store(false, Ordering::Release);
        Ok(())
    }

    /// Fills both indexes from the log's headers. Readers do this when they meet an entry that does not fit.
    fn rebuild_indexes(&self, size: u64, upper_offset: i64) -> io::Result<()> {
        let file = self.log_file()?;
        let mut walk = self.headers(file, size, upper_offset);
        let mut fresh = State { max_timestamp: Some(TimestampOffset::NONE), ..State::empty() };
        while let Some(item) = walk.step()? {
            if let Item::Batch(position, header) = item {
                fresh.note(self.base_offset, self.index_interval_bytes, &Placed { position, header });
            }
        }
        fresh.note_max_timestamp(self.base_offset);
        let (index, time_index) = (self.index_file()?, self.time_index_file()?);
        // What the writer notes in the meantime is dropped: the index has fewer entries then, none of them wrong.
        let mut state = self.state.lock();
        if self.is_cut() {
            return Err(io::Error::other("the segment was cut meanwhile"));
        }
        index.set_len(0)?;
        time_index.set_len(0)?;
        fresh.offsets.write(&*index)?;
        fresh.times.write(&*time_index)?;
        state.offsets = fresh.offsets;
        state.times = fresh.times;
        state.last_time_entry = fresh.last_time_entry;
        state.bytes_since_entry = fresh.bytes_since_entry;
        state.is_loaded = true;
        self.indexes_synced.store(false, Ordering::Release);
        Ok(())
    }
}

impl State {
    fn empty() -> Self {
        Self {
            is_loaded: false,
            offsets: Entries::in_file(0),
            times: Entries::in_file(0),
            max_timestamp: None,
            noted_timestamp: TimestampOffset::NONE,
            last_time_entry: NO_TIMESTAMP,
            bytes_since_entry: 0,
            bad: Vec::new(),
            checked: VerifiedRanges::default(),
            hints: [(-1, 0); HINTS],
            next_hint: 0,
        }
    }

    /// As `LogSegment.append` and `LogSegment.recover` in Kafka, per batch.
    fn note(&mut self, base_offset: i64, index_interval_bytes: u32, batch: &Placed) {
        let max = self.max_timestamp.as_mut().unwrap_or(&mut self.noted_timestamp);
        *max = max.max_with(&batch.header);
        if self.bytes_since_entry > u64::from(index_interval_bytes) {
            let relative_offset = (batch.header.last_offset() - base_offset) as u32;
            self.offsets.push(OffsetEntry { relative_offset, position: batch.position as u32 });
            self.note_max_timestamp(base_offset);
            self.bytes_since_entry = 0;
        }
        self.bytes_since_entry += batch.header.size() as u64;
    }

    fn note_max_timestamp(&mut self, base_offset: i64) {
        if let Some(max) = self.max_timestamp
            && max.timestamp > self.last_time_entry
        {
            self.times.push(TimeEntry { timestamp: max.timestamp, relative_offset: (max.offset - base_offset) as u32 });
            self.last_time_entry = max.timestamp;
        }
    }

    fn hint(&mut self, offset: i64, position: u64) {
        self.hints[self.next_hint] = (offset, position as u32);
        self.next_hint = (self.next_hint + 1) % HINTS;
    }

    fn hinted(&self, offset: i64) -> Option<u64> {
        self.hints.iter().find(|hint| hint.0 == offset).map(|hint| u64::from(hint.1))
    }
}
