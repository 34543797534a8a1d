//! Reading a partition of `__consumer_offsets` back into groups, when this broker starts or becomes its leader.
//!
//! The last record of a key counts. Offsets of a transaction count when its commit marker is read, and are pending as
//! long as there is no marker: also at the end of the log, where the marker is still to come. A marker that cannot be
//! read counts as one that aborts, or its offsets would be decided by the marker of the producer's next transaction.
//!
//! The age of an offset must not depend on the wall clock alone (it may have been wrong when the record was written, or
//! be wrong now). The log's own time decides: the sum of the steps between the timestamps of its batches, where a step
//! back counts as nothing and a step ahead as at most an eighth of the retention. What has no later record is as new as
//! the load. So a single jump of the clock never expires anything, and time while the broker was down counts little.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use wire::ErrorCode;
use wire::batch::{Batch, BatchError, BatchHeader, Batches};
use wire::record::RecordReader;
use wire::state::control::ControlType;

use super::core::Group;
use super::records::{self, Stored};
use super::{GroupConfig, Now};
use crate::topic_log::TopicLog;

/// Decompressed size that a batch may have.
const MAX_SECTION_BYTES: usize = 64 * 1024 * 1024;

/// Reads a whole partition.
pub async fn load(
    log: &dyn TopicLog,
    partition: i32,
    config: &GroupConfig,
    now: Now,
) -> Result<BTreeMap<String, Group>, ErrorCode> {
    let (mut offset, end_offset) = log.offsets(partition)?;
    let mut replay = Replay::new(config.offsets_retention_ms / 8);
    while offset < end_offset {
        let bytes = log.read(partition, offset, config.offsets_load_buffer_bytes).await?;
        let mut batches = Batches::new(bytes);
        let mut next_offset = offset;
        loop {
            let rest = batches.rest().clone();
            let batch = match batches.next() {
                None => break,
                Some(Ok(batch)) => batch,
                Some(Err(error)) => {
                    // The batch is lost, but not those behind it, as long as their start is known.
                    let lost = Batch::parse(&rest).map_err(|error| unreadable(partition, next_offset, &error))?;
                    let (first, last) = (lost.header.base_offset, lost.header.last_offset());
                    tracing::error!(partition, first, last, %error, "skipping an unreadable batch of group records");
                    replay.lose(&lost.header);
                    batches = Batches::new(rest.slice(lost.header.size()..));
                    next_offset = last + 1;
                    continue;
                }
            };
            next_offset = batch.header.next_offset();
            if next_offset > offset {
                replay.batch(partition, &batch);
            }
        }
        if next_offset <= offset {
            // Compaction may have left nothing up to the end.
            break;
        }
        offset = next_offset;
    }
    Ok(replay.finish(now))
}

fn unreadable(partition: i32, offset: i64, error: &BatchError) -> ErrorCode {
    tracing::error!(partition, offset, %error, "group records cannot be read");
    ErrorCode::KAFKA_STORAGE_ERROR
}

/// The state of the replay.
struct Replay {
    groups: BTreeMap<String, Group>,
    /// The groups that open transactions have offsets in, by producer id.
    transactions: BTreeMap<i64, BTreeSet<String>>,
    max_step_ms: i64,
    last_timestamp_ms: Option<i64>,
    log_time_ms: i64,
}

impl Replay {
    fn new(max_step_ms: i64) -> Self {
        Self {
            groups: BTreeMap::new(),
            transactions: BTreeMap::new(),
            max_step_ms,
            last_timestamp_ms: None,
            log_time_ms: 0,
        }
    }

    fn batch(&mut self, partition: i32, batch: &Batch) {
        let header = &batch.header;
        if let Some(last_ms) = self.last_timestamp_ms.replace(header.max_timestamp) {
            self.log_time_ms += header.max_timestamp.saturating_sub(last_ms).clamp(0, self.max_step_ms);
        }
        let section = match batch.records(MAX_SECTION_BYTES) {
            Ok(section) => section,
            Err(error) => {
                tracing::error!(partition, offset = header.base_offset, %error, "skipping unreadable group records");
                self.lose(header);
                return;
            }
        };
        for record in RecordReader::new(header, &section) {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    tracing::error!(partition, offset = header.base_offset, %error, "skipping unreadable group records");
                    self.lose(header);
                    return;
                }
            };
            let Some(key) = record.key else { continue };
            if header.attributes.is_control() {
                self.control(header.producer_id, key);
                continue;
            }
            match records::read(key, record.value) {
                Ok(stored) => {
                    let producer_id = header.attributes.is_transactional().then_some(header.producer_id);
                    self.record(producer_id, stored);
                }
                // Such as a record of a newer group protocol.
                Err(error) => tracing::warn!(partition, offset = record.offset, %error, "skipping a group record"),
            }
        }
    }

    fn record(&mut self, producer_id: Option<i64>, stored: Stored) {
        match stored {
            Stored::Offset { group_id, topic, partition, mut value } => {
                if let Some(value) = &mut value {
                    value.known_ms = self.log_time_ms;
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
                let now = self.log_time();
                let group = self.group(group_id);
                match value {
                    Some(value) => group.restore(value, now.monotonic_ms),
                    None => group.forget_membership(now),
                }
            }
        }
    }

    fn log_time(&self) -> Now {
        Now { monotonic_ms: self.log_time_ms, wall_ms: -1 }
    }

    /// The group, new if nothing was read of it.
    fn group(&mut self, group_id: String) -> &mut Group {
        let now = self.log_time();
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

    fn finish(mut self, now: Now) -> BTreeMap<String, Group> {
        self.groups.retain(|_, group| !group.is_vacant());
        for group in self.groups.values_mut() {
            group.shift_known(now.monotonic_ms - self.log_time_ms);
        }
        self.groups
    }
}
