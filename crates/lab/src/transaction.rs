//! The transactions of a producer's load, one after the other: begun with a record, committed when they are old enough
//! and all of their records are acknowledged, as `ProducerPerformance` does it.
//!
//! A transaction in which something fails is aborted, and the load ends with it.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use client::{ClientError, Transactions};
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) struct TransactionLoop {
    duration: Duration,
    topic: String,
    producer: (i64, i16),
    /// Whether Produce adds partitions (KIP-890).
    produce_adds_partitions: bool,
    coordinator: Coordinator,
    /// When the first record of the transaction was made.
    begun: Option<Instant>,
    /// It takes no more records.
    is_full: bool,
    /// Partitions that are part of it.
    added: BTreeSet<usize>,
    /// Why it has to be aborted.
    failed: Option<String>,
    /// Records that were acknowledged since it has begun.
    acknowledged: usize,
}

enum Coordinator {
    Idle(Transactions),
    InFlight(Step, JoinHandle<(Transactions, Result<(), ClientError>)>),
}

/// What the coordinator was asked to do.
enum Step {
    Add(Vec<usize>),
    /// Since then.
    End(Instant),
}

/// What has come of it.
pub(crate) enum TransactionEvent {
    Added,
    Committed {
        took: Duration,
    },
    /// So many records were acknowledged in vain.
    Aborted {
        records: usize,
        reason: String,
    },
}

impl TransactionLoop {
    pub(crate) fn new(transactions: Transactions, topic: &str, duration: Duration) -> Self {
        Self {
            duration,
            topic: topic.to_owned(),
            producer: transactions.producer(),
            produce_adds_partitions: transactions.has_epoch_per_transaction(),
            coordinator: Coordinator::Idle(transactions),
            begun: None,
            is_full: false,
            added: BTreeSet::new(),
            failed: None,
            acknowledged: 0,
        }
    }

    /// Another one after each transaction, where brokers want that.
    pub(crate) fn producer(&self) -> (i64, i16) {
        self.producer
    }

    /// A record was made.
    pub(crate) fn made(&mut self, now: Instant) {
        let begun = *self.begun.get_or_insert(now);
        self.is_full = now - begun >= self.duration;
    }

    pub(crate) fn acknowledged(&mut self, records: usize) {
        self.acknowledged += records;
    }

    /// Whether what was made has to be committed before there is more.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Whether no transaction is open.
    pub(crate) fn is_over(&self) -> bool {
        self.begun.is_none()
    }

    pub(crate) fn fail(&mut self, reason: &str) {
        self.failed.get_or_insert_with(|| reason.to_owned());
    }

    pub(crate) fn produce_adds_partitions(&self) -> bool {
        self.produce_adds_partitions
    }

    /// Whether a partition's records may go out.
    pub(crate) fn has(&self, partition: usize) -> bool {
        self.produce_adds_partitions || self.added.contains(&partition)
    }

    /// A partition's records go out.
    pub(crate) fn sent(&mut self, partition: usize) {
        self.added.insert(partition);
    }

    /// Makes partitions part of the transaction, unless the coordinator is busy.
    pub(crate) fn add(&mut self, partitions: Vec<usize>) {
        let Coordinator::Idle(transactions) = &self.coordinator else { return };
        let (mut transactions, topic) = (transactions.clone(), self.topic.clone());
        let numbers = partitions.iter().map(|&partition| partition as i32).collect();
        let task = tokio::spawn(async move {
            let result = transactions.add(&topic, numbers).await;
            (transactions, result)
        });
        self.coordinator = Coordinator::InFlight(Step::Add(partitions), task);
    }

    /// Commits the transaction, or aborts it if anything has failed. All of its records have come to their end. Returns
    /// the result if the coordinator need not be asked.
    pub(crate) fn end(&mut self, now: Instant) -> Option<TransactionEvent> {
        let Coordinator::Idle(transactions) = &self.coordinator else { return None };
        if self.added.is_empty() {
            return Some(self.ended(Duration::ZERO));
        }
        let (mut transactions, is_commit) = (transactions.clone(), self.failed.is_none());
        let task = tokio::spawn(async move {
            let result = transactions.end(is_commit).await;
            (transactions, result)
        });
        self.coordinator = Coordinator::InFlight(Step::End(now), task);
        None
    }

    fn ended(&mut self, took: Duration) -> TransactionEvent {
        self.begun = None;
        self.is_full = false;
        self.added.clear();
        let records = std::mem::take(&mut self.acknowledged);
        match &self.failed {
            Some(reason) => TransactionEvent::Aborted { records, reason: reason.clone() },
            None => TransactionEvent::Committed { took },
        }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<TransactionEvent> {
        let Coordinator::InFlight(step, task) = &mut self.coordinator else { return Poll::Pending };
        let (transactions, result) = ready!(Pin::new(task).poll(cx)).expect("asking a coordinator does not panic");
        self.producer = transactions.producer();
        let step = std::mem::replace(step, Step::Add(Vec::new()));
        self.coordinator = Coordinator::Idle(transactions);
        if let Err(error) = &result {
            self.fail(&error.to_string());
        }
        Poll::Ready(match step {
            Step::Add(partitions) => {
                if result.is_ok() {
                    self.added.extend(partitions);
                }
                TransactionEvent::Added
            }
            Step::End(started) => self.ended(started.elapsed()),
        })
    }
}
