//! TxnOffsetCommit, and the markers that end transactions in `__consumer_offsets` (KIP-447, KIP-890).
//!
//! The offsets are committed as those of OffsetCommit are, but stay pending until the marker. It takes its place among
//! the partition's other records under the same lock, and is answered when it is durable and the offsets of all groups
//! are what it made of them (KAFKA-17507): what the transaction's coordinator reports as ended can be read.

use std::net::IpAddr;
use std::sync::Arc;

use storage::VerificationGuard;
use wire::ErrorCode;
use wire::api::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::api::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic, TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
};

use super::coordinator::{GroupCoordinator, check_group_id, response_error};
use super::records::{self, Marker};
use super::shard::Shard;

/// The producer in whose transaction offsets are committed.
#[derive(Clone, Copy)]
pub(super) struct Producer {
    pub(super) id: i64,
    pub(super) epoch: i16,
    pub(super) guard: Option<VerificationGuard>,
}

impl GroupCoordinator {
    /// Commits offsets in a transaction. `verification` asks the transaction's coordinator whether the partition of
    /// `__consumer_offsets` belongs to it, or adds it; it is polled once there is something to commit.
    pub async fn txn_offset_commit(
        self: &Arc<Self>,
        api_version: i16,
        client_host: IpAddr,
        mut request: TxnOffsetCommitRequest,
        verification: impl Future<Output = Result<Option<VerificationGuard>, ErrorCode>>,
    ) -> TxnOffsetCommitResponse {
        /// First version whose clients know COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
        const LOADING_SINCE: i16 = 2;
        let (id, epoch) = (request.producer_id, request.producer_epoch);
        let topics = std::mem::take(&mut request.topics);
        let commit = OffsetCommitRequest {
            group_id: request.group_id,
            generation_id_or_member_epoch: request.generation_id,
            member_id: request.member_id,
            group_instance_id: request.group_instance_id,
            topics: topics.into_iter().map(committed_topic).collect(),
            ..Default::default()
        };
        let group_id = commit.group_id.clone();
        let producer = async {
            check_group_id(&group_id)?;
            // A transaction gets no partition that could not be written to then.
            self.shard(&group_id)?.state.lock().phase.check()?;
            let guard = verification.await.map_err(response_error)?;
            Ok(Some(Producer { id, epoch, guard }))
        };
        let committed = self.commit(BY_NAME, client_host, commit, producer).await;
        let error = |error_code| match error_code {
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS if api_version < LOADING_SINCE => {
                ErrorCode::COORDINATOR_NOT_AVAILABLE
            }
            error_code => error_code,
        };
        let topics = committed.topics.into_iter().map(|topic| {
            let partitions = topic.partitions.into_iter().map(|partition| TxnOffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: error(partition.error_code),
            });
            TxnOffsetCommitResponseTopic { name: topic.name, partitions: partitions.collect() }
        });
        TxnOffsetCommitResponse { topics: topics.collect(), ..Default::default() }
    }

    /// Ends a transaction in a partition of `__consumer_offsets`. The marker is on its way to the log when this
    /// returns, and takes effect also if what is returned is dropped.
    pub fn write_marker(
        self: &Arc<Self>,
        partition: i32,
        marker: Marker,
    ) -> impl Future<Output = Result<(), ErrorCode>> + Send + 'static + use<> {
        let ending = self.begin_marker(partition, marker).map(tokio::spawn);
        async move {
            let result = match ending {
                Ok(task) => task.await.unwrap_or(Err(ErrorCode::UNKNOWN_SERVER_ERROR)),
                Err(error) => Err(error),
            };
            result.map_err(marker_error)
        }
    }

    fn begin_marker(
        self: &Arc<Self>,
        partition: i32,
        marker: Marker,
    ) -> Result<impl Future<Output = Result<(), ErrorCode>> + Send + 'static + use<>, ErrorCode> {
        let shard = self.shard_of(partition)?;
        let mut state = shard.state.lock();
        state.phase.check()?;
        let batch = records::marker(self.now().wall_ms, &marker);
        let durable = self.log.append_marker(partition, batch, marker.transaction_version);
        state.begin_marker(marker.producer_id);
        drop(state);
        let coordinator = Arc::clone(self);
        Ok(async move {
            let result = durable.await;
            coordinator.end_marker(&shard, marker, result.map(|_| ())).await
        })
    }

    /// Applies a marker, once the producer's writes before it have ended: they are durable, but may not know it yet.
    async fn end_marker(&self, shard: &Shard, marker: Marker, result: Result<(), ErrorCode>) -> Result<(), ErrorCode> {
        loop {
            let write = {
                let mut state = shard.state.lock();
                // Whoever leads the partition next reads the marker.
                state.phase.check()?;
                match state.write_of(marker.producer_id).filter(|_| result.is_ok()) {
                    Some(write) => write.notified_owned(),
                    None => {
                        let is_committed = result.is_ok().then_some(marker.is_committed);
                        state.end_marker(marker.producer_id, is_committed, &self.memory);
                        return result;
                    }
                }
            };
            write.await;
        }
    }
}

/// The version of OffsetCommit that names topics and has all that TxnOffsetCommit has.
const BY_NAME: i16 = 9;

fn committed_topic(topic: TxnOffsetCommitRequestTopic) -> OffsetCommitRequestTopic {
    let partitions = topic.partitions.into_iter().map(|partition| OffsetCommitRequestPartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        committed_metadata: partition.committed_metadata,
    });
    OffsetCommitRequestTopic { name: topic.name, partitions: partitions.collect(), ..Default::default() }
}

/// What the transaction's coordinator is told, which looks for leaders and not for group coordinators
/// (`KafkaApis.handleWriteTxnMarkersRequest`).
fn marker_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
            ErrorCode::NOT_LEADER_OR_FOLLOWER
        }
        error => error,
    }
}
