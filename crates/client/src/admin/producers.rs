//! What partitions know of their producers, and transactions that nobody will end.

use std::collections::{BTreeMap, BTreeSet};

use wire::ErrorCode;
use wire::api::describe_producers::{DescribeProducersRequest, ProducerState, TopicRequest};

use super::{ByPartition, by_topic};
use crate::{AbortTarget, Client, ClientError, Connection, TopicPartition, TransactionFilter};

/// Partitions that are asked for at once (`TransactionsCommand.FindHangingTransactionsCommand.MAX_BATCH_SIZE`).
const PARTITIONS_AT_ONCE: usize = 500;

/// A producer, as a partition knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionProducer {
    pub producer_id: i64,
    pub producer_epoch: i32,
    /// -1 where it has written nothing but transactions' markers.
    pub last_sequence: i32,
    /// When it wrote last.
    pub last_timestamp_ms: i64,
    /// Of the last marker; `None` without any.
    pub coordinator_epoch: Option<i32>,
    /// Where its open transaction begins.
    pub transaction_start_offset: Option<i64>,
}

/// A transaction that is open in a partition, and that its coordinator does not have there: nobody will end it, and
/// consumers that read committed records stand before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HangingTransaction {
    pub partition: TopicPartition,
    pub producer: PartitionProducer,
}

/// What a search for hanging transactions has found.
#[derive(Clone, Debug, Default)]
pub struct HangingTransactions {
    pub hanging: Vec<HangingTransaction>,
    /// Partitions that could not be looked at, and why.
    pub errors: BTreeMap<TopicPartition, ClientError>,
}

impl HangingTransaction {
    /// The transaction, to abort it.
    pub fn target(&self) -> AbortTarget {
        self.producer.target(&self.partition)
    }
}

impl PartitionProducer {
    fn new(state: ProducerState) -> Self {
        Self {
            producer_id: state.producer_id,
            producer_epoch: state.producer_epoch,
            last_sequence: state.last_sequence,
            last_timestamp_ms: state.last_timestamp,
            coordinator_epoch: Some(state.coordinator_epoch).filter(|epoch| *epoch >= 0),
            transaction_start_offset: Some(state.current_txn_start_offset).filter(|offset| *offset >= 0),
        }
    }

    /// Its transaction in this partition, to abort it.
    pub fn target(&self, partition: &TopicPartition) -> AbortTarget {
        AbortTarget {
            partition: partition.clone(),
            producer_id: self.producer_id,
            // The protocol has it in 32 bits here and in 16 everywhere else.
            producer_epoch: self.producer_epoch as i16,
            coordinator_epoch: self.coordinator_epoch.unwrap_or(-1),
        }
    }
}

impl Client {
    /// The producers that the leaders of partitions know, or the replicas of one broker.
    pub async fn describe_producers(
        &self,
        partitions: &BTreeSet<TopicPartition>,
        broker: Option<i32>,
    ) -> ByPartition<Vec<PartitionProducer>> {
        let mut described = BTreeMap::new();
        let all: Vec<_> = partitions.iter().cloned().collect();
        for part in all.chunks(PARTITIONS_AT_ONCE) {
            let wanted: BTreeMap<_, _> = part.iter().map(|partition| (partition.clone(), ())).collect();
            described.extend(match broker {
                None => self.ask_leaders(&wanted, self.config().deadline, ask).await,
                Some(broker) => self.producers_on(broker, wanted).await,
            });
        }
        described
    }

    async fn producers_on(
        &self,
        broker: i32,
        wanted: BTreeMap<TopicPartition, ()>,
    ) -> ByPartition<Vec<PartitionProducer>> {
        let asked = async { ask(self.broker(broker).await?, wanted.clone()).await };
        let mut described = match asked.await {
            Ok(described) => described,
            Err(error) => return wanted.into_keys().map(|partition| (partition, Err(error.clone()))).collect(),
        };
        let answers = wanted.into_keys().map(|partition| {
            let missing =
                || ClientError::Missing { address: format!("broker {broker}"), subject: partition.to_string() };
            let answer = described.remove(&partition).unwrap_or_else(|| Err(missing()));
            (partition, answer)
        });
        answers.collect()
    }

    /// Transactions in these partitions in which nothing was written for longer than `idle_ms` before `now_ms`, and
    /// that their coordinators do not have there (`TransactionsCommand.FindHangingTransactionsCommand`). Fails where a
    /// coordinator does not answer: its transactions would all look as if nobody had them.
    pub async fn find_hanging_transactions(
        &self,
        partitions: &BTreeSet<TopicPartition>,
        broker: Option<i32>,
        idle_ms: i64,
        now_ms: i64,
    ) -> Result<HangingTransactions, ClientError> {
        let mut found = HangingTransactions::default();
        let mut open = Vec::new();
        for (partition, described) in self.describe_producers(partitions, broker).await {
            match described {
                Ok(producers) => open.extend(
                    producers
                        .into_iter()
                        .filter(|producer| producer.transaction_start_offset.is_some())
                        .filter(|producer| now_ms.saturating_sub(producer.last_timestamp_ms) > idle_ms)
                        .map(|producer| HangingTransaction { partition: partition.clone(), producer }),
                ),
                Err(error) => {
                    found.errors.insert(partition, error);
                }
            }
        }
        let producer_ids: BTreeSet<_> = open.iter().map(|transaction| transaction.producer.producer_id).collect();
        let known = self.open_partitions(producer_ids).await?;
        open.retain(|transaction| {
            let of_it = known.get(&transaction.producer.producer_id);
            of_it.is_none_or(|partitions| !partitions.contains(&transaction.partition))
        });
        found.hanging = open;
        Ok(found)
    }

    /// Where coordinators have open transactions of these producers.
    async fn open_partitions(
        &self,
        producer_ids: BTreeSet<i64>,
    ) -> Result<BTreeMap<i64, Vec<TopicPartition>>, ClientError> {
        if producer_ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let filter =
            TransactionFilter { producer_ids: producer_ids.into_iter().collect(), ..TransactionFilter::default() };
        let listed = self.list_transactions(&filter).await?;
        if let Some(error) = listed.errors.into_values().next() {
            return Err(error);
        }
        let ids: Vec<_> = listed.transactions.keys().cloned().collect();
        let mut open = BTreeMap::new();
        for (id, described) in self.describe_transactions(&ids).await {
            match described {
                Ok(described) => {
                    open.insert(listed.transactions[&id].producer_id, described.partitions);
                }
                Err(error) if error.code() == Some(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(open)
    }
}

async fn ask(
    broker: Connection,
    wanted: BTreeMap<TopicPartition, ()>,
) -> Result<ByPartition<Vec<PartitionProducer>>, ClientError> {
    let topics = by_topic(wanted.keys().map(|partition| (partition, ())));
    let topics = topics.into_iter().map(|(name, partitions)| TopicRequest {
        name: name.to_owned(),
        partition_indexes: partitions.into_iter().map(|(partition, ())| partition).collect(),
    });
    let request = DescribeProducersRequest { topics: topics.collect() };
    let mut described = BTreeMap::new();
    for topic in broker.send(&request).await?.topics {
        described.extend(topic.partitions.into_iter().map(|answer| {
            let partition = TopicPartition::new(topic.name.clone(), answer.partition_index);
            let subject = || format!("the producers of {partition}");
            let checked = ClientError::check(subject, answer.error_code, answer.error_message.as_deref());
            let producers = checked.map(|()| answer.active_producers.into_iter().map(PartitionProducer::new).collect());
            (partition, producers)
        }));
    }
    Ok(described)
}
