//! Work on all partitions that nobody asks for: deleting what is old, compacting, removing files.

use super::PartitionTable;

impl PartitionTable {
    /// Deletes segments by age and size, and forgets producers that were silent for long.
    pub fn apply_retention(&self) {
        for partition in self.all() {
            let now = self.shared.env.clock.now();
            let high_watermark = partition.high_watermark();
            let result = partition.with_log(|log| {
                log.remove_expired_producers(now);
                log.delete_old_segments(high_watermark, now)
            });
            match result {
                Ok(0) => {}
                Ok(segments) => tracing::info!(
                    topic = %partition.topic, partition = partition.index, segments,
                    log_start_offset = partition.log_start_offset(), "deleted old segments"
                ),
                Err(error) => {
                    tracing::warn!(topic = %partition.topic, partition = partition.index, %error, "retention failed");
                }
            }
        }
    }

    /// Removes the files of deleted segments and the directories of deleted topics whose delay is over.
    pub fn remove_deleted(&self) {
        let now = self.shared.env.clock.now();
        for partition in self.all() {
            if let Err(error) = partition.with_log(|log| log.remove_deleted_files(now)) {
                tracing::warn!(topic = %partition.topic, partition = partition.index, %error, "deleted files stay");
            }
        }
        let delay_ms = self.config.load().log_segment_delete_delay_ms;
        let due: Vec<_> = {
            let mut deleted = self.deleted.lock();
            let is_due = |since: i64| now.monotonic_ms - since >= delay_ms;
            let due = deleted.iter().filter(|(_, since)| is_due(*since)).map(|(dir, _)| dir.clone()).collect();
            deleted.retain(|(_, since)| !is_due(*since));
            due
        };
        for dir in due {
            if let Err(error) = self.shared.env.disk.remove_dir_all(&dir) {
                tracing::warn!(dir = %dir.display(), %error, "the directory of a deleted partition stays");
            }
        }
    }
}
