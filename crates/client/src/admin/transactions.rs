//! What transactions there are, and ending one that its producer does not end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wire::ErrorCode;
use wire::api::describe_transactions::{DescribeTransactionsRequest, TransactionState};
use wire::api::list_transactions::{ListTransactionsRequest, ListTransactionsResponse};
use wire::api::write_txn_markers::{WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest};

use super::at_once;
use crate::client::{ByKey, Coordinated, Coordinator};
use crate::{Broker, Client, ClientError, Connection, TopicPartition, Transactions};

/// Since this version ListTransactions knows how long they run (KIP-994).
const LIST_BY_DURATION: i16 = 1;
/// Since this version ListTransactions takes a pattern (KIP-1152).
const LIST_BY_PATTERN: i16 = 2;
/// Of the producer that is announced to fence another; it begins no transaction.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Which transactions are wanted: all, without any of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// `Ongoing`, `PrepareAbort` and so on.
    pub states: Vec<String>,
    pub producer_ids: Vec<i64>,
    /// Only those that run for longer.
    pub duration_ms: Option<i64>,
    /// A regular expression of a whole transactional id.
    pub pattern: Option<String>,
}

/// The transactional ids of a cluster, as far as its brokers tell of them.
#[derive(Clone, Debug, Default)]
pub struct ListedTransactions {
    /// By transactional id.
    pub transactions: BTreeMap<String, ListedTransaction>,
    /// The brokers that do not tell of theirs, and why.
    pub errors: BTreeMap<i32, ClientError>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedTransaction {
    pub producer_id: i64,
    pub state: String,
    /// The broker that told of it.
    pub coordinator: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionDescription {
    pub coordinator: Broker,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub state: String,
    pub timeout_ms: i32,
    /// `None` where no transaction is open.
    pub start_ms: Option<i64>,
    /// Partitions that have no marker of the open transaction yet. Sorted.
    pub partitions: Vec<TopicPartition>,
}

/// A transaction as a partition knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortTarget {
    pub partition: TopicPartition,
    pub producer_id: i64,
    pub producer_epoch: i16,
    /// -1 where no coordinator has written a marker for the producer yet.
    pub coordinator_epoch: i32,
}

impl Client {
    /// The transactional ids of all brokers: each knows only those that it coordinates.
    pub async fn list_transactions(&self, filter: &TransactionFilter) -> Result<ListedTransactions, ClientError> {
        let asked = self.brokers().await?.into_keys().map(|id| {
            let (client, filter) = (self.clone(), filter.clone());
            (id, async move { client.transactions_of(id, &filter).await })
        });
        let mut listed = ListedTransactions::default();
        for (coordinator, answered) in at_once(asked).await {
            match answered {
                Ok(response) => listed.transactions.extend(response.transaction_states.into_iter().map(|one| {
                    let of_it =
                        ListedTransaction { producer_id: one.producer_id, state: one.transaction_state, coordinator };
                    (one.transactional_id, of_it)
                })),
                Err(error) => {
                    listed.errors.insert(coordinator, error);
                }
            }
        }
        Ok(listed)
    }

    async fn transactions_of(
        &self,
        broker: i32,
        filter: &TransactionFilter,
    ) -> Result<ListTransactionsResponse, ClientError> {
        let request = ListTransactionsRequest {
            state_filters: filter.states.clone(),
            producer_id_filters: filter.producer_ids.clone(),
            duration_filter: filter.duration_ms.unwrap_or(-1),
            transactional_id_pattern: filter.pattern.clone(),
        };
        let mut retry = self.retry();
        loop {
            check_filter(&self.broker(broker).await?, filter)?;
            let response = self.send_to(broker, &request).await?;
            if let Some(state) = response.unknown_state_filters.first() {
                return Err(ClientError::UnknownTransactionState { state: state.clone() });
            }
            let subject = || format!("the transactions of broker {broker}");
            let because = match response.error_code {
                ErrorCode::INVALID_REGULAR_EXPRESSION => Some("the pattern is no regular expression"),
                _ => None,
            };
            match ClientError::check(subject, response.error_code, because) {
                Ok(()) => return Ok(response),
                Err(error) => retry.wait(error).await?,
            }
        }
    }

