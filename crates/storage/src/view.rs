//! The readers' side of a log: shared by any number of threads, at the same time as the writer appends.
//!
//! What readers may see is in [`Published`], behind a lock that is held for a few instructions and never during IO: the
//! segments, and the offsets. The writer changes it after the bytes are in the file.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use wire::batch::{BatchHeader, HEADER_BYTES};

use crate::disk::{self, CachedOnly, Disk, File, read_exact_at};
use crate::epochs::{EpochEndOffset, EpochEntry, Epochs};
use crate::error::{LogError, ReadError};
use crate::failed_sync;
use crate::journaled::{Journaled, LogPosition};
use crate::part::Part;
use crate::scan::{BadRange, Item, Offsets, Walk, is_plausible};
use crate::segment::Segment;
use crate::transactions::Transactions;

pub struct LogView {
    disk: Arc<dyn Disk>,
    dir: Arc<Path>,
    published: RwLock<Published>,
    /// One sync at a time; also held by the writer while it takes something back.
    sync: Mutex<()>,
    /// Names were made or changed since the directory's last sync.
    dir_is_dirty: AtomicBool,
    failure: OnceLock<Arc<str>>,
    retired: Arc<AtomicBool>,
    epochs: Mutex<Epochs>,
    transactions: Mutex<Transactions>,
    /// Of those, for readers that need not wait for anybody; `i64::MAX` if there is none.
    first_unstable_offset: AtomicI64,
    /// What the journal knows of this log. Locked after `sync`.
    journaled: Mutex<Journaled>,
    /// How often it was truncated.
    truncations: AtomicU64,
    /// Name of the directory.
    directory: Arc<str>,
}

/// How much that this process has not looked at yet is checked for one read: enough for it, and done in a moment.
const CHECK_BYTES_MAX: u64 = 1 << 20;
/// What is read into the page cache goes through a buffer of this size.
const READ_IN_BYTES: usize = 64 * 1024;

/// What readers may see.
pub(crate) struct Published {
    /// At least one; the last is the active one.
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) log_start_offset: i64,
    pub(crate) log_end_offset: i64,
    /// All below is in synced segments.
    pub(crate) synced_offset: i64,
    /// All below is on disk: in synced segments, or in the journal.
    pub(crate) durable_offset: i64,
}

impl Published {
    pub(crate) fn part(&self, index: usize) -> Part {
        let segment = self.segments[index].clone();
        let upper_offset = self.segments.get(index + 1).map_or(self.log_end_offset, |next| next.base_offset());
        Part { size: segment.size(), segment, upper_offset }
    }

    /// The segment that has this offset, if any has.
    pub(crate) fn part_for(&self, offset: i64) -> Part {
        let after = self.segments.partition_point(|segment| segment.base_offset() <= offset);
        self.part(after.saturating_sub(1))
    }

    pub(crate) fn with_sizes(&self) -> Vec<Part> {
        (0..self.segments.len()).map(|index| self.part(index)).collect()
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size()).sum()
    }
}

/// Bytes of a segment, named and not read. They start with a whole batch, and may end within one.
#[derive(Clone)]
pub struct Span {
    /// Stays readable after the segment is deleted.
    pub file: Arc<dyn File>,
    pub position: u64,
    pub length: u32,
}

impl std::fmt::Debug for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Span").field("position", &self.position).field("length", &self.length).finish_non_exhaustive()
    }
}

impl Span {
    /// Whether its first `length` bytes are in the page cache, as far as looks at the last of them and at one in each
    /// `step` bytes before it tell. What is read later may be gone by then.
    pub fn is_cached(&self, length: u32, step: u32) -> bool {
        let looks = (0..length.min(self.length)).rev().step_by(step as usize);
        let is_cold = |at: u32| {
            let looked = self.file.read_cached_at(&mut [0], self.position + u64::from(at));
            // Any other error is told to whoever reads.
            looked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        !looks.into_iter().any(is_cold)
    }

    /// All of it, if it is in the page cache; otherwise the error is `WouldBlock`.
    pub fn read_cached(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.length as usize];
        read_exact_at(&CachedOnly(Arc::clone(&self.file)), &mut bytes, self.position)?;
        Ok(bytes)
    }

