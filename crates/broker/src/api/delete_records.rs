//! DeleteRecords (key 21), versions 0-2: move the start of a log.
//!
//! Behaviour:
//! - Records below the offset can no longer be read; -1 is everything below the high watermark. The answer is the log's
//!   new start, which never goes back.
//! - An offset beyond the high watermark is OFFSET_OUT_OF_RANGE.
//! - A topic that is compacted and nothing else refuses: POLICY_VIOLATION.
//! - Only the leader takes it. Followers learn the new start by their fetches; the answer does not wait for them.
//! - Of a partition that is named twice, the last offset counts, as in Kafka.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use wire::ErrorCode;
use wire::api::delete_records::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopic, DeleteRecordsTopicResult,
};

use super::RequestContext;
use crate::Broker;

/// The offset of a request that stands for the high watermark.
const HIGH_WATERMARK: i64 = -1;
/// The request has no leader epoch.
const NO_EPOCH: i32 = -1;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let broker = Arc::clone(broker);
    let asked = request.topics.into_iter().filter(|topic| !topic.partitions.is_empty());
    // What lies above the new start is brought to the disk first.
    let topics = spawn_blocking(move || asked.map(|topic| delete_in(&broker, topic)).collect());
    let topics = topics.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a deletion of records ended");
        Vec::new()
    });
    DeleteRecordsResponse { topics, ..Default::default() }
}

fn delete_in(broker: &Broker, topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult {
    let partitions = last_of_each(topic.partitions);
    let partitions = partitions.iter().map(|asked| delete(broker, &topic.name, asked)).collect();
    DeleteRecordsTopicResult { name: topic.name, partitions }
}

/// Each partition once, in the order in which they are first named.
fn last_of_each(asked: Vec<DeleteRecordsPartition>) -> Vec<DeleteRecordsPartition> {
    let mut places: HashMap<i32, usize> = HashMap::new();
    let mut partitions: Vec<DeleteRecordsPartition> = Vec::with_capacity(asked.len());
    for partition in asked {
        match places.get(&partition.partition_index) {
            Some(&place) => partitions[place] = partition,
            None => {
                places.insert(partition.partition_index, partitions.len());
                partitions.push(partition);
            }
        }
    }
    partitions
}

fn delete(broker: &Broker, topic: &str, asked: &DeleteRecordsPartition) -> DeleteRecordsPartitionResult {
    let (low_watermark, error_code) = match try_delete(broker, topic, asked) {
        Ok(low_watermark) => (low_watermark, ErrorCode::NONE),
        Err(code) => (-1, code),
    };
    DeleteRecordsPartitionResult { partition_index: asked.partition_index, low_watermark, error_code }
}

fn try_delete(broker: &Broker, topic: &str, asked: &DeleteRecordsPartition) -> Result<i64, ErrorCode> {
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
    partition.with_log(|log| log.delete_records(offset)).map_err(|error| {
        tracing::error!(topic, partition = asked.partition_index, %error, "cannot delete records");
        ErrorCode::KAFKA_STORAGE_ERROR
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_offset_of_a_partition_counts() {
        let asked = |partition_index, offset| DeleteRecordsPartition { partition_index, offset };
        let partitions = last_of_each(vec![asked(1, 5), asked(0, 7), asked(1, 3)]);
        assert_eq!(partitions, [asked(1, 3), asked(0, 7)]);
    }
}
