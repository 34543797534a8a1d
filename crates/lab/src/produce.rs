//! The load of one producer: makes records when they are due, gathers them into batches, keeps requests in flight.
//!
//! One task does it all, so that no record moves between tasks. A record's latency counts from when it was *due* where
//! there is a schedule ([`Pace::OpenLoop`]): a broker that stalls for two seconds shows in all the records that should
//! have been sent meanwhile. Without a schedule it counts from when the record was ready to be sent, as in Kafka's
//! tool, and contains the time that it waited for space in the buffer.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use client::{
    Acks, Client, ClientError, Connection, ConnectionError, Metadata, PRODUCE_ADDS_PARTITIONS, PendingResponse,
    Transactions,
};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use wire::api::metadata::MetadataRequest;
use wire::api::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceData,
};
use wire::{ErrorCode, Records, Uuid};

use crate::batches::{Batches, ProducerId, ReadyBatch};
use crate::metrics::BatchFacts;
use crate::payload::{Payload, Source};
use crate::rate::Pace;
use crate::settings::ProducerSettings;
use crate::stats::{Sent, Stats};
use crate::timer::Timer;
use crate::transaction::{TransactionEvent, TransactionLoop};

/// From this version on Produce names topics by id only (KIP-516).
pub(crate) const PRODUCE_BY_TOPIC_ID: i16 = 13;
/// Records that are made before answers are looked at again.
const RECORDS_AT_ONCE: usize = 256;
/// Records that are due within it are made together: waking up for each would cost more than sending it. The wait
/// counts as latency of its records.
pub(crate) const TICK: Duration = Duration::from_micros(200);
/// What may wait to be written with acks=0, where no answer holds the producer up.
pub(crate) const UNSENT_BYTES_MAX: usize = 1024 * 1024;
/// How often batches are looked for that are past their delivery timeout.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);
pub(crate) const LATE: &str = "not delivered within delivery.timeout.ms";
pub(crate) const NO_ROOM: &str = "no room in buffer.memory within max.block.ms";

/// What one producer is to do.
#[derive(Clone, Debug)]
pub struct ProduceLoad {
    pub topic: String,
    /// How many records; without end if there is a duration or it is stopped.
    pub records: Option<u64>,
    pub duration: Option<Duration>,
    pub pace: Pace,
    /// So many of the first records are left out of the steady state.
    pub warm_up_records: u64,
    /// So are those that were due, or sent, within so long.
    pub warm_up: Duration,
    pub settings: ProducerSettings,
    /// With a `transactional.id`: how old a transaction gets before it is committed.
    pub transaction_duration: Duration,
    /// The producer as the transaction coordinator knows it; without it, the coordinator is asked when the load has
    /// begun.
    pub transactions: Option<Transactions>,
    pub payload: Payload,
    pub seed: u64,
    /// The wall clock when the run started, for the records' timestamps.
    pub started_wall_ms: i64,
}

impl ProduceLoad {
    /// Whether a record, which counts from then, is left out of the steady state.
    pub(crate) fn is_warm_up(&self, record: u64, at_us: u64) -> bool {
        record < self.warm_up_records || Duration::from_micros(at_us) < self.warm_up
    }

    /// Waits for the topic, which the broker may create, within `max.block.ms`.
    pub(crate) async fn find_topic(&self, client: &Client) -> Result<Arc<Metadata>, ClientError> {
        let found = timeout(self.settings.block_max, client.existing_or_created(&[&self.topic])).await;
        found.map_err(|_| ClientError::UnknownTopic { topic: self.topic.clone() })?
    }

    pub(crate) fn request(&self, topic_id: Uuid, partition_data: Vec<PartitionProduceData>) -> ProduceRequest {
        let topic = TopicProduceData { name: self.topic.clone(), topic_id, partition_data };
        ProduceRequest {
            transactional_id: self.settings.transactional_id.clone(),
            acks: self.settings.acks.to_wire(),
            timeout_ms: i32::try_from(self.settings.request_timeout.as_millis()).unwrap_or(i32::MAX),
            topic_data: vec![topic],
        }
    }
}

