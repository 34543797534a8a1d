//! What the coordinator shows to the console and metrics.

use wire::api::describe_node::Rebalance;

use super::coordinator::GroupCoordinator;
use super::core::{Offsets, RebalanceCause};
use super::shard::Slot;
use crate::phase::Phase;

/// What is seen of a group, whichever protocol it uses.
pub struct GroupView<'a> {
    pub state: &'static str,
    pub member_count: usize,
    pub offsets: &'a Offsets,
}

impl<'a> GroupView<'a> {
    fn of(slot: &'a Slot) -> Self {
        let (state, member_count) = match &slot.consumers {
            Some(consumers) => (consumers.group.state().name(), consumers.group.member_count()),
            None => (slot.group.state().name(), slot.group.member_count()),
        };
        Self { state, member_count, offsets: &slot.group.offsets }
    }
}

impl GroupCoordinator {
    /// Shows every group, under the lock of its partition: the closure must not take long.
    pub fn visit(&self, mut visit: impl FnMut(&str, GroupView<'_>)) {
        for shard in self.shards() {
            let state = shard.state.lock();
            if state.phase == Phase::Active {
                state.groups.iter().for_each(|(group_id, slot)| visit(group_id, GroupView::of(slot)));
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
