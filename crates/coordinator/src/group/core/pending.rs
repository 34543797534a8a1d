//! Offsets that transactions commit (KIP-447): pending until a marker decides about them (`OffsetMetadataManager`).
//!
//! A commit marker makes them visible, each unless the log has a later record for its partition: what counts is the
//! order of the records, not that of the markers. An abort marker drops them. The removal of an offset also removes
//! what is pending for its partition.
//!
//! A marker ends all that its producer has pending in the group. The coordinator therefore lets it wait for the
//! producer's writes that are on their way, and begins no new ones meanwhile.

use std::collections::BTreeSet;

use super::offsets::{CommittedOffset, OffsetWrite, Offsets, OpenTransaction, PendingOffset};

impl Offsets {
    /// Approximate memory of what is kept for a transaction, and for each of its offsets.
    const TRANSACTION_BYTES: usize = 1_000;
    const PENDING_BYTES: usize = 320;

    /// Begins a write as [`Self::begin`] does, in the transaction of a producer.
    pub fn begin_pending(
        &mut self,
        producer_id: i64,
        topic: &str,
        partition: i32,
        value: CommittedOffset,
    ) -> OffsetWrite {
        let transaction = self.transactions.entry(producer_id).or_insert_with(|| {
            self.bytes += Self::TRANSACTION_BYTES;
            OpenTransaction::default()
        });
        transaction.in_flight += 1;
        OffsetWrite { producer_id: Some(producer_id), ..self.begin(topic, partition, Some(value)) }
    }

    /// How much more memory an offset would take in the transaction of a producer.
    pub fn pending_growth(&self, producer_id: i64, topic: &str, partition: i32, metadata: &str) -> usize {
        let transaction = self.transactions.get(&producer_id);
        let of_transaction = if transaction.is_some() { 0 } else { Self::TRANSACTION_BYTES };
        let of_topic = match transaction {
            Some(transaction) if transaction.topics.contains_key(topic) => 0,
            _ => Self::TOPIC_BYTES + topic.len(),
        };
        let pending = self.slot(topic, partition).and_then(|slot| slot.pending.get(&producer_id));
        let of_offset = match pending {
            Some(pending) => metadata.len().saturating_sub(pending.value.metadata.len()),
            None => Self::PENDING_BYTES + metadata.len(),
        };
        self.slot_growth(topic, partition) + of_transaction + of_topic + of_offset
    }

    /// Whether an open transaction may change the offset of a partition.
    pub fn is_pending(&self, topic: &str, partition: i32) -> bool {
        self.slot(topic, partition).is_some_and(|slot| !slot.pending.is_empty())
    }

    /// The producers whose transactions have offsets in the group, pending or on their way.
    pub fn producers(&self) -> impl Iterator<Item = i64> {
        self.transactions.keys().copied()
    }

    /// Whether a transaction has offsets in the group, pending or on their way.
    pub fn has_transaction(&self, producer_id: i64) -> bool {
        self.transactions.contains_key(&producer_id)
    }

    /// Whether a write of a transaction is on its way.
    pub fn has_in_flight_of(&self, producer_id: i64) -> bool {
        self.transactions.get(&producer_id).is_some_and(|transaction| transaction.in_flight > 0)
    }

    /// Applies a record of a transaction that has been read from the log.
    pub fn replay_pending(&mut self, producer_id: i64, topic: &str, partition: i32, value: CommittedOffset) {
        let write = self.begin_pending(producer_id, topic, partition, value);
        self.finish(write, true);
    }

    /// Ends a transaction as its marker says.
    pub fn end_transaction(&mut self, producer_id: i64, is_committed: bool) {
        let Some(transaction) = self.transactions.get_mut(&producer_id) else { return };
        let topics = std::mem::take(&mut transaction.topics);
        for (topic, partitions) in topics {
            self.bytes -= Self::TOPIC_BYTES + topic.len();
            for partition in partitions {
                let slot = self.slot_mut(&topic, partition);
                let Some(PendingOffset { value, sequence }) = slot.pending.remove(&producer_id) else { continue };
                let held = Self::PENDING_BYTES + value.metadata.len();
                let is_visible = is_committed || storage::injected_fault!(AbortedOffsetsVisible);
                let grown = if is_visible { slot.show(sequence, Some(value)) } else { 0 };
                self.bytes = self.bytes.saturating_add_signed(grown) - held;
                self.drop_unused_slot(&topic, partition);
            }
        }
        self.drop_unused_transaction(producer_id);
    }

    /// Ends a write of a transaction. `None` if its record is not durable.
    pub(super) fn finish_pending(
        &mut self,
        producer_id: i64,
        topic: &str,
        partition: i32,
        sequence: u64,
        value: Option<CommittedOffset>,
    ) {
        if let Some(transaction) = self.transactions.get_mut(&producer_id) {
            transaction.in_flight -= 1;
        }
        if let Some(value) = value {
            self.set_pending(producer_id, topic, partition, PendingOffset { value, sequence });
        }
        self.drop_unused_transaction(producer_id);
    }

    /// Of several writes of a transaction to a partition the last one in the log counts.
    fn set_pending(&mut self, producer_id: i64, topic: &str, partition: i32, offset: PendingOffset) {
        let slot = self.slot_mut(topic, partition);
        let former = slot.pending.get(&producer_id);
        if offset.sequence < slot.removal_sequence || former.is_some_and(|former| former.sequence > offset.sequence) {
            return;
        }
        let grown = Self::PENDING_BYTES + offset.value.metadata.len();
        let shrunk = former.map_or(0, |former| Self::PENDING_BYTES + former.value.metadata.len());
        slot.pending.insert(producer_id, offset);
        self.bytes = self.bytes + grown - shrunk;
        let Some(transaction) = self.transactions.get_mut(&producer_id) else { return };
        if !transaction.topics.contains_key(topic) {
            self.bytes += Self::TOPIC_BYTES + topic.len();
            transaction.topics.insert(topic.to_owned(), BTreeSet::new());
        }
        if let Some(partitions) = transaction.topics.get_mut(topic) {
            partitions.insert(partition);
        }
    }

    /// Drops what transactions have written to a partition before its offset was removed.
    pub(super) fn drop_pending_before(&mut self, topic: &str, partition: i32, sequence: u64) {
        let slot = self.slot_mut(topic, partition);
        slot.removal_sequence = slot.removal_sequence.max(sequence);
        let mut dropped = Vec::new();
        slot.pending.retain(|producer_id, pending| {
            let is_later = pending.sequence > sequence;
            if !is_later {
                dropped.push((*producer_id, pending.value.metadata.len()));
            }
            is_later
        });
        for (producer_id, metadata_bytes) in dropped {
            self.bytes -= Self::PENDING_BYTES + metadata_bytes;
            let Some(transaction) = self.transactions.get_mut(&producer_id) else { continue };
            let Some(partitions) = transaction.topics.get_mut(topic) else { continue };
            partitions.remove(&partition);
            if partitions.is_empty() {
                transaction.topics.remove(topic);
                self.bytes -= Self::TOPIC_BYTES + topic.len();
            }
            self.drop_unused_transaction(producer_id);
        }
    }

    fn drop_unused_transaction(&mut self, producer_id: i64) {
        if self.transactions.get(&producer_id).is_some_and(OpenTransaction::is_unused) {
            self.transactions.remove(&producer_id);
            self.bytes -= Self::TRANSACTION_BYTES;
        }
    }
}
