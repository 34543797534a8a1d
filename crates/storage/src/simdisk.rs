//! A simulated disk for tests and the simulator: in memory, from a seed, with the faults that real disks have.
//!
//! What is written is in the "page cache" at once, and on the "platter" only after a sync. [`SimDisk::crash`] is power
//! loss: of each page that was not synced the old or the new content survives, the length may be anything between, and
//! names that were made, changed or removed without a sync of their directory may be as before. [`SimDisk::kill`] is
//! the death of the process: the page cache survives. Both make all open files stale, so that a log from before can do
//! no more harm. [`SimDisk::evict`] leaves nothing in the page cache but what is not on the platter yet, as power loss
//! does, and what is read comes back to it. The same seed and the same calls give the same disk ([`SimDisk::trace`]).

mod inode;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;

use self::inode::Inode;
use crate::disk::{BLOCK_BYTES, DirEntry, Disk, File, OpenMode};

const PAGE_BYTES: usize = 4096;
/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// A small reproducible generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `bound` (exclusive); 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }

    /// True `n` times out of 100.
    pub fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }
}

/// An operation on which an error can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimOp {
    Read,
    Write,
    Allocate,
    /// Of a file; the pages count as clean afterwards although they are not on the platter, as the kernel does it.
    Sync,
    SyncDir,
    Open,
    Rename,
}

/// A change to a directory that is not on the platter yet.
#[derive(Clone, Debug)]
enum DirChange {
    Link(PathBuf, u64),
    Rename(PathBuf, PathBuf),
    Unlink(PathBuf),
}

impl DirChange {
    fn dir(&self) -> Option<&Path> {
        match self {
            Self::Link(path, _) | Self::Unlink(path) => path.parent(),
            Self::Rename(_, to) => to.parent(),
        }
    }

    fn apply(self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Link(path, inode) => {
                names.insert(path, inode);
            }
            Self::Rename(from, to) => {
                if let Some(inode) = names.remove(&from) {
                    names.insert(to, inode);
                }
            }
            Self::Unlink(path) => {
                names.remove(&path);
            }
        }
    }
}

struct State {
    rng: Rng,
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    /// Files by path.
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    changes: Vec<DirChange>,
    /// Directories are durable at once.
    dirs: BTreeSet<PathBuf>,
    generation: u64,
    capacity_bytes: u64,
    holds_removed: bool,
    file_bytes_max: u64,
    /// Operations that fail: after how many more of their kind, and with what.
    faults: BTreeMap<SimOp, (u64, Errno)>,
    /// How many changes are still taken.
    changes_left: u64,
    /// Whether changes do not return, and what wakes those who wait for them.
    hangs: bool,
    /// Threads that wait for it to answer.
    waiting: usize,
    answers: Arc<Condvar>,
    trace: u64,
    operations: u64,
    read_bytes: u64,
}

/// See the module's documentation. Clones share the disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

struct SimFile {
    disk: SimDisk,
    inode: u64,
    generation: u64,
    /// See [`OpenMode::Durable`].
    is_durable: bool,
}

