//! The way to the disk: the traits [`Disk`] and [`File`], and the real ones on top of the operating system.
//!
//! Everything this crate (and the broker) stores goes through these two traits, so that a whole broker can run on a
//! [`SimDisk`](crate::simdisk::SimDisk). This is the only file that may touch `std::fs`.
//!
//! A file or a rename survives power loss only after [`Disk::sync_dir`] of its directory, its content only after
//! [`File::sync_data`].

use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, FallocateFlags, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

/// The most slices that one `pwritev` takes on Linux.
pub const SLICES_PER_WRITE_MAX: usize = 1024;

/// Disks and the page cache work in blocks of this size, or of a part of it.
pub const BLOCK_BYTES: usize = 4096;

/// How [`Disk::open`] opens a file. Every mode but `Read` may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must exist.
    Read,
    /// The file must exist.
    ReadWrite,
    /// Made if it is not there.
    Create,
    /// Made if it is not there, emptied if it is.
    CreateEmpty,
    /// The file must exist. What is written is durable when the call returns. Positions, lengths and the addresses of
    /// what is written are multiples of [`BLOCK_BYTES`].
    Durable,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    pub name: String,
    pub is_dir: bool,
}

/// A file system. Paths are whole paths.
pub trait Disk: Send + Sync + 'static {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// Makes the directory and its parents, and syncs the directories that got a new entry.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// The entries in the order of their names; those that are not UTF-8 are left out.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;
    /// Replaces `to` if it exists. Not durable before [`Disk::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Bytes that can still be written in the file system of `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Size of the file system of `path`.
    fn total_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// An open file. Dropping it closes it; a removed file stays readable while it is open.
#[expect(clippy::len_without_is_empty, reason = "nobody asks")]
pub trait File: Send + Sync + 'static {
    /// Reads at most the buffer's length. Fewer bytes mean nothing by themselves, 0 is the end of the file.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;
    /// The same for threads that must not wait for the disk: `WouldBlock` where the first of the bytes are not in the
    /// page cache. A file system that cannot tell is read as by [`File::read_at`].
    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;
    /// Writes at most [`SLICES_PER_WRITE_MAX`] slices, and returns how many bytes were taken.
    fn write_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize>;
    /// Makes the content and the length durable. After an error the file must not be trusted again: the next call may
    /// well say that all is clean while the bytes are gone.
    fn sync_data(&self) -> io::Result<()>;
    /// Has the next reads of a range come from the disk. What was changed in it and not synced stays.
    fn drop_cached(&self, position: u64, bytes: u64) -> io::Result<()>;
    /// Has space allocated, and leaves the length as it is. Space behind the end is freed by the next
    /// [`File::set_len`], even to the same length.
    fn allocate(&self, position: u64, bytes: u64) -> io::Result<()>;
    fn set_len(&self, len: u64) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    /// For `sendfile`; a simulated file has none.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

/// A file that is read by [`File::read_cached_at`] only.
pub(crate) struct CachedOnly(pub(crate) Arc<dyn File>);

impl File for CachedOnly {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_cached_at(buffer, position)
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_cached_at(buffer, position)
    }

    fn write_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.0.write_at(slices, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn drop_cached(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.0.drop_cached(position, bytes)
    }

    fn allocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.0.allocate(position, bytes)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.fd()
    }
}

/// Fills the buffer, or fails with `UnexpectedEof`.
pub fn read_exact_at(file: &dyn File, mut buffer: &mut [u8], mut position: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, position)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                buffer = &mut buffer[n..];
                position += n as u64;
            }
        }
    }
    Ok(())
}

/// Fills the buffer as far as the file goes, and returns how far that is.
pub fn read_up_to(file: &dyn File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], position + filled as u64)? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

/// Writes all slices. After an error any part of them may be in the file.
pub fn write_all_at(file: &dyn File, mut slices: &mut [IoSlice<'_>], mut position: u64) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let taken = file.write_at(&slices[..slices.len().min(SLICES_PER_WRITE_MAX)], position)?;
        if taken == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        position += taken as u64;
        IoSlice::advance_slices(&mut slices, taken);
    }
    Ok(())
}

