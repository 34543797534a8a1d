//! ElectLeaders (key 43), versions 0-2: make the preferred replica, or any replica, leader.
//!
//! Behaviour:
//! - Needs: ALTER on the cluster (CLUSTER_AUTHORIZATION_FAILED).
//! - Preferred (0): the first replica leads again if it is in sync. Unclean (1): any replica leads if none does. A
//!   partition that needs no election is ELECTION_NOT_NEEDED.
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
    context: &RequestContext,
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
    let answer = controlled::within(timeout_ms, context.ask_controller(broker, request)).await;
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

/// The answer to who may not.
pub(super) fn refused(request: &ElectLeadersRequest, error_code: ErrorCode) -> ElectLeadersResponse {
    refuse(request.topic_partitions.as_deref().unwrap_or_default(), error_code, None)
}

#[cfg(test)]
mod tests {
    use metadata::NO_LEADER;
    use wire::Uuid;
    use wire::state::metadata::{PartitionRecord, RegisterBrokerRecord};

    use super::*;
    use crate::api::test_support::{TestBroker, context, led_by, registration};

    type Elected = (String, Vec<(i32, ErrorCode)>);

    /// Partition 0 is led by its preferred leader, partition 1 by another replica, partition 2 by none: the only one in
    /// sync is fenced.
    async fn start() -> TestBroker {
        let broker = TestBroker::start().await;
        let fenced = RegisterBrokerRecord { fenced: true, ..registration(3) };
        broker.commit([registration(2).into(), fenced.into()]).await;
        let leaderless = PartitionRecord { isr: vec![3], ..led_by(NO_LEADER, &[1, 3]) };
        broker.create("t", Uuid([7; 16]), &[led_by(1, &[1, 2]), led_by(2, &[1, 2]), leaderless]).await;
        broker
    }

    async fn elect(broker: &TestBroker, election_type: i8, partitions: Option<&[i32]>) -> (ErrorCode, Vec<Elected>) {
        let named = |partitions: &[i32]| TopicPartitions { topic: "t".to_owned(), partitions: partitions.to_vec() };
        let topic_partitions = partitions.map(|partitions| vec![named(partitions)]);
        let request = ElectLeadersRequest { election_type, topic_partitions, timeout_ms: 60_000 };
        let response = handle(broker, &context(2), request).await;
        let elected = response.replica_election_results.into_iter().map(|topic| {
            let results = topic.partition_result.iter().map(|result| (result.partition_id, result.error_code));
            (topic.topic, results.collect())
        });
        (response.error_code, elected.collect())
    }

    fn leaders(broker: &TestBroker) -> Vec<i32> {
        let image = broker.metadata.load();
        image.topic("t").expect("it exists").partitions.iter().map(|partition| partition.leader).collect()
    }

    #[tokio::test]
    async fn a_preferred_leader_leads_again_if_it_is_in_sync() {
        let broker = start().await;
        let (code, elected) = elect(&broker, PREFERRED, Some(&[0, 1, 2, 3])).await;
        let expected = [
            (0, ErrorCode::ELECTION_NOT_NEEDED),
            (1, ErrorCode::NONE),
            (2, ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE),
            (3, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        ];
        assert_eq!((code, elected), (ErrorCode::NONE, vec![("t".to_owned(), expected.to_vec())]));
        assert_eq!(leaders(&broker), [1, 1, NO_LEADER]);
    }

    #[tokio::test]
    async fn an_unclean_election_is_for_partitions_without_a_leader() {
        let broker = start().await;
        let (_, elected) = elect(&broker, UNCLEAN, Some(&[1, 2])).await;
        let expected = [(1, ErrorCode::ELECTION_NOT_NEEDED), (2, ErrorCode::NONE)];
        assert_eq!(elected, [("t".to_owned(), expected.to_vec())]);
        assert_eq!(leaders(&broker), [1, 2, 1]);
    }

    #[tokio::test]
    async fn of_all_partitions_those_that_need_no_election_are_left_out() {
        let broker = start().await;
        let (code, elected) = elect(&broker, UNCLEAN, None).await;
        assert_eq!((code, elected), (ErrorCode::NONE, vec![("t".to_owned(), vec![(2, ErrorCode::NONE)])]));
        let request = ElectLeadersRequest { timeout_ms: 0, topic_partitions: None, ..Default::default() };
        let late = handle(&broker, &context(2), request).await;
        assert_eq!((late.error_code, late.replica_election_results.len()), (ErrorCode::REQUEST_TIMED_OUT, 0));
    }
}
