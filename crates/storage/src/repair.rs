//! Putting batches back where bytes have gone bad, from a replica that has them.
//!
//! Replicas store the same batches with the same bytes, so what is missing fits into the place of what is bad, if it is
//! the same history. It is not believed before its CRCs, offsets and leader epochs say so.

use std::io::IoSlice;

use bytes::Bytes;
use wire::batch::{BatchError, Batches};

use crate::disk::write_all_at;
use crate::error::LogError;
use crate::log::Log;
use crate::scan::BadRange;

/// Why bytes were not put in the place of bad ones, which stay as they are.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RepairError {
    #[error("nothing is known to be bad there")]
    NotDamaged,
    #[error("no whole batch was given")]
    Nothing,
    #[error("what was given is bad itself: {0}")]
    Bad(BatchError),
    #[error("a batch of offset {base_offset} and leader epoch {leader_epoch} does not belong there")]
    OtherHistory { base_offset: i64, leader_epoch: i32 },
    /// As with logs that were compacted at different times.
    #[error("the batches have {given_bytes} bytes, the place of the bad ones {bad_bytes}")]
    OtherSize { given_bytes: u64, bad_bytes: u64 },
    #[error("{0}")]
    Log(#[from] LogError),
}

impl Log {
    /// Writes batches over a bad range, from its start on, and syncs them. They need not fill it; what they leave stays
    /// bad. Batches behind the range and a cut one at the end are left out. Returns the offset that comes next.
    pub fn repair(&mut self, range: &BadRange, bytes: Bytes) -> Result<i64, RepairError> {
        self.view.check()?;
        let part = self.view.published().part_for(range.segment);
        if !part.segment.bad_ranges().contains(range) {
            return Err(RepairError::NotDamaged);
        }
        let bad_bytes = range.end_position - range.position;
        let (mut given_bytes, mut offset) = (0, range.first_offset);
        for batch in Batches::new(bytes.clone()) {
            let header = batch.map_err(RepairError::Bad)?.header;
            if header.base_offset >= range.next_offset {
                break;
            }
            let leader_epoch = header.partition_leader_epoch;
            let belongs = header.base_offset >= offset
                && header.next_offset() <= range.next_offset
                && self.view.epoch_for_offset(header.base_offset) == Some(leader_epoch);
            if !belongs {
                return Err(RepairError::OtherHistory { base_offset: header.base_offset, leader_epoch });
            }
            given_bytes += header.size() as u64;
            offset = header.next_offset();
        }
        if given_bytes == 0 {
            return Err(RepairError::Nothing);
        }
        if given_bytes > bad_bytes || (given_bytes == bad_bytes) != (offset == range.next_offset) {
            return Err(RepairError::OtherSize { given_bytes, bad_bytes });
        }
        let file = part.segment.log_file().map_err(LogError::from)?;
        write_all_at(&*file, &mut [IoSlice::new(&bytes[..given_bytes as usize])], range.position)
            .map_err(|error| self.view.write_error("mending failed", error))?;
        file.sync_data().map_err(|error| self.view.fail("syncing what was mended failed", &error))?;
        part.segment.note_mended(range, range.position + given_bytes, offset);
        tracing::info!(
            dir = %self.dir.display(), first_offset = range.first_offset, next_offset = offset,
            "mended a bad batch with a replica's"
        );
        Ok(offset)
    }
}