/// The version in which both sides can name a topic: without an id not the newest.
pub(crate) fn version(connection: &Connection, topic_id: Uuid) -> Result<i16, ConnectionError> {
    let version = connection.version::<ProduceRequest>()?;
    Ok(if topic_id.is_zero() { version.min(PRODUCE_BY_TOPIC_ID - 1) } else { version })
}

/// Produces until the load is done or `stop` is set, and all that was sent is answered. Records that could not be
/// delivered are counted by [`Stats`]; the error is why the load could not start.
pub async fn produce(
    client: Client,
    load: ProduceLoad,
    stats: Arc<Stats>,
    stop: Arc<AtomicBool>,
) -> Result<(), ClientError> {
    let metadata = load.find_topic(&client).await?;
    let is_idempotent = load.settings.is_idempotent().unwrap_or(false);
    let transactions = match &load.transactions {
        Some(transactions) => Some(transactions.clone()),
        None => load.settings.transactions(&client).await?,
    };
    let new = |transactions| TransactionLoop::new(transactions, &load.topic, load.transaction_duration);
    let transaction = transactions.map(new);
    let producer = match &transaction {
        Some(transaction) => Some(transaction.producer()),
        None if is_idempotent => Some(client.new_producer_id().await?),
        None => None,
    };
    let topic = metadata.topic(&load.topic)?;
    let leaders = topic.partitions.iter().map(|partition| partition.leader);
    let timer = Timer::new().expect("the system has a file descriptor for a timer");
    let engine = Engine {
        batches: Batches::new(leaders, load.settings.clone(), load.payload.headers(), load.seed),
        topic_id: topic.id,
        source: load.payload.source(load.seed),
        producer,
        transaction,
        links: BTreeMap::new(),
        refresh: None,
        refresh_at: None,
        expire_at: Instant::now(),
        made: 0,
        held: None,
        is_over: false,
        first_lane: 0,
        client,
        load,
        stats,
        stop,
    };
    for connection in engine.run(&timer).await {
        flush(&connection).await?;
    }
    Ok(())
}

/// Answers come in order, so that this one says that all before it has been read, with acks=0 too.
pub(crate) async fn flush(connection: &Connection) -> Result<(), ClientError> {
    connection.send(&MetadataRequest { topics: Some(Vec::new()), ..Default::default() }).await?;
    Ok(())
}

struct Engine {
    client: Client,
    load: ProduceLoad,
    stats: Arc<Stats>,
    stop: Arc<AtomicBool>,
    batches: Batches,
    topic_id: Uuid,
    source: Source,
    /// `None` without idempotence, and while a new one is fetched.
    producer: Option<ProducerId>,
    transaction: Option<TransactionLoop>,
    /// By broker.
    links: BTreeMap<i32, Link>,
    refresh: Option<JoinHandle<Result<Refreshed, ClientError>>>,
    refresh_at: Option<Instant>,
    /// When batches that have waited too long are looked for.
    expire_at: Instant,
    /// Records that were made.
    made: u64,
    /// A record that did not fit the buffer.
    held: Option<Held>,
    /// No more records are made.
    is_over: bool,
    /// Lanes take turns to be the first in a request.
    first_lane: usize,
}

struct Held {
    key: Option<Vec<u8>>,
    value: Vec<u8>,
    sent: Sent,
    /// When it first found none.
    since: Instant,
}

struct Refreshed {
    metadata: Arc<Metadata>,
    /// A new one, where it was asked for.
    producer: Option<ProducerId>,
}

/// The connection to one broker.
enum Link {
    Open {
        connection: Connection,
        in_flight: VecDeque<InFlight>,
    },
    Connecting(JoinHandle<Result<Connection, ClientError>>),
    /// Not tried again before then.
    Down(Instant),
}