    /// Transactional ids as their coordinators see them. One that does not exist is an error
    /// ([`ErrorCode::TRANSACTIONAL_ID_NOT_FOUND`]).
    pub async fn describe_transactions(&self, ids: &[String]) -> ByKey<TransactionDescription> {
        self.ask_coordinators(Coordinated::Transaction, ids, describe).await
    }

    /// Aborts a transaction in one partition, past its coordinator: for one that the coordinator knows nothing of any
    /// more. Where the coordinator does, [`Client::terminate_transaction`] aborts it in all of its partitions.
    pub async fn abort_transaction(&self, target: &AbortTarget) -> Result<(), ClientError> {
        let AbortTarget { partition, producer_id, producer_epoch, coordinator_epoch } = target;
        let topic =
            WritableTxnMarkerTopic { name: partition.topic.clone(), partition_indexes: vec![partition.partition] };
        let marker = WritableTxnMarker {
            producer_id: *producer_id,
            producer_epoch: *producer_epoch,
            transaction_result: false,
            topics: vec![topic],
            // The least that any coordinator has, where none is known (`TransactionsCommand`).
            coordinator_epoch: (*coordinator_epoch).max(0),
            // The marker has the epoch of the transaction, which only the check before KIP-890 lets pass.
            transaction_version: 0,
        };
        let request = WriteTxnMarkersRequest { markers: vec![marker] };
        let mut retry = self.retry();
        loop {
            let error = match self.write_markers(partition, &request).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            self.forget(&partition.topic);
            retry.wait(error).await?;
        }
    }

    async fn write_markers(
        &self,
        partition: &TopicPartition,
        request: &WriteTxnMarkersRequest,
    ) -> Result<(), ClientError> {
        let leader = self.describe(&[&partition.topic]).await?.leader(partition)?;
        let connection = self.broker(leader).await?;
        let response = connection.send(request).await?;
        let topics = response.markers.into_iter().flat_map(|marker| marker.topics);
        let answer = topics.flat_map(|topic| topic.partitions).next();
        let subject = || format!("cannot abort the transaction in {partition}");
        let missing = || ClientError::Missing { address: connection.address().to_owned(), subject: subject() };
        let code = answer.ok_or_else(missing)?.error_code;
        let because = match code {
            ErrorCode::INVALID_PRODUCER_EPOCH => Some("the producer has a newer epoch by now"),
            ErrorCode::TRANSACTION_COORDINATOR_FENCED => {
                Some("the partition has heard of a newer coordinator than --coordinator-epoch says")
            }
            _ => None,
        };
        ClientError::check(subject, code, because)
    }

