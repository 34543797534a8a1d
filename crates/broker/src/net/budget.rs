//! Memory of all connections together: what a large request may take while it arrives.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Counts in KiB, so that the whole budget fits in a permit's count.
const PERMIT_BYTES: usize = 1024;

pub struct Budget {
    semaphore: Arc<Semaphore>,
    permits: usize,
}

impl Budget {
    /// The largest request must fit, or it could never be read.
    pub fn new(bytes: i64, request_bytes_max: i32) -> Self {
        let bytes = bytes.max(i64::from(request_bytes_max) + PERMIT_BYTES as i64);
        let permits = (bytes as usize / PERMIT_BYTES).min(u32::MAX as usize);
        Self { semaphore: Arc::new(Semaphore::new(permits)), permits }
    }

    pub fn size_bytes(&self) -> u64 {
        (self.permits * PERMIT_BYTES) as u64
    }

    /// How much of it is taken.
    pub fn used_bytes(&self) -> u64 {
        ((self.permits - self.semaphore.available_permits().min(self.permits)) * PERMIT_BYTES) as u64
    }

    /// How many permits so many bytes are.
    pub fn permits(bytes: usize) -> usize {
        bytes.div_ceil(PERMIT_BYTES)
    }

    /// Waits until so much of the budget is free.
    pub async fn acquire(&self, permits: usize) -> OwnedSemaphorePermit {
        let permits = u32::try_from(permits).expect("a request is smaller than 4 TiB");
        Arc::clone(&self.semaphore).acquire_many_owned(permits).await.expect("the budget is never closed")
    }
}
