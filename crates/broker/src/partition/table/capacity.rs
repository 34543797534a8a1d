//! What becomes of records when the disk fills up (`disk.capacity.policy`).
//!
//! Free space is looked at ten times a second. When less is free than the threshold wants:
//! 1. What was to be deleted anyway is deleted at once: files of deleted segments and topics without their delay, and
//!    what retention deletes.
//! 2. Topics with `delete-oldest` lose closed segments, the oldest of all of them on this node first, until enough is
//!    free. Each replica deletes by itself, as with retention. Active segments stay, and so do the broker's own topics
//!    and those that are only compacted.
//! 3. If that is not enough, topics with `stop-produce` take no more records. At the reserve no topic does, and the
//!    controller learns it ([`is_cordoned`](crate::partition::DiskPressureState::is_cordoned)): replicas with free
//!    space go on.
//!
//! How much is deleted depends on bytes alone. Timestamps, which come from clocks that jump, only decide the order.
//! Removed bytes that the file system does not show as free yet count as free for a while ([`PendingFree`]), so that
//! nothing else is deleted instead.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::path::Path;
use std::time::Duration;

use storage::disk::{Disk, OpenMode};

use super::PartitionTable;
use crate::partition::DiskPressure;
use crate::stats::Space;

/// Even a small disk keeps most of itself for data: the reserve is at most this part of it, and half of what the
/// threshold keeps free by default.
const RESERVE_PART_MAX: u64 = 40;
/// How often retention is applied while the disk is too full.
const RETENTION_INTERVAL: Duration = Duration::from_secs(5);
/// How long removed bytes are expected to come back: a reader holds them, or the file system frees them later.
const PENDING_FREE_MAX: Duration = Duration::from_secs(30);
/// A broker that has left the ISRs because its disk was full comes back with so much of the reserve free beside it.
const RETURN_PART: u64 = 4;
/// How long a disk that has refused an append is believed to be full, whatever it says of its free space.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// How often a problem of the disk is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// State between two checks of the disk.
#[derive(Default)]
pub(super) struct Capacity {
    pending_free: PendingFree,
    retention_at: Option<Duration>,
    is_cordoned: bool,
    refused_at: Option<Duration>,
    logged_at: Option<Duration>,
    /// It was said that the disk is full, and not yet that it no longer is.
    is_logged: bool,
    deleted_logged_at: Option<Duration>,
    /// What was deleted since that was said.
    deleted: Deleted,
}

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Deleted {
    segments: u64,
    bytes: u64,
}

/// Removed bytes that the file system does not show as free yet.
#[derive(Default)]
struct PendingFree {
    /// At the last look.
    free_bytes: u64,
    written_bytes: u64,
    removed: VecDeque<(Duration, u64)>,
}

impl PendingFree {
    /// Records the free space, and what this broker has written since its start: so much less appears as freed.
    fn look(&mut self, now: Duration, free_bytes: u64, written_bytes: u64) {
        while self.removed.pop_front_if(|(at, _)| now.saturating_sub(*at) >= PENDING_FREE_MAX).is_some() {}
        let written = written_bytes.saturating_sub(self.written_bytes);
        let mut came = free_bytes.saturating_add(written).saturating_sub(self.free_bytes);
        (self.free_bytes, self.written_bytes) = (free_bytes, written_bytes);
        for (_, bytes) in &mut self.removed {
            let part = came.min(*bytes);
            (*bytes, came) = (*bytes - part, came - part);
        }
        self.removed.retain(|(_, bytes)| *bytes > 0);
    }

    fn record_removed(&mut self, now: Duration, bytes: u64) {
        self.removed.push_back((now, bytes));
    }

