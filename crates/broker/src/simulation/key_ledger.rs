//! A record of what is written to a compacted topic, and of what it therefore has to keep: whoever reads committed
//! records from its beginning on finds of each key the last one that is committed.
//!
//! A key has one writer, which ends each transaction before the next, so that of two committed records of a key the one
//! with the greater number is the later one.

use std::collections::BTreeMap;

/// A record that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyRecord {
    pub(super) key: u64,
    pub(super) number: u64,
    pub(super) is_tombstone: bool,
}

/// What a reader has found last of each key: where, and its number, or nothing if that is a tombstone.
pub(super) type Found = BTreeMap<u64, (i64, Option<u64>)>;

/// What writers and readers of the topic do.
pub(super) enum KeyEvent {
    Sends {
        transaction: u64,
        records: Vec<KeyRecord>,
    },
    /// Everything was read, from the beginning on up to an offset.
    Reads {
        end_offset: i64,
        found: Found,
    },
}

#[derive(Default)]
struct Key {
    /// By number: the transaction, and whether it is a tombstone.
    written: BTreeMap<u64, (u64, bool)>,
    /// Offsets and numbers that are known to be committed.
    committed: Vec<(i64, u64)>,
}

#[derive(Default)]
pub(super) struct KeyLedger {
    keys: BTreeMap<u64, Key>,
    by_transaction: BTreeMap<u64, Vec<KeyRecord>>,
    /// By number.
    offsets: BTreeMap<u64, i64>,
    pub(super) written: usize,
    pub(super) passes: usize,
}

impl KeyLedger {
    pub(super) fn sends(&mut self, transaction: u64, records: Vec<KeyRecord>) {
        self.written += records.len();
        for record in &records {
            let key = self.keys.entry(record.key).or_default();
            key.written.insert(record.number, (transaction, record.is_tombstone));
        }
        self.by_transaction.entry(transaction).or_default().extend(records);
    }

    pub(super) fn acknowledges(&mut self, base_offset: i64, numbers: &[u64]) {
        self.offsets.extend(numbers.iter().copied().zip(base_offset..));
    }

    /// A transaction's commit was answered. All that it has written was acknowledged.
    pub(super) fn committed(&mut self, transaction: u64) {
        for record in self.by_transaction.remove(&transaction).unwrap_or_default() {
            let committed = (self.offsets[&record.number], record.number);
            self.keys.entry(record.key).or_default().committed.push(committed);
        }
    }

    /// Somebody has read everything below an offset, which is all decided. What is found has to be the last that is
    /// known to be committed there, or later. What was read was committed, so that nobody finds anything older from now
    /// on.
    pub(super) fn reads(&mut self, who: &str, end_offset: i64, found: &Found, may_be_committed: impl Fn(u64) -> bool) {
        self.passes += 1;
        for (name, key) in &mut self.keys {
            let known = key.committed.iter().filter(|(offset, _)| *offset < end_offset);
            let Some(last) = known.map(|(_, number)| *number).max() else { continue };
            let found = found.get(name).copied();
            if let Some((offset, Some(number))) = found
                && number >= last
            {
                key.committed.push((offset, number));
                continue;
            }
            // A later one that is committed has it removed, and is a tombstone, or behind what was read: after power
            // losses a high watermark is for a moment where it was checkpointed last, and has been farther before; and
            // who reads on while a log is compacted has what was before that, and not what it was replaced by.
            let has_older = matches!(found, Some((_, Some(_))));
            let offsets = &self.offsets;
            let is_removed = key.written.range(last..).any(|(number, (transaction, is_tombstone))| {
                let is_behind = *number > last && offsets.get(number).is_none_or(|offset| *offset >= end_offset);
                (*is_tombstone && !has_older || is_behind) && may_be_committed(*transaction)
            });
            let found = found.and_then(|(_, number)| number).map_or("nothing".to_owned(), |number| number.to_string());
            assert!(is_removed, "{who} finds {found} of key {name}, but {last} is committed: {:?}", key.written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> KeyLedger {
        let record = |number, is_tombstone| KeyRecord { key: 1, number, is_tombstone };
        let mut ledger = KeyLedger::default();
        ledger.sends(1, vec![record(10, false)]);
        ledger.acknowledges(100, &[10]);
        ledger.committed(1);
        ledger.sends(2, vec![record(11, false)]);
        ledger.acknowledges(200, &[11]);
        ledger.committed(2);
        ledger.sends(3, vec![record(12, true)]);
        ledger
    }

    fn reads(ledger: &mut KeyLedger, end_offset: i64, offset: i64, number: Option<u64>) {
        ledger.reads("a reader", end_offset, &[(1, (offset, number))].into(), |transaction| transaction != 3);
    }

    #[test]
    fn the_last_is_found() {
        let mut ledger = ledger();
        reads(&mut ledger, 150, 100, Some(10));
        reads(&mut ledger, 300, 200, Some(11));
        // Whoever has read less need not find it.
        reads(&mut ledger, 150, 100, Some(10));
        ledger.reads("a reader", 400, &Found::new(), |_| true);
    }

    #[test]
    #[should_panic = "finds 10 of key 1, but 11 is committed"]
    fn an_older_one_is_found_out() {
        reads(&mut ledger(), 300, 100, Some(10));
    }

    #[test]
    #[should_panic = "finds 11 of key 1, but 13 is committed"]
    fn what_was_read_stays_read() {
        let mut ledger = ledger();
        reads(&mut ledger, 400, 300, Some(13));
        reads(&mut ledger, 400, 200, Some(11));
    }

    #[test]
    #[should_panic = "finds nothing of key 1, but 11 is committed"]
    fn a_lost_key_is_found_out() {
        reads(&mut ledger(), 300, 250, None);
    }

    /// A record behind what is read first has removed the one before.
    fn ledger_with_one_more() -> KeyLedger {
        let mut ledger = ledger();
        ledger.sends(4, vec![KeyRecord { key: 1, number: 14, is_tombstone: false }]);
        ledger.acknowledges(300, &[14]);
        ledger
    }

    #[test]
    fn what_has_removed_a_record_may_be_behind_what_is_read() {
        ledger_with_one_more().reads("a reader", 300, &Found::new(), |transaction| transaction == 4);
    }

    #[test]
    fn one_before_may_have_been_read_when_the_last_was_removed() {
        let found = Found::from([(1, (100, Some(10)))]);
        ledger_with_one_more().reads("a reader", 300, &found, |transaction| transaction == 4);
    }

    #[test]
    #[should_panic = "finds nothing of key 1, but 11 is committed"]
    fn what_is_aborted_has_removed_nothing() {
        ledger_with_one_more().reads("a reader", 300, &Found::new(), |_| false);
    }

    #[test]
    #[should_panic = "finds nothing of key 1, but 11 is committed"]
    fn what_has_removed_a_record_is_found_where_it_is_read() {
        ledger_with_one_more().reads("a reader", 301, &Found::new(), |transaction| transaction == 4);
    }
}
