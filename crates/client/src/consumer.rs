//! Reads records of assigned partitions, in order of their offsets, batch by batch.
//!
//! One fetch at a time is under way per leader, each in a task of its own, and the next one starts while the batches of
//! the last are still being read, as long as fewer bytes wait than one fetch may bring. Which partitions, and from
//! where, is the caller's: straight ([`Consumer::assign`]) or by a [`crate::Membership`].

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::api::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData};
use wire::batch::{Batch, Batches};
use wire::record::RecordReader;
use wire::{ErrorCode, Records, Uuid};

use crate::client::Retry;
use crate::isolation::AbortedFilter;
use crate::{Client, ClientError, EARLIEST, IsolationLevel, LATEST, Metadata, TopicPartition};

/// From this version on Fetch names topics by id only (KIP-516).
pub(crate) const FETCH_BY_TOPIC_ID: i16 = 13;

#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    pub fetch_max_wait: Duration,
    /// An answer with less waits for more, up to `fetch_max_wait`.
    pub fetch_min_bytes: i32,
    pub fetch_max_bytes: i32,
    pub partition_max_bytes: i32,
    /// A batch may not decompress to more.
    pub batch_bytes_max: usize,
    pub isolation: IsolationLevel,
    /// What to do when an offset is not there (any more).
    pub reset: ResetOffset,
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            fetch_max_wait: Duration::from_millis(500),
            fetch_min_bytes: 1,
            fetch_max_bytes: 16 * 1024 * 1024,
            partition_max_bytes: 1024 * 1024,
            batch_bytes_max: 256 * 1024 * 1024,
            isolation: IsolationLevel::default(),
            reset: ResetOffset::Fail,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetOffset {
    Earliest,
    Latest,
    Fail,
}

/// One record. Its bytes share the memory of its batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedRecord {
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

/// What fetching came to since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchTotals {
    pub fetches: u64,
    /// Of all batches, as they came.
    pub bytes: u64,
    pub bytes_max: u64,
    /// From requests to their answers, the broker's waiting for more included.
    pub latency: Duration,
    pub latency_max: Duration,
    /// How long brokers have asked to be left alone, because of a quota.
    pub throttled: Duration,
    pub throttled_max: Duration,
}

impl FetchTotals {
    fn count(&mut self, bytes: u64, latency: Duration, throttled: Duration) {
        let one = Self {
            fetches: 1,
            bytes,
            bytes_max: bytes,
            latency,
            latency_max: latency,
            throttled,
            throttled_max: throttled,
        };
        self.add(one);
    }

    /// Counts what another has counted.
    pub fn add(&mut self, other: Self) {
        self.fetches += other.fetches;
        self.bytes += other.bytes;
        self.bytes_max = self.bytes_max.max(other.bytes_max);
        self.latency += other.latency;
        self.latency_max = self.latency_max.max(other.latency_max);
        self.throttled += other.throttled;
        self.throttled_max = self.throttled_max.max(other.throttled_max);
    }
}

pub struct Consumer {
    client: Client,
    config: ConsumerConfig,
    positions: BTreeMap<TopicPartition, Position>,
    fetches: JoinSet<Fetched>,
    /// Leaders with a fetch under way.
    fetching: HashSet<i32>,
    ready: VecDeque<ReadyBatch>,
    ready_bytes: usize,
    /// What is left of our patience since things last went well.
    retry: Option<Retry>,
    totals: FetchTotals,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    /// Of the next record that the caller will get.
    next: i64,
    /// Of the next record to ask for.
    fetch: i64,
}

/// A batch that waits for the caller.
struct ReadyBatch {
    partition: TopicPartition,
    batch: Batch,
    /// Its transaction was aborted, and the caller wants none of that.
    is_hidden: bool,
}

struct Fetched {
    leader: i32,
    latency: Duration,
    /// By id, for answers that do not name their topics.
    names: HashMap<Uuid, String>,
    result: Result<FetchResponse, ClientError>,
}

impl Consumer {
    pub fn new(client: Client, config: ConsumerConfig) -> Self {
        Self {
            client,
            config,
            positions: BTreeMap::new(),
            fetches: JoinSet::new(),
            fetching: HashSet::new(),
            ready: VecDeque::new(),
            ready_bytes: 0,
            retry: None,
            totals: FetchTotals::default(),
        }
    }

    /// What fetching came to so far.
    pub fn totals(&self) -> FetchTotals {
        self.totals
    }

    /// Reads these partitions from these offsets, and no others.
    pub fn assign(&mut self, offsets: impl IntoIterator<Item = (TopicPartition, i64)>) {
        let offsets = offsets.into_iter();
        self.positions = offsets.map(|(p, offset)| (p, Position { next: offset, fetch: offset })).collect();
        self.fetches = JoinSet::new();
        self.fetching.clear();
        self.ready.clear();
        self.ready_bytes = 0;
    }

