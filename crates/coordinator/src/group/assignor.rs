//! The server-side assignors of consumer groups (KIP-848): who gets which partitions. Pure.
//!
//! A group computes its target assignment with one of them whenever its epoch has moved on. Kafka's names and behaviour
//! (`UniformAssignor`, `RangeAssignor`); racks are left out of account, as in Kafka 4.3.
//!
//! Every partition of a topic with a subscriber is assigned to exactly one of its subscribers, whatever the former
//! assignment was, also one that names partitions twice or such that do not exist.

mod range;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::Uuid;

/// Partitions by topic. There is no topic without partitions.
pub type Partitions = BTreeMap<Uuid, BTreeSet<i32>>;

/// What a member brings along.
#[derive(Clone, Debug)]
pub struct Subscriber<'a> {
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
    /// Those of its topics that exist. Members with equal subscriptions share it.
    pub topics: Arc<BTreeSet<Uuid>>,
    /// What it was to have so far.
    pub assigned: &'a Partitions,
}

/// The members of a group, ordered by their ids, and how many partitions each topic of theirs has.
#[derive(Clone, Debug)]
pub struct Subscriptions<'a> {
    pub members: Vec<Subscriber<'a>>,
    pub partition_counts: BTreeMap<Uuid, i32>,
}

impl Subscriptions<'_> {
    /// Whether all members subscribe to the same topics.
    fn are_equal(&self) -> bool {
        let is_equal =
            |pair: &[Subscriber<'_>]| Arc::ptr_eq(&pair[0].topics, &pair[1].topics) || pair[0].topics == pair[1].topics;
        self.members.windows(2).all(is_equal)
    }

    fn partition_count(&self, topic: &Uuid) -> usize {
        self.partition_counts.get(topic).map_or(0, |&count| usize::try_from(count).unwrap_or(0))
    }

    /// Every partition of the topics that members subscribe to, without an owner.
    fn unowned(&self) -> Owners {
        let subscribed = self.members.iter().flat_map(|member| member.topics.iter());
        let unowned = |topic: &Uuid| (*topic, vec![None; self.partition_count(topic)]);
        Owners { topics: subscribed.collect::<BTreeSet<_>>().into_iter().map(unowned).collect() }
    }
}

/// Who has each partition, by the position of the member.
struct Owners {
    topics: BTreeMap<Uuid, Vec<Option<usize>>>,
}

impl Owners {
    fn get_mut(&mut self, topic: &Uuid, partition: i32) -> Option<&mut Option<usize>> {
        self.topics.get_mut(topic)?.get_mut(usize::try_from(partition).ok()?)
    }

    /// Partitions that nobody has, topic by topic.
    fn vacant(&mut self) -> impl Iterator<Item = &mut Option<usize>> {
        self.topics.values_mut().flatten().filter(|owner| owner.is_none())
    }

    /// What each member has, in the order of the members.
    fn into_assignment(self, members: usize) -> Vec<Partitions> {
        let mut assignment = vec![Partitions::new(); members];
        for (topic, owners) in self.topics {
            for (partition, owner) in (0..).zip(owners) {
                if let Some(partitions) = owner.and_then(|owner| assignment.get_mut(owner)) {
                    partitions.entry(topic).or_default().insert(partition);
                }
            }
        }
        assignment
    }
}

/// An assignor that groups can be told to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assignor {
    /// Spreads partitions evenly and moves few. The default.
    Uniform,
    /// Gives neighbouring partitions to a member, and the same ones of each topic.
    Range,
}

impl Assignor {
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Range];

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// What each member is to have, in the order of the members.
    pub fn assign(self, subscriptions: &Subscriptions<'_>) -> Vec<Partitions> {
        match self {
            Self::Uniform => uniform::assign(subscriptions),
            Self::Range => range::assign(subscriptions),
        }
    }
}

#[cfg(test)]
mod tests;
