//! Sends records to one topic, in batches.
//!
//! A task owns everything: it gathers records into one open batch per partition and hands full ones, and those that
//! have waited for `linger`, to a delivery each. At most one batch per partition is under way, so that order holds
//! through retries; what comes meanwhile fills the next batch, so batches grow with the load. What has not been
//! delivered is bounded: [`Producer::send`] waits.
//!
//! With idempotence every batch carries a producer id and a sequence. After a batch has failed for good nobody knows
//! which sequence the broker stands at, so its partition goes on under a new producer id. A batch that the broker finds
//! too large is cut in halves until it fits, as Kafka's producer does.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use wire::api::metadata::MetadataRequest;
use wire::api::produce::{PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData};
use wire::batch::{self, BatchBuilder};
use wire::compress::Codec;
use wire::{ErrorCode, Records, Uuid};

use crate::{Client, ClientError, Partitioner, TopicPartition};

/// From this version on Produce names topics by id only (KIP-516).
const PRODUCE_BY_TOPIC_ID: i16 = 13;
/// Records that wait in the channel to the task.
const QUEUED_RECORDS_MAX: usize = 4096;
/// The largest frame that brokers take (`socket.request.max.bytes`), less room for its header.
const RECORD_BYTES_MAX: usize = 100 * 1024 * 1024 - 64 * 1024;

/// When a record counts as delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// When the leader has read it; nothing is known of what became of it.
    None,
    Leader,
    /// When all in-sync replicas have it.
    All,
}

