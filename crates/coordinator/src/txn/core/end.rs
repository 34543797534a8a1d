//! EndTxn, and the ends that the coordinator itself makes: a fenced or timed out transaction, markers that are all
//! written, an id that has expired.
//!
//! What a request means depends on its version. Up to version 4 the epoch stays, and a retry looks like the request;
//! from version 5 on each end bumps the epoch (KIP-890 part 2), so that a retry is known by its older epoch and can
//! never decide a later transaction (KAFKA-17754).

use wire::ErrorCode;

use super::{
    LAST_CLIENT_EPOCH, Metadata, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Partitions, Pending, ProducerIdAndEpoch, State,
    Step, Transaction, TransactionVersion,
};
use crate::txn::Now;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionResult {
    Commit,
    Abort,
}

impl TransactionResult {
    fn prepared(self) -> State {
        match self {
            Self::Commit => State::PrepareCommit,
            Self::Abort => State::PrepareAbort,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTxn {
    pub producer: ProducerIdAndEpoch,
    pub result: TransactionResult,
}

/// How a request stands to the epoch that the coordinator has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// Its epoch is the current one.
    Current,
    /// Its epoch is the one that the last end has bumped.
    Retry,
}

/// What is done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// The transaction ends so.
    Prepare,
    /// It has ended so already.
    Done,
    /// The last one's markers are being written.
    Wait,
    Refuse(ErrorCode),
}

/// EndTxn up to version 4. The sender's epoch is the current one.
pub(super) fn rule_v1(state: State, result: TransactionResult) -> Ruling {
    use Ruling::{Done, Prepare, Wait};
    use State::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};
    use TransactionResult::{Abort, Commit};
    const ITS: Ruling = Ruling::Refuse(ErrorCode::INVALID_TXN_STATE);
    match (state, result) {
        (Ongoing, Commit) => Prepare,
        (Ongoing, Abort) => Prepare,
        (PrepareCommit | PrepareAbort, _) => Wait,
        (CompleteCommit, Commit) => Done,
        (CompleteCommit, Abort) => ITS,
        (CompleteAbort, Commit) => ITS,
        (CompleteAbort, Abort) => Done,
        (Empty, Commit) => ITS,
        (Empty, Abort) => ITS,
    }
}

/// EndTxn from version 5 on. An abort by the current epoch where nothing is open gives the producer a new epoch: it may
/// not know whether its last request opened a transaction.
pub(super) fn rule_v2(state: State, result: TransactionResult, sender: Sender) -> Ruling {
    use Ruling::{Done, Prepare, Wait};
    use Sender::{Current, Retry};
    use State::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};
    use TransactionResult::{Abort, Commit};
    const ITS: Ruling = Ruling::Refuse(ErrorCode::INVALID_TXN_STATE);
    const FENCED: Ruling = Ruling::Refuse(ErrorCode::PRODUCER_FENCED);
    match (state, result, sender) {
        (Ongoing, Commit, Current) => Prepare,
        (Ongoing, Commit, Retry) => FENCED,
        (Ongoing, Abort, Current) => Prepare,
        (Ongoing, Abort, Retry) => FENCED,

        (PrepareCommit | PrepareAbort, ..) => Wait,

        (Empty, Commit, Current) => ITS,
        (Empty, Commit, Retry) => FENCED,
        (Empty, Abort, Current) => Prepare,
        (Empty, Abort, Retry) => FENCED,

        (CompleteCommit, Commit, Current) => ITS,
        (CompleteCommit, Commit, Retry) => Done,
        (CompleteCommit, Abort, Current) => Prepare,
        (CompleteCommit, Abort, Retry) => ITS,

        (CompleteAbort, Commit, Current) => ITS,
        // The coordinator has aborted it, and the producer learns that it was fenced (KAFKA-20785).
        (CompleteAbort, Commit, Retry) => FENCED,
        (CompleteAbort, Abort, Current) => Prepare,
        (CompleteAbort, Abort, Retry) => Done,
    }
}

impl Transaction {
    /// A client's EndTxn. The answer has the producer's id and epoch for the next transaction (KAFKA-18660).
    pub fn end(
        &mut self,
        now: Now,
        request: EndTxn,
        version: TransactionVersion,
        new_producer_id: Option<i64>,
    ) -> Result<Step, ErrorCode> {
        let ruling = if version.supports_epoch_bump() {
            self.check_settled()?;
            rule_v2(self.current.state, request.result, self.sender(request.producer)?)
        } else {
            self.check_producer(request.producer)?;
            self.check_settled()?;
            rule_v1(self.current.state, request.result)
        };
        match ruling {
            Ruling::Prepare => Ok(match self.prepare(now, request.result, version, new_producer_id) {
                Some(answer) => Step::Write(Ok(answer)),
                None => Step::NeedsProducerId,
            }),
            Ruling::Done => Ok(Step::Answer(self.current.identity())),
            Ruling::Wait => Err(self.busy_error()),
            Ruling::Refuse(error) => Err(error),
        }
    }

