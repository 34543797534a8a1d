//! The ids of producers. The controller gives them out to brokers in blocks, written to the metadata log first; what is
//! left of a block when the broker stops is lost.

use std::ops::Range;
use std::sync::Arc;

use coordinator::topic_log::BoxFuture;
use coordinator::txn;
use metadata::{MetadataCache, ProducerIdBlock};
use platform::{Allowed, LogLimit};
use tokio::sync::Mutex;
use wire::ErrorCode;
use wire::api::allocate_producer_ids::AllocateProducerIdsRequest;

use crate::controller::{Controller, ControllerError};

/// The producer ids of this broker.
#[derive(Clone)]
pub(super) struct ProducerIds {
    pub(super) node_id: i32,
    pub(super) metadata: Arc<MetadataCache>,
    pub(super) controller: Controller,
    pub(super) log_limit: Arc<LogLimit>,
    pub(super) block: Arc<Block>,
}

impl txn::ProducerIds for ProducerIds {
    fn next(&self) -> BoxFuture<Result<i64, ErrorCode>> {
        let ids = self.clone();
        Box::pin(async move {
            let id = ids.block.next(async || ids.allocate().await).await;
            id.map_err(|error| {
                if let Some(Allowed { left_out }) = ids.log_limit.allow_other() {
                    tracing::warn!(reason = %error, left_out, "no producer ids are to be had");
                }
                // The client tries again.
                ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            })
        })
    }
}

impl ProducerIds {
    async fn allocate(&self) -> Result<ProducerIdBlock, ControllerError> {
        let broker_epoch = self.metadata.load().broker(self.node_id).map_or(-1, |own| own.epoch);
        let request = AllocateProducerIdsRequest { broker_id: self.node_id, broker_epoch };
        let block = self.controller.ask(request).await?;
        match block.error_code {
            ErrorCode::NONE => {
                Ok(ProducerIdBlock { first: block.producer_id_start, count: block.producer_id_len.into() })
            }
            code => Err(ControllerError::Internal(format!("producer ids are refused: {code}").into())),
        }
    }
}

/// The ids of the last block that are still free.
#[derive(Default)]
pub(super) struct Block {
    /// The lock is held while a new block is fetched: other requests for an id need the same block.
    left: Mutex<Range<i64>>,
}

impl Block {
    async fn next(
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
        let ids = Block::default();
        let stopped = ids.next(async || Err(ControllerError::Stopped)).await;
        assert_eq!(stopped, Err(ControllerError::Stopped));
        let mut given = Vec::new();
        for round in 0..5 {
            given.push(ids.next(async || Ok(ProducerIdBlock { first: round * 100, count: 2 })).await);
        }
        assert_eq!(given, [0, 1, 200, 201, 400].map(Ok));
    }
}
