//! The transaction index of a segment: its file, and how many entries that has.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Segment;
use crate::disk::{CachedOnly, File, write_all_at};
use crate::index::{Entry, floor_in_file};
use crate::names::Kind;
use crate::txn_index::{AbortedTransaction, check, entries_from};

/// What is known of it; `None` before anybody looked.
pub(super) type Known = Option<TxnIndex>;

#[derive(Debug)]
pub(super) struct TxnIndex {
    /// Entries in the file.
    count: usize,
    /// The greatest last offset, also of those that are not in the file.
    last_offset: i64,
    /// What could not be written yet.
    unwritten: Vec<AbortedTransaction>,
    is_synced: bool,
}

impl TxnIndex {
    pub(super) const EMPTY: Self = Self { count: 0, last_offset: -1, unwritten: Vec::new(), is_synced: true };
}

impl Segment {
    pub(super) fn txn_index_file(&self) -> io::Result<Arc<dyn File>> {
        self.file(&self.txn_index, Kind::TxnIndex)
    }

    /// Opens the file if there is one: a segment without aborted transactions gets none.
    pub(super) fn open_txn_index(&self) -> io::Result<()> {
        let has_file = match &*self.aborted.lock() {
            Some(known) => known.count > 0,
            None => self.disk.exists(&self.path(Kind::TxnIndex))?,
        };
        if has_file { self.txn_index_file().map(drop) } else { Ok(()) }
    }

    /// Looks at the file, if nobody has. `false` if it cannot be right.
    pub(crate) fn load_txn_index(&self) -> io::Result<bool> {
        let mut aborted = self.aborted.lock();
        if aborted.is_some() {
            return Ok(true);
        }
        let is_there = self.txn_index.get().is_some() || self.disk.exists(&self.path(Kind::TxnIndex))?;
        let found = if is_there { check(&*self.txn_index_file()?, self.base_offset)? } else { Some((-1, 0)) };
        let Some((last_offset, count)) = found else { return Ok(false) };
        self.has_no_aborted.store(count == 0, Ordering::Release);
        // Whether it is on disk nobody knows: another object may have stood for the file before a truncation.
        *aborted = Some(TxnIndex { count, last_offset, is_synced: count == 0, ..TxnIndex::EMPTY });
        Ok(true)
    }

    /// Takes note of transactions whose markers were written, in their order; those that are known are skipped. Called
    /// by the writer, before readers can see the markers. Returns whether the file was made for them. Where the file
    /// cannot be written, they are kept in memory for the next time.
    pub(crate) fn push_aborted(&self, more: &[AbortedTransaction]) -> io::Result<bool> {
        let mut aborted = self.aborted.lock();
        // Those that the writer appends to are looked at before.
        let Some(known) = aborted.as_mut() else { return Ok(false) };
        for entry in more.iter().filter(|entry| entry.last_offset > known.last_offset) {
            known.unwritten.push(*entry);
        }
        known.last_offset = known.unwritten.last().map_or(known.last_offset, |last| last.last_offset);
        self.has_no_aborted.store(known.count + known.unwritten.len() == 0, Ordering::Release);
        if known.unwritten.is_empty() {
            return Ok(false);
        }
        let mut bytes = Vec::with_capacity(known.unwritten.len() * AbortedTransaction::BYTES);
        known.unwritten.iter().for_each(|entry| entry.encode(&mut bytes));
        known.is_synced = false;
        let position = (known.count * AbortedTransaction::BYTES) as u64;
        write_all_at(&*self.txn_index_file()?, &mut [IoSlice::new(&bytes)], position)?;
        let is_new = known.count == 0;
        known.count += known.unwritten.len();
        known.unwritten.clear();
        Ok(is_new)
    }

    /// Makes it durable, but for the name of its file.
    pub(crate) fn sync_txn_index(&self) -> io::Result<()> {
        let is_synced = |known: &mut TxnIndex| std::mem::replace(&mut known.is_synced, true);
        let is_synced = self.aborted.lock().as_mut().is_none_or(is_synced);
        if is_synced { Ok(()) } else { self.txn_index_file()?.sync_data() }
    }

