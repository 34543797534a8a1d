//! A producer with transactions, which does what Java's does (`TransactionManager`): of version 2, which leaves it to
//! brokers to add partitions (KIP-890), or of version 1, which adds them. What it writes, and when, is up to others.
//!
//! What is late in version 1 may become part of a later transaction of the same epoch (KAFKA-17754), and only the
//! producer can help that: after a request without an answer it takes a new epoch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coordinator::group::OFFSETS_TOPIC;
use coordinator::txn::TRANSACTION_STATE_TOPIC;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use wire::api::Request;
use wire::api::add_offsets_to_txn::AddOffsetsToTxnRequest;
use wire::api::add_partitions_to_txn::{AddPartitionsToTxnRequest, AddPartitionsToTxnTopic};
use wire::api::end_txn::{EndTxnRequest, EndTxnResponse};
use wire::api::init_producer_id::InitProducerIdRequest;
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::api::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::batch::{Batch, BatchBuilder};
use wire::{ErrorCode, Records};

use super::clients::{ANSWER_TIMEOUT, ClientEvent, Connections, RETRY_INTERVAL, World, filled};
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

/// What a failed step leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// To abort the transaction.
    Abortable,
    /// Nothing.
    Fatal,
}

/// An offset of a group that is committed in a transaction.
pub(super) struct SentOffset {
    pub(super) group: String,
    /// The member and its epoch, if it is one.
    pub(super) member: Option<(String, i32)>,
    pub(super) topic_partition: TopicPartition,
    pub(super) offset: i64,
    /// What it is told apart by.
    pub(super) number: u64,
}

pub(super) struct TransactionalProducer {
    world: Arc<Mutex<World>>,
    pub(super) connections: Connections,
    transactional_id: String,
    timeout_ms: i32,
    is_v2: bool,
    id: i64,
    epoch: i16,
    sequences: BTreeMap<TopicPartition, i32>,
    /// Something of this epoch may still be under way.
    may_be_late: bool,
}

impl TransactionalProducer {
    pub(super) fn new(world: &Arc<Mutex<World>>, name: &str, number: usize) -> Self {
        let (timeout_ms, is_v2) = {
            let rng = &mut world.lock().rng;
            (TIMEOUT_MIN_MS + rng.below(TIMEOUT_MAX_MS - TIMEOUT_MIN_MS), number.is_multiple_of(2) || rng.percent(40))
        };
        Self {
            world: Arc::clone(world),
            connections: Connections::default(),
            transactional_id: format!("{name}-{number}"),
            timeout_ms: timeout_ms as i32,
            is_v2,
            id: -1,
            epoch: -1,
            sequences: BTreeMap::new(),
            may_be_late: false,
        }
    }

    fn tell(&self, event: TransactionEvent) {
        self.world.lock().client_events.push(ClientEvent::Transaction(event));
    }

