//! Whether the replicas of a partition have the same records: all of them are read, and each is compared with its
//! leader's.
//!
//! Batches have to be the same up to the high watermark of the beginning. Replicas of a compacted topic are cleaned
//! each at its own time, so of those the records are compared that both have. Whoever compares says after each step
//! whether to go on: the brokers send as much as consumers of all replicas would read.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use wire::batch::{Batch, BatchError, BatchHeader};
use wire::record::RecordReader;

use crate::{Client, ClientError, EARLIEST, FetchedBatches, LATEST, Resource, TopicPartition};

/// A follower that has not come so far after this time is behind.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(100);
/// What the records of a compressed batch may take.
const RECORDS_BYTES_MAX: usize = 256 << 20;
const CLEANUP_POLICY: &str = "cleanup.policy";

/// What is wrong with a replica.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReplicaProblem {
    #[error("it is down")]
    Down,
    #[error(transparent)]
    Unanswered(#[from] ClientError),
    #[error("what is at offset {offset} is damaged: {damage}")]
    Damaged { offset: i64, damage: BatchError },
    #[error("the batch at offset {offset} is damaged")]
    DamagedBatch { offset: i64 },
    #[error("the batch at offset {offset} cannot be read")]
    UnreadableBatch { offset: i64 },
    #[error("it ends at offset {end}, the leader's replica at {leader_end}")]
    Behind { end: i64, leader_end: i64 },
    #[error("it differs from the leader's replica at offset {}", .0.offset)]
    Differs(Box<ReplicaDifference>),
}

/// The first difference between a replica and the leader's.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaDifference {
    pub offset: i64,
    /// The batch with this offset on either side, if there is one.
    pub replica: Option<BatchHeader>,
    pub leader: Option<BatchHeader>,
}

/// A comparison on its way.
pub struct ReplicaComparison {
    client: Client,
    partition: TopicPartition,
    is_compacted: bool,
    pub leader: i32,
    /// Offsets from the first to the one behind the last that were compared.
    pub from: i64,
    pub to: i64,
    /// Where it will be complete.
    pub end: i64,
    pub batches: u64,
    /// Of the leader's batches.
    pub bytes: u64,
    /// Those that have what the leader has.
    pub alike: BTreeSet<i32>,
    pub problems: BTreeMap<i32, ReplicaProblem>,
}

impl Client {
    /// Of these topics, those that are compacted.
    pub async fn compacted(&self, topics: &BTreeSet<&str>) -> Result<HashSet<String>, ClientError> {
        let resources: Vec<_> = topics.iter().map(|topic| Resource::topic(topic)).collect();
        let mut compacted = HashSet::new();
        for (topic, described) in self.describe_configs_named(&resources, &[CLEANUP_POLICY.to_owned()]).await {
            let mut policies = described?.into_iter().filter_map(|entry| entry.value);
            if policies.any(|policy| policy.contains("compact")) {
                compacted.insert(topic.name);
            }
        }
        Ok(compacted)
    }

    /// Begins to compare the replicas of a partition: all that they have, or the last records of it.
    pub async fn compare_replicas(
        &self,
        partition: &TopicPartition,
        is_compacted: bool,
        last: Option<i64>,
    ) -> Result<ReplicaComparison, ClientError> {
        let metadata = self.existing(&[&partition.topic]).await?;
        let leader = metadata.leader(partition)?;
        let found = metadata.topic(&partition.topic)?.partition(partition.partition);
        let replicas = found.map(|found| found.replicas.clone()).unwrap_or_default();
        let bound = async |timestamp| {
            let wanted = BTreeMap::from([(partition.clone(), timestamp)]);
            Ok::<_, ClientError>(self.list_offsets(&wanted).await?[partition].offset)
        };
        let (start, end) = (bound(EARLIEST).await?, bound(LATEST).await?);
        let from = last.map_or(start, |last| start.max(end - last));
        let mut comparison = ReplicaComparison {
            client: self.clone(),
            partition: partition.clone(),
            is_compacted,
            leader,
            from,
            to: from,
            end,
            batches: 0,
            bytes: 0,
            alike: replicas.into_iter().filter(|id| *id != leader).collect(),
            problems: BTreeMap::new(),
        };
        let down = comparison.alike.iter().filter(|id| !metadata.brokers.contains_key(id)).copied();
        for id in down.collect::<Vec<_>>() {
            comparison.fails(id, ReplicaProblem::Down);
        }
        Ok(comparison)
    }
}

