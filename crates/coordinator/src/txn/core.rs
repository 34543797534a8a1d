//! One transactional id as a pure state machine: no IO, no clock, no ids of its own making.
//!
//! The coordinator calls it with the lock of the id's shard held and passes the time in. A request is answered at once,
//! or it leaves a record to be written ([`Step::Write`]). Until that has ended the id has a [`pending`](Pending) state
//! and takes no other change: the client is told to try again. [`Transaction::written`] makes the pending state the
//! current one. Behaviour follows Kafka's `TransactionCoordinator` and `TransactionMetadata`.
//!
//! Two things are told differently than in Kafka, with the same outcome:
//!
//! - Kafka fences a producer in two steps, through the state PrepareEpochFence that is never stored. Both happen under
//!   one lock here, so that there is nothing between them to be seen.
//! - Nothing changes before its record is durable. So a fence that could not be written has bumped no epoch, and there
//!   is no `hasFailedEpochFence` (KAFKA-9666) to remember: each attempt asks for the same epoch.
//!
//! What always holds: the current state is what the log has, but for a pending state whose fate is not known yet; a
//! state only follows those that [`State::may_follow`] names; epochs of a producer id never go back; a transaction in
//! PrepareCommit or PrepareAbort ends as it says, and not before each of its partitions has its marker.

mod add;
mod end;
mod init;
mod partitions;
mod state;

#[cfg(test)]
mod tests;

pub use end::{EndTxn, TransactionResult};
pub use init::InitProducerId;
pub use partitions::Partitions;
pub use state::State;
use wire::ErrorCode;

use super::Now;

/// The producer id or epoch that is not there.
pub const NONE: i16 = -1;
pub const NO_PRODUCER_ID: i64 = NONE as i64;
pub const NO_PRODUCER_EPOCH: i16 = NONE;
/// A client never gets an epoch above this one, so that the coordinator can always fence it (`isEpochExhausted`).
pub const LAST_CLIENT_EPOCH: i16 = i16::MAX - 1;

/// A level of the feature `transaction.version` (KIP-890).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionVersion(pub i16);

impl TransactionVersion {
    /// Clients add partitions explicitly, and keep their epoch from one transaction to the next.
    pub const V1: Self = Self(0);
    /// Partitions are added by the first produce, and each transaction has an epoch of its own.
    pub const V2: Self = Self(2);

    /// Whether ending a transaction bumps the epoch.
    pub fn supports_epoch_bump(self) -> bool {
        self >= Self::V2
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdAndEpoch {
    pub producer_id: i64,
    pub epoch: i16,
}

/// What is stored of a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    pub producer_id: i64,
    /// The producer id before the last InitProducerId or the last transaction; mostly the same one.
    pub previous_producer_id: i64,
    /// Where the producer goes on after this transaction, if its epochs are exhausted.
    pub next_producer_id: i64,
    pub producer_epoch: i16,
    /// The epoch from which the producer itself came to its current one; -1 if another producer took the id over. It
    /// tells a retry from a fenced producer.
    pub last_producer_epoch: i16,
    pub timeout_ms: i32,
    pub state: State,
    /// What the transaction writes to; when it is decided, what still needs its marker.
    pub partitions: Partitions,
    pub last_update_ms: i64,
    /// When the transaction began; -1 if none has since InitProducerId.
    pub start_ms: i64,
    /// How partitions were last added, or the transaction was ended.
    pub client_version: TransactionVersion,
}

impl Metadata {
    fn identity(&self) -> ProducerIdAndEpoch {
        ProducerIdAndEpoch { producer_id: self.producer_id, epoch: self.producer_epoch }
    }

    fn is_epoch_exhausted(&self) -> bool {
        self.producer_epoch >= LAST_CLIENT_EPOCH
    }
}

/// What becomes of a request that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is answered, and nothing has changed.
    Answer(ProducerIdAndEpoch),
    /// The epochs are exhausted: it is to be asked again with a new producer id.
    NeedsProducerId,
    /// The pending state is to be written; this is the answer once it is durable.
    Write(Result<ProducerIdAndEpoch, ErrorCode>),
}

/// A change on its way to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// `None` is the tombstone of an id that has expired.
    pub next: Option<Metadata>,
    /// Why it takes longer than it should. The record may be in the log all the same, so it is written until that is
    /// known.
    trouble: Option<ErrorCode>,
}

/// What follows from a change that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followup {
    Nothing,
    /// Each partition of the transaction gets its marker.
    SendMarkers,
    /// The id is forgotten.
    Forget,
}

/// A transactional id.
#[derive(Clone, Debug)]
pub struct Transaction {
    current: Metadata,
    pending: Option<Pending>,
    /// Monotonic time of the last update, and of the beginning of the transaction.
    updated_ms: i64,
    started_ms: i64,
    refused: Option<Refused>,
}

/// Partitions that take no marker of the transaction, and the last one's reason.
#[derive(Clone, Debug)]
struct Refused {
    error: ErrorCode,
    partitions: Partitions,
}

impl Transaction {
    /// An id that has no record yet. It has no epoch until its first InitProducerId is written.
    pub fn new(now: Now, producer_id: i64, timeout_ms: i32) -> Self {
        let current = Metadata {
            producer_id,
            previous_producer_id: NO_PRODUCER_ID,
            next_producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            last_producer_epoch: NO_PRODUCER_EPOCH,
            timeout_ms,
            state: State::Empty,
            partitions: Partitions::default(),
            last_update_ms: now.wall_ms,
            start_ms: -1,
            client_version: TransactionVersion::V1,
        };
        Self { current, pending: None, updated_ms: now.monotonic_ms, started_ms: now.monotonic_ms, refused: None }
    }

