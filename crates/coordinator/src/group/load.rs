//! Reading a partition of `__consumer_offsets` back into groups, when this broker starts or becomes its leader.
//!
//! The last record of a key counts. Offsets of a transaction count when its commit marker is read, and are pending as
//! long as there is no marker: also at the end of the log, where the marker is still to come. A marker that cannot be
//! read counts as one that aborts, or its offsets would be decided by the marker of the producer's next transaction.
//!
//! The age of an offset is that by the log's own time ([`LogTime`]), whose steps are at most an eighth of the
//! retention. What has no later record is as new as the load.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use wire::ErrorCode;
use wire::batch::{Batch, BatchHeader};
use wire::state::control::ControlType;

use super::consumer::{ConsumerGroup, Record};
use super::core::Group;
use super::records::{self, Stored};
use super::{GroupConfig, Now};
use crate::replay::{LogTime, read_batches, read_records};
use crate::topic_log::TopicLog;

/// Reads a whole partition.
pub async fn load(
    log: &dyn TopicLog,
    partition: i32,
    config: &GroupConfig,
    now: Now,
) -> Result<BTreeMap<String, LoadedGroup>, ErrorCode> {
    let mut replay = Replay {
        groups: BTreeMap::new(),
        consumers: BTreeMap::new(),
        transactions: BTreeMap::new(),
        log_time: LogTime::new(config.offsets_retention_ms / 8),
    };
    let batch_read = |batch: Result<&Batch, &BatchHeader>| match batch {
        Ok(batch) => replay.batch(partition, batch),
        Err(lost) => replay.lose(lost),
    };
    read_batches(log, partition, config.offsets_load_buffer_bytes, batch_read).await?;
    Ok(replay.finish(now))
}

/// A group as it was stored: its offsets, and its members by one protocol or the other.
pub struct LoadedGroup {
    pub group: Group,
    pub consumer: Option<ConsumerGroup>,
}

/// The state of the replay.
struct Replay {
    groups: BTreeMap<String, Group>,
    consumers: BTreeMap<String, ConsumerGroup>,
    /// The groups that open transactions have offsets in, by producer id.
    transactions: BTreeMap<i64, BTreeSet<String>>,
    log_time: LogTime,
}

impl Replay {
    fn batch(&mut self, partition: i32, batch: &Batch) {
        let header = &batch.header;
        self.log_time.advance(header);
        let is_whole = read_records(partition, batch, |record| {
            let Some(key) = record.key else { return };
            if header.attributes.is_control() {
                self.control(header.producer_id, key);
                return;
            }
            match records::read(key, record.value) {
                Ok(stored) => {
                    let producer_id = header.attributes.is_transactional().then_some(header.producer_id);
                    self.record(producer_id, stored);
                }
                // Such as a record of a newer group protocol.
                Err(error) => tracing::warn!(partition, offset = record.offset, %error, "skipping a group record"),
            }
        });
        if !is_whole {
            self.lose(header);
        }
    }

    fn record(&mut self, producer_id: Option<i64>, stored: Stored) {
        match stored {
            Stored::Offset { group_id, topic, partition, mut value } => {
                if let Some(value) = &mut value {
                    value.known_ms = self.log_time.ms();
                }
                if let Some(producer_id) = producer_id.filter(|_| value.is_some()) {
                    self.transactions.entry(producer_id).or_default().insert(group_id.clone());
                }
                let offsets = &mut self.group(group_id).offsets;
                match (producer_id, value) {
                    (Some(producer_id), Some(value)) => offsets.replay_pending(producer_id, &topic, partition, value),
                    (_, value) => offsets.replay(&topic, partition, value),
                }
            }
            Stored::Group { group_id, value } => {
                let now = self.now();
                let group = self.group(group_id);
                match value {
                    Some(value) => group.restore(value, now.monotonic_ms),
                    None => group.forget_membership(now),
                }
            }
            Stored::Consumer { group_id, record } => {
                let says_gone = matches!(record, Record::Current { current: None, .. });
                if says_gone && storage::injected_fault!(GoneMembersLoaded) {
                    return;
                }
                self.consumers.entry(group_id).or_default().apply(record);
            }
        }
    }

    fn now(&self) -> Now {
        Now { monotonic_ms: self.log_time.ms(), wall_ms: -1 }
    }

    /// The group, new if nothing was read of it.
    fn group(&mut self, group_id: String) -> &mut Group {
        let now = self.now();
        self.groups.entry(group_id).or_insert_with(|| Group::new(now))
    }

    /// The key of a control record says what it is.
    fn control(&mut self, producer_id: i64, key: &[u8]) {
        match ControlType::read(&Bytes::copy_from_slice(key)) {
            Ok(ControlType::Commit) => self.end_transaction(producer_id, true),
            Ok(ControlType::Abort) => self.end_transaction(producer_id, false),
            // Of a later version of Kafka.
            Ok(_) => {}
            Err(error) => {
                tracing::error!(producer_id, %error, "a transaction's marker cannot be read");
                self.end_transaction(producer_id, false);
            }
        }
    }

    /// What can be known of a batch that cannot be read.
    fn lose(&mut self, header: &BatchHeader) {
        if header.attributes.is_control() && header.has_producer_id() {
            self.end_transaction(header.producer_id, false);
        }
    }

    fn end_transaction(&mut self, producer_id: i64, is_committed: bool) {
        for group_id in self.transactions.remove(&producer_id).unwrap_or_default() {
            if let Some(group) = self.groups.get_mut(&group_id) {
                group.offsets.end_transaction(producer_id, is_committed);
            }
        }
    }

    fn finish(mut self, now: Now) -> BTreeMap<String, LoadedGroup> {
        for group_id in self.consumers.keys().cloned().collect::<Vec<_>>() {
            self.group(group_id);
        }
        let mut loaded = BTreeMap::new();
        for (group_id, mut group) in self.groups {
            group.shift_known(now.monotonic_ms - self.log_time.ms());
            let consumer = self.consumers.remove(&group_id).filter(ConsumerGroup::is_stored);
            // A group that has changed its protocol may have left the end of the other unwritten.
            let consumer = consumer.filter(|consumer| !(consumer.is_empty() && group.is_stored()));
            if consumer.is_some() || !group.is_vacant() {
                loaded.insert(group_id, LoadedGroup { group, consumer });
            }
        }
        loaded
    }
}