struct InFlight {
    pending: PendingResponse<ProduceRequest>,
    sent: Instant,
    batches: Vec<(usize, ReadyBatch)>,
}

/// What has happened.
enum Event {
    Answered(InFlight, Result<ProduceResponse, ConnectionError>),
    Linked(i32, Result<Connection, ClientError>),
    Refreshed(Result<Refreshed, ClientError>),
    TransactionEvent(TransactionEvent),
}

/// Why [`Engine::make_records`] has stopped.
enum Made {
    /// There are more to make at once.
    Some,
    /// The next one is due then.
    Until(Instant),
    /// The buffer is full.
    Blocked,
    /// There are no more.
    All,
}

impl Engine {
    /// Returns the connections on which there may be unanswered requests.
    async fn run(mut self, timer: &Timer) -> Vec<Connection> {
        loop {
            let made = self.make_records();
            self.is_over = matches!(made, Made::All);
            let next = self.send(matches!(made, Made::Blocked));
            self.end_transaction();
            if self.is_over && self.batches.is_empty() && self.transaction.as_ref().is_none_or(TransactionLoop::is_over)
            {
                let links = self.links.into_values();
                let open = links.filter_map(|link| match link {
                    Link::Open { connection, .. } => Some(connection),
                    Link::Connecting(_) | Link::Down(_) => None,
                });
                return open.filter(|_| self.load.settings.acks == Acks::None).collect();
            }
            let wake_at = match made {
                Made::Some => {
                    // The tasks of the connections have to get their turn.
                    tokio::task::yield_now().await;
                    if let Some(event) = poll_fn(|cx| Poll::Ready(self.poll(cx))).await {
                        self.settle(event);
                    }
                    continue;
                }
                Made::Until(due) => Some(next.map_or(due, |next| next.min(due))),
                Made::Blocked | Made::All => next,
            };
            let wake_at = wake_at.unwrap_or_else(|| Instant::now() + Duration::from_millis(100));
            let event = tokio::select! {
                biased;
                event = poll_fn(|cx| self.poll(cx).map_or(Poll::Pending, Poll::Ready)) => Some(event),
                waited = timer.wait_until(wake_at) => {
                    waited.expect("a timer can be read");
                    None
                }
            };
            if let Some(event) = event {
                self.settle(event);
                // What else has been answered already goes along.
                while let Some(event) = poll_fn(|cx| Poll::Ready(self.poll(cx))).await {
                    self.settle(event);
                }
            }
        }
    }

    fn make_records(&mut self) -> Made {
        if self.is_over {
            return Made::All;
        }
        if self.transaction.as_ref().is_some_and(TransactionLoop::has_failed) {
            return Made::All;
        }
        for _ in 0..RECORDS_AT_ONCE {
            let now = Instant::now();
            if let Some(held) = self.held.take() {
                if now >= held.since + self.load.settings.block_max {
                    self.count_failed(1, NO_ROOM);
                    continue;
                }
                let timestamp_ms = self.load.started_wall_ms + (held.sent.at_us / 1000) as i64;
                if !self.batches.append(held.key.as_deref(), &held.value, timestamp_ms, held.sent, now) {
                    self.held = Some(held);
                    return Made::Blocked;
                }
                self.count_made(now);
                continue;
            }
            if self.transaction.as_ref().is_some_and(TransactionLoop::is_full) {
                return Made::Blocked;
            }
            let elapsed = now - self.stats.started();
            let due_us = self.load.pace.due_us(self.made);
            let is_done = self.load.records.is_some_and(|records| self.made >= records)
                || self.load.duration.is_some_and(|duration| self.load.pace.is_past(duration, due_us, elapsed))
                || self.stop.load(Ordering::Relaxed);
            if is_done {
                return Made::All;
            }
            let now_us = elapsed.as_micros() as u64;
            let due_us = due_us.unwrap_or(now_us);
            if due_us > now_us {
                return Made::Until((self.stats.started() + Duration::from_micros(due_us)).max(now + TICK));
            }
            let at_us = if matches!(self.load.pace, Pace::OpenLoop(_)) { due_us } else { now_us };
            let is_warm_up = self.load.is_warm_up(self.made, at_us);
            let (key, value) = self.source.record(self.made);
            self.made += 1;
            let sent = Sent { at_us, bytes: value.len() as u32, is_warm_up };
            let timestamp_ms = self.load.started_wall_ms + (now_us / 1000) as i64;
            if !self.batches.append(key, value, timestamp_ms, sent, now) {
                self.held = Some(Held { key: key.map(<[u8]>::to_vec), value: value.to_vec(), sent, since: now });
                return Made::Blocked;
            }
            self.count_made(now);
        }
        Made::Some
    }

