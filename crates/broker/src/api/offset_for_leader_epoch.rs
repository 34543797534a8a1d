//! OffsetForLeaderEpoch (key 23), versions 2-4: where a leader epoch ends in a log.
//!
//! Behaviour:
//! - Answers the greatest epoch of the log that is not above the one asked for, and the offset at which the next
//!   begins; the current epoch ends at the end of the log (KIP-101, KIP-279).
//! - -1 and -1 when the log knows no such epoch, or when the epoch asked for is above the current one.
//! - The client's own epoch is checked first (KIP-320). Only the leader answers.

use std::sync::Arc;

use metadata::acl::AclOperation;
use wire::ErrorCode;
use wire::api::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
};

use super::{Pace, RequestContext};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    let mut pace = Pace::default();
    let access = context.access(broker);
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        let granted = access.check_topic(AclOperation::Describe, &topic.topic);
        for asked in &topic.partitions {
            partitions.push(answer(broker, granted, &topic.topic, asked));
            pace.step(1).await;
        }
        topics.push(OffsetForLeaderTopicResult { partitions, topic: topic.topic });
    }
    OffsetForLeaderEpochResponse { topics, ..Default::default() }
}

fn answer(
    broker: &Broker,
    granted: Result<(), ErrorCode>,
    topic: &str,
    asked: &OffsetForLeaderPartition,
) -> EpochEndOffset {
    let answer = EpochEndOffset { partition: asked.partition, ..Default::default() };
    match granted.and_then(|()| find(broker, topic, asked)) {
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

#[cfg(test)]
mod tests {
    use wire::Uuid;
    use wire::api::offset_for_leader_epoch::OffsetForLeaderTopic;
    use wire::state::metadata::PartitionChangeRecord;

    use super::*;
    use crate::api::test_support::{TestBroker, context, led_by, registration};

    const TOPIC_ID: Uuid = Uuid([7; 16]);

    /// Begins the next leader epoch of partition 0.
    async fn elect(broker: &TestBroker, leader: i32) {
        let change = PartitionChangeRecord { partition_id: 0, topic_id: TOPIC_ID, leader, ..Default::default() };
        broker.commit([change.into()]).await;
    }

    async fn ask(broker: &TestBroker, current_leader_epoch: i32, leader_epoch: i32) -> (ErrorCode, i32, i64) {
        let asked = OffsetForLeaderPartition { partition: 0, current_leader_epoch, leader_epoch };
        let topics = vec![OffsetForLeaderTopic { topic: "t".to_owned(), partitions: vec![asked] }];
        let request = OffsetForLeaderEpochRequest { topics, ..Default::default() };
        let response = handle(broker, &context(4), request).await;
        let found = &response.topics[0].partitions[0];
        (found.error_code, found.leader_epoch, found.end_offset)
    }

    #[tokio::test]
    async fn an_epoch_ends_where_the_next_one_of_the_log_begins() {
        let broker = TestBroker::start().await;
        broker.create("t", TOPIC_ID, &[led_by(1, &[1])]).await;
        assert_eq!(ask(&broker, -1, 0).await, (ErrorCode::NONE, 0, 0), "an empty log");
        broker.append("t", 0);
        broker.append("t", 0);
        elect(&broker, 1).await;
        elect(&broker, 1).await;
        broker.append("t", 0);
        elect(&broker, 1).await;
        let none = ErrorCode::NONE;
        assert_eq!(ask(&broker, -1, 0).await, (none, 0, 2));
        assert_eq!(ask(&broker, -1, 1).await, (none, 0, 2), "it has no records");
        assert_eq!(ask(&broker, -1, 2).await, (none, 2, 3));
        assert_eq!(ask(&broker, -1, 3).await, (none, 3, 3), "the current one, which has none yet");
        assert_eq!(ask(&broker, -1, 4).await, (none, -1, -1));
        assert_eq!(ask(&broker, -1, -1).await, (none, -1, -1));
        broker.append("t", 0);
        assert_eq!(ask(&broker, 3, 2).await, (none, 2, 3));
        assert_eq!(ask(&broker, 3, 3).await, (none, 3, 4));
    }

    #[tokio::test]
    async fn the_epoch_of_the_client_is_checked_before_who_leads() {
        let broker = TestBroker::start().await;
        broker.commit([registration(2).into()]).await;
        broker.create("t", TOPIC_ID, &[led_by(1, &[1, 2])]).await;
        elect(&broker, 2).await;
        for (epoch, code) in [
            (-1, ErrorCode::NOT_LEADER_OR_FOLLOWER),
            (0, ErrorCode::FENCED_LEADER_EPOCH),
            (1, ErrorCode::NOT_LEADER_OR_FOLLOWER),
            (2, ErrorCode::UNKNOWN_LEADER_EPOCH),
        ] {
            assert_eq!(ask(&broker, epoch, 0).await, (code, -1, -1), "{epoch}");
        }
    }

    /// Consumers may have read from the leader before up to where its followers were not told yet.
    #[tokio::test]
    async fn a_new_leader_tells_of_an_epoch_before_it_all_that_it_has() {
        let broker = TestBroker::start().await;
        broker.commit([registration(2).into()]).await;
        broker.create("t", TOPIC_ID, &[led_by(2, &[1, 2])]).await;
        for high_watermark in [0, 1, 2] {
            broker.follow("t", 0, high_watermark);
        }
        elect(&broker, 1).await;
        let partition = broker.partitions.find_by_name("t", 0).expect("it is here");
        assert_eq!((partition.high_watermark(), partition.view().log_end_offset()), (2, 3));
        assert_eq!(ask(&broker, 1, 0).await, (ErrorCode::NONE, 0, 3));
    }
}
