//! ElectLeaders (key 43), versions 0-2: make the preferred replica, or any replica, leader.
//!
//! Behaviour:
//! - A partition whose only replica leads already is ELECTION_NOT_NEEDED, preferred (0) or unclean (1) alike.
//! - All partitions (null): those that need no election are left out, so each topic is there without partitions, as in
//!   Kafka.
//! - More partitions than a broker can have are INVALID_REQUEST as a whole: the answer is much larger than the request.
//! - An election type that does not exist is INVALID_REQUEST, for each partition too. No time left is
//!   REQUEST_TIMED_OUT.

use std::sync::Arc;

use wire::ErrorCode;
use wire::api::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult, TopicPartitions,
};

use super::RequestContext;
use crate::Broker;
use crate::meta::MetadataImage;

/// Partitions of one request.
const PARTITIONS_MAX: usize = 100_000;

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: ElectLeadersRequest,
) -> ElectLeadersResponse {
    let image = broker.metadata.load();
    let asked = request.topic_partitions;
    if asked.iter().flatten().map(|topic| topic.partitions.len()).sum::<usize>() > PARTITIONS_MAX {
        return refuse(&[], ErrorCode::INVALID_REQUEST, None);
    }
    if request.timeout_ms <= 0 {
        return refuse(&asked.unwrap_or_default(), ErrorCode::REQUEST_TIMED_OUT, None);
    }
    if !matches!(request.election_type, PREFERRED | UNCLEAN) {
        let message = format!("Unknown election type {}", request.election_type);
        return refuse(&asked.unwrap_or_default(), ErrorCode::INVALID_REQUEST, Some(message));
    }
    let replica_election_results = match asked {
        None => {
            let topics = image.topics();
            topics.map(|t| ReplicaElectionResult { topic: t.name.to_string(), partition_result: Vec::new() }).collect()
        }
        Some(asked) => asked
            .into_iter()
            .map(|TopicPartitions { topic, partitions }| ReplicaElectionResult {
                partition_result: partitions.iter().map(|&partition| elect(&image, &topic, partition)).collect(),
                topic,
            })
            .collect(),
    };
    ElectLeadersResponse { replica_election_results, ..Default::default() }
}

fn elect(image: &MetadataImage, topic: &str, partition_id: i32) -> PartitionResult {
    let (error_code, message) = match image.topic(topic) {
        None => (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("No such topic as {topic}")),
        Some(found) if found.partition(partition_id).is_none() => {
            (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("No such partition as {topic}-{partition_id}"))
        }
        Some(_) => (ErrorCode::ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.".to_owned()),
    };
    PartitionResult { partition_id, error_code, error_message: Some(message) }
}

/// The same error for the request and for each partition.
fn refuse(asked: &[TopicPartitions], error_code: ErrorCode, message: Option<String>) -> ElectLeadersResponse {
    let refused = |&partition_id: &i32| PartitionResult { partition_id, error_code, error_message: message.clone() };
    let results = asked.iter().map(|topic| ReplicaElectionResult {
        topic: topic.topic.clone(),
        partition_result: topic.partitions.iter().map(refused).collect(),
    });
    ElectLeadersResponse { error_code, replica_election_results: results.collect(), ..Default::default() }
}
