//! What the records of `__transaction_state` say, one after the other.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use coordinator::txn::core::State;
use wire::api::describe_transactions::TransactionState;
use wire::batch::Batch;
use wire::record::{Record, RecordReader};
use wire::state::transaction_log::{TransactionLogKey, TransactionLogValue};

use super::ledger::TopicPartition;

/// A transaction that is called complete.
#[derive(Clone, Debug)]
pub(super) struct Completed {
    pub(super) producer_id: i64,
    pub(super) epoch: i16,
    pub(super) is_commit: bool,
    pub(super) partitions: Vec<TopicPartition>,
}

#[derive(Default)]
pub(super) struct TransactionStates {
    /// Everything below has been walked over.
    pub(super) end_offset: i64,
    /// The last record of each transactional id.
    ids: BTreeMap<String, TransactionLogValue>,
    /// The partitions that were added to transactions, by producer id and epoch.
    added: BTreeSet<(i64, i16, TopicPartition)>,
}

impl TransactionStates {
    /// Takes the next batch. Returns what it calls complete.
    pub(super) fn walk(&mut self, batch: &Batch) -> Vec<Completed> {
        self.end_offset = batch.header.next_offset();
        let section = batch.records(1 << 20).expect("the records are readable");
        let records = RecordReader::new(&batch.header, &section);
        records.filter_map(|record| self.walk_record(&record.expect("the records are readable"))).collect()
    }

    fn walk_record(&mut self, record: &Record<'_>) -> Option<Completed> {
        let bytes = |bytes: Option<&[u8]>| Bytes::copy_from_slice(bytes.expect("no id expires so soon"));
        let key = TransactionLogKey::from_bytes(&bytes(record.key)).expect("the key is readable");
        let value = TransactionLogValue::from_bytes(&bytes(record.value)).expect("the value is readable");
        let before = self.ids.insert(key.transactional_id.clone(), value.clone());
        let (id, state) = (key.transactional_id, state(&value));
        if let Some(before) = &before {
            check(&id, before, &value);
        }
        if state == State::Ongoing {
            let (id, epoch) = (value.producer_id, value.producer_epoch);
            self.added.extend(partitions(&value).map(|topic_partition| (id, epoch, topic_partition)));
        }
        let prepared = before.filter(|before| state.is_complete() && self::state(before).is_prepared())?;
        Some(Completed {
            producer_id: prepared.producer_id,
            epoch: prepared.producer_epoch,
            is_commit: state == State::CompleteCommit,
            partitions: partitions(&prepared).collect(),
        })
    }

    /// Whether a partition was added to a transaction of this producer's epoch.
    pub(super) fn was_added(&self, producer_id: i64, epoch: i16, topic_partition: &TopicPartition) -> bool {
        self.added.contains(&(producer_id, epoch, topic_partition.clone()))
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &String> {
        self.ids.keys()
    }

    /// Whether nothing is open or about to end.
    pub(super) fn is_settled(&self) -> bool {
        let is_settled = |value| state(value).is_expiration_allowed();
        self.ids.values().all(is_settled)
    }

    /// Checks what a coordinator says of its id.
    pub(super) fn check(&self, described: &TransactionState) {
        let known = &self.ids[&described.transactional_id];
        let mut from_log: Vec<TopicPartition> = partitions(known).collect();
        let topics = described.topics.iter();
        let mut from_memory: Vec<TopicPartition> = topics
            .flat_map(|topic| topic.partitions.iter().map(|index| (topic.topic.as_str().into(), *index)))
            .collect();
        from_log.sort();
        from_memory.sort();
        assert_eq!(from_memory, from_log, "{described:?}, and in the log {known:?}");
        assert_eq!(
            (&*described.transaction_state, described.producer_id, described.producer_epoch),
            (state(known).name(), known.producer_id, known.producer_epoch),
            "{}: what the coordinator has, and what the log has",
            described.transactional_id
        );
    }
}

fn state(value: &TransactionLogValue) -> State {
    State::from_id(value.transaction_status).expect("the state is known")
}

fn partitions(value: &TransactionLogValue) -> impl Iterator<Item = TopicPartition> {
    let topics = value.transaction_partitions.iter().flatten();
    topics.flat_map(|topic| topic.partition_ids.iter().map(|index| (topic.topic.as_str().into(), *index)))
}

/// Checks that a record may follow another. A record may be there twice.
fn check(id: &str, before: &TransactionLogValue, after: &TransactionLogValue) {
    let (from, to) = (state(before), state(after));
    let is_allowed = match to {
        State::Empty => from.is_expiration_allowed(),
        State::Ongoing => !from.is_prepared(),
        State::PrepareCommit => from == State::Ongoing,
        // From version 2 on there may be nothing to abort.
        State::PrepareAbort => !from.is_prepared(),
        State::CompleteCommit => from == State::PrepareCommit,
        State::CompleteAbort => from == State::PrepareAbort,
    };
    assert!(is_allowed || before == after, "{id}: {after:?} follows {before:?}");
    let is_older = after.producer_id == before.producer_id && after.producer_epoch < before.producer_epoch;
    assert!(!is_older, "{id}: {after:?} follows {before:?}");
}
