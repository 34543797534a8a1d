//! The groups of one partition of `__consumer_offsets`, under one lock.
//!
//! Nothing in here waits: what has to be written is handed to the log, which only enqueues it, and answers go through
//! oneshots.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use wire::api::join_group::JoinGroupResponse;
use wire::api::sync_group::SyncGroupResponse;

use super::core::{Group, Output, RequestId, Write};
use super::memory::{Memory, Use};
use super::queue::Consumers;
use super::{GroupConfig, Now};
use crate::phase::Phase;

pub(super) struct Shard {
    pub(super) partition: i32,
    pub(super) state: Mutex<ShardState>,
}

pub(super) struct ShardState {
    pub(super) phase: Phase,
    pub(super) groups: BTreeMap<String, Slot>,
    pub(super) joins: BTreeMap<RequestId, oneshot::Sender<JoinGroupResponse>>,
    pub(super) syncs: BTreeMap<RequestId, oneshot::Sender<SyncGroupResponse>>,
    /// When each group with a deadline is due.
    deadlines: BTreeSet<(i64, String)>,
    /// Member ids that were handed out, oldest first. Ids that were used meanwhile stay until they are the oldest.
    pending: VecDeque<PendingMember>,
    pending_bytes: usize,
    last_incarnation: u64,
    /// What producers have in the groups and have not ended, by producer id.
    transactions: BTreeMap<i64, Transaction>,
}

/// A producer's transaction in the groups of a partition.
#[derive(Default)]
struct Transaction {
    /// The groups that have offsets of it, pending or on their way. Some may have lost them again.
    groups: BTreeSet<String>,
    /// Its markers that are on their way to the log.
    markers: usize,
}

struct PendingMember {
    group_id: String,
    member_id: String,
}

impl PendingMember {
    fn size_bytes(&self) -> usize {
        const PENDING_BYTES: usize = 1_000;
        PENDING_BYTES + 2 * self.group_id.len() + 2 * self.member_id.len()
    }
}

/// A group and what the shard keeps about it.
pub(super) struct Slot {
    /// Its offsets, and its members if they use the classic protocol.
    pub(super) group: Group,
    /// Its members if it is a consumer group (KIP-848). Then `group` has none, but for the time in which its own are
    /// being handed over.
    pub(super) consumers: Option<Consumers>,
    /// Notified whenever offsets have become visible.
    pub(super) offsets_visible: Arc<Notify>,
    /// Distinguishes this group from a former one of the same name.
    pub(super) incarnation: u64,
    scheduled_ms: i64,
    /// The address that created the group, if it was in this process's time.
    creator: Option<IpAddr>,
    /// What was counted for the group, without its members.
    counted_bytes: usize,
}

impl Slot {
    /// Brings the count of memory up to date.
    fn count(&mut self, group_id: &str, memory: &Memory) {
        for (client_host, grown) in self.group.take_member_growth() {
            memory.grow(address_of(&client_host), Use::Members, grown);
        }
        let mut bytes = self.group.own_bytes() + 2 * group_id.len();
        if let Some(consumers) = &mut self.consumers {
            for (client_host, grown) in consumers.group.take_member_growth() {
                memory.grow(address_of(&client_host), Use::Members, grown);
            }
            bytes += consumers.group.own_bytes();
        }
        memory.grow(self.creator, Use::Offsets, bytes as isize - self.counted_bytes as isize);
        self.counted_bytes = bytes;
    }

    /// Gives back what was counted.
    fn forget(mut self, group_id: &str, memory: &Memory) {
        self.count(group_id, memory);
        for (client_host, bytes) in self.group.member_sizes() {
            memory.grow(address_of(client_host), Use::Members, -(bytes as isize));
        }
        for (client_host, bytes) in self.consumers.iter().flat_map(|consumers| consumers.group.member_sizes()) {
            memory.grow(address_of(&client_host), Use::Members, -(bytes as isize));
        }
        memory.grow(self.creator, Use::Offsets, -(self.counted_bytes as isize));
    }
}

impl Slot {
    /// Whether nothing is lost if the group is forgotten.
    fn is_vacant(&self) -> bool {
        self.group.is_vacant() && self.consumers.as_ref().is_none_or(Consumers::is_vacant)
    }

    /// Whether the group is nothing but a name in the log: no members, no offsets.
    pub(super) fn is_obsolete(&self) -> bool {
        self.is_idle() && self.group.is_obsolete()
    }

    /// Whether the group has no members and none is joining.
    pub(super) fn is_idle(&self) -> bool {
        self.group.is_idle() && self.consumers.as_ref().is_none_or(Consumers::is_idle)
    }

    /// Whether the log has a record of the group's membership.
    pub(super) fn is_stored(&self) -> bool {
        self.group.is_stored() || self.consumers.as_ref().is_some_and(|consumers| consumers.group.is_stored())
    }

