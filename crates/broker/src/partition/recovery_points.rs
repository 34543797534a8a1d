//! The recovery point of each log: below it a restart takes a torn batch for damage and leaves it, above it for the end
//! of the log.
//!
//! So a truncated log must not have a recovery point behind its new end when it grows again (`LogManager.truncateTo`).
//! The point is lowered under the log's lock, after the truncation and before any append.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use storage::LogError;
use storage::checkpoint::{self, Offsets, RECOVERY_POINT_FILE};
use storage::disk::Disk;

use super::Partition;

/// What the checkpoint file holds.
#[derive(Default)]
pub struct RecoveryPoints {
    stored: Mutex<Offsets>,
}

impl RecoveryPoints {
    /// Begins with what the file had at the start.
    pub(super) fn remember(&self, offsets: Offsets) {
        *self.stored.lock() = offsets;
    }

    /// Writes the recovery points of all partitions.
    pub(super) fn write(
        &self,
        disk: &dyn Disk,
        data_dir: &Path,
        partitions: &[(Arc<Partition>, i64)],
    ) -> Result<(), LogError> {
        let mut stored = self.stored.lock();
        let offsets = partitions.iter().map(|(partition, recovery_point)| {
            // The log may have been cut since the caller looked; from here on that waits for this lock.
            (key(partition), *recovery_point.min(&partition.view.synced_offset()))
        });
        let offsets: Offsets = offsets.collect();
        if *stored != offsets {
            checkpoint::write_offsets(disk, &data_dir.join(RECOVERY_POINT_FILE), &offsets)?;
            *stored = offsets;
        }
        Ok(())
    }

    /// Lowers the recovery point of a log that ends at `offset` now, at once.
    pub(super) fn lower(&self, partition: &Partition, offset: i64) -> Result<(), LogError> {
        let mut stored = self.stored.lock();
        let key = key(partition);
        if stored.get(&key).is_none_or(|stored| *stored <= offset) {
            return Ok(());
        }
        let mut offsets = stored.clone();
        offsets.insert(key, offset);
        let data_dir = partition.view.dir().parent().unwrap_or(Path::new("/"));
        checkpoint::write_offsets(&*partition.shared.env.disk, &data_dir.join(RECOVERY_POINT_FILE), &offsets)?;
        *stored = offsets;
        Ok(())
    }
}

fn key(partition: &Partition) -> (String, i32) {
    (partition.topic.to_string(), partition.index)
}
