//! The journal of a data directory whose broker is down, as its operator asks for it with `parshall journal`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use metadata::properties::{self, PropertiesError};
use platform::Env;
use storage::Disk;
use storage::checkpoint::{self, CheckpointError, LOG_START_OFFSET_FILE, Offsets, RECOVERY_POINT_FILE};
use storage::journal::{self as stored, Known};
pub use storage::journal::{Inspected, JournalError, JournalFile, NeededSum, Replayed};
use wire::Uuid;

#[derive(Debug, thiserror::Error)]
pub enum OfflineJournalError {
    #[error(transparent)]
    Properties(#[from] PropertiesError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("{} is no data directory of a node: it has no meta.properties", .0.display())]
    NoNode(PathBuf),
}

/// Looks at the journal, and calls `each` with what is needed of it. Changes nothing.
pub fn inspect(
    disk: &dyn Disk,
    data_dir: &Path,
    each: &mut dyn FnMut(Inspected<'_>) -> Result<(), JournalError>,
) -> Result<Vec<JournalFile>, OfflineJournalError> {
    Ok(stored::inspect(disk, data_dir, directory_id(disk, data_dir)?, each)?)
}

/// Writes into the segments what a crash left in the journal only, as a start does. The lock of the directory has to be
/// held ([`lock`](crate::recover::lock)).
pub fn apply(env: &Env, data_dir: &Path) -> Result<Replayed, OfflineJournalError> {
    let disk = &env.disk;
    let directory_id = directory_id(&**disk, data_dir)?;
    let read = |name| match checkpoint::read_offsets(&**disk, &data_dir.join(name)) {
        Ok(offsets) => Ok(offsets.unwrap_or_default()),
        // As at a start: without it more is written than need be.
        Err(CheckpointError::Garbage { .. }) => Ok(Offsets::new()),
        Err(CheckpointError::Io(error)) => Err(JournalError::Io(error)),
    };
    let (recovery_points, log_start_offsets) = (read(RECOVERY_POINT_FILE)?, read(LOG_START_OFFSET_FILE)?);
    let known = |directory: &str| Known::of(directory, &recovery_points, &log_start_offsets);
    let epoch = u64::from_be_bytes(*env.random.bytes().first_chunk().expect("16 bytes have 8"));
    Ok(stored::apply(Arc::clone(disk), data_dir, directory_id, epoch, &known)?)
}

/// Has files of the journal that are missing not expected any more. Returns them. The lock of the directory has to be
/// held.
pub fn forget(disk: &dyn Disk, data_dir: &Path) -> Result<Vec<PathBuf>, OfflineJournalError> {
    Ok(stored::forget(disk, data_dir, directory_id(disk, data_dir)?)?)
}

/// As [`apply`], and removes the files: the directory is about to get another id, and they would be foreign to it.
pub(crate) fn dissolve(env: &Env, data_dir: &Path) -> Result<Replayed, OfflineJournalError> {
    let replayed = apply(env, data_dir)?;
    stored::remove(&*env.disk, data_dir, directory_id(&*env.disk, data_dir)?)?;
    Ok(replayed)
}

fn directory_id(disk: &dyn Disk, data_dir: &Path) -> Result<Uuid, OfflineJournalError> {
    let own = properties::look_at(disk, data_dir)?;
    own.map(|own| own.directory_id).ok_or_else(|| OfflineJournalError::NoNode(data_dir.to_owned()))
}
