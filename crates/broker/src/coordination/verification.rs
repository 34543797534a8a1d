//! Asks the coordinators of transactions about partitions that producers begin to write to
//! (`AddPartitionsToTxnManager`, KIP-890): whether the partition belongs to the transaction, or to add it.
//!
//! One request at a time is on its way to a coordinator, for all that have come meanwhile. Of a transactional id one
//! question waits: a producer of a newer epoch has fenced the one before, and one of the same epoch asks again because
//! it has given up the first. Every question has an answer in time: also where the coordinator has none, and where
//! asking it panics.

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

/// How long the first pause is before the coordinator is asked again about a transaction whose predecessor is being
/// ended. Most take a few milliseconds, and a producer that commits often waits for each.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

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
    /// What a request says of its producer by its version: since `abortable_since` it knows TRANSACTION_ABORTABLE,
    /// since `adds_partitions_since` it leaves it to brokers to add partitions.
    pub(crate) fn of_version(version: i16, abortable_since: i16, adds_partitions_since: i16) -> Self {
        if version >= adds_partitions_since {
            Self::AddsPartitions
        } else if version >= abortable_since {
            Self::VerifiesAbortable
        } else {
            Self::Verifies
        }
    }

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
        if storage::injected_fault!(VerificationSkipped) {
            return BTreeMap::new();
        }
        let config = self.config.load();
        let backoff = Duration::from_millis(config.add_partitions_to_txn_retry_backoff_ms.unsigned_abs().into());
        let retry_max = Duration::from_millis(config.add_partitions_to_txn_retry_backoff_max_ms.unsigned_abs().into());
        let request_timeout = Duration::from_millis(config.request_timeout_ms.unsigned_abs().into());
        drop(config);
        let retry_until = Instant::now() + retry_max.min(request_timeout);
        let mut pause = FIRST_PAUSE.min(backoff);
        loop {
            let errors = self.verify_once(producer, partitions, support).await;
            // The transaction before has its markers written at this moment.
            let is_early = errors.values().any(|error| *error == ErrorCode::CONCURRENT_TRANSACTIONS);
            if !is_early || support != TransactionSupport::AddsPartitions || Instant::now() >= retry_until {
                return errors;
            }
            sleep(pause).await;
            pause = (2 * pause).min(backoff);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::future::pending;
    use std::net::IpAddr;

    use tokio::net::TcpListener;
    use tokio::task::yield_now;
    use wire::Uuid;
    use wire::api::add_partitions_to_txn::{AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult};
    use wire::api::end_txn::EndTxnRequest;
    use wire::api::init_producer_id::InitProducerIdRequest;
    use wire::state::metadata::{BrokerEndpoint, PartitionChangeRecord, RegisterBrokerRecord};

    use super::*;
    use crate::api::test_support::{NODE_ID, TestBroker, led_by, registration};

    const OTHER: i32 = NODE_ID + 1;
    const TOPIC_ID: Uuid = Uuid([7; 16]);

    fn producer(transactional_id: &str, producer_id: i64, producer_epoch: i16) -> TransactionalProducer {
        TransactionalProducer { transactional_id: transactional_id.to_owned(), producer_id, producer_epoch }
    }

    /// Another broker, which coordinates all transactions and never answers.
    async fn silent_coordinator(broker: &TestBroker) -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (host, port) = (address.ip().to_string(), address.port());
        let name = broker.config().inter_broker_listener();
        let end_point = BrokerEndpoint { name, host, port, security_protocol: 0 };
        let other = RegisterBrokerRecord { end_points: vec![end_point], ..registration(OTHER) };
        broker.commit([other.into()]).await;
        broker.create(TRANSACTION_STATE_TOPIC, Uuid([14; 16]), &[led_by(OTHER, &[OTHER])]).await;
        listener
    }

    /// The ids whose questions wait for the request under way. `None` if there is none.
    fn waiting(broker: &TestBroker) -> Option<BTreeSet<String>> {
        broker.verifier.waiting.lock().get(&OTHER).map(|questions| questions.keys().cloned().collect())
    }

    /// Asks about a partition in a task, and returns when the question waits for an answer.
    async fn ask(broker: &TestBroker, producer: TransactionalProducer) -> tokio::task::JoinHandle<Option<ErrorCode>> {
        let verifier = Arc::clone(&broker.verifier);
        let asking = tokio::spawn(async move {
            let partitions = [(Arc::from("t"), 0)];
            let errors = verifier.verify(&producer, &partitions, TransactionSupport::AddsPartitions).await;
            errors.into_values().next()
        });
        for _ in 0..10 {
            yield_now().await;
        }
        asking
    }

    #[tokio::test]
    async fn of_a_transactional_id_one_question_waits() {
        let broker = TestBroker::start().await;
        let _silent = silent_coordinator(&broker).await;
        let under_way = ask(&broker, producer("a", 7, 3)).await;
        assert_eq!(waiting(&broker), Some(BTreeSet::new()), "it is on its way");
        let first = ask(&broker, producer("a", 7, 3)).await;
        let another = ask(&broker, producer("b", 8, 0)).await;
        assert_eq!(waiting(&broker), Some(["a", "b"].map(str::to_owned).into()));
        let repeated = ask(&broker, producer("a", 7, 3)).await;
        assert_eq!(first.await.unwrap(), Some(ErrorCode::NETWORK_EXCEPTION), "the same epoch asks again");
        let newer = ask(&broker, producer("a", 7, 4)).await;
        assert_eq!(repeated.await.unwrap(), Some(ErrorCode::INVALID_PRODUCER_EPOCH), "a newer epoch has come");
        let older = ask(&broker, producer("a", 7, 3)).await;
        assert_eq!(older.await.unwrap(), Some(ErrorCode::INVALID_PRODUCER_EPOCH), "a newer epoch waits");
        assert!(!under_way.is_finished() && !newer.is_finished() && !another.is_finished());
    }

    #[tokio::test]
    async fn a_coordinator_that_never_answers_leaves_no_question_open() {
        let broker = TestBroker::start().await;
        let _silent = silent_coordinator(&broker).await;
        let under_way = ask(&broker, producer("a", 7, 3)).await;
        let next = ask(&broker, producer("b", 8, 0)).await;
        for asked in [under_way, next] {
            let answered = timeout(Duration::from_secs(20), asked).await.expect("it is answered");
            assert_eq!(answered.unwrap(), Some(ErrorCode::NETWORK_EXCEPTION));
        }
        while waiting(&broker).is_some() {
            yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_panics_or_does_not_end_is_answered() {
        async fn panics() -> Result<(), ErrorCode> {
            panic!("a mistake of the program")
        }
        let limit = Duration::from_secs(1);
        assert_eq!(bounded(limit, async { Ok(1) }).await, Ok(1));
        assert_eq!(
            bounded(limit, async { Err::<(), _>(ErrorCode::NOT_COORDINATOR) }).await,
            Err(ErrorCode::NOT_COORDINATOR)
        );
        assert_eq!(bounded(limit, panics()).await, Err(ErrorCode::NETWORK_EXCEPTION));
        assert_eq!(bounded(limit, pending::<Result<(), _>>()).await, Err(ErrorCode::NETWORK_EXCEPTION));
    }

    #[tokio::test]
    async fn without_a_coordinator_it_is_not_available() {
        let broker = TestBroker::start().await;
        let asked = ask(&broker, producer("a", 7, 0)).await;
        assert_eq!(asked.await.unwrap(), Some(ErrorCode::COORDINATOR_NOT_AVAILABLE));
        broker.create(TRANSACTION_STATE_TOPIC, Uuid([14; 16]), &[led_by(NO_LEADER, &[NODE_ID])]).await;
        let asked = ask(&broker, producer("a", 7, 0)).await;
        assert_eq!(asked.await.unwrap(), Some(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    }

    #[test]
    fn each_question_gets_its_own_answer() {
        let ask = || -> (BTreeMap<String, oneshot::Sender<Answer>>, Vec<oneshot::Receiver<Answer>>) {
            let channels = ["a", "b"].map(|id| (id.to_owned(), oneshot::channel()));
            let (mut senders, mut receivers) = (BTreeMap::new(), Vec::new());
            for (id, (sender, receiver)) in channels {
                senders.insert(id, sender);
                receivers.push(receiver);
            }
            (senders, receivers)
        };
        let answers = |response| {
            let (senders, mut receivers) = ask();
            distribute(response, senders);
            [receivers[0].try_recv().unwrap(), receivers[1].try_recv().unwrap()]
        };
        let of_topic = vec![AddPartitionsToTxnTopicResult { name: "t".to_owned(), ..Default::default() }];
        let result = AddPartitionsToTxnResult { transactional_id: "b".to_owned(), topic_results: of_topic.clone() };
        let response = AddPartitionsToTxnResponse { results_by_transaction: vec![result], ..Default::default() };
        // The other was forgotten.
        assert_eq!(answers(Ok(response)), [Err(ErrorCode::UNKNOWN_SERVER_ERROR), Ok(of_topic)]);
        for (error_code, expected) in [
            (ErrorCode::CLUSTER_AUTHORIZATION_FAILED, ErrorCode::INVALID_TXN_STATE),
            (ErrorCode::NOT_COORDINATOR, ErrorCode::NOT_COORDINATOR),
        ] {
            let response = AddPartitionsToTxnResponse { error_code, ..Default::default() };
            assert_eq!(answers(Ok(response)), [Err(expected), Err(expected)]);
        }
        let error = ErrorCode::NETWORK_EXCEPTION;
        assert_eq!(answers(Err(error)), [Err(error), Err(error)]);
    }

    #[test]
    fn producers_are_told_errors_that_they_know() {
        let codes = [
            ErrorCode::NONE,
            ErrorCode::PRODUCER_FENCED,
            ErrorCode::TRANSACTION_ABORTABLE,
            ErrorCode::INVALID_PRODUCER_ID_MAPPING,
        ];
        let results_by_partition = (0..).zip(codes).map(|(partition_index, partition_error_code)| {
            AddPartitionsToTxnPartitionResult { partition_index, partition_error_code }
        });
        let results_by_partition = results_by_partition.collect();
        let results = vec![AddPartitionsToTxnTopicResult { name: "t".to_owned(), results_by_partition }];
        for (support, abortable) in [
            (TransactionSupport::Verifies, ErrorCode::INVALID_TXN_STATE),
            (TransactionSupport::VerifiesAbortable, ErrorCode::TRANSACTION_ABORTABLE),
            (TransactionSupport::AddsPartitions, ErrorCode::TRANSACTION_ABORTABLE),
        ] {
            let told = [(1, ErrorCode::INVALID_PRODUCER_EPOCH), (2, abortable), (3, codes[3])];
            let told = told.map(|(partition, code)| (("t".to_owned(), partition), code));
            assert_eq!(errors(results.clone(), support), told.into(), "{support:?}");
        }
    }

    /// A transaction that is decided, and whose marker waits for a leader of its partition. Returns its producer in the
    /// epoch of the next.
    async fn ending_transaction(broker: &TestBroker) -> TransactionalProducer {
        broker.create(TRANSACTION_STATE_TOPIC, Uuid([14; 16]), &[led_by(NODE_ID, &[NODE_ID])]).await;
        let without_leader = led_by(NO_LEADER, &[NODE_ID]);
        broker.create("t", TOPIC_ID, &[without_leader]).await;
        let init = InitProducerIdRequest {
            transactional_id: Some("a".to_owned()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let initialized = loop {
            let host = IpAddr::from([127, 0, 0, 1]);
            let initialized = broker.transactions.init_producer_id(5, host, init.clone()).await;
            match initialized.error_code {
                ErrorCode::COORDINATOR_LOAD_IN_PROGRESS | ErrorCode::NOT_COORDINATOR => yield_now().await,
                code => {
                    assert_eq!(code, ErrorCode::NONE);
                    break initialized;
                }
            }
        };
        let (producer_id, producer_epoch) = (initialized.producer_id, initialized.producer_epoch);
        let first = producer("a", producer_id, producer_epoch);
        let partitions = [(Arc::from("t"), 0)];
        let added = broker.verifier.verify(&first, &partitions, TransactionSupport::AddsPartitions).await;
        assert_eq!(added, BTreeMap::new());
        let verified = broker.verifier.verify(&first, &partitions, TransactionSupport::Verifies).await;
        assert_eq!(verified, BTreeMap::new());
        let end = EndTxnRequest { transactional_id: "a".to_owned(), producer_id, producer_epoch, committed: true };
        let ended = broker.transactions.end_txn(5, end).await;
        assert_eq!(ended.error_code, ErrorCode::NONE);
        producer("a", ended.producer_id, ended.producer_epoch)
    }

    #[tokio::test]
    async fn while_the_transaction_before_ends_the_next_one_waits() {
        let broker = TestBroker::start_with(&[("add.partitions.to.txn.retry.backoff.max.ms", "20000")]).await;
        let next = ending_transaction(&broker).await;
        let adding = ask(&broker, next).await;
        sleep(Duration::from_millis(100)).await;
        assert!(!adding.is_finished(), "it is asked again");
        let change =
            PartitionChangeRecord { partition_id: 0, topic_id: TOPIC_ID, leader: NODE_ID, ..Default::default() };
        broker.commit([change.into()]).await;
        assert_eq!(adding.await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_transaction_that_ends_for_too_long_is_left_to_the_producer() {
        let broker = TestBroker::start_with(&[("add.partitions.to.txn.retry.backoff.max.ms", "50")]).await;
        let next = ending_transaction(&broker).await;
        let adding = ask(&broker, next.clone()).await;
        assert!(!adding.is_finished(), "it is asked again");
        assert_eq!(adding.await.unwrap(), Some(ErrorCode::CONCURRENT_TRANSACTIONS));
        // Those of older producers are not tried again here.
        let partitions = [(Arc::from("t"), 0)];
        let verified = broker.verifier.verify(&next, &partitions, TransactionSupport::Verifies);
        let errors = timeout(Duration::from_millis(50), verified).await.expect("it is answered at once");
        assert_eq!(errors.into_values().collect::<Vec<_>>(), [ErrorCode::CONCURRENT_TRANSACTIONS]);
    }
}
