//! What the replicated batches of one partition say about transactions, found by a walk over all of them: the naive
//! answer to all that indexes, snapshots and memory are to know of them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use coordinator::group::OFFSETS_TOPIC;
use coordinator::group::records::{Stored, read};
use storage::ProducerState;
use wire::batch::{Batch, BatchHeader};
use wire::record::RecordReader;
use wire::state::Stored as _;
use wire::state::control::{ControlType, EndTxnMarker};

use super::ledger::TopicPartition;
use super::replica::values;

/// The end of a transaction, in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) is_commit: bool,
    pub(super) coordinator_epoch: i32,
}

/// What a batch says, if it is a marker.
pub(super) fn marker_of(batch: &Batch) -> Option<Marker> {
    if !batch.header.attributes.is_control() {
        return None;
    }
    let section = batch.records(1 << 20).expect("a marker is readable");
    let record = RecordReader::new(&batch.header, &section).next().expect("a marker has a record");
    let record = record.expect("a marker is readable");
    let bytes = |bytes: Option<&[u8]>| Bytes::copy_from_slice(bytes.expect("a marker has a key and a value"));
    let kind = ControlType::read(&bytes(record.key)).expect("a marker has a type");
    let value = EndTxnMarker::read_versioned(&bytes(record.value)).expect("a marker has an epoch");
    let is_commit = match kind {
        ControlType::Commit => true,
        ControlType::Abort => false,
        other => panic!("{other:?} among records of clients"),
    };
    Some(Marker { is_commit, coordinator_epoch: value.coordinator_epoch })
}

/// The numbers that the records of a batch are, by offset: their values, or the metadata of committed offsets.
pub(super) fn numbers(topic: &str, batch: &Batch) -> Vec<(i64, u64)> {
    if topic != OFFSETS_TOPIC {
        return values(batch);
    }
    let section = batch.records(1 << 20).expect("the records are ours");
    let number = |record: Result<wire::record::Record<'_>, _>| {
        let record = record.expect("the records are ours");
        match read(record.key?, record.value).ok()? {
            Stored::Offset { value: Some(value), .. } => Some((record.offset, value.metadata.parse().ok()?)),
            _ => None,
        }
    };
    RecordReader::new(&batch.header, &section).filter_map(number).collect()
}

/// A transaction that is open in a partition.
#[derive(Debug)]
struct Open {
    first_offset: i64,
    epoch: i16,
    transactions: BTreeSet<u64>,
}

/// One that has ended there.
#[derive(Debug)]
struct Ended {
    producer_id: i64,
    first_offset: i64,
    marker: i64,
    is_commit: bool,
}

/// Nothing of a producer's older epochs is appended at this offset or behind.
#[derive(Debug)]
struct Fence {
    producer_id: i64,
    epoch: i16,
    offset: i64,
}

#[derive(Default)]
pub(super) struct History {
    /// Everything below has been walked over.
    pub(super) end_offset: i64,
    open: BTreeMap<i64, Open>,
    /// In the order of their markers.
    ended: Vec<Ended>,
    /// The last of each producer: its epoch, and the one of its coordinator.
    last_markers: BTreeMap<i64, (i16, i32)>,
    markers: BTreeSet<(i64, i16, bool)>,
    fences: Vec<Fence>,
    /// By offset: the number, and the transaction.
    records: BTreeMap<i64, (u64, Option<u64>)>,
    /// Who has written in transactions.
    pub(super) writers: BTreeSet<(i64, i16)>,
    ended_transactions: BTreeSet<u64>,
    /// Transactions whose marker is to be found, and below which offset.
    expected: Vec<(u64, i64)>,
}

impl History {
    /// Takes the next batch. Returns the transactions that end with it, and whether they are committed.
    pub(super) fn walk(
        &mut self,
        of: &TopicPartition,
        batch: &Batch,
        transaction_of: impl Fn(u64) -> Option<u64>,
    ) -> Option<(BTreeSet<u64>, bool)> {
        let header = &batch.header;
        let offset = header.base_offset;
        self.end_offset = header.next_offset();
        let Some(marker) = marker_of(batch) else {
            self.walk_records(of, batch, transaction_of);
            return None;
        };
        let (id, epoch) = (header.producer_id, header.producer_epoch);
        if let Some((known, coordinator)) = self.last_markers.insert(id, (epoch, marker.coordinator_epoch)) {
            assert!(epoch >= known, "{of:?}: a marker of {id} at {offset} has epoch {epoch} after {known}");
            let now = marker.coordinator_epoch;
            assert!(now >= coordinator, "{of:?}: the coordinator's epoch at {offset} is {now} after {coordinator}");
        }
        self.markers.insert((id, epoch, marker.is_commit));
        let open = self.open.remove(&id)?;
        assert!(epoch >= open.epoch, "{of:?}: {open:?} of {id} ends at {offset} with epoch {epoch}");
        let is_commit = marker.is_commit;
        self.ended.push(Ended { producer_id: id, first_offset: open.first_offset, marker: offset, is_commit });
        for (transaction, below) in self.expected.extract_if(.., |expected| open.transactions.contains(&expected.0)) {
            assert!(offset < below, "{of:?}: {transaction} ends at {offset}, but nothing was pending at {below}");
        }
        self.ended_transactions.extend(&open.transactions);
        Some((open.transactions, is_commit))
    }

