//! The load of one producer without a producer: requests that were encoded before the start, sent over and over.
//!
//! One task per leader keeps its requests in flight; each carries one batch for one partition. It costs next to nothing
//! per record, so that what is measured is the broker. All records of a batch count from when it was due, or sent.
//! Nothing is sent again: what a broker refuses has failed, and then leaders are looked for anew.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use client::{Acks, Client, ClientError, Connection, ConnectionError, PendingFrame, TopicPartition};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use wire::api::produce::{PartitionProduceData, ProduceRequest};
use wire::batch::BatchBuilder;
use wire::{ErrorCode, Records, Uuid, frame};

use crate::metrics::BatchFacts;
use crate::payload::Source;
use crate::produce::{ProduceLoad, TICK, UNSENT_BYTES_MAX, flush, version};
use crate::rate::Pace;
use crate::stats::{SentBatch, Stats};
use crate::timer::Timer;

/// Produces until the load is done or `stop` is set, and all that was sent is answered. Batches have no producer id.
pub async fn produce_raw(
    client: Client,
    load: ProduceLoad,
    stats: Arc<Stats>,
    stop: Arc<AtomicBool>,
) -> Result<(), ClientError> {
    load.find_topic(&client).await?;
    let producer = Arc::new(RawProducer { client, load, stats, stop, claimed: AtomicU64::new(0) });
    loop {
        let trouble = match producer.lanes().await {
            Ok(lanes) => producer.run(lanes).await,
            Err(error) if error.is_retriable() => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        match trouble {
            Ok(()) => return Ok(()),
            Err(reason) => tracing::debug!(reason, "looking for the leaders anew"),
        }
        if producer.is_over(None) {
            return Ok(());
        }
        producer.client.forget(&producer.load.topic);
        sleep(producer.load.settings.retry_backoff).await;
    }
}

struct RawProducer {
    client: Client,
    load: ProduceLoad,
    stats: Arc<Stats>,
    stop: Arc<AtomicBool>,
    /// Records that are sent or about to be.
    claimed: AtomicU64,
}

/// What goes to one leader.
struct Lane {
    leader: i32,
    connection: Connection,
    version: i16,
    topic_id: Uuid,
    /// One for each partition.
    requests: Vec<Prepared>,
}

struct Prepared {
    partition: i32,
    frame: Bytes,
    records: u64,
    /// Of all values.
    bytes: u64,
    /// Of the batch, before compression and after.
    plain_bytes: usize,
    batch_bytes: usize,
}

struct InFlight {
    answer: PendingFrame,
    request: Request,
}

#[derive(Clone, Copy)]
struct Request {
    sent: Instant,
    batch: SentBatch,
}

impl RawProducer {
    /// Whether the next batch, which is due then, is not to be sent any more.
    fn is_over(&self, due_us: Option<u64>) -> bool {
        let is_late = |duration| self.load.pace.is_past(duration, due_us, self.stats.started().elapsed());
        self.load.records.is_some_and(|records| self.claimed.load(Ordering::Relaxed) >= records)
            || self.load.duration.is_some_and(is_late)
            || self.stop.load(Ordering::Relaxed)
    }

    /// Connects to the leaders and encodes the requests.
    async fn lanes(&self) -> Result<Vec<Lane>, ClientError> {
        let name = self.load.topic.as_str();
        let metadata = self.client.existing(&[name]).await?;
        let topic = metadata.topic(name)?;
        let mut source = self.load.payload.source(self.load.seed);
        let mut lanes = BTreeMap::<i32, Lane>::new();
        for partition in &topic.partitions {
            let leader = metadata.leader(&TopicPartition::new(name, partition.index))?;
            let lane = match lanes.entry(leader) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(vacant) => {
                    let connection = self.client.broker(leader).await?;
                    let version = version(&connection, topic.id)?;
                    vacant.insert(Lane { leader, connection, version, topic_id: topic.id, requests: Vec::new() })
                }
            };
            let request = self.prepare(lane, partition.index, &mut source, u64::MAX);
            lane.requests.push(request);
        }
        Ok(lanes.into_values().collect())
    }

    /// Encodes a request with one batch: as many records as `batch.size` holds, but at most so many, and one at least.
    fn prepare(&self, lane: &Lane, partition: i32, source: &mut Source, records_max: u64) -> Prepared {
        let settings = &self.load.settings;
        let mut builder = BatchBuilder::new().compression(settings.compression, settings.compression_level);
        let headers = self.load.payload.headers();
        let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, Some(&**value))).collect();
        let (mut records, mut bytes, mut largest) = (0, 0, 0);
        while records == 0 || (records < records_max && builder.size_bytes() + largest <= settings.batch_bytes) {
            let before = builder.size_bytes();
            let (key, value) = source.record(records);
            builder.push(self.load.started_wall_ms, key, Some(value), &headers);
            bytes += value.len() as u64;
            largest = largest.max(builder.size_bytes() - before);
            records += 1;
        }
        let plain_bytes = builder.size_bytes();
        let batch = builder.build().bytes;
        let batch_bytes = batch.len();
        let data = PartitionProduceData { index: partition, records: Some(Records::Inline(batch)) };
        let request = self.load.request(lane.topic_id, vec![data]);
        let mut out = BytesMut::new();
        frame::write_request(&mut out, lane.version, 0, &self.client.config().connection.client_id, &request);
        Prepared { partition, frame: out.freeze(), records, bytes, plain_bytes, batch_bytes }
    }

    /// Runs all leaders' tasks to their end. The error is what has ended one of them.
    async fn run(self: &Arc<Self>, lanes: Vec<Lane>) -> Result<(), String> {
        let partitions: usize = lanes.iter().map(|lane| lane.requests.len()).sum();
        let mut tasks = JoinSet::new();
        for lane in lanes {
            // A leader gets the share of the rate that its partitions are of all.
            let share = lane.requests.len() as f64 / partitions as f64;
            let producer = Arc::clone(self);
            tasks.spawn(async move { producer.send(lane, share).await });
        }
        tasks.join_all().await.into_iter().collect()
    }

    async fn send(&self, mut lane: Lane, share: f64) -> Result<(), String> {
        let timer = Timer::new().expect("the system has a file descriptor for a timer");
        let pace = self.load.pace.share(share);
        let (started_us, mut sent) = (self.stats.now_us(), 0);
        let mut in_flight = VecDeque::new();
        let mut result = Ok(());
        for turn in 0.. {
            let due_us = pace.due_us(sent).map(|due_us| started_us + due_us);
            while result.is_err() || in_flight.len() >= self.load.settings.in_flight_max || self.is_over(due_us) {
                if in_flight.is_empty() {
                    if result.is_ok() {
                        result = flush(&lane.connection).await.map_err(|error| error.to_string());
                    }
                    return result;
                }
                let (request, answer) = poll_fn(|cx| poll_first(&mut in_flight, cx)).await;
                result = result.and(self.settle(&lane, request, answer));
            }
            while result.is_ok()
                && !self.is_over(due_us)
                && (due_us.is_some_and(|due_us| due_us > self.stats.now_us()) || is_clogged(&lane))
            {
                let due = Duration::from_micros(due_us.unwrap_or_default());
                let wait_until = (self.stats.started() + due).max(Instant::now() + TICK);
                tokio::select! {
                    biased;
                    (request, answer) = poll_fn(|cx| poll_first(&mut in_flight, cx)), if !in_flight.is_empty() => {
                        result = self.settle(&lane, request, answer);
                    }
                    waited = timer.wait_until(wait_until) => waited.expect("a timer can be read"),
                }
            }
            if result.is_err() || self.is_over(due_us) {
                continue;
            }
            if lane.connection.is_retired() {
                lane.connection = self.client.broker(lane.leader).await.map_err(|error| error.to_string())?;
            }
            let prepared = &lane.requests[turn % lane.requests.len()];
            let first = self.claimed.fetch_add(prepared.records, Ordering::Relaxed);
            let left = self.load.records.map_or(u64::MAX, |records| records.saturating_sub(first));
            if left == 0 {
                continue;
            }
            let last;
            let prepared = if left < prepared.records {
                let mut source = self.load.payload.source(self.load.seed);
                last = self.prepare(&lane, prepared.partition, &mut source, left);
                &last
            } else {
                prepared
            };
            sent += prepared.records;
            let at_us = match self.load.pace {
                Pace::OpenLoop(_) => due_us.unwrap_or_default(),
                Pace::Unlimited | Pace::ClosedLoop(_) => self.stats.now_us(),
            };
            let is_warm_up = self.load.is_warm_up(first, at_us);
            let batch = SentBatch { at_us, records: prepared.records, bytes: prepared.bytes, is_warm_up };
            let started = match self.load.settings.acks {
                Acks::None => lane.connection.post_frame(&prepared.frame).map(|()| None),
                _ => lane.connection.start_frame(&prepared.frame, self.load.settings.request_timeout).map(Some),
            };
            let facts = BatchFacts {
                records: prepared.records as usize,
                bytes: prepared.batch_bytes,
                plain_bytes: prepared.plain_bytes,
                queued: Duration::ZERO,
                is_retry: false,
            };
            self.stats.requested(std::iter::once(facts));
            match started {
                Ok(Some(answer)) => {
                    in_flight.push_back(InFlight { answer, request: Request { sent: Instant::now(), batch } });
                }
                Ok(None) => self.stats.acknowledged_batch(batch),
                Err(error) => result = Err(self.count_failed(batch, &error.to_string())),
            }
        }
        result
    }

    fn settle(&self, lane: &Lane, request: Request, answer: Result<Bytes, ConnectionError>) -> Result<(), String> {
        let Request { sent, batch } = request;
        let response = answer.map_err(|error| error.to_string()).and_then(|frame| {
            let read = frame::read_response::<ProduceRequest>(&frame, lane.version);
            read.map(|(_, response)| response).map_err(|error| error.to_string())
        });
        let code = response.map(|response| {
            self.stats.answered(1, sent.elapsed(), response.throttle_time_ms);
            let answers = response.responses.iter().flat_map(|topic| &topic.partition_responses);
            answers.map(|answer| answer.error_code).next().unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR)
        });
        match code {
            Ok(ErrorCode::NONE) => {
                self.stats.acknowledged_batch(batch);
                Ok(())
            }
            Ok(code) => Err(self.count_failed(batch, &code.to_string())),
            Err(reason) => Err(self.count_failed(batch, &reason)),
        }
    }

    fn count_failed(&self, batch: SentBatch, reason: &str) -> String {
        self.stats.failed(batch.records as usize, reason);
        reason.to_owned()
    }
}

/// Whether more would only pile up in this process.
fn is_clogged(lane: &Lane) -> bool {
    lane.connection.unsent_bytes() > UNSENT_BYTES_MAX
}

fn poll_first(
    in_flight: &mut VecDeque<InFlight>,
    cx: &mut Context<'_>,
) -> Poll<(Request, Result<Bytes, ConnectionError>)> {
    let Some(first) = in_flight.front_mut() else { return Poll::Pending };
    let (answer, request) = (ready!(Pin::new(&mut first.answer).poll(cx)), first.request);
    in_flight.pop_front();
    Poll::Ready((request, answer))
}
