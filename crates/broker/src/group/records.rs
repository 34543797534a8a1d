//! The records of `__consumer_offsets` in Kafka's own format, so that Kafka's tools read them.
//!
//! A key begins with the number of its type, a value with the version of its schema
//! (`GroupCoordinatorRecordSerde`). Versions written are those of Kafka 4.3: offsets as 4, or as 1 if they carry a time
//! of expiry; groups as 3.

use bytes::{Bytes, BytesMut};
use wire::batch::{Batch, BatchBuilder};
use wire::state::{GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue};
use wire::{Reader, Wire, WireError, Writer};

use super::core::{CommittedOffset, OffsetWrite};

const OFFSET_COMMIT_LEGACY: i16 = 0;
const OFFSET_COMMIT: i16 = 1;
const GROUP_METADATA: i16 = 2;

const OFFSET_COMMIT_VALUE_WITH_EXPIRY: i16 = 1;
const OFFSET_COMMIT_VALUE: i16 = 4;
const GROUP_METADATA_VALUE: i16 = 3;
/// Newest value versions that can be read, and the first in the flexible form.
const NEWEST_VALUE: i16 = 4;
const FLEXIBLE_VALUE: i16 = 4;

/// A record that has been read. `None` is a tombstone.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    Offset {
        group_id: String,
        topic: String,
        partition: i32,
        value: Option<CommittedOffset>,
    },
    Group {
        group_id: String,
        value: Option<GroupMetadataValue>,
    },
    /// A record of the newer group protocols, which this broker does not serve.
    Other {
        key_type: i16,
    },
}

/// Reads a record. A committed offset's `known_ms` is left at 0.
pub fn read(key: &[u8], value: Option<&[u8]>) -> Result<Stored, WireError> {
    let key = Bytes::copy_from_slice(key);
    let mut reader = Reader::new(&key, 0, false);
    match i16::read(&mut reader)? {
        OFFSET_COMMIT_LEGACY | OFFSET_COMMIT => {
            let OffsetCommitKey { group, topic, partition } = Wire::read(&mut reader)?;
            let value = value.map(read_value::<OffsetCommitValue>).transpose()?.map(|value| CommittedOffset {
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
        GROUP_METADATA => {
            let GroupMetadataKey { group } = Wire::read(&mut reader)?;
            Ok(Stored::Group { group_id: group, value: value.map(read_value).transpose()? })
        }
        key_type => Ok(Stored::Other { key_type }),
    }
}

fn read_value<T: Wire>(value: &[u8]) -> Result<T, WireError> {
    let value = Bytes::copy_from_slice(value);
    let mut reader = Reader::new(&value, 0, false);
    let version = i16::read(&mut reader)?;
    if !(0..=NEWEST_VALUE).contains(&version) {
        return Err(WireError::UnsupportedVersion { key: GROUP_METADATA, version });
    }
    reader.set_version(version, version >= FLEXIBLE_VALUE);
    T::read(&mut reader)
}

fn encode(prefix: i16, version: i16, message: &impl Wire) -> BytesMut {
    let mut out = BytesMut::new();
    let mut writer = Writer::new(&mut out, version, version >= FLEXIBLE_VALUE);
    prefix.write(&mut writer);
    message.write(&mut writer);
    out
}

/// Collects records into batches of a size that the topic takes.
pub struct Batcher {
    now_ms: i64,
    max_batch_bytes: usize,
    full: Vec<Batch>,
    open: BatchBuilder,
}

impl Batcher {
    pub fn new(now_ms: i64, max_batch_bytes: usize) -> Self {
        Self { now_ms, max_batch_bytes, full: Vec::new(), open: BatchBuilder::new() }
    }

    pub fn push_offset(&mut self, group_id: &str, write: &OffsetWrite) {
        let key =
            OffsetCommitKey { group: group_id.to_owned(), topic: write.topic.clone(), partition: write.partition };
        let value = write.value.as_ref().map(|committed| {
            let version = match committed.expire_timestamp_ms {
                -1 => OFFSET_COMMIT_VALUE,
                _ => OFFSET_COMMIT_VALUE_WITH_EXPIRY,
            };
            let value = OffsetCommitValue {
                offset: committed.offset,
                leader_epoch: committed.leader_epoch,
                metadata: committed.metadata.clone(),
                commit_timestamp: committed.commit_timestamp_ms,
                expire_timestamp: committed.expire_timestamp_ms,
                topic_id: committed.topic_id,
            };
            encode(version, version, &value)
        });
        self.push(&encode(OFFSET_COMMIT, 0, &key), value.as_deref());
    }

    pub fn push_group(&mut self, group_id: &str, value: Option<&GroupMetadataValue>) {
        let key = GroupMetadataKey { group: group_id.to_owned() };
        let value = value.map(|value| encode(GROUP_METADATA_VALUE, GROUP_METADATA_VALUE, value));
        self.push(&encode(GROUP_METADATA, 0, &key), value.as_deref());
    }

    fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        /// What a record takes besides its key and value.
        const RECORD_OVERHEAD_BYTES: usize = 32;
        let record_bytes = key.len() + value.map_or(0, <[u8]>::len) + RECORD_OVERHEAD_BYTES;
        if !self.open.is_empty() && self.open.size_bytes() + record_bytes > self.max_batch_bytes {
            self.full.push(std::mem::take(&mut self.open).build());
        }
        self.open.push(self.now_ms, Some(key), value, &[]);
    }

    /// The batches, in order. A single record that is too large is left to the log to refuse.
    pub fn build(mut self) -> Vec<Batch> {
        if !self.open.is_empty() {
            self.full.push(self.open.build());
        }
        self.full
    }
}
