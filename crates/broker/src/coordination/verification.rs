//! Asks the coordinators of transactions about partitions that producers begin to write to
//! (`AddPartitionsToTxnManager`, KIP-890): whether the partition belongs to the transaction, or to add it.
//!
//! One request at a time is on its way to a coordinator, for all that have come meanwhile. Of a transactional id one
//! question waits: a producer of a newer epoch has fenced the one before, and one of the same epoch asks again because
//! it has given up the first. Every question has an answer in time: also where the coordinator has none, and where asking
//! it panics.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use configuration::BrokerConfig;
use coordinator::txn::{TRANSACTION_STATE_TOPIC, TransactionCoordinator};
use metadata::{MetadataCache, NO_LEADER};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use wire::ErrorCode;
use wire::api::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnTopic, AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
};

use crate::cluster::{Lane, Peers};

/// How the producer's request takes part in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionSupport {
    /// The producer has added its partitions itself. It does not know TRANSACTION_ABORTABLE.
    Verifies,
    /// The same for one that does.
    VerifiesAbortable,
    /// The broker adds the partitions that are written to, and each transaction has its own epoch.
    AddsPartitions,
}

impl TransactionSupport {
    /// The version of transactions that it stands for.
    pub(crate) fn transaction_version(self) -> i8 {
        if self == Self::AddsPartitions { 2 } else { 0 }
    }
}

/// A producer, and the transactional id that it claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TransactionalProducer {
    pub(crate) transactional_id: String,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
}

/// By transactional id.
pub(super) type Questions = BTreeMap<String, Question>;

type Answer = Result<Vec<AddPartitionsToTxnTopicResult>, ErrorCode>;

pub(super) struct Question {
    asked: AddPartitionsToTxnTransaction,
    answer: oneshot::Sender<Answer>,
}

pub(crate) struct Verifier {
    pub(super) node_id: i32,
    pub(super) metadata: Arc<MetadataCache>,
    pub(super) config: Arc<ArcSwap<BrokerConfig>>,
    pub(super) peers: Arc<Peers>,
    pub(super) transactions: Arc<TransactionCoordinator>,
    /// For how long a request to a coordinator may be under way.
    pub(super) timeout: Duration,
    /// What waits for the request under way, by coordinator and transactional id. A coordinator is there as long as
    /// there is one.
    pub(super) waiting: Mutex<BTreeMap<i32, Questions>>,
}

impl Verifier {
    /// The errors of partitions, by topic and partition. One that is not there belongs to the transaction.
    pub(crate) async fn verify(
        self: &Arc<Self>,
        producer: &TransactionalProducer,
        partitions: &[(Arc<str>, i32)],
        support: TransactionSupport,
    ) -> BTreeMap<(String, i32), ErrorCode> {
        let config = self.config.load();
        let backoff = Duration::from_millis(config.add_partitions_to_txn_retry_backoff_ms.unsigned_abs().into());
        let retry_max = Duration::from_millis(config.add_partitions_to_txn_retry_backoff_max_ms.unsigned_abs().into());
        let request_timeout = Duration::from_millis(config.request_timeout_ms.unsigned_abs().into());
        drop(config);
        let retry_until = Instant::now() + retry_max.min(request_timeout);
        loop {
            let errors = self.verify_once(producer, partitions, support).await;
            // The transaction before has its markers written at this moment.
            let is_early = errors.values().any(|error| *error == ErrorCode::CONCURRENT_TRANSACTIONS);
            if !is_early || support != TransactionSupport::AddsPartitions || Instant::now() >= retry_until {
                return errors;
            }
            sleep(backoff).await;
        }
    }

    async fn verify_once(
        self: &Arc<Self>,
        producer: &TransactionalProducer,
        partitions: &[(Arc<str>, i32)],
        support: TransactionSupport,
    ) -> BTreeMap<(String, i32), ErrorCode> {
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in partitions {
            topics.entry(topic).or_default().push(*partition);
        }
        let topics = topics.into_iter();
        let asked = AddPartitionsToTxnTransaction {
            transactional_id: producer.transactional_id.clone(),
            producer_id: producer.producer_id,
            producer_epoch: producer.producer_epoch,
            verify_only: support != TransactionSupport::AddsPartitions,
            topics: topics
                .map(|(name, partitions)| AddPartitionsToTxnTopic { name: name.to_owned(), partitions })
                .collect(),
        };
        match self.ask(asked).await {
            Ok(results) => errors(results, support),
            Err(error) => partitions.iter().map(|(topic, index)| ((topic.to_string(), *index), error)).collect(),
        }
    }

    async fn ask(self: &Arc<Self>, asked: AddPartitionsToTxnTransaction) -> Answer {
        let partition = self.transactions.partition_for(&asked.transactional_id);
        let leader =
            self.metadata.load().partition(TRANSACTION_STATE_TOPIC, partition).map(|partition| partition.leader);
        let node_id = leader.filter(|leader| *leader != NO_LEADER).ok_or(ErrorCode::COORDINATOR_NOT_AVAILABLE)?;
        let (answer, answered) = oneshot::channel();
        self.push(node_id, Question { asked, answer })?;
        answered.await.unwrap_or(Err(ErrorCode::NETWORK_EXCEPTION))
    }