impl ReplicaComparison {
    /// Nothing is left to compare.
    pub fn is_complete(&self) -> bool {
        self.to >= self.end || self.problems.contains_key(&self.leader)
    }

    /// Compares what one answer of each replica has, and goes on behind what all of them have sent.
    pub async fn step(&mut self) {
        let expected = match self.chunk(self.leader).await {
            Ok(expected) => expected,
            Err(problem) => return self.fails(self.leader, problem),
        };
        let mut chunks = BTreeMap::new();
        for id in self.alike.clone() {
            match self.chunk(id).await {
                Ok(chunk) => drop(chunks.insert(id, chunk)),
                Err(problem) => self.fails(id, problem),
            }
        }
        let next = chunks.values().fold(expected.next, |next, chunk| next.min(chunk.next));
        for (id, chunk) in &chunks {
            if let Err(problem) = chunk.compare(&expected, next, self.is_compacted) {
                self.fails(*id, problem);
            }
        }
        let compared = expected.batches.iter().filter(|batch| batch.header.next_offset() <= next);
        self.batches += compared.clone().count() as u64;
        self.bytes += compared.map(|batch| batch.header.size() as u64).sum::<u64>();
        self.to = next;
    }

    fn fails(&mut self, broker: i32, problem: ReplicaProblem) {
        self.alike.remove(&broker);
        self.problems.insert(broker, problem);
    }

    /// At least one batch of a replica, or nothing where there is none before the end. What does not come in time is a
    /// problem.
    async fn chunk(&self, broker: i32) -> Result<Chunk, ReplicaProblem> {
        let (offset, end) = (self.to, self.end);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let fetched = self.client.fetch_from(broker, &self.partition, offset).await?;
            let FetchedBatches { batches, damage, high_watermark } = fetched;
            if let Some(batch) = batches.iter().find(|batch| batch.verify_crc().is_err()) {
                return Err(ReplicaProblem::DamagedBatch { offset: batch.header.base_offset });
            }
            match (batches.last().map(|batch| batch.header.next_offset()), damage) {
                (Some(next), _) => return Ok(Chunk { batches, next: next.min(end) }),
                (None, Some(damage)) => return Err(ReplicaProblem::Damaged { offset, damage }),
                // Compaction has left nothing.
                (None, None) if high_watermark >= end => return Ok(Chunk { batches, next: end }),
                (None, None) if Instant::now() >= deadline => {
                    return Err(ReplicaProblem::Behind { end: high_watermark, leader_end: end });
                }
                (None, None) => sleep(RETRY).await,
            }
        }
    }
}

/// What a replica has from an offset on.
struct Chunk {
    batches: Vec<Batch>,
    /// Behind it.
    next: i64,
}

impl Chunk {
    fn compare(&self, expected: &Self, before: i64, is_compacted: bool) -> Result<(), ReplicaProblem> {
        let difference = match is_compacted {
            true => self.differs_in_records(expected, before)?,
            false => self.differs_in_batches(expected, before),
        };
        difference.map_or(Ok(()), |offset| {
            let (replica, leader) = (self.batch_with(offset), expected.batch_with(offset));
            Err(ReplicaProblem::Differs(Box::new(ReplicaDifference { offset, replica, leader })))
        })
    }

    fn batch_with(&self, offset: i64) -> Option<BatchHeader> {
        let mut headers = self.batches.iter().map(|batch| batch.header);
        headers.find(|header| (header.base_offset..header.next_offset()).contains(&offset))
    }

    /// Where the first difference is before an offset.
    fn differs_in_batches(&self, expected: &Self, before: i64) -> Option<i64> {
        let of = |chunk: &Self| {
            let headers = chunk.batches.iter().map(|batch| batch.header);
            let headers = headers.filter(|header| header.base_offset < before);
            let prints = headers
                .map(|header| (header.base_offset, header.next_offset(), header.partition_leader_epoch, header.crc));
            prints.collect::<Vec<_>>()
        };
        let (ours, theirs) = (of(self), of(expected));
        let same = ours.iter().zip(&theirs).take_while(|(one, other)| one == other).count();
        [ours.get(same), theirs.get(same)].into_iter().flatten().map(|print| print.0).min()
    }

