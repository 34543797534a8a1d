//! OffsetForLeaderEpoch (key 23), versions 2-4: where a leader epoch ends in a log.
//!
//! Behaviour:
//! - Answers the greatest epoch of the log that is not above the one asked for, and the offset at which the next
//!   begins; the current epoch ends at the end of the log (KIP-101, KIP-279).
//! - -1 and -1 when the log knows no such epoch, or when the epoch asked for is above the current one.
//! - The client's own epoch is checked first (KIP-320). Only the leader answers.

use std::sync::Arc;

use wire::ErrorCode;
use wire::api::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
};

use super::{Pace, RequestContext};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    let mut pace = Pace::default();
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for asked in &topic.partitions {
            partitions.push(answer(broker, &topic.topic, asked));
            pace.step(1).await;
        }
        topics.push(OffsetForLeaderTopicResult { partitions, topic: topic.topic });
    }
    OffsetForLeaderEpochResponse { topics, ..Default::default() }
}

fn answer(broker: &Broker, topic: &str, asked: &OffsetForLeaderPartition) -> EpochEndOffset {
    let answer = EpochEndOffset { partition: asked.partition, ..Default::default() };
    match find(broker, topic, asked) {
        Ok(end) => EpochEndOffset { leader_epoch: end.epoch, end_offset: end.end_offset, ..answer },
        Err(error_code) => EpochEndOffset { error_code, ..answer },
    }
}

fn find(broker: &Broker, topic: &str, asked: &OffsetForLeaderPartition) -> Result<storage::EpochEndOffset, ErrorCode> {
    let partition = broker.partitions.find_by_name(topic, asked.partition)?;
    partition.check_leader_in_epoch(asked.current_leader_epoch)?;
    let current = partition.leader_epoch();
    if asked.leader_epoch == current {
        // The log may have no record of its leader's epoch yet.
        return Ok(storage::EpochEndOffset { epoch: current, end_offset: partition.high_watermark() });
    }
    Ok(partition.end_offset_for_epoch(asked.leader_epoch))
}