    fn sender(&self, producer: ProducerIdAndEpoch) -> Result<Sender, ErrorCode> {
        let Metadata { producer_id, previous_producer_id, producer_epoch, client_version, .. } = self.current;
        // Only an end of version 2 has bumped an epoch that its sender does not know of.
        let is_bumped = client_version.supports_epoch_bump();
        let is_overflow_retry = is_bumped
            && producer.producer_id == previous_producer_id
            && producer.epoch == LAST_CLIENT_EPOCH
            && producer_epoch == 0;
        if is_overflow_retry {
            return Ok(Sender::Retry);
        }
        if producer.producer_id != producer_id {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
        if producer.epoch == producer_epoch {
            return Ok(Sender::Current);
        }
        if is_bumped && producer.epoch.checked_add(1) == Some(producer_epoch) {
            return Ok(Sender::Retry);
        }
        Err(ErrorCode::PRODUCER_FENCED)
    }

    /// Decides the transaction. From version 2 on the record already has the bumped epoch, which the markers carry; if
    /// that exhausts the epochs it also has the producer id that comes after. Returns what the producer is afterwards;
    /// `None` if a new producer id is needed for that.
    fn prepare(
        &mut self,
        now: Now,
        result: TransactionResult,
        version: TransactionVersion,
        new_producer_id: Option<i64>,
    ) -> Option<ProducerIdAndEpoch> {
        let mut next = Metadata {
            state: result.prepared(),
            last_update_ms: now.wall_ms,
            client_version: version,
            next_producer_id: NO_PRODUCER_ID,
            ..self.current.clone()
        };
        if self.current.state != State::Ongoing {
            next.start_ms = now.wall_ms;
        }
        if version.supports_epoch_bump() {
            if self.current.is_epoch_exhausted() {
                next.next_producer_id = new_producer_id?;
            }
            next.last_producer_epoch = self.current.producer_epoch;
            next.producer_epoch = self.current.producer_epoch.saturating_add(1);
        }
        let afterwards = identity_after(&next);
        self.begin(next);
        Some(afterwards)
    }

    /// The coordinator aborts the open transaction and fences its producer: the epoch is bumped in either version, once
    /// (KAFKA-19367). `None` if a new producer id is needed (KAFKA-20090).
    pub(super) fn abort(
        &mut self,
        now: Now,
        version: TransactionVersion,
        new_producer_id: Option<i64>,
    ) -> Option<ProducerIdAndEpoch> {
        let afterwards = self.prepare(now, TransactionResult::Abort, version, new_producer_id)?;
        if !version.supports_epoch_bump()
            && let Some(Pending { next: Some(next), .. }) = &mut self.pending
        {
            next.producer_epoch = self.current.producer_epoch.saturating_add(1);
            next.last_producer_epoch = NO_PRODUCER_EPOCH;
        }
        Some(afterwards)
    }

    /// Aborts the transaction if it has been open for too long. `None` if it has not.
    pub fn abort_timed_out(
        &mut self,
        now: Now,
        version: TransactionVersion,
        new_producer_id: Option<i64>,
    ) -> Option<Step> {
        let is_due = self.pending.is_none()
            && self.current.state == State::Ongoing
            && self.started_ms.saturating_add(self.current.timeout_ms.into()) < now.monotonic_ms;
        is_due.then(|| match self.abort(now, version, new_producer_id) {
            Some(afterwards) => Step::Write(Ok(afterwards)),
            None => Step::NeedsProducerId,
        })
    }

    /// Ends the transaction if each partition has its marker. Returns whether there is a record to be written.
    pub fn complete(&mut self, now: Now) -> bool {
        let state = match self.current.state {
            State::PrepareCommit => State::CompleteCommit,
            State::PrepareAbort => State::CompleteAbort,
            State::Empty | State::Ongoing | State::CompleteCommit | State::CompleteAbort => return false,
        };
        let has_markers = self.current.partitions.is_empty() || storage::injected_fault!(CompleteBeforeMarkers);
        if self.pending.is_some() || !has_markers {
            return false;
        }
        let identity = identity_after(&self.current);
        self.begin(Metadata {
            producer_id: identity.producer_id,
            previous_producer_id: self.current.producer_id,
            next_producer_id: NO_PRODUCER_ID,
            producer_epoch: identity.epoch,
            state,
            partitions: Partitions::default(),
            last_update_ms: now.wall_ms,
            ..self.current.clone()
        });
        true
    }

    /// Has the id forgotten if nothing was heard of it for so long. Returns whether there is a tombstone to be written.
    pub fn expire(&mut self, now: Now, expiration_ms: i64) -> bool {
        let is_due = self.pending.is_none()
            && self.current.state.is_expiration_allowed()
            && self.updated_ms.saturating_add(expiration_ms) <= now.monotonic_ms;
        if is_due {
            self.pending = Some(Pending { next: None, trouble: None });
        }
        is_due
    }
}

/// What the producer is when a decided transaction is complete.
fn identity_after(prepared: &Metadata) -> ProducerIdAndEpoch {
    match prepared.next_producer_id {
        NO_PRODUCER_ID => prepared.identity(),
        producer_id => ProducerIdAndEpoch { producer_id, epoch: 0 },
    }
}
