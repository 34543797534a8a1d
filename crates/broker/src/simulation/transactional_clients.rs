//! Producers with transactions, which do what Java's does (`TransactionManager`): of version 2, which leave it to
//! brokers to add partitions (KIP-890), and of version 1, which add them. They abort some transactions and abandon
//! others, die and come again, and find that another one has taken their transactional id.
//!
//! What is late in version 1 may become part of a later transaction of the same epoch (KAFKA-17754), and only the
//! producer can help that: after a request without an answer it takes a new epoch.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use coordinator::group::OFFSETS_TOPIC;
use coordinator::txn::TRANSACTION_STATE_TOPIC;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use wire::api::Request;
use wire::api::add_offsets_to_txn::AddOffsetsToTxnRequest;
use wire::api::add_partitions_to_txn::{AddPartitionsToTxnRequest, AddPartitionsToTxnTopic};
use wire::api::end_txn::EndTxnRequest;
use wire::api::init_producer_id::InitProducerIdRequest;
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::api::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::batch::{Batch, BatchBuilder};
use wire::{ErrorCode, Records};

use super::clients::{ANSWER_TIMEOUT, ClientEvent, Connections, RETRY_INTERVAL, World};
use super::ledger::TopicPartition;
use super::transaction_ledger::TransactionEvent;

/// The last versions of version 1.
const PRODUCE_V1: i16 = 11;
const END_TXN_V1: i16 = 4;
const TXN_OFFSET_COMMIT_V1: i16 = 4;
const ADD_PARTITIONS_VERSION: i16 = 3;
const ADD_OFFSETS_VERSION: i16 = 4;
/// How long a step of a transaction is tried.
const STEP_TIMEOUT: Duration = Duration::from_millis(4000);
const TIMEOUT_MIN_MS: u64 = 1000;
const TIMEOUT_MAX_MS: u64 = 6000;
/// How long a dead producer stays away at most.
const AWAY_MAX_MS: u64 = 3000;
const STEPS_MAX: u64 = 4;
/// How often something happens to a producer in its transaction.
const DIES_PERCENT: u64 = 4;
const IS_SUCCEEDED_PERCENT: u64 = 3;
const ABORTS_PERCENT: u64 = 25;
const COMMITS_OFFSET_PERCENT: u64 = 30;

/// The group whose offsets a producer commits.
pub(super) fn group_of(number: usize) -> String {
    format!("copier-{number}")
}

/// What a failed step leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// To abort the transaction.
    Abortable,
    /// Nothing.
    Fatal,
}

struct TransactionalProducer {
    world: Arc<Mutex<World>>,
    connections: Connections,
    number: usize,
    topics: Vec<TopicPartition>,
    timeout_ms: i32,
    is_v2: bool,
    id: i64,
    epoch: i16,
    sequences: BTreeMap<TopicPartition, i32>,
    /// Something of this epoch may still be under way.
    may_be_late: bool,
    /// Another has taken the transactional id, or is about to.
    is_succeeded: bool,
}

/// One transactional id, and the producers that have it one after the other.
pub(super) async fn transact(world: Arc<Mutex<World>>, number: usize, topics: Vec<TopicPartition>) {
    loop {
        let mut producer = TransactionalProducer::new(&world, number, &topics);
        _ = producer.live().await;
        let is_over = producer.is_succeeded || world.lock().stops;
        if is_over {
            world.lock().transacting -= 1;
            return;
        }
        let away_ms = world.lock().rng.below(AWAY_MAX_MS);
        sleep(Duration::from_millis(away_ms)).await;
    }
}

impl TransactionalProducer {
    fn new(world: &Arc<Mutex<World>>, number: usize, topics: &[TopicPartition]) -> Self {
        let (timeout_ms, is_v2) = {
            let rng = &mut world.lock().rng;
            (TIMEOUT_MIN_MS + rng.below(TIMEOUT_MAX_MS - TIMEOUT_MIN_MS), number.is_multiple_of(2) || rng.percent(40))
        };
        Self {
            world: Arc::clone(world),
            connections: Connections::default(),
            number,
            topics: topics.to_vec(),
            timeout_ms: timeout_ms as i32,
            is_v2,
            id: -1,
            epoch: -1,
            sequences: BTreeMap::new(),
            may_be_late: false,
            is_succeeded: false,
        }
    }

    fn transactional_id(&self) -> String {
        format!("copier-{}", self.number)
    }

    fn roll(&self, percent: u64) -> bool {
        self.world.lock().rng.percent(percent)
    }

    fn tell(&self, event: TransactionEvent) {
        self.world.lock().client_events.push(ClientEvent::Transaction(event));
    }

    async fn live(&mut self) -> Result<(), Failure> {
        self.initialize().await?;
        while !self.world.lock().stops {
            let transaction = self.world.lock().next_transaction();
            self.tell(TransactionEvent::Begins { transaction, is_v2: self.is_v2 });
            self.transaction(transaction).await?;
            let rests_ms = self.world.lock().rng.below(150);
            sleep(Duration::from_millis(rests_ms)).await;
        }
        Ok(())
    }

