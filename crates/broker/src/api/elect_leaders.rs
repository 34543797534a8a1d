//! ElectLeaders (key 43), versions 0-2: make the preferred replica, or any replica, leader.
//!
//! Behaviour:
//! - Preferred (0): the first replica leads again if it is in sync. Unclean (1): any replica leads if nobody does. What
//!   is the case already is ELECTION_NOT_NEEDED.
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

use super::{RequestContext, controlled};
use crate::Broker;

/// Partitions of one request.
const PARTITIONS_MAX: usize = 100_000;

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: ElectLeadersRequest,
) -> ElectLeadersResponse {
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
    let (timeout_ms, election_type) = (request.timeout_ms, request.election_type);
    let request = ElectLeadersRequest { election_type, topic_partitions: asked.clone(), timeout_ms };
    let answer = controlled::within(timeout_ms, broker.controller.ask(request)).await;
    answer.unwrap_or_else(|code| refuse(&asked.unwrap_or_default(), code, None))
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
