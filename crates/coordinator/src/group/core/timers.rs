//! Deadlines of a group. They lie on the monotonic clock.
//!
//! Members' heartbeats only ever move deadlines away, so [`Group::wake_ms`] is a lower bound that a heartbeat need not
//! touch: [`Group::tick`] looks at all members when it is reached, and computes it anew.

use super::member::NEVER;
use super::{Group, Output, RebalanceCause, State, Trigger};
use crate::group::{GroupConfig, Now};

/// Until when the first phase of a rebalance waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinTimer {
    /// A new group waits for more members, again and again until none joined in between or the rebalance timeout, of
    /// which `remaining_ms` are left, is used up.
    Initial {
        deadline_ms: i64,
        delay_ms: i64,
        remaining_ms: i64,
    },
    Rebalance {
        deadline_ms: i64,
    },
}

impl JoinTimer {
    fn deadline_ms(self) -> i64 {
        match self {
            Self::Initial { deadline_ms, .. } | Self::Rebalance { deadline_ms } => deadline_ms,
        }
    }
}

impl Group {
    /// When [`Self::tick`] must be called: no later than the first deadline. `i64::MAX` if there is none.
    pub fn wake_ms(&self) -> i64 {
        self.wake_ms
    }

    pub(super) fn wake_by(&mut self, deadline_ms: i64) {
        self.wake_ms = self.wake_ms.min(deadline_ms);
    }

    pub(super) fn set_join_timer(&mut self, timer: JoinTimer) {
        self.wake_by(timer.deadline_ms());
        self.join_timer = Some(timer);
    }

    /// Starts a member's session anew.
    pub(super) fn touch(&mut self, now: Now, member_id: &str) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.session_deadline_ms = now.monotonic_ms + i64::from(member.session_timeout_ms);
            self.wake_ms = self.wake_ms.min(member.session_deadline_ms);
        }
    }

    /// Starts the sessions of members that were read from the log. A group that has become too large, because the bound
    /// was lowered, rebalances, so that members can commit before some are left out.
    pub fn resume(&mut self, config: &GroupConfig, now: Now, out: &mut Vec<Output>) {
        for member in self.members.values_mut() {
            member.session_deadline_ms = now.monotonic_ms + i64::from(member.session_timeout_ms);
            self.wake_ms = self.wake_ms.min(member.session_deadline_ms);
        }
        if self.members.len() > config.max_size {
            self.prepare_rebalance(Trigger::of_none(RebalanceCause::TooManyMembers), config, now, out);
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, config: &GroupConfig, now: Now, out: &mut Vec<Output>) {
        if now.monotonic_ms < self.wake_ms {
            return;
        }
        self.expire_sessions(config, now, out);
        self.expire_pending_joins(now, out);
        self.expire_join(now, out);
        self.expire_syncs(config, now, out);
        let join_ms = self.join_timer.map_or(NEVER, JoinTimer::deadline_ms);
        let sessions = self.members.values().map(|member| member.session_deadline_ms);
        let first = sessions.chain(self.pending_joins.values().copied()).min().unwrap_or(NEVER);
        self.wake_ms = first.min(join_ms).min(self.sync_deadline_ms);
    }

    fn expire_sessions(&mut self, config: &GroupConfig, now: Now, out: &mut Vec<Output>) {
        let is_due = |deadline_ms: i64| deadline_ms <= now.monotonic_ms;
        let due = self.members.iter().filter(|(_, member)| is_due(member.session_deadline_ms));
        for member_id in due.map(|(member_id, _)| member_id.clone()).collect::<Vec<_>>() {
            let Some(member) = self.members.get_mut(&member_id) else { continue };
            // One expiry may have answered and renewed others.
            if !is_due(member.session_deadline_ms) {
                continue;
            }
            if member.has_satisfied_heartbeat() {
                // Its session begins anew when it is answered.
                member.session_deadline_ms = NEVER;
                continue;
            }
            let trigger = self.trigger(RebalanceCause::SessionExpired, &member_id);
            self.remove(&member_id, out);
            match self.state {
                State::Stable | State::CompletingRebalance => {
                    self.prepare_rebalance(trigger, config, now, out);
                }
                _ => self.complete_join_after_expiry(now, out),
            }
        }
    }

    fn expire_pending_joins(&mut self, now: Now, out: &mut Vec<Output>) {
        let before = self.pending_joins.len();
        self.pending_joins.retain(|_, deadline_ms| *deadline_ms > now.monotonic_ms);
        if self.pending_joins.len() < before {
            self.complete_join_after_expiry(now, out);
        }
    }

    /// Takes a member id back that was handed out and not used.
    pub fn forget_pending_member(&mut self, member_id: &str, now: Now, out: &mut Vec<Output>) {
        if self.pending_joins.remove(member_id).is_some() {
            self.complete_join_after_expiry(now, out);
        }
    }

    fn expire_join(&mut self, now: Now, out: &mut Vec<Output>) {
        match self.join_timer {
            Some(timer) if timer.deadline_ms() > now.monotonic_ms => {}
            Some(JoinTimer::Initial { delay_ms, remaining_ms, .. }) if self.new_member_added && remaining_ms > 0 => {
                self.new_member_added = false;
                let next_delay_ms = delay_ms.min(remaining_ms);
                self.set_join_timer(JoinTimer::Initial {
                    deadline_ms: now.monotonic_ms + next_delay_ms,
                    delay_ms: next_delay_ms,
                    remaining_ms: (remaining_ms - delay_ms).max(0),
                });
            }
            Some(_) => self.complete_join(now, out),
            None => {}
        }
    }

    /// Removes members that took part in the rebalance and never sent SyncGroup (KAFKA-12890).
    fn expire_syncs(&mut self, config: &GroupConfig, now: Now, out: &mut Vec<Output>) {
        if self.sync_deadline_ms > now.monotonic_ms {
            return;
        }
        self.sync_deadline_ms = NEVER;
        let missing = std::mem::take(&mut self.pending_syncs);
        let Some(first) = missing.first() else { return };
        let trigger = self.trigger(RebalanceCause::SyncExpired, first);
        for member_id in &missing {
            self.remove(member_id, out);
        }
        if matches!(self.state, State::CompletingRebalance | State::Stable) {
            self.prepare_rebalance(trigger, config, now, out);
        }
    }
}