    async fn transaction(&mut self, transaction: u64) -> Result<(), Failure> {
        let written = self.write(transaction).await;
        if written == Err(Failure::Fatal) || self.roll(DIES_PERCENT) {
            return Err(Failure::Fatal);
        }
        if !self.is_succeeded && self.roll(IS_SUCCEEDED_PERCENT) {
            self.is_succeeded = true;
            self.world.lock().transacting += 1;
            tokio::spawn(transact_boxed(Arc::clone(&self.world), self.number, self.topics.clone()));
        }
        let is_commit = written.is_ok() && !self.roll(ABORTS_PERCENT);
        self.end(transaction, is_commit).await?;
        if self.is_v2 || written.is_ok() && !self.may_be_late { Ok(()) } else { self.initialize().await }
    }

    async fn write(&mut self, transaction: u64) -> Result<(), Failure> {
        let steps = 1 + self.world.lock().rng.below(STEPS_MAX);
        for _ in 0..steps {
            let at = self.world.lock().rng.below(self.topics.len() as u64) as usize;
            let topic_partition = self.topics[at].clone();
            self.produce(transaction, topic_partition).await?;
        }
        if self.roll(COMMITS_OFFSET_PERCENT) {
            self.commit_offset(transaction).await?;
        }
        Ok(())
    }

