//! The sessions of members, and how long they may take to give up partitions.

use super::{Change, ConsumerGroup, Context, MemberState};
use crate::group::Now;

/// How long after an attempt to put a member out the next one is made, if it is still there.
const FENCE_RETRY_MS: i64 = 500;

/// When a member is put out of the group, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timers {
    session_deadline_ms: i64,
    rebalance: Option<RebalanceDeadline>,
    /// Until when a member of the classic protocol has to send what it owes: a JoinGroup, and then a SyncGroup.
    join_deadline_ms: i64,
    sync_deadline_ms: i64,
}

impl Default for Timers {
    fn default() -> Self {
        let (session_deadline_ms, join_deadline_ms, sync_deadline_ms) = (i64::MAX, i64::MAX, i64::MAX);
        Self { session_deadline_ms, rebalance: None, join_deadline_ms, sync_deadline_ms }
    }
}

/// Until when a member has to have left an epoch.
#[derive(Clone, Copy, Debug)]
struct RebalanceDeadline {
    epoch: i32,
    deadline_ms: i64,
}

impl Timers {
    fn first_ms(&self) -> i64 {
        let rebalance_ms = self.rebalance.map_or(i64::MAX, |rebalance| rebalance.deadline_ms);
        rebalance_ms.min(self.session_deadline_ms).min(self.join_deadline_ms).min(self.sync_deadline_ms)
    }
}

impl ConsumerGroup {
    /// When [`Self::tick`] must be called: no later than the first deadline. `i64::MAX` if there is none.
    pub fn wake_ms(&self) -> i64 {
        self.wake_ms.unwrap_or(i64::MAX)
    }

    fn wake_by(&mut self, deadline_ms: i64) {
        self.wake_ms = Some(self.wake_ms().min(deadline_ms));
    }

    pub(super) fn start_session(&mut self, now: Now, member_id: &str, session_timeout_ms: i32) {
        let session_deadline_ms = now.monotonic_ms + i64::from(session_timeout_ms);
        self.timers_of(member_id).session_deadline_ms = session_deadline_ms;
        self.wake_by(session_deadline_ms);
    }

    fn timers_of(&mut self, member_id: &str) -> &mut Timers {
        if !self.timers.contains_key(member_id) {
            self.timers.insert(member_id.to_owned(), Timers::default());
        }
        self.timers.get_mut(member_id).expect("it was just put there")
    }

    /// A member of the classic protocol has to join within a time, unless it has to already.
    pub(super) fn expect_join(&mut self, now: Now, member_id: &str, timeout_ms: i32) {
        let timers = self.timers_of(member_id);
        let join_deadline_ms = timers.join_deadline_ms.min(now.monotonic_ms + i64::from(timeout_ms));
        timers.join_deadline_ms = join_deadline_ms;
        self.wake_by(join_deadline_ms);
    }

    /// A member of the classic protocol has joined, and has to send SyncGroup within a time.
    pub(super) fn expect_sync(&mut self, now: Now, member_id: &str, timeout_ms: i32) {
        let sync_deadline_ms = now.monotonic_ms + i64::from(timeout_ms);
        let timers = self.timers_of(member_id);
        (timers.join_deadline_ms, timers.sync_deadline_ms) = (i64::MAX, sync_deadline_ms);
        self.wake_by(sync_deadline_ms);
    }

    /// A member of the classic protocol has sent SyncGroup.
    pub(super) fn end_sync(&mut self, member_id: &str) {
        self.timers_of(member_id).sync_deadline_ms = i64::MAX;
    }

    /// Has a member leave an epoch within a time, or takes that back.
    pub(super) fn set_rebalance_deadline(&mut self, now: Now, member_id: &str, deadline: Option<(i32, i32)>) {
        let rebalance = deadline.map(|(epoch, timeout_ms)| RebalanceDeadline {
            epoch,
            deadline_ms: now.monotonic_ms + i64::from(timeout_ms),
        });
        if let Some(RebalanceDeadline { deadline_ms, .. }) = rebalance {
            self.wake_by(deadline_ms);
        }
        self.timers_of(member_id).rebalance = rebalance;
    }

    /// Starts the timers of members that were read from the log, or have come from the classic protocol.
    pub fn resume(&mut self, context: Context<'_>) {
        for (member_id, metadata) in self.members.clone() {
            // A member of the classic protocol has a session timeout of its own.
            let own_timeout_ms = metadata.classic.as_ref().map(|classic| classic.session_timeout_ms);
            let session_timeout_ms = own_timeout_ms.unwrap_or(context.settings.session_timeout_ms);
            self.start_session(context.now, &member_id, session_timeout_ms);
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
        if now_ms < self.wake_ms() {
            return Change::default();
        }
        self.timers.retain(|member_id, _| self.members.contains_key(member_id));
        self.hidden.retain(|member_id| self.members.contains_key(member_id));
        let mut due = Vec::new();
        for (member_id, timers) in &mut self.timers {
            let epoch = self.current.get(member_id).map(|current| current.epoch);
            let is_late = timers
                .rebalance
                .is_some_and(|rebalance| rebalance.deadline_ms <= now_ms && Some(rebalance.epoch) == epoch);
            timers.rebalance = timers.rebalance.filter(|rebalance| rebalance.deadline_ms > now_ms);
            let is_missed = [timers.session_deadline_ms, timers.join_deadline_ms, timers.sync_deadline_ms]
                .into_iter()
                .any(|deadline_ms| deadline_ms <= now_ms);
            if is_late || is_missed {
                due.push(member_id.clone());
            }
        }
        let change = self.fence(context, &due);
        for member_id in due {
            // Should its end not get to the log, it is due again.
            let again = Timers { session_deadline_ms: now_ms + FENCE_RETRY_MS, ..Timers::default() };
            self.timers.insert(member_id, again);
        }
        self.wake_ms = self.timers.values().map(Timers::first_ms).min();
        change
    }
}
