//! The uniform assignor: everybody gets as many partitions as the others, and keeps what it had as far as that allows
//! (`UniformAssignor`).
//!
//! With equal subscriptions a member keeps partitions up to its quota, and the rest fills the others up
//! (`UniformHomogeneousAssignmentBuilder`). With different ones every member keeps what it is still subscribed to, the
//! rest goes to whoever has least, and partitions move from those with most to those with least, topic by topic, until
//! nothing moves any more or for a bounded number of rounds (`UniformHeterogeneousAssignmentBuilder`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use wire::Uuid;

use super::{Owners, Partitions, Subscriptions};

/// Rounds through all topics. With subscriptions that overlap in part each about halves the imbalance.
const ROUNDS_MAX: usize = 16;

pub(super) fn assign(subscriptions: &Subscriptions<'_>) -> Vec<Partitions> {
    let owners = if subscriptions.are_equal() { assign_equal(subscriptions) } else { Balance::of(subscriptions).run() };
    owners.into_assignment(subscriptions.members.len())
}

fn assign_equal(subscriptions: &Subscriptions<'_>) -> Owners {
    let mut owners = subscriptions.unowned();
    let members = subscriptions.members.len();
    if members == 0 {
        return owners;
    }
    let partitions: usize = owners.topics.values().map(Vec::len).sum();
    // How many members get one more than the others.
    let (least, mut extra) = (partitions / members, partitions % members);
    let mut missing = vec![0; members];
    for (position, member) in subscriptions.members.iter().enumerate() {
        let mut has_extra = extra > 0;
        let mut quota = least + usize::from(has_extra);
        for (topic, partition) in all(member.assigned) {
            let Some(owner) = owners.get_mut(topic, partition).filter(|owner| owner.is_none()) else { continue };
            if quota > 0 {
                *owner = Some(position);
                quota -= 1;
            }
        }
        // What it would have to be given is left to a later member that may have it already, if there are enough.
        if quota > 0 && has_extra && members - position > extra {
            has_extra = false;
            quota -= 1;
        }
        extra -= usize::from(has_extra);
        missing[position] = quota;
    }
    let takers = missing.iter().enumerate().flat_map(|(position, &missing)| std::iter::repeat_n(position, missing));
    for (owner, taker) in owners.vacant().zip(takers) {
        *owner = Some(taker);
    }
    owners
}

fn all(partitions: &Partitions) -> impl Iterator<Item = (&Uuid, i32)> {
    partitions.iter().flat_map(|(topic, partitions)| partitions.iter().map(move |&partition| (topic, partition)))
}

/// An assignment to members with different subscriptions.
struct Balance {
    owners: Owners,
    /// How many partitions each member has.
    sizes: Vec<usize>,
    /// The positions of each topic's subscribers.
    subscribers: BTreeMap<Uuid, Vec<usize>>,
}

impl Balance {
    /// What members keep: those of their partitions that they are still subscribed to.
    fn of(subscriptions: &Subscriptions<'_>) -> Self {
        let mut owners = subscriptions.unowned();
        let mut sizes = vec![0; subscriptions.members.len()];
        let mut subscribers: BTreeMap<Uuid, Vec<usize>> = BTreeMap::new();
        for (position, member) in subscriptions.members.iter().enumerate() {
            for topic in member.topics.iter() {
                subscribers.entry(*topic).or_default().push(position);
            }
            for (topic, partition) in all(member.assigned).filter(|(topic, _)| member.topics.contains(topic)) {
                if let Some(owner) = owners.get_mut(topic, partition).filter(|owner| owner.is_none()) {
                    *owner = Some(position);
                    sizes[position] += 1;
                }
            }
        }
        Self { owners, sizes, subscribers }
    }

    fn run(mut self) -> Owners {
        let topics = self.sorted_topics();
        for topic in &topics {
            self.fill(topic);
        }
        let shared: Vec<Uuid> = topics.into_iter().filter(|topic| self.subscribers[topic].len() > 1).collect();
        let mut topics_at_rest = 0;
        for _ in 0..ROUNDS_MAX {
            for topic in &shared {
                if topics_at_rest == shared.len() {
                    return self.owners;
                }
                topics_at_rest = if self.level(topic) { 1 } else { topics_at_rest + 1 };
            }
        }
        self.owners
    }