    /// Whether the group's members consume the topic, as far as that is known (KIP-496).
    pub(super) fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.consumers {
            Some(consumers) => consumers.group.is_subscribed_to(topic),
            None => self.group.is_subscribed_to(topic),
        }
    }

    /// Estimate of the memory that the group takes.
    pub(super) fn size_bytes(&self) -> usize {
        self.group.size_bytes() + self.consumers.as_ref().map_or(0, |consumers| consumers.group.size_bytes())
    }

    pub(super) fn has_consumer(&self, member_id: &str) -> bool {
        self.consumers.as_ref().is_some_and(|consumers| consumers.group.has_member(member_id))
    }

    /// Members of the classic protocol that are about to become a consumer group's have its timers.
    fn wake_ms(&self) -> i64 {
        self.consumers.as_ref().map_or(self.group.wake_ms(), Consumers::wake_ms)
    }
}

/// The address in a member's host, which is written as Java does.
fn address_of(client_host: &str) -> Option<IpAddr> {
    client_host.strip_prefix('/')?.parse().ok()
}

impl ShardState {
    pub(super) fn loading() -> Self {
        Self {
            phase: Phase::Loading,
            groups: BTreeMap::new(),
            joins: BTreeMap::new(),
            syncs: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            last_incarnation: 0,
            transactions: BTreeMap::new(),
        }
    }

    pub(super) fn group(&mut self, group_id: &str) -> Option<&mut Group> {
        self.groups.get_mut(group_id).map(|slot| &mut slot.group)
    }

    /// The members of a consumer group, if it is one.
    pub(super) fn consumers(&mut self, group_id: &str) -> Option<&mut Consumers> {
        self.groups.get_mut(group_id)?.consumers.as_mut()
    }

    /// The group, new if it does not exist.
    pub(super) fn group_or_new(&mut self, group_id: &str, now: Now, creator: IpAddr) -> &mut Group {
        &mut self.slot_or_new(group_id, now, creator).group
    }

    /// The same with what the shard keeps about it.
    pub(super) fn slot_or_new(&mut self, group_id: &str, now: Now, creator: IpAddr) -> &mut Slot {
        if !self.groups.contains_key(group_id) {
            self.insert(group_id.to_owned(), Group::new(now), Some(creator));
        }
        self.groups.get_mut(group_id).expect("the group was just put there")
    }

    pub(super) fn insert(&mut self, group_id: String, group: Group, creator: Option<IpAddr>) {
        self.last_incarnation += 1;
        let slot = Slot {
            group,
            consumers: None,
            offsets_visible: Arc::new(Notify::new()),
            incarnation: self.last_incarnation,
            scheduled_ms: i64::MAX,
            creator,
            counted_bytes: 0,
        };
        for producer_id in slot.group.offsets.producers() {
            self.transactions.entry(producer_id).or_default().groups.insert(group_id.clone());
        }
        self.groups.insert(group_id, slot);
    }

    /// Answers requests; what is to be written comes back.
    pub(super) fn answer(&mut self, out: Vec<Output>) -> Vec<Write> {
        let mut writes = Vec::new();
        for output in out {
            // The receiver is dropped with its connection.
            match output {
                Output::Joined(request, response) => {
                    if let Some(sender) = self.joins.remove(&request) {
                        sender.send(response).ok();
                    }
                }
                Output::Synced(request, response) => {
                    if let Some(sender) = self.syncs.remove(&request) {
                        sender.send(response).ok();
                    }
                }
                Output::Write(write) => writes.push(write),
                Output::Rebalance(_) | Output::Rebalanced => {}
            }
        }
        writes
    }

    /// Updates the shard after a group has changed: its deadline, and its memory. A group that holds nothing is
    /// forgotten.
    pub(super) fn settle(&mut self, group_id: &str, memory: &Memory) {
        let Some(slot) = self.groups.get_mut(group_id) else { return };
        slot.count(group_id, memory);
        slot.consumers.take_if(|consumers| consumers.is_vacant());
        let wake_ms = slot.wake_ms();
        if wake_ms != slot.scheduled_ms {
            if slot.scheduled_ms != i64::MAX {
                self.deadlines.remove(&(slot.scheduled_ms, group_id.to_owned()));
            }
            if wake_ms != i64::MAX {
                self.deadlines.insert((wake_ms, group_id.to_owned()));
            }
            slot.scheduled_ms = wake_ms;
        }
        slot.count(group_id, memory);
        if slot.is_vacant() {
            self.remove(group_id, memory);
        }
    }

