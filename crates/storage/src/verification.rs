//! Which producers are being asked about (KIP-890, `VerificationStateEntry`): before the first batch of a transaction
//! is appended, its coordinator has to say that the partition is part of that transaction. The guard tells the answer
//! to this question from one to an earlier question, which a marker may have overtaken.
//!
//! Pure. In memory only: a restart or another leader has them asked again.

use std::collections::HashMap;

use crate::config::Now;

/// Since this version of transactions the epoch grows with each (KIP-890): a late batch or marker cannot be taken for
/// one of the next transaction.
const EPOCH_BUMPS_SINCE: i8 = 2;

/// Whether a producer or marker of this `transaction.version` has an epoch for each transaction.
pub(crate) fn bumps_epoch(transaction_version: i8) -> bool {
    transaction_version >= EPOCH_BUMPS_SINCE
}

/// Names one question to a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationGuard(u64);

/// What has to happen before a transactional batch may be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// The transaction is open in this log.
    NotNeeded,
    /// Its coordinator has to be asked, and the batch to be appended with this guard if it agrees.
    Needed(VerificationGuard),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct VerificationEntry {
    pub(crate) guard: VerificationGuard,
    /// Of the batches that wait: the one with which the transaction has to begin.
    pub(crate) lowest_sequence: i32,
    pub(crate) producer_epoch: i16,
    pub(crate) bumps_epoch: bool,
    since_ms: i64,
}

/// At most one of each producer.
#[derive(Default)]
pub(crate) struct Verifications {
    entries: HashMap<i64, VerificationEntry>,
    last_guard: u64,
}

impl Verifications {
    pub(crate) fn get(&self, producer_id: i64) -> Option<&VerificationEntry> {
        self.entries.get(&producer_id)
    }

    /// Notes that a batch waits. Those of the same epoch share a guard; a newer epoch gets a new one, so that answers
    /// about the older count no more. `None` if the producer has a newer epoch already.
    pub(crate) fn start(
        &mut self,
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
        bumps_epoch: bool,
        now: Now,
    ) -> Option<VerificationGuard> {
        if let Some(known) = self.entries.get_mut(&producer_id).filter(|known| known.producer_epoch >= producer_epoch) {
            if known.producer_epoch > producer_epoch {
                return None;
            }
            known.lowest_sequence = known.lowest_sequence.min(base_sequence);
            return Some(known.guard);
        }
        self.last_guard += 1;
        let guard = VerificationGuard(self.last_guard);
        let (lowest_sequence, since_ms) = (base_sequence, now.monotonic_ms);
        let entry = VerificationEntry { guard, lowest_sequence, producer_epoch, bumps_epoch, since_ms };
        self.entries.insert(producer_id, entry);
        Some(guard)
    }

    /// A transaction has begun in the log.
    pub(crate) fn note_batch(&mut self, producer_id: i64) {
        self.entries.remove(&producer_id);
    }

    /// A transaction has ended in the log. What waits with the epoch that its marker has brought is of the next one.
    pub(crate) fn note_marker(&mut self, producer_id: i64, producer_epoch: i16) {
        let is_of_next = |entry: &VerificationEntry| entry.bumps_epoch && entry.producer_epoch == producer_epoch;
        if !self.entries.get(&producer_id).is_some_and(is_of_next) {
            self.entries.remove(&producer_id);
        }
    }

    pub(crate) fn remove_expired(&mut self, now: Now, expiration_ms: i64) {
        self.entries.retain(|_, entry| now.monotonic_ms.saturating_sub(entry.since_ms) < expiration_ms);
    }

    /// Forgets the oldest if there are more than `entries_max`, an eighth of them at once.
    pub(crate) fn enforce_limit(&mut self, entries_max: usize) {
        if self.entries.len() <= entries_max {
            return;
        }
        let mut guards: Vec<u64> = self.entries.values().map(|entry| entry.guard.0).collect();
        let excess = (guards.len() - entries_max + entries_max / 8).min(guards.len() - 1);
        let (_, &mut first_kept, _) = guards.select_nth_unstable(excess);
        self.entries.retain(|_, entry| entry.guard.0 >= first_kept);
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { wall_ms: 0, monotonic_ms: 100 };

    #[test]
    fn they_are_bounded_and_the_newest_stay() {
        let mut verifications = Verifications::default();
        for id in 0..1000 {
            assert!(verifications.start(id, 0, 0, true, NOW).is_some());
            verifications.enforce_limit(80);
        }
        assert!((70..=80).contains(&verifications.entries.len()), "{}", verifications.entries.len());
        assert!(verifications.get(999).is_some() && verifications.get(900).is_none());
        verifications.enforce_limit(0);
        assert!(verifications.entries.len() <= 1);
    }

    #[test]
    fn they_expire() {
        let mut verifications = Verifications::default();
        verifications.start(1, 0, 0, false, NOW);
        verifications.remove_expired(Now { monotonic_ms: 149, ..NOW }, 50);
        assert!(verifications.get(1).is_some());
        verifications.remove_expired(Now { monotonic_ms: 150, ..NOW }, 50);
        assert!(verifications.get(1).is_none());
    }
}