    fn walk_records(&mut self, of: &TopicPartition, batch: &Batch, transaction_of: impl Fn(u64) -> Option<u64>) {
        let header = &batch.header;
        let (id, epoch, offset) = (header.producer_id, header.producer_epoch, header.base_offset);
        let is_transactional = header.attributes.is_transactional();
        let numbers = numbers(&of.0, batch);
        let transaction = |number| transaction_of(number).filter(|_| is_transactional);
        self.records.extend(numbers.iter().map(|(offset, number)| (*offset, (*number, transaction(*number)))));
        if !is_transactional {
            return;
        }
        self.writers.insert((id, epoch));
        if let Some((last, _)) = self.last_markers.get(&id) {
            assert!(epoch >= *last, "{of:?}: {id} writes with epoch {epoch} at {offset}, after a marker of {last}");
        }
        for fence in self.fences.iter().filter(|fence| fence.producer_id == id && fence.epoch > epoch) {
            assert!(offset < fence.offset, "{of:?}: {id} writes with epoch {epoch} at {offset}, behind {fence:?}");
        }
        let open = self.open.entry(id).or_insert(Open { first_offset: offset, epoch, transactions: BTreeSet::new() });
        assert_eq!(open.epoch, epoch, "{of:?}: {id} has two epochs in one transaction, at {offset}");
        let known = numbers.iter().map(|(_, number)| transaction_of(*number).expect("it is of a transaction"));
        open.transactions.extend(known);
        assert_eq!(open.transactions.len(), 1, "{of:?}: two transactions are one at {offset}: {open:?}");
    }

    /// From now on only this epoch of a producer or a later one may write, behind this offset.
    pub(super) fn fence(&mut self, producer_id: i64, epoch: i16, offset: i64) {
        self.fences.push(Fence { producer_id, epoch, offset });
    }

    /// Somebody was told that nothing is pending when the log ended here, and what the transaction has written was
    /// there: its marker has to be there, too.
    pub(super) fn ended_below(&mut self, transaction: u64, offset: i64) {
        if !self.ended_transactions.contains(&transaction) {
            self.expected.push((transaction, offset));
        }
    }

    pub(super) fn has_marker(&self, producer_id: i64, epoch: i16, is_commit: bool) -> bool {
        self.markers.contains(&(producer_id, epoch, is_commit))
    }

    /// The last stable offset, if what is below the high watermark was walked over.
    pub(super) fn last_stable_offset(&self, high_watermark: i64) -> Option<i64> {
        let unreplicated = self.ended.iter().rev().take_while(|ended| ended.marker >= high_watermark);
        let firsts = self.open.values().map(|open| open.first_offset);
        let first_unstable = firsts.chain(unreplicated.map(|ended| ended.first_offset)).min().unwrap_or(i64::MAX);
        (high_watermark <= self.end_offset).then_some(first_unstable.min(high_watermark))
    }

    /// The aborted transactions that somebody has to know of who reads from an offset up to another: producer ids and
    /// first offsets.
    pub(super) fn aborted(&self, from: i64, upper: i64) -> Vec<(i64, i64)> {
        let overlaps = |ended: &&Ended| !ended.is_commit && ended.marker >= from && ended.first_offset < upper;
        self.ended.iter().filter(overlaps).map(|ended| (ended.producer_id, ended.first_offset)).collect()
    }

    /// Numbers and transactions of the records in a range, by offset.
    pub(super) fn records(&self, from: i64, to: i64) -> impl Iterator<Item = (i64, u64, Option<u64>)> {
        self.records.range(from..to).map(|(offset, (number, transaction))| (*offset, *number, *transaction))
    }
}

/// What a log's batches make of a producer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replayed {
    epoch: i16,
    coordinator_epoch: i32,
    first_offset: Option<i64>,
    last_batch: Option<(i32, i64)>,
}

impl From<&ProducerState> for Replayed {
    fn from(state: &ProducerState) -> Self {
        Self {
            epoch: state.producer_epoch,
            coordinator_epoch: state.coordinator_epoch,
            first_offset: state.current_txn_first_offset,
            last_batch: state.last_batch().map(|batch| (batch.last_sequence, batch.last_offset)),
        }
    }
}

impl Replayed {
    fn new(epoch: i16) -> Self {
        Self { epoch, coordinator_epoch: -1, first_offset: None, last_batch: None }
    }

    fn set_epoch(&mut self, header: &BatchHeader) {
        if self.epoch != header.producer_epoch {
            (self.epoch, self.last_batch) = (header.producer_epoch, None);
        }
    }
}

/// The producers of a log, from its first batch on.
pub(super) fn replay(batches: &[Batch]) -> BTreeMap<i64, Replayed> {
    let mut producers: BTreeMap<i64, Replayed> = BTreeMap::new();
    for batch in batches.iter().filter(|batch| batch.header.has_producer_id()) {
        let header = &batch.header;
        let state = producers.entry(header.producer_id).or_insert(Replayed::new(header.producer_epoch));
        state.set_epoch(header);
        match marker_of(batch) {
            Some(marker) => (state.coordinator_epoch, state.first_offset) = (marker.coordinator_epoch, None),
            None => {
                let last_sequence = if header.base_sequence < 0 { -1 } else { header.last_sequence() };
                state.last_batch = Some((last_sequence, header.last_offset()));
                if header.attributes.is_transactional() {
                    state.first_offset.get_or_insert(header.base_offset);
                }
            }
        }
    }
    producers
}