impl SimDisk {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng: Rng::new(seed),
            inodes: BTreeMap::new(),
            next_inode: 1,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
            dirs: BTreeSet::from([PathBuf::from("/")]),
            generation: 0,
            capacity_bytes: u64::MAX,
            holds_removed: false,
            file_bytes_max: u64::MAX,
            faults: BTreeMap::new(),
            changes_left: u64::MAX,
            hangs: false,
            waiting: 0,
            answers: Arc::default(),
            trace: seed,
            operations: 0,
            read_bytes: 0,
        })))
    }

    /// Power loss. The disk afterwards is what a restart finds.
    pub fn crash(&self) {
        let mut state = self.0.lock();
        let state = &mut *state;
        state.trace(&[1]);
        // Either the file system keeps the order of its directories' changes, or it does not.
        let changes = std::mem::take(&mut state.changes);
        let in_order = state.rng.percent(60);
        let survivors = state.rng.below(changes.len() as u64 + 1) as usize;
        for (index, change) in changes.into_iter().enumerate() {
            let survives = if in_order { index < survivors } else { state.rng.percent(50) };
            if survives {
                change.apply(&mut state.durable_names);
            }
        }
        state.names = state.durable_names.clone();
        for inode in state.inodes.values_mut() {
            inode.lose_power(&mut state.rng);
            inode.evict();
        }
        state.end_process();
    }

    /// The process dies, the machine does not: everything written stays.
    pub fn kill(&self) {
        let mut state = self.0.lock();
        state.trace(&[2]);
        state.end_process();
    }

    /// Fails one operation with an error, after `after` more of its kind have succeeded.
    pub fn fail(&self, op: SimOp, after: u64, error: Errno) {
        self.0.lock().faults.insert(op, (after, error));
    }

    /// The system fails to write what is in its memory only. It tells whoever syncs the file next, once.
    pub fn fail_behind_all(&self) {
        for inode in self.0.lock().inodes.values_mut().filter(|inode| !inode.dirty.is_empty()) {
            inode.fail_to_write();
            inode.has_untold_error = true;
        }
    }

    /// Takes out of the page cache what is on the platter.
    pub fn evict(&self) {
        self.0.lock().inodes.values_mut().for_each(Inode::evict);
    }

    /// Whether threads that write, sync, make or rename, or read what is not in the page cache, wait until this is
    /// over, or their process is.
    pub fn set_hangs(&self, hangs: bool) {
        let mut state = self.0.lock();
        state.hangs = hangs;
        state.answers.notify_all();
    }

    /// How many threads wait for it.
    pub fn waiting(&self) -> usize {
        self.0.lock().waiting
    }

    /// When the disk answers.
    fn lock_to_change(&self) -> MutexGuard<'_, State> {
        self.lock_when(|_| true)
    }

    /// At once, or when the disk answers if it has to be asked.
    fn lock_when(&self, asks: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.0.lock();
        let answers = Arc::clone(&state.answers);
        state.waiting += 1;
        while state.hangs && asks(&state) {
            answers.wait(&mut state);
        }
        state.waiting -= 1;
        state
    }

    /// Takes so many changes more and then none, as if the process ended there: for a crash between any two steps.
    pub fn stop_after(&self, changes: u64) {
        self.0.lock().changes_left = changes;
    }

    pub fn clear_faults(&self) {
        self.0.lock().clear_faults();
    }

    /// From here on only so many bytes more can be written (ENOSPC).
    pub fn set_free_bytes(&self, bytes: u64) {
        let mut state = self.0.lock();
        state.capacity_bytes = state.used_bytes().saturating_add(bytes);
    }

    /// Whether files that were removed still take their space: as those do that somebody has open, and any others for a
    /// while where a file system frees it later.
    pub fn set_holds_removed(&self, holds: bool) {
        self.0.lock().holds_removed = holds;
    }

    /// No file can grow beyond this (EFBIG).
    pub fn set_file_bytes_max(&self, bytes: u64) {
        self.0.lock().file_bytes_max = bytes;
    }

    /// Flips a bit, in the page cache and on the platter. False if there is no such byte.
    pub fn flip_bit(&self, path: &Path, position: u64, bit: u32) -> bool {
        let mut state = self.0.lock();
        let Some(inode) = state.names.get(path).copied().and_then(|inode| state.inodes.get_mut(&inode)) else {
            return false;
        };
        let mut is_there = false;
        for bytes in [&mut inode.live, &mut inode.durable] {
            if let Some(byte) = bytes.get_mut(position as usize) {
                *byte ^= 1 << (bit % 8);
                is_there = true;
            }
        }
        is_there
    }

    /// Replaces a file's bytes, in the page cache and on the platter.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.0.lock();
        let state = &mut *state;
        let inode = match state.names.get(path) {
            Some(&inode) => inode,
            None => {
                state.next_inode += 1;
                state.names.insert(path.to_owned(), state.next_inode);
                state.next_inode
            }
        };
        state.durable_names.insert(path.to_owned(), inode);
        let content = Inode { live: bytes.to_owned(), durable: bytes.to_owned(), ..Inode::default() };
        state.inodes.insert(inode, content);
    }

    /// A file's bytes as processes see them.
    pub fn get(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.0.lock();
        Some(state.inodes.get(state.names.get(path)?)?.live.clone())
    }

    /// All files as processes see them.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().names.keys().cloned().collect()
    }

    /// A hash over all that was done to the disk.
    pub fn trace(&self) -> u64 {
        self.0.lock().trace
    }

    /// How many operations there were.
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// How many bytes were read.
    pub fn read_bytes(&self) -> u64 {
        self.0.lock().read_bytes
    }
}

