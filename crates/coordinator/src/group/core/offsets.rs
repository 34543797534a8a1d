//! The committed offsets of a group: who may commit, what is visible when, and when they expire.
//!
//! A commit becomes visible when its record is durable, so that no reader sees an offset that a crash takes back.
//! Writes of one group get a sequence in the order of the log; whichever is durable first, the later one in the log
//! wins.
//!
//! An offset of a transaction (KIP-447) is pending from when its record is durable: `pending` has
//! what becomes of it.

use std::collections::{BTreeMap, BTreeSet};

use wire::{ErrorCode, Uuid};

use super::{CONSUMER_PROTOCOL_TYPE, Group, State};
use crate::group::Now;

/// An offset as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommittedOffset {
    pub offset: i64,
    /// -1 if the client did not send it.
    pub leader_epoch: i32,
    pub metadata: String,
    pub commit_timestamp_ms: i64,
    /// When it expires if the client sent a retention time (OffsetCommit v2 to v4), else -1.
    pub expire_timestamp_ms: i64,
    /// Zero in records without it.
    pub topic_id: Uuid,
    /// Monotonic time of the commit.
    pub known_ms: i64,
}

/// A change of one offset whose record is on its way to the log. `None` removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetWrite {
    pub topic: String,
    pub partition: i32,
    pub value: Option<CommittedOffset>,
    pub(super) sequence: u64,
    /// The producer whose transaction it is part of.
    pub(super) producer_id: Option<i64>,
}

/// An offset whose record is durable, and whose transaction is open.
#[derive(Clone, Debug)]
pub(super) struct PendingOffset {
    pub(super) value: CommittedOffset,
    pub(super) sequence: u64,
}

/// What a producer's transaction has in the group.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenTransaction {
    /// The partitions with a pending offset, by topic.
    pub(super) topics: BTreeMap<String, BTreeSet<i32>>,
    pub(super) in_flight: u32,
}

impl OpenTransaction {
    pub(super) fn is_unused(&self) -> bool {
        self.topics.is_empty() && self.in_flight == 0
    }
}

/// What is known of one partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    committed: Option<CommittedOffset>,
    /// Sequence of the write that `committed` comes from.
    sequence: u64,
    /// Sequence of the last removal: what was written before it is gone, pending or not.
    pub(super) removal_sequence: u64,
    in_flight: u32,
    /// Offsets of open transactions, by producer id.
    pub(super) pending: BTreeMap<i64, PendingOffset>,
}

impl Slot {
    fn is_unused(&self) -> bool {
        self.committed.is_none() && self.in_flight == 0 && self.pending.is_empty()
    }

    /// Makes a durable write visible, unless a later one is. Returns by how much the memory of its metadata changes.
    pub(super) fn show(&mut self, sequence: u64, value: Option<CommittedOffset>) -> isize {
        fn metadata_bytes(value: Option<&CommittedOffset>) -> isize {
            value.map_or(0, |value| value.metadata.len() as isize)
        }
        if sequence <= self.sequence {
            return 0;
        }
        self.sequence = sequence;
        let grown = metadata_bytes(value.as_ref());
        let former = std::mem::replace(&mut self.committed, value);
        grown - metadata_bytes(former.as_ref())
    }

    /// The values of the partition, visible and pending.
    fn values(&self) -> impl Iterator<Item = &CommittedOffset> {
        self.committed.iter().chain(self.pending.values().map(|pending| &pending.value))
    }
}

/// All offsets of a group, by topic and partition.
#[derive(Clone, Debug, Default)]
pub struct Offsets {
    topics: BTreeMap<String, BTreeMap<i32, Slot>>,
    /// By producer id.
    pub(super) transactions: BTreeMap<i64, OpenTransaction>,
    last_sequence: u64,
    in_flight: usize,
    pub(super) bytes: usize,
}

impl Offsets {
    const SLOT_BYTES: usize = 192;
    pub(super) const TOPIC_BYTES: usize = 120;

    /// Whether there is neither an offset, visible or pending, nor one on its way.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Whether a write is on its way.
    pub fn has_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    /// Whether a write to this partition is on its way.
    pub fn is_in_flight(&self, topic: &str, partition: i32) -> bool {
        self.slot(topic, partition).is_some_and(|slot| slot.in_flight > 0)
    }

    pub fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// How much more memory an offset would take, in a partition that has one or none.
    pub fn growth(&self, topic: &str, partition: i32, metadata: &str) -> usize {
        let held = self.get(topic, partition).map_or(0, |committed| committed.metadata.len());
        self.slot_growth(topic, partition) + metadata.len().saturating_sub(held)
    }

