//! The directories of partitions: what is remembered of them over a restart, and what becomes of those that go.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use log::checkpoint::{self, LOG_START_OFFSET_FILE, Offsets, RECOVERY_POINT_FILE};
use log::disk::replace_file;
use log::{LogError, metadata};

use super::{Noted, PartitionTable, Remembered};
use crate::meta::{MetadataImage, Topic, TopicName};

/// Exists only between a clean stop and the next start.
const CLEAN_SHUTDOWN_FILE: &str = ".kafka_cleanshutdown";
/// Up to where consumers may read each log.
const HIGH_WATERMARK_FILE: &str = "replication-offset-checkpoint";
/// What Kafka puts behind the names of directories that are to be removed, or belong to no topic.
const DELETED_SUFFIX: &str = "-delete";
const STRAY_SUFFIX: &str = "-stray";

impl PartitionTable {
    pub(super) fn read_remembered(&self) -> Result<Remembered, LogError> {
        let disk = &*self.shared.env.disk;
        let marker = self.data_dir.join(CLEAN_SHUTDOWN_FILE);
        let clean_shutdown = disk.exists(&marker)?;
        if clean_shutdown {
            // From now on a crash is possible again.
            disk.remove_file(&marker)?;
            disk.sync_dir(&self.data_dir)?;
        }
        Ok(Remembered {
            recovery_points: self.read_checkpoint(RECOVERY_POINT_FILE),
            log_start_offsets: self.read_checkpoint(LOG_START_OFFSET_FILE),
            high_watermarks: self.read_checkpoint(HIGH_WATERMARK_FILE),
            clean_shutdown,
        })
    }

    /// A checkpoint that is missing or garbage costs time, nothing else.
    pub(super) fn read_checkpoint(&self, name: &str) -> Offsets {
        match checkpoint::read_offsets(&*self.shared.env.disk, &self.data_dir.join(name)) {
            Ok(offsets) => offsets.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(file = name, %error, "a checkpoint is unreadable; the logs are checked from their start");
                Offsets::new()
            }
        }
    }

    /// Notes up to where each log is on disk, where it starts, and up to where it is replicated.
    pub fn write_checkpoints(&self) -> Result<(), LogError> {
        let disk = &*self.shared.env.disk;
        let mut new = Noted::default();
        let mut recovery_points = Vec::new();
        for partition in self.all() {
            let key = (partition.topic.to_string(), partition.index);
            let log_start_offset = partition.log_start_offset();
            if log_start_offset > 0 {
                new.log_start_offsets.insert(key.clone(), log_start_offset);
            }
            // Without other replicas it is the log's end anyway.
            if !partition.is_alone() {
                new.high_watermarks.insert(key, partition.high_watermark());
            }
            let recovery_point = partition.recovery_point();
            recovery_points.push((partition, recovery_point));
        }
        self.shared.recovery_points.note(disk, &self.data_dir, &recovery_points)?;
        let mut noted = self.noted.lock();
        let note = |name, known: &mut Offsets, offsets: Offsets| {
            if *known != offsets {
                checkpoint::write_offsets(disk, &self.data_dir.join(name), &offsets)?;
                *known = offsets;
            }
            Ok::<_, LogError>(())
        };
        note(LOG_START_OFFSET_FILE, &mut noted.log_start_offsets, new.log_start_offsets)?;
        note(HIGH_WATERMARK_FILE, &mut noted.high_watermarks, new.high_watermarks)
    }

    /// Closes all logs. After this the next start has nothing to check.
    pub fn close(&self) -> Result<(), LogError> {
        self.stopping.store(true, Ordering::Relaxed);
        let mut result = Ok(());
        for partition in self.all() {
            if let Err(error) = partition.with_log(log::Log::close) {
                tracing::error!(topic = %partition.topic, partition = partition.index, %error, "the log did not close cleanly");
                result = Err(error);
            }
        }
        result?;
        self.write_checkpoints()?;
        let marker = self.data_dir.join(CLEAN_SHUTDOWN_FILE);
        Ok(replace_file(&*self.shared.env.disk, &marker, b"{\"version\":0}")?)
    }

    /// Renames directories that belong to no partition of the metadata, and queues those of deleted topics for removal.
    pub(super) fn set_aside_strays(&self, image: &MetadataImage) -> Result<(), LogError> {
        let disk = &*self.shared.env.disk;
        for entry in disk.read_dir(&self.data_dir)? {
            if !entry.is_dir {
                continue;
            }
            let dir = self.data_dir.join(&entry.name);
            if entry.name.ends_with(DELETED_SUFFIX) {
                self.queue_removal(dir);
                continue;
            }
            let Some((topic, index)) = partition_of(&entry.name) else { continue };
            let in_image = image.topic(topic);
            let id = metadata::read_topic_id(disk, &dir)?;
            let is_replicated = |topic: &Arc<Topic>| topic.partitions.get(index).is_some_and(|p| self.replicates(p));
            let belongs = in_image.is_some_and(|topic| is_replicated(topic) && id.is_none_or(|id| id == topic.id));
            if !belongs && entry.name != crate::quorum::METADATA_DIR {
                tracing::warn!(dir = entry.name, "a directory belongs to no partition; it is renamed and left alone");
                self.rename(&dir, &self.unused_name(&entry.name, STRAY_SUFFIX))?;
            }
        }
        Ok(())
    }

    /// Takes the directory of a partition of a deleted topic out of the way. It is removed after
    /// `file.delete.delay.ms`.
    pub(super) fn set_aside_deleted(&self, topic: &TopicName, index: usize) {
        let name = format!("{topic}-{index}");
        let to = self.unused_name(&name, DELETED_SUFFIX);
        match self.rename(&self.data_dir.join(&name), &to) {
            Ok(()) => self.queue_removal(to),
            Err(error) => tracing::error!(dir = name, %error, "the directory of a deleted partition stays"),
        }
    }

    fn queue_removal(&self, dir: PathBuf) {
        let now = self.shared.env.clock.now().monotonic_ms;
        self.deleted.lock().push((dir, now));
    }

    fn unused_name(&self, name: &str, suffix: &str) -> PathBuf {
        // The whole name must fit into 255 bytes; a topic's may have 249 (`LogManager.logDeleteDirName`).
        let id = self.shared.env.new_id();
        let tail = format!(".{id}{suffix}");
        let kept = name.len().min(255 - tail.len());
        self.data_dir.join(format!("{}{tail}", &name[..kept]))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), LogError> {
        let disk = &self.shared.env.disk;
        disk.rename(from, to)?;
        Ok(disk.sync_dir(&self.data_dir)?)
    }
}

/// The topic and partition that a directory's name stands for.
fn partition_of(name: &str) -> Option<(&str, usize)> {
    let (topic, index) = name.rsplit_once('-')?;
    let index = index.parse().ok()?;
    TopicName::new(topic).is_ok().then_some((topic, index))
}
