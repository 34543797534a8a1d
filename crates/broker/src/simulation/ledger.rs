//! A record of all promises to clients, and of what must therefore always hold.
//!
//! - What was acknowledged with `acks=all` is in the log of every later leader.
//! - So is every batch below a high watermark, which consumers may have read; with the same bytes on all replicas. Only
//!   power loss may take a batch that was not yet on the disks of all in-sync replicas, and none with `acks=all`:
//!   consumers read that from the disks.
//! - An epoch has one leader, epochs never go back, in-sync replicas are replicas, all nodes have one history of the
//!   metadata.
//! - A controller decides on a state that has all that was answered in earlier epochs.
//! - A committed offset of a group that was acknowledged is not lost.
//! - Nothing is deleted before its retention is over.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use metadata::{MetadataImage, NO_LEADER};
use wire::batch::Batch;

use super::replica::{batches, values};
use super::topics::{is_compacted, is_internal};
use crate::partition::Partition;

/// A partition by its topic's name.
pub(super) type TopicPartition = (Arc<str>, i32);

pub(super) fn topic_partition(partition: &Partition) -> TopicPartition {
    (Arc::clone(&partition.topic), partition.index)
}

/// A batch that was below a high watermark.
#[derive(Clone, Copy, Debug)]
struct Replicated {
    hash: u64,
    /// In which it was written, and in which it was seen below a high watermark at first.
    leader_epoch: i32,
    replicated_in: i32,
    max_timestamp: i64,
}

/// What may be lost: offsets of batches that were written in these epochs or before.
#[derive(Clone, Copy, Debug)]
struct Loss {
    from: i64,
    to: i64,
    leader_epoch: i32,
}

/// What is known of one partition.
#[derive(Default)]
struct History {
    /// By base offset.
    replicated: BTreeMap<i64, Replicated>,
    /// What is below was on the disks of all in-sync replicas.
    durable_offset: i64,
    losses: Vec<Loss>,
    /// Offset and epoch of each value.
    acknowledged: BTreeMap<u64, (i64, i32)>,
    leaders: BTreeMap<i32, i32>,
}

/// How far a log has been looked at: by whom it was led then, and up to where.
#[derive(Clone, Copy, Default)]
struct LookedAt {
    leader_epoch: i32,
    offset: i64,
}

/// An offset of a group: the group, and the partition that it is of.
type OffsetKey = (String, String, i32);

pub(super) struct Ledger {
    /// Changes of partitions that were not logged yet.
    pub(super) changes: Vec<String>,
    /// The newest image that any node has committed.
    pub(super) newest: Arc<MetadataImage>,
    images: BTreeMap<i64, u64>,
    partitions: BTreeMap<TopicPartition, History>,
    /// By node, the number of its start, and partition.
    looked_at: BTreeMap<(i32, u64, TopicPartition), LookedAt>,
    /// The offset of the metadata that was answered with, by the quorum's epoch.
    answered: BTreeMap<i32, i64>,
    /// By what was committed: the commit, where its record is, and in which epoch.
    commits: BTreeMap<OffsetKey, BTreeMap<i64, (u64, i32)>>,
    pub(super) acknowledged: usize,
    pub(super) committed: usize,
    pub(super) leaderships: usize,
    /// How often a replica was elected that was eligible and not in sync (KIP-966).
    pub(super) eligible_elected: usize,
    /// How long a topic keeps records, where it does not keep them for ever.
    pub(super) retention_ms: BTreeMap<String, i64>,
}

fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            changes: Vec::new(),
            newest: Arc::default(),
            images: BTreeMap::new(),
            partitions: BTreeMap::new(),
            looked_at: BTreeMap::new(),
            answered: BTreeMap::new(),
            commits: BTreeMap::new(),
            acknowledged: 0,
            committed: 0,
            leaderships: 0,
            eligible_elected: 0,
            retention_ms: BTreeMap::new(),
        }
    }

    // --- Metadata

    /// A node has committed an image.
    pub(super) fn committed(&mut self, image: &Arc<MetadataImage>) {
        if image.offset() < 0 {
            return;
        }
        let hash = hash_of(format!("{:?}", image.to_records()));
        let known = *self.images.entry(image.offset()).or_insert(hash);
        assert_eq!(known, hash, "two histories of the metadata at offset {}", image.offset());
        if image.offset() <= self.newest.offset() {
            return;
        }
        for topic in image.topics() {
            let before = self.newest.topic_by_id(topic.id);
            for (index, after) in topic.partitions.iter().enumerate() {
                let before = before.and_then(|before| before.partitions.get(index));
                let name = format!("{}-{index}", topic.name);
                check_partition(&name, before.map(|before| &**before), after);
                if before != Some(after) {
                    let is_elected =
                        before.is_some_and(|before| before.eligible_leader_replicas.contains(&after.leader));
                    self.eligible_elected += usize::from(is_elected);
                    let (leader, isr, epoch) = (after.leader, &after.isr, after.leader_epoch);
                    let elr = &after.eligible_leader_replicas;
                    self.changes.push(format!("{name}: {leader} leads {isr:?} in epoch {epoch}, eligible {elr:?}"));
                }
            }
        }
        self.newest = Arc::clone(image);
    }

    /// A controller begins to decide, in an epoch of the quorum and on a state.
    pub(super) fn decides(&self, node: i32, epoch: i32, offset: i64) {
        for (before, answered) in self.answered.range(..epoch) {
            assert!(
                offset >= *answered,
                "controller {node} decides in epoch {epoch} on offset {offset}, but in epoch {before} offset {answered} \
                 was answered with"
            );
        }
    }

    pub(super) fn answers(&mut self, epoch: i32, offset: i64) {
        let answered = self.answered.entry(epoch).or_insert(offset);
        *answered = offset.max(*answered);
    }

    // --- Records

    /// A leader has acknowledged a batch with `acks=all`.
    pub(super) fn acknowledges(
        &mut self,
        topic_partition: &TopicPartition,
        leader_epoch: i32,
        base_offset: i64,
        values: &[u64],
    ) {
        let history = self.partitions.entry(topic_partition.clone()).or_default();
        for (value, offset) in values.iter().zip(base_offset..) {
            let known = history.acknowledged.entry(*value).or_insert((offset, leader_epoch));
            assert_eq!(known.0, offset, "{topic_partition:?}: {value} was acknowledged at two offsets");
        }
        self.acknowledged += values.len();
    }

    /// A batch is visible.
    pub(super) fn sees(&mut self, topic_partition: &TopicPartition, who: &str, batch: &Batch) {
        let leader_epoch = self.partition(topic_partition).map_or(i32::MAX, |partition| partition.leader_epoch);
        let history = self.partitions.entry(topic_partition.clone()).or_default();
        history.see(topic_partition, who, leader_epoch, batch);
    }

    /// Looks at the newest leader of a partition, up to its high watermark.
    pub(super) fn looks_at_leader(&mut self, (node, start): (i32, u64), leader: &Partition) {
        self.looks_at((node, start), leader, leader.high_watermark());
        let history = self.partitions.entry(topic_partition(leader)).or_default();
        history.durable_offset = history.durable_offset.max(leader.durable_offset());
    }

    /// Looks at a log up to an offset that is replicated.
    pub(super) fn looks_at(&mut self, (node, start): (i32, u64), partition: &Partition, to: i64) {
        let topic_partition = topic_partition(partition);
        let leader_epoch = partition.leader_epoch();
        let looked_at = self.looked_at.entry((node, start, topic_partition.clone())).or_default();
        if looked_at.leader_epoch != leader_epoch {
            *looked_at = LookedAt { leader_epoch, offset: 0 };
        }
        let history = self.partitions.entry(topic_partition.clone()).or_default();
        // Its batches change.
        if is_compacted(&partition.topic) {
            return;
        }
        for batch in batches(partition, looked_at.offset, to) {
            history.see(&topic_partition, &format!("the log of {node}"), leader_epoch, &batch);
        }
        looked_at.offset = to;
    }

    /// A node has begun to lead a partition: it must have all that was promised in earlier epochs.
    pub(super) fn leads(&mut self, node: i32, partition: &Partition) {
        let (topic_partition, leader_epoch) = (topic_partition(partition), partition.leader_epoch());
        let history = self.partitions.entry(topic_partition.clone()).or_default();
        let known = history.leaders.insert(leader_epoch, node);
        assert!(
            known.is_none_or(|known| known == node),
            "{topic_partition:?}: {known:?} and {node} lead in epoch {leader_epoch}"
        );
        if known.is_none() {
            self.leaderships += 1;
            self.checks(node, partition);
        }
    }

    /// Checks that a log has all that was promised in epochs before its own.
    pub(super) fn checks(&mut self, node: i32, partition: &Partition) {
        let (topic_partition, leader_epoch) = (topic_partition(partition), partition.leader_epoch());
        let history = self.partitions.entry(topic_partition.clone()).or_default();
        let start = partition.log_start_offset();
        // What it keeps of them is the business of others.
        if is_compacted(&partition.topic) {
            return;
        }
        let there = batches(partition, 0, i64::MAX);
        let hashes: BTreeMap<i64, u64> =
            there.iter().map(|batch| (batch.header.base_offset, hash_of(&batch.bytes[..]))).collect();
        let older = history.replicated.range(start..).filter(|(_, seen)| seen.replicated_in < leader_epoch);
        for (offset, seen) in older {
            assert_eq!(
                hashes.get(offset),
                Some(&seen.hash),
                "{topic_partition:?}: {node} leads in epoch {leader_epoch} without what was replicated at {offset}: \
                 {seen:?}"
            );
        }
        if is_internal(&partition.topic) {
            return;
        }
        let values: BTreeMap<u64, i64> = there.iter().flat_map(values).map(|(offset, value)| (value, offset)).collect();
        for (value, (offset, epoch)) in &history.acknowledged {
            if *offset >= start && *epoch < leader_epoch {
                assert_eq!(
                    values.get(value),
                    Some(offset),
                    "{topic_partition:?}: {node} leads in epoch {leader_epoch} without {value}, acknowledged in {epoch}"
                );
            }
        }
    }

    /// What a node had in memory only is lost with its power.
    pub(super) fn loses(&mut self, topic_partition: &TopicPartition, synced_offset: i64, end_offset: i64) {
        let leader_epoch = self.partition(topic_partition).map_or(-1, |partition| partition.leader_epoch);
        let history = self.partitions.entry(topic_partition.clone()).or_default();
        let (from, to) = (synced_offset.max(history.durable_offset), end_offset);
        if from < to {
            history.losses.push(Loss { from, to, leader_epoch });
            let is_lost =
                |offset: &i64, seen: &mut Replicated| (from..to).contains(offset) && seen.leader_epoch <= leader_epoch;
            history.replicated.retain(|offset, seen| !is_lost(offset, seen));
        }
    }

    /// A log begins here: what came before must have been old enough to go.
    pub(super) fn begins(&mut self, node: i32, partition: &Partition, wall_ms: i64) {
        let topic_partition = topic_partition(partition);
        let start = partition.log_start_offset();
        let Some(history) = self.partitions.get_mut(&topic_partition) else { return };
        let retention_ms = self.retention_ms.get(&*topic_partition.0).copied().unwrap_or(i64::MAX);
        for (offset, seen) in history.replicated.range(..start) {
            let age_ms = wall_ms - seen.max_timestamp;
            assert!(age_ms >= retention_ms, "{topic_partition:?}: {node} deleted what is {age_ms} ms old at {offset}");
        }
        history.replicated.retain(|offset, _| *offset >= start);
    }

    /// A partition in the newest image.
    pub(super) fn partition(&self, topic_partition: &TopicPartition) -> Option<&metadata::Partition> {
        self.newest.topic(&topic_partition.0)?.partition(topic_partition.1).map(|partition| &**partition)
    }

    // --- Groups

    /// A coordinator has acknowledged a commit, whose record is in the log.
    pub(super) fn commits(&mut self, key: OffsetKey, commit: u64, leader_epoch: i32, record_offset: i64) {
        self.commits.entry(key).or_default().insert(record_offset, (commit, leader_epoch));
        self.committed += 1;
    }

    /// A coordinator that was made by an epoch answers with a commit, or with none.
    pub(super) fn fetches_offset(&self, key: &OffsetKey, leader_epoch: i32, commit: Option<u64>) {
        let Some(commits) = self.commits.get(key) else { return };
        let known = |(_, epoch): &&(u64, i32)| *epoch <= leader_epoch;
        let Some((last, epoch)) = commits.values().rev().find(known) else { return };
        // An unacknowledged commit may have been stored all the same, and later.
        let is_older = commit.is_none_or(|commit| commits.values().any(|(other, _)| *other == commit));
        let is_newer = commits.iter().any(|(_, (other, epoch))| Some(*other) == commit && *epoch > leader_epoch);
        assert!(
            commit == Some(*last) || !is_older || is_newer,
            "{key:?}: commit {last} was acknowledged in epoch {epoch}, and in {leader_epoch} there is {commit:?}"
        );
    }

    // --- At the end

    /// Checks that no value is there twice, however often it was sent.
    pub(super) fn check_once(&self, partition: &Partition) {
        let mut seen = BTreeMap::new();
        for (offset, value) in batches(partition, 0, i64::MAX).iter().flat_map(values) {
            let before = seen.insert(value, offset);
            assert!(before.is_none(), "{:?}: {value} is there at {before:?} and {offset}", topic_partition(partition));
        }
    }
}

