//! Files that say how to reach clusters. They are one user's: nobody else may read them. Each is replaced as a whole,
//! so that it has either what it had or what it shall have. Who changes what a file has holds its lock from the reading
//! to the writing: else two who change it at the same moment lose what one of them has written.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Certificates are the most of the largest.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// How long a change waits for those of others, each of which takes a sync of the disk, and how often it looks.
const LOCK_MAX: Duration = Duration::from_secs(10);
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// Held while a file is changed.
#[derive(Debug)]
pub struct Lock {
    /// Beside the file, which is replaced by another with each change. It stays there, so that all lock the same.
    _file: File,
}

/// Waits for others that change a file, also in other processes, for a bounded time. Not for a thread that runs tasks.
pub fn lock(path: &Path) -> io::Result<Lock> {
    lock_within(path, LOCK_MAX)
}

fn lock_within(path: &Path, patience: Duration) -> io::Result<Lock> {
    make_parent(path)?;
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(beside(path, "lock"))?;
    let mut waited = Duration::ZERO;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) if waited < patience => {
                sleep(LOCK_INTERVAL);
                waited += LOCK_INTERVAL;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(ErrorKind::WouldBlock, "another process is changing it; try again"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// The text of a file; none where there is no file yet.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    let file = OpenOptions::new().read(true).open(path);
    match file.and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text)) {
        Ok(_) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces a file, or makes it, with its directory.
#[expect(clippy::disallowed_methods, reason = "a file of the user's, not of a broker")]
pub fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    make_parent(path)?;
    let new = beside(path, &std::process::id().to_string());
    let result = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    })();
    if result.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    result
}

fn make_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(parent)
}

/// `FILE.EXTENSION` for `FILE`.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(format!(".{extension}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changes_a_file_at_a_time_and_the_others_wait_for_a_bounded_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/file");
        let lock = lock_within(&path, Duration::ZERO).unwrap();
        let error = lock_within(&path, 2 * LOCK_INTERVAL).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::WouldBlock, "another process is changing it; try again")
        );
        write(&path, b"old").unwrap();
        drop(lock);
        let _again = lock_within(&path, Duration::ZERO).unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("old"));
    }
}
