//! A transactional producer, and a consumer, for tests of the handlers: they ask the handlers what clients ask.
//!
//! What a client tries again while the transaction before is being ended is tried again here, too.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use coordinator::txn::TRANSACTION_STATE_TOPIC;
use platform::Env;
use tokio::task::yield_now;
use tokio::time::timeout;
use wire::api::add_offsets_to_txn::AddOffsetsToTxnRequest;
use wire::api::add_partitions_to_txn::{AddPartitionsToTxnRequest, AddPartitionsToTxnTopic};
use wire::api::end_txn::{EndTxnRequest, EndTxnResponse};
use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic, PartitionData};
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::api::produce::{PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData};
use wire::api::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::batch::{Batch, BatchBuilder, BatchHeader, Batches};
use wire::state::metadata::FeatureLevelRecord;
use wire::{ErrorCode, Records, Uuid, frame};

use super::produce::PendingProduce;
use super::test_support::{NODE_ID, TestBroker, context, led_by};
use super::{
    Call, add_offsets_to_txn, add_partitions_to_txn, end_txn, fetch, find_coordinator, init_producer_id, offset_fetch,
    produce, txn_offset_commit,
};
use crate::partition::PendingCommits;

pub(super) const TOPIC: &str = "t";
pub(super) const GROUP: &str = "g";
const TOPIC_ID: Uuid = Uuid([7; 16]);

/// The newest versions of the requests of a producer.
#[derive(Clone, Copy)]
pub(super) struct Versions {
    pub(super) produce: i16,
    pub(super) txn_offset_commit: i16,
    pub(super) end_txn: i16,
}

/// For one that adds partitions itself.
pub(super) const V1: Versions = Versions { produce: 11, txn_offset_commit: 4, end_txn: 4 };
/// For one whose partitions are added by brokers, and whose transactions have an epoch each.
pub(super) const V2: Versions = Versions { produce: 12, txn_offset_commit: 5, end_txn: 5 };

/// A broker that leads both partitions of [`TOPIC`], and coordinates groups and transactions. The latter are of a
/// finalized version.
pub(super) async fn start(transaction_version: i16) -> TestBroker {
    start_with(transaction_version, &[]).await
}

pub(super) async fn start_with(transaction_version: i16, settings: &[(&str, &str)]) -> TestBroker {
    let settings = [settings, &[("transaction.state.log.num.partitions", "1")]].concat();
    let broker = TestBroker::start_with(&settings).await;
    if transaction_version > 0 {
        let name = "transaction.version".to_owned();
        broker.commit([FeatureLevelRecord { name, feature_level: transaction_version }.into()]).await;
    }
    broker.create(TOPIC, TOPIC_ID, &[led_by(NODE_ID, &[NODE_ID]), led_by(NODE_ID, &[NODE_ID])]).await;
    broker.serve_groups().await;
    let coordinator_keys = vec!["id".to_owned()];
    let request = FindCoordinatorRequest { coordinator_keys, key_type: 1, ..Default::default() };
    let found = find_coordinator::handle(&broker, &context(6), request).await;
    assert_eq!((found.coordinators[0].error_code, found.coordinators[0].node_id), (ErrorCode::NONE, NODE_ID));
    assert!(broker.metadata.load().topic(TRANSACTION_STATE_TOPIC).is_some());
    broker
}

/// A transactional id as its producer knows it.
#[derive(Clone)]
pub(super) struct TestProducer<'a> {
    broker: &'a TestBroker,
    versions: Versions,
    pub(super) transactional_id: &'static str,
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    /// The next of each partition.
    sequences: BTreeMap<i32, i32>,
}