    /// Reads its first `length` bytes into the page cache.
    pub fn read_in(&self, length: u32) -> io::Result<()> {
        let end = self.position + u64::from(length.min(self.length));
        let mut buffer = vec![0; READ_IN_BYTES.min(length as usize)];
        let mut position = self.position;
        while position < end {
            let wanted = usize::try_from(end - position).unwrap_or(usize::MAX).min(buffer.len());
            match self.file.read_at(&mut buffer[..wanted], position)? {
                0 => break,
                read => position += read as u64,
            }
        }
        Ok(())
    }
}

/// A span, and what it was found in.
pub(crate) struct FoundSpan {
    pub(crate) span: Span,
    /// An offset in its segment from which its first batch is found.
    at: i64,
    /// No batch of it has a lower one.
    pub(crate) lowest_offset: i64,
    pub(crate) part: Part,
}

impl LogView {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: Arc<Path>,
        published: Published,
        retired: Arc<AtomicBool>,
        epochs: Epochs,
    ) -> Self {
        let directory = dir.file_name().unwrap_or_default().to_string_lossy().into();
        Self {
            disk,
            dir,
            published: RwLock::new(published),
            sync: Mutex::new(()),
            dir_is_dirty: AtomicBool::new(false),
            failure: OnceLock::new(),
            retired,
            epochs: Mutex::new(epochs),
            transactions: Mutex::default(),
            first_unstable_offset: AtomicI64::new(i64::MAX),
            journaled: Mutex::default(),
            truncations: AtomicU64::new(0),
            directory,
        }
    }

    pub(crate) fn published(&self) -> RwLockReadGuard<'_, Published> {
        self.published.read()
    }

    /// Lets go of files that are opened again on the next use: of segments that were not used since the last call, or
    /// of all. Returns how many were let go. Waits for nobody: whoever holds a lock of this log may be the one who
    /// needs a descriptor.
    pub fn give_up_files(&self, even_used: bool) -> usize {
        let Some(published) = self.published.try_read() else { return 0 };
        published.segments.iter().map(|segment| segment.give_up_files(even_used)).sum()
    }

    /// Changes what readers see.
    pub(crate) fn publish(&self, change: impl FnOnce(&mut Published)) {
        let mut published = self.published.write();
        change(&mut published);
        debug_assert!(!published.segments.is_empty());
        assert!(published.log_start_offset <= published.log_end_offset, "the log starts behind its end");
    }

    pub(crate) fn sync_lock(&self) -> MutexGuard<'_, ()> {
        self.sync.lock()
    }

    pub(crate) fn epochs(&self) -> MutexGuard<'_, Epochs> {
        self.epochs.lock()
    }

    pub(crate) fn transactions(&self) -> MutexGuard<'_, Transactions> {
        self.transactions.lock()
    }

    pub(crate) fn change_transactions<T>(&self, change: impl FnOnce(&mut Transactions) -> T) -> T {
        let mut transactions = self.transactions.lock();
        let changed = change(&mut transactions);
        self.first_unstable_offset.store(transactions.first_unstable_offset().unwrap_or(i64::MAX), Ordering::Release);
        changed
    }

    pub(crate) fn journaled(&self) -> MutexGuard<'_, Journaled> {
        self.journaled.lock()
    }

    pub(crate) fn truncation_count(&self) -> u64 {
        self.truncations.load(Ordering::Acquire)
    }

    /// The log ends here after a truncation. What the journal has of it is void.
    pub(crate) fn restart_journal(&self, end: LogPosition) {
        let mut journaled = self.journaled();
        if self.durable_offset() >= end.offset || crate::injected_fault!(JournalLeavesGap) {
            journaled.end = Some(end);
        }
        self.truncations.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn directory(&self) -> &Arc<str> {
        &self.directory
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    pub(crate) fn note_dir_changed(&self) {
        self.dir_is_dirty.store(true, Ordering::SeqCst);
    }

    pub(crate) fn note_dir_changed_if(&self, has_changed: bool) {
        if has_changed {
            self.note_dir_changed();
        }
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(crate) fn retired(&self) -> &Arc<AtomicBool> {
        &self.retired
    }

    // --- Failure

    /// Ends the log: it takes and promises nothing any more.
    pub(crate) fn fail(&self, what: &str, error: &io::Error) -> LogError {
        let reason: Arc<str> = format!("{what}: {error}").into();
        if self.failure.set(reason.clone()).is_ok() {
            tracing::error!(dir = %self.dir.display(), "log closed for good: {reason}");
            failed_sync::note(&*self.disk, &self.dir);
        }
        LogError::Failed(self.failure.get().cloned().unwrap_or(reason))
    }

    /// What a failed write means: nothing but a refusal if the disk is full, else the end of the log.
    pub(crate) fn write_error(&self, what: &str, error: io::Error) -> LogError {
        if disk::is_disk_full(&error) || disk::is_exhausted(&error) {
            LogError::from(error)
        } else {
            self.fail(what, &error)
        }
    }

    /// Why the log was closed, if it was.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.failure.get().cloned()
    }

    pub(crate) fn check(&self) -> Result<(), LogError> {
        match self.failure() {
            Some(reason) => Err(LogError::Failed(reason)),
            None if self.retired.load(Ordering::SeqCst) => Err(LogError::Failed("the log was deleted".into())),
            None => Ok(()),
        }
    }

    // --- What the log has

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn log_start_offset(&self) -> i64 {
        self.published().log_start_offset
    }

    /// The offset that the next record gets.
    pub fn log_end_offset(&self) -> i64 {
        self.published().log_end_offset
    }

    /// Below it every transaction has ended, with a marker that is on all replicas in sync: what readers of committed
    /// records may see (KIP-98). `high_watermark` is the newest one that the caller knows of; it is remembered which
    /// markers are below.
    pub fn last_stable_offset(&self, high_watermark: i64) -> i64 {
        if high_watermark <= self.first_unstable_offset.load(Ordering::Acquire) {
            return high_watermark;
        }
        let first_unstable_offset = self.change_transactions(|transactions| {
            transactions.note_replicated(high_watermark);
            transactions.first_unstable_offset()
        });
        let first_unstable_offset = first_unstable_offset.map(|offset| offset.max(self.log_start_offset()));
        first_unstable_offset.map_or(high_watermark, |offset| offset.min(high_watermark))
    }

    /// The first offset of the oldest open transaction.
    pub fn first_undecided_offset(&self) -> Option<i64> {
        self.transactions().first_undecided_offset()
    }

    /// All records below survive power loss.
    pub fn durable_offset(&self) -> i64 {
        self.published().durable_offset
    }

    /// All records below are in the segments on disk: the journal is not needed for them.
    pub fn synced_offset(&self) -> i64 {
        self.published().synced_offset
    }

    /// Bytes of all batches.
    pub fn size_bytes(&self) -> u64 {
        self.published().size_bytes()
    }

    /// Bytes of batches that may not survive power loss.
    pub fn unsynced_bytes(&self) -> u64 {
        let (part, durable_offset, behind) = {
            let published = self.published();
            if published.durable_offset >= published.log_end_offset {
                return 0;
            }
            let part = published.part_for(published.durable_offset);
            let behind = published.segments.iter().filter(|segment| segment.base_offset() > part.segment.base_offset());
            let behind: u64 = behind.map(|segment| segment.size()).sum();
            (part, published.durable_offset, behind)
        };
        let located = part.segment.locate(durable_offset, part.size, part.upper_offset);
        // Where it cannot be found, all of the segment is in doubt.
        let from = located.map_or(0, |found| found.map_or(part.size, |(position, _)| position));
        part.size.saturating_sub(from) + behind
    }

    pub fn segment_count(&self) -> usize {
        self.published().segments.len()
    }

    /// What is known to be unreadable, in order.
    pub fn bad_ranges(&self) -> Vec<BadRange> {
        let segments = self.published().segments.clone();
        segments.iter().flat_map(|segment| segment.bad_ranges()).collect()
    }

    pub fn latest_epoch(&self) -> Option<EpochEntry> {
        self.epochs().latest()
    }

    /// All leader epochs that the log has records of.
    pub fn epoch_entries(&self) -> Vec<EpochEntry> {
        self.epochs().entries().to_vec()
    }

    pub fn epoch_for_offset(&self, offset: i64) -> Option<i32> {
        self.epochs().epoch_for_offset(offset)
    }

    /// Where `epoch` ends in this log (OffsetsForLeaderEpoch, KIP-279). `log_end_offset` is the answer for the latest.
    pub fn end_offset_for_epoch(&self, epoch: i32, log_end_offset: i64) -> EpochEndOffset {
        self.epochs().end_offset_for(epoch, log_end_offset)
    }

    // --- Reading

    /// Names the bytes from the batch that has `offset` on, up to the batch that has `end_offset` (exclusive), to a bad
    /// batch, to the end of the segment or to `max_bytes`, whichever comes first, but at least one whole batch. `None`
    /// if there is nothing yet; no file is opened for it.
    ///
    /// What lay on the disk before this process began is checked when it is named first, a part at a time.
    pub fn span(&self, offset: i64, end_offset: i64, max_bytes: u32) -> Result<Option<Span>, ReadError> {
        Ok(self.find_span(offset, end_offset, max_bytes, false)?.map(|found| found.span))
    }

    /// The same for threads that must not wait: where something has to be read from the disk, checked or rebuilt first,
    /// it is [`ReadError::Cold`], and [`LogView::span`] has to be asked once by a thread that may wait. Of the records
    /// themselves, only what is looked at here is known to be in the page cache.
    pub fn span_at_once(&self, offset: i64, end_offset: i64, max_bytes: u32) -> Result<Option<Span>, ReadError> {
        Ok(self.find_span(offset, end_offset, max_bytes, true)?.map(|found| found.span))
    }

    pub(crate) fn find_span(
        &self,
        offset: i64,
        end_offset: i64,
        max_bytes: u32,
        is_urgent: bool,
    ) -> Result<Option<FoundSpan>, ReadError> {
        let mut at = offset;
        loop {
            let (part, log_end_offset) = {
                let published = self.published();
                let (log_start_offset, log_end_offset) = (published.log_start_offset, published.log_end_offset);
                if offset < log_start_offset || offset > log_end_offset {
                    return Err(ReadError::OffsetOutOfRange { offset, log_start_offset, log_end_offset });
                }
                (published.part_for(at), log_end_offset)
            };
            if self.retired.load(Ordering::SeqCst) {
                return Err(ReadError::Closed);
            }
            let end_offset = end_offset.min(log_end_offset);
            if at >= end_offset {
                return Ok(None);
            }
            let located = match is_urgent {
                true => part.segment.locate_at_once(at, part.size, part.upper_offset),
                false => part.segment.locate(at, part.size, part.upper_offset),
            };
            if part.segment.is_cut() {
                continue;
            }
            let Some((position, lowest)) = located? else {
                // The last batches of the segment were compacted away.
                if part.upper_offset >= end_offset || part.upper_offset <= at {
                    return Ok(None);
                }
                at = part.upper_offset;
                continue;
            };
            let file = part.segment.log_file_for(is_urgent)?;
            let end = self.end_position(&part, position, end_offset, is_urgent)?;
            let available = end.saturating_sub(position);
            let mut length = available.min(u64::from(max_bytes));
            if !part.segment.is_checked(&(position..position + length)) {
                length = length.min(CHECK_BYTES_MAX);
                let piece = position..position + length;
                if !part.segment.is_checked(&piece) {
                    if is_urgent {
                        return Err(ReadError::Cold);
                    }
                    // A bad batch, which is known from now on, or a truncation.
                    if !part.segment.check((position, lowest), piece.end, part.size, part.upper_offset)? {
                        continue;
                    }
                }
            }
            if length < available {
                let first = match is_urgent {
                    true => first_batch_bytes(&CachedOnly(Arc::clone(&file)), position, &part, at)?,
                    false => first_batch_bytes(&*file, position, &part, at)?,
                };
                let Some(first) = first else {
                    return Err(if is_urgent { ReadError::Cold } else { self.damaged(at)? });
                };
                length = length.max(first).min(available);
            }
            let span = Span { file, position, length: u32::try_from(length).unwrap_or(u32::MAX) };
            return Ok(Some(FoundSpan { span, at, lowest_offset: lowest, part }));
        }
    }

    /// Where reading from `position` has to stop.
    fn end_position(&self, part: &Part, position: u64, end_offset: i64, is_urgent: bool) -> Result<u64, ReadError> {
        let mut end = part.size;
        if end_offset < part.upper_offset {
            let located = match is_urgent {
                true => part.segment.locate_at_once(end_offset, part.size, part.upper_offset),
                false => part.segment.locate(end_offset, part.size, part.upper_offset),
            };
            end = match located {
                Ok(located) => located.map_or(part.size, |(position, _)| position),
                // The bad batch itself bounds the span below.
                Err(ReadError::Corrupt { .. }) => part.size,
                Err(error) => return Err(error),
            };
        }
        let bad = part.segment.bad_ranges();
        // One without bytes where the batch starts is of offsets in front of it, which were lost.
        let is_in_front = |range: &BadRange| range.position == position && range.end_position == position;
        let ahead = bad.iter().find(|range| range.position >= position && !is_in_front(range));
        Ok(ahead.map_or(end, |range| end.min(range.position)))
    }

    /// Reads whole, undamaged batches from the one that has `offset` on: see [`LogView::span`]. Empty if there are none
    /// yet. For users inside the process; those outside check CRCs themselves.
    pub fn read(&self, offset: i64, end_offset: i64, max_bytes: u32) -> Result<Bytes, ReadError> {
        let Some(found) = self.find_span(offset, end_offset, max_bytes, false)? else { return Ok(Bytes::new()) };
        let FoundSpan { span, at, .. } = found;
        let mut bytes = vec![0; span.length as usize];
        match read_exact_at(&*span.file, &mut bytes, span.position) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !bytes.is_empty() => {}
            result => result?,
        }
        let upper = self.log_end_offset();
        let (mut whole, mut expected) = (0, at);
        while let Some(header) = header_at(&bytes, whole) {
            let room = (bytes.len() - whole) as u64;
            // The first batch may start before the offset that was asked for.
            let lowest = if whole == 0 { 0 } else { expected };
            if !is_plausible(&header, room, Offsets { lowest, upper }) || header.last_offset() < expected {
                break;
            }
            let next = whole + header.size();
            if wire::batch::crc(&bytes[whole..next]) != header.crc {
                break;
            }
            // The base offset is not covered by the CRC. If it leaves a gap, the batch behind has to agree.
            let agrees = header_at(&bytes, next).is_some_and(|behind| behind.base_offset >= header.next_offset());
            if header.base_offset > expected && !agrees && self.damage_at(expected)?.is_some() {
                break;
            }
            (whole, expected) = (next, header.next_offset());
        }
        if whole == 0 && !bytes.is_empty() {
            return Err(self.damaged(at)?);
        }
        bytes.truncate(whole);
        Ok(bytes.into())
    }

    /// Why the batch that has `offset` cannot be read.
    fn damaged(&self, offset: i64) -> io::Result<ReadError> {
        Ok(match self.damage_at(offset)? {
            Some(range) => ReadError::Corrupt { first_offset: range.first_offset, next_offset: range.next_offset },
            // It was the reading that went wrong.
            None => ReadError::from(io::Error::from(io::ErrorKind::InvalidData)),
        })
    }

    /// The bad range that has `offset`, after looking for one.
    fn damage_at(&self, offset: i64) -> io::Result<Option<BadRange>> {
        let part = self.published().part_for(offset);
        let damage = part.segment.find_damage(offset, part.size, part.upper_offset)?;
        Ok(damage.filter(|_| !part.segment.is_cut()))
    }

    /// The headers of the batches from the one that has `offset` on, as long as they start below `end_offset`. A bad
    /// batch is an item of its own, behind which the iteration goes on.
    pub fn headers(&self, offset: i64, end_offset: i64) -> HeaderIterator<'_> {
        HeaderIterator { view: self, offset, end_offset, walk: None, is_done: false }
    }

    // --- Durability

    /// Makes everything appended so far durable, and returns up to which offset that is. Does not hinder appends.
    ///
    /// A failure closes the log for good: after a failed fsync the kernel may call pages clean that were never written.
    pub fn sync(&self) -> Result<i64, LogError> {
        let _one = self.sync.lock();
        self.check()?;
        let (parts, end, synced) = {
            let published = self.published();
            let (end, synced) = (published.log_end_offset, published.synced_offset);
            let unsynced = published.segments.partition_point(|segment| segment.base_offset() <= synced);
            // The one before may have been rolled since, its indexes are still to be synced.
            let first = unsynced.saturating_sub(2);
            ((first..published.segments.len()).map(|index| published.part(index)).collect::<Vec<_>>(), end, synced)
        };
        for part in &parts {
            // What could not be written when its marker was.
            let written = part.segment.push_aborted(&[]);
            let is_new = written.map_err(|error| self.write_error("writing a transaction index failed", error))?;
            self.note_dir_changed_if(is_new);
        }
        let dir_was_dirty = self.dir_is_dirty.swap(false, Ordering::SeqCst);
        if end == synced && !dir_was_dirty && !self.epochs().is_dirty() {
            self.note_synced(end, &parts);
            return Ok(end);
        }
        self.flush_epochs()?;
        let sync = || {
            for (index, part) in parts.iter().enumerate() {
                part.segment.sync_log(part.size)?;
                part.segment.sync_txn_index()?;
                if index + 1 < parts.len() {
                    part.segment.sync_indexes()?;
                }
            }
            if dir_was_dirty { self.disk.sync_dir(&self.dir) } else { Ok(()) }
        };
        sync().map_err(|error: io::Error| self.fail("sync failed", &error))?;
        self.publish(|published| {
            published.synced_offset = end.min(published.log_end_offset).max(published.synced_offset);
            published.durable_offset = published.durable_offset.max(published.synced_offset);
        });
        self.note_synced(end, &parts);
        Ok(end)
    }

    /// Lets the journal go on behind what is in synced segments.
    fn note_synced(&self, end: i64, parts: &[Part]) {
        let Some(last) = parts.last() else { return };
        let mut journaled = self.journaled();
        if journaled.end.is_none_or(|known| known.offset <= end) {
            journaled.end = Some(LogPosition { offset: end, segment: last.segment.base_offset(), position: last.size });
        }
    }

    /// All below is in the journal.
    pub(crate) fn raise_durable_offset(&self, offset: i64) {
        self.publish(|published| published.durable_offset = published.durable_offset.max(offset));
    }

    /// Writes the leader epochs that are not in their file yet.
    pub(crate) fn flush_epochs(&self) -> Result<(), LogError> {
        self.epochs().flush(&*self.disk, &self.dir).map_err(|error| {
            // A sync that gave up may have taken note of the directory's changes already.
            self.note_dir_changed();
            self.write_error("writing the leader epochs failed", error)
        })
    }
}

