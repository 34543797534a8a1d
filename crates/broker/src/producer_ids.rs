//! The ids of idempotent producers. The controller gives them out to brokers in blocks.

use metadata::ProducerIdBlock;
use tokio::sync::Mutex;

use crate::controller::ControllerError;

/// The producer ids that the controller has given to this broker and that are still free.
#[derive(Default)]
pub struct ProducerIds {
    /// The lock is held while a new block is fetched: other requests for an id need the same block.
    left: Mutex<std::ops::Range<i64>>,
}

impl ProducerIds {
    pub async fn next(
        &self,
        allocate: impl AsyncFnOnce() -> Result<ProducerIdBlock, ControllerError>,
    ) -> Result<i64, ControllerError> {
        let mut left = self.left.lock().await;
        if let Some(id) = left.next() {
            return Ok(id);
        }
        let block = allocate().await?;
        *left = block.first..block.first + block.count;
        left.next().ok_or_else(|| ControllerError::Internal("a block of no producer ids".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_block_is_used_up_before_the_next_is_asked_for() {
        let ids = ProducerIds::default();
        let stopped = ids.next(async || Err(ControllerError::Stopped)).await;
        assert_eq!(stopped, Err(ControllerError::Stopped));
        let mut given = Vec::new();
        for round in 0..5 {
            given.push(ids.next(async || Ok(ProducerIdBlock { first: round * 100, count: 2 })).await);
        }
        assert_eq!(given, [0, 1, 200, 201, 400].map(Ok));
    }
}