    /// How much more memory the slot of a partition would take.
    pub(super) fn slot_growth(&self, topic: &str, partition: i32) -> usize {
        match self.topics.get(topic) {
            None => Self::TOPIC_BYTES + topic.len() + Self::SLOT_BYTES,
            Some(partitions) if !partitions.contains_key(&partition) => Self::SLOT_BYTES,
            Some(_) => 0,
        }
    }

    /// The visible offset.
    pub fn get(&self, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        self.slot(topic, partition)?.committed.as_ref()
    }

    /// Whether there is an offset, visible, pending or on its way.
    pub fn contains(&self, topic: &str, partition: i32) -> bool {
        self.slot(topic, partition).is_some()
    }

    /// All visible offsets, topic by topic.
    pub fn topics(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = (i32, &CommittedOffset)>)> {
        self.topics.iter().map(|(topic, partitions)| {
            let visible =
                partitions.iter().filter_map(|(partition, slot)| Some((*partition, slot.committed.as_ref()?)));
            (topic.as_str(), visible)
        })
    }

    /// All partitions that have an offset, visible, pending or on its way.
    pub fn partitions(&self) -> Vec<(String, i32)> {
        self.partitions_where(|_, _| true)
    }

    /// The partitions whose offsets, visible and pending, are all of a kind. One whose first is on its way has none.
    pub fn partitions_where_all(&self, is_of_kind: impl Fn(&str, &CommittedOffset) -> bool) -> Vec<(String, i32)> {
        self.partitions_where(|topic, slot| {
            slot.values().next().is_some() && slot.values().all(|value| is_of_kind(topic, value))
        })
    }

    fn partitions_where(&self, is_wanted: impl Fn(&str, &Slot) -> bool) -> Vec<(String, i32)> {
        let mut wanted = Vec::new();
        for (topic, partitions) in &self.topics {
            let of_topic = partitions.iter().filter(|(_, slot)| is_wanted(topic, slot));
            wanted.extend(of_topic.map(|(partition, _)| (topic.clone(), *partition)));
        }
        wanted
    }

    /// Begins a write, in the order of the log. Every one has to be ended by [`Self::finish`].
    pub fn begin(&mut self, topic: &str, partition: i32, value: Option<CommittedOffset>) -> OffsetWrite {
        self.last_sequence += 1;
        self.in_flight += 1;
        self.slot_mut(topic, partition).in_flight += 1;
        OffsetWrite { topic: topic.to_owned(), partition, value, sequence: self.last_sequence, producer_id: None }
    }

    /// Ends a write: it counts if its record is durable.
    pub fn finish(&mut self, write: OffsetWrite, is_durable: bool) {
        let OffsetWrite { topic, partition, value, sequence, producer_id } = write;
        self.in_flight -= 1;
        self.slot_mut(&topic, partition).in_flight -= 1;
        match (producer_id, value) {
            (Some(producer_id), value) => {
                let value = value.filter(|_| is_durable);
                self.finish_pending(producer_id, &topic, partition, sequence, value);
            }
            (None, value) if is_durable => {
                if value.is_none() {
                    self.drop_pending_before(&topic, partition, sequence);
                }
                let grown = self.slot_mut(&topic, partition).show(sequence, value);
                self.bytes = self.bytes.saturating_add_signed(grown);
            }
            (None, _) => {}
        }
        self.drop_unused_slot(&topic, partition);
    }

    /// Applies a record that has been read from the log.
    pub fn replay(&mut self, topic: &str, partition: i32, value: Option<CommittedOffset>) {
        let write = self.begin(topic, partition, value);
        self.finish(write, true);
    }

    fn shift_known(&mut self, by_ms: i64) {
        for slot in self.topics.values_mut().flat_map(|partitions| partitions.values_mut()) {
            let pending = slot.pending.values_mut().map(|pending| &mut pending.value);
            slot.committed.iter_mut().chain(pending).for_each(|offset| offset.known_ms += by_ms);
        }
    }

    pub(super) fn slot(&self, topic: &str, partition: i32) -> Option<&Slot> {
        self.topics.get(topic)?.get(&partition)
    }

    pub(super) fn slot_mut(&mut self, topic: &str, partition: i32) -> &mut Slot {
        // Looked up twice, so that the common case, a topic that is there, needs no copy of its name.
        if !self.topics.contains_key(topic) {
            self.bytes += Self::TOPIC_BYTES + topic.len();
            self.topics.insert(topic.to_owned(), BTreeMap::new());
        }
        let partitions = self.topics.get_mut(topic).expect("the topic was just put there");
        let bytes = &mut self.bytes;
        partitions.entry(partition).or_insert_with(|| {
            *bytes += Self::SLOT_BYTES;
            Slot::default()
        })
    }

