//! The directories of partitions: what is kept of them over a restart, and what becomes of deleted ones.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use metadata::{MetadataImage, TopicName};
use parking_lot::Mutex;
use quorum::METADATA_DIR;
use storage::checkpoint::{self, HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, Offsets, RECOVERY_POINT_FILE};
use storage::disk::replace_file;
use storage::{LogError, partition_metadata};
use wire::Uuid;

use super::{CheckpointedOffsets, OpenTopic, PartitionTable, Remembered, Slot, for_each_log};
use crate::partition::Partition;

/// Exists only between a clean stop and the next start.
const CLEAN_SHUTDOWN_FILE: &str = ".kafka_cleanshutdown";
/// What Kafka puts behind the names of directories that are to be removed, or belong to no topic.
const DELETED_SUFFIX: &str = "-delete";
const STRAY_SUFFIX: &str = "-stray";
/// Directories that belong to no partition, as many as are named in one line of the log.
const STRAYS_NAMED_MAX: usize = 20;

/// Whose log a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// There is no directory.
    Nobody,
    /// The partition of its name, and whether its own file says so.
    Partition { is_recorded: bool },
    /// A topic that the metadata had once.
    Deleted(Uuid),
    /// Its file has another topic's id, which is in the metadata or may be damaged.
    Unknown(Uuid),
}

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
        let checkpointed = CheckpointedOffsets {
            recovery_points: self.read_checkpoint(RECOVERY_POINT_FILE),
            log_start_offsets: self.read_checkpoint(LOG_START_OFFSET_FILE),
            high_watermarks: self.read_checkpoint(HIGH_WATERMARK_FILE),
        };
        Ok(Remembered { checkpointed, clean_shutdown })
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

    /// Writes up to where each log is on disk, where it starts, and up to where it is replicated.
    pub fn write_checkpoints(&self) -> Result<(), LogError> {
        // Before the lock, for which a new partition may wait: this writes files.
        self.all().iter().for_each(Partition::snapshot_if_due);
        // Held throughout, so that no log of before has an offset in it after `forget_checkpointed`.
        let mut stored = self.checkpointed.lock();
        let mut new = CheckpointedOffsets::default();
        for partition in self.all() {
            let key = (partition.topic.to_string(), partition.index);
            let log_start_offset = partition.log_start_offset();
            if log_start_offset > 0 {
                new.log_start_offsets.insert(key.clone(), log_start_offset);
            }
            // Without other replicas it is the log's end anyway.
            if !partition.is_alone() {
                // What is not on disk, here or on another in-sync replica, may be lost at the next start: then it was
                // never visible.
                let durable_offset = partition.durable_offset().min(partition.view().durable_offset());
                new.high_watermarks.insert(key.clone(), partition.high_watermark().min(durable_offset));
            }
            let synced_offset = match storage::injected_fault!(RecoveryPointFromJournal) {
                true => partition.view().durable_offset(),
                false => partition.view().synced_offset(),
            };
            new.recovery_points.insert(key, synced_offset);
        }
        self.store_checkpointed(&mut stored, new)
    }

    /// Removes what the checkpoints have of a partition, before a log is created for it.
    pub(super) fn forget_checkpointed(&self, key: &(String, i32)) -> Result<(), LogError> {
        let mut stored = self.checkpointed.lock();
        let all = [&stored.recovery_points, &stored.log_start_offsets, &stored.high_watermarks];
        if !all.iter().any(|offsets| offsets.contains_key(key)) {
            return Ok(());
        }
        let mut new = stored.clone();
        for offsets in [&mut new.recovery_points, &mut new.log_start_offsets, &mut new.high_watermarks] {
            offsets.remove(key);
        }
        self.store_checkpointed(&mut stored, new)
    }

    fn store_checkpointed(&self, stored: &mut CheckpointedOffsets, new: CheckpointedOffsets) -> Result<(), LogError> {
        let write = |name, stored: &mut Offsets, new: Offsets| {
            if *stored != new {
                checkpoint::write_offsets(&*self.shared.env.disk, &self.data_dir.join(name), &new)?;
                *stored = new;
            }
            Ok::<_, LogError>(())
        };
        write(RECOVERY_POINT_FILE, &mut stored.recovery_points, new.recovery_points)?;
        write(LOG_START_OFFSET_FILE, &mut stored.log_start_offsets, new.log_start_offsets)?;
        write(HIGH_WATERMARK_FILE, &mut stored.high_watermarks, new.high_watermarks)
    }

    /// Closes all logs. After this the next start has nothing to check.
    pub fn close(&self) -> Result<(), LogError> {
        self.stopping.store(true, Ordering::Relaxed);
        let failed = Mutex::default();
        for_each_log(self.all(), |partition| {
            if let Err(error) = partition.close() {
                tracing::error!(topic = %partition.topic, partition = partition.index, %error, "the log did not close cleanly");
                *failed.lock() = Some(error);
            }
        });
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        self.write_checkpoints()?;
        self.close_journal()?;
        let marker = self.data_dir.join(CLEAN_SHUTDOWN_FILE);
        Ok(replace_file(&*self.shared.env.disk, &marker, b"{\"version\":0}")?)
    }

    /// Whose log a directory holds that has the name of a partition of topic `topic_id`. A missing or damaged metadata
    /// file is taken to match the name, as everything in a log's directory can be rebuilt except the log.
    pub(super) fn owner(&self, dir: &Path, topic_id: Uuid, image: &MetadataImage) -> Result<Owner, LogError> {
        let disk = &*self.shared.env.disk;
        if !disk.exists(dir)? {
            return Ok(Owner::Nobody);
        }
        let stored = partition_metadata::read_stored_topic_id(disk, dir)?;
        Ok(match stored.id.filter(|id| *id != topic_id) {
            None => Owner::Partition { is_recorded: stored.is_whole },
            // Ids are unique, so an unknown one was there before.
            Some(id) if stored.is_checked && image.topic_by_id(id).is_none() => Owner::Deleted(id),
            Some(id) => Owner::Unknown(id),
        })
    }

    /// Whether the directory of a partition that is not open holds its log.
    pub(super) fn holds(&self, topic: &OpenTopic, index: usize) -> bool {
        let dir = self.data_dir.join(format!("{}-{index}", topic.name));
        let stored = partition_metadata::read_topic_id(&*self.shared.env.disk, &dir);
        stored.is_ok_and(|id| id == Some(topic.id))
    }

    /// Renames the directory of a deleted topic whose name another one has by now. Its records can still be had.
    pub(super) fn set_aside_stray(&self, dir: &Path, topic_id: Uuid) -> Result<(), LogError> {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let to = self.unused_name(&name, STRAY_SUFFIX);
        tracing::warn!(
            dir = %dir.display(), %topic_id, to = %to.display(),
            "a deleted topic had this name before; its directory is renamed, and may be removed"
        );
        self.rename(dir, &to)
    }

    /// Queues what is left of deleted topics for removal, and names directories that belong to no partition here. They
    /// stay as they are: the next start may have their topics again.
    pub(super) fn report_strays(&self) {
        let entries = match self.shared.env.disk.read_dir(&self.data_dir) {
            Ok(entries) => entries,
            Err(error) => return tracing::warn!(%error, "the directories of deleted topics stay"),
        };
        let mut strays = Vec::new();
        for entry in entries.into_iter().filter(|entry| entry.is_dir) {
            if entry.name.ends_with(DELETED_SUFFIX) {
                self.queue_removal(self.data_dir.join(&entry.name));
            } else if let Some((topic, index)) = partition_of(&entry.name) {
                let topics = self.topics.read();
                let slot = topics.by_name.get(topic).and_then(|topic| topic.partitions.get(index));
                if slot.is_none_or(|slot| matches!(slot, Slot::Elsewhere)) && entry.name != METADATA_DIR {
                    strays.push(entry.name);
                }
            }
        }
        if !strays.is_empty() {
            let (count, some) = (strays.len(), &strays[..strays.len().min(STRAYS_NAMED_MAX)]);
            tracing::warn!(
                count, dirs = ?some,
                "directories belong to no partition of this broker; they stay as they are, and may be moved away if their \
                 topics were deleted or moved to other brokers"
            );
        }
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
