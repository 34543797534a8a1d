//! The open files of a segment. They are opened on first use and let go when the log was opened or closed, or when
//! descriptors are scarce ([`Segment::give_up_files`]). Before a file is renamed or removed it is opened
//! ([`Segment::pin`]): whoever holds the segment reads the same file for ever.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::RwLock;

use super::Segment;
use crate::disk::{CachedOnly, File, OpenMode};
use crate::names::Kind;

/// A file that may be open.
#[derive(Default)]
pub(super) struct Handle(RwLock<Option<Arc<dyn File>>>);

impl Handle {
    pub(super) fn get(&self) -> Option<Arc<dyn File>> {
        self.0.read().clone()
    }

    /// Keeps a file, unless there is one.
    pub(super) fn get_or_keep(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::clone(self.0.write().get_or_insert(file))
    }
}

impl Segment {
    fn note_use(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn file(&self, handle: &Handle, kind: Kind) -> io::Result<Arc<dyn File>> {
        self.note_use();
        if let Some(file) = handle.get() {
            return Ok(file);
        }
        let mode = if kind == Kind::Log { OpenMode::ReadWrite } else { OpenMode::Create };
        let file = match self.disk.open(&self.path(kind), mode) {
            Ok(file) => file,
            // Renamed in the meantime, so somebody pinned it.
            Err(error) => return handle.get().ok_or(error),
        };
        // VerifiedRanges after the opening: another log may have taken over the directory's name by then.
        if self.retired.load(Ordering::SeqCst) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the log was deleted"));
        }
        Ok(handle.get_or_keep(file))
    }

    /// The file for threads that must not wait, if it is open: opening it may have to ask the disk.
    pub(super) fn open_file(&self, handle: &Handle) -> io::Result<Arc<dyn File>> {
        self.note_use();
        handle.get().ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// The log file, for threads that must not wait only if it is open.
    pub(crate) fn log_file_for(&self, is_urgent: bool) -> io::Result<Arc<dyn File>> {
        if is_urgent { self.open_file(&self.log) } else { self.log_file() }
    }

    /// The log file to read from, for threads that must not wait as far as it is open and cached.
    pub(crate) fn log_reader(&self, is_urgent: bool) -> io::Result<Arc<dyn File>> {
        let file = self.log_file_for(is_urgent)?;
        Ok(if is_urgent { Arc::new(CachedOnly(file)) } else { file })
    }

    pub(super) fn index_reader(&self, is_urgent: bool) -> io::Result<Arc<dyn File>> {
        if is_urgent { Ok(Arc::new(CachedOnly(self.open_file(&self.index)?))) } else { self.index_file() }
    }

    pub(crate) fn log_file(&self) -> io::Result<Arc<dyn File>> {
        self.file(&self.log, Kind::Log)
    }

    pub(crate) fn index_file(&self) -> io::Result<Arc<dyn File>> {
        self.file(&self.index, Kind::Index)
    }

    pub(crate) fn time_index_file(&self) -> io::Result<Arc<dyn File>> {
        self.file(&self.time_index, Kind::TimeIndex)
    }

    /// Opens the files that readers may need after they are renamed.
    pub(crate) fn pin(&self) -> io::Result<()> {
        // First, so that nobody closes what is opened here.
        self.is_pinned.store(true, Ordering::SeqCst);
        self.open_files()?;
        self.open_txn_index()
    }

    /// Its files stay where they are: they may be closed again.
    pub(crate) fn unpin(&self) {
        self.is_pinned.store(false, Ordering::SeqCst);
    }

    pub(super) fn open_files(&self) -> io::Result<()> {
        self.log_file()?;
        self.index_file()?;
        self.time_index_file()?;
        Ok(())
    }

    /// Lets go of the files that can be opened again, unless they were used since the last call and `even_used` is not
    /// said. A log file with bytes that are not on disk stays: an error in writing them is told to those who have it
    /// open. Returns how many were let go.
    pub(crate) fn give_up_files(&self, even_used: bool) -> usize {
        if self.is_used.swap(false, Ordering::Relaxed) && !even_used {
            return 0;
        }
        let is_synced = self.last_append_ms().is_none() || self.synced_size() >= self.size();
        let mut count = 0;
        for (handle, may_go) in
            [(&self.log, is_synced), (&self.index, true), (&self.time_index, true), (&self.txn_index, true)]
        {
            let Some(mut file) = handle.0.try_write().filter(|_| may_go) else { continue };
            if !self.is_pinned.load(Ordering::SeqCst) && file.take().is_some() {
                count += 1;
            }
        }
        count
    }

    /// Lets go of the files, which are opened again on the next use. Not for a segment that was pinned.
    pub(crate) fn release(&self) {
        for handle in [&self.log, &self.index, &self.time_index, &self.txn_index] {
            *handle.0.write() = None;
        }
    }
}