impl State {
    fn trace(&mut self, words: &[u64]) {
        self.operations += 1;
        for &word in words {
            let mut rng = Rng::new(self.trace ^ word);
            self.trace = rng.next_u64();
        }
    }

    fn end_process(&mut self) {
        self.generation += 1;
        self.clear_faults();
        let in_flight = self.changes.iter().filter_map(|change| match change {
            DirChange::Link(_, inode) => Some(inode),
            _ => None,
        });
        let linked = self.names.values().chain(self.durable_names.values()).chain(in_flight);
        let linked: BTreeSet<u64> = linked.copied().collect();
        self.inodes.retain(|inode, _| linked.contains(inode));
    }

    fn clear_faults(&mut self) {
        self.faults.clear();
        (self.holds_removed, self.hangs) = (false, false);
        self.answers.notify_all();
        (self.capacity_bytes, self.file_bytes_max, self.changes_left) = (u64::MAX, u64::MAX, u64::MAX);
    }

    /// Called by whatever leaves the disk as another one.
    fn attempt_change(&mut self) -> io::Result<()> {
        self.changes_left =
            self.changes_left.checked_sub(1).ok_or_else(|| io::Error::other("the disk takes no more changes"))?;
        Ok(())
    }

    fn used_bytes(&self) -> u64 {
        if self.holds_removed {
            return self.inodes.values().map(Inode::held_bytes).sum();
        }
        self.names.values().filter_map(|inode| self.inodes.get(inode)).map(Inode::held_bytes).sum()
    }

