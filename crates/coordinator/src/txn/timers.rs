//! What the coordinator does by the clock: it aborts transactions that are open for too long, has refused markers tried
//! again, and forgets ids of which nothing was heard for long.

use std::sync::Arc;
use std::time::Duration;

use super::coordinator::TransactionCoordinator;
use super::core::{State, Step, Transaction};
use super::shard::Shard;
use crate::phase::Phase;

/// Bytes of ids whose tombstones are written together, as in Kafka.
const TOMBSTONES_BYTES: usize = 16 * 1024;

impl TransactionCoordinator {
    /// Runs the timers for ever.
    pub async fn run(self: Arc<Self>) {
        let now_ms = self.now().monotonic_ms;
        let mut abort_ms = now_ms + self.config.abort_timed_out_interval_ms;
        let mut expire_ms = now_ms + self.config.remove_expired_interval_ms;
        loop {
            let until_ms = abort_ms.min(expire_ms) - self.now().monotonic_ms;
            tokio::time::sleep(Duration::from_millis(until_ms.max(0) as u64)).await;
            if self.now().monotonic_ms >= abort_ms {
                abort_ms = self.now().monotonic_ms + self.config.abort_timed_out_interval_ms;
                self.retry_refused_markers();
                self.abort_timed_out().await;
            }
            if self.now().monotonic_ms >= expire_ms {
                expire_ms = self.now().monotonic_ms + self.config.remove_expired_interval_ms;
                self.remove_expired();
            }
        }
    }

    fn retry_refused_markers(self: &Arc<Self>) {
        for shard in self.shards() {
            let mut state = shard.state.lock();
            if state.phase != Phase::Active {
                continue;
            }
            let prepared = state.iter().filter(|(_, transaction)| transaction.current().state.is_prepared());
            let ids: Vec<_> = prepared.map(|(transactional_id, _)| transactional_id.to_owned()).collect();
            for transactional_id in ids {
                let refused = state.get_mut(&transactional_id).map(Transaction::take_refused);
                if let Some(refused) = refused.filter(|refused| !refused.is_empty()) {
                    self.send_markers_to(&shard, &mut state, &transactional_id, refused);
                }
            }
        }
    }

    async fn abort_timed_out(self: &Arc<Self>) {
        let mut without_producer_id = Vec::new();
        let mut aborted = 0;
        for shard in self.shards() {
            let state = shard.state.lock();
            let open = state.iter().filter(|(_, transaction)| transaction.current().state == State::Ongoing);
            let ids: Vec<_> = open.map(|(transactional_id, _)| transactional_id.to_owned()).collect();
            drop(state);
            for transactional_id in ids {
                match self.abort_if_timed_out(&shard, &transactional_id, None) {
                    Some(Step::NeedsProducerId) => without_producer_id.push((Arc::clone(&shard), transactional_id)),
                    Some(Step::Write(_) | Step::Answer(_)) => aborted += 1,
                    None => {}
                }
            }
        }
        if aborted > 0 {
            tracing::info!(transactions = aborted, "aborting transactions that are open for too long");
        }
        for (shard, transactional_id) in without_producer_id {
            match self.producer_ids.next().await {
                Ok(producer_id) => _ = self.abort_if_timed_out(&shard, &transactional_id, Some(producer_id)),
                // The next time, then.
                Err(error) => {
                    tracing::warn!(%error, "timed out transactions are not aborted: no producer ids are to be had");
                    return;
                }
            }
        }
    }

    fn abort_if_timed_out(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        transactional_id: &str,
        new_producer_id: Option<i64>,
    ) -> Option<Step> {
        let mut state = shard.state.lock();
        if state.phase != Phase::Active {
            return None;
        }
        let (now, version) = (self.now(), self.cluster.transaction_version());
        let step = state.get_mut(transactional_id)?.abort_timed_out(now, version, new_producer_id)?;
        if let Step::Write(_) = step {
            self.write(shard, &state, vec![transactional_id.to_owned()], None);
            state.settle(transactional_id, &self.memory);
        }
        Some(step)
    }

    fn remove_expired(self: &Arc<Self>) {
        for shard in self.shards() {
            let mut state = shard.state.lock();
            if state.phase != Phase::Active {
                continue;
            }
            let now = self.now();
            let ids: Vec<_> = state.iter().map(|(transactional_id, _)| transactional_id.to_owned()).collect();
            let (mut expired, mut bytes) = (Vec::new(), 0);
            for transactional_id in ids {
                let transaction = state.get_mut(&transactional_id);
                if transaction.is_some_and(|transaction| transaction.expire(now, self.config.id_expiration_ms)) {
                    bytes += transactional_id.len();
                    expired.push(transactional_id);
                }
                if bytes > TOMBSTONES_BYTES {
                    self.write(&shard, &state, std::mem::take(&mut expired), None);
                    bytes = 0;
                }
            }
            if !expired.is_empty() {
                self.write(&shard, &state, expired, None);
            }
        }
    }
}