    /// A record is part of the transaction.
    fn count_made(&mut self, now: Instant) {
        if let Some(transaction) = &mut self.transaction {
            transaction.made(now);
        }
    }

    /// Ends the transaction when it is full or the last one, and all of its records have come to their end.
    fn end_transaction(&mut self) {
        let Some(transaction) = &mut self.transaction else { return };
        if transaction.has_failed() {
            self.is_over = true;
            let held = usize::from(self.held.take().is_some());
            let now = Instant::now();
            let waiting: usize = (0..self.batches.lanes.len()).map(|lane| self.batches.expire(lane, now)).sum();
            self.count_failed(held + waiting, "their transaction has failed");
        }
        let Some(transaction) = &mut self.transaction else { return };
        if (self.is_over || transaction.is_full())
            && !transaction.is_over()
            && self.batches.is_empty()
            && let Some(transacted) = transaction.end(Instant::now())
        {
            self.settle(Event::TransactionEvent(transacted));
        }
    }

    /// Sends what is due. Returns when something will be, if nothing else happens.
    fn send(&mut self, is_blocked: bool) -> Option<Instant> {
        let now = Instant::now();
        let flush = self.is_over || is_blocked;
        let lanes = self.batches.lanes.len();
        let mut next: Option<Instant> = None;
        let mut earlier = |at: Instant| next = Some(next.map_or(at, |next| next.min(at)));
        let mut due = Vec::new();
        let mut is_outside = false;
        for lane in 0..lanes {
            if self.batches.is_due(lane, now, flush) {
                if !self.may_send(lane) {
                    is_outside = true;
                    continue;
                }
                let leader = self.batches.lanes[lane].leader;
                if leader < 0 {
                    self.refresh_at.get_or_insert(now + self.load.settings.retry_backoff);
                } else if !due.contains(&leader) {
                    due.push(leader);
                }
            } else if let Some(at) = self.batches.due_at(lane) {
                earlier(at);
            }
        }
        if now >= self.expire_at {
            self.expire(now);
        }
        for leader in due {
            if let Some(at) = self.send_to(leader, now, flush) {
                earlier(at);
            }
        }
        if is_outside && let Some(transaction) = &mut self.transaction {
            // Batches that are not due yet go along.
            let outside = (0..lanes).filter(|&lane| self.batches.next_bytes(lane) > 0 && !transaction.has(lane));
            transaction.add(outside.collect());
        }
        // While one refresh is under way, its end is what the next one waits for.
        if let (Some(at), None) = (self.refresh_at, &self.refresh) {
            if at <= now {
                self.refresh_at = None;
                self.refresh = Some(self.refresh());
            } else {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        next
    }

    /// Whether a lane is part of the transaction, if there is one.
    fn may_send(&self, lane: usize) -> bool {
        self.transaction.as_ref().is_none_or(|transaction| transaction.has(lane))
    }

    /// Sends all that one broker leads, as many requests as may be in flight. Returns when to try again if it is down.
    fn send_to(&mut self, leader: i32, now: Instant, flush: bool) -> Option<Instant> {
        if self.producer.is_none() && self.load.settings.is_idempotent().unwrap_or(false) {
            return None;
        }
        let link = self.links.entry(leader).or_insert(Link::Down(now));
        match link {
            Link::Down(until) if *until > now => return Some(*until),
            Link::Connecting(_) => return None,
            Link::Open { connection, .. } if connection.unsent_bytes() > UNSENT_BYTES_MAX => return Some(now + TICK),
            Link::Open { connection, .. } if connection.is_open() => {}
            // A connection that has failed still owes the answers of what was in flight.
            Link::Open { in_flight, .. } if !in_flight.is_empty() => return None,
            _ => {
                let client = self.client.clone();
                *link = Link::Connecting(tokio::spawn(async move { client.broker(leader).await }));
                return None;
            }
        }
        loop {
            let Some(Link::Open { in_flight, .. }) = self.links.get(&leader) else { return None };
            let lanes = self.batches.lanes.len();
            let is_due = |lane: usize| {
                self.batches.lanes[lane].leader == leader
                    && self.may_send(lane)
                    && self.batches.is_due(lane, now, flush)
            };
            // Once one lane of a broker is due, its others go along.
            if in_flight.len() >= self.load.settings.in_flight_max || !(0..lanes).any(is_due) {
                return None;
            }
            let mut bytes = 0;
            let mut batches = Vec::new();
            for lane in (0..lanes).map(|n| (self.first_lane + n) % lanes) {
                if self.batches.lanes[lane].leader != leader || !self.may_send(lane) {
                    continue;
                }
                let next_bytes = self.batches.next_bytes(lane);
                if next_bytes == 0 || (bytes > 0 && bytes + next_bytes > self.load.settings.request_bytes_max) {
                    continue;
                }
                if let Some(batch) = self.batches.take(lane, self.producer, now) {
                    bytes += batch.bytes.len();
                    batches.push((lane, batch));
                }
            }
            self.first_lane = (self.first_lane + 1) % lanes;
            if batches.is_empty() {
                return None;
            }
            if let Some(at) = self.request(leader, batches, now) {
                return Some(at);
            }
            if self.load.settings.acks == Acks::None {
                // Looks again at what is unsent.
                return Some(now + TICK);
            }
        }
    }

    /// Starts one request. Returns when to try again if that fails.
    fn request(&mut self, leader: i32, batches: Vec<(usize, ReadyBatch)>, now: Instant) -> Option<Instant> {
        let Some(Link::Open { connection, in_flight }) = self.links.get_mut(&leader) else {
            unreachable!("requests start on open connections");
        };
        let settings = &self.load.settings;
        let partition_data = batches.iter().map(|(lane, batch)| PartitionProduceData {
            index: *lane as i32,
            records: Some(Records::Inline(batch.bytes.clone())),
        });
        let request = self.load.request(self.topic_id, partition_data.collect());
        let mut version = version(connection, self.topic_id);
        if let Some(transaction) = &mut self.transaction {
            if !transaction.produce_adds_partitions() {
                version = version.map(|version| version.min(PRODUCE_ADDS_PARTITIONS - 1));
            }
            batches.iter().for_each(|(lane, _)| transaction.sent(*lane));
        }
        let started = match settings.acks {
            Acks::None => version.and_then(|version| connection.post(&request, version)).map(|()| None),
            _ => version.and_then(|version| connection.start_as(&request, version, settings.request_timeout)).map(Some),
        };
        match started {
            Ok(Some(pending)) => {
                self.stats.requested(batches.iter().map(|(_, batch)| facts(batch, now)));
                in_flight.push_back(InFlight { pending, sent: now, batches });
                None
            }
            Ok(None) => {
                self.stats.requested(batches.iter().map(|(_, batch)| facts(batch, now)));
                for (lane, batch) in batches {
                    self.stats.acknowledged(&batch.sent);
                    self.batches.end(lane, &batch);
                }
                None
            }
            Err(error) => {
                let until = now + settings.retry_backoff;
                for (lane, batch) in batches {
                    self.fail(lane, batch, error.is_retriable(), &error.to_string());
                }
                self.links.insert(leader, Link::Down(until));
                Some(until)
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        for (&leader, link) in &mut self.links {
            match link {
                Link::Open { in_flight, .. } => {
                    let Some(first) = in_flight.front_mut() else { continue };
                    if let Poll::Ready(answer) = Pin::new(&mut first.pending).poll(cx) {
                        let answered = in_flight.pop_front().expect("it is there");
                        return Some(Event::Answered(answered, answer));
                    }
                }
                Link::Connecting(task) => {
                    if let Poll::Ready(connected) = Pin::new(task).poll(cx) {
                        return Some(Event::Linked(leader, connected.expect("connecting does not panic")));
                    }
                }
                Link::Down(_) => {}
            }
        }
        if let Some(task) = &mut self.refresh
            && let Poll::Ready(refreshed) = Pin::new(task).poll(cx)
        {
            self.refresh = None;
            return Some(Event::Refreshed(refreshed.expect("a refresh does not panic")));
        }
        if let Some(transaction) = &mut self.transaction
            && let Poll::Ready(transacted) = transaction.poll(cx)
        {
            return Some(Event::TransactionEvent(transacted));
        }
        None
    }

    fn settle(&mut self, event: Event) {
        let backoff = self.load.settings.retry_backoff;
        match event {
            Event::Answered(request, Ok(response)) => self.settle_answer(request, &response),
            Event::Answered(request, Err(error)) => {
                self.refresh_at.get_or_insert_with(Instant::now);
                for (lane, batch) in request.batches {
                    self.fail(lane, batch, error.is_retriable(), &error.to_string());
                }
            }
            Event::Linked(leader, Ok(connection)) => {
                self.links.insert(leader, Link::Open { connection, in_flight: VecDeque::new() });
            }
            Event::Linked(leader, Err(error)) => {
                tracing::debug!(%error, leader, "cannot connect");
                let until = Instant::now() + backoff;
                self.refresh_at.get_or_insert(until);
                self.links.insert(leader, Link::Down(until));
            }
            Event::Refreshed(Ok(Refreshed { metadata, producer })) => {
                if producer.is_some() {
                    self.producer = producer;
                }
                if let Ok(topic) = metadata.topic(&self.load.topic) {
                    self.topic_id = topic.id;
                    for (lane, partition) in self.batches.lanes.iter_mut().zip(&topic.partitions) {
                        lane.leader = partition.leader;
                    }
                }
            }
            Event::Refreshed(Err(_)) => _ = self.refresh_at.get_or_insert(Instant::now() + backoff),
            Event::TransactionEvent(TransactionEvent::Added) => {}
            Event::TransactionEvent(TransactionEvent::Committed { took }) => {
                self.stats.committed(took, self.load.is_warm_up(self.made, self.stats.now_us()));
                self.producer = self.transaction.as_ref().map(TransactionLoop::producer);
            }
            Event::TransactionEvent(TransactionEvent::Aborted { records, reason }) => {
                self.count_failed(records, &format!("they were acknowledged, but their transaction failed: {reason}"));
            }
        }
    }

    fn settle_answer(&mut self, request: InFlight, response: &ProduceResponse) {
        self.stats.answered(request.batches.len(), request.sent.elapsed(), response.throttle_time_ms);
        for (lane, batch) in request.batches {
            let answers = response.responses.iter().flat_map(|topic| &topic.partition_responses);
            let answer = answers.into_iter().find(|answer| answer.index == lane as i32);
            let code = answer.map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |answer| answer.error_code);
            match code {
                // An earlier try has arrived, though its answer has not.
                ErrorCode::NONE | ErrorCode::DUPLICATE_SEQUENCE_NUMBER => {
                    self.stats.acknowledged(&batch.sent);
                    self.batches.delivered(lane, &batch);
                    if let Some(transaction) = &mut self.transaction {
                        transaction.acknowledged(batch.sent.len());
                    }
                }
                ErrorCode::MESSAGE_TOO_LARGE => match self.batches.split(lane, batch) {
                    Ok(()) => self.stats.split(),
                    Err(batch) => {
                        self.stats.failed(batch.sent.len(), &reason(code, answer));
                        self.batches.refused(lane, &batch);
                        if let Some(transaction) = &mut self.transaction {
                            transaction.fail(&reason(code, answer));
                        }
                    }
                },
                // It could not be in order after the one before it had failed.
                ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER if self.batches.has_failed(lane) => {
                    self.fail(lane, batch, true, &code.to_string());
                }
                code => {
                    if code.is_retriable() {
                        self.refresh_at.get_or_insert_with(Instant::now);
                    }
                    self.fail(lane, batch, code.is_retriable(), &reason(code, answer));
                }
            }
        }
    }

    /// A batch was not delivered by this try.
    fn fail(&mut self, lane: usize, batch: ReadyBatch, is_retriable: bool, reason: &str) {
        let now = Instant::now();
        let settings = &self.load.settings;
        let is_in_time = now < batch.begun + settings.delivery_timeout;
        let is_in_time = is_in_time && !self.transaction.as_ref().is_some_and(TransactionLoop::has_failed);
        if is_retriable && is_in_time && batch.tries <= settings.retries_max && settings.acks != Acks::None {
            let at = now + settings.retry_backoff;
            return self.batches.put_back(lane, batch, at);
        }
        self.stats.failed(batch.sent.len(), reason);
        self.batches.end(lane, &batch);
        if let Some(transaction) = &mut self.transaction {
            transaction.fail(reason);
        } else if self.producer.is_some() {
            // The broker's last sequence is unknown: what follows is sent with another producer id.
            let records = self.batches.give_up_failed(lane);
            self.count_failed(records, "an earlier batch of the partition had failed");
            self.producer = None;
            self.refresh_at = Some(now);
        }
    }

    fn expire(&mut self, now: Instant) {
        self.expire_at = now + EXPIRY_INTERVAL;
        let Some(limit) = now.checked_sub(self.load.settings.delivery_timeout) else { return };
        for lane in 0..self.batches.lanes.len() {
            let records = self.batches.expire(lane, limit);
            self.count_failed(records, LATE);
            if records > 0
                && let Some(transaction) = &mut self.transaction
            {
                transaction.fail(LATE);
            }
        }
    }

    fn count_failed(&self, records: usize, reason: &str) {
        if records > 0 {
            self.stats.failed(records, reason);
        }
    }

    /// Looks anew for the leaders, and for a producer id where there is none.
    fn refresh(&self) -> JoinHandle<Result<Refreshed, ClientError>> {
        let (client, topic) = (self.client.clone(), self.load.topic.clone());
        let wants_id = self.producer.is_none() && self.load.settings.is_idempotent().unwrap_or(false);
        tokio::spawn(async move {
            client.forget(&topic);
            let metadata = client.existing(&[&topic]).await?;
            let producer = if wants_id { Some(client.new_producer_id().await?) } else { None };
            Ok(Refreshed { metadata, producer })
        })
    }
}

fn facts(batch: &ReadyBatch, now: Instant) -> BatchFacts {
    BatchFacts {
        records: batch.sent.len(),
        bytes: batch.bytes.len(),
        plain_bytes: batch.plain_bytes,
        queued: now - batch.begun,
        is_retry: batch.tries > 1,
    }
}

/// Why a broker has refused a batch, with its error message if it has one.
fn reason(code: ErrorCode, answer: Option<&PartitionProduceResponse>) -> String {
    match answer.and_then(|answer| answer.error_message.as_deref()) {
        Some(message) => format!("{code}: {message}"),
        None => code.to_string(),
    }
}
