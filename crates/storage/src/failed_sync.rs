//! What a failed sync leaves for the next process to know.
//!
//! After a failed sync the kernel may call pages clean that were never written. They are still in its memory, so the
//! next process reads them like all others, and its syncs succeed without a byte going to the disk. Therefore a log
//! that fails leaves a file behind, and the opening of a log that finds it writes again what may be missing. The file
//! needs no sync: what makes the machine forget it makes it forget the pages too.
//!
//! It is written again behind pages that are dropped first: on ext4, blocks that were allocated and could not be
//! written stay unwritten whatever is written to the pages that it has of them. What the journal has is compared with
//! what the disk has, and not with such pages.

use std::io::{self, IoSlice};
use std::path::Path;

use crate::disk::{Disk, File, OpenMode, read_up_to, write_all_at};
use crate::names::SYNC_FAILED;
use crate::part::Part;

/// A piece is read before its pages are dropped, and must not take a part of the next one with it: large pages begin at
/// multiples of their size, and none is larger than this.
const PIECE_BYTES: u64 = 8 << 20;

/// Leaves the file. On a disk that takes no more changes there is none, and no next process either.
pub(crate) fn note(disk: &dyn Disk, dir: &Path) {
    if let Err(error) = disk.open(&dir.join(SYNC_FAILED), OpenMode::CreateEmpty) {
        tracing::warn!(dir = %dir.display(), %error, "cannot note that the log failed");
    }
}

/// Has a file read from the disk from a position on, if what is in memory of it may never have been written. `dir` is
/// that of its log.
pub(crate) fn read_from_disk_if_failed(disk: &dyn Disk, dir: &Path, file: &dyn File, position: u64) -> io::Result<()> {
    if forget_error(file) || disk.exists(&dir.join(SYNC_FAILED))? {
        let position = position - position % PIECE_BYTES;
        file.drop_cached(position, file.len()?.saturating_sub(position))?;
    }
    Ok(())
}

/// Syncs a file, of which the system may have to tell an error from before this process: it does so once. Returns
/// whether there was one.
fn forget_error(file: &dyn File) -> bool {
    file.sync_data().is_err()
}

/// Writes the segments again and syncs them, if the process before has left the file.
pub(crate) fn write_again(disk: &dyn Disk, dir: &Path, parts: &[Part]) -> io::Result<()> {
    let path = dir.join(SYNC_FAILED);
    if !disk.exists(&path)? {
        return Ok(());
    }
    let mut buffer = Vec::new();
    for part in parts {
        write_file_again(&*part.segment.log_file()?, part.size, &mut buffer)?;
        for index in [part.segment.index_file()?, part.segment.time_index_file()?] {
            write_file_again(&*index, index.len()?, &mut buffer)?;
        }
    }
    tracing::warn!(dir = %dir.display(), segments = parts.len(), "wrote again what a failed sync may have left out");
    disk.remove_file(&path)
}

fn write_file_again(file: &dyn File, bytes: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    // Pages that have changed since are not dropped.
    forget_error(file);
    let mut position = 0;
    while position < bytes {
        buffer.resize((bytes - position).min(PIECE_BYTES) as usize, 0);
        let filled = read_up_to(file, buffer, position)?;
        if filled == 0 {
            break;
        }
        file.drop_cached(position, filled as u64)?;
        write_all_at(file, &mut [IoSlice::new(&buffer[..filled])], position)?;
        position += filled as u64;
    }
    file.sync_data()
}
