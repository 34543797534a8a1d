//! Reading a partition of `__consumer_offsets` back into groups, when this broker starts or becomes its leader.
//!
//! The last record of a key counts. Offsets of a transaction count when its commit marker is read; transactions that
//! are still open at the end of the log count as aborted here.
//!
//! The age of an offset must not depend on the wall clock alone (it may have been wrong when the record was written, or
//! be wrong now). The log's own time decides: the sum of the steps between the timestamps of its batches, where a step
//! back counts as nothing and a step ahead as at most an eighth of the retention. What has no later record is as new as
//! the load. So a single jump of the clock never expires anything, and time while the broker was down counts little.

use std::collections::BTreeMap;

use wire::ErrorCode;
use wire::batch::{Batch, BatchError, Batches};
use wire::record::RecordReader;

use super::core::{CommittedOffset, Group};
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

/// An offset of a transaction that has not ended.
struct PendingOffset {
    record_offset: i64,
    group_id: String,
    topic: String,
    partition: i32,
    value: Option<CommittedOffset>,
}

/// The state of the replay.
struct Replay {
    groups: BTreeMap<String, Group>,
    /// By producer id.
    transactions: BTreeMap<i64, Vec<PendingOffset>>,
    /// Offset of the last record that was applied to an offset, where transactions make it matter.
    applied: BTreeMap<(String, String, i32), i64>,
    max_step_ms: i64,
    last_timestamp_ms: Option<i64>,
    log_time_ms: i64,
}

impl Replay {
    fn new(max_step_ms: i64) -> Self {
        Self {
            groups: BTreeMap::new(),
            transactions: BTreeMap::new(),
            applied: BTreeMap::new(),
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
                return;
            }
        };
        for record in RecordReader::new(header, &section) {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    tracing::error!(partition, offset = header.base_offset, %error, "skipping unreadable group records");
                    return;
                }
            };
            let Some(key) = record.key else { continue };
            if header.attributes.is_control() {
                self.end_transaction(header.producer_id, key);
                continue;
            }
            match records::read(key, record.value) {
                Ok(stored) => {
                    let producer_id = header.attributes.is_transactional().then_some(header.producer_id);
                    self.record(record.offset, producer_id, stored);
                }
                // Such as a record of a newer group protocol.
                Err(error) => tracing::warn!(partition, offset = record.offset, %error, "skipping a group record"),
            }
        }
    }

    fn record(&mut self, record_offset: i64, producer_id: Option<i64>, stored: Stored) {
        match stored {
            Stored::Offset { group_id, topic, partition, mut value } => {
                if let Some(value) = &mut value {
                    value.known_ms = self.log_time_ms;
                }
                let pending = PendingOffset { record_offset, group_id, topic, partition, value };
                match producer_id {
                    Some(producer_id) => self.transactions.entry(producer_id).or_default().push(pending),
                    None => self.apply(pending),
                }
            }
            Stored::Group { group_id, value } => {
                let now = Now { monotonic_ms: self.log_time_ms, wall_ms: -1 };
                let group = self.groups.entry(group_id).or_insert_with(|| Group::new(now));
                match value {
                    Some(value) => group.restore(value, now.monotonic_ms),
                    None => group.forget_membership(now),
                }
            }
        }
    }

    fn apply(&mut self, pending: PendingOffset) {
        let PendingOffset { record_offset, group_id, topic, partition, value } = pending;
        // Only open transactions can be applied out of the order of the log.
        if !self.transactions.is_empty() || !self.applied.is_empty() {
            let key = (group_id.clone(), topic.clone(), partition);
            let applied = self.applied.entry(key).or_insert(-1);
            if *applied > record_offset {
                return;
            }
            *applied = record_offset;
        }
        let now = Now { monotonic_ms: self.log_time_ms, wall_ms: -1 };
        let group = self.groups.entry(group_id).or_insert_with(|| Group::new(now));
        group.offsets.replay(&topic, partition, value);
    }

    /// A control record: its key is a version and whether the transaction was committed (`ControlRecordType`).
    fn end_transaction(&mut self, producer_id: i64, key: &[u8]) {
        const COMMIT: [u8; 2] = [0, 1];
        let pending = self.transactions.remove(&producer_id).unwrap_or_default();
        if key.get(2..4) == Some(&COMMIT[..]) {
            for pending in pending {
                self.apply(pending);
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
