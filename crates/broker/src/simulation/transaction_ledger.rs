//! A record of all transactions: what their producers asked and were answered, what the logs say, what was read.
//!
//! - What a transaction has written becomes visible everywhere or nowhere, and what was decided stays decided: also
//!   what an EndTxn was answered with. Nothing is committed that no producer has asked to commit.
//! - Markers are where a transaction has written before it is called complete. Behind a marker there is nothing of an
//!   older epoch, and nothing of an older epoch is written after InitProducerId was answered.
//! - Nothing is stable that is above the high watermark, or not decided on all replicas in sync; what a leader has
//!   called stable stays so. Consumers of committed records are told exactly which transactions were aborted.
//! - A group's offset is visible when its transaction is committed, and where stable ones are asked for, none is told
//!   while a transaction may still change it.
//! - In the end every transaction is decided and complete, only what was added to a transaction was written in it, and
//!   what brokers have in memory is what the logs make of it.
//!
//! Numbers are what records and committed offsets carry; none is there twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use coordinator::txn::TRANSACTION_STATE_TOPIC;
use storage::simdisk::Rng;
use wire::batch::{Batch, Batches};

use super::copy_ledger::CopyLedger;
use super::ledger::{TopicPartition, topic_partition};
use super::replica::batches;
use super::transaction_history::{History, Replayed, replay};
use super::transaction_states::{Completed, TransactionStates};
use crate::partition::Partition;

/// What producers did and were answered, and what readers have read.
pub(super) enum TransactionEvent {
    Begins {
        transaction: u64,
        is_v2: bool,
    },
    /// Records or an offset are about to be sent.
    Sends {
        transaction: u64,
        numbers: Vec<u64>,
    },
    /// Records are about to be sent that are copies: their numbers, and those of what they are copies of.
    Copies {
        transaction: u64,
        copies: Vec<(u64, u64)>,
    },
    /// An offset was acknowledged.
    CommitsOffset {
        transaction: u64,
        offset_of: OffsetOf,
        number: u64,
        node: i32,
    },
    /// EndTxn is about to be sent.
    Ends {
        transaction: u64,
        is_commit: bool,
    },
    /// EndTxn was answered without an error.
    Ended {
        transaction: u64,
        is_commit: bool,
    },
    /// InitProducerId was.
    Initialized {
        producer_id: i64,
        epoch: i16,
    },
    /// A consumer has read all that is committed in a range.
    ReadCommitted {
        topic_partition: TopicPartition,
        from: i64,
        to: i64,
        high_watermark: i64,
        numbers: Vec<(i64, u64)>,
    },
    /// The coordinator had at least this epoch.
    FetchedOffset {
        offset_of: OffsetOf,
        leader_epoch: i32,
        is_stable: bool,
        asked_ms: i64,
        number: Option<u64>,
    },
}

/// What an offset is of: a group, and a partition.
pub(super) type OffsetOf = (String, TopicPartition);

#[derive(Debug, Default)]
struct Transaction {
    is_v2: bool,
    /// Whether its producer wanted it committed, and whether that was answered.
    asked: Option<bool>,
    answered: Option<bool>,
    /// What the first marker says.
    decided: Option<bool>,
    /// Somebody has read what it has written.
    is_read: bool,
}

impl Transaction {
    fn may_be_committed(&self) -> bool {
        self.asked == Some(true) && self.answered != Some(false) && self.decided != Some(false)
    }
}

/// An offset that was acknowledged in a transaction.
#[derive(Debug)]
struct CommittedOffset {
    transaction: u64,
    number: u64,
    leader_epoch: i32,
    acknowledged_ms: i64,
    /// When the transaction's commit was answered.
    answered_ms: Option<i64>,
}

struct Read {
    from: i64,
    to: i64,
    high_watermark: i64,
    numbers: Vec<(i64, u64)>,
}

pub(super) struct TransactionLedger {
    rng: Rng,
    transactions: BTreeMap<u64, Transaction>,
    by_number: BTreeMap<u64, u64>,
    histories: BTreeMap<TopicPartition, History>,
    states: TransactionStates,
    /// What leaders must have: the markers of transactions that are called complete.
    awaited: BTreeMap<TopicPartition, Vec<Completed>>,
    reads: BTreeMap<TopicPartition, Vec<Read>>,
    /// By node, the number of its start, and partition: the leader epoch and the last stable offset.
    stable: BTreeMap<(i32, u64, TopicPartition), (i32, i64)>,
    offsets_of: BTreeMap<OffsetOf, Vec<CommittedOffset>>,
    pub(super) copies: CopyLedger,
    pub(super) committed: usize,
    pub(super) aborted: usize,
    pub(super) read: usize,
    pub(super) offsets: usize,
}

