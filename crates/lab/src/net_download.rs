//! How fast brokers send: a topic with a partition on each of them is created, filled and fetched, and then deleted.
//!
//! No answer is large and costs a broker next to nothing but one with records that were just written: they are in its
//! page cache. What was given up on is deleted, too.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use client::{Client, ClientError, Connection, LATEST, TopicPartition};
use tokio::time::{Instant, sleep};
use wire::api::create_topics::{CreatableReplicaAssignment, CreatableTopic};
use wire::api::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use wire::api::produce::{PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData};
use wire::batch::BatchBuilder;
use wire::{ErrorCode, Records};

use crate::payload::{Payload, Sizes};
use crate::produce::PRODUCE_BY_TOPIC_ID;

/// From this version on Fetch names topics by id only (KIP-516).
const FETCH_BY_TOPIC_ID: i16 = 13;
const VALUE_BYTES: usize = 32 * 1024;
/// Half of what brokers take by default (`message.max.bytes`).
const BATCH_RECORDS: i64 = 16;
/// Some times what a processor caches.
const BATCHES: i64 = 64;
/// So many are in one answer.
const ANSWER_BATCHES: i64 = 8;
const IN_FLIGHT: usize = 4;
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Fetches from each broker for so long, what was written for about as long at most. Returns bytes per second by
/// broker; nothing once `stop` is set.
pub async fn probe_download(
    client: &Client,
    duration: Duration,
    now_ms: i64,
    stop: &AtomicBool,
) -> Result<BTreeMap<i32, f64>, ClientError> {
    let mut brokers: Vec<_> = client.brokers().await?.into_keys().collect();
    brokers.sort_unstable();
    let name = format!("parshall-net-probe-{}-{now_ms}", std::process::id());
    client.create_topic(shape(&name, &brokers)).await?;
    let batch = batch(now_ms);
    let stopped = async {
        while !stop.load(Ordering::Relaxed) {
            sleep(LOOK_INTERVAL).await;
        }
    };
    let measured = tokio::select! {
        measured = measure(client, &name, &brokers, &batch, duration) => measured,
        () = stopped => Ok(BTreeMap::new()),
    };
    let deleted = client.delete_topic(&name).await;
    let measured = measured?;
    deleted?;
    Ok(measured)
}

/// The partition of each number is on the broker at this place.
fn shape(name: &str, brokers: &[i32]) -> CreatableTopic {
    let assignment =
        |(index, broker): (i32, &i32)| CreatableReplicaAssignment { partition_index: index, broker_ids: vec![*broker] };
    CreatableTopic {
        name: name.to_owned(),
        num_partitions: -1,
        replication_factor: -1,
        assignments: (0..).zip(brokers).map(assignment).collect(),
        ..Default::default()
    }
}

async fn measure(
    client: &Client,
    topic: &str,
    brokers: &[i32],
    batch: &Bytes,
    duration: Duration,
) -> Result<BTreeMap<i32, f64>, ClientError> {
    // A broker may not know yet that it leads its partition.
    let ends = (0..).zip(brokers).map(|(index, _)| (TopicPartition::new(topic, index), LATEST)).collect();
    client.list_offsets(&ends).await?;
    let mut rates = BTreeMap::new();
    for (index, &broker) in (0..).zip(brokers) {
        let connection = client.broker(broker).await?;
        let batches = fill(&connection, topic, index, batch, duration).await?;
        rates.insert(broker, fetch(&connection, topic, index, batches, batch.len(), duration).await?);
    }
    Ok(rates)
}

/// Records of the past could be deleted at once.
fn batch(now_ms: i64) -> Bytes {
    let mut source = Payload::random(Sizes::Fixed(VALUE_BYTES), 0.0, 0).source(0);
    let mut builder = BatchBuilder::new();
    for number in 0..BATCH_RECORDS {
        let (_, value) = source.record(number as u64);
        builder.push(now_ms, None, Some(value), &[]);
    }
    builder.build().bytes
}

/// Returns how many batches there are.
async fn fill(
    connection: &Connection,
    topic: &str,
    index: i32,
    batch: &Bytes,
    duration: Duration,
) -> Result<i64, ClientError> {
    let version = connection.version::<ProduceRequest>()?.min(PRODUCE_BY_TOPIC_ID - 1);
    let partition_data = vec![PartitionProduceData { index, records: Some(Records::Inline(batch.clone())) }];
    let topic_data = vec![TopicProduceData { name: topic.to_owned(), partition_data, ..Default::default() }];
    let timeout_ms = connection.request_timeout().as_millis().try_into().unwrap_or(i32::MAX);
    let request = ProduceRequest { acks: 1, timeout_ms, topic_data, ..Default::default() };
    let check = |response: &ProduceResponse| {
        let partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        check("produced", topic, index, partitions.map(|partition| partition.error_code))
    };
    let mut pending = VecDeque::new();
    let (started, mut batches) = (Instant::now(), 0);
    while batches < BATCHES && (batches < ANSWER_BATCHES || started.elapsed() < duration) {
        if pending.len() == IN_FLIGHT
            && let Some(first) = pending.pop_front()
        {
            check(&first.await?)?;
        }
        pending.push_back(connection.start_as(&request, version, connection.request_timeout())?);
        batches += 1;
    }
    for left in pending {
        check(&left.await?)?;
    }
    Ok(batches)
}

/// Bytes per second.
async fn fetch(
    connection: &Connection,
    topic: &str,
    index: i32,
    batches: i64,
    batch_bytes: usize,
    duration: Duration,
) -> Result<f64, ClientError> {
    let version = connection.version::<FetchRequest>()?.min(FETCH_BY_TOPIC_ID - 1);
    let answer_bytes = (batch_bytes * ANSWER_BATCHES as usize) as i32;
    let request = |number: i64| {
        let fetch_offset = number * ANSWER_BATCHES % batches * BATCH_RECORDS;
        let partition =
            FetchPartition { partition: index, fetch_offset, partition_max_bytes: answer_bytes, ..Default::default() };
        let topic = FetchTopic { topic: topic.to_owned(), partitions: vec![partition], ..Default::default() };
        FetchRequest {
            replica_id: -1,
            min_bytes: 1,
            max_bytes: answer_bytes,
            topics: vec![topic],
            ..Default::default()
        }
    };
    let received = |response: FetchResponse| -> Result<usize, ClientError> {
        let partitions = || response.responses.iter().flat_map(|topic| &topic.partitions);
        let codes = partitions().map(|partition| partition.error_code);
        check("fetched", topic, index, [response.error_code].into_iter().chain(codes))?;
        Ok(partitions().filter_map(|partition| partition.records.as_ref()).map(Records::len).sum())
    };
    let mut pending = VecDeque::new();
    let started = Instant::now();
    let (mut asked, mut bytes) = (0, 0);
    while started.elapsed() < duration {
        while pending.len() < IN_FLIGHT {
            pending.push_back(connection.start_as(&request(asked), version, connection.request_timeout())?);
            asked += 1;
        }
        if let Some(first) = pending.pop_front() {
            bytes += received(first.await?)?;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    for left in pending {
        received(left.await?)?;
    }
    Ok(if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 })
}

fn check(what: &str, topic: &str, index: i32, codes: impl IntoIterator<Item = ErrorCode>) -> Result<(), ClientError> {
    let subject = || format!("{topic}-{index} cannot be {what}");
    codes.into_iter().try_for_each(|code| ClientError::check(subject, code, None))
}
