//! Topics that a member's pattern matches and that the member may not know of: it gets no partition of them.
//!
//! What a pattern matches is stored, for all members that have it. What of it is hidden from one of them is found out
//! with each of its heartbeats, as rights come and go, and not stored. No answer to a heartbeat has what is hidden from
//! its sender then. A target that was made before the group heard of that may have it; then another target is made, so
//! that those get the partitions who may.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::member::MemberMetadata;
use super::{ConsumerGroup, Context};
use crate::group::interfaces::MayDescribe;

/// What is hidden, by member. A member of which that is not known has none. Members with the same rights share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Hidden(BTreeMap<String, Arc<BTreeSet<String>>>);

impl Hidden {
    pub(super) fn of(&self, member_id: &str) -> Option<&Arc<BTreeSet<String>>> {
        self.0.get(member_id)
    }

    pub(super) fn contains(&self, member_id: &str, topic: &str) -> bool {
        self.of(member_id).is_some_and(|hidden| hidden.contains(topic))
    }

    fn set(&mut self, member_id: &str, hidden: BTreeSet<String>) {
        let shared = self.0.values().find(|known| ***known == hidden).cloned();
        self.0.insert(member_id.to_owned(), shared.unwrap_or_else(|| Arc::new(hidden)));
    }

    /// Forgets what was hidden. It is found out again with the next heartbeats.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets members that are not there any more.
    pub(super) fn retain(&mut self, is_member: impl Fn(&String) -> bool) {
        self.0.retain(|member_id, _| is_member(member_id));
    }
}

impl ConsumerGroup {
    /// Finds out what of its topics a member may know of. Returns whether the group needs another target for it.
    pub(super) fn hide_topics(
        &mut self,
        context: Context<'_>,
        member_id: &str,
        may_describe: Option<&MayDescribe>,
    ) -> bool {
        let Some(may_describe) = may_describe else { return false };
        let pattern = self.members.get(member_id).and_then(MemberMetadata::pattern);
        let Some(regex) = pattern.and_then(|pattern| self.regexes.get(pattern)) else {
            self.hidden.0.remove(member_id);
            return false;
        };
        let hidden: BTreeSet<String> = regex.topics.iter().filter(|topic| !may_describe(topic)).cloned().collect();
        let former = self.hidden.of(member_id);
        if former.is_some_and(|former| **former == hidden) {
            return false;
        }
        let was_hidden = |topic: &String| former.is_some_and(|former| former.contains(topic));
        let target = self.targets.get(member_id);
        let is_target = |topic: &String| {
            let found = context.topics.topic(topic);
            found.is_some_and(|found| target.is_some_and(|target| target.contains_key(&found.id)))
        };
        // Of a member that has not been heard of it may be that nobody was allowed the topic when the target was made.
        let is_left_out = |topic: &String| {
            let found = context.topics.topic(topic).filter(|_| former.is_none());
            found.is_some_and(|found| !self.targets.values().any(|target| target.contains_key(&found.id)))
        };
        let has_lost = || hidden.iter().any(|topic| !was_hidden(topic) && is_target(topic));
        let mut shown = regex.topics.difference(&hidden);
        let needs_target = has_lost() || shown.any(|topic| was_hidden(topic) || is_left_out(topic));
        self.hidden.set(member_id, hidden);
        needs_target
    }
}
