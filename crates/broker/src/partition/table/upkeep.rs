//! Background work on all partitions: retention, compaction, removing files.

use std::sync::atomic::Ordering;

use storage::checkpoint::{self, CLEANER_OFFSET_FILE};
use storage::{CompactionLimits, LogError, ScrubCursor};

use super::PartitionTable;
use super::pace::Pace;

/// Memory that a key takes while its log is compacted.
const BYTES_PER_KEY: i64 = 64;
/// No batch is larger when it is decompressed: what a producer may send is bounded by far less.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 30;

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

    /// Compacts the logs that are due. The position of each is kept, so that a restart does not begin again.
    pub fn compact(&self) {
        let hash_key = self.shared.env.random.bytes();
        let (low, high) = hash_key.split_at(8);
        let key_half = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("16 bytes are two times 8"));
        let limits = CompactionLimits {
            keys_max: (self.config.load().log_cleaner_dedupe_buffer_size / BYTES_PER_KEY) as usize,
            decompressed_bytes_max: DECOMPRESSED_BYTES_MAX,
            hash_key: [key_half(low), key_half(high)],
        };
        let pace = Pace::new(&*self.shared.env.clock);
        let moved = |bytes| {
            let rate = || self.config.load().log_cleaner_io_max_bytes_per_second;
            pace.wait(bytes, rate, || self.stopping.load(Ordering::Relaxed));
        };
        let noted = self.noted_recovery_points();
        let mut cleaned_to = self.cleaned_to.lock();
        let before = cleaned_to.clone();
        for partition in self.all().iter().filter(|partition| partition.settings().is_compacted) {
            if self.stopping.load(Ordering::Relaxed) {
                break;
            }
            let key = (partition.topic.to_string(), partition.index);
            let noted = noted.as_ref().map(|noted| noted.get(&key).copied().unwrap_or(0));
            let offset = cleaned_to.entry(key).or_default();
            match partition.compact(*offset, noted, limits, &self.stopping, &moved) {
                Ok(reached) => *offset = reached,
                Err(LogError::Corrupt { first_offset, .. }) => {
                    partition.report_damage();
                    tracing::warn!(
                        topic = %partition.topic, partition = partition.index, first_offset,
                        "not compacted: a damaged batch hides what keys it has"
                    );
                }
                Err(error) => {
                    tracing::warn!(topic = %partition.topic, partition = partition.index, %error, "not compacted");
                }
            }
        }
        let path = self.data_dir.join(CLEANER_OFFSET_FILE);
        if *cleaned_to != before
            && let Err(error) = checkpoint::write_offsets(&*self.shared.env.disk, &path, &cleaned_to)
        {
            tracing::warn!(%error, "cannot note what is compacted; a restart compacts it again");
        }
    }

    /// Checks so many bytes of stored batches, going on where the last call ended. Damage is reported and remembered,
    /// so that reading it is refused with its offsets.
    pub fn scrub(&self, bytes: u64) {
        let now = self.shared.env.clock.now();
        let mut scrub = self.scrub.lock();
        let mut left = bytes;
        while left > 0 {
            let Some(partition) = scrub.partitions.last().cloned() else {
                // A new round, at most one for each call.
                scrub.partitions = self.all();
                return;
            };
            match partition.view().scrub(&mut scrub.cursor, left, now) {
                Ok(scrubbed) => {
                    for bad in &scrubbed.bad_ranges {
                        tracing::error!(
                            topic = %partition.topic, partition = partition.index,
                            first_offset = bad.first_offset, next_offset = bad.next_offset,
                            "a stored batch is damaged and unreadable; the log goes on behind it"
                        );
                    }
                    if !scrubbed.bad_ranges.is_empty() {
                        partition.report_damage();
                    }
                    left = left.saturating_sub(scrubbed.bytes);
                    if !scrubbed.is_done {
                        continue;
                    }
                }
                Err(error) => {
                    tracing::debug!(topic = %partition.topic, partition = partition.index, %error, "not scrubbed");
                }
            }
            scrub.partitions.pop();
            scrub.cursor = ScrubCursor::default();
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
