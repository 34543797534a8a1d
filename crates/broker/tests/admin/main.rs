//! Topics, offsets, settings and the cluster as admin clients see them, over real sockets. What is expected is what
//! Apache Kafka 4.3.1 answered to the same requests, unless a test says otherwise.

#[path = "../common/mod.rs"]
mod common;

mod acls;
mod cluster;
mod configs;
mod control_plane;
mod features;
mod groups;
mod inter_broker;
mod metadata;
mod nodes;
mod offsets;
mod producers;
mod through_client;
mod topics;

use wire::api::create_topics::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::batch::{Batch, BatchBuilder};
use wire::{ErrorCode, Records, Uuid};

use common::TestClient;

/// A topic of a request to create it.
fn topic(name: &str, num_partitions: i32) -> CreatableTopic {
    CreatableTopic { name: name.to_owned(), num_partitions, replication_factor: 1, ..Default::default() }
}

fn with_config(mut topic: CreatableTopic, name: &str, value: Option<&str>) -> CreatableTopic {
    topic.configs.push(CreatableTopicConfig { name: name.to_owned(), value: value.map(str::to_owned) });
    topic
}

/// Creates topics, which must succeed, and returns their ids.
fn create(client: &mut TestClient, topics: &[CreatableTopic]) -> Vec<Uuid> {
    let request = CreateTopicsRequest { topics: topics.to_vec(), timeout_ms: 10_000, ..Default::default() };
    let response = client.ask(&request);
    assert_eq!(response.topics.len(), topics.len());
    let created = response.topics.into_iter().map(|topic| {
        assert_eq!(topic.error_code, ErrorCode::NONE, "{}: {:?}", topic.name, topic.error_message);
        topic.topic_id
    });
    created.collect()
}

/// A batch of records with these timestamps.
fn batch(timestamps: &[i64]) -> Batch {
    filled(BatchBuilder::new(), timestamps)
}

fn filled(mut builder: BatchBuilder, timestamps: &[i64]) -> Batch {
    for timestamp in timestamps {
        builder.push(*timestamp, None, Some(b"abc"), &[]);
    }
    builder.build()
}

/// Produces with acks=all and returns the error and the base offset.
fn produce(client: &mut TestClient, topic: &str, index: i32, batch: &Batch) -> (ErrorCode, i64) {
    let records = Some(Records::Inline(batch.bytes.clone()));
    let data = PartitionProduceData { index, records };
    let topic_data = TopicProduceData { name: topic.to_owned(), partition_data: vec![data], ..Default::default() };
    let request = ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data: vec![topic_data], ..Default::default() };
    let response = client.call(9, &request);
    let partition = &response.responses[0].partition_responses[0];
    (partition.error_code, partition.base_offset)
}