    fn attempt(&mut self, op: SimOp) -> io::Result<()> {
        match self.faults.get_mut(&op) {
            Some((0, error)) => {
                let error = *error;
                self.faults.remove(&op);
                Err(error.into())
            }
            Some((after, _)) => {
                *after -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn change(&mut self, change: DirChange) {
        change.clone().apply(&mut self.names);
        self.changes.push(change);
    }

    fn check_dir(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(parent) if !self.dirs.contains(parent) => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(()),
        }
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let makes = matches!(mode, OpenMode::Create | OpenMode::CreateEmpty);
        let mut state = if makes { self.lock_to_change() } else { self.0.lock() };
        state.attempt(SimOp::Open)?;
        state.check_dir(path)?;
        let inode = match state.names.get(path) {
            Some(&inode) => inode,
            None if makes => {
                state.attempt_change()?;
                if state.used_bytes() >= state.capacity_bytes {
                    return Err(Errno::NOSPC.into());
                }
                state.next_inode += 1;
                let inode = state.next_inode;
                state.inodes.insert(inode, Inode::default());
                state.change(DirChange::Link(path.to_owned(), inode));
                inode
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        state.trace(&[3, inode]);
        let file =
            SimFile { disk: self.clone(), inode, generation: state.generation, is_durable: mode == OpenMode::Durable };
        drop(state);
        if mode == OpenMode::CreateEmpty {
            file.set_len(0)?;
        }
        Ok(Arc::new(file))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.lock().dirs.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.0.lock();
        if !state.dirs.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let name = |child: &Path, is_dir| {
            let name = child.file_name()?.to_str()?.to_owned();
            (child.parent() == Some(path)).then_some(DirEntry { name, is_dir })
        };
        let files = state.names.keys().filter_map(|child| name(child, false));
        let dirs = state.dirs.iter().filter_map(|child| name(child, true));
        let mut entries: Vec<_> = files.chain(dirs).collect();
        entries.sort();
        Ok(entries)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock_to_change();
        state.attempt(SimOp::Rename)?;
        state.attempt_change()?;
        state.check_dir(to)?;
        if let Some(&inode) = state.names.get(from) {
            state.trace(&[4, inode]);
            state.change(DirChange::Rename(from.to_owned(), to.to_owned()));
            return Ok(());
        }
        if !state.dirs.contains(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        // A directory: durable at once, with all below it.
        state.trace(&[5]);
        let moved = |path: &Path| match path.strip_prefix(from) {
            Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
            Ok(rest) => to.join(rest),
            Err(_) => path.to_owned(),
        };
        state.dirs = state.dirs.iter().map(|path| moved(path)).collect();
        state.names = state.names.iter().map(|(path, &inode)| (moved(path), inode)).collect();
        state.durable_names = state.durable_names.iter().map(|(path, &inode)| (moved(path), inode)).collect();
        for change in &mut state.changes {
            match change {
                DirChange::Link(path, _) | DirChange::Unlink(path) => *path = moved(path),
                DirChange::Rename(one, other) => (*one, *other) = (moved(one), moved(other)),
            }
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        let inode = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        state.attempt_change()?;
        state.trace(&[6, inode]);
        state.change(DirChange::Unlink(path.to_owned()));
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        if !state.dirs.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.trace(&[7]);
        state.dirs.retain(|dir| !dir.starts_with(path));
        state.names.retain(|name, _| !name.starts_with(path));
        state.durable_names.retain(|name, _| !name.starts_with(path));
        state.changes.retain(|change| !change.dir().is_some_and(|dir| dir.starts_with(path)));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock_to_change();
        state.attempt(SimOp::SyncDir)?;
        state.attempt_change()?;
        if !state.dirs.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.trace(&[8]);
        let changes = std::mem::take(&mut state.changes);
        let (synced, left): (Vec<_>, Vec<_>) = changes.into_iter().partition(|change| change.dir() == Some(path));
        state.changes = left;
        for change in synced {
            change.apply(&mut state.durable_names);
        }
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.0.lock();
        Ok(state.names.contains_key(path) || state.dirs.contains(path))
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        let state = self.0.lock();
        Ok(state.capacity_bytes.saturating_sub(state.used_bytes()))
    }

    fn total_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(self.0.lock().capacity_bytes)
    }
}

impl SimFile {
    /// Onto the platter. Of a write that fails, or during which the process ends, any sectors may be there.
    fn write_durably(&self, bytes: &[u8], position: usize) -> io::Result<usize> {
        assert!(
            position.is_multiple_of(BLOCK_BYTES) && bytes.len().is_multiple_of(BLOCK_BYTES),
            "not aligned: {position}, {}",
            bytes.len()
        );
        let mut state = self.disk.lock_to_change();
        if state.generation != self.generation {
            return Err(io::Error::other("a file of a process that is dead"));
        }
        let attempt = state.attempt(SimOp::Write).and_then(|()| state.attempt_change());
        state.trace(&[12, self.inode, position as u64, bytes.len() as u64]);
        let State { inodes, rng, .. } = &mut *state;
        let inode = inodes.get_mut(&self.inode).ok_or(io::ErrorKind::NotFound)?;
        assert!(position + bytes.len() <= inode.durable.len(), "a durable write changes no length");
        let percent = if attempt.is_ok() { 100 } else { [0, 50, 90][rng.below(3) as usize] };
        for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate().filter(|_| rng.percent(percent)) {
            let at = position + index * SECTOR_BYTES;
            inode.live[at..at + sector.len()].copy_from_slice(sector);
            inode.durable[at..at + sector.len()].copy_from_slice(sector);
        }
        attempt.map(|()| bytes.len())
    }

    fn with<T>(&self, op: Option<SimOp>, act: impl FnOnce(&mut State, &mut Inode) -> io::Result<T>) -> io::Result<T> {
        let changes = matches!(op, Some(SimOp::Write | SimOp::Allocate | SimOp::Sync));
        self.with_state(if changes { self.disk.lock_to_change() } else { self.disk.0.lock() }, op, act)
    }

    fn with_state<T>(
        &self,
        mut state: MutexGuard<'_, State>,
        op: Option<SimOp>,
        act: impl FnOnce(&mut State, &mut Inode) -> io::Result<T>,
    ) -> io::Result<T> {
        let state = &mut *state;
        if state.generation != self.generation {
            return Err(io::Error::other("a file of a process that is dead"));
        }
        let attempt = op.map_or(Ok(()), |op| state.attempt(op));
        let mut inode = state.inodes.remove(&self.inode).ok_or(io::ErrorKind::NotFound)?;
        let result = match attempt {
            Ok(()) => act(state, &mut inode),
            Err(error) => {
                if op == Some(SimOp::Sync) {
                    inode.fail_to_write();
                }
                Err(error)
            }
        };
        state.inodes.insert(self.inode, inode);
        result
    }
}

impl File for SimFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let (start, end) = (position as usize, position as usize + buffer.len());
        let asks = |state: &State| {
            let is_alive = state.generation == self.generation;
            is_alive && state.inodes.get(&self.inode).is_some_and(|inode| inode.first_evicted(start, end).is_some())
        };
        self.with_state(self.disk.lock_when(asks), Some(SimOp::Read), |state, inode| {
            inode.evicted.retain(|page| !(start / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).contains(page));
            let n = inode.read(buffer, start);
            state.read_bytes += n as u64;
            Ok(n)
        })
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let start = position as usize;
        self.with(Some(SimOp::Read), |state, inode| {
            let cached = match inode.first_evicted(start, start + buffer.len()) {
                Some(evicted) if evicted == start => return Err(io::ErrorKind::WouldBlock.into()),
                Some(evicted) => evicted - start,
                None => buffer.len(),
            };
            let n = inode.read(&mut buffer[..cached], start);
            state.read_bytes += n as u64;
            Ok(n)
        })
    }

    fn write_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        if self.is_durable {
            return self.write_durably(
                &slices.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<u8>>(),
                position as usize,
            );
        }
        self.with(Some(SimOp::Write), |state, inode| {
            state.attempt_change()?;
            let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
            // The inode itself is taken out of the state here.
            let used = state.used_bytes() + inode.held_bytes();
            let free = state.capacity_bytes.saturating_sub(used);
            let room_by_disk = inode.held_bytes().saturating_add(free).saturating_sub(position);
            let room_by_file = state.file_bytes_max.saturating_sub(position);
            let room = usize::try_from(room_by_disk.min(room_by_file)).unwrap_or(usize::MAX);
            if wanted > 0 && room == 0 {
                return Err(if room_by_disk <= room_by_file { Errno::NOSPC } else { Errno::FBIG }.into());
            }
            let taken = wanted.min(room);
            let (mut at, end) = (position as usize, position as usize + taken);
            state.trace(&[9, self.inode, position, taken as u64]);
            if inode.live.len() < end {
                inode.live.resize(end, 0);
            }
            for slice in slices {
                let n = slice.len().min(end - at);
                inode.live[at..at + n].copy_from_slice(&slice[..n]);
                at += n;
            }
            if taken > 0 {
                let pages = position as usize / PAGE_BYTES..=(end - 1) / PAGE_BYTES;
                inode.evicted.retain(|page| !pages.contains(page));
                inode.dirty.extend(pages);
            }
            Ok(taken)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(Some(SimOp::Sync), |state, inode| {
            state.attempt_change()?;
            state.trace(&[10, self.inode]);
            if std::mem::take(&mut inode.has_untold_error) {
                inode.fail_to_write();
                return Err(Errno::IO.into());
            }
            inode.sync();
            Ok(())
        })
    }

    fn drop_cached(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.with(None, |state, inode| {
            state.trace(&[13, self.inode, position, bytes]);
            inode.drop_cached(position, bytes);
            Ok(())
        })
    }

    fn allocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.with(Some(SimOp::Allocate), |state, inode| {
            state.attempt_change()?;
            let end = position + bytes;
            let used = state.used_bytes() + inode.held_bytes();
            if end.saturating_sub(inode.held_bytes()) > state.capacity_bytes.saturating_sub(used) {
                return Err(Errno::NOSPC.into());
            }
            state.trace(&[12, self.inode, position, bytes]);
            inode.allocated = inode.allocated.max(end);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(None, |state, inode| {
            state.attempt_change()?;
            state.trace(&[11, self.inode, len]);
            inode.set_len(len as usize);
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.with(None, |_, inode| Ok(inode.live.len() as u64))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
