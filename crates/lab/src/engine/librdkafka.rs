//! The load of one producer, sent by librdkafka's.
//!
//! A thread makes the records when they are due and hands them to librdkafka, which gathers and sends them with threads
//! of its own; another thread of each producer takes the delivery reports. As with our producer, a record's latency
//! counts from when it was due, or ready to be sent, and contains the time that it waited for space in the buffer.

mod config;
mod deliveries;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use client::Client;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use tokio::time::Instant;

use super::EngineError;
use crate::payload::Source;
use crate::produce::{NO_ROOM, ProduceLoad, TICK};
use crate::rate::Pace;
use crate::settings::ProducerSettings;
use crate::stats::{Sent, Stats};
use deliveries::{Deliveries, pack, reason};

/// How often the thread that makes records looks whether it is to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Whether librdkafka takes these settings.
pub(super) fn check(settings: &ProducerSettings) -> Result<(), EngineError> {
    config::check(settings)
}

pub(super) async fn produce(
    client: Client,
    load: ProduceLoad,
    stats: Arc<Stats>,
    stop: Arc<AtomicBool>,
) -> Result<(), EngineError> {
    load.find_topic(&client).await?;
    let config = config::with_servers(&load.settings, client.config());
    let deliveries = Deliveries::new(&load.topic, Arc::clone(&stats));
    let producer = config.create_with_context(deliveries).map_err(|error| EngineError::Library(error.to_string()))?;
    let abandoned = Arc::new(AtomicBool::new(false));
    let _abandons = SetOnDrop(Arc::clone(&abandoned));
    let source = load.payload.source(load.seed);
    let sender = Sender { producer, headers: headers(&load), load, stats, stop, abandoned };
    tokio::task::spawn_blocking(move || sender.run(source)).await.expect("a sender does not panic")
}

/// Ends the thread when nobody waits for it any more.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Sender {
    producer: ThreadedProducer<Deliveries>,
    /// Of every record.
    headers: Option<OwnedHeaders>,
    load: ProduceLoad,
    stats: Arc<Stats>,
    /// No more records are made.
    stop: Arc<AtomicBool>,
    /// Nor is waited for those that were.
    abandoned: Arc<AtomicBool>,
}

fn headers(load: &ProduceLoad) -> Option<OwnedHeaders> {
    let headers = load.payload.headers();
    let insert = |all: OwnedHeaders, (name, value): &(bytes::Bytes, bytes::Bytes)| {
        all.insert(Header { key: &String::from_utf8_lossy(name), value: Some(&value[..]) })
    };
    (!headers.is_empty()).then(|| headers.iter().fold(OwnedHeaders::new(), insert))
}

impl Sender {
    fn run(self, mut source: Source) -> Result<(), EngineError> {
        let mut made = 0;
        let mut result = Ok(());
        while result.is_ok() {
            let elapsed = self.stats.started().elapsed();
            let due_us = self.load.pace.due_us(made);
            if self.is_over(made, due_us, elapsed) {
                break;
            }
            let now_us = elapsed.as_micros() as u64;
            let due_us = due_us.unwrap_or(now_us);
            if due_us > now_us {
                thread::sleep(Duration::from_micros(due_us - now_us).clamp(TICK, LOOK_INTERVAL));
                continue;
            }
            let at_us = if matches!(self.load.pace, Pace::OpenLoop(_)) { due_us } else { now_us };
            let (key, value) = source.record(made);
            let sent = Sent { at_us, bytes: value.len() as u32, is_warm_up: self.load.is_warm_up(made, at_us) };
            made += 1;
            result = self.send(key, value, sent, now_us);
        }
        // Batches that linger go at once.
        while self.producer.flush(LOOK_INTERVAL).is_err() && !self.is_abandoned() {}
        self.stats.counted(self.producer.context().requests());
        result
    }

    fn is_over(&self, made: u64, due_us: Option<u64>, elapsed: Duration) -> bool {
        self.load.records.is_some_and(|records| made >= records)
            || self.load.duration.is_some_and(|duration| self.load.pace.is_past(duration, due_us, elapsed))
            || self.stop.load(Ordering::Relaxed)
            || self.is_abandoned()
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Waits while the buffer is full, for `max.block.ms` at most. The error is why no record can be sent any more.
    fn send(&self, key: Option<&[u8]>, value: &[u8], sent: Sent, now_us: u64) -> Result<(), EngineError> {
        let mut record = BaseRecord::with_opaque_to(&self.load.topic, pack(sent)).payload(value);
        record.key = key;
        record.headers = self.headers.clone();
        record.timestamp = Some(self.load.started_wall_ms + (now_us / 1000) as i64);
        let mut since = None;
        loop {
            let (error, unsent) = match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                self.stats.failed(1, &reason(&error));
                return match self.producer.client().fatal_error() {
                    Some((_, reason)) => Err(EngineError::Library(reason)),
                    None => Ok(()),
                };
            }
            let is_in_time = since.get_or_insert_with(Instant::now).elapsed() < self.load.settings.block_max;
            if !is_in_time || self.is_abandoned() {
                self.stats.failed(1, NO_ROOM);
                return Ok(());
            }
            record = unsent;
            thread::sleep(TICK);
        }
    }
}
