//! What librdkafka reports: the end of each record, and once a second its statistics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryResult, ProducerContext};
use serde::Deserialize;
use wire::ErrorCode;

use crate::produce::LATE;
use crate::stats::{Requests, Sent, Stats};

// A record's time goes through librdkafka as a pointer that is none.
const _: () = assert!(usize::BITS == 64, "times do not fit into a pointer");

/// All but the size, which librdkafka tells.
pub(super) fn pack(sent: Sent) -> usize {
    (sent.at_us as usize) << 1 | usize::from(sent.is_warm_up)
}

fn unpack(packed: usize, bytes: usize) -> Sent {
    Sent { at_us: (packed >> 1) as u64, bytes: bytes as u32, is_warm_up: packed & 1 == 1 }
}

/// Why a record was not delivered: in Kafka's words where brokers or our producer have them, too.
pub(super) fn reason(error: &KafkaError) -> String {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::MessageTimedOut) => LATE.to_owned(),
        Some(code) => match i16::try_from(code as i32) {
            Ok(number) if number > 0 => ErrorCode(number).to_string(),
            _ => code.to_string(),
        },
        None => error.to_string(),
    }
}

/// Receives the reports of one producer.
pub(super) struct Deliveries {
    topic: String,
    stats: Arc<Stats>,
    acknowledged: AtomicU64,
    batches: Mutex<Batches>,
}

/// What the statistics have told so far.
#[derive(Clone, Copy, Default)]
struct Batches {
    batches: u64,
    /// In these batches.
    records: u64,
    throttled_ms: u64,
}

/// The part of the statistics that is looked at.
#[derive(Deserialize)]
struct Statistics {
    brokers: BTreeMap<String, BrokerStatistics>,
    topics: BTreeMap<String, TopicStatistics>,
}

#[derive(Deserialize)]
struct BrokerStatistics {
    throttle: Window,
}

#[derive(Deserialize)]
struct TopicStatistics {
    batchcnt: Window,
}

/// Of the time since the last statistics.
#[derive(Deserialize)]
struct Window {
    cnt: u64,
    sum: u64,
}

impl Deliveries {
    pub(super) fn new(topic: &str, stats: Arc<Stats>) -> Self {
        Self { topic: topic.to_owned(), stats, acknowledged: AtomicU64::new(0), batches: Mutex::default() }
    }

    /// The requests of all records: librdkafka's carry one batch each. Of those behind the last statistics is assumed
    /// that they are as full as the others; a producer that has ended before the first ones knows of none.
    pub(super) fn requests(&self) -> Requests {
        let Batches { batches, records, throttled_ms } = *self.batches.lock();
        let per_batch = records as f64 / batches.max(1) as f64;
        let acknowledged = self.acknowledged.load(Ordering::Relaxed) as f64;
        let batches = if records > 0 { (acknowledged / per_batch).round() as u64 } else { 0 };
        Requests { requests: batches, batches, throttled: Duration::from_millis(throttled_ms) }
    }

    fn count(&self, statistics: &Statistics) {
        let mut all = self.batches.lock();
        if let Some(topic) = statistics.topics.get(&self.topic) {
            all.batches += topic.batchcnt.cnt;
            all.records += topic.batchcnt.sum;
        }
        all.throttled_ms += statistics.brokers.values().map(|broker| broker.throttle.sum).sum::<u64>();
    }
}

impl ClientContext for Deliveries {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, message, "librdkafka");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka");
    }

    fn stats_raw(&self, statistics: &[u8]) {
        match serde_json::from_slice(statistics) {
            Ok(statistics) => self.count(&statistics),
            Err(error) => tracing::debug!(%error, "statistics of librdkafka that cannot be read"),
        }
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, packed: usize) {
        match result {
            Ok(message) => {
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
                self.stats.acknowledged(&[unpack(packed, message.payload_len())]);
            }
            Err((error, _)) => self.stats.failed(1, &reason(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_records_time_goes_through_librdkafka() {
        for (at_us, is_warm_up) in [(0, false), (0, true), (u64::MAX >> 1, true)] {
            let sent = unpack(pack(Sent { at_us, bytes: 0, is_warm_up }), 7);
            assert_eq!((sent.at_us, sent.is_warm_up, sent.bytes), (at_us, is_warm_up, 7));
        }
    }

    #[test]
    fn batches_behind_the_last_statistics_are_taken_for_as_full_as_the_others() {
        let deliveries = Deliveries::new("t", Arc::new(Stats::start()));
        assert_eq!(deliveries.requests(), Requests::default());
        let json = r#"{ "brokers": { "b": { "throttle": { "cnt": 2, "sum": 30, "avg": 15 } } }, "topics": {
            "t": { "batchcnt": { "cnt": 5, "sum": 100 } }, "other": { "batchcnt": { "cnt": 9, "sum": 9 } } } }"#;
        deliveries.stats_raw(json.as_bytes());
        deliveries.stats_raw(json.as_bytes());
        deliveries.acknowledged.store(240, Ordering::Relaxed);
        let expected = Requests { requests: 12, batches: 12, throttled: Duration::from_millis(60) };
        assert_eq!(deliveries.requests(), expected);
    }

    #[test]
    fn reasons_are_those_of_the_other_engines() {
        let reason = |code| reason(&KafkaError::MessageProduction(code));
        assert_eq!(reason(RDKafkaErrorCode::MessageSizeTooLarge), "MESSAGE_TOO_LARGE");
        assert_eq!(reason(RDKafkaErrorCode::MessageTimedOut), "not delivered within delivery.timeout.ms");
        assert_eq!(reason(RDKafkaErrorCode::PurgeQueue), "PurgeQueue (Local: Purged in queue)");
    }
}
