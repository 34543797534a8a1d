//! Deleting records from the start of the log (KIP-107), and waiting until the followers have done it too.
//!
//! A leader moves the start of its own log. Followers get it with the fetch response, move theirs, and send it with the
//! next fetch. The *low watermark* is the least start over the live replicas: none of them has anything below it.

use std::sync::Arc;

use storage::LogError;
use wire::ErrorCode;

use super::Partition;

impl Partition {
    /// Drops what is below the offset, which must not be above the high watermark. Waiting fetches are answered at
    /// once.
    pub fn delete_records(self: &Arc<Self>, offset: i64) -> Result<(), LogError> {
        let before = self.log_start_offset();
        let after = self.with_log(|log| log.delete_records(offset))?;
        if after > before {
            self.waiters().wake_all();
        }
        Ok(())
    }

    /// `Partition.lowWatermarkIfLeader`.
    pub fn low_watermark(&self) -> Result<i64, ErrorCode> {
        self.check_online()?;
        self.read_leadership(|leadership| leadership.low_watermark(self.log_start_offset()))
    }

    /// Until the low watermark has reached an offset, or this node leads no more (`DelayedDeleteRecords`).
    pub async fn wait_until_deleted(&self, offset: i64) -> Result<i64, ErrorCode> {
        loop {
            // From here on a move is not missed.
            let moved = self.waiters().low_watermark_moved();
            let low_watermark = self.low_watermark()?;
            if low_watermark >= offset {
                return Ok(low_watermark);
            }
            moved.await;
        }
    }
}
