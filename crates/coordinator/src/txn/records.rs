//! The records of `__transaction_state`, which are Kafka's own so that its tools read them, to and from what the
//! coordinator works with.

use bytes::Bytes;
use thiserror::Error;
use wire::WireError;
use wire::batch::{Batch, BatchBuilder};
use wire::state::transaction_log::{TransactionLogKey, TransactionLogValue, TransactionPartitions};

use super::core::{LAST_CLIENT_EPOCH, Metadata, NO_PRODUCER_EPOCH, Partitions, State, TransactionVersion};

/// A record that has been read. No value is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) transactional_id: String,
    pub(super) value: Option<Metadata>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("the state {0} of a transaction is not known")]
    UnknownState(i8),
}

/// Reads a record.
pub(super) fn read(key: &[u8], value: Option<&[u8]>) -> Result<Stored, ReadError> {
    let TransactionLogKey { transactional_id } = TransactionLogKey::from_bytes(&Bytes::copy_from_slice(key))?;
    let value = value.map(|value| TransactionLogValue::from_bytes(&Bytes::copy_from_slice(value)));
    let value = value.transpose()?.map(metadata).transpose()?;
    Ok(Stored { transactional_id, value })
}

fn metadata(value: TransactionLogValue) -> Result<Metadata, ReadError> {
    let state = State::from_id(value.transaction_status).ok_or(ReadError::UnknownState(value.transaction_status))?;
    let client_version = TransactionVersion(value.client_transaction_version);
    let topics = value.transaction_partitions.unwrap_or_default();
    let partitions = topics.iter().flat_map(|topic| topic.partition_ids.iter().map(|index| (&*topic.topic, *index)));
    let partitions: Partitions = partitions.collect();
    Ok(Metadata {
        producer_id: value.producer_id,
        previous_producer_id: value.previous_producer_id,
        next_producer_id: value.next_producer_id,
        producer_epoch: value.producer_epoch,
        last_producer_epoch: last_producer_epoch(state, client_version, value.producer_epoch),
        timeout_ms: value.transaction_timeout_ms,
        state,
        partitions,
        last_update_ms: value.transaction_last_update_timestamp_ms,
        start_ms: value.transaction_start_timestamp_ms,
        client_version,
    })
}

/// The last epoch is not stored. Where the end of a transaction has bumped the epoch, it is known all the same.
fn last_producer_epoch(state: State, client_version: TransactionVersion, producer_epoch: i16) -> i16 {
    let is_bumped = client_version.supports_epoch_bump() && (state.is_prepared() || state.is_complete());
    match producer_epoch {
        _ if !is_bumped => NO_PRODUCER_EPOCH,
        0 => LAST_CLIENT_EPOCH,
        bumped => bumped - 1,
    }
}

/// The value of an id's record, as a cluster of this level of `transaction.version` stores it.
fn value(metadata: &Metadata, version: TransactionVersion) -> Bytes {
    let topics = metadata.partitions.topics().map(|(topic, partitions)| TransactionPartitions {
        topic: topic.to_owned(),
        partition_ids: partitions.iter().copied().collect(),
    });
    let value = TransactionLogValue {
        producer_id: metadata.producer_id,
        producer_epoch: metadata.producer_epoch,
        transaction_timeout_ms: metadata.timeout_ms,
        transaction_status: metadata.state.id(),
        // Null only where there can be none (`TransactionLog.valueToBytes`).
        transaction_partitions: (metadata.state != State::Empty).then(|| topics.collect()),
        transaction_last_update_timestamp_ms: metadata.last_update_ms,
        transaction_start_timestamp_ms: metadata.start_ms,
        previous_producer_id: metadata.previous_producer_id,
        next_producer_id: metadata.next_producer_id,
        client_transaction_version: metadata.client_version.0,
        ..Default::default()
    };
    value.to_bytes(version.0)
}

/// The size of a record and its batch with these partitions is not above this. An id with an open transaction always
/// has room for the record that ends it.
pub(super) fn size_bytes_max(transactional_id: &str, partitions: &Partitions) -> usize {
    const BATCH_BYTES: usize = 256;
    const TOPIC_BYTES: usize = 16;
    const PARTITION_BYTES: usize = 4;
    let topics =
        partitions.topics().map(|(topic, partitions)| TOPIC_BYTES + topic.len() + PARTITION_BYTES * partitions.len());
    BATCH_BYTES + transactional_id.len() + topics.sum::<usize>()
}

/// Collects records into a batch.
pub(super) struct Batcher {
    now_ms: i64,
    version: TransactionVersion,
    batch: BatchBuilder,
}

impl Batcher {
    pub(super) fn new(now_ms: i64, version: TransactionVersion) -> Self {
        Self { now_ms, version, batch: BatchBuilder::new() }
    }

    /// Adds an id's record, or its tombstone.
    pub(super) fn push(&mut self, transactional_id: &str, metadata: Option<&Metadata>) {
        let key = TransactionLogKey { transactional_id: transactional_id.to_owned() }.to_bytes();
        let value = metadata.map(|metadata| value(metadata, self.version));
        self.batch.push(self.now_ms, Some(&key), value.as_deref(), &[]);
    }

    pub(super) fn build(self) -> Batch {
        self.batch.build()
    }
}
