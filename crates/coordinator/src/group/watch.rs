//! What the coordinator shows to the console and metrics.

use wire::api::describe_node::Rebalance;

use super::coordinator::GroupCoordinator;
use super::core::{Group, RebalanceCause};
use crate::phase::Phase;

impl GroupCoordinator {
    /// Shows every group, under the lock of its partition: the closure must not take long.
    pub fn visit(&self, mut visit: impl FnMut(&str, &Group)) {
        for shard in self.shards() {
            let state = shard.state.lock();
            if state.phase == Phase::Active {
                state.groups.iter().for_each(|(group_id, slot)| visit(group_id, &slot.group));
            }
        }
    }

    /// The rebalances that have begun lately, the newest first.
    pub fn recent_rebalances(&self) -> Vec<Rebalance> {
        self.history.lock().newest_first()
    }

    /// Rebalances that have begun since the start of the broker.
    pub fn rebalances(&self, cause: RebalanceCause) -> u64 {
        self.rebalances[cause as usize].get()
    }
}
