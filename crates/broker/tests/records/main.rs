//! Produce and Fetch over real sockets: what is appended, acknowledged, read, refused, and what survives a restart.

#![allow(clippy::disallowed_methods)]

#[path = "../common/mod.rs"]
mod common;

mod bounds;
mod cold;
mod fetching;
mod large;
mod producing;
mod upkeep;

use wire::api::create_topics::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic, PartitionData};
use wire::api::produce::{PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData};
use wire::batch::{Batch, BatchBuilder, Batches};
use wire::{ErrorCode, Records};

use common::TestClient;

/// Names topics, so that no id has to be carried about.
const PRODUCE_VERSION: i16 = 12;
const FETCH_VERSION: i16 = 12;

/// Creates the topic `t`.
fn create(client: &mut TestClient, partitions: i32, configs: &[(&str, &str)]) {
    let configs = configs
        .iter()
        .map(|(name, value)| CreatableTopicConfig { name: (*name).to_owned(), value: Some((*value).to_owned()) });
    let topic = CreatableTopic {
        name: "t".to_owned(),
        num_partitions: partitions,
        replication_factor: 1,
        configs: configs.collect(),
        ..Default::default()
    };
    let response = client.ask(&CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() });
    assert_eq!(response.topics[0].error_code, ErrorCode::NONE, "{:?}", response.topics[0].error_message);
}

/// A batch of one record for each value.
fn batch(values: &[&str]) -> Batch {
    filled(BatchBuilder::new(), values)
}

fn filled(mut builder: BatchBuilder, values: &[&str]) -> Batch {
    for value in values {
        builder.push(1_700_000_000_000, Some(b"key"), Some(value.as_bytes()), &[]);
    }
    builder.build()
}

fn request(acks: i16, index: i32, batch: &Batch) -> ProduceRequest {
    let data = PartitionProduceData { index, records: Some(Records::Inline(batch.bytes.clone())) };
    let topic_data = TopicProduceData { name: "t".to_owned(), partition_data: vec![data], ..Default::default() };
    ProduceRequest { acks, timeout_ms: 10_000, topic_data: vec![topic_data], ..Default::default() }
}

fn send(client: &mut TestClient, acks: i16, batch: &Batch) {
    client.send(PRODUCE_VERSION, &request(acks, 0, batch));
}

fn answer(client: &mut TestClient) -> PartitionProduceResponse {
    client.receive::<ProduceRequest>(PRODUCE_VERSION).responses[0].partition_responses[0].clone()
}

/// Produces to partition 0 and returns the answer.
fn produce(client: &mut TestClient, acks: i16, batch: &Batch) -> PartitionProduceResponse {
    send(client, acks, batch);
    answer(client)
}

/// Error and base offset of a produce with acks=all.
fn append(client: &mut TestClient, batch: &Batch) -> (ErrorCode, i64) {
    let answer = produce(client, -1, batch);
    (answer.error_code, answer.base_offset)
}

fn fetch_request(offset: i64) -> FetchRequest {
    let partition =
        FetchPartition { partition: 0, fetch_offset: offset, partition_max_bytes: 1 << 20, ..Default::default() };
    let topic = FetchTopic { topic: "t".to_owned(), partitions: vec![partition], ..Default::default() };
    FetchRequest { replica_id: -1, min_bytes: 1, topics: vec![topic], session_epoch: -1, ..Default::default() }
}

/// Fetches partition 0 from an offset on, without waiting.
fn fetch(client: &mut TestClient, offset: i64) -> PartitionData {
    client.call(FETCH_VERSION, &fetch_request(offset)).responses[0].partitions[0].clone()
}

fn batches(data: &PartitionData) -> Vec<Batch> {
    let Some(Records::Inline(bytes)) = &data.records else { return Vec::new() };
    Batches::new(bytes.clone()).map(|batch| batch.expect("a stored batch is whole")).collect()
}

/// Offsets and values of all records from an offset on.
fn read(client: &mut TestClient, mut offset: i64) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    loop {
        let data = fetch(client, offset);
        assert_eq!(data.error_code, ErrorCode::NONE);
        let batches = batches(&data);
        let Some(last) = batches.last() else { return found };
        offset = last.header.next_offset();
        for batch in &batches {
            let section = batch.records(1 << 20).expect("the records are well-formed");
            for record in wire::record::RecordReader::new(&batch.header, &section) {
                let record = record.expect("the record is well-formed");
                found.push((record.offset, String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned()));
            }
        }
    }
}
