//! The records of `__consumer_offsets`, which are Kafka's own so that its tools read them, to and from what the
//! coordinator works with.

mod consumer;

use bytes::Bytes;
use wire::WireError;
use wire::batch::{Batch, BatchBuilder};
use wire::compress::Codec;
use wire::state::Stored as _;
use wire::state::control::{ControlType, EndTxnMarker};
use wire::state::group::{GroupMetadataKey, GroupMetadataValue, GroupRecordKey, OffsetCommitKey, OffsetCommitValue};

use super::consumer::Record;
use super::core::{CommittedOffset, OffsetWrite};

/// A record that has been read. `None` is a tombstone.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    Offset { group_id: String, topic: String, partition: i32, value: Option<CommittedOffset> },
    Group { group_id: String, value: Option<GroupMetadataValue> },
    Consumer { group_id: String, record: Record },
}

/// Reads a record. A committed offset's `known_ms` is left at 0.
pub fn read(key: &[u8], value: Option<&[u8]>) -> Result<Stored, WireError> {
    let value = value.map(Bytes::copy_from_slice);
    match GroupRecordKey::read(&Bytes::copy_from_slice(key))? {
        GroupRecordKey::OffsetCommit(OffsetCommitKey { group, topic, partition }) => {
            let value = value.as_ref().map(OffsetCommitValue::from_bytes).transpose()?.map(|value| CommittedOffset {
                offset: value.offset,
                leader_epoch: value.leader_epoch,
                metadata: value.metadata,
                commit_timestamp_ms: value.commit_timestamp,
                expire_timestamp_ms: value.expire_timestamp,
                topic_id: value.topic_id,
                known_ms: 0,
            });
            Ok(Stored::Offset { group_id: group, topic, partition, value })
        }
        GroupRecordKey::GroupMetadata(GroupMetadataKey { group }) => {
            let value = value.as_ref().map(GroupMetadataValue::from_bytes).transpose()?;
            Ok(Stored::Group { group_id: group, value })
        }
        key => {
            let (group_id, record) = consumer::read(key, value.as_ref())?;
            Ok(Stored::Consumer { group_id, record })
        }
    }
}

/// A batch without sequences, as coordinators write it, of a producer's transaction.
fn transactional(batch: BatchBuilder, producer_id: i64, producer_epoch: i16) -> BatchBuilder {
    const NO_SEQUENCE: i32 = -1;
    batch.producer(producer_id, producer_epoch, NO_SEQUENCE).transactional()
}

/// What ends a producer's transaction in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub is_committed: bool,
    pub coordinator_epoch: i32,
    /// The version of transactions (KIP-1228): 0 is what does not say.
    pub transaction_version: i8,
}

/// The batch of a marker (`EndTransactionMarker`).
pub fn marker(now_ms: i64, marker: &Marker) -> Batch {
    const VERSION: i16 = 0;
    let key = if marker.is_committed { ControlType::Commit } else { ControlType::Abort }.write();
    let value = EndTxnMarker { coordinator_epoch: marker.coordinator_epoch }.write_versioned(VERSION);
    let mut batch = transactional(BatchBuilder::new(), marker.producer_id, marker.producer_epoch).control();
    batch.push(now_ms, Some(&key), Some(&value), &[]);
    batch.build()
}

/// Collects records into batches of a size that the topic takes.
pub struct Batcher {
    now_ms: i64,
    max_batch_bytes: usize,
    full: Vec<Batch>,
    open: BatchBuilder,
    /// What every batch begins as.
    empty: BatchBuilder,
}

impl Batcher {
    pub fn new(now_ms: i64, max_batch_bytes: usize, codec: Codec) -> Self {
        let empty = BatchBuilder::new().compression(codec, None);
        Self { now_ms, max_batch_bytes, full: Vec::new(), open: empty.clone(), empty }
    }

    /// All records are of a producer's transaction. Before the first one.
    pub fn transactional(mut self, producer_id: i64, producer_epoch: i16) -> Self {
        self.empty = transactional(self.empty, producer_id, producer_epoch);
        self.open = self.empty.clone();
        self
    }

    pub fn push_offset(&mut self, group_id: &str, write: &OffsetWrite) {
        let key =
            OffsetCommitKey { group: group_id.to_owned(), topic: write.topic.clone(), partition: write.partition };
        let value = write.value.as_ref().map(|committed| OffsetCommitValue {
            offset: committed.offset,
            leader_epoch: committed.leader_epoch,
            metadata: committed.metadata.clone(),
            commit_timestamp: committed.commit_timestamp_ms,
            expire_timestamp: committed.expire_timestamp_ms,
            topic_id: committed.topic_id,
        });
        self.push(GroupRecordKey::OffsetCommit(key), value.map(|value| value.to_bytes()));
    }

    pub fn push_group(&mut self, group_id: &str, value: Option<&GroupMetadataValue>) {
        let key = GroupMetadataKey { group: group_id.to_owned() };
        self.push(GroupRecordKey::GroupMetadata(key), value.map(GroupMetadataValue::to_bytes));
    }

    pub fn push_consumer(&mut self, group_id: &str, record: &Record) {
        let (key, value) = consumer::write(group_id, record);
        self.push(key, value);
    }

    fn push(&mut self, key: GroupRecordKey, value: Option<Bytes>) {
        /// What a record takes besides its key and value.
        const RECORD_OVERHEAD_BYTES: usize = 32;
        let key = key.write();
        let record_bytes = key.len() + value.as_ref().map_or(0, Bytes::len) + RECORD_OVERHEAD_BYTES;
        if !self.open.is_empty() && self.open.size_bytes() + record_bytes > self.max_batch_bytes {
            self.full.push(std::mem::replace(&mut self.open, self.empty.clone()).build());
        }
        self.open.push(self.now_ms, Some(&key), value.as_deref(), &[]);
    }

    /// The batches, in order. A single record that is too large is left to the log to refuse.
    pub fn build(mut self) -> Vec<Batch> {
        if !self.open.is_empty() {
            self.full.push(self.open.build());
        }
        self.full
    }
}