fn header_at(bytes: &[u8], position: usize) -> Option<BatchHeader> {
    bytes.get(position..)?.first_chunk().map(BatchHeader::parse)
}

fn first_batch_bytes(file: &dyn File, position: u64, part: &Part, offset: i64) -> Result<Option<u64>, ReadError> {
    let mut bytes = [0; HEADER_BYTES];
    read_exact_at(file, &mut bytes, position)?;
    let header = BatchHeader::parse(&bytes);
    let offsets = Offsets { lowest: part.segment.base_offset(), upper: part.upper_offset };
    let is_it = is_plausible(&header, part.size.saturating_sub(position), offsets) && header.last_offset() >= offset;
    Ok(is_it.then_some(header.size() as u64))
}

/// See [`LogView::headers`].
pub struct HeaderIterator<'a> {
    view: &'a LogView,
    offset: i64,
    end_offset: i64,
    walk: Option<(Part, Walk)>,
    is_done: bool,
}

impl HeaderIterator<'_> {
    fn advance(&mut self) -> Result<Option<BatchHeader>, ReadError> {
        loop {
            if self.offset >= self.end_offset {
                return Ok(None);
            }
            if self.walk.is_none() {
                let part = {
                    let published = self.view.published();
                    if self.offset >= published.log_end_offset {
                        return Ok(None);
                    }
                    published.part_for(self.offset)
                };
                let located = part.segment.locate(self.offset, part.size, part.upper_offset);
                if part.segment.is_cut() {
                    continue;
                }
                let (position, lowest) = match located {
                    Ok(position) => position.unwrap_or((part.size, part.upper_offset)),
                    Err(ReadError::Corrupt { first_offset, next_offset }) => {
                        self.offset = next_offset;
                        return Err(ReadError::Corrupt { first_offset, next_offset });
                    }
                    Err(error) => return Err(error),
                };
                let walk = part.headers()?.from(position, lowest);
                self.walk = Some((part, walk));
            }
            let Some((part, walk)) = &mut self.walk else { return Ok(None) };
            let step = walk.step();
            if part.segment.is_cut() {
                self.walk = None;
                continue;
            }
            match step? {
                Some(Item::Batch(_, header)) => {
                    self.offset = header.next_offset();
                    return Ok(Some(header).filter(|header| header.base_offset < self.end_offset));
                }
                Some(Item::Bad { range, .. }) => {
                    part.segment.mark_bad(range);
                    self.offset = range.next_offset;
                    let (first_offset, next_offset) = (range.first_offset, range.next_offset);
                    return Err(ReadError::Corrupt { first_offset, next_offset });
                }
                None => {
                    self.offset = self.offset.max(part.upper_offset);
                    self.walk = None;
                }
            }
        }
    }
}

impl Iterator for HeaderIterator<'_> {
    type Item = Result<BatchHeader, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let item = self.advance().transpose();
        self.is_done = !matches!(item, Some(Ok(_) | Err(ReadError::Corrupt { .. })));
        item
    }
}
