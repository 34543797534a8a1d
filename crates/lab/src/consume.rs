//! The load of one consumer: reads as fast as records come, in a group or on its own, and counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use client::{
    Client, ClientError, ConsumedRecord, Consumer, EARLIEST, FetchTotals, LATEST, Membership, ResetOffset,
    TopicPartition,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::settings::ConsumerSettings;
use crate::stats::Tally;

/// How often a consumer looks whether the others have read enough, or it is to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What one consumer is to do.
#[derive(Clone, Debug)]
pub struct ConsumeLoad {
    pub topics: Vec<String>,
    /// Shares the partitions with the others of its group; reads all of them without one.
    pub group_id: Option<String>,
    /// How many records all consumers together are to read.
    pub records: Option<u64>,
    pub duration: Option<Duration>,
    /// The consumer ends when no record has come for so long.
    pub idle_max: Duration,
    /// Where to begin in these partitions, unless the group knows better; by `auto.offset.reset` in the others.
    pub starts: BTreeMap<TopicPartition, i64>,
    /// Begins anew where it began whenever all is read that was there at the beginning.
    pub rewinds: bool,
    /// The clock of the records' timestamps, where it is this process that makes them.
    pub clock: Option<Clock>,
    pub settings: ConsumerSettings,
}

/// Wall time that no adjustment moves: what it was at some moment, and what has passed since.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    since: Instant,
    wall_ms: i64,
}

impl Clock {
    /// It is `wall_ms` now.
    pub fn at(wall_ms: i64) -> Self {
        Self { since: Instant::now(), wall_ms }
    }

    pub fn now_ms(&self) -> i64 {
        self.wall_ms + self.since.elapsed().as_millis() as i64
    }
}

/// A count, at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consumed {
    pub records: u64,
    /// Of keys and values.
    pub bytes: u64,
    /// The longest time of all consumers until the group had its assignment.
    pub joining: Duration,
}

impl Consumed {
    /// What has come since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            records: self.records - before.records,
            bytes: self.bytes - before.bytes,
            joining: self.joining.saturating_sub(before.joining),
        }
    }
}

/// Shared by the consumers of a run and its display.
pub struct ConsumeStats {
    started: Instant,
    records: AtomicU64,
    bytes: AtomicU64,
    joining_us: AtomicU64,
    last_record_us: AtomicU64,
    timed_out: AtomicBool,
    /// Consumers that have found what to read.
    assigned: AtomicU64,
    end_to_end: Mutex<Tally>,
    fetches: Mutex<FetchTotals>,
}

impl ConsumeStats {
    /// The clock of the run starts now.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            records: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            joining_us: AtomicU64::new(0),
            last_record_us: AtomicU64::new(0),
            timed_out: AtomicBool::new(false),
            assigned: AtomicU64::new(0),
            end_to_end: Mutex::default(),
            fetches: Mutex::default(),
        }
    }

    fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    pub fn consumed(&self) -> Consumed {
        Consumed {
            records: self.records.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            joining: Duration::from_micros(self.joining_us.load(Ordering::Relaxed)),
        }
    }

    /// From the start to the last record.
    pub fn elapsed(&self) -> Duration {
        Duration::from_micros(self.last_record_us.load(Ordering::Relaxed))
    }

    /// How many consumers have found what to read, and from where.
    pub fn assigned(&self) -> u64 {
        self.assigned.load(Ordering::Relaxed)
    }

    /// Fetch figures of the consumers that have ended.
    pub fn fetches(&self) -> FetchTotals {
        *self.fetches.lock()
    }

    /// From when records were made until they were here, in whole milliseconds, since the last call.
    pub fn take_end_to_end(&self) -> Tally {
        std::mem::take(&mut self.end_to_end.lock())
    }

    fn count_end_to_end(&self, records: &[ConsumedRecord], now_ms: i64) {
        let mut tally = self.end_to_end.lock();
        for same in records.chunk_by(|a, b| a.timestamp == b.timestamp) {
            let latency_us = (now_ms - same[0].timestamp).max(0) as u64 * 1000;
            tally.record_many(same.len() as u64, latency_us, 0);
        }
    }

    /// Whether a consumer has ended because no more records came.
    pub fn has_timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }
}

/// Consumes until enough is read, nothing comes any more, or `stop` is set. `heart` keeps the membership alive: a
/// client of its own, so that waiting for records does not hold up the heartbeats.
pub async fn consume(
    client: Client,
    heart: Client,
    load: ConsumeLoad,
    stats: &ConsumeStats,
    stop: &AtomicBool,
) -> Result<(), ClientError> {
    let topics: Vec<&str> = load.topics.iter().map(String::as_str).collect();
    client.existing(&topics).await?;
    let membership = load
        .group_id
        .as_ref()
        .map(|group| Membership::new(heart, group, load.topics.clone(), load.settings.group.clone()));
    let consumer = Consumer::new(client.clone(), load.settings.fetch.clone());
    let joining = Duration::ZERO;
    let mut reading = ConsumerLoop {
        client,
        consumer,
        membership,
        load,
        stats,
        stop,
        joining,
        round: Round::default(),
        is_assigned: false,
    };
    let result = reading.run().await;
    stats.fetches.lock().add(reading.consumer.totals());
    if result.is_ok() {
        reading.commit().await;
    }
    if let Some(membership) = reading.membership
        && let Err(error) = membership.leave().await
    {
        tracing::debug!(%error, "leaving the group");
    }
    result
}

struct ConsumerLoop<'a> {
    client: Client,
    consumer: Consumer,
    membership: Option<Membership>,
    load: ConsumeLoad,
    stats: &'a ConsumeStats,
    stop: &'a AtomicBool,
    /// How long this consumer has waited for its assignment.
    joining: Duration,
    round: Round,
    is_assigned: bool,
}