    pub(super) fn drop_unused_slot(&mut self, topic: &str, partition: i32) {
        let Some(partitions) = self.topics.get_mut(topic) else { return };
        if partitions.get(&partition).is_some_and(Slot::is_unused) {
            partitions.remove(&partition);
            self.bytes -= Self::SLOT_BYTES;
        }
        if partitions.is_empty() {
            self.topics.remove(topic);
            self.bytes -= Self::TOPIC_BYTES + topic.len();
        }
    }
}

impl Group {
    /// Whether the sender may commit. A member's commit counts as a heartbeat.
    pub fn check_commit(
        &mut self,
        now: Now,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        match self.state {
            State::Dead => return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE),
            // Consumers without a group, and administrators.
            State::Empty if generation < 0 => return Ok(()),
            _ => {}
        }
        if generation < 0 && member_id.is_empty() && instance_id.is_none() {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        self.validate_member(member_id, instance_id)?;
        if generation != self.generation {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        // The member knows the new generation and must not commit before it knows what it owns.
        if self.state == State::CompletingRebalance {
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        self.touch(now, member_id);
        Ok(())
    }

    /// Whether the sender may commit in a transaction: it may also while it waits for its assignment, and is no member
    /// to clients that name none, as those before KIP-447 do.
    pub fn check_transactional_commit(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        match self.state {
            State::Dead => return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE),
            State::Empty if generation < 0 => return Ok(()),
            _ if generation < 0 && member_id.is_empty() && instance_id.is_none() => return Ok(()),
            _ => {}
        }
        self.validate_member(member_id, instance_id)?;
        if generation == self.generation { Ok(()) } else { Err(ErrorCode::ILLEGAL_GENERATION) }
    }

    /// Whether the group may still be committed to.
    pub fn check_not_deleted(&self) -> Result<(), ErrorCode> {
        if self.state == State::Dead { Err(ErrorCode::COORDINATOR_NOT_AVAILABLE) } else { Ok(()) }
    }

    /// Whether offsets may be deleted (KIP-496): in a group with members only if its subscriptions are known.
    pub fn check_delete_offsets(&self) -> Result<(), ErrorCode> {
        match self.state {
            State::Dead => Err(ErrorCode::GROUP_ID_NOT_FOUND),
            State::Empty => Ok(()),
            _ if self.protocol_type() == Some(CONSUMER_PROTOCOL_TYPE) => Ok(()),
            _ => Err(ErrorCode::NON_EMPTY_GROUP),
        }
    }

    /// The partitions whose offsets have outlived the retention (KIP-211).
    ///
    /// Time counts from when the group became empty or from the commit, whichever is later; while the group has
    /// members, from the commit for topics without a subscriber. It is time on the monotonic clock: a jump of the wall
    /// clock expires nothing. `load` says what stands for the time before the broker started. An offset that a
    /// transaction may replace does not expire, however old it is.
    pub fn expired_offsets(&self, now: Now, retention_ms: i64) -> Vec<(String, i32)> {
        let empty_since_ms = match (self.state, &self.protocol_type) {
            (State::Empty, Some(_)) if self.state_timestamp_ms >= 0 => self.state_known_ms,
            (State::Empty, _) => i64::MIN,
            (State::Stable, Some(_)) if self.subscribed_topics.is_some() => i64::MIN,
            _ => return Vec::new(),
        };
        let is_expired = |slot: &Slot| {
            let is_settled = slot.in_flight == 0 && slot.pending.is_empty();
            let Some(committed) = slot.committed.as_ref().filter(|_| is_settled) else { return false };
            let (since_ms, retention_ms) = match committed.expire_timestamp_ms {
                -1 => (committed.known_ms.max(empty_since_ms), retention_ms),
                expire_ms => (committed.known_ms, expire_ms - committed.commit_timestamp_ms),
            };
            now.monotonic_ms - since_ms >= retention_ms
        };
        let mut expired = Vec::new();
        for (topic, partitions) in self.offsets.topics.iter().filter(|(topic, _)| !self.is_subscribed_to(topic)) {
            let of_topic = partitions.iter().filter(|(_, slot)| is_expired(slot));
            expired.extend(of_topic.map(|(partition, _)| (topic.clone(), *partition)));
        }
        expired
    }

    /// Moves what was timed on another clock, as the log's own time is, to the monotonic one.
    pub fn shift_known(&mut self, by_ms: i64) {
        self.state_known_ms += by_ms;
        self.offsets.shift_known(by_ms);
    }

    /// Whether the group is nothing but a name in the log: no members, no offsets.
    pub fn is_obsolete(&self) -> bool {
        self.is_idle() && self.offsets.is_empty()
    }

    /// Whether the group has no members and none is joining.
    pub fn is_idle(&self) -> bool {
        self.state == State::Empty && self.pending_joins.is_empty()
    }
}