    /// The same of the records that both have.
    fn differs_in_records(&self, expected: &Self, before: i64) -> Result<Option<i64>, ReplicaProblem> {
        let (ours, theirs) = (self.records(before)?, expected.records(before)?);
        let mut differ = ours.iter().filter(|(offset, hash)| theirs.get(offset).is_some_and(|other| other != *hash));
        Ok(differ.next().map(|(offset, _)| *offset))
    }

    /// Hashes by offset.
    fn records(&self, before: i64) -> Result<BTreeMap<i64, u64>, ReplicaProblem> {
        let mut hashes = BTreeMap::new();
        for batch in &self.batches {
            let unreadable = || ReplicaProblem::UnreadableBatch { offset: batch.header.base_offset };
            let section = batch.records(RECORDS_BYTES_MAX).map_err(|_| unreadable())?;
            for record in RecordReader::new(&batch.header, &section) {
                let record = record.map_err(|_| unreadable())?;
                let mut hasher = DefaultHasher::new();
                (record.timestamp, record.key, record.value).hash(&mut hasher);
                for header in record.headers.iter() {
                    header.hash(&mut hasher);
                }
                if record.offset < before {
                    hashes.insert(record.offset, hasher.finish());
                }
            }
        }
        Ok(hashes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::batch::BatchBuilder;

    fn chunk(batches: &[(i64, &[&str])]) -> Chunk {
        let batches: Vec<_> = batches
            .iter()
            .map(|(offset, values)| {
                let mut builder = BatchBuilder::new().base_offset(*offset);
                values.iter().for_each(|value| builder.push(0, None, Some(value.as_bytes()), &[]));
                builder.build()
            })
            .collect();
        let next = batches.last().map_or(0, |batch| batch.header.next_offset());
        Chunk { batches, next }
    }

    #[test]
    fn batches_have_to_be_the_same() {
        let leader = chunk(&[(0, &["a", "b"]), (2, &["c"]), (3, &["d"])]);
        let differs = |replica: &Chunk, before| replica.differs_in_batches(&leader, before);
        assert_eq!(differs(&chunk(&[(0, &["a", "b"]), (2, &["c"])]), 3), None, "as far as it goes");
        assert_eq!(differs(&chunk(&[(0, &["a", "b"]), (2, &["x"]), (3, &["d"])]), 4), Some(2));
        assert_eq!(differs(&chunk(&[(0, &["a"]), (1, &["b"]), (2, &["c"])]), 3), Some(0), "other batches");
        assert_eq!(differs(&chunk(&[(0, &["a", "b"]), (3, &["d"])]), 4), Some(2), "one is missing");
    }

    #[test]
    fn of_compacted_replicas_the_records_that_both_have_are_compared() {
        let leader = chunk(&[(0, &["a", "b"]), (2, &["c"]), (5, &["d"])]);
        let differs = |replica: &Chunk, before| replica.differs_in_records(&leader, before).unwrap();
        assert_eq!(differs(&chunk(&[(1, &["b", "c"]), (4, &["cleaned"]), (5, &["d"])]), 6), None);
        assert_eq!(differs(&chunk(&[(1, &["b", "x"]), (5, &["y"])]), 6), Some(2));
        assert_eq!(differs(&chunk(&[(1, &["b", "x"]), (5, &["y"])]), 2), None, "behind what was asked for");
    }

    #[test]
    fn a_difference_has_the_batches_of_both_sides() {
        let leader = chunk(&[(0, &["a", "b"]), (2, &["c", "d"]), (4, &["e"])]);
        let compare = |batches: &[(i64, &[&str])], is_compacted| {
            let problem = chunk(batches).compare(&leader, 5, is_compacted).unwrap_err();
            let ReplicaProblem::Differs(difference) = problem else { panic!("{problem}") };
            let offsets = |header: Option<BatchHeader>| header.map(|header| (header.base_offset, header.last_offset()));
            (difference.offset, offsets(difference.replica), offsets(difference.leader))
        };
        assert_eq!(compare(&[(0, &["a", "b"]), (4, &["e"])], false), (2, None, Some((2, 3))));
        assert_eq!(compare(&[(0, &["a", "b"]), (2, &["c", "x"]), (4, &["e"])], false), (2, Some((2, 3)), Some((2, 3))));
        assert_eq!(compare(&[(1, &["b", "c", "x"])], true), (3, Some((1, 3)), Some((2, 3))));
    }
}
