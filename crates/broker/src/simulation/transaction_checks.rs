//! Transactions of a whole cluster: who has them, and what the ledger of them needs to know of the nodes.

use std::sync::Arc;

use coordinator::group::OFFSETS_TOPIC;
use coordinator::txn::TRANSACTION_STATE_TOPIC;
use wire::api::describe_transactions::DescribeTransactionsRequest;

use super::cluster::Cluster;
use super::committed_readers::{consume_committed, read_offsets};
use super::ledger::TopicPartition;
use super::topics::{is_compacted, is_internal, is_open};
use super::transaction_ledger::TransactionEvent;
use super::transactional_clients::{group_of, transact};
use crate::partition::Partition;

/// Transactional ids.
const PRODUCERS: usize = 4;

impl Cluster {
    /// The partitions that have records of transactions.
    fn transactional_partitions(&self) -> Vec<TopicPartition> {
        let topics = self.topics.iter().filter(|(topic, ..)| !is_internal(topic));
        topics.flat_map(|(topic, partitions, _)| (0..*partitions).map(|index| ((*topic).into(), index))).collect()
    }

    pub(super) fn start_transactional_clients(&mut self) {
        let partitions = self.transactional_partitions();
        let written: Vec<_> = partitions.iter().filter(|(topic, _)| is_open(topic)).cloned().collect();
        self.world.lock().transacting = PRODUCERS;
        let world = || Arc::clone(&self.world);
        self.clients.enter(|| {
            for number in 0..PRODUCERS {
                tokio::spawn(transact(world(), number, written.clone()));
                tokio::spawn(read_offsets(world(), (group_of(number), written[0].clone())));
            }
            for topic_partition in partitions.iter().filter(|(topic, _)| !is_compacted(topic)) {
                tokio::spawn(consume_committed(world(), topic_partition.clone()));
            }
        });
    }

    pub(super) fn observe_transaction(&mut self, event: TransactionEvent) {
        let offsets: TopicPartition = (OFFSETS_TOPIC.into(), 0);
        match event {
            TransactionEvent::Begins { transaction, is_v2 } => self.transactions.begins(transaction, is_v2),
            TransactionEvent::Sends { transaction, numbers } => self.transactions.sends(transaction, numbers),
            TransactionEvent::Copies { transaction, copies } => self.transactions.copies.sends(transaction, copies),
            TransactionEvent::CommitsOffset { transaction, offset_of, number, node } => {
                let known = self.ledger.partition(&offsets).map_or(0, |partition| partition.leader_epoch);
                let own = self.world.lock().coordinator_epochs.get(&node).copied().unwrap_or(0);
                self.transactions.commits_offset(transaction, offset_of, number, known.max(own), self.now_ms);
            }
            TransactionEvent::Ends { transaction, is_commit } => self.transactions.ends(transaction, is_commit),
            TransactionEvent::Ended { transaction, is_commit } => {
                if is_commit {
                    self.keys.committed(transaction);
                }
                self.transactions.ended(transaction, is_commit, self.now_ms);
            }
            TransactionEvent::Initialized { producer_id, epoch } => {
                let mut partitions = self.transactional_partitions();
                partitions.push(offsets);
                for topic_partition in partitions {
                    let end_offset = self.greatest_end_offset(&topic_partition);
                    self.transactions.initialized(&topic_partition, producer_id, epoch, end_offset);
                }
            }
            TransactionEvent::ReadCommitted { topic_partition, from, to, high_watermark, numbers } => {
                self.transactions.reads_committed(topic_partition, (from, to), high_watermark, numbers);
            }
            TransactionEvent::FetchedOffset { offset_of, leader_epoch, is_stable, asked_ms, number } => {
                let end_offset = self.greatest_end_offset(&offsets);
                let asked = (is_stable, asked_ms);
                self.transactions.fetches_offset(&offsets, &offset_of, leader_epoch, asked, number, end_offset);
            }
        }
    }

    /// Everything that was ever appended in a partition, and still is in the log of a node that runs or of one that may
    /// start, is below.
    pub(super) fn greatest_end_offset(&self, topic_partition: &TopicPartition) -> i64 {
        let left = self.nodes.iter().filter_map(|node| node.left.get(topic_partition)).map(|(_, end)| *end);
        let running = self.logs(topic_partition).map(|log| log.view().log_end_offset());
        left.chain(running).max().unwrap_or(0)
    }

    /// Whether every transaction is complete, and everything stable.
    pub(super) fn is_settled(&self, led: &[Arc<Partition>]) -> bool {
        led.iter().all(|leader| {
            let end_offset = leader.view().log_end_offset();
            let is_of_states = &*leader.topic == TRANSACTION_STATE_TOPIC;
            leader.last_stable_offset() == end_offset && (!is_of_states || self.transactions.is_settled(end_offset))
        })
    }

    /// Checks what is left when all has come to rest.
    pub(super) fn check_transactions(&mut self) {
        self.show();
        let logs: Vec<_> = self
            .nodes
            .iter()
            .filter_map(|node| Some((node.id, node.running.as_ref()?.start, node.broker()?)))
            .flat_map(|(id, start, broker)| broker.partitions.all().into_iter().map(move |log| (id, start, log)))
            .collect();
        for (node, start, log) in logs.into_iter().filter(|(.., log)| !is_compacted(&log.topic)) {
            self.transactions.check_rest(node, start, &log);
        }
        self.transactions.check_decisions();
        let states = self.transactions.states();
        let request = DescribeTransactionsRequest { transactional_ids: states.ids().cloned().collect() };
        let described = self.coordinate(TRANSACTION_STATE_TOPIC, |broker| broker.transactions.describe(request));
        for described in described.expect("every partition has a leader").transaction_states {
            assert!(described.error_code.is_none(), "{described:?}");
            states.check(&described);
        }
    }
}
