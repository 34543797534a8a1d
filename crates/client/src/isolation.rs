//! Which records of transactions a reader gets, and how those of aborted ones are told (KIP-98).

use std::collections::{HashSet, VecDeque};
use std::str::FromStr;

use bytes::Bytes;
use wire::api::fetch::AbortedTransaction;
use wire::batch::Batch;
use wire::record::RecordReader;
use wire::state::control::ControlType;

/// `isolation.level` of Kafka's consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsolationLevel {
    /// All records, up to the high watermark.
    #[default]
    ReadUncommitted = 0,
    /// Those of no transaction and of committed ones, up to the last stable offset: where the first transaction begins
    /// that is still open.
    ReadCommitted = 1,
}

impl IsolationLevel {
    /// As requests have it.
    pub(crate) fn to_wire(self) -> i8 {
        self as i8
    }
}

impl FromStr for IsolationLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "read_uncommitted" => Ok(Self::ReadUncommitted),
            "read_committed" => Ok(Self::ReadCommitted),
            _ => Err("it is read_uncommitted or read_committed".to_owned()),
        }
    }
}

/// Tells, of the batches of one answer in their order, which belong to aborted transactions
/// (`CompletedFetch.consumeAbortedTransactionsUpTo`).
pub(crate) struct AbortedFilter {
    /// Transactions that begin behind the batches so far, the first one first.
    ahead: VecDeque<AbortedTransaction>,
    /// Producers whose transaction is aborted, until its marker comes.
    producers: HashSet<i64>,
}

impl AbortedFilter {
    /// By what the answer says, in any order.
    pub(crate) fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_unstable_by_key(|transaction| transaction.first_offset);
        Self { ahead: aborted.into(), producers: HashSet::new() }
    }

    /// Whether the records of the next batch are those of an aborted transaction.
    pub(crate) fn is_aborted(&mut self, batch: &Batch) -> bool {
        let begins = |transaction: &mut AbortedTransaction| transaction.first_offset <= batch.header.last_offset();
        while let Some(transaction) = self.ahead.pop_front_if(begins) {
            self.producers.insert(transaction.producer_id);
        }
        let producer_id = batch.header.producer_id;
        if batch.header.attributes.is_control() {
            // The next transaction of the producer may be committed.
            if is_abort_marker(batch) {
                self.producers.remove(&producer_id);
            }
            return false;
        }
        batch.header.attributes.is_transactional() && self.producers.contains(&producer_id)
    }
}

fn is_abort_marker(batch: &Batch) -> bool {
    let first = RecordReader::new(&batch.header, batch.section()).next();
    let key = first.and_then(Result::ok).and_then(|record| record.key);
    let control = key.and_then(|key| ControlType::read(&Bytes::copy_from_slice(key)).ok());
    control == Some(ControlType::Abort)
}

#[cfg(test)]
mod tests {
    use wire::batch::BatchBuilder;

    use super::*;

    const A: i64 = 1;
    const B: i64 = 2;

    fn data(offset: i64, producer_id: i64, is_transactional: bool) -> Batch {
        let mut builder = BatchBuilder::new().base_offset(offset).producer(producer_id, 0, 0);
        if is_transactional {
            builder = builder.transactional();
        }
        builder.push(0, None, Some(b"x"), &[]);
        builder.build()
    }

    fn marker(offset: i64, producer_id: i64, control: ControlType) -> Batch {
        let mut builder =
            BatchBuilder::new().base_offset(offset).producer(producer_id, 0, -1).transactional().control();
        builder.push(0, Some(&control.write()), Some(&[0, 0, 0, 0, 0, 0]), &[]);
        builder.build()
    }

    fn aborted(transactions: &[(i64, i64)]) -> AbortedFilter {
        let one = |&(producer_id, first_offset): &(i64, i64)| AbortedTransaction { producer_id, first_offset };
        AbortedFilter::new(transactions.iter().map(one).collect())
    }

    fn hidden(filter: &mut AbortedFilter, batches: &[Batch]) -> Vec<i64> {
        let hidden = batches.iter().filter(|batch| filter.is_aborted(batch));
        hidden.map(|batch| batch.header.base_offset).collect()
    }

    #[test]
    fn an_aborted_transaction_ends_with_its_marker() {
        let batches = [
            data(0, A, true),
            data(1, B, true),
            data(2, A, true),
            marker(3, A, ControlType::Abort),
            data(4, A, true),
            marker(5, B, ControlType::Commit),
            marker(6, A, ControlType::Commit),
        ];
        assert_eq!(hidden(&mut aborted(&[(A, 0)]), &batches), [0, 2]);
    }

    #[test]
    fn a_producer_whose_second_transaction_was_aborted_keeps_its_first() {
        let batches = [
            data(0, A, true),
            marker(1, A, ControlType::Commit),
            data(2, A, true),
            marker(3, A, ControlType::Abort),
            data(4, B, true),
            marker(5, B, ControlType::Abort),
        ];
        assert_eq!(hidden(&mut aborted(&[(B, 4), (A, 2)]), &batches), [2, 4]);
    }

    #[test]
    fn records_outside_of_transactions_are_never_hidden() {
        assert_eq!(hidden(&mut aborted(&[(A, 0)]), &[data(0, A, false), data(1, A, true)]), [1]);
    }

    #[test]
    fn levels_have_kafkas_names() {
        assert_eq!("read_committed".parse(), Ok(IsolationLevel::ReadCommitted));
        assert_eq!("read_uncommitted".parse(), Ok(IsolationLevel::ReadUncommitted));
        assert!("committed".parse::<IsolationLevel>().is_err());
    }
}