impl<'a> TestProducer<'a> {
    /// Fences whoever has the id.
    pub(super) async fn init(broker: &'a TestBroker, transactional_id: &'static str, versions: Versions) -> Self {
        let request = InitProducerIdRequest {
            transactional_id: Some(transactional_id.to_owned()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let answer = loop {
            let answer = init_producer_id(broker, 5, request.clone()).await;
            // It has no partition before the coordinator has read it.
            if ![CONC, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS].contains(&answer.error_code) {
                break answer;
            }
            yield_now().await;
        };
        assert_eq!(answer.error_code, ErrorCode::NONE);
        let (producer_id, producer_epoch) = (answer.producer_id, answer.producer_epoch);
        Self { broker, versions, transactional_id, producer_id, producer_epoch, sequences: BTreeMap::new() }
    }

    pub(super) async fn add(&self, partitions: &[i32]) -> ErrorCode {
        loop {
            let request = self.add_request(TOPIC, partitions);
            let answer = add_partitions_to_txn::handle(self.broker, &context(3), request).await;
            let code = answer.results_by_topic[0].results_by_partition[0].partition_error_code;
            if code != CONC {
                return code;
            }
            yield_now().await;
        }
    }

    pub(super) fn add_request(&self, topic: &str, partitions: &[i32]) -> AddPartitionsToTxnRequest {
        AddPartitionsToTxnRequest {
            transactional_id: self.transactional_id.to_owned(),
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            topics: vec![AddPartitionsToTxnTopic { name: topic.to_owned(), partitions: partitions.to_vec() }],
            ..Default::default()
        }
    }

    /// A transactional record, the next of its partition.
    pub(super) fn batch(&mut self, partition: i32) -> Batch {
        let sequence = self.sequences.entry(partition).or_default();
        *sequence += 1;
        batch_of(self.producer_id, self.producer_epoch, *sequence - 1, true)
    }

    pub(super) async fn produce(&mut self, partition: i32) -> ErrorCode {
        let request = produce_request(Some(self.transactional_id), &[(partition, self.batch(partition))]);
        loop {
            let code = produce_codes(self.broker, self.versions.produce, request.clone()).await[0];
            // With older versions it is NOT_ENOUGH_REPLICAS, and does not happen: their partitions were added.
            if code != CONC {
                return code;
            }
            yield_now().await;
        }
    }

    pub(super) async fn end(&mut self, committed: bool) -> ErrorCode {
        let answer = self.end_in(self.versions.end_txn, committed).await;
        if answer.error_code.is_none() && self.versions.end_txn >= V2.end_txn {
            (self.producer_id, self.producer_epoch) = (answer.producer_id, answer.producer_epoch);
            self.sequences.clear();
        }
        answer.error_code
    }

    pub(super) async fn end_in(&self, version: i16, committed: bool) -> EndTxnResponse {
        let request = EndTxnRequest {
            transactional_id: self.transactional_id.to_owned(),
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            committed,
        };
        end_txn::handle(self.broker, &context(version), request).await
    }

    pub(super) async fn add_offsets(&self) -> ErrorCode {
        let request = AddOffsetsToTxnRequest {
            transactional_id: self.transactional_id.to_owned(),
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            group_id: GROUP.to_owned(),
        };
        loop {
            let code = add_offsets_to_txn::handle(self.broker, &context(4), request.clone()).await.error_code;
            if code != CONC {
                return code;
            }
            yield_now().await;
        }
    }

    /// Commits an offset of partition 0 for [`GROUP`].
    pub(super) async fn commit_offset(&self, committed_offset: i64) -> ErrorCode {
        loop {
            let code = self.commit_offset_in(self.versions.txn_offset_commit, committed_offset).await;
            if code != CONC {
                return code;
            }
            yield_now().await;
        }
    }

    pub(super) async fn commit_offset_in(&self, version: i16, committed_offset: i64) -> ErrorCode {
        let partition = TxnOffsetCommitRequestPartition { committed_offset, ..Default::default() };
        let request = TxnOffsetCommitRequest {
            transactional_id: self.transactional_id.to_owned(),
            group_id: GROUP.to_owned(),
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            topics: vec![TxnOffsetCommitRequestTopic { name: TOPIC.to_owned(), partitions: vec![partition] }],
            ..Default::default()
        };
        let answer = txn_offset_commit::handle(self.broker, &context(version), request).await;
        answer.topics[0].partitions[0].error_code
    }
}

const CONC: ErrorCode = ErrorCode::CONCURRENT_TRANSACTIONS;

pub(super) async fn init_producer_id(
    broker: &TestBroker,
    version: i16,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    init_producer_id::handle(broker, &context(version), request).await
}

/// A record of an idempotent producer, which may be one of a transaction.
pub(super) fn batch_of(producer_id: i64, producer_epoch: i16, sequence: i32, is_transactional: bool) -> Batch {
    let mut builder = BatchBuilder::new().producer(producer_id, producer_epoch, sequence);
    if is_transactional {
        builder = builder.transactional();
    }
    // A record of long ago would have a segment of its own, apart from its marker.
    builder.push(Env::real().clock.now_ms(), None, Some(b"value"), &[]);
    builder.build()
}

pub(super) fn produce_request(transactional_id: Option<&str>, batches: &[(i32, Batch)]) -> ProduceRequest {
    let data = batches.iter().map(|(index, batch)| PartitionProduceData {
        index: *index,
        records: Some(Records::Inline(batch.bytes.clone())),
    });
    let topic = TopicProduceData { name: TOPIC.to_owned(), topic_id: TOPIC_ID, partition_data: data.collect() };
    ProduceRequest {
        transactional_id: transactional_id.map(str::to_owned),
        acks: -1,
        timeout_ms: 60_000,
        topic_data: vec![topic],
    }
}

/// Starts a Produce, as the connection does.
pub(super) fn start_produce(broker: &TestBroker, version: i16, request: ProduceRequest) -> PendingProduce {
    let mut commits = PendingCommits::default();
    let call = Call { correlation_id: 1, context: context(version) };
    let pending = produce::start(broker, call, request, &mut commits);
    commits.commit();
    pending
}

/// The answer to it, in its version.
pub(super) async fn produced(version: i16, pending: &mut PendingProduce) -> Vec<ErrorCode> {
    let frame = poll_fn(|cx| pending.poll(cx)).await.expect("it is answered").into_bytes();
    let answer: ProduceResponse =
        frame::read_response::<ProduceRequest>(&frame.slice(4..), version).expect("it is of its version").1;
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
    partitions.map(|partition| partition.error_code).collect()
}

pub(super) async fn produce_codes(broker: &TestBroker, version: i16, request: ProduceRequest) -> Vec<ErrorCode> {
    produced(version, &mut start_produce(broker, version, request)).await
}

/// What a consumer gets of a partition. With `waits` it is answered when there is something.
pub(super) async fn consume(
    broker: &TestBroker,
    isolation_level: i8,
    partition: i32,
    fetch_offset: i64,
    waits: bool,
) -> PartitionData {
    const VERSION: i16 = 12;
    let asked = FetchPartition { partition, fetch_offset, partition_max_bytes: 1 << 20, ..Default::default() };
    let topics = vec![FetchTopic { topic: TOPIC.to_owned(), topic_id: TOPIC_ID, partitions: vec![asked] }];
    let (min_bytes, max_wait_ms) = if waits { (1, i32::MAX) } else { (0, 0) };
    let request =
        FetchRequest { topics, max_bytes: 1 << 20, isolation_level, min_bytes, max_wait_ms, ..Default::default() };
    let call = Call { correlation_id: 1, context: context(VERSION) };
    let frame = fetch::answer(Arc::clone(broker), call, request).await.expect("it is answered").into_bytes();
    let answer = frame::read_response::<FetchRequest>(&frame.slice(4..), VERSION).expect("it is of its version").1;
    answer.responses[0].partitions[0].clone()
}

/// Waits until the marker at an offset, and all before it, can be read by committed readers.
pub(super) async fn wait_for_marker(broker: &TestBroker, partition: i32, offset: i64) {
    // Much longer than that takes, and shorter than a fetch waits that nobody wakes.
    let told = timeout(Duration::from_secs(60), consume(broker, 1, partition, offset, true)).await;
    let told = told.expect("the marker wakes the fetch");
    assert!(told.last_stable_offset > offset, "{told:?}");
}

/// The headers of the batches that came.
pub(super) fn headers(data: &PartitionData) -> Vec<BatchHeader> {
    let Some(Records::Inline(bytes)) = &data.records else { return Vec::new() };
    Batches::new(bytes.clone()).map(|batch| batch.expect("it is whole").header).collect()
}

/// The offset of partition 0 that [`GROUP`] has, and the error instead.
pub(super) async fn committed_offset(broker: &TestBroker, require_stable: bool) -> (i64, ErrorCode) {
    let topic = OffsetFetchRequestTopics { name: TOPIC.to_owned(), partition_indexes: vec![0], ..Default::default() };
    let group = OffsetFetchRequestGroup { group_id: GROUP.to_owned(), topics: Some(vec![topic]), ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![group], require_stable, ..Default::default() };
    let answer = offset_fetch::handle(broker, &context(9), request).await;
    let partition = &answer.groups[0].topics[0].partitions[0];
    (partition.committed_offset, partition.error_code)
}

/// The same once no transaction may change it.
pub(super) async fn stable_offset(broker: &TestBroker) -> i64 {
    loop {
        let (offset, error) = committed_offset(broker, true).await;
        match error {
            ErrorCode::UNSTABLE_OFFSET_COMMIT => yield_now().await,
            error => {
                assert_eq!(error, ErrorCode::NONE);
                return offset;
            }
        }
    }
}