impl TransactionLedger {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            transactions: BTreeMap::new(),
            by_number: BTreeMap::new(),
            histories: BTreeMap::new(),
            states: TransactionStates::default(),
            awaited: BTreeMap::new(),
            reads: BTreeMap::new(),
            stable: BTreeMap::new(),
            offsets_of: BTreeMap::new(),
            copies: CopyLedger::default(),
            committed: 0,
            aborted: 0,
            read: 0,
            offsets: 0,
        }
    }

    fn transaction(&mut self, transaction: u64) -> &mut Transaction {
        self.transactions.entry(transaction).or_default()
    }

    // --- Producers

    pub(super) fn begins(&mut self, transaction: u64, is_v2: bool) {
        self.transaction(transaction).is_v2 = is_v2;
    }

    pub(super) fn sends(&mut self, transaction: u64, numbers: Vec<u64>) {
        self.by_number.extend(numbers.into_iter().map(|number| (number, transaction)));
    }

    pub(super) fn ends(&mut self, transaction: u64, is_commit: bool) {
        self.transaction(transaction).asked = Some(is_commit);
    }

    pub(super) fn ended(&mut self, transaction: u64, is_commit: bool, now_ms: i64) {
        let known = self.transaction(transaction);
        known.answered = Some(is_commit);
        let decided = known.decided;
        assert!(
            decided.is_none_or(|decided| decided == is_commit),
            "transaction {transaction} is answered as committed {is_commit}, but its marker says {decided:?}"
        );
        for offset in self.offsets_of.values_mut().flatten().filter(|offset| offset.transaction == transaction) {
            offset.answered_ms = Some(now_ms).filter(|_| is_commit);
        }
    }

    /// A producer has an epoch, and everything up to an offset was written before.
    pub(super) fn initialized(&mut self, of: &TopicPartition, producer_id: i64, epoch: i16, offset: i64) {
        self.histories.entry(of.clone()).or_default().fence(producer_id, epoch, offset);
    }

    pub(super) fn commits_offset(
        &mut self,
        transaction: u64,
        offset_of: OffsetOf,
        number: u64,
        leader_epoch: i32,
        acknowledged_ms: i64,
    ) {
        let offset = CommittedOffset { transaction, number, leader_epoch, acknowledged_ms, answered_ms: None };
        self.offsets_of.entry(offset_of).or_default().push(offset);
    }

    // --- Readers

    /// Somebody has read what a transaction has written, as committed.
    pub(super) fn reads(&mut self, number: u64, who: &str) {
        let Some(transaction) = self.by_number.get(&number).copied() else { return };
        let known = self.transaction(transaction);
        known.is_read = true;
        assert!(known.may_be_committed(), "{who} reads {number} of transaction {transaction}, which is {known:?}");
    }

    pub(super) fn may_be_committed(&self, transaction: u64) -> bool {
        self.transactions.get(&transaction).is_some_and(Transaction::may_be_committed)
    }

    pub(super) fn reads_committed(
        &mut self,
        of: TopicPartition,
        (from, to): (i64, i64),
        high_watermark: i64,
        numbers: Vec<(i64, u64)>,
    ) {
        for (offset, number) in &numbers {
            self.reads(*number, &format!("{of:?} at {offset}: a consumer"));
        }
        self.read += numbers.len();
        self.reads.entry(of).or_default().push(Read { from, to, high_watermark, numbers });
    }

    /// A coordinator that was made by an epoch answers with an offset, or with none. The log of offsets ends before
    /// `end_offset`.
    pub(super) fn fetches_offset(
        &mut self,
        of: &TopicPartition,
        offset_of: &OffsetOf,
        leader_epoch: i32,
        asked: (bool, i64),
        number: Option<u64>,
        end_offset: i64,
    ) {
        let (is_stable, asked_ms) = asked;
        if let Some(number) = number {
            self.reads(number, &format!("{offset_of:?}"));
        }
        self.offsets += 1;
        if !is_stable {
            return;
        }
        let history = self.histories.entry(of.clone()).or_default();
        let offsets = self.offsets_of.get(offset_of).map(Vec::as_slice).unwrap_or_default();
        for offset in offsets {
            if offset.leader_epoch > leader_epoch || offset.acknowledged_ms >= asked_ms {
                continue;
            }
            let is_committed = offset.answered_ms.is_some_and(|answered_ms| answered_ms < asked_ms);
            assert!(
                !is_committed || number.is_some_and(|number| number >= offset.number),
                "{offset_of:?}: {offset:?} is committed, but a coordinator of epoch {leader_epoch} answers with {number:?}"
            );
            history.ended_below(offset.transaction, end_offset);
        }
    }

    // --- Logs

    /// Walks over a leader's log, up to its high watermark.
    pub(super) fn walk(&mut self, leader: &Partition) {
        let of = topic_partition(leader);
        if &*of.0 == TRANSACTION_STATE_TOPIC {
            return self.walk_states(leader);
        }
        let mut history = self.histories.remove(&of).unwrap_or_default();
        for batch in batches(leader, history.end_offset, leader.high_watermark()) {
            let ended = history.walk(&of, &batch, |number| self.by_number.get(&number).copied());
            let Some((transactions, is_commit)) = ended else { continue };
            for transaction in transactions {
                self.decides(&of, transaction, is_commit);
            }
        }
        self.check_markers(&of, &history, leader);
        self.check_reads(&of, &history);
        self.histories.insert(of, history);
    }

    fn walk_states(&mut self, leader: &Partition) {
        for batch in batches(leader, self.states.end_offset, leader.high_watermark()) {
            for completed in self.states.walk(&batch) {
                for of in &completed.partitions {
                    self.awaited.entry(of.clone()).or_default().push(completed.clone());
                }
            }
        }
    }

    fn decides(&mut self, of: &TopicPartition, transaction: u64, is_commit: bool) {
        let known = self.transaction(transaction);
        let is_first = known.decided.is_none();
        let decided = *known.decided.get_or_insert(is_commit);
        assert_eq!(decided, is_commit, "{of:?}: transaction {transaction} has another marker elsewhere: {known:?}");
        let is_asked = !is_commit || known.asked == Some(true);
        assert!(is_asked, "{of:?}: transaction {transaction} is committed: {known:?}");
        let is_answered = known.answered.is_none_or(|answered| answered == is_commit);
        assert!(is_answered, "{of:?}: transaction {transaction} is committed {is_commit}: {known:?}");
        assert!(is_commit || !known.is_read, "{of:?}: transaction {transaction} was read, and is aborted: {known:?}");
        let count = if is_commit { &mut self.committed } else { &mut self.aborted };
        *count += usize::from(is_first);
        if is_first && is_commit {
            self.copies.committed(transaction);
        }
    }

    /// The newest leader has the markers of what is called complete.
    fn check_markers(&mut self, of: &TopicPartition, history: &History, leader: &Partition) {
        let Some(awaited) = self.awaited.get_mut(of) else { return };
        awaited.retain(|completed| !history.has_marker(completed.producer_id, completed.epoch, completed.is_commit));
        if awaited.is_empty() {
            return;
        }
        let tail = batches(leader, history.end_offset, i64::MAX);
        for completed in awaited {
            let is_its = |batch: &Batch| {
                let header = &batch.header;
                header.attributes.is_control()
                    && (header.producer_id, header.producer_epoch) == (completed.producer_id, completed.epoch)
            };
            assert!(tail.iter().any(is_its), "{of:?}: there is no marker of what is complete: {completed:?}");
        }
    }

    /// What consumers have read is what is committed, as far as that is known.
    fn check_reads(&mut self, of: &TopicPartition, history: &History) {
        let Some(reads) = self.reads.get_mut(of) else { return };
        let known = |read: &mut Read| read.to.max(read.high_watermark) <= history.end_offset;
        for read in reads.extract_if(.., known) {
            let is_committed = |transaction| {
                self.transactions.get(&transaction).is_some_and(|transaction| transaction.decided == Some(true))
            };
            let records = history.records(read.from, read.to);
            let committed: Vec<(i64, u64)> = records
                .filter(|(.., transaction)| transaction.is_none_or(is_committed))
                .map(|(offset, number, _)| (offset, number))
                .collect();
            let range = (read.from, read.to);
            assert_eq!(read.numbers, committed, "{of:?}: a consumer has read {range:?}, and what is committed there");
        }
    }

    /// Checks what a log calls stable, and the list of aborted transactions in a range of it.
    pub(super) fn check_log(&mut self, (node, start): (i32, u64), partition: &Partition) {
        let of = topic_partition(partition);
        let Some(history) = self.histories.get(&of) else { return };
        let high_watermark = partition.high_watermark();
        let last_stable_offset = partition.last_stable_offset();
        let Some(expected) = history.last_stable_offset(high_watermark) else { return };
        assert!(
            last_stable_offset <= expected,
            "{of:?}: {node} calls {last_stable_offset} stable instead of {expected}, high watermark {high_watermark}"
        );
        let leader_epoch = partition.leader_epoch();
        let before = self.stable.insert((node, start, of.clone()), (leader_epoch, last_stable_offset));
        let is_less = before.is_some_and(|before| before.0 == leader_epoch && before.1 > last_stable_offset);
        assert!(!is_less, "{of:?}: {node} calls {last_stable_offset} stable in epoch {leader_epoch} after {before:?}");
        self.check_aborted(node, &of, partition, last_stable_offset);
    }

    fn check_aborted(&mut self, node: i32, of: &TopicPartition, partition: &Partition, last_stable_offset: i64) {
        let view = partition.view();
        let start = view.log_start_offset();
        let from = start + self.rng.below((last_stable_offset - start).max(0) as u64 + 1) as i64;
        let max_bytes = self.rng.below(3000) as u32;
        // The operation that the disk was set to fail may be one of the checks.
        let find = || view.committed_span(from, last_stable_offset, max_bytes);
        let Some((span, found)) = find().or_else(|_| find()).expect("what is stored is readable") else { return };
        let read = || span.read_cached();
        let bytes = read().or_else(|_| read()).expect("what is stored is readable");
        let Some(last) = Batches::new(bytes.into()).map_while(Result::ok).last() else { return };
        let upper = last.header.next_offset();
        let mut found: Vec<_> = found.iter().map(|aborted| (aborted.producer_id, aborted.first_offset)).collect();
        let mut expected = self.histories[of].aborted(from, upper);
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{of:?}: {node} names other transactions as aborted from {from} to {upper}");
    }

    // --- At the end

    /// Whether all that is committed in partitions is copied, and nothing there is undecided. They are given with the
    /// ends of their logs.
    pub(super) fn is_copied(&self, sources: &[(TopicPartition, i64)]) -> bool {
        sources.iter().all(|(of, end_offset)| {
            let Some(history) = self.histories.get(of) else { return *end_offset == 0 };
            history.end_offset == *end_offset
                && history.last_stable_offset(*end_offset) == Some(*end_offset)
                && self.committed_numbers(history).all(|number| self.copies.is_copied(number))
        })
    }

    fn committed_numbers<'a>(&'a self, history: &'a History) -> impl Iterator<Item = u64> + use<'a> {
        let is_committed = |transaction| self.transactions.get(&transaction).is_some_and(|t| t.decided == Some(true));
        let records = history.records(0, i64::MAX);
        records.filter(move |(.., transaction)| transaction.is_none_or(is_committed)).map(|(_, number, _)| number)
    }

    /// Checks that a log of copies has one of everything that is committed where they are from.
    pub(super) fn check_copies(&self, copies: &TopicPartition, sources: &[TopicPartition]) {
        let found = self.histories.get(copies).into_iter().flat_map(|history| self.committed_numbers(history));
        let histories = sources.iter().filter_map(|of| self.histories.get(of));
        let expected = histories.flat_map(|history| self.committed_numbers(history));
        self.copies.check(found, expected);
    }

    pub(super) fn is_settled(&self, states_end_offset: i64) -> bool {
        self.states.end_offset >= states_end_offset && self.states.is_settled()
    }

    pub(super) fn states(&self) -> &TransactionStates {
        &self.states
    }

    /// Checks a log when all has come to rest.
    pub(super) fn check_rest(&mut self, node: i32, start: u64, log: &Arc<Partition>) {
        const RANGES: usize = 20;
        let of = topic_partition(log);
        for _ in 0..RANGES {
            self.check_log((node, start), log);
        }
        let producers = log.with_log(|log| log.describe_producers());
        let in_memory: BTreeMap<i64, Replayed> =
            producers.iter().map(|state| (state.producer_id, Replayed::from(state))).collect();
        let from_log = replay(&batches(log, 0, i64::MAX));
        assert_eq!(in_memory, from_log, "{of:?}: the producers that {node} has in memory, and those of its log");
        let Some(history) = self.histories.get(&of) else { return };
        for (producer_id, epoch) in &history.writers {
            let was_added = self.states.was_added(*producer_id, *epoch, &of);
            assert!(was_added, "{of:?}: {producer_id} has written with epoch {epoch}, but no transaction has that");
        }
    }

    /// Checks that everything that was answered has come about.
    pub(super) fn check_decisions(&self) {
        let unread: Vec<_> = self.reads.iter().filter(|(_, reads)| !reads.is_empty()).map(|(of, _)| of).collect();
        assert!(unread.is_empty(), "consumers of {unread:?} have read what is in no log");
        let acknowledged = self.offsets_of.values().flatten();
        for offset in acknowledged {
            let transaction = &self.transactions[&offset.transaction];
            let is_kept = transaction.answered.is_none() || transaction.decided == transaction.answered;
            assert!(is_kept, "{offset:?} was acknowledged, and is {transaction:?}");
        }
    }
}