    /// Has the coordinator abort the transaction of a transactional id, if one is open, and fences off its producer.
    /// The answer is the epoch that no producer has.
    pub async fn terminate_transaction(&self, id: &str) -> Result<(i64, i16), ClientError> {
        // A transactional id that does not exist would be made.
        let known = self.describe_transactions(&[id.to_owned()]).await.remove(id);
        known.unwrap_or_else(|| Err(not_found(id)))?;
        Ok(Transactions::init(self.clone(), id, TERMINATION_TIMEOUT).await?.producer())
    }
}

/// Fields that an older version has no place for would be left out, and the answer have more than was asked for.
fn check_filter(broker: &Connection, filter: &TransactionFilter) -> Result<(), ClientError> {
    let version = broker.version::<ListTransactionsRequest>()?;
    let too_old = |what, since| ClientError::TooOld { address: broker.address().to_owned(), what, since };
    if filter.duration_ms.is_some() && version < LIST_BY_DURATION {
        return Err(too_old("list transactions by their duration", "3.8"));
    }
    if filter.pattern.is_some() && version < LIST_BY_PATTERN {
        return Err(too_old("list transactions by a pattern", "4.1"));
    }
    Ok(())
}

async fn describe(coordinator: Coordinator, ids: Vec<String>) -> Result<ByKey<TransactionDescription>, ClientError> {
    let response = coordinator.connection.send(&DescribeTransactionsRequest { transactional_ids: ids }).await?;
    let described = response.transaction_states.into_iter().map(|one| {
        let id = one.transactional_id.clone();
        let described = match one.error_code {
            ErrorCode::TRANSACTIONAL_ID_NOT_FOUND => Err(not_found(&id)),
            code => ClientError::check(|| format!("transactional id {id}"), code, None),
        };
        (id, described.map(|()| TransactionDescription::new(one, coordinator.broker.clone())))
    });
    Ok(described.collect())
}

fn not_found(id: &str) -> ClientError {
    let code = ErrorCode::TRANSACTIONAL_ID_NOT_FOUND;
    let message = Some("it does not exist".to_owned());
    ClientError::Refused { subject: format!("transactional id {id}"), code, message }
}

impl TransactionDescription {
    fn new(described: TransactionState, coordinator: Broker) -> Self {
        let topics = described.topics.into_iter();
        let partitions: BTreeSet<_> = topics
            .flat_map(|topic| {
                let name = topic.topic;
                topic.partitions.into_iter().map(move |partition| TopicPartition::new(name.clone(), partition))
            })
            .collect();
        Self {
            coordinator,
            producer_id: described.producer_id,
            producer_epoch: described.producer_epoch,
            state: described.transaction_state,
            timeout_ms: described.transaction_timeout_ms,
            start_ms: Some(described.transaction_start_time_ms).filter(|start_ms| *start_ms >= 0),
            partitions: partitions.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use wire::api::describe_producers::{
        DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
    };
    use wire::api::describe_transactions::{DescribeTransactionsResponse, TopicData};
    use wire::api::find_coordinator::{Coordinator as Found, FindCoordinatorRequest, FindCoordinatorResponse};
    use wire::api::list_transactions::TransactionState as Listed;
    use wire::api::metadata::{MetadataResponsePartition, MetadataResponseTopic};

    use super::*;
    use crate::fake_cluster::{FakeCluster, Question};

    const FIND_COORDINATOR: (i16, i16) = (10, 4);
    const DESCRIBE_PRODUCERS: (i16, i16) = (61, 0);
    const DESCRIBE_TRANSACTIONS: (i16, i16) = (65, 0);
    const LIST_TRANSACTIONS: i16 = 66;
    const NOW_MS: i64 = 1_000_000;
    const IDLE_MS: i64 = 60_000;

    /// Transactional id `tN` is that of producer N, and broker N % 2 coordinates it.
    fn number(id: &str) -> i64 {
        id[1..].parse().unwrap()
    }

    fn coordinators(question: &Question) -> Option<BytesMut> {
        let request = question.read::<FindCoordinatorRequest>()?;
        assert_eq!(request.key_type, 1);
        let coordinators = request.coordinator_keys.into_iter().map(|key| {
            let broker = question.brokers[(number(&key) % 2) as usize].clone();
            Found { key, node_id: broker.node_id, host: broker.host, port: broker.port, ..Default::default() }
        });
        let response = FindCoordinatorResponse { coordinators: coordinators.collect(), ..Default::default() };
        question.answer::<FindCoordinatorRequest>(&response)
    }

    /// Partition 0 knows producers 1 to 5, all with an open transaction but the fourth; the fifth has just written.
    fn producers(question: &Question) -> Option<BytesMut> {
        let request = question.read::<DescribeProducersRequest>()?;
        let state = |producer_id| ProducerState {
            producer_id,
            current_txn_start_offset: if producer_id == 4 { -1 } else { 10 * producer_id },
            last_timestamp: if producer_id == 5 { NOW_MS - IDLE_MS } else { 0 },
            coordinator_epoch: -1,
            ..Default::default()
        };
        let partition = PartitionResponse { active_producers: (1..=5).map(state).collect(), ..Default::default() };
        let topics = request
            .topics
            .into_iter()
            .map(|topic| TopicResponse { name: topic.name, partitions: vec![partition.clone()] });
        question.answer::<DescribeProducersRequest>(&DescribeProducersResponse {
            topics: topics.collect(),
            ..Default::default()
        })
    }

    /// Of the open transactions, that of producer 1 is known with the partition, that of 2 with another one, and that
    /// of 3 not at all.
    fn transactions(question: &Question, failing: Option<i32>) -> Option<BytesMut> {
        if let Some(request) = question.read::<ListTransactionsRequest>() {
            assert_eq!(request.producer_id_filters, [1, 2, 3]);
            let id = if question.broker == 0 { 2 } else { 1 };
            let one = Listed { transactional_id: format!("t{id}"), producer_id: id, ..Default::default() };
            let error_code = match failing == Some(question.broker) {
                true => ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
                false => ErrorCode::NONE,
            };
            let response = ListTransactionsResponse { error_code, transaction_states: vec![one], ..Default::default() };
            return question.answer::<ListTransactionsRequest>(&response);
        }
        let request = question.read::<DescribeTransactionsRequest>()?;
        let states = request.transactional_ids.into_iter().map(|id| {
            let number = number(&id);
            assert_eq!(i64::from(question.broker), number % 2, "{id} is asked of another broker");
            let topics = vec![TopicData { topic: "t".to_owned(), partitions: vec![number as i32 - 1] }];
            let error_code = if number < 3 { ErrorCode::NONE } else { ErrorCode::TRANSACTIONAL_ID_NOT_FOUND };
            TransactionState {
                transactional_id: id,
                error_code,
                topics,
                transaction_start_time_ms: -1,
                ..Default::default()
            }
        });
        let response = DescribeTransactionsResponse { transaction_states: states.collect(), ..Default::default() };
        question.answer::<DescribeTransactionsRequest>(&response)
    }

    async fn cluster(failing: Option<i32>, list_version: i16) -> FakeCluster {
        let partition = MetadataResponsePartition { leader_id: 1, ..Default::default() };
        let topic =
            MetadataResponseTopic { name: Some("t".to_owned()), partitions: vec![partition], ..Default::default() };
        let versions = [FIND_COORDINATOR, DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, (LIST_TRANSACTIONS, list_version)];
        FakeCluster::start(2, vec![topic], &versions, move |question| {
            coordinators(question).or_else(|| producers(question)).or_else(|| transactions(question, failing))
        })
        .await
    }

    fn partition() -> BTreeSet<TopicPartition> {
        BTreeSet::from([TopicPartition::new("t", 0)])
    }

    #[tokio::test]
    async fn a_transaction_hangs_where_its_coordinator_does_not_have_it() {
        let client = cluster(None, 0).await.client();
        let found = client.find_hanging_transactions(&partition(), None, IDLE_MS, NOW_MS).await.unwrap();
        let hanging: Vec<_> = found.hanging.iter().map(|one| one.target().producer_id).collect();
        assert_eq!((hanging, found.errors.len()), (vec![2, 3], 0));
        assert_eq!(found.hanging[0].producer.transaction_start_offset, Some(20));
    }

    #[tokio::test]
    async fn nothing_hangs_by_the_silence_of_a_coordinator() {
        let client = cluster(Some(1), 0).await.client();
        let error = client.find_hanging_transactions(&partition(), None, IDLE_MS, NOW_MS).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::CLUSTER_AUTHORIZATION_FAILED));
    }

