//! What is damaged is renamed, for whoever wants to look at it. Nothing is removed.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::Disk;

const DAMAGED_SUFFIX: &str = ".damaged";
/// Damaged files of one name that are kept beside each other.
const DAMAGED_MAX: u32 = 1000;

/// Renames what is damaged. Nothing happens where there is nothing.
pub fn set_aside(disk: &dyn Disk, path: &Path) -> io::Result<Option<PathBuf>> {
    if !disk.exists(path)? {
        return Ok(None);
    }
    let to = unused(disk, path)?;
    disk.rename(path, &to)?;
    if let Some(dir) = path.parent() {
        disk.sync_dir(dir)?;
    }
    Ok(Some(to))
}

/// The name that something damaged would get.
pub fn unused(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    for number in 1..=DAMAGED_MAX {
        let to = with_suffix(path, &format!("{DAMAGED_SUFFIX}.{number}"));
        if !disk.exists(&to)? {
            return Ok(to);
        }
    }
    Err(io::Error::other(format!("there are {DAMAGED_MAX} damaged files of {}: move them away", path.display())))
}

/// A path with something behind its name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