impl History {
    fn see(&mut self, topic_partition: &TopicPartition, who: &str, replicated_in: i32, batch: &Batch) {
        let header = &batch.header;
        let (offset, leader_epoch) = (header.base_offset, header.partition_leader_epoch);
        let may_be_lost = |loss: &Loss| (loss.from..loss.to).contains(&offset) && leader_epoch <= loss.leader_epoch;
        if self.losses.iter().any(may_be_lost) {
            return;
        }
        // Only producers with `acks=all` have ids here.
        if header.producer_id >= 0 {
            self.durable_offset = self.durable_offset.max(header.next_offset());
        }
        let max_timestamp = header.max_timestamp;
        let seen = Replicated { hash: hash_of(&batch.bytes[..]), leader_epoch, replicated_in, max_timestamp };
        let known = self.replicated.entry(offset).or_insert(seen);
        assert_eq!(
            known.hash, seen.hash,
            "{topic_partition:?}: {who} has {seen:?} at {offset}, but there was {known:?}"
        );
        known.replicated_in = replicated_in.min(known.replicated_in);
    }
}

fn check_partition(name: &str, before: Option<&metadata::Partition>, after: &metadata::Partition) {
    let is_replica = |id: &i32| after.replicas.contains(id);
    assert!(after.isr.iter().all(is_replica), "{name}: in-sync replicas that are none: {after:?}");
    let mut eligible = after.eligible_leader_replicas.iter();
    assert!(eligible.all(|id| is_replica(id) && !after.isr.contains(id)), "{name}: {after:?}");
    assert!(after.leader == NO_LEADER || after.isr.contains(&after.leader), "{name}: {after:?}");
    let Some(before) = before else { return };
    let epochs = |partition: &metadata::Partition| (partition.leader_epoch, partition.partition_epoch);
    let (from, to) = (epochs(before), epochs(after));
    assert!(to.0 >= from.0 && to.1 >= from.1, "{name}: epochs go back from {from:?} to {to:?}");
    if before.leader != after.leader {
        assert!(to.0 > from.0, "{name}: another leader in the same epoch: {before:?}, {after:?}");
    }
}
