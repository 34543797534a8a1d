//! How partitions of a cluster changed between two looks at it, where nobody tells more.

use std::collections::{BTreeSet, VecDeque};

use client::TopicPartition;

use crate::embedded_broker::{PartitionChange, PartitionState};
use crate::snapshot::{Partition, Snapshot};

/// Of all partitions. The oldest give way.
const CHANGES_MAX: usize = 5000;

#[derive(Default)]
pub(crate) struct SeenChanges {
    /// Since when it is looked.
    began_ms: Option<i64>,
    /// The newest last.
    changes: VecDeque<(TopicPartition, PartitionChange)>,
}

impl SeenChanges {
    /// Remembers what is different between a look and the one before.
    pub(crate) fn note(&mut self, before: &Snapshot, after: &Snapshot) {
        self.began_ms.get_or_insert(before.at_ms);
        for (name, topic) in &after.topics {
            let Some(known) = before.topics.get(name).filter(|known| known.id == topic.id) else { continue };
            for (old, new) in known.partitions.iter().zip(&topic.partitions) {
                let Some(cause) = cause(after, old, new) else { continue };
                if self.changes.len() == CHANGES_MAX {
                    self.changes.pop_front();
                }
                let change = PartitionChange {
                    at_ms: after.at_ms,
                    after_ms: Some(before.at_ms),
                    cause,
                    before: state(old),
                    after: state(new),
                };
                self.changes.push_back((TopicPartition::new(name.clone(), new.index), change));
            }
        }
    }

    /// Since when it is looked, and what was seen of a partition since then, the newest first.
    pub(crate) fn of(&self, of: &TopicPartition) -> (Option<i64>, Vec<PartitionChange>) {
        let found = self.changes.iter().rev().filter(|(partition, _)| partition == of);
        (self.began_ms, found.map(|(_, change)| change.clone()).collect())
    }
}

fn state(of: &Partition) -> PartitionState {
    PartitionState {
        leader: Some(of.leader).filter(|leader| *leader >= 0),
        leader_epoch: of.leader_epoch,
        isr: of.isr.clone(),
        replicas: of.replicas.clone(),
    }
}

/// What a change came from, as far as two looks show it. `None` where nothing has changed.
fn cause(after: &Snapshot, old: &Partition, new: &Partition) -> Option<String> {
    // Brokers may name those in sync in any order.
    let in_sync = |of: &Partition| of.isr.iter().copied().collect::<BTreeSet<_>>();
    if old.replicas != new.replicas {
        return Some("a reassignment".to_owned());
    }
    if (old.leader, old.leader_epoch, in_sync(old)) == (new.leader, new.leader_epoch, in_sync(new)) {
        return None;
    }
    let mut lost = old.isr.iter().filter(|id| !new.isr.contains(id)).chain([&old.leader]);
    let is_down = |id: &&i32| **id >= 0 && **id != new.leader && !after.is_alive(**id);
    Some(lost.find(is_down).map_or_else(|| "not known".to_owned(), |id| format!("broker {id} was down or fenced")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Broker, Topic};

    fn look(at_ms: i64, alive: &[i32], leader: i32, leader_epoch: i32, isr: &[i32], replicas: &[i32]) -> Snapshot {
        let brokers = alive.iter().map(|id| (*id, Broker { id: *id, is_alive: true, ..Broker::default() }));
        let (isr, replicas) = (isr.to_vec(), replicas.to_vec());
        let partition = Partition { leader, leader_epoch, isr, replicas, ..Partition::default() };
        let topic = Topic { id: "first".to_owned(), partitions: vec![partition], ..Topic::default() };
        Snapshot { at_ms, brokers: brokers.collect(), topics: [("t".to_owned(), topic)].into(), ..Snapshot::empty() }
    }

    #[test]
    fn what_is_different_between_two_looks_is_a_change() {
        let looks = [
            look(1, &[1, 2], 1, 0, &[1, 2], &[1, 2]),
            look(2, &[1, 2], 1, 0, &[2, 1], &[1, 2]),
            look(3, &[2], 2, 1, &[2], &[1, 2]),
            look(4, &[1, 2], 2, 1, &[2, 1], &[1, 2]),
            look(5, &[1, 2], 2, 1, &[2, 1], &[2, 3]),
        ];
        let mut seen = SeenChanges::default();
        looks.windows(2).for_each(|pair| seen.note(&pair[0], &pair[1]));
        let (began_ms, changes) = seen.of(&TopicPartition::new("t", 0));
        let told = changes.iter().map(|change| (change.after_ms.unwrap(), change.at_ms, change.cause.as_str()));
        let expected = [(4, 5, "a reassignment"), (3, 4, "not known"), (2, 3, "broker 1 was down or fenced")];
        assert_eq!((began_ms, told.collect::<Vec<_>>()), (Some(1), expected.to_vec()));
        assert_eq!((changes[2].before.leader, changes[2].after.leader), (Some(1), Some(2)));
        assert_eq!(seen.of(&TopicPartition::new("t", 1)).1, []);
    }

    #[test]
    fn another_topic_with_the_name_has_not_changed_from_it() {
        let mut other = look(2, &[1], 1, 7, &[1], &[1]);
        other.topics.get_mut("t").unwrap().id = "second".to_owned();
        let mut seen = SeenChanges::default();
        seen.note(&look(1, &[1], 1, 0, &[1], &[1]), &other);
        assert_eq!(seen.of(&TopicPartition::new("t", 0)).1, []);
    }
}
