//! The group coordinator of a simulated broker: the real groups and their records, in a driver of its own, since the
//! broker's needs a runtime for its timers. It takes commits and gives them back, for the partitions of
//! `__consumer_offsets` that it leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use log::Now;
use wire::ErrorCode;
use wire::batch::Batch;
use wire::compress::Codec;

use super::replica::poll;
use crate::group::core::{CommittedOffset, Group, OffsetWrite};
use crate::group::load::load;
use crate::group::records::Batcher;
use crate::group::seam::BoxFuture;
use crate::group::{GroupConfig, OFFSETS_TOPIC, OffsetsLog};
use crate::meta::MetadataImage;
use crate::offsets_topic::{OffsetsPartitions, appended};
use crate::partition::{Partition, PartitionTable, Ticket};

/// Partitions of `__consumer_offsets`.
pub(super) const OFFSETS_PARTITIONS: i32 = 1;
const BATCH_BYTES_MAX: usize = 100_000;

/// A commit of one offset.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub(super) number: u64,
    pub(super) group: String,
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
}

/// What became of a commit: where its record is.
pub(super) struct Committed {
    /// Who asked, and the number of the question.
    pub(super) asker: (i32, u64),
    pub(super) commit: Commit,
    pub(super) leader_epoch: i32,
    pub(super) outcome: Result<i64, ErrorCode>,
}

struct InFlight {
    asker: (i32, u64),
    commit: Commit,
    write: OffsetWrite,
    partition: i32,
    leader_epoch: i32,
    ticket: Arc<Ticket>,
}

struct Shard {
    leader_epoch: i32,
    groups: BTreeMap<String, Group>,
}

pub(super) struct Groups {
    log: OffsetsPartitions,
    config: GroupConfig,
    shards: BTreeMap<i32, Shard>,
    in_flight: Vec<InFlight>,
}

impl Groups {
    pub(super) fn new(partitions: Arc<PartitionTable>) -> Self {
        let log = OffsetsPartitions { partitions, loaded: Arc::default() };
        Self { log, config: GroupConfig::default(), shards: BTreeMap::new(), in_flight: Vec::new() }
    }

    /// Loads and unloads as this node leads now.
    pub(super) fn follow_leadership(&mut self, image: &MetadataImage, now: Now) {
        let count = image.topic(OFFSETS_TOPIC).map_or(0, |topic| topic.partitions.len() as i32);
        for partition in 0..count {
            let found = self.log.partitions.find_by_name(OFFSETS_TOPIC, partition).ok();
            let led_in = found.filter(|partition| partition.is_leader()).map(|partition| partition.leader_epoch());
            if self.shards.get(&partition).map(|shard| shard.leader_epoch) == led_in {
                continue;
            }
            self.shards.remove(&partition);
            self.log.loaded.lock().remove(&partition);
            let Some(leader_epoch) = led_in else { continue };
            self.log.loaded.lock().insert(partition, leader_epoch);
            // A log that cannot be read is not served.
            if let Ok(groups) = poll(load(&Readable(self.log.clone()), partition, &self.config, now)) {
                self.shards.insert(partition, Shard { leader_epoch, groups });
            }
        }
    }

    pub(super) fn commit(&mut self, asker: (i32, u64), commit: Commit, now: Now) -> Result<(), ErrorCode> {
        let partition = 0;
        let shard = self.shards.get_mut(&partition).ok_or(ErrorCode::NOT_COORDINATOR)?;
        let group = shard.groups.entry(commit.group.clone()).or_insert_with(|| Group::new(now));
        group.check_commit(now, "", None, -1)?;
        let committed = CommittedOffset {
            offset: commit.offset,
            leader_epoch: -1,
            metadata: commit.number.to_string(),
            commit_timestamp_ms: now.wall_ms,
            expire_timestamp_ms: -1,
            known_ms: now.monotonic_ms,
            ..CommittedOffset::default()
        };
        let write = group.offsets.begin(&commit.topic, commit.partition, Some(committed));
        let mut batcher = Batcher::new(now.wall_ms, BATCH_BYTES_MAX, Codec::None);
        batcher.push_offset(&commit.group, &write);
        let batch = batcher.build().remove(0);
        match self.log.enqueue(partition, batch) {
            Ok((touched, ticket)) => {
                touched.commit();
                let leader_epoch = shard.leader_epoch;
                self.in_flight.push(InFlight { asker, commit, write, partition, leader_epoch, ticket });
                Ok(())
            }
            Err(code) => {
                group.offsets.finish(write, false);
                Err(code)
            }
        }
    }

    /// Commits that have come to their end.
    pub(super) fn take_committed(&mut self) -> Vec<Committed> {
        let mut done = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        self.in_flight.retain(|in_flight| match in_flight.ticket.poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(outcomes) => {
                let outcome = appended(outcomes);
                let shard = self.shards.get_mut(&in_flight.partition);
                let shard = shard.filter(|shard| shard.leader_epoch == in_flight.leader_epoch);
                if let Some(group) = shard.and_then(|shard| shard.groups.get_mut(&in_flight.commit.group)) {
                    group.offsets.finish(in_flight.write.clone(), outcome.is_ok());
                }
                let (asker, commit, leader_epoch) = (in_flight.asker, in_flight.commit.clone(), in_flight.leader_epoch);
                done.push(Committed { asker, commit, leader_epoch, outcome });
                false
            }
        });
        done
    }

    /// The number of the commit that a group has for a partition, and the epoch of the coordinator.
    pub(super) fn fetch(&self, group: &str, topic: &str, partition: i32) -> Result<(i32, Option<u64>), ErrorCode> {
        let shard = self.shards.get(&0).ok_or(ErrorCode::NOT_COORDINATOR)?;
        let committed = shard.groups.get(group).and_then(|group| group.offsets.get(topic, partition));
        let number = committed.map(|committed| committed.metadata.parse().expect("the number of a commit"));
        Ok((shard.leader_epoch, number))
    }
}

/// The partitions as whoever loads groups reads them.
struct Readable(OffsetsPartitions);

impl OffsetsLog for Readable {
    fn append(&self, _partition: i32, _batch: Batch) -> BoxFuture<Result<i64, ErrorCode>> {
        Box::pin(async { Err(ErrorCode::UNKNOWN_SERVER_ERROR) })
    }

    fn offsets(&self, partition: i32) -> Result<(i64, i64), ErrorCode> {
        self.0.offsets(partition)
    }

    fn read(&self, partition: i32, from_offset: i64, max_bytes: u32) -> BoxFuture<Result<Bytes, ErrorCode>> {
        let found = self.0.partitions.find_by_name(OFFSETS_TOPIC, partition);
        let read = |partition: Arc<Partition>| {
            partition.read(from_offset, max_bytes).map_err(|_| ErrorCode::KAFKA_STORAGE_ERROR)
        };
        let read = found.and_then(read);
        Box::pin(async move { read })
    }

    fn max_batch_bytes(&self) -> usize {
        BATCH_BYTES_MAX
    }
}
