//! The transaction index of a segment, byte-compatible with Kafka's `TransactionIndex`: the aborted transactions whose
//! markers are in the segment, in the order of their markers. Most segments have none, and no file.
//!
//! Unlike the other indexes, which are hints, this one is believed: consumers of committed records skip what it names.
//! All of it that lies below the recovery point is on disk, recovery adds the rest, and a file that cannot be right is
//! made anew from the batches ([`LogView::ensure_txn_index`](crate::LogView)).

use std::io;

use crate::disk::{File, read_exact_at};
use crate::index::Entry;

/// An aborted transaction (`AbortedTxn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub producer_id: i64,
    pub first_offset: i64,
    /// Of its marker.
    pub last_offset: i64,
    /// The first offset of the next other transaction that was open then, or the one behind the marker. No transaction
    /// that ends later has an offset below.
    pub last_stable_offset: i64,
}

const VERSION: i16 = 0;

impl Entry for AbortedTransaction {
    type Key = i64;
    const BYTES: usize = 34;

    fn key(&self) -> i64 {
        self.last_offset
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(VERSION.to_be_bytes());
        for field in [self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset] {
            out.extend(field.to_be_bytes());
        }
    }

    fn decode(bytes: &[u8]) -> Self {
        let field = |at: usize| i64::from_be_bytes(*bytes[at..].first_chunk().expect("an entry's bytes are all there"));
        Self { producer_id: field(2), first_offset: field(10), last_offset: field(18), last_stable_offset: field(26) }
    }
}

/// The entries of a file's first `count`, from a place on, a block at a time, until one is not taken. Returns whether
/// all were.
pub(crate) fn entries_from(
    file: &dyn File,
    slot: usize,
    count: usize,
    mut take: impl FnMut(&[u8]) -> bool,
) -> io::Result<bool> {
    let mut buffer = vec![0; AbortedTransaction::PER_BLOCK * AbortedTransaction::BYTES];
    let mut slot = slot;
    while slot < count {
        let entries = (count - slot).min(AbortedTransaction::PER_BLOCK);
        let block = &mut buffer[..entries * AbortedTransaction::BYTES];
        read_exact_at(file, block, (slot * AbortedTransaction::BYTES) as u64)?;
        if !block.chunks_exact(AbortedTransaction::BYTES).all(&mut take) {
            return Ok(false);
        }
        slot += entries;
    }
    Ok(true)
}

/// The greatest last offset in a file (-1 without entries) and the number of its entries. `None` if it cannot be the
/// index of a segment that starts at `base_offset`.
pub(crate) fn check(file: &dyn File, base_offset: i64) -> io::Result<Option<(i64, usize)>> {
    let len = file.len()?;
    let count = (len / AbortedTransaction::BYTES as u64) as usize;
    let (mut last_offset, mut passed) = (-1, 0);
    entries_from(file, 0, count, |bytes| {
        let entry = AbortedTransaction::decode(bytes);
        let is_sound = bytes[..2] == VERSION.to_be_bytes()
            && entry.producer_id >= 0
            && (0..entry.last_offset).contains(&entry.first_offset)
            && (0..=entry.last_offset + 1).contains(&entry.last_stable_offset)
            && entry.last_offset >= base_offset
            && entry.last_offset > last_offset;
        last_offset = entry.last_offset;
        passed += usize::from(is_sound);
        is_sound
    })?;
    let is_whole = len % AbortedTransaction::BYTES as u64 == 0 && passed == count;
    Ok(is_whole.then_some((last_offset, count)))
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::path::Path;

    use super::*;
    use crate::disk::{Disk, OpenMode, write_all_at};
    use crate::simdisk::SimDisk;

    const ENTRY: AbortedTransaction =
        AbortedTransaction { producer_id: 5, first_offset: 100, last_offset: 110, last_stable_offset: 105 };

    fn checked(entries: &[AbortedTransaction], change: impl FnOnce(&mut Vec<u8>)) -> Option<(i64, usize)> {
        let disk = SimDisk::new(1);
        let file = disk.open(Path::new("/0.txnindex"), OpenMode::Create).unwrap();
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut bytes));
        change(&mut bytes);
        write_all_at(&*file, &mut [IoSlice::new(&bytes)], 0).unwrap();
        check(&*file, 90).unwrap()
    }

    #[test]
    fn entries_are_kafkas_bytes() {
        let mut bytes = Vec::new();
        ENTRY.encode(&mut bytes);
        assert_eq!(bytes.len(), 34);
        assert_eq!(bytes[..10], [0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!((bytes[17], bytes[25], bytes[33]), (100, 110, 105));
        assert_eq!(AbortedTransaction::decode(&bytes), ENTRY);
    }

    #[test]
    fn what_cannot_be_right_is_recognised() {
        let next = AbortedTransaction { last_offset: 111, last_stable_offset: 112, ..ENTRY };
        assert_eq!(checked(&[], |_| ()), Some((-1, 0)));
        assert_eq!(checked(&[ENTRY, next], |_| ()), Some((111, 2)));
        assert_eq!(checked(&[ENTRY, next], |bytes| bytes.truncate(60)), None, "it is torn");
        assert_eq!(checked(&[ENTRY, next], |bytes| bytes[35] = 1), None, "another version");
        assert_eq!(checked(&[next, ENTRY], |_| ()), None, "not in order");
        assert_eq!(checked(&[ENTRY, ENTRY], |_| ()), None, "twice the same");
        assert_eq!(checked(&[AbortedTransaction { first_offset: 1, last_offset: 80, ..ENTRY }], |_| ()), None);
        assert_eq!(checked(&[AbortedTransaction { last_stable_offset: 112, ..ENTRY }], |_| ()), None);
        assert_eq!(checked(&[], |bytes| bytes.extend([0; 34])), None, "zeros");
        let many: Vec<_> = (0..1000).map(|n| AbortedTransaction { last_offset: 110 + n, ..ENTRY }).collect();
        assert_eq!(checked(&many, |_| ()), Some((1109, 1000)));
    }
}
