//! What can go wrong, one small enum per door: the log as a whole, one appended batch, one read.

use std::io;
use std::sync::Arc;

use crate::disk;

/// The log, or what was asked of it, failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// Retriable: nothing of what was asked is in the log, what was there is unharmed.
    #[error("the disk is full: {0}")]
    DiskFull(Arc<io::Error>),
    /// Retriable: the process is out of descriptors or memory.
    #[error("out of descriptors or memory: {0}")]
    Exhausted(Arc<io::Error>),
    /// A write or a sync failed, now or earlier. The log takes and promises nothing any more until it is opened anew.
    #[error("the log failed and is closed: {0}")]
    Failed(Arc<str>),
    /// Reading, opening or housekeeping failed; the log itself is as it was.
    #[error("{0}")]
    Io(Arc<io::Error>),
    #[error("offset {offset} is outside of the log, which has {log_start_offset} to {log_end_offset}")]
    OffsetOutOfRange { offset: i64, log_start_offset: i64, log_end_offset: i64 },
    /// A bad batch is in the way of what was asked.
    #[error("the log is damaged at offsets {first_offset} to {next_offset} (exclusive)")]
    Corrupt { first_offset: i64, next_offset: i64 },
}

impl LogError {
    /// Whether the same call may succeed later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::DiskFull(_) | Self::Exhausted(_))
    }
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        if disk::is_disk_full(&error) {
            Self::DiskFull(Arc::new(error))
        } else if disk::is_exhausted(&error) {
            Self::Exhausted(Arc::new(error))
        } else {
            Self::Io(Arc::new(error))
        }
    }
}

impl From<ReadError> for LogError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::OffsetOutOfRange { offset, log_start_offset, log_end_offset } => {
                Self::OffsetOutOfRange { offset, log_start_offset, log_end_offset }
            }
            ReadError::Corrupt { first_offset, next_offset } => Self::Corrupt { first_offset, next_offset },
            ReadError::Closed => Self::Failed("the log was deleted".into()),
            ReadError::Cold => Self::Io(Arc::new(io::ErrorKind::WouldBlock.into())),
            ReadError::Io(error) => Self::Io(error),
        }
    }
}

/// Why one batch was not appended. The others of the same call are not touched by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    #[error("the batch has {size_bytes} bytes, max.message.bytes is {max_message_bytes}")]
    MessageTooLarge { size_bytes: usize, max_message_bytes: u32 },
    #[error("the batch has {size_bytes} bytes, segment.bytes is {segment_bytes}")]
    RecordListTooLarge { size_bytes: usize, segment_bytes: u32 },
    #[error("sequence {sequence} of producer {producer_id} epoch {producer_epoch} does not follow {last_sequence}")]
    OutOfOrderSequence { producer_id: i64, producer_epoch: i16, sequence: i32, last_sequence: i32 },
    #[error("epoch {producer_epoch} of producer {producer_id} is behind {current_epoch}")]
    InvalidProducerEpoch { producer_id: i64, producer_epoch: i16, current_epoch: i16 },
    /// A batch outside of a transaction while one of the same producer is open, or one of a transaction that is not
    /// open and was not verified.
    #[error("producer {producer_id} has an open transaction, or none that was verified")]
    InvalidTxnState { producer_id: i64 },
    #[error("coordinator epoch {coordinator_epoch} of a marker for producer {producer_id} is behind {current_epoch}")]
    TransactionCoordinatorFenced { producer_id: i64, coordinator_epoch: i32, current_epoch: i32 },
    /// A replicated batch that does not continue the log, or no offsets are left.
    #[error("the batch starts at offset {base_offset}, the log ends at {log_end_offset}")]
    OffsetsOutOfOrder { base_offset: i64, log_end_offset: i64 },
    /// Retriable, see [`LogError::DiskFull`].
    #[error("the disk is full")]
    DiskFull,
    /// Retriable, see [`LogError::Exhausted`].
    #[error("out of descriptors or memory")]
    Exhausted,
}

/// Why nothing can be read at an offset.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    #[error("offset {offset} is outside of the log, which has {log_start_offset} to {log_end_offset}")]
    OffsetOutOfRange { offset: i64, log_start_offset: i64, log_end_offset: i64 },
    /// The bytes of these offsets are bad; everything before and from `next_offset` on is readable.
    #[error("the log is damaged at offsets {first_offset} to {next_offset} (exclusive)")]
    Corrupt { first_offset: i64, next_offset: i64 },
    #[error("the log was deleted")]
    Closed,
    /// Something has to be read from the disk, checked or rebuilt first, which takes a while: see
    /// [`LogView::span_at_once`](crate::LogView::span_at_once).
    #[error("the log has to be read from the disk there")]
    Cold,
    #[error("{0}")]
    Io(Arc<io::Error>),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Only a file that is read as far as it is cached says so.
            io::ErrorKind::WouldBlock => Self::Cold,
            _ => Self::Io(Arc::new(error)),
        }
    }
}
