//! What a failed sync leaves for the next process to know.
//!
//! After a failed sync the kernel may call pages clean that were never written. They are still in its memory, so the
//! next process reads them like all others, and its syncs succeed without a byte going to the disk. Therefore a log
//! that fails leaves a file behind, and the opening of a log that finds it writes again what may be missing. The file
//! needs no sync: what makes the machine forget it makes it forget the pages too.

use std::io::{self, IoSlice};
use std::path::Path;

use crate::disk::{Disk, OpenMode, read_up_to, write_all_at};
use crate::names::SYNC_FAILED;
use crate::part::Part;

const BUFFER_BYTES: usize = 256 * 1024;

/// Leaves the file. On a disk that takes no more changes there is none, and no next process either.
pub(crate) fn note(disk: &dyn Disk, dir: &Path) {
    if let Err(error) = disk.open(&dir.join(SYNC_FAILED), OpenMode::CreateEmpty) {
        tracing::warn!(dir = %dir.display(), %error, "cannot note that the log failed");
    }
}

/// Writes the segments again and syncs them, if the process before has left the file.
pub(crate) fn write_again(disk: &dyn Disk, dir: &Path, parts: &[Part]) -> io::Result<()> {
    let path = dir.join(SYNC_FAILED);
    if !disk.exists(&path)? {
        return Ok(());
    }
    let mut buffer = vec![0; BUFFER_BYTES];
    for part in parts {
        let file = part.segment.log_file()?;
        let mut position = 0;
        while position < part.size {
            let wanted = (part.size - position).min(BUFFER_BYTES as u64) as usize;
            let filled = read_up_to(&*file, &mut buffer[..wanted], position)?;
            if filled == 0 {
                break;
            }
            write_all_at(&*file, &mut [IoSlice::new(&buffer[..filled])], position)?;
            position += filled as u64;
        }
        file.sync_data()?;
    }
    tracing::warn!(dir = %dir.display(), segments = parts.len(), "wrote again what a failed sync may have left out");
    disk.remove_file(&path)
}