    /// Takes over a stored state. `updated_ms` is the monotonic time that stands for the record's. A transaction that
    /// is open times out as long after its start as it may last, by the wall clocks of both coordinators; a start in
    /// the future counts as now.
    pub fn restore(now: Now, updated_ms: i64, current: Metadata) -> Self {
        let age_ms = now.wall_ms.saturating_sub(current.start_ms).clamp(0, current.timeout_ms.max(0).into());
        Self { current, pending: None, updated_ms, started_ms: now.monotonic_ms - age_ms, refused: None }
    }

    pub fn current(&self) -> &Metadata {
        &self.current
    }

    pub fn pending(&self) -> Option<&Pending> {
        self.pending.as_ref()
    }

    /// For how long the transaction has been open, if it is.
    pub fn open_ms(&self, now: Now) -> Option<i64> {
        (self.current.state == State::Ongoing).then(|| now.monotonic_ms - self.started_ms)
    }

    /// Whether the log has nothing of the id.
    pub fn is_vacant(&self) -> bool {
        self.pending.is_none() && self.current.producer_epoch == NO_PRODUCER_EPOCH
    }

    /// Whether the tombstone of the id is being written.
    pub fn is_expiring(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.next.is_none())
    }

    /// Estimate of the memory that the id takes.
    pub fn size_bytes(&self) -> usize {
        const TRANSACTION_BYTES: usize = 600;
        let pending = self.pending.as_ref().and_then(|pending| pending.next.as_ref());
        // Markers are queued with their partitions, too.
        let queued = if self.current.state.is_prepared() { self.current.partitions.size_bytes() } else { 0 };
        TRANSACTION_BYTES
            + self.current.partitions.size_bytes()
            + queued
            + pending.map_or(0, |next| next.partitions.size_bytes())
    }

    /// What a client is told that has to wait, for a pending state or for markers. It comes before anything is said of
    /// the producer: as long as markers are written, the id may be about to get a new producer id, which the client has
    /// been told already (`TransactionMetadata.prepareComplete`). If a record cannot be written, the client learns of
    /// the trouble and looks for another coordinator; "concurrent transactions" would be to try again here, for ever.
    fn check_settled(&self) -> Result<(), ErrorCode> {
        match &self.pending {
            None if self.current.state.is_prepared() => Err(self.busy_error()),
            None => Ok(()),
            Some(pending) => Err(pending.trouble.unwrap_or(ErrorCode::CONCURRENT_TRANSACTIONS)),
        }
    }

    /// What a client is told that has to wait for the markers. They may never be written where they were refused, so it
    /// is not told to wait for those.
    fn busy_error(&self) -> ErrorCode {
        match self.refused.as_ref().map(|refused| refused.error) {
            None => ErrorCode::CONCURRENT_TRANSACTIONS,
            // A later coordinator of this id has written there.
            Some(ErrorCode::TRANSACTION_COORDINATOR_FENCED) => ErrorCode::NOT_COORDINATOR,
            // A later epoch of this producer has.
            Some(_) => ErrorCode::PRODUCER_FENCED,
        }
    }

    fn begin(&mut self, next: Metadata) {
        debug_assert!(
            next.state.may_follow(self.current.state, next.client_version),
            "{:?} after {:?}",
            next.state,
            self.current.state
        );
        self.pending = Some(Pending { next: Some(next), trouble: None });
    }

    /// The pending state is durable.
    pub fn written(&mut self, now: Now) -> Followup {
        let Some(pending) = self.pending.take() else { return Followup::Nothing };
        let Some(next) = pending.next else { return Followup::Forget };
        if next.state == State::Ongoing && self.current.state != State::Ongoing {
            self.started_ms = now.monotonic_ms;
        }
        self.current = next;
        self.updated_ms = now.monotonic_ms;
        self.refused = None;
        if self.current.state.is_prepared() { Followup::SendMarkers } else { Followup::Nothing }
    }

    /// The pending state could not be written. Returns whether it is to be tried again: if its record may be in the log
    /// (`is_certain` is false), only the record itself can settle that; and the end of a transaction whose markers are
    /// written must not be lost. Otherwise the change has not happened.
    pub fn not_written(&mut self, error: ErrorCode, is_certain: bool) -> bool {
        let Some(pending) = &mut self.pending else { return false };
        let is_end = pending.next.as_ref().is_some_and(|next| next.state.is_complete());
        let is_retried = !is_certain || is_end || pending.trouble.is_some();
        if is_retried {
            pending.trouble = Some(error);
        } else {
            self.pending = None;
        }
        is_retried
    }

    /// Writing takes long, and the request that waits for it is answered with this error.
    pub fn delayed(&mut self, error: ErrorCode) {
        if let Some(pending) = &mut self.pending {
            pending.trouble = Some(error);
        }
    }

    /// A partition has its marker, or needs none any more.
    pub fn marker_written(&mut self, topic: &str, partition: i32) {
        if self.current.state.is_prepared() {
            self.current.partitions.remove(topic, partition);
        }
    }

    /// A partition takes no marker of this transaction: a later epoch of the producer or of the coordinator was there.
    /// The transaction is not complete until [`Self::take_refused`] has it tried again.
    pub fn marker_refused(&mut self, error: ErrorCode, topic: &str, partition: i32) {
        if !self.current.state.is_prepared() {
            return;
        }
        let refused = self.refused.get_or_insert_with(|| Refused { error, partitions: Partitions::default() });
        refused.error = error;
        refused.partitions.insert(topic, partition);
    }

    /// The partitions that have refused their markers since the last call.
    pub fn take_refused(&mut self) -> Partitions {
        self.refused.as_mut().map(|refused| std::mem::take(&mut refused.partitions)).unwrap_or_default()
    }

    /// Takes back a change that was not handed to the log.
    pub fn cancel(&mut self) {
        self.pending = None;
    }
}
