//! Parts of logs that no process has looked at since the start: their CRCs are checked before they are sent, and their
//! indexes may have to be made anew. That reads from the disk, so it is done by threads that may wait for it, and by
//! not too many of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Reads;
use crate::api::fetch::sessions::Targets;
use crate::partition::Partition;
use crate::threads::spawn_blocking;

/// How long an answer waits for it. Afterwards the client is told nothing of these partitions, and asks again.
const TIMEOUT: Duration = Duration::from_secs(2);
/// What is checked for one partition and one answer at most, whatever the client takes.
const BYTES_MAX: u32 = 1 << 20;

/// Looks at what was left out. Says whether it came to an end in time.
pub(super) async fn warm(permits: &Arc<Semaphore>, targets: &Targets, reads: &Reads) -> bool {
    let cold = targets.iter().zip(&reads.parts).filter(|(_, read)| read.is_cold);
    let cold: Vec<(Arc<Partition>, i64)> = cold
        .filter_map(|(target, _)| Some((Arc::clone(target.partition.as_ref().ok()?), target.fetch_offset)))
        .collect();
    let look = move || {
        for (partition, offset) in cold {
            // Whatever is wrong there is found again by the next read.
            _ = partition.view().span(offset, i64::MAX, BYTES_MAX);
        }
    };
    // A simulation of partitions alone has no runtime and no disk to wait for.
    if Handle::try_current().is_err() {
        look();
        return true;
    }
    let looked = async {
        let permit = Arc::clone(permits).acquire_owned().await;
        let look = move || {
            look();
            drop(permit);
        };
        spawn_blocking(look).await
    };
    matches!(timeout(TIMEOUT, looked).await, Ok(Ok(())))
}
