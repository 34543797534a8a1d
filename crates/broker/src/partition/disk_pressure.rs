//! Whether the disk has space for records, and how a partition frees some (`disk.capacity.policy`).
//!
//! It is set by [`PartitionTable::watch_disk`](super::PartitionTable::watch_disk).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use configuration::DiskCapacityPolicy;
use metadata::is_internal;
use storage::LogError;
use wire::ErrorCode;

use super::{Partition, Refusal};

/// What the last look at the disk has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskPressure {
    Enough,
    /// More than the threshold allows is in use, and nothing is left that may be deleted.
    BeyondThreshold,
    OnlyReserve,
}

/// The state of the disk, which all partitions of a broker check before they append.
#[derive(Debug, Default)]
pub struct DiskPressureState {
    pressure: AtomicU8,
    is_stalled: AtomicBool,
    is_cordoned: AtomicBool,
    has_refused: AtomicBool,
}

impl DiskPressureState {
    pub fn get(&self) -> DiskPressure {
        match self.pressure.load(Ordering::Relaxed) {
            0 => DiskPressure::Enough,
            1 => DiskPressure::BeyondThreshold,
            _ => DiskPressure::OnlyReserve,
        }
    }

    pub fn set(&self, pressure: DiskPressure) {
        self.pressure.store(pressure as u8, Ordering::Relaxed);
    }

    /// Sets whether the disk answers. Returns whether that has changed.
    pub fn set_stalled(&self, is_stalled: bool) -> bool {
        self.is_stalled.swap(is_stalled, Ordering::Relaxed) != is_stalled
    }

    pub fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// Whether this broker should be in sync with nothing and lead nothing that others can.
    pub fn is_cordoned(&self) -> bool {
        self.is_cordoned.load(Ordering::Relaxed)
    }

    pub fn set_cordoned(&self, is_cordoned: bool) {
        self.is_cordoned.store(is_cordoned, Ordering::Relaxed);
    }

    /// The disk has refused an append, whatever it says of its free space: there are quotas and limits.
    pub(super) fn record_refused(&self) {
        self.has_refused.store(true, Ordering::Relaxed);
    }

    /// Whether the disk has refused an append since the last call.
    pub fn take_refused(&self) -> bool {
        self.has_refused.swap(false, Ordering::Relaxed)
    }
}

impl Partition {
    /// Refuses what a client sends. The reserve is there for the broker's own topics, so that groups go on while
    /// producers wait for free space.
    pub(super) fn check_disk_space(&self) -> Result<(), Refusal> {
        let cause = match self.shared.disk_pressure.get() {
            _ if self.shared.disk_pressure.is_stalled() => "the disk does not answer",
            DiskPressure::Enough => return Ok(()),
            DiskPressure::BeyondThreshold if self.policy() != DiskCapacityPolicy::StopProduce => return Ok(()),
            _ if is_internal(&self.topic) => return Ok(()),
            DiskPressure::BeyondThreshold => {
                "the disk is full: more of it is in use than disk.capacity.threshold.percent"
            }
            DiskPressure::OnlyReserve => "the disk is full: only disk.reserve.bytes are left",
        };
        Err(Refusal { message: Some(cause.to_owned()), ..ErrorCode::KAFKA_STORAGE_ERROR.into() })
    }

    /// Refuses all requests that wait for a stalled disk. What is under way may still be appended.
    pub fn refuse_for_stall(&self) {
        let queued = self.queue.lock().take().into_iter().map(|queued| queued.sender);
        // A coordinator has to know what becomes of what is being appended: what it knows is what its log says.
        let appending = match is_internal(&self.topic) {
            true => Vec::new(),
            false => std::mem::take(&mut *self.appending.lock()),
        };
        for sender in queued.chain(appending) {
            sender.completion.fill(sender.slot, ErrorCode::KAFKA_STORAGE_ERROR.into());
        }
        self.refuse_waiting(ErrorCode::KAFKA_STORAGE_ERROR);
    }

    /// Whether a follower has to wait for disk space. The threshold is for clients' records: what the leader has taken
    /// is replicated as long as possible.
    pub(super) fn lacks_space_to_follow(&self) -> bool {
        self.shared.disk_pressure.get() == DiskPressure::OnlyReserve && !is_internal(&self.topic)
    }

    /// Whether anything happens to it before only the reserve is left.
    pub fn has_capacity_policy(&self) -> bool {
        self.policy() != DiskCapacityPolicy::None
    }

    fn policy(&self) -> DiskCapacityPolicy {
        self.settings.load().disk_capacity_policy
    }

    /// Whether old segments of this replica go when the disk fills up. Those of a topic that is only compacted are not
    /// old but current.
    pub fn is_evictable(&self) -> bool {
        self.policy() == DiskCapacityPolicy::DeleteOldest
            && self.settings.load().log.cleanup_policy.delete
            && !is_internal(&self.topic)
            && !self.is_offline()
    }

    /// Deletes the oldest closed segment and its files, if all of it is replicated. Returns the bytes that it had.
    pub fn evict(self: &Arc<Self>) -> Result<Option<u64>, LogError> {
        let now = self.shared.env.clock.now();
        self.with_log(|log| {
            let deleted = log.delete_oldest_segment(self.high_watermark(), now)?;
            log.remove_deleted_files_now()?;
            Ok(deleted)
        })
    }
}
