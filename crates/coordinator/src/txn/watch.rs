//! What the coordinator shows to metrics.

use super::coordinator::TransactionCoordinator;
use super::decisions::Decisions;
use crate::phase::Phase;

/// What is seen of a transactional id.
pub struct TransactionView {
    pub state: &'static str,
    /// For how long its transaction has been open, if it is.
    pub open_ms: Option<i64>,
}

impl TransactionCoordinator {
    /// Shows every id, under the lock of its partition: the closure must not take long.
    pub fn visit(&self, mut visit: impl FnMut(TransactionView)) {
        let now = self.now();
        for shard in self.shards() {
            let state = shard.state.lock();
            if state.phase == Phase::Active {
                state.iter().for_each(|(_, transaction)| {
                    let state = transaction.current().state.name();
                    visit(TransactionView { state, open_ms: transaction.open_ms(now) });
                });
            }
        }
    }

    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }
}