/// One pass over what was there at the beginning.
#[derive(Default)]
struct Round {
    starts: BTreeMap<TopicPartition, i64>,
    ends: BTreeMap<TopicPartition, i64>,
    /// Partitions that are not read to their end.
    left: BTreeSet<TopicPartition>,
}

impl Round {
    fn begin(&mut self) {
        let is_filled = |partition: &&TopicPartition| self.ends.get(partition) > self.starts.get(partition);
        self.left = self.starts.keys().filter(is_filled).cloned().collect();
    }
}

impl ConsumerLoop<'_> {
    async fn run(&mut self) -> Result<(), ClientError> {
        self.assign().await?;
        let mut last_record = Instant::now();
        while !self.is_done() {
            tokio::select! {
                biased;
                () = rejoin_needed(self.membership.as_ref()) => {
                    self.assign().await?;
                    last_record = Instant::now();
                }
                batch = self.consumer.next() => {
                    let (partition, records) = batch?;
                    if self.load.rewinds {
                        self.rewind(&partition);
                    }
                    if records.is_empty() {
                        continue;
                    }
                    if let Some(clock) = self.load.clock {
                        self.stats.count_end_to_end(&records, clock.now_ms());
                    }
                    last_record = Instant::now();
                    let part = |part: &Option<bytes::Bytes>| part.as_ref().map_or(0, |bytes| bytes.len() as u64);
                    let bytes = records.iter().map(|record| part(&record.key) + part(&record.value)).sum();
                    self.stats.records.fetch_add(records.len() as u64, Ordering::Relaxed);
                    self.stats.bytes.fetch_add(bytes, Ordering::Relaxed);
                    self.stats.last_record_us.fetch_max(self.stats.now_us(), Ordering::Relaxed);
                }
                () = sleep(LOOK_INTERVAL) => {
                    if last_record.elapsed() >= self.load.idle_max {
                        self.stats.timed_out.store(true, Ordering::Relaxed);
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let enough = |records| self.stats.records.load(Ordering::Relaxed) >= records;
        self.load.records.is_some_and(enough)
            || self.load.duration.is_some_and(|duration| self.stats.started.elapsed() >= duration)
            || self.stop.load(Ordering::Relaxed)
    }

    /// Begins anew when all partitions are read to where they ended.
    fn rewind(&mut self, partition: &TopicPartition) {
        if self.consumer.position(partition) >= self.round.ends.get(partition).copied() {
            self.round.left.remove(partition);
            if self.round.left.is_empty() {
                self.round.begin();
                self.consumer.assign(self.round.starts.clone());
            }
        }
    }

    /// Commits the offsets of this consumer, as Kafka's tool does, so that records are not read again.
    async fn commit(&self) {
        let positions: BTreeMap<_, _> = self.consumer.positions().map(|(p, offset)| (p.clone(), offset)).collect();
        if let Some(membership) = &self.membership
            && !positions.is_empty()
            && let Err(error) = membership.commit(&positions).await
        {
            tracing::debug!(%error, "offsets are not committed");
        }
    }

    /// Finds what to read and from where. With a group this waits for the assignment.
    async fn assign(&mut self) -> Result<(), ClientError> {
        let started = Instant::now();
        self.commit().await;
        let (assigned, committed) = match &mut self.membership {
            Some(membership) => {
                membership.join().await?;
                (membership.assigned().to_vec(), membership.group().committed().await?)
            }
            None => {
                let topics: Vec<&str> = self.load.topics.iter().map(String::as_str).collect();
                let metadata = self.client.existing(&topics).await?;
                let mut all = Vec::new();
                for topic in &self.load.topics {
                    let partitions = &metadata.topic(topic)?.partitions;
                    all.extend(partitions.iter().map(|partition| TopicPartition::new(topic.clone(), partition.index)));
                }
                (all, BTreeMap::new())
            }
        };
        let start = match self.load.settings.fetch.reset {
            ResetOffset::Latest => LATEST,
            ResetOffset::Earliest | ResetOffset::Fail => EARLIEST,
        };
        let starts = &self.load.starts;
        let is_unknown =
            |partition: &&TopicPartition| !committed.contains_key(*partition) && !starts.contains_key(*partition);
        let unknown = assigned.iter().filter(is_unknown);
        let isolation = self.load.settings.fetch.isolation;
        let unknown = unknown.map(|partition| (partition.clone(), start)).collect();
        let listed = self.client.list_offsets_as(&unknown, isolation).await?;
        let offsets = assigned.into_iter().map(|partition| {
            let known = committed.get(&partition).map(|committed| committed.offset);
            let known = known.or_else(|| starts.get(&partition).copied());
            let offset = known.or_else(|| listed.get(&partition).map(|listed| listed.offset)).unwrap_or(0);
            (partition, offset)
        });
        let offsets: BTreeMap<_, _> = offsets.collect();
        if self.load.rewinds {
            let ends = offsets.keys().map(|partition| (partition.clone(), LATEST)).collect();
            let ends = self.client.list_offsets_as(&ends, isolation).await?;
            self.round.ends = ends.into_iter().map(|(partition, listed)| (partition, listed.offset)).collect();
            self.round.starts = offsets.clone();
            self.round.begin();
        }
        self.consumer.assign(offsets);
        if !std::mem::replace(&mut self.is_assigned, true) {
            self.stats.assigned.fetch_add(1, Ordering::Relaxed);
        }
        self.joining += started.elapsed();
        self.stats.joining_us.fetch_max(self.joining.as_micros() as u64, Ordering::Relaxed);
        Ok(())
    }
}

async fn rejoin_needed(membership: Option<&Membership>) {
    match membership {
        Some(membership) => membership.rejoin_needed().await,
        None => std::future::pending().await,
    }
}
