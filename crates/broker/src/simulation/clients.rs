//! Producers and consumers. They know leaders as the newest metadata has them, or sometimes not, and repeat themselves
//! as real clients do.

use std::sync::Arc;

use log::simdisk::Rng;
use wire::api::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use wire::batch::{Batch, BatchBuilder};
use wire::{ErrorCode, Records};

use super::env::START_WALL_MS;
use super::groups::Commit;
use super::ledger::{Ledger, Place};
use super::messages::Said;
use super::replica::batches_of;
use crate::group::OFFSETS_TOPIC;
use crate::meta::NO_LEADER;
use crate::partition::Acks;

/// How long a client waits for an answer.
const ANSWER_MS: i64 = 1000;
const RETRY_MS: i64 = 50;
const RECORDS_MAX: u64 = 3;

/// What all clients share.
pub(super) struct Around<'a> {
    pub(super) rng: &'a mut Rng,
    pub(super) ledger: &'a mut Ledger,
    pub(super) now_ms: i64,
    pub(super) nodes: i32,
    /// Of the values and requests of all clients, the last one.
    pub(super) last_value: &'a mut u64,
}

impl Around<'_> {
    fn next(&mut self) -> u64 {
        *self.last_value += 1;
        *self.last_value
    }

    /// Whom a client takes for the leader.
    fn leader(&mut self, place: &Place) -> Option<i32> {
        if self.rng.percent(10) {
            return Some(self.rng.below(self.nodes as u64) as i32);
        }
        self.ledger.partition(place).map(|partition| partition.leader).filter(|leader| *leader != NO_LEADER)
    }
}

/// An idempotent producer for one partition, with one batch under way that it repeats until it is acknowledged.
pub(super) struct Producer {
    place: Place,
    producer_id: i64,
    next_sequence: i32,
    acknowledged: u64,
    batch: Option<(Batch, i32)>,
    waits_for: Option<(u64, i64)>,
    next_ms: i64,
    /// How long it rests after a batch.
    pub(super) rests_ms: u64,
}

impl Producer {
    pub(super) fn new(place: Place, producer_id: i64, rests_ms: u64) -> Self {
        Self {
            place,
            producer_id,
            next_sequence: 0,
            acknowledged: 0,
            batch: None,
            waits_for: None,
            next_ms: 0,
            rests_ms,
        }
    }

    /// How many batches.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Whether nothing of it is under way.
    pub(super) fn is_done(&self) -> bool {
        self.batch.is_none()
    }

    pub(super) fn step(&mut self, around: &mut Around<'_>, stops: bool) -> Option<(i32, Said)> {
        if self.waits_for.is_some_and(|(_, since_ms)| around.now_ms - since_ms >= ANSWER_MS) {
            self.waits_for = None;
        }
        if self.waits_for.is_some() || self.next_ms > around.now_ms {
            return None;
        }
        if self.batch.is_none() {
            if stops {
                return None;
            }
            let count = 1 + around.rng.below(RECORDS_MAX) as i32;
            let builder = BatchBuilder::new().producer(self.producer_id, 0, self.next_sequence);
            self.batch = Some((batch(builder, count, around), count));
        }
        let leader = around.leader(&self.place)?;
        let (batch, _) = self.batch.clone()?;
        let number = around.next();
        self.waits_for = Some((number, around.now_ms));
        Some((leader, Said::Produce(number, self.place.clone(), batch, Acks::All)))
    }

    pub(super) fn hear(&mut self, from: i32, number: u64, outcome: Result<i64, ErrorCode>, around: &mut Around<'_>) {
        if self.waits_for.is_none_or(|(waited, _)| waited != number) {
            return;
        }
        self.waits_for = None;
        match outcome {
            Ok(_) => {
                let (_, count) = self.batch.take().expect("it was sent");
                self.next_sequence += count;
                self.acknowledged += 1;
                self.next_ms = around.now_ms + around.rng.below(self.rests_ms) as i64;
            }
            Err(
                code @ (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
                | ErrorCode::INVALID_PRODUCER_EPOCH
                | ErrorCode::UNKNOWN_SERVER_ERROR),
                // One that does not know that it leads no more knows nothing of what has been acknowledged since.
            ) if around.ledger.partition(&self.place).is_some_and(|partition| partition.leader == from) => {
                panic!("{:?}: an error reaches the producer at sequence {}: {code}", self.place, self.next_sequence)
            }
            Err(_) => self.next_ms = around.now_ms + RETRY_MS,
        }
    }
}

