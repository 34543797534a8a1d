//! Batches that have gone bad on the disk: who is told, and how a replica's take their place.
//!
//! As long as somebody tries to mend a partition its readers are asked to come back. Only what no replica can give is
//! reported to them as corrupt. Meanwhile the replica is not in sync; a leader that cannot be mended hands over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use storage::{BadRange, LogError, RepairError};
use wire::ErrorCode;

use super::Partition;

/// What is known of a partition's damage.
#[derive(Default)]
pub struct Damage(AtomicU8);

const NONE: u8 = 0;
const BEING_REPAIRED: u8 = 1;
const LASTING: u8 = 2;

impl Partition {
    /// Has somebody mend what is bad in the log.
    pub fn note_damage(self: &Arc<Self>) {
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

    /// What readers of a bad batch are told.
    pub fn damage_error(&self) -> ErrorCode {
        // Clients take the one for final; for the other they come back, perhaps to another broker. Where there is no
        // other replica there is nobody to wait for.
        if self.is_being_repaired() && !self.is_alone() {
            ErrorCode::KAFKA_STORAGE_ERROR
        } else {
            ErrorCode::CORRUPT_MESSAGE
        }
    }

    /// The first place where bytes are bad or missing and others could be. Where there is none the damage is forgotten.
    pub fn next_to_repair(&self) -> Option<BadRange> {
        // In this order: what is found meanwhile is noted anew.
        self.damage.0.store(NONE, Ordering::Release);
        let log_start_offset = self.log_start_offset();
        let next = self.view.bad_ranges().into_iter().find(|range| range.next_offset > log_start_offset);
        if next.is_some() {
            self.damage.0.store(BEING_REPAIRED, Ordering::Release);
        }
        next
    }

    /// Puts a replica's batches in the place of bad ones. Takes place on the disk before it returns.
    pub fn repair(self: &Arc<Self>, range: &BadRange, bytes: Bytes) -> Result<i64, RepairError> {
        let repaired = self.with_log(|log| log.repair(range, bytes));
        if let Err(RepairError::Log(error @ LogError::Failed(_))) = &repaired {
            self.fail(error);
        }
        repaired
    }
}
