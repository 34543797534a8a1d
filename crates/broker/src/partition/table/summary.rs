//! Figures of topics, for the console and metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{OpenTopic, PartitionTable, Slot};
use crate::partition::Partition;

/// What this node has of a topic.
#[derive(Clone, Debug)]
pub struct TopicSummary {
    pub name: Arc<str>,
    pub records_in: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub replication_bytes_in: u64,
    pub replication_bytes_out: u64,
    pub partitions: u64,
    pub leaders: u64,
    pub offline: u64,
    /// Of the partitions led here: with a replica that is not in sync, and with fewer or no more replicas in sync than
    /// `min.insync.replicas`.
    pub under_replicated: u64,
    pub under_min_isr: u64,
    pub at_min_isr: u64,
    pub size_bytes: u64,
    pub segments: u64,
    /// Of those that are led here.
    pub unsynced_bytes: u64,
    /// Of those that are led here: records below the high watermark that readers of committed records do not get, since
    /// a transaction before them is open.
    pub unstable_records: u64,
    /// For how long the oldest that is durable only in the journal has been there.
    pub journaled_for_ms: u64,
}

impl Default for TopicSummary {
    fn default() -> Self {
        Self {
            name: "".into(),
            records_in: 0,
            bytes_in: 0,
            bytes_out: 0,
            replication_bytes_in: 0,
            replication_bytes_out: 0,
            partitions: 0,
            leaders: 0,
            offline: 0,
            under_replicated: 0,
            under_min_isr: 0,
            at_min_isr: 0,
            size_bytes: 0,
            segments: 0,
            unsynced_bytes: 0,
            unstable_records: 0,
            journaled_for_ms: 0,
        }
    }
}

impl TopicSummary {
    fn of(topic: &OpenTopic) -> Self {
        let mut summary = Self {
            name: Arc::clone(topic.name.as_arc()),
            records_in: topic.traffic.records_in.get(),
            bytes_in: topic.traffic.bytes_in.get(),
            bytes_out: topic.traffic.bytes_out.get(),
            replication_bytes_in: topic.traffic.replication_bytes_in.get(),
            replication_bytes_out: topic.traffic.replication_bytes_out.get(),
            ..Self::default()
        };
        for slot in &topic.partitions {
            match slot {
                Slot::Open(partition) => summary.add_partition(partition),
                Slot::Offline { .. } => {
                    summary.partitions += 1;
                    summary.offline += 1;
                }
                Slot::Undecided | Slot::Elsewhere => {}
            }
        }
        summary
    }

    fn add_partition(&mut self, partition: &Partition) {
        self.partitions += 1;
        self.offline += u64::from(partition.is_offline());
        self.size_bytes += partition.view.size_bytes();
        self.segments += partition.view.segment_count() as u64;
        self.journaled_for_ms = self.journaled_for_ms.max(partition.journaled_for_ms());
        if partition.is_leader() {
            let in_sync = partition.in_sync_replicas.load(Ordering::Acquire);
            let replicas = partition.replica_count.load(Ordering::Acquire);
            let min_in_sync = partition.settings.load().min_insync_replicas.min(replicas);
            self.leaders += 1;
            self.under_replicated += u64::from(in_sync < replicas);
            self.under_min_isr += u64::from(in_sync < min_in_sync);
            self.at_min_isr += u64::from(in_sync == min_in_sync);
            self.unsynced_bytes += partition.view.unsynced_bytes();
            let last_stable_offset = partition.last_stable_offset();
            self.unstable_records += partition.high_watermark().saturating_sub(last_stable_offset).max(0) as u64;
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.records_in += other.records_in;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.replication_bytes_in += other.replication_bytes_in;
        self.replication_bytes_out += other.replication_bytes_out;
        self.partitions += other.partitions;
        self.leaders += other.leaders;
        self.offline += other.offline;
        self.under_replicated += other.under_replicated;
        self.under_min_isr += other.under_min_isr;
        self.at_min_isr += other.at_min_isr;
        self.size_bytes += other.size_bytes;
        self.segments += other.segments;
        self.unsynced_bytes += other.unsynced_bytes;
        self.unstable_records += other.unstable_records;
        self.journaled_for_ms = self.journaled_for_ms.max(other.journaled_for_ms);
    }
}

impl PartitionTable {
    /// All topics of which this node has anything.
    pub fn summaries(&self) -> Vec<TopicSummary> {
        let topics: Vec<_> = self.topics.read().by_id.values().cloned().collect();
        let summaries = topics.iter().map(|topic| TopicSummary::of(topic));
        summaries.filter(|summary| summary.partitions > 0).collect()
    }
}
