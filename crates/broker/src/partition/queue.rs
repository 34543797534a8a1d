//! Batches of a partition that wait to be appended: for the disk, or for a thread that may write to it.
//!
//! A busy disk delays them by milliseconds. They are bounded in bytes, for the time until a stalled disk is noticed. A
//! batch whose request has timed out meanwhile is not appended.

use std::sync::Arc;

use storage::{Origin, VerificationGuard};
use wire::ErrorCode;
use wire::batch::Batch;

use super::Acks;
use super::produce_completion::{ProduceCompletion, ProduceOutcome, Refusal};

/// Bytes that wait, beyond which a batch is refused unless it is the only one.
const BYTES_MAX: usize = 32 << 20;

#[derive(Default)]
pub(super) struct AppendQueue {
    batches: Vec<Queued>,
    size_bytes: usize,
}

/// A batch that waits to be appended.
pub(super) struct Queued {
    pub(super) batch: Batch,
    pub(super) sender: Sender,
    pub(super) terms: Terms,
}

/// What holds for the append of a batch.
#[derive(Clone, Copy)]
pub struct Terms {
    pub origin: Origin,
    /// The only epoch in which it may be appended.
    pub leader_epoch: Option<i32>,
    /// Of the verification that its transaction needed.
    pub guard: Option<VerificationGuard>,
}

impl Terms {
    /// For a producer without transactions, or whose transaction has begun in the partition.
    pub const CLIENT: Self = Self { origin: Origin::Client, leader_epoch: None, guard: None };
}

/// Where the result of a batch goes.
pub(super) struct Sender {
    pub(super) acks: Acks,
    pub(super) completion: Arc<ProduceCompletion>,
    pub(super) slot: usize,
}

impl AppendQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub(super) fn has_room(&self, batch: &Batch) -> bool {
        self.is_empty() || self.size_bytes + batch.bytes.len() <= BYTES_MAX
    }

    pub(super) fn push(&mut self, queued: Queued) {
        self.size_bytes += queued.batch.bytes.len();
        self.batches.push(queued);
    }

    /// Takes all out, except batches whose request has timed out meanwhile.
    pub(super) fn take(&mut self) -> Vec<Queued> {
        let mut batches = std::mem::take(self).batches;
        batches.retain(|queued| !queued.sender.completion.has_expired());
        batches
    }

    /// Whether all can wait until the log is synced.
    pub(super) fn waits_for_disk(&self) -> bool {
        self.batches.iter().all(|queued| queued.sender.acks == Acks::All)
    }
}

impl Queued {
    pub(super) fn refuse(self, refusal: Refusal) {
        self.sender.completion.fill(self.sender.slot, ProduceOutcome::Refused(refusal));
    }
}

/// Why a batch is not queued.
pub(super) fn queue_full() -> Refusal {
    let message = format!("{BYTES_MAX} bytes wait for the disk already");
    Refusal { message: Some(message), ..ErrorCode::KAFKA_STORAGE_ERROR.into() }
}
