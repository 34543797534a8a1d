//! Transactions as producers and consumers see them, over real sockets. What is expected is what Apache Kafka 4.3.1
//! answers to the same requests.

#[path = "../common/mod.rs"]
mod common;

mod committing;
mod consumer_offsets;
mod ending;
mod refusals;

use common::{TestBroker, TestClient};
use platform::Env;
use wire::api::add_offsets_to_txn::AddOffsetsToTxnRequest;
use wire::api::add_partitions_to_txn::{AddPartitionsToTxnRequest, AddPartitionsToTxnTopic};
use wire::api::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::api::end_txn::{EndTxnRequest, EndTxnResponse};
use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic, PartitionData};
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::batch::{Batch, BatchBuilder, Batches};
use wire::record::RecordReader;
use wire::{ErrorCode, Records};

const TOPIC: &str = "t";
const FETCH_VERSION: i16 = 12;
const READ_COMMITTED: i8 = 1;
const READ_UNCOMMITTED: i8 = 0;

/// The versions of requests with which a client shows how it takes part in transactions.
#[derive(Clone, Copy, Debug)]
struct Protocol {
    produce: i16,
    end_txn: i16,
    txn_offset_commit: i16,
}

/// librdkafka's.
const OLD: Protocol = Protocol { produce: 10, end_txn: 1, txn_offset_commit: 3 };
/// A Java client of Kafka 4 on a cluster with `transaction.version` below 2.
const VERSION_1: Protocol = Protocol { produce: 11, end_txn: 4, txn_offset_commit: 4 };
/// The same where each transaction has an epoch of its own (KIP-890).
const VERSION_2: Protocol = Protocol { produce: 12, end_txn: 5, txn_offset_commit: 5 };
const ALL: [Protocol; 3] = [OLD, VERSION_1, VERSION_2];

/// A broker with a topic of two partitions.
fn start(settings: &[(&str, &str)]) -> TestBroker {
    let quick = [("transaction.state.log.num.partitions", "1"), ("offsets.topic.num.partitions", "1")];
    let broker = TestBroker::start_with(&[&quick, settings].concat());
    let topic = CreatableTopic { name: TOPIC.into(), num_partitions: 2, replication_factor: 1, ..Default::default() };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    assert_eq!(broker.connect().ask(&request).topics[0].error_code, ErrorCode::NONE);
    broker
}

/// Asks again as long as the coordinator says that it is a matter of time.
fn ask_again(mut ask: impl FnMut() -> ErrorCode) -> ErrorCode {
    loop {
        match ask() {
            ErrorCode::CONCURRENT_TRANSACTIONS
            | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::NOT_ENOUGH_REPLICAS => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            error => return error,
        }
    }
}

/// A transactional producer.
#[derive(Clone, Debug)]
struct Producer {
    id: String,
    protocol: Protocol,
    producer_id: i64,
    epoch: i16,
    /// The next sequence in each of the topic's partitions.
    sequences: [i32; 2],
}

fn init(client: &mut TestClient, id: &str, transaction_timeout_ms: i32) -> InitProducerIdResponse {
    let mut response = InitProducerIdResponse::default();
    ask_again(|| {
        let transactional_id = Some(id.to_owned());
        let request =
            InitProducerIdRequest { transactional_id, transaction_timeout_ms, producer_id: -1, producer_epoch: -1 };
        response = client.ask(&request);
        response.error_code
    });
    response
}

fn find_coordinator(client: &mut TestClient, id: &str) {
    let request = FindCoordinatorRequest { key_type: 1, coordinator_keys: vec![id.to_owned()], ..Default::default() };
    assert_eq!(client.ask(&request).coordinators[0].error_code, ErrorCode::NONE);
}

impl Producer {
    /// A producer that is ready for its first transaction.
    fn start(client: &mut TestClient, id: &str, protocol: Protocol) -> Self {
        Self::start_with_timeout(client, id, protocol, 60_000)
    }

    fn start_with_timeout(client: &mut TestClient, id: &str, protocol: Protocol, timeout_ms: i32) -> Self {
        find_coordinator(client, id);
        let InitProducerIdResponse { error_code, producer_id, producer_epoch: epoch, .. } =
            init(client, id, timeout_ms);
        assert_eq!(error_code, ErrorCode::NONE);
        Self { id: id.to_owned(), protocol, producer_id, epoch, sequences: [0; 2] }
    }

    /// Whether brokers add partitions to its transactions.
    fn is_version_2(&self) -> bool {
        self.protocol.produce >= VERSION_2.produce
    }

    /// Has the coordinator add partitions of the topic.
    fn add(&self, client: &mut TestClient, partitions: &[i32]) -> ErrorCode {
        let topic = AddPartitionsToTxnTopic { name: TOPIC.into(), partitions: partitions.to_vec() };
        let request = AddPartitionsToTxnRequest {
            transactional_id: self.id.clone(),
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            topics: vec![topic],
            ..Default::default()
        };
        ask_again(|| client.call(3, &request).results_by_topic[0].results_by_partition[0].partition_error_code)
    }

    fn add_offsets(&self, client: &mut TestClient, group_id: &str) -> ErrorCode {
        let request = AddOffsetsToTxnRequest {
            transactional_id: self.id.clone(),
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            group_id: group_id.to_owned(),
        };
        ask_again(|| client.ask(&request).error_code)
    }