    /// Begins a transaction, of which nobody hears before something is written in it.
    pub(super) fn begin(&self) -> u64 {
        let transaction = self.world.lock().next_transaction();
        self.tell(TransactionEvent::Begins { transaction, is_v2: self.is_v2 });
        transaction
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
    pub(super) async fn initialize(&mut self) -> Result<(), Failure> {
        let request = InitProducerIdRequest {
            transactional_id: Some(self.transactional_id.clone()),
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

    pub(super) async fn produce(
        &mut self,
        transaction: u64,
        topic_partition: TopicPartition,
        values: Vec<u64>,
    ) -> Result<(), Failure> {
        self.produce_batch(transaction, topic_partition, values.clone(), |builder| filled(builder, &values)).await
    }

    /// Writes a batch whose records have these numbers.
    pub(super) async fn produce_batch(
        &mut self,
        transaction: u64,
        topic_partition: TopicPartition,
        values: Vec<u64>,
        build: impl FnOnce(BatchBuilder) -> Batch,
    ) -> Result<(), Failure> {
        let deadline = Some(Instant::now() + STEP_TIMEOUT);
        let (topic, index) = (topic_partition.0.to_string(), topic_partition.1);
        if !self.is_v2 {
            let request = AddPartitionsToTxnRequest {
                transactional_id: self.transactional_id.clone(),
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
        let batch = build(builder);
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
            transactional_id: Some(self.transactional_id.clone()),
            acks: -1,
            timeout_ms: ANSWER_TIMEOUT.as_millis() as i32,
            topic_data: vec![TopicProduceData {
                name: topic_partition.0.to_string(),
                topic_id,
                partition_data: vec![PartitionProduceData { index: topic_partition.1, records }],
            }],
        }
    }

    pub(super) async fn commit_offset(&mut self, transaction: u64, sent: SentOffset) -> Result<(), Failure> {
        let deadline = Some(Instant::now() + STEP_TIMEOUT);
        if !self.is_v2 {
            let request = AddOffsetsToTxnRequest {
                transactional_id: self.transactional_id.clone(),
                producer_id: self.id,
                producer_epoch: self.epoch,
                group_id: sent.group.clone(),
            };
            let coordinator = (TRANSACTION_STATE_TOPIC, 0);
            self.ask(coordinator, &request, ADD_OFFSETS_VERSION, deadline, |answer| answer.error_code).await?;
        }
        let SentOffset { group, member, topic_partition, offset, number } = sent;
        self.tell(TransactionEvent::Sends { transaction, numbers: vec![number] });
        let partition = TxnOffsetCommitRequestPartition {
            partition_index: topic_partition.1,
            committed_offset: offset,
            committed_metadata: Some(number.to_string()),
            ..TxnOffsetCommitRequestPartition::default()
        };
        let name = topic_partition.0.to_string();
        let (member_id, generation_id) = member.unwrap_or((String::new(), -1));
        let request = TxnOffsetCommitRequest {
            transactional_id: self.transactional_id.clone(),
            group_id: group.clone(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            generation_id,
            member_id,
            group_instance_id: None,
            topics: vec![TxnOffsetCommitRequestTopic { name, partitions: vec![partition] }],
        };
        let version = if self.is_v2 { *TxnOffsetCommitRequest::API.versions.end() } else { TXN_OFFSET_COMMIT_V1 };
        let answered = self.ask((OFFSETS_TOPIC, 0), &request, version, deadline, |answer| {
            let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.map(|partition| partition.error_code).next().unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR)
        });
        let (node, _) = answered.await?;
        self.tell(TransactionEvent::CommitsOffset { transaction, offset_of: (group, topic_partition), number, node });
        Ok(())
    }

    /// Takes a new epoch after a transaction where it is not known what is still under way.
    pub(super) async fn renew(&mut self, written: Result<(), Failure>) -> Result<(), Failure> {
        if self.is_v2 || written.is_ok() && !self.may_be_late { Ok(()) } else { self.initialize().await }
    }

    pub(super) async fn end(&mut self, transaction: u64, is_commit: bool) -> Result<(), Failure> {
        self.tell(TransactionEvent::Ends { transaction, is_commit });
        let request = EndTxnRequest {
            transactional_id: self.transactional_id.clone(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed: is_commit,
        };
        let version = if self.is_v2 { *EndTxnRequest::API.versions.end() } else { END_TXN_V1 };
        let coordinator = (TRANSACTION_STATE_TOPIC, 0);
        // Nothing may have been added yet to what is aborted. Only the second version takes that.
        let may_be_unknown = !self.is_v2 && !is_commit;
        let error = |answer: &EndTxnResponse| {
            let is_unknown = answer.error_code == ErrorCode::INVALID_TXN_STATE;
            assert!(!is_unknown || may_be_unknown, "a producer is told that there is no transaction {transaction}");
            answer.error_code
        };
        let (_, answer) = self.ask(coordinator, &request, version, None, error).await?;
        self.tell(TransactionEvent::Ended { transaction, is_commit });
        if self.is_v2 {
            (self.id, self.epoch) = (answer.producer_id, answer.producer_epoch);
            self.sequences.clear();
        }
        Ok(())
    }
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
        ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_TXN_STATE | ErrorCode::INVALID_PRODUCER_ID_MAPPING => {
            Some(Failure::Fatal)
        }
        ErrorCode::UNKNOWN_SERVER_ERROR => panic!("a producer is told {error}"),
        _ => Some(Failure::Abortable),
    }
}