    /// Puts other entries in the place of all there are, and has them synced.
    pub(crate) fn replace_txn_index(&self, entries: &[AbortedTransaction]) -> io::Result<()> {
        let mut aborted = self.aborted.lock();
        if self.is_cut() {
            return Err(io::Error::other("the segment was cut meanwhile"));
        }
        let file = self.txn_index_file()?;
        let mut bytes = Vec::with_capacity(entries.len() * AbortedTransaction::BYTES);
        entries.iter().for_each(|entry| entry.encode(&mut bytes));
        file.set_len(0)?;
        write_all_at(&*file, &mut [IoSlice::new(&bytes)], 0)?;
        file.sync_data()?;
        self.has_no_aborted.store(entries.is_empty(), Ordering::Release);
        let last_offset = entries.last().map_or(-1, |last| last.last_offset);
        *aborted = Some(TxnIndex { count: entries.len(), last_offset, ..TxnIndex::EMPTY });
        Ok(())
    }

    /// Takes a file that is open already, and empty, for its own, and fills it.
    pub(crate) fn adopt_txn_index(&self, file: Arc<dyn File>, entries: &[AbortedTransaction]) -> io::Result<()> {
        self.txn_index.get_or_keep(file);
        self.replace_txn_index(entries)
    }

    /// Drops the transactions whose markers are at `offset` or behind.
    pub(crate) fn truncate_txn_index(&self, offset: i64) -> io::Result<()> {
        let mut aborted = self.aborted.lock();
        let Some(known) = aborted.as_mut().filter(|known| known.last_offset >= offset) else { return Ok(()) };
        known.unwritten.retain(|entry| entry.last_offset < offset);
        if known.count > 0 {
            let file = self.txn_index_file()?;
            let last = floor_in_file::<AbortedTransaction>(&*file, known.count, offset - 1, None)?;
            known.count = last.map_or(0, |(slot, _)| slot + 1);
            known.last_offset = last.map_or(-1, |(_, entry)| entry.last_offset);
            file.set_len((known.count * AbortedTransaction::BYTES) as u64)?;
            known.is_synced = false;
        }
        known.last_offset = known.unwritten.last().map_or(known.last_offset.min(offset - 1), |last| last.last_offset);
        self.has_no_aborted.store(known.count + known.unwritten.len() == 0, Ordering::Release);
        Ok(())
    }

    /// Adds the transactions that end at `fetch_offset` or behind and start below `upper_offset`. Returns whether no
    /// later segment can have more of them (`TransactionIndex.collectAbortedTxns`). Threads that must not wait get
    /// `WouldBlock` where it was not looked at yet or is not cached; the others have it looked at before.
    pub(crate) fn collect_aborted(
        &self,
        fetch_offset: i64,
        upper_offset: i64,
        is_urgent: bool,
        found: &mut Vec<AbortedTransaction>,
    ) -> io::Result<bool> {
        if self.has_no_aborted.load(Ordering::Acquire) {
            return Ok(false);
        }
        let (count, unwritten) = match &*self.aborted.lock() {
            Some(known) => (known.count, known.unwritten.clone()),
            None => return Err(io::ErrorKind::WouldBlock.into()),
        };
        let mut goes_on = |entry: AbortedTransaction| {
            if entry.last_offset >= fetch_offset && entry.first_offset < upper_offset {
                found.push(entry);
            }
            entry.last_stable_offset < upper_offset
        };
        if count > 0 {
            let file = match is_urgent {
                true => Arc::new(CachedOnly(self.open_file(&self.txn_index)?)),
                false => self.txn_index_file()?,
            };
            let before = floor_in_file::<AbortedTransaction>(&*file, count, fetch_offset - 1, None)?;
            let first = before.map_or(0, |(slot, _)| slot + 1);
            if !entries_from(&*file, first, count, |bytes| goes_on(AbortedTransaction::decode(bytes)))? {
                return Ok(true);
            }
        }
        Ok(!unwritten.into_iter().all(goes_on))
    }
}