    /// Its next batch for a partition: one record for each value.
    fn batch(&self, partition: i32, values: &[&str]) -> Batch {
        let sequence = self.sequences[partition as usize];
        let mut builder = BatchBuilder::new().producer(self.producer_id, self.epoch, sequence).transactional();
        // As old as the markers, so that these begin no segment.
        let now_ms = Env::real().clock.now_ms();
        values.iter().for_each(|value| builder.push(now_ms, None, Some(value.as_bytes()), &[]));
        builder.build()
    }

    /// Sends records in its transaction, whose partitions it adds if that is left to it.
    fn write(&mut self, client: &mut TestClient, partition: i32, values: &[&str]) {
        if !self.is_version_2() {
            assert_eq!(self.add(client, &[partition]), ErrorCode::NONE);
        }
        assert_eq!(self.send(client, partition, values), ErrorCode::NONE);
    }

    /// Sends records, whether the partition was added or not.
    fn send(&mut self, client: &mut TestClient, partition: i32, values: &[&str]) -> ErrorCode {
        let batch = self.batch(partition, values);
        let error = ask_again(|| produce(client, self.protocol.produce, Some(&self.id), &[(partition, &batch)])[0]);
        if error == ErrorCode::NONE {
            self.sequences[partition as usize] += values.len() as i32;
        }
        error
    }

    fn end(&mut self, client: &mut TestClient, committed: bool) -> ErrorCode {
        let mut response = EndTxnResponse::default();
        ask_again(|| {
            let request = EndTxnRequest {
                transactional_id: self.id.clone(),
                producer_id: self.producer_id,
                producer_epoch: self.epoch,
                committed,
            };
            response = client.call(self.protocol.end_txn, &request);
            response.error_code
        });
        if response.error_code == ErrorCode::NONE && self.is_version_2() {
            assert_eq!((response.producer_id, response.producer_epoch), (self.producer_id, self.epoch + 1));
            (self.epoch, self.sequences) = (response.producer_epoch, [0; 2]);
        }
        response.error_code
    }
}

/// Produces a batch for each of these partitions, and returns their errors.
fn produce(
    client: &mut TestClient,
    version: i16,
    transactional_id: Option<&str>,
    batches: &[(i32, &Batch)],
) -> Vec<ErrorCode> {
    let data = batches.iter().map(|(index, batch)| {
        let records = Some(Records::Inline(batch.bytes.clone()));
        PartitionProduceData { index: *index, records }
    });
    let topic = TopicProduceData { name: TOPIC.into(), partition_data: data.collect(), ..Default::default() };
    let request = ProduceRequest {
        transactional_id: transactional_id.map(str::to_owned),
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![topic],
    };
    let response = client.call(version, &request);
    response.responses[0].partition_responses.iter().map(|partition| partition.error_code).collect()
}

fn fetch(client: &mut TestClient, partition: i32, isolation_level: i8) -> PartitionData {
    let asked = FetchPartition { partition, partition_max_bytes: 1 << 20, ..Default::default() };
    let topic = FetchTopic { topic: TOPIC.into(), partitions: vec![asked], ..Default::default() };
    let request = FetchRequest { max_bytes: 1 << 20, isolation_level, topics: vec![topic], ..Default::default() };
    client.call(FETCH_VERSION, &request).responses.remove(0).partitions.remove(0)
}

/// The records in an answer, by the ids of their producers; those of control batches are left out.
fn records(data: &PartitionData) -> Vec<(i64, String)> {
    let Some(Records::Inline(bytes)) = &data.records else { return Vec::new() };
    let mut values = Vec::new();
    for batch in Batches::new(bytes.clone()) {
        let batch = batch.expect("what is stored is whole");
        if batch.header.attributes.is_control() {
            continue;
        }
        let section = batch.records(1 << 20).expect("the records are well-formed");
        values.extend(RecordReader::new(&batch.header, &section).map(|record| {
            let value = record.expect("a record").value.expect("it has a value");
            (batch.header.producer_id, String::from_utf8_lossy(value).into_owned())
        }));
    }
    values
}

/// What a consumer reads from the start.
fn read(client: &mut TestClient, partition: i32, isolation_level: i8) -> Vec<String> {
    records(&fetch(client, partition, isolation_level)).into_iter().map(|(_, value)| value).collect()
}

/// Records by the ids of their producers, and the aborted transactions with the offsets where they begin.
type Committed = (Vec<(i64, String)>, Vec<(i64, i64)>);

/// The same, when nothing of the partition is in an open transaction any more: markers are written when their
/// transaction was answered.
fn read_when_stable(client: &mut TestClient, partition: i32) -> Committed {
    loop {
        let data = fetch(client, partition, READ_COMMITTED);
        assert_eq!(data.error_code, ErrorCode::NONE);
        if data.last_stable_offset == data.high_watermark {
            let aborted = data.aborted_transactions.as_ref().expect("a consumer of committed records is told");
            let aborted = aborted.iter().map(|aborted| (aborted.producer_id, aborted.first_offset)).collect();
            return (records(&data), aborted);
        }
    }
}
