//! Damaged batches: what readers get, and how a replica's batches replace them.
//!
//! While a partition is being repaired its readers get a retriable error. Only batches that no replica has are reported
//! to them as corrupt. Meanwhile the replica is not in sync; a leader that cannot be repaired hands over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use platform::Allowed;
use storage::{BadRange, LogError, ReadError, RepairError};
use wire::ErrorCode;

use super::Partition;

/// What is known of a partition's damage.
#[derive(Default)]
pub struct Damage(AtomicU8);

const NONE: u8 = 0;
const BEING_REPAIRED: u8 = 1;
const LASTING: u8 = 2;

impl Partition {
    /// Logs that a read has failed. Clients try again at once, and for as long as it takes, so some are left out.
    pub fn tell_unreadable(&self, error: &ReadError) {
        if let Some(Allowed { left_out }) = self.shared.unreadable.allow_other() {
            tracing::error!(topic = %self.topic, partition = self.index, %error, left_out, "stored batches cannot be read");
        }
    }

    /// Queues the partition for repair.
    pub fn report_damage(self: &Arc<Self>) {
        if self.damage.0.compare_exchange(NONE, BEING_REPAIRED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.shared.damaged.push(Arc::clone(self));
        }
    }

    /// No replica has what is missing, or none can be reached; it is looked for again later.
    pub fn set_lasting_damage(&self) {
        self.damage.0.store(LASTING, Ordering::Release);
    }

    /// Whether some of the log cannot be read.
    pub fn is_damaged(&self) -> bool {
        self.damage.0.load(Ordering::Acquire) != NONE
    }

    pub fn is_being_repaired(&self) -> bool {
        self.damage.0.load(Ordering::Acquire) == BEING_REPAIRED
    }

    /// The error for readers of a damaged batch.
    pub fn damage_error(&self) -> ErrorCode {
        // CORRUPT_MESSAGE is final for clients; after KAFKA_STORAGE_ERROR they retry, perhaps at another broker.
        // Without another replica there is nothing to wait for.
        if self.is_being_repaired() && !self.is_alone() {
            ErrorCode::KAFKA_STORAGE_ERROR
        } else {
            ErrorCode::CORRUPT_MESSAGE
        }
    }

    /// The first range whose bytes are bad or missing and could be replaced. Without one the damage is forgotten.
    pub fn next_to_repair(&self) -> Option<BadRange> {
        // In this order: damage that is found meanwhile is reported again.
        self.damage.0.store(NONE, Ordering::Release);
        let log_start_offset = self.log_start_offset();
        let next = self.view.bad_ranges().into_iter().find(|range| range.next_offset > log_start_offset);
        if next.is_some() {
            self.damage.0.store(BEING_REPAIRED, Ordering::Release);
        }
        next
    }

    /// Replaces damaged batches by a replica's. Durable when this returns.
    pub fn repair(self: &Arc<Self>, range: &BadRange, bytes: Bytes) -> Result<i64, RepairError> {
        let repaired = self.with_log(|log| log.repair(range, bytes));
        if let Err(RepairError::Log(error @ LogError::Failed(_))) = &repaired {
            self.fail(error);
        }
        repaired
    }
}