    #[tokio::test]
    async fn each_transactional_id_is_described_by_its_coordinator() {
        let client = cluster(None, 0).await.client();
        let described = client.describe_transactions(&["t1", "t2", "t3"].map(str::to_owned)).await;
        let codes: Vec<_> = described.values().map(|of| of.as_ref().err().and_then(ClientError::code)).collect();
        assert_eq!(codes, [None, None, Some(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND)]);
        let first = described["t1"].as_ref().unwrap();
        assert_eq!((first.coordinator.id, first.start_ms), (1, None));
        assert_eq!(first.partitions, [TopicPartition::new("t", 0)]);
    }

    #[tokio::test]
    async fn a_filter_that_an_old_broker_would_leave_out_is_an_error() {
        let client = cluster(None, 0).await.client();
        let by_duration = TransactionFilter { duration_ms: Some(5), ..TransactionFilter::default() };
        let by_pattern = TransactionFilter { pattern: Some("t.*".to_owned()), ..TransactionFilter::default() };
        for (filter, since) in [(by_duration, "3.8"), (by_pattern, "4.1")] {
            let listed = client.list_transactions(&filter).await.unwrap();
            assert!(listed.transactions.is_empty());
            assert_eq!(listed.errors.len(), 2);
            assert!(listed.errors.values().all(|error| error.to_string().ends_with(since)), "{:?}", listed.errors);
        }
    }
}