    /// Those with most partitions for a subscriber first, which leaves the others to even it out; of equal ones those
    /// with few subscribers, and then by id as Java compares it.
    fn sorted_topics(&self) -> Vec<Uuid> {
        let java_order = |Uuid(bytes): &Uuid| {
            let half = |range: std::ops::Range<usize>| {
                bytes[range].iter().fold(0i64, |half, &byte| (half << 8) | i64::from(byte))
            };
            (half(0..8), half(8..16))
        };
        let mut topics: Vec<Uuid> = self.owners.topics.keys().copied().collect();
        topics.sort_by(|a, b| {
            let (a_partitions, a_subscribers) = (self.owners.topics[a].len(), self.subscribers[a].len());
            let (b_partitions, b_subscribers) = (self.owners.topics[b].len(), self.subscribers[b].len());
            let by_ratio = Reverse(a_partitions * b_subscribers).cmp(&Reverse(b_partitions * a_subscribers));
            by_ratio.then(a_subscribers.cmp(&b_subscribers)).then_with(|| java_order(a).cmp(&java_order(b)))
        });
        topics
    }

    /// The subscribers of a topic, those with fewest partitions first.
    fn sorted_subscribers(&self, topic: &Uuid) -> Vec<usize> {
        let mut subscribers = self.subscribers.get(topic).cloned().unwrap_or_default();
        subscribers.sort_by_key(|&member| (self.sizes[member], member));
        subscribers
    }

    /// Gives each partition without an owner to whoever has least.
    fn fill(&mut self, topic: &Uuid) {
        let subscribers = self.sorted_subscribers(topic);
        let mut ranks: BTreeSet<(usize, usize)> =
            subscribers.iter().enumerate().map(|(rank, &member)| (self.sizes[member], rank)).collect();
        let Some(owners) = self.owners.topics.get_mut(topic) else { return };
        for owner in owners.iter_mut().filter(|owner| owner.is_none()) {
            let Some((size, rank)) = ranks.pop_first() else { return };
            ranks.insert((size + 1, rank));
            *owner = Some(subscribers[rank]);
            self.sizes[subscribers[rank]] += 1;
        }
    }

    /// Moves partitions of a topic from the subscribers with most to those with least. Says whether one has moved.
    fn level(&mut self, topic: &Uuid) -> bool {
        let Some(owners) = self.owners.topics.get(topic) else { return false };
        let mut owned: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (partition, owner) in owners.iter().enumerate() {
            owned.entry(owner.unwrap_or(usize::MAX)).or_default().push(partition);
        }
        let receivers = self.sorted_subscribers(topic);
        let ranked = |(rank, &member): (usize, &usize)| (self.sizes[member], rank);
        let mut least: BTreeSet<(usize, usize)> = receivers.iter().enumerate().map(ranked).collect();
        let mut most = least.clone();
        // Those that may have something to give, by rank, with their sizes as in `most`.
        let mut givers: Vec<(usize, usize)> = receivers.iter().map(|&member| (member, self.sizes[member])).collect();
        let mut has_moved = false;
        while let (Some(&(least_size, least_rank)), Some(&(most_size, most_rank))) = (least.first(), most.last()) {
            let giver = givers[most_rank].0;
            let Some(&partition) = owned.get(&giver).and_then(|partitions| partitions.last()) else {
                // It has nothing of the topic. The last takes its rank, as in Kafka.
                most.remove(&(most_size, most_rank));
                givers.swap_remove(most_rank);
                if let Some(&(_, size)) = givers.get(most_rank) {
                    most.remove(&(size, givers.len()));
                    most.insert((size, most_rank));
                }
                continue;
            };
            if most_size <= least_size + 1 {
                break;
            }
            let receiver = receivers[least_rank];
            least.remove(&(least_size, least_rank));
            least.insert((least_size + 1, least_rank));
            most.remove(&(most_size, most_rank));
            most.insert((most_size - 1, most_rank));
            givers[most_rank].1 = most_size - 1;
            owned.entry(giver).or_default().pop();
            self.sizes[giver] -= 1;
            self.sizes[receiver] += 1;
            if let Some(owner) = self.owners.topics.get_mut(topic).and_then(|owners| owners.get_mut(partition)) {
                *owner = Some(receiver);
            }
            has_moved = true;
        }
        has_moved
    }
}