    /// Asks whoever seems to lead a partition until there is an answer without an error, or with one that trying again
    /// does not help.
    async fn ask<R: Request>(
        &mut self,
        leads: (&str, i32),
        request: &R,
        version: i16,
        deadline: Option<Instant>,
        error: impl Fn(&R::Response) -> ErrorCode,
    ) -> Result<(i32, R::Response), Failure> {
        let leads = (Arc::from(leads.0), leads.1);
        loop {
            let leader = self.world.lock().leader(&leads);
            if let Some(node) = leader {
                match self.connections.ask(node, request, version).await {
                    Ok(response) => match failure(error(&response)) {
                        None if error(&response).is_none() => return Ok((node, response)),
                        None => {}
                        Some(failure) => return Err(failure),
                    },
                    Err(_) => self.may_be_late = true,
                }
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Failure::Abortable);
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    /// Takes the transactional id, or a new epoch of it.
    async fn initialize(&mut self) -> Result<(), Failure> {
        let request = InitProducerIdRequest {
            transactional_id: Some(self.transactional_id()),
            transaction_timeout_ms: self.timeout_ms,
            producer_id: self.id,
            producer_epoch: self.epoch,
        };
        let version = *InitProducerIdRequest::API.versions.end();
        let coordinator = (TRANSACTION_STATE_TOPIC, 0);
        let (_, answer) = self.ask(coordinator, &request, version, None, |answer| answer.error_code).await?;
        (self.id, self.epoch) = (answer.producer_id, answer.producer_epoch);
        self.sequences.clear();
        self.may_be_late = false;
        self.tell(TransactionEvent::Initialized { producer_id: self.id, epoch: self.epoch });
        Ok(())
    }

    async fn produce(&mut self, transaction: u64, topic_partition: TopicPartition) -> Result<(), Failure> {
        let deadline = Some(Instant::now() + STEP_TIMEOUT);
        let (topic, index) = (topic_partition.0.to_string(), topic_partition.1);
        if !self.is_v2 {
            let request = AddPartitionsToTxnRequest {
                transactional_id: self.transactional_id(),
                producer_id: self.id,
                producer_epoch: self.epoch,
                topics: vec![AddPartitionsToTxnTopic { name: topic.clone(), partitions: vec![index] }],
                ..AddPartitionsToTxnRequest::default()
            };
            let coordinator = (TRANSACTION_STATE_TOPIC, 0);
            self.ask(coordinator, &request, ADD_PARTITIONS_VERSION, deadline, |answer| {
                let results = answer.results_by_topic.iter().flat_map(|topic| &topic.results_by_partition);
                results.map(|result| result.partition_error_code).next().unwrap_or(ErrorCode::NONE)
            })
            .await?;
        }
        let sequence = self.sequences.get(&topic_partition).copied().unwrap_or(0);
        let builder = BatchBuilder::new().producer(self.id, self.epoch, sequence).transactional();
        let (batch, values) = self.world.lock().batch(builder);
        self.tell(TransactionEvent::Sends { transaction, numbers: values.clone() });
        let request = self.produce_request(&topic_partition, &batch);
        let version = if self.is_v2 { *ProduceRequest::API.versions.end() } else { PRODUCE_V1 };
        let answered = self.ask((&topic, index), &request, version, deadline, |answer| {
            let partitions = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
            partitions.map(|partition| partition.error_code).next().unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR)
        });
        let (node, answer) = answered.await?;
        let partition = answer.responses.iter().flat_map(|topic| &topic.partition_responses).next();
        let base_offset = partition.expect("it had no error").base_offset;
        self.sequences.insert(topic_partition.clone(), sequence + values.len() as i32);
        let acknowledged = ClientEvent::Acknowledged { topic_partition, node, base_offset, values };
        self.world.lock().client_events.push(acknowledged);
        Ok(())
    }

    fn produce_request(&self, topic_partition: &TopicPartition, batch: &Batch) -> ProduceRequest {
        let topic_id = self.world.lock().newest.topic(&topic_partition.0).map(|topic| topic.id).unwrap_or_default();
        let records = Some(Records::Inline(batch.bytes.clone()));
        ProduceRequest {
            transactional_id: Some(self.transactional_id()),
            acks: -1,
            timeout_ms: ANSWER_TIMEOUT.as_millis() as i32,
            topic_data: vec![TopicProduceData {
                name: topic_partition.0.to_string(),
                topic_id,
                partition_data: vec![PartitionProduceData { index: topic_partition.1, records }],
            }],
        }
    }

    async fn commit_offset(&mut self, transaction: u64) -> Result<(), Failure> {
        let deadline = Some(Instant::now() + STEP_TIMEOUT);
        let group = group_of(self.number);
        if !self.is_v2 {
            let request = AddOffsetsToTxnRequest {
                transactional_id: self.transactional_id(),
                producer_id: self.id,
                producer_epoch: self.epoch,
                group_id: group.clone(),
            };
            let coordinator = (TRANSACTION_STATE_TOPIC, 0);
            self.ask(coordinator, &request, ADD_OFFSETS_VERSION, deadline, |answer| answer.error_code).await?;
        }
        let number = self.world.lock().next_value();
        self.tell(TransactionEvent::Sends { transaction, numbers: vec![number] });
        let (topic, partition_index) = &self.topics[0];
        let partition = TxnOffsetCommitRequestPartition {
            partition_index: *partition_index,
            committed_offset: number as i64,
            committed_metadata: Some(number.to_string()),
            ..TxnOffsetCommitRequestPartition::default()
        };
        let request = TxnOffsetCommitRequest {
            transactional_id: self.transactional_id(),
            group_id: group.clone(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            topics: vec![TxnOffsetCommitRequestTopic { name: topic.to_string(), partitions: vec![partition] }],
            ..TxnOffsetCommitRequest::default()
        };
        let version = if self.is_v2 { *TxnOffsetCommitRequest::API.versions.end() } else { TXN_OFFSET_COMMIT_V1 };
        let answered = self.ask((OFFSETS_TOPIC, 0), &request, version, deadline, |answer| {
            let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.map(|partition| partition.error_code).next().unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR)
        });
        let (node, _) = answered.await?;
        self.tell(TransactionEvent::CommitsOffset { transaction, group, number, node });
        Ok(())
    }

    async fn end(&mut self, transaction: u64, is_commit: bool) -> Result<(), Failure> {
        self.tell(TransactionEvent::Ends { transaction, is_commit });
        let request = EndTxnRequest {
            transactional_id: self.transactional_id(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed: is_commit,
        };
        let version = if self.is_v2 { *EndTxnRequest::API.versions.end() } else { END_TXN_V1 };
        let coordinator = (TRANSACTION_STATE_TOPIC, 0);
        let (_, answer) = self.ask(coordinator, &request, version, None, |answer| answer.error_code).await?;
        self.tell(TransactionEvent::Ended { transaction, is_commit });
        if self.is_v2 {
            (self.id, self.epoch) = (answer.producer_id, answer.producer_epoch);
            self.sequences.clear();
        }
        Ok(())
    }
}

/// A producer that has the same transactional id as the one that is about to find out.
fn transact_boxed(
    world: Arc<Mutex<World>>,
    number: usize,
    topics: Vec<TopicPartition>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(transact(world, number, topics))
}

/// What an error means to a producer. Without one it goes on, or tries again.
fn failure(error: ErrorCode) -> Option<Failure> {
    match error {
        ErrorCode::NONE
        | ErrorCode::CONCURRENT_TRANSACTIONS
        | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
        | ErrorCode::COORDINATOR_NOT_AVAILABLE
        | ErrorCode::NOT_COORDINATOR
        | ErrorCode::NOT_LEADER_OR_FOLLOWER
        | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        | ErrorCode::UNKNOWN_TOPIC_ID
        | ErrorCode::NOT_ENOUGH_REPLICAS
        | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
        | ErrorCode::REQUEST_TIMED_OUT
        | ErrorCode::NETWORK_EXCEPTION
        | ErrorCode::KAFKA_STORAGE_ERROR => None,
        ErrorCode::PRODUCER_FENCED
        | ErrorCode::INVALID_TXN_STATE
        | ErrorCode::INVALID_PRODUCER_ID_MAPPING
        | ErrorCode::UNKNOWN_SERVER_ERROR => Some(Failure::Fatal),
        _ => Some(Failure::Abortable),
    }
}