impl Acks {
    pub fn to_wire(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

#[derive(Clone, Debug)]
pub struct ProducerConfig {
    pub acks: Acks,
    pub compression: Codec,
    /// Whether retries can neither duplicate nor reorder. Needs [`Acks::All`].
    pub idempotence: bool,
    /// How long a batch waits for company.
    pub linger: Duration,
    pub batch_bytes: usize,
    /// Bytes of records that may wait for delivery.
    pub buffer_bytes: usize,
    /// Decides where records without keys go first.
    pub partitioner_seed: u64,
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            acks: Acks::All,
            compression: Codec::None,
            idempotence: true,
            linger: Duration::from_millis(5),
            batch_bytes: 256 * 1024,
            buffer_bytes: 32 * 1024 * 1024,
            partitioner_seed: 0,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct ProducerRecord {
    /// By the key where it is `None`.
    pub partition: Option<i32>,
    pub timestamp: i64,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

impl ProducerRecord {
    fn size_bytes(&self) -> usize {
        let field = |field: &Option<Bytes>| field.as_ref().map_or(0, Bytes::len);
        let headers = self.headers.iter().map(|(key, value)| key.len() + field(value) + 10);
        field(&self.key) + field(&self.value) + headers.sum::<usize>() + 30
    }
}

/// Where a record went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    pub partition: i32,
    /// -1 when the broker does not say: with [`Acks::None`].
    pub offset: i64,
}

/// The fate of one record, to be awaited.
#[derive(Debug)]
pub struct Delivery {
    answer: oneshot::Receiver<Result<Delivered, ClientError>>,
}

impl Future for Delivery {
    type Output = Result<Delivered, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(|answer| answer.unwrap_or(Err(ClientError::ProducerClosed)))
    }
}

type Answer = oneshot::Sender<Result<Delivered, ClientError>>;

pub struct Producer {
    records: mpsc::Sender<Waiting>,
    task: JoinHandle<()>,
}

impl Producer {
    /// Finds the topic, which the broker may create if it is configured to, and starts.
    pub async fn start(client: Client, topic: &str, config: ProducerConfig) -> Result<Self, ClientError> {
        let metadata = client.existing_or_created(&[topic]).await?;
        let partitions = metadata.topic(topic)?.partitions.len();
        let idempotence = config.idempotence && config.acks == Acks::All;
        let producer = if idempotence { Some(client.new_producer_id().await?) } else { None };
        let lane = || Lane { identity: Identity { producer, next_sequence: 0 }, ..Lane::default() };
        let (records, receiver) = mpsc::channel(QUEUED_RECORDS_MAX);
        let task = Task {
            client,
            topic: topic.to_owned(),
            partitioner: Partitioner::new(config.partitioner_seed),
            config: ProducerConfig { idempotence, ..config },
            lanes: (0..partitions).map(|_| lane()).collect(),
            records: receiver,
            closing: false,
            deliveries: JoinSet::new(),
            buffered_bytes: 0,
        };
        Ok(Self { records, task: tokio::spawn(task.run()) })
    }

    /// Takes a record, waiting while too much is on its way, and tells later what became of it.
    pub async fn send(&self, record: ProducerRecord) -> Result<Delivery, ClientError> {
        let bytes = record.size_bytes();
        if bytes > RECORD_BYTES_MAX {
            return Err(ClientError::RecordTooLarge { bytes, bytes_max: RECORD_BYTES_MAX });
        }
        let (answer, receiver) = oneshot::channel();
        self.records.send((record, answer)).await.map_err(|_| ClientError::ProducerClosed)?;
        Ok(Delivery { answer: receiver })
    }

    /// Delivers what was taken. Every [`Delivery`] has its answer when this returns.
    pub async fn close(self) {
        drop(self.records);
        let _ = self.task.await;
    }
}

/// One partition's batches.
#[derive(Default)]
struct Lane {
    open: Option<OpenBatch>,
    full: VecDeque<OpenBatch>,
    under_way: bool,
    identity: Identity,
}

/// As whom a partition's batches are sent.
#[derive(Clone, Copy, Debug, Default)]
struct Identity {
    /// Id and epoch; `None` without idempotence, and after a failure until there is a new id.
    producer: Option<(i64, i16)>,
    next_sequence: i32,
}

type Waiting = (ProducerRecord, Answer);

struct OpenBatch {
    records: Vec<Waiting>,
    bytes: usize,
    due: Instant,
}

struct Task {
    client: Client,
    topic: String,
    config: ProducerConfig,
    partitioner: Partitioner,
    lanes: Vec<Lane>,
    records: mpsc::Receiver<Waiting>,
    /// No more records will come.
    closing: bool,
    deliveries: JoinSet<Ended>,
    buffered_bytes: usize,
}

/// What a delivery leaves behind.
struct Ended {
    lane: usize,
    bytes: usize,
    identity: Identity,
}

impl Task {
    async fn run(mut self) {
        loop {
            let due = self.start_deliveries();
            if self.closing && self.deliveries.is_empty() {
                return;
            }
            tokio::select! {
                record = self.records.recv(), if !self.closing && self.buffered_bytes < self.config.buffer_bytes => {
                    match record {
                        Some((record, answer)) => self.accept(record, answer),
                        None => self.closing = true,
                    }
                }
                Some(Ok(ended)) = self.deliveries.join_next() => self.end(ended),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    fn accept(&mut self, record: ProducerRecord, answer: Answer) {
        let partition = match record.partition {
            Some(partition) => partition,
            None => self.partitioner.partition(record.key.as_deref(), self.lanes.len()) as i32,
        };
        let Some(lane) = usize::try_from(partition).ok().and_then(|index| self.lanes.get_mut(index)) else {
            let partition = TopicPartition::new(self.topic.clone(), partition);
            let _ = answer.send(Err(ClientError::UnknownPartition(partition)));
            return;
        };
        let bytes = record.size_bytes();
        if let Some(open) = lane.open.take_if(|open| open.bytes + bytes > self.config.batch_bytes) {
            lane.full.push_back(open);
            self.partitioner.batch_is_full(partition as usize, self.lanes.len());
            if record.partition.is_none() && record.key.is_none() {
                // It was on its way to this partition only because the last one was.
                return self.accept(record, answer);
            }
        }
        let lane = &mut self.lanes[partition as usize];
        let open = lane.open.get_or_insert_with(|| OpenBatch {
            records: Vec::new(),
            bytes: 0,
            due: Instant::now() + self.config.linger,
        });
        open.records.push((record, answer));
        open.bytes += bytes;
        self.buffered_bytes += bytes;
    }

    /// Sends what is ready, and returns when the next batch will be.
    fn start_deliveries(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let mut next_due: Option<Instant> = None;
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if lane.under_way {
                continue;
            }
            let batch = match lane.full.pop_front() {
                Some(batch) => batch,
                None => match lane.open.take_if(|open| self.closing || open.due <= now) {
                    Some(batch) => batch,
                    None => {
                        let due = lane.open.as_ref().map(|open| open.due);
                        next_due = next_due.into_iter().chain(due).min();
                        continue;
                    }
                },
            };
            lane.under_way = true;
            let OpenBatch { records, bytes, .. } = batch;
            let delivery = BatchDelivery {
                client: self.client.clone(),
                partition: TopicPartition::new(self.topic.clone(), index as i32),
                acks: self.config.acks,
                compression: self.config.compression,
                idempotence: self.config.idempotence,
                identity: lane.identity,
            };
            self.deliveries.spawn(async move { Ended { lane: index, bytes, identity: delivery.run(records).await } });
        }
        next_due
    }

    fn end(&mut self, ended: Ended) {
        self.buffered_bytes -= ended.bytes;
        let lane = &mut self.lanes[ended.lane];
        lane.under_way = false;
        lane.identity = ended.identity;
    }
}

/// One batch on its way, with its retries.
struct BatchDelivery {
    client: Client,
    partition: TopicPartition,
    acks: Acks,
    compression: Codec,
    idempotence: bool,
    identity: Identity,
}

impl BatchDelivery {
    /// Delivers the records and answers for each. Returns as whom to go on.
    async fn run(mut self, records: Vec<Waiting>) -> Identity {
        // What is still to go, the first part last.
        let mut parts = vec![records];
        while let Some(mut part) = parts.pop() {
            match self.deliver(&part).await {
                Ok(base) => {
                    self.identity.next_sequence = batch::add_sequence(self.identity.next_sequence, part.len() as i32);
                    for (i, (_, answer)) in part.into_iter().enumerate() {
                        let offset = if base < 0 { -1 } else { base + i as i64 };
                        let _ = answer.send(Ok(Delivered { partition: self.partition.partition, offset }));
                    }
                }
                // The broker has not looked at the sequence yet, so it stays the next one.
                Err(error) if error.code() == Some(ErrorCode::MESSAGE_TOO_LARGE) && part.len() > 1 => {
                    parts.push(part.split_off(part.len() / 2));
                    parts.push(part);
                }
                Err(error) => {
                    self.identity = Identity::default();
                    for (_, answer) in part {
                        let _ = answer.send(Err(error.clone()));
                    }
                }
            }
        }
        self.identity
    }

    /// The offset of the first of these records.
    async fn deliver(&mut self, records: &[Waiting]) -> Result<i64, ClientError> {
        let mut builder = BatchBuilder::new().compression(self.compression, None);
        if self.idempotence {
            let (id, epoch) = match self.identity.producer {
                Some(producer) => producer,
                None => self.client.new_producer_id().await?,
            };
            self.identity.producer = Some((id, epoch));
            builder = builder.producer(id, epoch, self.identity.next_sequence);
        }
        for (record, _) in records {
            let headers: Vec<_> = record.headers.iter().map(|(name, value)| (&**name, value.as_deref())).collect();
            builder.push(record.timestamp, record.key.as_deref(), record.value.as_deref(), &headers);
        }
        let batch = builder.build().bytes;
        let mut retry = self.client.retry();
        loop {
            let error = match self.attempt(&batch).await {
                Ok(offset) => return Ok(offset),
                Err(error) => error,
            };
            self.client.forget(&self.partition.topic);
            retry.wait(error).await?;
        }
    }

    async fn attempt(&self, records: &Bytes) -> Result<i64, ClientError> {
        let metadata = self.client.describe(&[&self.partition.topic]).await?;
        let connection = self.client.broker(metadata.leader(&self.partition)?).await?;
        let topic_id = metadata.topic(&self.partition.topic)?.id;
        let mut version = connection.version::<ProduceRequest>()?;
        if topic_id == Uuid::ZERO {
            version = version.min(PRODUCE_BY_TOPIC_ID - 1);
        }
        let timeout = self.client.config().connection.request_timeout;
        let records = Some(Records::Inline(records.clone()));
        let data = PartitionProduceData { index: self.partition.partition, records };
        let topic = TopicProduceData { name: self.partition.topic.clone(), topic_id, partition_data: vec![data] };
        let request = ProduceRequest {
            acks: self.acks.to_wire(),
            timeout_ms: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
            topic_data: vec![topic],
            ..Default::default()
        };
        if self.acks == Acks::None {
            connection.post(&request, version)?;
            // Answers come in order: this one says that the batch before it has been read.
            connection.send(&MetadataRequest { topics: Some(Vec::new()), ..Default::default() }).await?;
            return Ok(-1);
        }
        let response = connection.start_as(&request, version, timeout)?.await?;
        let answer = response.responses.into_iter().flat_map(|topic| topic.partition_responses).next();
        let subject = || format!("producing to {}", self.partition);
        let missing = || ClientError::Missing { address: connection.address().to_owned(), subject: subject() };
        let PartitionProduceResponse { error_code, error_message, base_offset, record_errors, .. } =
            answer.ok_or_else(missing)?;
        match error_code {
            // An earlier try has arrived, though its answer has not.
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Ok(-1),
            code => {
                let first = record_errors.into_iter().find_map(|error| error.batch_index_error_message);
                ClientError::check(subject, code, first.or(error_message).as_deref())?;
                Ok(base_offset)
            }
        }
    }
}
