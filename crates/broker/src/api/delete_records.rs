//! DeleteRecords (key 21), versions 0-2: move the start of a log.
//!
//! Behaviour:
//! - Records below the offset can no longer be read; -1 is everything below the high watermark. The answer is the log's
//!   new start, which never goes back.
//! - An offset beyond the high watermark is OFFSET_OUT_OF_RANGE.
//! - A topic that is compacted and nothing else refuses: POLICY_VIOLATION.
//! - Needs: DELETE on the topic (TOPIC_AUTHORIZATION_FAILED).
//! - Only the leader takes it. It is answered with the low watermark, when all live followers have deleted as much;
//!   with REQUEST_TIMED_OUT, when they have not within the request's time. The leader has deleted nevertheless.
//! - Of a partition that is named twice, the last offset counts, as in Kafka.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metadata::acl::AclOperation;
use tokio::time::{Instant, timeout_at};
use wire::ErrorCode;
use wire::api::delete_records::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopic, DeleteRecordsTopicResult,
};

use super::RequestContext;
use super::access::denied;
use crate::Broker;
use crate::partition::Partition;
use crate::threads::spawn_blocking;

/// The offset of a request that stands for the high watermark.
const HIGH_WATERMARK: i64 = -1;
/// The request has no leader epoch.
const NO_EPOCH: i32 = -1;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    mut request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let deadline = Instant::now() + Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let access = context.access(broker);
    let denied = denied(&mut request.topics, |topic| access.topic(AclOperation::Delete, &topic.name));
    let broker = Arc::clone(broker);
    let delete_all = move || {
        let asked = last_of_each(request.topics).into_iter().filter(|topic| !topic.partitions.is_empty());
        asked.map(|topic| delete_in(&broker, topic)).collect::<Vec<_>>()
    };
    // What lies above the new start is brought to the disk first.
    let deleted = spawn_blocking(delete_all).await;
    let deleted = deleted.unwrap_or_else(|error| {
        tracing::error!(%error, "a deletion of records ended");
        Vec::new()
    });
    let mut topics = Vec::with_capacity(deleted.len());
    for (name, here) in deleted {
        let mut partitions = Vec::with_capacity(here.len());
        for (partition_index, outcome) in here {
            let (low_watermark, error_code) = match outcome {
                Ok(deletion) => deletion.on_all(deadline).await,
                Err(code) => (-1, code),
            };
            partitions.push(DeleteRecordsPartitionResult { partition_index, low_watermark, error_code });
        }
        topics.push(DeleteRecordsTopicResult { name, partitions });
    }
    topics.extend(denied.into_iter().map(|topic| {
        let refused = |asked: DeleteRecordsPartition| DeleteRecordsPartitionResult {
            partition_index: asked.partition_index,
            low_watermark: -1,
            error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED,
        };
        let partitions = topic.partitions.into_iter().map(refused).collect();
        DeleteRecordsTopicResult { name: topic.name, partitions }
    }));
    DeleteRecordsResponse { topics, ..Default::default() }
}

/// The outcome of one partition on this broker.
type Deleted = (i32, Result<Deletion, ErrorCode>);

/// What this leader has deleted, and its followers may not have yet.
struct Deletion {
    partition: Arc<Partition>,
    before_offset: i64,
}

impl Deletion {
    /// Waits for the followers. Returns the low watermark, and whether it is where it should be.
    async fn on_all(self, deadline: Instant) -> (i64, ErrorCode) {
        match timeout_at(deadline, self.partition.wait_until_deleted(self.before_offset)).await {
            Ok(Ok(low_watermark)) => (low_watermark, ErrorCode::NONE),
            Ok(Err(code)) => (-1, code),
            Err(_) => (self.partition.low_watermark().unwrap_or(-1), ErrorCode::REQUEST_TIMED_OUT),
        }
    }
}

fn delete_in(broker: &Broker, topic: DeleteRecordsTopic) -> (String, Vec<Deleted>) {
    let deleted =
        topic.partitions.iter().map(|asked| (asked.partition_index, delete(broker, &topic.name, asked))).collect();
    (topic.name, deleted)
}

/// Each topic and each of its partitions once, in the order in which they are first named.
fn last_of_each(asked: Vec<DeleteRecordsTopic>) -> Vec<DeleteRecordsTopic> {
    let mut topic_indexes: HashMap<String, usize> = HashMap::new();
    let mut indexes: HashMap<(usize, i32), usize> = HashMap::new();
    let mut topics: Vec<DeleteRecordsTopic> = Vec::with_capacity(asked.len());
    for topic in asked {
        let at = *topic_indexes.entry(topic.name.clone()).or_insert(topics.len());
        if at == topics.len() {
            topics.push(DeleteRecordsTopic { name: topic.name, partitions: Vec::new() });
        }
        let partitions = &mut topics[at].partitions;
        for partition in topic.partitions {
            match indexes.get(&(at, partition.partition_index)) {
                Some(&index) => partitions[index] = partition,
                None => {
                    indexes.insert((at, partition.partition_index), partitions.len());
                    partitions.push(partition);
                }
            }
        }
    }
    topics
}

fn delete(broker: &Broker, topic: &str, asked: &DeleteRecordsPartition) -> Result<Deletion, ErrorCode> {
    let partition = broker.partitions.find_by_name(topic, asked.partition_index)?;
    partition.check_leader_in_epoch(NO_EPOCH)?;
    let policy = partition.settings().log.cleanup_policy;
    if policy.compact && !policy.delete {
        return Err(ErrorCode::POLICY_VIOLATION);
    }
    let high_watermark = partition.high_watermark();
    let offset = match asked.offset {
        HIGH_WATERMARK => high_watermark,
        offset if (0..=high_watermark).contains(&offset) => offset,
        _ => return Err(ErrorCode::OFFSET_OUT_OF_RANGE),
    };
    partition.delete_records(offset).map_err(|error| {
        tracing::error!(topic, partition = asked.partition_index, %error, "cannot delete records");
        ErrorCode::KAFKA_STORAGE_ERROR
    })?;
    Ok(Deletion { partition, before_offset: offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_offset_of_a_partition_counts() {
        let asked = |partition_index, offset| DeleteRecordsPartition { partition_index, offset };
        let topic = |name: &str, partitions| DeleteRecordsTopic { name: name.into(), partitions };
        let topics = last_of_each(vec![
            topic("a", vec![asked(1, 5), asked(0, 7), asked(1, 3)]),
            topic("b", vec![asked(0, 9)]),
            topic("a", vec![asked(0, 2), asked(2, 4)]),
        ]);
        assert_eq!(topics, [topic("a", vec![asked(1, 3), asked(0, 2), asked(2, 4)]), topic("b", vec![asked(0, 9)])]);
    }
}