    /// Has a question asked with the next request to a coordinator.
    fn push(self: &Arc<Self>, node_id: i32, question: Question) -> Result<(), ErrorCode> {
        let mut waiting = self.waiting.lock();
        let is_asking = waiting.contains_key(&node_id);
        match waiting.entry(node_id).or_default().entry(question.asked.transactional_id.clone()) {
            Entry::Vacant(place) => _ = place.insert(question),
            Entry::Occupied(mut place) => {
                let (earlier, later) = (place.get().asked.producer_epoch, question.asked.producer_epoch);
                if later < earlier {
                    return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
                }
                let error =
                    if later > earlier { ErrorCode::INVALID_PRODUCER_EPOCH } else { ErrorCode::NETWORK_EXCEPTION };
                // Who asked may have gone.
                _ = place.insert(question).answer.send(Err(error));
            }
        }
        drop(waiting);
        if !is_asking {
            tokio::spawn(Arc::clone(self).send_to(node_id));
        }
        Ok(())
    }

    /// Asks a coordinator as long as there are questions for it.
    async fn send_to(self: Arc<Self>, node_id: i32) {
        loop {
            let questions = {
                let mut waiting = self.waiting.lock();
                let questions = waiting.get_mut(&node_id).map(std::mem::take).unwrap_or_default();
                if questions.is_empty() {
                    waiting.remove(&node_id);
                    return;
                }
                questions
            };
            let mut senders = BTreeMap::new();
            let mut transactions = Vec::with_capacity(questions.len());
            for (transactional_id, Question { asked, answer }) in questions {
                senders.insert(transactional_id, answer);
                transactions.push(asked);
            }
            let request = AddPartitionsToTxnRequest { transactions, ..Default::default() };
            let response = bounded(self.timeout, Arc::clone(&self).request(node_id, request)).await;
            distribute(response, senders);
        }
    }

    async fn request(
        self: Arc<Self>,
        node_id: i32,
        request: AddPartitionsToTxnRequest,
    ) -> Result<AddPartitionsToTxnResponse, ErrorCode> {
        if node_id == self.node_id {
            return Ok(self.transactions.add_partitions_batch(request).await);
        }
        self.peers.ask(node_id, Lane::Verifications, &request).await
    }
}

/// An answer, or NETWORK_EXCEPTION if there is none in time or what should give it panics. That runs in a task of its
/// own, so that the caller goes on.
async fn bounded<T: Send + 'static>(
    limit: Duration,
    asking: impl Future<Output = Result<T, ErrorCode>> + Send + 'static,
) -> Result<T, ErrorCode> {
    let mut asking = tokio::spawn(asking);
    match timeout(limit, &mut asking).await {
        Ok(answer) => answer.unwrap_or(Err(ErrorCode::NETWORK_EXCEPTION)),
        Err(_) => {
            asking.abort();
            Err(ErrorCode::NETWORK_EXCEPTION)
        }
    }
}

fn distribute(
    response: Result<AddPartitionsToTxnResponse, ErrorCode>,
    mut senders: BTreeMap<String, oneshot::Sender<Answer>>,
) {
    let error = match response {
        Ok(response) if response.error_code.is_none() => {
            for result in response.results_by_transaction {
                if let Some(sender) = senders.remove(&result.transactional_id) {
                    _ = sender.send(Ok(result.topic_results));
                }
            }
            ErrorCode::UNKNOWN_SERVER_ERROR
        }
        // This broker is none of the cluster, in the eyes of the other.
        Ok(refused) if refused.error_code == ErrorCode::CLUSTER_AUTHORIZATION_FAILED => ErrorCode::INVALID_TXN_STATE,
        Ok(refused) => refused.error_code,
        Err(error) => error,
    };
    for sender in senders.into_values() {
        _ = sender.send(Err(error));
    }
}

fn errors(
    results: Vec<AddPartitionsToTxnTopicResult>,
    support: TransactionSupport,
) -> BTreeMap<(String, i32), ErrorCode> {
    let mut errors = BTreeMap::new();
    for topic in results {
        for result in topic.results_by_partition.iter().filter(|result| !result.partition_error_code.is_none()) {
            let error = as_known(result.partition_error_code, support);
            errors.insert((topic.name.clone(), result.partition_index), error);
        }
    }
    errors
}

/// Producers that verify know no fenced producer and, the oldest, no transaction that has to be aborted.
fn as_known(error: ErrorCode, support: TransactionSupport) -> ErrorCode {
    match error {
        ErrorCode::PRODUCER_FENCED => ErrorCode::INVALID_PRODUCER_EPOCH,
        ErrorCode::TRANSACTION_ABORTABLE if support == TransactionSupport::Verifies => ErrorCode::INVALID_TXN_STATE,
        error => error,
    }
}
