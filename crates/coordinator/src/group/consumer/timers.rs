//! The sessions of members, and how long they may take to give up partitions.

use super::{Change, ConsumerGroup, Context, MemberState};
use crate::group::Now;

/// When a member is put out of the group, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timers {
    session_deadline_ms: i64,
    rebalance: Option<RebalanceDeadline>,
}

/// Until when a member has to have left an epoch.
#[derive(Clone, Copy, Debug)]
struct RebalanceDeadline {
    epoch: i32,
    deadline_ms: i64,
}

impl Timers {
    fn first_ms(&self) -> i64 {
        self.rebalance.map_or(i64::MAX, |rebalance| rebalance.deadline_ms).min(self.session_deadline_ms)
    }
}

impl ConsumerGroup {
    /// When [`Self::tick`] must be called: no later than the first deadline. `i64::MAX` if there is none.
    pub fn wake_ms(&self) -> i64 {
        self.wake_ms
    }

    pub(super) fn start_session(&mut self, now: Now, member_id: &str, session_timeout_ms: i32) {
        let session_deadline_ms = now.monotonic_ms + i64::from(session_timeout_ms);
        match self.timers.get_mut(member_id) {
            Some(timers) => timers.session_deadline_ms = session_deadline_ms,
            None => {
                let timers = Timers { session_deadline_ms, rebalance: None };
                self.timers.insert(member_id.to_owned(), timers);
            }
        }
        self.wake_ms = self.wake_ms.min(session_deadline_ms);
    }

    /// Has a member leave an epoch within a time, or takes that back.
    pub(super) fn set_rebalance_deadline(&mut self, now: Now, member_id: &str, deadline: Option<(i32, i32)>) {
        let rebalance = deadline.map(|(epoch, timeout_ms)| RebalanceDeadline {
            epoch,
            deadline_ms: now.monotonic_ms + i64::from(timeout_ms),
        });
        if let Some(RebalanceDeadline { deadline_ms, .. }) = rebalance {
            self.wake_ms = self.wake_ms.min(deadline_ms);
        }
        match self.timers.get_mut(member_id) {
            Some(timers) => timers.rebalance = rebalance,
            None => {
                let timers = Timers { session_deadline_ms: i64::MAX, rebalance };
                self.timers.insert(member_id.to_owned(), timers);
            }
        }
    }

    /// Starts the timers of members that were read from the log.
    pub fn resume(&mut self, context: Context<'_>) {
        for (member_id, metadata) in self.members.clone() {
            self.start_session(context.now, &member_id, context.settings.session_timeout_ms);
            let current = self.current.get(&member_id);
            if let Some(current) = current.filter(|current| current.state == MemberState::UnrevokedPartitions) {
                let deadline = Some((current.epoch, metadata.rebalance_timeout_ms));
                self.set_rebalance_deadline(context.now, &member_id, deadline);
            }
        }
    }

    /// Puts members out that are due.
    pub fn tick(&mut self, context: Context<'_>) -> Change {
        let now_ms = context.now.monotonic_ms;
        if now_ms < self.wake_ms {
            return Change::default();
        }
        self.timers.retain(|member_id, _| self.members.contains_key(member_id));
        let mut due = Vec::new();
        for (member_id, timers) in &mut self.timers {
            let epoch = self.current.get(member_id).map(|current| current.epoch);
            let is_late = timers
                .rebalance
                .is_some_and(|rebalance| rebalance.deadline_ms <= now_ms && Some(rebalance.epoch) == epoch);
            timers.rebalance = timers.rebalance.filter(|rebalance| rebalance.deadline_ms > now_ms);
            if is_late || timers.session_deadline_ms <= now_ms {
                due.push(member_id.clone());
            }
        }
        let change = self.fence(context, &due);
        due.iter().for_each(|member_id| _ = self.timers.remove(member_id));
        self.wake_ms = self.timers.values().map(Timers::first_ms).min().unwrap_or(i64::MAX);
        change
    }
}
