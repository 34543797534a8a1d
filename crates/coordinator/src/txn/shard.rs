//! The transactional ids of one partition of `__transaction_state`, under one lock.
//!
//! Nothing in here waits. A shard belongs to one leader epoch: what is still on its way when the partition is unloaded
//! finds the shard without ids, and changes nothing in the one that came after.

use std::collections::BTreeMap;
use std::net::IpAddr;

use parking_lot::Mutex;

use super::core::Transaction;
use super::memory::Memory;
use crate::phase::Phase;

pub(super) struct Shard {
    pub(super) partition: i32,
    /// The leader epoch in which it was loaded: the coordinator epoch that markers carry.
    pub(super) coordinator_epoch: i32,
    pub(super) state: Mutex<ShardState>,
}

pub(super) struct ShardState {
    pub(super) phase: Phase,
    ids: BTreeMap<String, Slot>,
}

/// An id and what the shard keeps about it.
struct Slot {
    transaction: Transaction,
    /// The address that created the id, if it was in this process's time.
    creator: Option<IpAddr>,
    /// What was counted for the id.
    counted_bytes: usize,
}

impl ShardState {
    pub(super) fn loading() -> Self {
        Self { phase: Phase::Loading, ids: BTreeMap::new() }
    }

    pub(super) fn get(&self, transactional_id: &str) -> Option<&Transaction> {
        self.ids.get(transactional_id).map(|slot| &slot.transaction)
    }

    pub(super) fn get_mut(&mut self, transactional_id: &str) -> Option<&mut Transaction> {
        self.ids.get_mut(transactional_id).map(|slot| &mut slot.transaction)
    }

    pub(super) fn creator(&self, transactional_id: &str) -> Option<IpAddr> {
        self.ids.get(transactional_id).and_then(|slot| slot.creator)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Transaction)> {
        self.ids.iter().map(|(transactional_id, slot)| (transactional_id.as_str(), &slot.transaction))
    }

    pub(super) fn insert(&mut self, transactional_id: String, transaction: Transaction, creator: Option<IpAddr>) {
        self.ids.insert(transactional_id, Slot { transaction, creator, counted_bytes: 0 });
    }

    /// Brings the count of memory up to date after an id has changed. An id of which nothing is stored is forgotten.
    pub(super) fn settle(&mut self, transactional_id: &str, memory: &Memory) {
        let Some(slot) = self.ids.get_mut(transactional_id) else { return };
        if slot.transaction.is_vacant() {
            return self.remove(transactional_id, memory);
        }
        let bytes = slot.transaction.size_bytes() + 2 * transactional_id.len();
        memory.grow(slot.creator, bytes as isize - slot.counted_bytes as isize);
        slot.counted_bytes = bytes;
    }

    /// Forgets an id.
    pub(super) fn remove(&mut self, transactional_id: &str, memory: &Memory) {
        if let Some(slot) = self.ids.remove(transactional_id) {
            memory.grow(slot.creator, -(slot.counted_bytes as isize));
        }
    }

    /// Forgets all ids.
    pub(super) fn clear(&mut self, memory: &Memory) {
        for (_, slot) in std::mem::take(&mut self.ids) {
            memory.grow(slot.creator, -(slot.counted_bytes as isize));
        }
    }
}