    /// Forgets a group.
    pub(super) fn remove(&mut self, group_id: &str, memory: &Memory) {
        let Some(slot) = self.groups.remove(group_id) else { return };
        if slot.scheduled_ms != i64::MAX {
            self.deadlines.remove(&(slot.scheduled_ms, group_id.to_owned()));
        }
        slot.offsets_visible.notify_waiters();
        slot.forget(group_id, memory);
    }

    /// Forgets all groups.
    pub(super) fn clear(&mut self, memory: &Memory) {
        for (group_id, slot) in std::mem::take(&mut self.groups) {
            slot.forget(&group_id, memory);
        }
        self.transactions.clear();
    }

    /// Remembers that a producer's transaction has offsets in a group.
    pub(super) fn add_to_transaction(&mut self, producer_id: i64, group_id: &str) {
        let transaction = self.transactions.entry(producer_id).or_default();
        if !transaction.groups.contains(group_id) {
            transaction.groups.insert(group_id.to_owned());
        }
    }

    /// Whether a producer's transaction is being ended, so that nothing can be added to it.
    pub(super) fn is_ending(&self, producer_id: i64) -> bool {
        self.transactions.get(&producer_id).is_some_and(|transaction| transaction.markers > 0)
    }

    /// A marker is on its way to the log.
    pub(super) fn begin_marker(&mut self, producer_id: i64) {
        self.transactions.entry(producer_id).or_default().markers += 1;
    }

    /// A producer's write that is on its way in one of the groups: what tells when it has ended.
    pub(super) fn write_of(&self, producer_id: i64) -> Option<Arc<Notify>> {
        let groups = &self.transactions.get(&producer_id)?.groups;
        let mut slots = groups.iter().filter_map(|group_id| self.groups.get(group_id));
        let slot = slots.find(|slot| slot.group.offsets.has_in_flight_of(producer_id))?;
        Some(Arc::clone(&slot.offsets_visible))
    }

    /// A marker has come to its end. `is_committed` is what it said, if it is durable. All groups change at once.
    pub(super) fn end_marker(&mut self, producer_id: i64, is_committed: Option<bool>, memory: &Memory) {
        let Some(transaction) = self.transactions.get_mut(&producer_id) else { return };
        transaction.markers -= 1;
        if let Some(is_committed) = is_committed {
            for group_id in std::mem::take(&mut transaction.groups) {
                let Some(slot) = self.groups.get_mut(&group_id) else { continue };
                slot.group.offsets.end_transaction(producer_id, is_committed);
                self.settle(&group_id, memory);
            }
        }
        self.forget_ended(producer_id);
    }

    /// Forgets a transaction that has nothing left in any group.
    pub(super) fn forget_ended(&mut self, producer_id: i64) {
        let Some(transaction) = self.transactions.get_mut(&producer_id) else { return };
        let groups = &self.groups;
        transaction.groups.retain(|group_id| {
            groups.get(group_id).is_some_and(|slot| slot.group.offsets.has_transaction(producer_id))
        });
        if transaction.groups.is_empty() && transaction.markers == 0 {
            self.transactions.remove(&producer_id);
        }
    }

    /// The memory of all groups, counted anew.
    #[cfg(test)]
    pub(super) fn counted_bytes(&self) -> usize {
        self.groups.iter().map(|(group_id, slot)| slot.size_bytes() + 2 * group_id.len()).sum()
    }

    #[cfg(test)]
    pub(super) fn transaction_count(&self) -> usize {
        self.transactions.len()
    }

    pub(super) fn next_deadline_ms(&self) -> i64 {
        self.deadlines.first().map_or(i64::MAX, |(deadline_ms, _)| *deadline_ms)
    }

    /// A group that is due.
    pub(super) fn pop_due(&mut self, now: Now) -> Option<String> {
        if self.next_deadline_ms() > now.monotonic_ms {
            return None;
        }
        let (_, group_id) = self.deadlines.pop_first()?;
        if let Some(slot) = self.groups.get_mut(&group_id) {
            slot.scheduled_ms = i64::MAX;
        }
        Some(group_id)
    }

    /// Remembers a member id that was handed out. Returns the ids that are dropped for it.
    pub(super) fn add_pending(
        &mut self,
        config: &GroupConfig,
        group_id: &str,
        member_id: &str,
    ) -> Vec<(String, String)> {
        let pending = PendingMember { group_id: group_id.to_owned(), member_id: member_id.to_owned() };
        self.pending_bytes += pending.size_bytes();
        self.pending.push_back(pending);
        let mut oldest = Vec::new();
        while self.pending_bytes > config.max_pending_member_bytes && self.pending.len() > 1 {
            let Some(pending) = self.pending.pop_front() else { break };
            self.pending_bytes -= pending.size_bytes();
            oldest.push((pending.group_id, pending.member_id));
        }
        oldest
    }
}
