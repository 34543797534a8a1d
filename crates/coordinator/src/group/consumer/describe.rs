//! What administrators see of a group.

use std::collections::{BTreeMap, BTreeSet};

use wire::Uuid;
use wire::api::consumer_group_describe::{Assignment, DescribedGroup, Member, TopicPartitions};

use super::{ConsumerGroup, Context};

/// How far a group has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Empty,
    /// It has no target for its epoch yet.
    Assigning,
    /// Members are on their way to the target.
    Reconciling,
    Stable,
}

impl State {
    /// Kafka's name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
        }
    }
}

impl ConsumerGroup {
    pub fn state(&self) -> State {
        let is_reconciled = |member_id: &String| {
            self.current.get(member_id).is_some_and(|current| current.is_reconciled_to(self.assignment_epoch()))
        };
        if self.is_empty() {
            State::Empty
        } else if self.epoch() > self.assignment_epoch() {
            State::Assigning
        } else if self.members.keys().all(is_reconciled) {
            State::Stable
        } else {
            State::Reconciling
        }
    }

    pub fn describe(&self, context: Context<'_>, group_id: &str) -> DescribedGroup {
        const CLASSIC: i8 = 0;
        const CONSUMER: i8 = 1;
        let members = self.members.iter().map(|(member_id, metadata)| {
            let current = self.current.get(member_id).cloned().unwrap_or_default();
            let mut has: BTreeMap<Uuid, BTreeSet<i32>> = BTreeMap::new();
            for (topic, partitions) in current.assigned.iter().chain(&current.pending_revocation) {
                has.entry(*topic).or_default().extend(partitions.keys());
            }
            Member {
                member_id: member_id.clone(),
                instance_id: metadata.instance_id.clone(),
                rack_id: metadata.rack_id.clone(),
                member_epoch: current.epoch,
                client_id: metadata.client_id.clone(),
                client_host: metadata.client_host.clone(),
                subscribed_topic_names: metadata.topics.iter().cloned().collect(),
                subscribed_topic_regex: metadata.regex.clone(),
                assignment: assignment(context, has.iter()),
                target_assignment: assignment(context, self.targets.get(member_id).into_iter().flatten()),
                member_type: if metadata.classic.is_some() { CLASSIC } else { CONSUMER },
            }
        });
        DescribedGroup {
            group_id: group_id.to_owned(),
            group_state: self.state().name().to_owned(),
            group_epoch: self.epoch(),
            assignment_epoch: self.assignment_epoch(),
            assignor_name: self.assignor(context).name().to_owned(),
            members: members.collect(),
            ..Default::default()
        }
    }
}

/// Partitions of topics that still exist.
fn assignment<'a>(context: Context<'_>, topics: impl Iterator<Item = (&'a Uuid, &'a BTreeSet<i32>)>) -> Assignment {
    let of_topic = |(topic_id, partitions): (&Uuid, &BTreeSet<i32>)| {
        let topic_name = context.topics.name(*topic_id)?;
        Some(TopicPartitions { topic_id: *topic_id, topic_name, partitions: partitions.iter().copied().collect() })
    };
    Assignment { topic_partitions: topics.filter_map(of_topic).collect() }
}
