//! The directories of partitions: what is remembered of them over a restart, and what becomes of those that go.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use log::checkpoint::{self, LOG_START_OFFSET_FILE, Offsets, RECOVERY_POINT_FILE};
use log::disk::replace_file;
use log::{LogError, metadata};

use super::{PartitionTable, Remembered};
use crate::meta::{MetadataImage, TopicName};

/// Exists only between a clean stop and the next start.
const CLEAN_SHUTDOWN_FILE: &str = ".kafka_cleanshutdown";
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

    /// Notes up to where each log is on disk, and where it starts.
    pub fn write_checkpoints(&self) -> Result<(), LogError> {
        let mut recovery_points = Offsets::new();
        let mut log_start_offsets = Offsets::new();
        for partition in self.all() {
            let key = (partition.topic.to_string(), partition.index);
            recovery_points.insert(key.clone(), partition.recovery_point());
            let log_start_offset = partition.log_start_offset();
            if log_start_offset > 0 {
                log_start_offsets.insert(key, log_start_offset);
            }
        }
        let disk = &*self.shared.env.disk;
        let mut noted = self.noted.lock();
        if noted.0 != recovery_points {
            checkpoint::write_offsets(disk, &self.data_dir.join(RECOVERY_POINT_FILE), &recovery_points)?;
            noted.0 = recovery_points;
        }
        if noted.1 != log_start_offsets {
            checkpoint::write_offsets(disk, &self.data_dir.join(LOG_START_OFFSET_FILE), &log_start_offsets)?;
            noted.1 = log_start_offsets;
        }
        Ok(())
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
            let belongs =
                in_image.is_some_and(|topic| index < topic.partitions.len() && id.is_none_or(|id| id == topic.id));
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
