//! Consumer groups of a whole cluster: who is in them, and what the ledger of them needs to know of the nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use coordinator::group::OFFSETS_TOPIC;
use wire::api::consumer_group_describe::DescribedGroup;

use super::cluster::Cluster;
use super::copiers::{COPYING_GROUP, copy};
use super::group_ledger::{GroupEvent, Owned, owned};
use super::ledger::{TopicPartition, topic_partition};
use super::topics::{COPIES, SOURCES};
use crate::partition::Partition;

/// Transactional ids of copiers.
const COPIERS: usize = 3;

impl Cluster {
    /// Whether there are consumers that copy.
    pub(super) fn has_copiers(&self) -> bool {
        self.topics.iter().any(|(topic, ..)| *topic == COPIES)
    }

    pub(super) fn start_copiers(&mut self) {
        self.world.lock().copying = COPIERS;
        let world = || Arc::clone(&self.world);
        self.clients.enter(|| {
            for number in 0..COPIERS {
                tokio::spawn(copy(world(), number));
            }
        });
    }

    pub(super) fn observe_group(&mut self, event: GroupEvent) {
        match event {
            GroupEvent::Answered(answered) => {
                let end_offset = self.greatest_end_offset(&(OFFSETS_TOPIC.into(), 0));
                self.groups.answers(answered, end_offset);
            }
            GroupEvent::Commits { number, attempt } => self.groups.commits(number, attempt),
        }
    }

    /// What the coordinator of the group says, if there is one.
    fn described(&self) -> Option<DescribedGroup> {
        self.coordinate(OFFSETS_TOPIC, |broker| broker.groups.consumer_group_describe(COPYING_GROUP))
    }

    /// Whether every member has what the coordinator says, and that is all that it is to have.
    pub(super) fn has_converged(&self) -> bool {
        let Some(described) = self.described().filter(|described| described.group_state == "Stable") else {
            return false;
        };
        let of_coordinator: BTreeMap<String, (i32, Owned)> = described
            .members
            .into_iter()
            .map(|member| (member.member_id, (member.member_epoch, owned(&member.assignment))))
            .collect();
        of_coordinator == self.world.lock().members
    }

    /// The partitions that are copied, by their leaders.
    fn sources<'a>(&self, led: &'a [Arc<Partition>]) -> impl Iterator<Item = &'a Arc<Partition>> + use<'a> {
        led.iter().filter(|leader| SOURCES.contains(&&*leader.topic))
    }

    /// Has copiers end when nobody writes any more what they would copy, and they have copied all of it.
    pub(super) fn may_end_copiers(&mut self) {
        let is_written = {
            let world = self.world.lock();
            world.transacting == 0 && world.is_done.iter().all(|is_done| *is_done) && !world.is_copied
        };
        let led = self.led();
        let sources = self.sources(&led).map(|leader| (topic_partition(leader), leader.view().log_end_offset()));
        let sources: Vec<(TopicPartition, i64)> = sources.collect();
        // Some may be without a leader at the moment.
        let count: i32 =
            self.topics.iter().filter(|(topic, ..)| SOURCES.contains(topic)).map(|(_, count, _)| count).sum();
        if is_written && sources.len() == count as usize && self.transactions.is_copied(&sources) {
            self.world.lock().is_copied = true;
        }
    }

    /// Checks what is left when all has come to rest.
    pub(super) fn check_groups(&mut self) {
        let led = self.led();
        let sources: Vec<_> = self.sources(&led).map(|leader| topic_partition(leader)).collect();
        self.transactions.check_copies(&(COPIES.into(), 0), &sources);
        self.groups.check_described(&self.described().expect("every partition has a leader"));
    }
}
