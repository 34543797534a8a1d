//! What a follower does with the bytes of a Fetch response (`UnifiedLog.appendAsFollower`).

use bytes::Bytes;
use wire::batch::{Batch, BatchError, Batches};

use crate::config::Now;
use crate::error::{AppendError, LogError};
use crate::log::Log;
use crate::producers::Origin;
use crate::scan::{Offsets, is_plausible};

/// What was appended of a Fetch response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    pub batches: usize,
    pub bytes: usize,
}

/// Why nothing was appended of a Fetch response.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FetchedError {
    #[error("the batch fetched for offset {offset} is damaged: {error}")]
    Corrupt { offset: i64, error: BatchError },
    #[error("a batch of leader epoch {0}, which is later than the leader's own")]
    FromTheFuture(i32),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Log(#[from] LogError),
}

impl Log {
    /// Appends as a follower what it fetched from `fetch_offset`, in the leader's epoch that the request named: whole
    /// batches as they came, in one write per segment touched. The bytes may end within a batch.
    ///
    /// What stands in front of trouble is appended. It is an error if that is nothing, and the next fetch begins with
    /// the trouble. [`AppendError::OffsetsOutOfOrder`] means that the response is not for the log's end. Where the log
    /// is empty and begins within the leader's first batch, it has to start anew at that batch's base offset.
    pub fn append_fetched(
        &mut self,
        fetch_offset: i64,
        fetched: &Bytes,
        leader_epoch: i32,
        now: Now,
    ) -> Result<Fetched, FetchedError> {
        let log_end_offset = self.log_end_offset();
        if fetch_offset != log_end_offset {
            return Err(AppendError::OffsetsOutOfOrder { base_offset: fetch_offset, log_end_offset }.into());
        }
        let (batches, trouble) = whole_batches(fetched, log_end_offset, leader_epoch);
        if batches.is_empty() {
            return trouble.map_or(Ok(Fetched::default()), Err);
        }
        let bytes: usize = batches.iter().map(|batch| batch.bytes.len()).sum();
        let results = self.append_run(&batches, &[], Origin::Replication, None, Some(&fetched[..bytes]), now)?;
        let mut appended = Fetched::default();
        for (batch, result) in batches.iter().zip(results) {
            match result {
                Ok(_) => {
                    appended.batches += 1;
                    appended.bytes += batch.bytes.len();
                }
                Err(error) if appended.batches == 0 => return Err(error.into()),
                Err(_) => break,
            }
        }
        Ok(appended)
    }
}

/// The batches that continue a log, and what is wrong with the one behind them.
fn whole_batches(fetched: &Bytes, log_end_offset: i64, leader_epoch: i32) -> (Vec<Batch>, Option<FetchedError>) {
    let mut batches = Vec::new();
    let mut offset = log_end_offset;
    for batch in Batches::new(fetched.clone()) {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => return (batches, Some(FetchedError::Corrupt { offset, error })),
        };
        let header = batch.header;
        // The sender lost its leadership while it was sending, and took these from its new leader (KAFKA-18723).
        if header.partition_leader_epoch > leader_epoch {
            return (batches, Some(FetchedError::FromTheFuture(header.partition_leader_epoch)));
        }
        if header.base_offset < offset {
            let error = AppendError::OffsetsOutOfOrder { base_offset: header.base_offset, log_end_offset: offset };
            return (batches, Some(error.into()));
        }
        let offsets = Offsets { lowest: offset, upper: i64::MAX };
        if !is_plausible(&header, batch.bytes.len() as u64, offsets) {
            let (count, last_offset_delta) = (header.record_count, header.last_offset_delta);
            let error = BatchError::Count { count, last_offset_delta };
            return (batches, Some(FetchedError::Corrupt { offset, error }));
        }
        offset = header.next_offset();
        batches.push(batch);
    }
    (batches, None)
}
