//! Which files the journal has, noted apart from them: after a crash, one that was removed is not taken for one that
//! never was.
//!
//! A file is noted before it is used, and the note of it goes before the file does. Where nothing in the journal is
//! needed, nothing is noted.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::JournalError;
use super::ring::file_path;
use crate::checkpoint::{CheckpointError, JOURNAL_FILES_FILE, read_lines, write_lines};
use crate::disk::Disk;

/// The slots that are noted.
pub(super) fn noted_files(disk: &dyn Disk, dir: &Path) -> io::Result<BTreeSet<u32>> {
    match read_lines(disk, &dir.join(JOURNAL_FILES_FILE), |line| line.trim().parse().ok()) {
        Ok(slots) => Ok(slots.unwrap_or_default().into_iter().collect()),
        Err(CheckpointError::Garbage { .. }) => {
            tracing::error!(
                "{JOURNAL_FILES_FILE} is garbage; it is not known whether a file of the journal is missing"
            );
            Ok(BTreeSet::new())
        }
        Err(CheckpointError::Io(error)) => Err(error),
    }
}

/// Notes these and no others, durably, unless that is what is noted.
pub(super) fn note_files(disk: &dyn Disk, dir: &Path, slots: &BTreeSet<u32>) -> io::Result<()> {
    if noted_files(disk, dir)? == *slots {
        return Ok(());
    }
    write_lines(disk, &dir.join(JOURNAL_FILES_FILE), slots.iter().map(u32::to_string))
}

/// Removes a file in which nothing is needed.
pub(super) fn remove_noted(disk: &dyn Disk, dir: &Path, slot: u32) -> io::Result<()> {
    let mut slots = noted_files(disk, dir)?;
    slots.remove(&slot);
    note_files(disk, dir, &slots)?;
    disk.remove_file(&file_path(dir, slot))
}

/// Noted files that are not there.
pub(super) fn missing_files(disk: &dyn Disk, dir: &Path, present: &BTreeSet<u32>) -> io::Result<Vec<PathBuf>> {
    Ok(noted_files(disk, dir)?.difference(present).map(|&slot| file_path(dir, slot)).collect())
}

/// Fails if a noted file is not there.
pub(super) fn check_noted(disk: &dyn Disk, dir: &Path, present: &BTreeSet<u32>) -> Result<(), JournalError> {
    let missing = missing_files(disk, dir, present)?;
    match missing.into_iter().next() {
        Some(path) => Err(JournalError::Missing { path, dir: dir.to_owned() }),
        None => Ok(()),
    }
}