/// A batch of new values, with the right time.
fn batch(mut builder: BatchBuilder, count: i32, around: &mut Around<'_>) -> Batch {
    for _ in 0..count {
        let value = around.next();
        builder.push(START_WALL_MS + around.now_ms, None, Some(&value.to_be_bytes()), &[]);
    }
    builder.build()
}

/// A record of somebody who sends it once, and does not care or goes by the answer.
pub(super) fn produce_once(place: &Place, around: &mut Around<'_>) -> Option<(i32, Said)> {
    let acks = [Acks::All, Acks::Leader, Acks::None][around.rng.below(3) as usize];
    let leader = around.leader(place)?;
    let count = 1 + around.rng.below(RECORDS_MAX) as i32;
    let batch = batch(BatchBuilder::new(), count, around);
    Some((leader, Said::Produce(around.next(), place.clone(), batch, acks)))
}

/// A consumer of one partition, which commits how far it has got.
pub(super) struct Consumer {
    place: Place,
    offset: i64,
    waits_for: Option<(u64, i64)>,
    commits: Option<(u64, i64)>,
    next_ms: i64,
}

impl Consumer {
    pub(super) fn new(place: Place) -> Self {
        Self { place, offset: 0, waits_for: None, commits: None, next_ms: 0 }
    }

    pub(super) fn step(&mut self, around: &mut Around<'_>, stops: bool, said: &mut Vec<(i32, Said)>) {
        let now_ms = around.now_ms;
        for waiting in [&mut self.waits_for, &mut self.commits] {
            if waiting.is_some_and(|(_, since_ms)| now_ms - since_ms >= ANSWER_MS) {
                *waiting = None;
            }
        }
        if self.waits_for.is_some() || self.next_ms > now_ms {
            return;
        }
        let Some(leader) = around.leader(&self.place) else { return };
        let Some(topic_id) = around.ledger.newest.topic(&self.place.0).map(|topic| topic.id) else { return };
        let partition = FetchPartition {
            partition: self.place.1,
            current_leader_epoch: -1,
            fetch_offset: self.offset,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: 1000,
            ..FetchPartition::default()
        };
        let request = FetchRequest {
            replica_state: Default::default(),
            max_bytes: 10_000,
            session_epoch: -1,
            topics: vec![FetchTopic { topic_id, partitions: vec![partition], ..FetchTopic::default() }],
            ..FetchRequest::default()
        };
        let number = around.next();
        self.waits_for = Some((number, now_ms));
        said.push((leader, Said::Fetch(number, request)));
        if self.commits.is_none() && !stops && around.rng.percent(30) {
            self.commit(around, said);
        }
    }

    fn commit(&mut self, around: &mut Around<'_>, said: &mut Vec<(i32, Said)>) {
        let Some(coordinator) = around.leader(&(OFFSETS_TOPIC.into(), 0)) else { return };
        let number = around.next();
        let commit = Commit {
            number,
            group: "readers".to_owned(),
            topic: self.place.0.to_string(),
            partition: self.place.1,
            offset: self.offset,
        };
        self.commits = Some((number, around.now_ms));
        said.push((coordinator, Said::Commit(number, commit)));
        said.push((coordinator, Said::FetchOffset("readers".to_owned(), self.place.clone())));
    }

    pub(super) fn hear_committed(&mut self, number: u64) {
        if self.commits.is_some_and(|(waited, _)| waited == number) {
            self.commits = None;
        }
    }

    pub(super) fn hear_fetched(&mut self, number: u64, response: FetchResponse, around: &mut Around<'_>) {
        if self.waits_for.is_none_or(|(waited, _)| waited != number) {
            return;
        }
        self.waits_for = None;
        self.next_ms = around.now_ms + 20 + around.rng.below(200) as i64;
        for data in response.responses.into_iter().flat_map(|topic| topic.partitions) {
            match data.error_code {
                ErrorCode::NONE => {}
                ErrorCode::OFFSET_OUT_OF_RANGE => self.offset = 0.max(data.log_start_offset),
                _ => continue,
            }
            let Some(Records::Inline(bytes)) = data.records else { continue };
            // The last one may be cut off.
            let whole = wire::batch::Batches::new(bytes.clone()).map_while(Result::ok).map(|batch| batch.bytes.len());
            let whole: usize = whole.sum();
            for batch in batches_of(bytes.slice(..whole)) {
                around.ledger.sees(&self.place, "a consumer", &batch);
                self.offset = batch.header.next_offset();
            }
        }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }
}

/// The partitions of a topic.
pub(super) fn places(topic: &str, count: i32) -> impl Iterator<Item = Place> {
    let topic: Arc<str> = topic.into();
    (0..count).map(move |partition| (Arc::clone(&topic), partition))
}
