//! Small files that must not be lost to a flipped bit: each is there twice, and one that is damaged is rebuilt from the
//! other. Nothing is removed: what is damaged is renamed, for whoever wants to look at it.

use std::io;
use std::path::{Path, PathBuf};

use log::disk::{Disk, read_file, replace_file};

use super::QuorumError;

/// What stands behind the name of the second copy, and of what is damaged.
pub(super) const COPY_SUFFIX: &str = ".copy";
const DAMAGED_SUFFIX: &str = ".damaged";
/// Damaged files of one name that are kept beside each other.
const DAMAGED_MAX: u32 = 1000;

pub(super) fn copy_of(path: &Path) -> PathBuf {
    with_suffix(path, COPY_SUFFIX)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Writes a file and its copy. Durable when this returns. The copy comes first: it is never older than the file.
pub(super) fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_file(disk, &copy_of(path), bytes)?;
    replace_file(disk, path, bytes)
}

/// Renames what is damaged. Nothing happens where there is nothing.
pub(crate) fn set_aside(disk: &dyn Disk, path: &Path) -> io::Result<Option<PathBuf>> {
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
pub(crate) fn unused(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    for number in 1..=DAMAGED_MAX {
        let to = with_suffix(path, &format!("{DAMAGED_SUFFIX}.{number}"));
        if !disk.exists(&to)? {
            return Ok(to);
        }
    }
    Err(io::Error::other(format!("there are {DAMAGED_MAX} damaged files of {}: move them away", path.display())))
}

/// Reads a file through `parse`, or else its copy, from which it is made anew then. `None` if neither is there. Where
/// both are damaged the error is the file's own.
pub(super) fn read<T>(
    disk: &dyn Disk,
    path: &Path,
    bytes_max: usize,
    parse: impl Fn(Vec<u8>) -> Result<T, QuorumError>,
) -> Result<Option<T>, QuorumError> {
    let reason = match load(disk, path, bytes_max, &parse) {
        Ok(None) => "it is not there".to_owned(),
        Err(QuorumError::Corrupt(reason)) => reason.to_string(),
        found => return found,
    };
    let bytes_of_copy = match read_file(disk, &copy_of(path), bytes_max) {
        Ok(bytes) => bytes,
        Err(_) => return load(disk, path, bytes_max, &parse),
    };
    let Ok(value) = parse(bytes_of_copy.clone()) else { return load(disk, path, bytes_max, &parse) };
    let kept_as = set_aside(disk, path)?.unwrap_or_default();
    replace_file(disk, path, &bytes_of_copy)?;
    tracing::warn!(
        file = %path.display(), reason, kept_as = %kept_as.display(),
        "a file of the metadata was damaged, and is made anew from its copy"
    );
    Ok(Some(value))
}

/// The same, without making anything anew.
pub(super) fn look_at<T>(
    disk: &dyn Disk,
    path: &Path,
    bytes_max: usize,
    parse: impl Fn(Vec<u8>) -> Result<T, QuorumError>,
) -> Result<Option<T>, QuorumError> {
    match load(disk, path, bytes_max, &parse) {
        found @ (Ok(None) | Err(QuorumError::Corrupt(_))) => match load(disk, &copy_of(path), bytes_max, &parse) {
            copy @ Ok(Some(_)) => copy,
            _ => found,
        },
        found => found,
    }
}

fn load<T>(
    disk: &dyn Disk,
    path: &Path,
    bytes_max: usize,
    parse: &impl Fn(Vec<u8>) -> Result<T, QuorumError>,
) -> Result<Option<T>, QuorumError> {
    match read_file(disk, path, bytes_max) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(QuorumError::corrupt(error)),
        bytes => parse(bytes?).map(Some),
    }
}
