//! Leading a member from what it has to what it is to have (`CurrentAssignmentBuilder`).
//!
//! First the member gives up, still in its epoch. When its heartbeat no longer names what it had to give up, it gets
//! the epoch of the target, and of what it is to have those partitions that nobody has. The rest follows as others give
//! it up.

use std::collections::{BTreeMap, BTreeSet};

use wire::Uuid;
use wire::api::consumer_group_heartbeat::TopicPartitions;

use super::member::{Assigned, Current, MemberState};
use crate::group::assignor::Partitions;

/// What a member is led to, and what decides how far it gets.
pub(super) struct Destination<'a> {
    pub(super) epoch: i32,
    pub(super) target: &'a Partitions,
    /// The topics that the member wants now. It may have changed its mind since the target was made (KAFKA-19431).
    pub(super) subscribed: &'a BTreeSet<Uuid>,
    /// What the member says that it has; without it, it may have everything still.
    pub(super) owned: Option<&'a [TopicPartitions]>,
    /// How many members have a partition, or have still to give it up.
    pub(super) owners: &'a BTreeMap<(Uuid, i32), usize>,
}

impl Destination<'_> {
    /// The member's next step, or none if it stays as it is. A member in a state that is not known has to have given up
    /// everything before.
    pub(super) fn next(&self, current: &Current) -> Current {
        match current.state {
            MemberState::Stable if current.epoch == self.epoch => self.drop_unsubscribed(current),
            MemberState::UnrevokedPartitions if self.owns_any(&current.pending_revocation) => {
                self.drop_unsubscribed(current)
            }
            MemberState::Stable | MemberState::UnrevokedPartitions | MemberState::UnreleasedPartitions => {
                self.advance(current, current.epoch)
            }
            MemberState::Unknown => self.advance(current, self.epoch),
        }
    }

    /// Whether the member may still have one of the partitions.
    fn owns_any(&self, partitions: &Assigned) -> bool {
        let Some(owned) = self.owned else { return true };
        owned.iter().any(|owned| {
            let wanted = partitions.get(&owned.topic_id);
            wanted.is_some_and(|wanted| owned.partitions.iter().any(|partition| wanted.contains_key(partition)))
        })
    }

    /// Has the member give up topics that it does not want any more, before there is a target without them.
    fn drop_unsubscribed(&self, current: &Current) -> Current {
        let (assigned, dropped): (Assigned, Assigned) =
            current.assigned.clone().into_iter().partition(|(topic, _)| self.subscribed.contains(topic));
        if dropped.is_empty() {
            return current.clone();
        }
        let mut pending = current.pending_revocation.clone();
        for (topic, partitions) in dropped {
            pending.entry(topic).or_default().extend(partitions);
        }
        if self.owns_any(&pending) {
            revoking(current, current.epoch, assigned, pending)
        } else {
            // It has done so already.
            Current { previous_epoch: current.epoch, assigned, ..current.clone() }
        }
    }

    fn advance(&self, current: &Current, epoch: i32) -> Current {
        let nothing = BTreeSet::new();
        let target_of = |topic: &Uuid| {
            let target = self.target.get(topic).filter(|_| self.subscribed.contains(topic));
            target.unwrap_or(&nothing)
        };
        let (mut assigned, mut pending) = (Assigned::new(), Assigned::new());
        for (topic, partitions) in &current.assigned {
            let target = target_of(topic);
            let (kept, given_up): (BTreeMap<i32, i32>, _) =
                partitions.iter().map(|(&partition, &since)| (partition, since)).partition(|(p, _)| target.contains(p));
            assigned.extend((!kept.is_empty()).then_some((*topic, kept)));
            pending.extend((!given_up.is_empty()).then_some((*topic, given_up)));
        }
        if !pending.is_empty() && self.owns_any(&pending) {
            return revoking(current, epoch, assigned, pending);
        }
        let mut waits = false;
        for topic in self.target.keys() {
            for &partition in target_of(topic) {
                if current.assigned.get(topic).is_some_and(|had| had.contains_key(&partition)) {
                    continue;
                }
                if self.is_free(current, *topic, partition) {
                    assigned.entry(*topic).or_default().insert(partition, self.epoch);
                } else {
                    waits = true;
                }
            }
        }
        Current {
            epoch: self.epoch,
            previous_epoch: current.epoch,
            state: if waits { MemberState::UnreleasedPartitions } else { MemberState::Stable },
            assigned,
            pending_revocation: Assigned::new(),
        }
    }

    /// Whether nobody else has a partition. The member itself may just have given it up.
    fn is_free(&self, current: &Current, topic: Uuid, partition: i32) -> bool {
        let own = current.pending_revocation.get(&topic).is_some_and(|pending| pending.contains_key(&partition));
        let owners = self.owners.get(&(topic, partition)).copied().unwrap_or(0);
        owners <= usize::from(own) || storage::injected_fault!(AssignBeforeRelease)
    }
}

fn revoking(current: &Current, epoch: i32, assigned: Assigned, pending_revocation: Assigned) -> Current {
    Current {
        epoch,
        previous_epoch: current.epoch,
        state: MemberState::UnrevokedPartitions,
        assigned,
        pending_revocation,
    }
}
