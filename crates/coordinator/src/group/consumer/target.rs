//! The target assignment: what every member is to have (`TargetAssignmentBuilder`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::Uuid;

use super::member::MemberMetadata;
use super::record::{Record, TargetEpoch};
use super::{Change, ConsumerGroup, Context};
use crate::group::Topic;
use crate::group::assignor::{Assignor, Partitions, Subscriber, Subscriptions};

impl ConsumerGroup {
    /// Makes a target for the group's epoch, unless there is one, or the last is too young (KIP-1263).
    pub(super) fn update_target(&mut self, context: Context<'_>, change: &mut Change) {
        let interval_ms = i64::from(context.settings.assignment_interval_ms);
        let is_young = self.assigned_ms.is_some_and(|assigned_ms| context.now.monotonic_ms < assigned_ms + interval_ms);
        if self.assignment_epoch() >= self.epoch() || is_young {
            return;
        }
        let assignment = self.assign(context);
        for (member_id, partitions) in assignment {
            if self.targets.get(&member_id) != Some(&partitions) {
                self.make(change, Record::Target { member_id, partitions: Some(partitions) });
            }
        }
        let target = TargetEpoch { epoch: self.epoch(), timestamp_ms: context.now.wall_ms };
        self.make(change, Record::TargetEpoch(Some(target)));
        self.assigned_ms = Some(context.now.monotonic_ms);
    }

    fn assign(&self, context: Context<'_>) -> Vec<(String, Partitions)> {
        let nothing = Partitions::new();
        // Most members have the same subscription and the same rights, and are looked up once.
        let mut known: BTreeMap<_, Arc<BTreeSet<Uuid>>> = BTreeMap::new();
        let mut partition_counts = BTreeMap::new();
        let mut members = Vec::with_capacity(self.members.len());
        for (member_id, metadata) in &self.members {
            let hidden = self.hidden.of(member_id).map(Arc::as_ptr);
            let topics = known.entry((&metadata.topics, metadata.pattern(), hidden)).or_insert_with(|| {
                let found =
                    self.subscribed(context, member_id, metadata).map(|topic| (topic.id, topic.partition_count));
                let found: BTreeMap<Uuid, i32> = found.collect();
                let ids = Arc::new(found.keys().copied().collect());
                // A topic that was read twice meanwhile has the partitions of the first time.
                found.into_iter().for_each(|(id, count)| _ = partition_counts.entry(id).or_insert(count));
                ids
            });
            members.push(Subscriber {
                member_id,
                instance_id: metadata.instance_id.as_deref(),
                topics: Arc::clone(topics),
                assigned: self.targets.get(member_id).unwrap_or(&nothing),
            });
        }
        let assignment = self.assignor(context).assign(&Subscriptions { members, partition_counts });
        self.members.keys().cloned().zip(assignment).collect()
    }

    /// The assignor that most members ask for; of equal ones the first of the settings.
    pub(super) fn assignor(&self, context: Context<'_>) -> Assignor {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for name in self.members.values().filter_map(|metadata| metadata.assignor.as_deref()) {
            *votes.entry(name).or_default() += 1;
        }
        let votes_of = |assignor: &Assignor| votes.get(assignor.name()).copied().unwrap_or(0);
        let most = context.settings.assignors.iter().rev().max_by_key(|assignor| votes_of(assignor));
        most.copied().unwrap_or(Assignor::Uniform)
    }

    /// The topics that a member subscribes to, as far as they exist and the member may know of them.
    fn subscribed<'a>(
        &'a self,
        context: Context<'a>,
        member_id: &'a str,
        metadata: &'a MemberMetadata,
    ) -> impl Iterator<Item = Topic> + use<'a> {
        let matched = metadata.pattern().and_then(|pattern| self.regexes.get(pattern));
        let matched = matched.into_iter().flat_map(|regex| &regex.topics);
        let shown = matched.filter(move |topic| !self.hidden.contains(member_id, topic));
        let names = metadata.topics.iter().chain(shown);
        names.filter_map(move |name| context.topics.topic(name))
    }

    pub(super) fn subscribed_topics(
        &self,
        context: Context<'_>,
        member_id: &str,
        metadata: &MemberMetadata,
    ) -> BTreeSet<Uuid> {
        self.subscribed(context, member_id, metadata).map(|topic| topic.id).collect()
    }
}
