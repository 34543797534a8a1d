//! The range assignor: of each topic a member gets partitions that lie side by side (`RangeAssignor`).
//!
//! Static members come first, by instance id, so that they keep their partitions when they come back under another
//! member id; the others follow by member id. Topics with equally many partitions and the same subscribers are split
//! alike, which joins of streams need.

use std::collections::BTreeMap;

use wire::Uuid;

use super::{Partitions, Subscriptions};

/// How far the partitions of a topic have been given out.
struct Split {
    partitions: i32,
    least: i32,
    /// How many members get one more than the least.
    extra: i32,
    next: i32,
}

pub(super) fn assign(subscriptions: &Subscriptions<'_>) -> Vec<Partitions> {
    let mut subscribers: BTreeMap<Uuid, i32> = BTreeMap::new();
    for topic in subscriptions.members.iter().flat_map(|member| member.topics.iter()) {
        *subscribers.entry(*topic).or_default() += 1;
    }
    let split = |(topic, subscribers): (Uuid, i32)| {
        let partitions = subscriptions.partition_counts.get(&topic).copied().unwrap_or(0);
        (topic, Split { partitions, least: partitions / subscribers, extra: partitions % subscribers, next: 0 })
    };
    let mut splits: BTreeMap<Uuid, Split> = subscribers.into_iter().map(split).collect();

    let mut order: Vec<usize> = (0..subscriptions.members.len()).collect();
    order.sort_by_key(|&position| {
        let member = &subscriptions.members[position];
        (member.instance_id.is_none(), member.instance_id, member.member_id)
    });
    let mut assignment = vec![Partitions::new(); order.len()];
    for position in order {
        for topic in subscriptions.members[position].topics.iter() {
            let Some(split) = splits.get_mut(topic) else { continue };
            let quota = split.least + i32::from(split.extra > 0);
            split.extra = (split.extra - 1).max(0);
            let end = (split.next + quota).min(split.partitions);
            if split.next < end {
                assignment[position].insert(*topic, (split.next..end).collect());
            }
            split.next = end;
        }
    }
    assignment
}
