//! Changes of transactional ids on their way to `__transaction_state`.
//!
//! A write is enqueued under the lock of its shard, so that an id's records are in the order of its changes, and its
//! end is waited for by a task of its own: a request that is dropped leaves nothing half done.
//!
//! An append that has failed or takes too long may be in the log all the same, and decide a transaction when the log is
//! loaded again. Its request is answered, but the id keeps its pending state, and the record is written again until
//! that has succeeded: a record says all there is to say of its id, so that it does no harm twice. Kafka drops the
//! pending state, and memory and log may then disagree.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use wire::ErrorCode;
use wire::batch::Batch;

use super::coordinator::{Answer, TransactionCoordinator};
use super::core::Followup;
use super::records::Batcher;
use super::shard::{Shard, ShardState};
use crate::phase::Phase;
use crate::topic_log::BoxFuture;

const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_millis(3_200);

/// The pending states of some ids of a shard.
struct Write {
    coordinator: Arc<TransactionCoordinator>,
    shard: Arc<Shard>,
    transactional_ids: Vec<String>,
    batch: Batch,
    /// The request that waits, and its answer once the write is durable.
    waiting: Option<(oneshot::Sender<Answer>, Answer)>,
    has_failed: bool,
}

impl TransactionCoordinator {
    /// Writes the pending states of ids. A request waits for at most one of them.
    pub(super) fn write(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        state: &ShardState,
        transactional_ids: Vec<String>,
        waiting: Option<(oneshot::Sender<Answer>, Answer)>,
    ) {
        let mut batcher = Batcher::new(self.now().wall_ms, self.cluster.transaction_version());
        for transactional_id in &transactional_ids {
            if let Some(pending) = state.get(transactional_id).and_then(|transaction| transaction.pending()) {
                batcher.push(transactional_id, pending.next.as_ref());
            }
        }
        let batch = batcher.build();
        let append = self.log.append(shard.partition, batch.clone());
        let (coordinator, shard) = (Arc::clone(self), Arc::clone(shard));
        let write = Write { coordinator, shard, transactional_ids, batch, waiting, has_failed: false };
        tokio::spawn(write.run(append));
    }
}

impl Write {
    async fn run(mut self, mut append: BoxFuture<Result<i64, ErrorCode>>) {
        if storage::injected_fault!(EndAnsweredBeforeWritten) {
            self.answer(|answer| answer);
        }
        let mut backoff = FIRST_BACKOFF;
        loop {
            let timeout = Duration::from_millis(self.coordinator.config.append_timeout_ms.max(1) as u64);
            let appended = match tokio::time::timeout(timeout, &mut append).await {
                Ok(appended) => appended,
                Err(_) => {
                    self.delayed();
                    append.await
                }
            };
            match self.ended(appended.map(|_| ())) {
                Ended::ForGood => return,
                Ended::ToBeRetried => tokio::time::sleep(backoff).await,
            }
            backoff = (2 * backoff).min(BACKOFF_MAX);
            match self.again() {
                Some(again) => append = again,
                None => return,
            }
        }
    }

    fn answer(&mut self, with: impl FnOnce(Answer) -> Answer) {
        // The receiver is dropped with its request.
        if let Some((sender, answer)) = self.waiting.take() {
            sender.send(with(answer)).ok();
        }
    }

    /// Nobody waits any longer.
    fn delayed(&mut self) {
        let error = response_error(ErrorCode::REQUEST_TIMED_OUT);
        let shard = Arc::clone(&self.shard);
        let mut state = shard.state.lock();
        for transactional_id in &self.transactional_ids {
            if let Some(transaction) = state.get_mut(transactional_id) {
                transaction.delayed(error);
            }
        }
        drop(state);
        self.answer(|_| Err(error));
    }

    fn ended(&mut self, appended: Result<(), ErrorCode>) -> Ended {
        let shard = Arc::clone(&self.shard);
        let mut state = shard.state.lock();
        if state.phase != Phase::Active {
            self.answer(|_| Err(ErrorCode::NOT_COORDINATOR));
            return Ended::ForGood;
        }
        match appended {
            Ok(()) => {
                self.durable(&mut state);
                drop(state);
                self.answer(|answer| answer);
                Ended::ForGood
            }
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    let transactional_id = self.transactional_ids.first();
                    tracing::warn!(transactional_id, %error, "the record of a transaction could not be written");
                }
                let is_retried = self.failed(&mut state, error);
                drop(state);
                self.answer(|_| Err(response_error(error)));
                if is_retried { Ended::ToBeRetried } else { Ended::ForGood }
            }
        }
    }

    fn durable(&self, state: &mut ShardState) {
        let now = self.coordinator.now();
        for transactional_id in &self.transactional_ids {
            let Some(transaction) = state.get_mut(transactional_id) else { continue };
            match transaction.written(now) {
                Followup::Nothing => {}
                Followup::SendMarkers => {
                    self.coordinator.decisions.add(transaction.current().state);
                    self.coordinator.send_markers(&self.shard, state, transactional_id);
                }
                Followup::Forget => state.remove(transactional_id, &self.coordinator.memory),
            }
            state.settle(transactional_id, &self.coordinator.memory);
        }
    }

    /// Returns whether the write is to be tried again.
    fn failed(&self, state: &mut ShardState, error: ErrorCode) -> bool {
        let mut is_retried = false;
        for transactional_id in &self.transactional_ids {
            let Some(transaction) = state.get_mut(transactional_id) else { continue };
            is_retried |= transaction.not_written(response_error(error), is_certain(error));
            state.settle(transactional_id, &self.coordinator.memory);
        }
        is_retried
    }

    /// Enqueues the same once more, unless the shard is gone.
    fn again(&self) -> Option<BoxFuture<Result<i64, ErrorCode>>> {
        let state = self.shard.state.lock();
        (state.phase == Phase::Active).then(|| self.coordinator.log.append(self.shard.partition, self.batch.clone()))
    }
}

enum Ended {
    ForGood,
    ToBeRetried,
}

/// Whether a batch that failed so is not in the log, and never will be.
fn is_certain(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::NOT_ENOUGH_REPLICAS
            | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::MESSAGE_TOO_LARGE
            | ErrorCode::RECORD_LIST_TOO_LARGE
    )
}

/// What a failed append means to a client of the coordinator (`TransactionStateManager.appendTransactionToLog`).
fn response_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        | ErrorCode::NOT_ENOUGH_REPLICAS
        | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
        | ErrorCode::REQUEST_TIMED_OUT => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::KAFKA_STORAGE_ERROR => ErrorCode::NOT_COORDINATOR,
        _ => ErrorCode::UNKNOWN_SERVER_ERROR,
    }
}
