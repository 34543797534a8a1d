//! One record at a time, from the producer to the consumer and by one clock: sent, acknowledged, and read before the
//! next one is sent, as Kafka's `EndToEndLatency` does.

use std::time::Duration;

use bytes::Bytes;
use client::{
    Acks, Client, ClientError, Consumer, ConsumerConfig, LATEST, Producer, ProducerConfig, ProducerRecord,
    TopicPartition,
};
use tokio::time::{Instant, timeout};

use crate::stats::Tally;

/// How long a record may take to come back (`EndToEndLatency.POLL_TIMEOUT_MS`).
const RECORD_TIMEOUT: Duration = Duration::from_secs(60);

/// What is sent, and how.
#[derive(Clone, Debug)]
pub struct EndToEndLoad {
    pub topic: String,
    pub records: u64,
    pub acks: Acks,
    pub value_bytes: usize,
    pub key_bytes: usize,
    pub headers: usize,
    pub header_key_bytes: usize,
    pub header_value_bytes: usize,
    pub started_wall_ms: i64,
}

#[derive(Debug, thiserror::Error)]
pub enum EndToEndError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("record {number} did not come back within {} s", RECORD_TIMEOUT.as_secs())]
    Lost { number: u64 },
    #[error("what came back is not record {number}: is somebody else producing to the topic?")]
    Foreign { number: u64 },
}

/// Sends the records one by one. `each` gets the number and the latency of every record. `client` produces and `reader`
/// consumes; each has connections of its own, as two applications would have.
pub async fn end_to_end(
    client: Client,
    reader: Client,
    load: &EndToEndLoad,
    mut each: impl FnMut(u64, Duration),
) -> Result<Tally, EndToEndError> {
    let topic = load.topic.as_str();
    let config = ProducerConfig {
        acks: load.acks,
        idempotence: load.acks == Acks::All,
        linger: Duration::ZERO,
        ..ProducerConfig::default()
    };
    let producer = Producer::start(client, topic, config).await?;
    let metadata = reader.existing(&[topic]).await?;
    let partitions = metadata.topic(topic)?.partitions.iter();
    let ends = partitions.map(|partition| (TopicPartition::new(topic, partition.index), LATEST)).collect();
    let ends = reader.list_offsets(&ends).await?;
    let mut consumer = Consumer::new(reader, ConsumerConfig::default());
    consumer.assign(ends.into_iter().map(|(partition, end)| (partition, end.offset)));
    let letters = |count: usize, seed: u64| -> Bytes {
        (0..count as u64)
            .map(|n| b'A' + ((seed.wrapping_mul(2_654_435_761).wrapping_add(n * 7919)) % 26) as u8)
            .collect()
    };
    let started = Instant::now();
    let mut tally = Tally::default();
    for number in 0..load.records {
        let header =
            |n: usize| (letters(load.header_key_bytes, n as u64), Some(letters(load.header_value_bytes, number)));
        let value = letters(load.value_bytes, number);
        let sent = Instant::now();
        let record = ProducerRecord {
            timestamp: load.started_wall_ms + (sent - started).as_millis() as i64,
            key: (load.key_bytes > 0).then(|| letters(load.key_bytes, number)),
            value: Some(value.clone()),
            headers: (0..load.headers).map(header).collect(),
            ..ProducerRecord::default()
        };
        producer.send(record).await?.await?;
        let read = timeout(RECORD_TIMEOUT, next_record(&mut consumer)).await;
        let read = read.map_err(|_| EndToEndError::Lost { number })??;
        let latency = sent.elapsed();
        if read != Some(value) {
            return Err(EndToEndError::Foreign { number });
        }
        tally.record(latency.as_micros() as u64, load.value_bytes as u64);
        each(number, latency);
    }
    producer.close().await;
    Ok(tally)
}

/// The value of the next record; a single one is under way.
async fn next_record(consumer: &mut Consumer) -> Result<Option<Bytes>, ClientError> {
    loop {
        let (_, records) = consumer.next().await?;
        if let Some(record) = records.into_iter().next() {
            return Ok(record.value);
        }
    }
}