/// Reads a small file whole. A file longer than `limit` bytes is an error, so that nothing is allocated by a claim.
pub fn read_file(disk: &dyn Disk, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read)?;
    let len = file.len()?;
    if len > limit as u64 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{len} bytes where at most {limit} are expected"),
        ));
    }
    let mut bytes = vec![0; len as usize];
    let filled = read_up_to(&*file, &mut bytes, 0)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// Replaces a small file so that after a crash it is the old one or the new one, never something else.
pub fn replace_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = Path::new(&temporary);
    let file = disk.open(temporary, OpenMode::CreateEmpty)?;
    write_all_at(&*file, &mut [IoSlice::new(bytes)], 0)?;
    file.sync_data()?;
    disk.rename(temporary, path)?;
    match path.parent() {
        Some(dir) => disk.sync_dir(dir),
        None => Ok(()),
    }
}

/// Whether the disk refused to take more bytes; what was there is unharmed.
pub fn is_disk_full(error: &io::Error) -> bool {
    const FULL: [Errno; 3] = [Errno::NOSPC, Errno::FBIG, Errno::DQUOT];
    error.raw_os_error().is_some_and(|code| FULL.iter().any(|errno| errno.raw_os_error() == code))
}

/// Whether the process ran out of descriptors or memory; the disk is unharmed.
pub fn is_exhausted(error: &io::Error) -> bool {
    const EXHAUSTED: [Errno; 3] = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| EXHAUSTED.iter().any(|errno| errno.raw_os_error() == code))
}

/// Records and metadata are their owner's alone. What is there already stays as it is.
pub const DIR_MODE: u32 = 0o700;
pub const FILE_MODE: u32 = 0o600;

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

struct RealFile {
    file: std::fs::File,
    /// Whether its file system cannot tell what is in the page cache. Network file systems and overlays cannot.
    cannot_tell: AtomicBool,
}

/// Past the page cache where the file system can, so that an error in writing is told to the writer and to nobody else.
#[allow(clippy::disallowed_methods)]
fn open_durable(path: &Path) -> io::Result<Arc<dyn File>> {
    let open = |flags: OFlags| {
        let flags = i32::try_from(flags.bits()).expect("the flags of the system fit");
        let file = std::fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        Ok(Arc::new(RealFile { file, cannot_tell: AtomicBool::new(false) }) as Arc<dyn File>)
    };
    open(OFlags::DSYNC | OFlags::DIRECT).or_else(|_: io::Error| open(OFlags::DSYNC))
}

