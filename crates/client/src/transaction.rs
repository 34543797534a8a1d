//! Transactions of one producer, by the transaction coordinator: initialised, filled with partitions, ended.
//!
//! Where the cluster has finalized `transaction.version` 2, Produce adds the partitions itself and each transaction has
//! an epoch of its own (KIP-890). Otherwise partitions are added by a request of their own, and Produce may not go out
//! in a version from [`PRODUCE_ADDS_PARTITIONS`] on. Which of both it is, is decided once, when the producer is
//! announced: brokers go by the versions of the requests, and take both.

use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use wire::ErrorCode;
use wire::api::Request;
use wire::api::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnTopic,
};
use wire::api::end_txn::EndTxnRequest;
use wire::api::init_producer_id::InitProducerIdRequest;

use crate::client::Coordinated;
use crate::{Broker, Client, ClientError};

/// Since this version Produce itself adds the partitions to the transaction (KIP-890).
pub const PRODUCE_ADDS_PARTITIONS: i16 = 12;
/// Versions beyond are for brokers among themselves.
const ADD_PARTITIONS_CLIENT_MAX: i16 = 3;
/// Versions beyond give the producer a new epoch.
const END_TXN_OLD_EPOCH_MAX: i16 = 4;
/// The `transaction.version` since which they do, and Produce adds partitions.
const EPOCH_PER_TRANSACTION: i16 = 2;
/// How soon a partition is added again while the transaction before is being ended
/// (`TransactionManager.ADD_PARTITIONS_RETRY_BACKOFF_MS`).
const CONCURRENT_BACKOFF: Duration = Duration::from_millis(20);

/// A transactional producer as its coordinator knows it. Cheap to clone.
#[derive(Clone)]
pub struct Transactions {
    client: Client,
    id: String,
    producer: (i64, i16),
    coordinator: Broker,
    has_epoch_per_transaction: bool,
}

impl fmt::Debug for Transactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transactions").field("id", &self.id).field("producer", &self.producer).finish_non_exhaustive()
    }
}

impl Transactions {
    /// Announces the producer, which ends what another of this id has left, and fences it off.
    pub async fn init(client: Client, id: &str, timeout: Duration) -> Result<Self, ClientError> {
        let request = InitProducerIdRequest {
            transactional_id: Some(id.to_owned()),
            transaction_timeout_ms: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
            ..Default::default()
        };
        let coordinator = find(&client, id).await?;
        let mut transactions =
            Self { client, id: id.to_owned(), producer: (-1, -1), coordinator, has_epoch_per_transaction: false };
        let version_max = InitProducerIdRequest::API.versions.end();
        let answer = transactions.ask(&request, *version_max, |answer| answer.error_code).await?;
        transactions.producer = (answer.producer_id, answer.producer_epoch);
        let coordinator = transactions.client.broker(transactions.coordinator.id).await?;
        transactions.has_epoch_per_transaction = coordinator.transaction_version() >= EPOCH_PER_TRANSACTION;
        Ok(transactions)
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether Produce adds partitions, in versions from [`PRODUCE_ADDS_PARTITIONS`] on, and the producer has another
    /// epoch after each transaction, in which its sequences begin anew.
    pub fn has_epoch_per_transaction(&self) -> bool {
        self.has_epoch_per_transaction
    }

    /// Id and epoch of the producer.
    pub fn producer(&self) -> (i64, i16) {
        self.producer
    }

    /// Makes partitions of a topic part of the transaction, which begins with the first of them. Not where Produce
    /// does.
    pub async fn add(&mut self, topic: &str, partitions: Vec<i32>) -> Result<(), ClientError> {
        let (producer_id, producer_epoch) = self.producer;
        let request = AddPartitionsToTxnRequest {
            transactional_id: self.id.clone(),
            producer_id,
            producer_epoch,
            topics: vec![AddPartitionsToTxnTopic { name: topic.to_owned(), partitions }],
            ..Default::default()
        };
        let code = |answer: &AddPartitionsToTxnResponse| {
            let results = answer.results_by_topic.iter().flat_map(|topic| &topic.results_by_partition);
            let mut failed = results.map(|result| result.partition_error_code).filter(|code| !code.is_none());
            // What was not tried because of another one says the least.
            let first = failed.clone().find(|&code| code != ErrorCode::OPERATION_NOT_ATTEMPTED);
            first.or_else(|| failed.next()).unwrap_or(ErrorCode::NONE)
        };
        self.ask(&request, ADD_PARTITIONS_CLIENT_MAX, code).await?;
        Ok(())
    }

    /// Commits the transaction, or aborts it. [`Transactions::producer`] may be another one then.
    pub async fn end(&mut self, committed: bool) -> Result<(), ClientError> {
        let (producer_id, producer_epoch) = self.producer;
        let request = EndTxnRequest { transactional_id: self.id.clone(), producer_id, producer_epoch, committed };
        let version_max = match self.has_epoch_per_transaction {
            true => *EndTxnRequest::API.versions.end(),
            false => END_TXN_OLD_EPOCH_MAX,
        };
        let answer = self.ask(&request, version_max, |answer| answer.error_code).await?;
        if self.has_epoch_per_transaction {
            self.producer = (answer.producer_id, answer.producer_epoch);
        }
        Ok(())
    }

    /// Asks the coordinator, a new one where that is the trouble, until it has answered or refused.
    async fn ask<R: Request>(
        &mut self,
        request: &R,
        version_max: i16,
        code: impl Fn(&R::Response) -> ErrorCode,
    ) -> Result<R::Response, ClientError> {
        let mut retry = self.client.retry();
        let deadline = Instant::now() + self.client.config().deadline;
        loop {
            let error = match self.try_coordinator(request, version_max).await {
                Ok(answer) => match code(&answer) {
                    ErrorCode::NONE => return Ok(answer),
                    ErrorCode::CONCURRENT_TRANSACTIONS if Instant::now() < deadline => {
                        sleep(CONCURRENT_BACKOFF).await;
                        continue;
                    }
                    code => {
                        let subject = format!("{} of transactional id {}", R::API.name, self.id);
                        ClientError::Refused { subject, code, message: None }
                    }
                },
                Err(error) => error,
            };
            retry.wait(error).await?;
            self.coordinator = find(&self.client, &self.id).await?;
        }
    }

    async fn try_coordinator<R: Request>(&self, request: &R, version_max: i16) -> Result<R::Response, ClientError> {
        let connection = self.client.broker(self.coordinator.id).await?;
        let version = connection.version::<R>()?.min(version_max);
        let timeout = self.client.config().connection.request_timeout;
        Ok(connection.start_as(request, version, timeout)?.await?)
    }
}

/// Finds the coordinator. Its topic may have to be created first.
async fn find(client: &Client, id: &str) -> Result<Broker, ClientError> {
    let mut retry = client.retry();
    loop {
        match client.find_coordinator_of(Coordinated::Transaction, id).await {
            Ok(broker) => return Ok(broker),
            Err(error) => retry.wait(error).await?,
        }
    }
}
