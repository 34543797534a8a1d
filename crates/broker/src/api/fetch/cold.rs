//! Parts of logs that are not in the page cache, or that no process has looked at since the start: the CRCs of those
//! are checked before they are sent, and their indexes may have to be made anew. That waits for the disk, so it is left
//! to threads that may ([`BlockingPool`]).

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

use super::Reads;
use crate::blocking_pool::BlockingPool;
use crate::fetch_sessions::Targets;
use crate::partition::Partition;

/// How long an answer waits for it. Afterwards the client is told nothing of these partitions, and asks again.
const TIMEOUT: Duration = Duration::from_secs(2);
/// What is checked and read in for one partition and one answer at most, whatever the client takes.
const BYTES_MAX: u32 = 1 << 20;

/// Looks at what was left out, and reads in the first `bytes_max` bytes of it. Says whether it came to an end in time.
pub(super) async fn warm(cold_reads: &BlockingPool, targets: &Targets, reads: &Reads, bytes_max: u32) -> bool {
    let cold = targets.iter().zip(&reads.parts).filter(|(_, read)| read.is_cold);
    let cold: Vec<(Arc<Partition>, i64, u32)> = cold
        .filter_map(|(target, _)| {
            let partition = Arc::clone(target.partition.as_ref().ok()?);
            Some((partition, target.fetch_offset, target.max_bytes.clamp(0, BYTES_MAX as i32) as u32))
        })
        .collect();
    let look = move || {
        let mut left = bytes_max;
        for (partition, offset, bytes_max) in cold {
            // Whatever is wrong there is found again by the next read.
            if let Ok(Some(span)) = partition.view().span(offset, i64::MAX, BYTES_MAX) {
                let wanted = bytes_max.min(left);
                _ = span.read_in(wanted);
                left -= wanted;
            }
        }
    };
    // A simulation of partitions alone has no runtime and no disk to wait for.
    if Handle::try_current().is_err() {
        look();
        return true;
    }
    matches!(timeout(TIMEOUT, cold_reads.clone().run(look)).await, Ok(Some(())))
}
