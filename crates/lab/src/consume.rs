//! The load of one consumer: reads as fast as records come, in a group or on its own, and counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use client::{Client, ClientError, Consumer, EARLIEST, LATEST, Membership, ResetOffset, TopicPartition};
use tokio::time::{Instant, sleep};

use crate::settings::ConsumerSettings;

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
    pub settings: ConsumerSettings,
}

/// A count, at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consumed {
    pub records: u64,
    /// Of keys and values.
    pub bytes: u64,
    /// What passed until the group had agreed, the longest of all consumers.
    pub joining: Duration,
}

/// Shared by the consumers of a run and by whoever shows it.
pub struct ConsumeStats {
    started: Instant,
    records: AtomicU64,
    bytes: AtomicU64,
    joining_us: AtomicU64,
    last_record_us: AtomicU64,
    timed_out: AtomicBool,
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
    let mut reading = Reading { client, consumer, membership, load, stats, stop, joining: Duration::ZERO };
    let result = reading.run().await;
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

struct Reading<'a> {
    client: Client,
    consumer: Consumer,
    membership: Option<Membership>,
    load: ConsumeLoad,
    stats: &'a ConsumeStats,
    stop: &'a AtomicBool,
    /// What this consumer has waited for its group.
    joining: Duration,
}

impl Reading<'_> {
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
                    let (_, records) = batch?;
                    if records.is_empty() {
                        continue;
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

    /// Tells the group how far this consumer has come, as Kafka's tool does, so that nobody reads it again.
    async fn commit(&self) {
        let positions: BTreeMap<_, _> = self.consumer.positions().map(|(p, offset)| (p.clone(), offset)).collect();
        if let Some(membership) = &self.membership
            && !positions.is_empty()
            && let Err(error) = membership.commit(&positions).await
        {
            tracing::debug!(%error, "offsets are not committed");
        }
    }

    /// Finds what to read and from where. With a group this waits until the group has agreed.
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
        let unknown = assigned.iter().filter(|partition| !committed.contains_key(*partition));
        let listed = self.client.list_offsets(&unknown.map(|partition| (partition.clone(), start)).collect()).await?;
        let offsets = assigned.into_iter().map(|partition| {
            let listed = listed.get(&partition).map_or(0, |listed| listed.offset);
            let offset = committed.get(&partition).map_or(listed, |committed| committed.offset);
            (partition, offset)
        });
        let offsets: Vec<_> = offsets.collect();
        self.consumer.assign(offsets);
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
