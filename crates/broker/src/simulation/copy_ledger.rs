//! A record of what was copied: every input that is committed, once (KIP-447).

use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(super) struct CopyLedger {
    /// What each copy is a copy of.
    sources: BTreeMap<u64, u64>,
    by_transaction: BTreeMap<u64, Vec<u64>>,
    /// What is copied, by committed transactions.
    copied: BTreeSet<u64>,
}

impl CopyLedger {
    /// Copies are about to be sent, each with what it is a copy of.
    pub(super) fn sends(&mut self, transaction: u64, copies: Vec<(u64, u64)>) {
        self.by_transaction.entry(transaction).or_default().extend(copies.iter().map(|(_, source)| *source));
        self.sources.extend(copies);
    }

    /// A transaction is committed, with all that it has sent.
    pub(super) fn committed(&mut self, transaction: u64) {
        for source in self.by_transaction.remove(&transaction).unwrap_or_default() {
            assert!(self.copied.insert(source), "transaction {transaction} copies {source} once more");
        }
    }

    pub(super) fn is_copied(&self, source: u64) -> bool {
        self.copied.contains(&source)
    }

    pub(super) fn count(&self) -> usize {
        self.copied.len()
    }

    /// Checks that the copies that are found are those of what is expected, and that none is there twice.
    pub(super) fn check(&self, copies: impl Iterator<Item = u64>, expected: impl Iterator<Item = u64>) {
        let mut found = BTreeSet::new();
        for copy in copies {
            let source = *self.sources.get(&copy).unwrap_or_else(|| panic!("{copy} is a copy of nothing"));
            assert!(found.insert(source), "{source} is copied twice, once as {copy}");
        }
        let expected: BTreeSet<u64> = expected.collect();
        let missing: Vec<_> = expected.difference(&found).collect();
        assert!(missing.is_empty(), "there are no copies of {missing:?}");
        let made_up: Vec<_> = found.difference(&expected).collect();
        assert!(made_up.is_empty(), "there are copies of what is not committed: {made_up:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> CopyLedger {
        let mut ledger = CopyLedger::default();
        ledger.sends(1, vec![(101, 1), (102, 2)]);
        // It was aborted, and another has done it again.
        ledger.sends(2, vec![(103, 3)]);
        ledger.sends(3, vec![(104, 3)]);
        ledger.committed(1);
        ledger.committed(3);
        ledger
    }

    #[test]
    fn each_input_is_copied_once() {
        let ledger = ledger();
        ledger.check([101, 102, 104].into_iter(), [1, 2, 3].into_iter());
        assert!(ledger.is_copied(3) && !ledger.is_copied(4));
        assert_eq!(ledger.count(), 3);
    }

    #[test]
    #[should_panic = "transaction 4 copies 2 once more"]
    fn two_transactions_may_not_commit_the_same() {
        let mut ledger = ledger();
        ledger.sends(4, vec![(105, 2)]);
        ledger.committed(4);
    }

    #[test]
    #[should_panic = "3 is copied twice, once as 104"]
    fn two_copies_are_found() {
        ledger().check([101, 102, 103, 104].into_iter(), [1, 2, 3].into_iter());
    }

    #[test]
    #[should_panic = "there are no copies of [4]"]
    fn a_missing_copy_is_found() {
        ledger().check([101, 102, 104].into_iter(), [1, 2, 3, 4].into_iter());
    }

    #[test]
    #[should_panic = "there are copies of what is not committed: [3]"]
    fn a_copy_of_what_was_aborted_is_found() {
        ledger().check([101, 102, 104].into_iter(), [1, 2].into_iter());
    }
}