    /// Free bytes, with removed ones that will be free.
    fn available_bytes(&self) -> u64 {
        self.removed.iter().fold(self.free_bytes, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

impl PartitionTable {
    /// Checks the free space, deletes the oldest segments if that is too little, and refuses records if there is no
    /// other way.
    pub fn watch_disk(&self) {
        let disk = &self.shared.env.disk;
        let (Ok(free_bytes), Ok(total_bytes)) = (disk.free_bytes(&self.data_dir), disk.total_bytes(&self.data_dir))
        else {
            return;
        };
        let config = self.config.load();
        let reserve_bytes = config.disk_reserve_bytes.unsigned_abs().min(total_bytes / RESERVE_PART_MAX);
        let kept_percent = 100 - u64::from(config.disk_capacity_threshold_percent.unsigned_abs());
        // The policy acts before the reserve is touched.
        let threshold_bytes = (total_bytes / 100 * kept_percent).max(reserve_bytes);
        let now = self.shared.env.clock.monotonic();
        let mut capacity = self.capacity.lock();
        capacity.pending_free.look(now, free_bytes, self.written_bytes());
        // Without a policy all of the disk is there to be used.
        let is_beyond = capacity.pending_free.available_bytes() < threshold_bytes;
        let acts = is_beyond && self.all().iter().any(|partition| partition.has_capacity_policy());
        let wanted_bytes = if acts { threshold_bytes } else { reserve_bytes };
        let is_made = self.free_space(&mut capacity, now, wanted_bytes);
        let free_bytes = capacity.pending_free.free_bytes;
        let pressure = match is_made {
            _ if free_bytes < reserve_bytes => DiskPressure::OnlyReserve,
            false => DiskPressure::BeyondThreshold,
            true => DiskPressure::Enough,
        };
        self.shared.disk_pressure.set(pressure);
        if self.shared.disk_pressure.take_refused() {
            capacity.refused_at = Some(now);
        }
        self.shared.disk_pressure.set_cordoned(capacity.cordon(now, free_bytes, reserve_bytes));
        let space = Space {
            free_bytes,
            total_bytes,
            threshold_bytes,
            reserve_bytes,
            is_full: pressure != DiskPressure::Enough,
        };
        self.shared.stats.disk.record(now, space);
        capacity.log_pressure(now, pressure, space);
    }

    /// Frees so many bytes. Returns false if there was not enough that might be deleted.
    fn free_space(&self, capacity: &mut Capacity, now: Duration, wanted_bytes: u64) -> bool {
        let missing = |capacity: &Capacity| wanted_bytes.saturating_sub(capacity.pending_free.available_bytes());
        if missing(capacity) == 0 {
            return true;
        }
        self.record_removed(capacity, now, self.remove_deleted_now());
        let retention_is_due = capacity.retention_at.is_none_or(|at| now.saturating_sub(at) >= RETENTION_INTERVAL);
        if missing(capacity) > 0 && retention_is_due {
            capacity.retention_at = Some(now);
            self.apply_retention();
            self.record_removed(capacity, now, self.remove_deleted_now());
        }
        let missing_bytes = missing(capacity);
        let deleted = self.delete_oldest(missing_bytes);
        self.record_removed(capacity, now, deleted.bytes);
        capacity.log_deleted(now, deleted);
        deleted.bytes >= missing_bytes
    }

    fn record_removed(&self, capacity: &mut Capacity, now: Duration, bytes: u64) {
        if bytes > 0 {
            capacity.pending_free.record_removed(now, bytes);
            if let Ok(free_bytes) = self.shared.env.disk.free_bytes(&self.data_dir) {
                capacity.pending_free.look(now, free_bytes, self.written_bytes());
            }
        }
    }

    /// To the logs that are here now.
    fn written_bytes(&self) -> u64 {
        let topics = self.topics.read();
        topics.by_id.values().map(|topic| topic.traffic.bytes_in.get() + topic.traffic.replication_bytes_in.get()).sum()
    }

    /// Deletes segments, the oldest records first, until so many bytes are freed or nothing is left to delete.
    fn delete_oldest(&self, wanted_bytes: u64) -> Deleted {
        let mut deleted = Deleted::default();
        if wanted_bytes == 0 {
            return deleted;
        }
        let partitions: Vec<_> = self.all().into_iter().filter(|partition| partition.is_evictable()).collect();
        let oldest = |index: usize| {
            let partition = &partitions[index];
            match partition.view().oldest_deletable_timestamp(partition.high_watermark()) {
                Ok(timestamp) => Some(Reverse((timestamp?, index))),
                Err(error) => {
                    tracing::warn!(topic = %partition.topic, partition = partition.index, %error, "does not give way");
                    None
                }
            }
        };
        let mut queue: BinaryHeap<_> = (0..partitions.len()).filter_map(oldest).collect();
        while deleted.bytes < wanted_bytes
            && let Some(Reverse((_, index))) = queue.pop()
        {
            let partition = &partitions[index];
            match partition.evict() {
                Ok(Some(size_bytes)) => {
                    deleted.segments += 1;
                    deleted.bytes += size_bytes;
                    queue.extend(oldest(index));
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(topic = %partition.topic, partition = partition.index, %error, "does not give way");
                }
            }
        }
        self.shared.stats.disk.deleted_segments.add(deleted.segments);
        self.shared.stats.disk.deleted_bytes.add(deleted.bytes);
        deleted
    }

    /// Removes the files of deleted segments and the directories of deleted topics, whatever their delay. Returns how
    /// many bytes they had.
    fn remove_deleted_now(&self) -> u64 {
        let mut bytes = 0;
        for partition in self.all() {
            match partition.with_log(storage::Log::remove_deleted_files_now) {
                Ok(removed) => bytes += removed,
                Err(error) => {
                    tracing::warn!(topic = %partition.topic, partition = partition.index, %error, "deleted files stay");
                }
            }
        }
        let disk = &*self.shared.env.disk;
        for (dir, _) in std::mem::take(&mut *self.deleted.lock()) {
            let size_bytes = size_bytes(disk, &dir).unwrap_or(0);
            match disk.remove_dir_all(&dir) {
                Ok(()) => bytes += size_bytes,
                Err(error) => {
                    tracing::warn!(dir = %dir.display(), %error, "the directory of a deleted partition stays");
                }
            }
        }
        bytes
    }
}

impl Capacity {
    /// Whether others should go on without this broker. It does not come and go with each segment that is deleted.
    fn cordon(&mut self, now: Duration, free_bytes: u64, reserve_bytes: u64) -> bool {
        let wanted_bytes = if self.is_cordoned { reserve_bytes + reserve_bytes / RETURN_PART } else { reserve_bytes };
        let has_refused = self.refused_at.is_some_and(|at| now.saturating_sub(at) < REFUSED_FOR);
        self.is_cordoned = free_bytes < wanted_bytes || has_refused;
        self.is_cordoned
    }

    /// Logs now and then what was deleted.
    fn log_deleted(&mut self, now: Duration, deleted: Deleted) {
        self.deleted.segments += deleted.segments;
        self.deleted.bytes += deleted.bytes;
        let is_due = self.deleted_logged_at.is_none_or(|at| now.saturating_sub(at) >= LOG_INTERVAL);
        if self.deleted.segments > 0 && is_due {
            self.deleted_logged_at = Some(now);
            let Deleted { segments, bytes } = std::mem::take(&mut self.deleted);
            tracing::warn!(segments, bytes, "deleted the oldest segments: the disk was fuller than its threshold");
        }
    }

    /// Logs that the disk is full, now and then as long as it is, and that it no longer is.
    fn log_pressure(&mut self, now: Duration, pressure: DiskPressure, space: Space) {
        let Space { free_bytes, threshold_bytes, reserve_bytes, .. } = space;
        if pressure == DiskPressure::Enough {
            if std::mem::take(&mut self.is_logged) {
                tracing::info!(free_bytes, "there is room on the disk again");
            }
            return;
        }
        if self.logged_at.is_some_and(|at| now.saturating_sub(at) < LOG_INTERVAL) {
            return;
        }
        (self.logged_at, self.is_logged) = (Some(now), true);
        let refused = match pressure {
            DiskPressure::OnlyReserve => "no records are taken",
            _ => "topics with disk.capacity.policy=stop-produce take no records",
        };
        tracing::error!(
            free_bytes,
            threshold_bytes,
            reserve_bytes,
            "the disk is full and nothing more may be deleted: {refused} until there is room"
        );
    }
}

/// Of the files in a directory.
fn size_bytes(disk: &dyn Disk, dir: &Path) -> io::Result<u64> {
    let files = disk.read_dir(dir)?.into_iter().filter(|entry| !entry.is_dir);
    files.map(|file| disk.open(&dir.join(file.name), OpenMode::Read)?.len()).sum()
}

#[cfg(test)]
mod tests;
