//! Small files that must not be lost to a flipped bit: each is there twice, and one that is damaged is rebuilt from the
//! other. Nothing is removed: a damaged file is renamed, so that an operator can look at it.

use std::io;
use std::path::{Path, PathBuf};

use storage::disk::{Disk, read_file, replace_file};
use storage::set_aside::{set_aside, with_suffix};

use super::QuorumError;

/// What stands behind the name of the second copy.
pub(super) const COPY_SUFFIX: &str = ".copy";

pub(super) fn copy_of(path: &Path) -> PathBuf {
    with_suffix(path, COPY_SUFFIX)
}

/// Writes a file and its copy. Durable when this returns. The copy comes first: it is never older than the file.
pub(super) fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_file(disk, &copy_of(path), bytes)?;
    replace_file(disk, path, bytes)
}

/// Reads a file through `parse`, or else its copy, from which it is then restored. `None` if neither is there. Where
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

/// The same, without restoring anything.
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