    /// The offset behind the last record that was handed out, for each partition.
    pub fn positions(&self) -> impl Iterator<Item = (&TopicPartition, i64)> {
        self.positions.iter().map(|(partition, position)| (partition, position.next))
    }

    /// Where an assigned partition stands.
    pub fn position(&self, partition: &TopicPartition) -> Option<i64> {
        self.positions.get(partition).map(|position| position.next)
    }

    /// The records of the next batch, waiting for one to come. Positions may have moved without any record to show for
    /// it (control batches, aborted transactions): then there are none in the answer. May be cancelled without loss.
    pub async fn next(&mut self) -> Result<(TopicPartition, Vec<ConsumedRecord>), ClientError> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                self.ready_bytes -= ready.batch.bytes.len();
                if self.ready_bytes < self.config.fetch_max_bytes as usize {
                    // A leader that cannot be asked now is asked again when all has been read, and then it counts.
                    let _ = self.start_fetches().await;
                }
                return self.decode(ready);
            }
            if let Err(error) = self.start_fetches().await {
                self.wait(error).await?;
                continue;
            }
            match self.fetches.join_next().await {
                Some(Ok(fetched)) => self.take(fetched).await?,
                Some(Err(_)) | None => {
                    // Nothing is assigned, or the runtime is going down.
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    async fn wait(&mut self, error: ClientError) -> Result<(), ClientError> {
        for partition in self.positions.keys() {
            self.client.forget(&partition.topic);
        }
        let client = &self.client;
        self.retry.get_or_insert_with(|| client.retry()).wait(error).await
    }

    /// Starts a fetch at every leader that has none under way.
    async fn start_fetches(&mut self) -> Result<(), ClientError> {
        let mut topics: Vec<_> = self.positions.keys().map(|partition| partition.topic.as_str()).collect();
        topics.dedup();
        if topics.is_empty() {
            return Ok(());
        }
        let metadata = self.client.describe(&topics).await?;
        let mut leaders = BTreeMap::<i32, Vec<(&TopicPartition, i64)>>::new();
        for (partition, position) in &self.positions {
            let leader = metadata.leader(partition)?;
            if !self.fetching.contains(&leader) {
                leaders.entry(leader).or_default().push((partition, position.fetch));
            }
        }
        for (leader, partitions) in leaders {
            let connection = self.client.broker(leader).await?;
            let mut version = connection.version::<FetchRequest>()?;
            let (request, names, has_ids) = self.request(&partitions, &metadata);
            if !has_ids {
                version = version.min(FETCH_BY_TOPIC_ID - 1);
            }
            let timeout = self.config.fetch_max_wait + self.client.config().connection.request_timeout;
            let pending = connection.start_as(&request, version, timeout)?;
            self.fetching.insert(leader);
            let started = Instant::now();
            self.fetches.spawn(async move {
                let result = pending.await.map_err(Into::into);
                Fetched { leader, latency: started.elapsed(), names, result }
            });
        }
        Ok(())
    }

    fn request(
        &self,
        partitions: &[(&TopicPartition, i64)],
        metadata: &Metadata,
    ) -> (FetchRequest, HashMap<Uuid, String>, bool) {
        let mut names = HashMap::new();
        let mut has_ids = true;
        let mut topics = Vec::<FetchTopic>::new();
        for (partition, offset) in partitions {
            if topics.last().is_none_or(|topic| topic.topic != partition.topic) {
                let topic_id = metadata.topics.get(&partition.topic).map_or(Uuid::ZERO, |topic| topic.id);
                has_ids &= !topic_id.is_zero();
                names.insert(topic_id, partition.topic.clone());
                topics.push(FetchTopic { topic: partition.topic.clone(), topic_id, partitions: Vec::new() });
            }
            if let Some(topic) = topics.last_mut() {
                topic.partitions.push(FetchPartition {
                    partition: partition.partition,
                    fetch_offset: *offset,
                    partition_max_bytes: self.config.partition_max_bytes,
                    ..Default::default()
                });
            }
        }
        let request = FetchRequest {
            max_wait_ms: i32::try_from(self.config.fetch_max_wait.as_millis()).unwrap_or(i32::MAX),
            min_bytes: self.config.fetch_min_bytes,
            max_bytes: self.config.fetch_max_bytes,
            isolation_level: self.config.isolation.to_wire(),
            topics,
            ..Default::default()
        };
        (request, names, has_ids)
    }

    /// Queues the batches of an answer.
    async fn take(&mut self, fetched: Fetched) -> Result<(), ClientError> {
        self.fetching.remove(&fetched.leader);
        let response = match fetched.result {
            Ok(response) => response,
            Err(error) => return self.wait(error).await,
        };
        if let Err(error) = ClientError::check(|| "fetching".to_owned(), response.error_code, None) {
            return self.wait(error).await;
        }
        let data = response.responses.iter().flat_map(|topic| &topic.partitions);
        let bytes = data.filter_map(|data| match &data.records {
            Some(Records::Inline(bytes)) => Some(bytes.len() as u64),
            _ => None,
        });
        let throttled = Duration::from_millis(response.throttle_time_ms.max(0) as u64);
        self.totals.count(bytes.sum(), fetched.latency, throttled);
        let mut trouble = None;
        for topic in response.responses {
            let name = match topic.topic.is_empty() {
                true => fetched.names.get(&topic.topic_id).cloned().unwrap_or_default(),
                false => topic.topic,
            };
            for data in topic.partitions {
                let partition = TopicPartition::new(name.clone(), data.partition_index);
                match self.take_partition(&partition, data) {
                    Ok(()) => {}
                    Err(ClientError::OffsetOutOfRange { offset, .. }) => self.reset(&partition, offset).await?,
                    // Retriable for producers; what a broker has damaged it does not get back (`FetchCollector`).
                    Err(error) if error.code() == Some(ErrorCode::CORRUPT_MESSAGE) => return Err(error),
                    Err(error) => trouble = Some(error),
                }
            }
        }
        match trouble {
            Some(error) => self.wait(error).await,
            None => {
                self.retry = None;
                Ok(())
            }
        }
    }

    fn take_partition(&mut self, partition: &TopicPartition, data: PartitionData) -> Result<(), ClientError> {
        let Some(position) = self.positions.get_mut(partition) else { return Ok(()) };
        let offset = position.fetch;
        match data.error_code {
            ErrorCode::OFFSET_OUT_OF_RANGE => {
                return Err(ClientError::OffsetOutOfRange { partition: partition.clone(), offset });
            }
            code => ClientError::check(|| format!("fetching {partition} at offset {offset}"), code, None)?,
        }
        let Some(Records::Inline(bytes)) = data.records else { return Ok(()) };
        // Brokers name none to those who want all.
        let mut aborted = AbortedFilter::new(data.aborted_transactions.unwrap_or_default());
        // An answer may end in the middle of a batch: the rest comes with the next fetch.
        for batch in Batches::new(bytes) {
            let batch = batch.map_err(|error| ClientError::Records {
                partition: partition.clone(),
                offset: position.fetch,
                reason: error.to_string(),
            })?;
            let is_hidden = aborted.is_aborted(&batch);
            if batch.header.next_offset() <= position.fetch {
                continue;
            }
            position.fetch = batch.header.next_offset();
            self.ready_bytes += batch.bytes.len();
            self.ready.push_back(ReadyBatch { partition: partition.clone(), batch, is_hidden });
        }
        Ok(())
    }

    async fn reset(&mut self, partition: &TopicPartition, offset: i64) -> Result<(), ClientError> {
        let timestamp = match self.config.reset {
            ResetOffset::Earliest => EARLIEST,
            ResetOffset::Latest => LATEST,
            ResetOffset::Fail => {
                return Err(ClientError::OffsetOutOfRange { partition: partition.clone(), offset });
            }
        };
        let wanted = BTreeMap::from([(partition.clone(), timestamp)]);
        let found = self.client.list_offsets_as(&wanted, self.config.isolation).await?;
        if let (Some(found), Some(position)) = (found.get(partition), self.positions.get_mut(partition)) {
            tracing::warn!(%partition, offset, reset_to = found.offset, "an offset is out of range");
            *position = Position { next: found.offset, fetch: found.offset };
        }
        Ok(())
    }

    fn decode(&mut self, ready: ReadyBatch) -> Result<(TopicPartition, Vec<ConsumedRecord>), ClientError> {
        let ReadyBatch { partition, batch, is_hidden } = ready;
        let unreadable = |reason: String| ClientError::Records {
            partition: partition.clone(),
            offset: batch.header.base_offset,
            reason,
        };
        let Some(position) = self.positions.get_mut(&partition) else { return Ok((partition, Vec::new())) };
        let first = position.next;
        position.next = position.next.max(batch.header.next_offset());
        if is_hidden || batch.header.attributes.is_control() {
            return Ok((partition, Vec::new()));
        }
        let section = batch.records(self.config.batch_bytes_max).map_err(|error| unreadable(error.to_string()))?;
        let mut records = Vec::new();
        for record in RecordReader::new(&batch.header, &section) {
            let record = record.map_err(|error| unreadable(error.to_string()))?;
            if record.offset < first {
                continue;
            }
            let share = |field: Option<&[u8]>| field.map(|field| section.slice_ref(field));
            records.push(ConsumedRecord {
                offset: record.offset,
                timestamp: record.timestamp,
                key: share(record.key),
                value: share(record.value),
                headers: record.headers.iter().map(|(key, value)| (section.slice_ref(key), share(value))).collect(),
            });
        }
        Ok((partition, records))
    }
}