#[allow(clippy::disallowed_methods)]
impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).mode(FILE_MODE);
        match mode {
            OpenMode::Read => {}
            OpenMode::ReadWrite => {
                options.write(true);
            }
            OpenMode::Create => {
                options.write(true).create(true).truncate(false);
            }
            OpenMode::CreateEmpty => {
                options.write(true).create(true).truncate(true);
            }
            OpenMode::Durable => return open_durable(path),
        }
        Ok(Arc::new(RealFile { file: options.open(path)?, cannot_tell: AtomicBool::new(false) }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.create_dir_all(parent)?;
        }
        match std::fs::DirBuilder::new().mode(DIR_MODE).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => self.sync_dir(Path::new(".")),
            Some(parent) => self.sync_dir(parent),
            None => Ok(()),
        }
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(DirEntry { name, is_dir: entry.file_type()?.is_dir() });
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::File::open(path)?.sync_all()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        // Without what is kept for root: the part that is not free is then what df calls used.
        let kept = stat.f_bfree.saturating_sub(stat.f_bavail);
        Ok(stat.f_blocks.saturating_sub(kept).saturating_mul(stat.f_frsize))
    }
}

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::pread(&self.file, &mut *buffer, position))?)
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        if self.cannot_tell.load(Ordering::Relaxed) {
            return self.read_at(buffer, position);
        }
        let read = || rustix::io::preadv2(&self.file, &mut [IoSliceMut::new(buffer)], position, ReadWriteFlags::NOWAIT);
        match rustix::io::retry_on_intr(read) {
            // Kernels and sandboxes that do not know the call say so in other ways.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM) => {
                self.cannot_tell.store(true, Ordering::Relaxed);
                self.read_at(buffer, position)
            }
            read => Ok(read?),
        }
    }

    fn write_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::pwritev(&self.file, slices, position))?)
    }

    fn sync_data(&self) -> io::Result<()> {
        // Not repeated after a signal: after any error the kernel may have marked the pages clean.
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    fn drop_cached(&self, position: u64, bytes: u64) -> io::Result<()> {
        let Some(bytes) = NonZeroU64::new(bytes) else { return Ok(()) };
        Ok(rustix::fs::fadvise(&self.file, position, Some(bytes), Advice::DontNeed)?)
    }

    fn allocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, position, bytes)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_files_read_back_what_was_written_in_many_slices() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let disk = RealDisk;
        disk.create_dir_all(&path).unwrap();
        let file = disk.open(&path.join("file"), OpenMode::Create).unwrap();
        let bytes: Vec<u8> = (0..5000u32).map(|n| n as u8).collect();
        let mut slices: Vec<IoSlice> = bytes.chunks(2).map(IoSlice::new).collect();
        assert!(slices.len() > SLICES_PER_WRITE_MAX);
        write_all_at(&*file, &mut slices, 7).unwrap();
        assert_eq!(file.len().unwrap(), 5007);
        let mut back = vec![0; 5000];
        read_exact_at(&*file, &mut back, 7).unwrap();
        assert_eq!(back, bytes);
        back.fill(0);
        assert_eq!(file.read_cached_at(&mut back, 7).unwrap(), 5000, "it was written just now, or cannot be told");
        assert_eq!((&back, file.read_cached_at(&mut [0], 5007).unwrap()), (&bytes, 0));
        assert_eq!(read_exact_at(&*file, &mut back, 8).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(disk.read_dir(&dir.path().join("a")).unwrap(), [DirEntry { name: "b".into(), is_dir: true }]);
        assert!(disk.free_bytes(dir.path()).unwrap() <= disk.total_bytes(dir.path()).unwrap());
    }

    #[test]
    fn allocated_space_changes_no_length_and_is_freed_by_setting_it() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = RealDisk.open(&path, OpenMode::Create).unwrap();
        write_all_at(&*file, &mut [IoSlice::new(&[7; 5000])], 0).unwrap();
        if file.allocate(5000, 1 << 20).is_err() {
            // A file system that cannot.
            return;
        }
        let taken_bytes = || std::fs::metadata(&path).unwrap().blocks() * 512;
        assert!(taken_bytes() >= 1 << 20);
        assert_eq!(file.len().unwrap(), 5000);
        file.set_len(5000).unwrap();
        assert!(taken_bytes() < 1 << 18, "{}", taken_bytes());
        assert_eq!(read_file(&RealDisk, &path, 5000).unwrap(), [7; 5000]);
    }

    #[test]
    fn nobody_else_reads_what_is_created() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data/t-0");
        RealDisk.create_dir_all(&path).unwrap();
        for mode in [OpenMode::Create, OpenMode::CreateEmpty] {
            RealDisk.open(&path.join(format!("{mode:?}")), mode).unwrap();
        }
        replace_file(&RealDisk, &path.join("checkpoint"), b"one").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&dir.path().join("data"))), (DIR_MODE, DIR_MODE));
        for entry in RealDisk.read_dir(&path).unwrap() {
            assert_eq!(mode(&path.join(&entry.name)), FILE_MODE, "{}", entry.name);
        }
    }

    #[test]
    fn replacing_a_file_leaves_no_temporary_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("checkpoint");
        replace_file(&RealDisk, &path, b"one").unwrap();
        replace_file(&RealDisk, &path, b"two").unwrap();
        assert_eq!(read_file(&RealDisk, &path, 100).unwrap(), b"two");
        assert!(read_file(&RealDisk, &path, 2).is_err());
        assert_eq!(RealDisk.read_dir(dir.path()).unwrap().len(), 1);
    }

    #[test]
    fn errors_are_told_apart() {
        assert!(is_disk_full(&Errno::NOSPC.into()));
        assert!(is_disk_full(&Errno::FBIG.into()));
        assert!(!is_disk_full(&Errno::IO.into()));
        assert!(is_exhausted(&Errno::MFILE.into()));
    }
}
