//! DescribeProducers (key 61), versions 0-0: the idempotent producers that a partition remembers.
//!
//! Behaviour:
//! - Needs: READ on each topic (TOPIC_AUTHORIZATION_FAILED).
//! - In the order of their ids, with the epoch, the last sequence and the last timestamp of each; no transaction and no
//!   coordinator (-1) for a producer that uses none.
//! - Only the leader answers.
//! - A partition that is named twice is answered once.
//! - A request is answered up to 16 MiB of producers; partitions beyond are POLICY_VIOLATION. Kafka has no such bound.
//! - Why a name is no topic's is said once, with the first of its partitions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use metadata::acl::AclOperation;
use metadata::validate_name;
use wire::ErrorCode;
use wire::api::describe_producers::{
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};

use super::RequestContext;
use crate::Broker;
use crate::memory::{DESCRIBED_BYTES_MAX, LargeAnswer};
use crate::threads::spawn_blocking;

/// What a producer takes in an answer.
const PRODUCER_BYTES: usize = 40;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let permit = context.large_answer(broker, LargeAnswer::Producers).await;
    let (broker, context) = (Arc::clone(broker), context.clone());
    // A log that is being written to has to be waited for.
    let describe = move || {
        // A thread goes on when its client has gone.
        let _permit = permit;
        describe_all(&broker, &context, &request)
    };
    spawn_blocking(describe).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a look at producers ended");
        DescribeProducersResponse::default()
    })
}

fn describe_all(
    broker: &Broker,
    context: &RequestContext,
    request: &DescribeProducersRequest,
) -> DescribeProducersResponse {
    let access = context.access(broker);
    // Each partition may remember thousands of producers: asking for the same one many times must not multiply them.
    // By a number for each name, which is not looked at again for each partition.
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut answered: HashSet<(usize, i32)> = HashSet::new();
    let mut described_bytes = 0;
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let next = numbers.len();
        let number = *numbers.entry(&topic.name).or_insert(next);
        let granted = match validate_name(&topic.name) {
            Ok(()) => access.check_topic(AclOperation::Read, &topic.name).map_err(|error_code| (error_code, None)),
            Err(error) => Err((ErrorCode::INVALID_TOPIC_EXCEPTION, Some(error.to_string()))),
        };
        let mut partitions: Vec<PartitionResponse> = Vec::new();
        for &index in topic.partition_indexes.iter().filter(|index| answered.insert((number, **index))) {
            let mut partition = match described_bytes < DESCRIBED_BYTES_MAX {
                true => describe(broker, &granted, &topic.name, index),
                false => {
                    let error_code = ErrorCode::POLICY_VIOLATION;
                    PartitionResponse { partition_index: index, error_code, ..Default::default() }
                }
            };
            if !partitions.is_empty() {
                partition.error_message = None;
            }
            described_bytes += partition.active_producers.len() * PRODUCER_BYTES;
            partitions.push(partition);
        }
        topics.push(TopicResponse { name: topic.name.clone(), partitions });
    }
    DescribeProducersResponse { topics, ..Default::default() }
}

/// The producers of a partition, or why those of its topic are not told.
fn describe(
    broker: &Broker,
    granted: &Result<(), (ErrorCode, Option<String>)>,
    topic: &str,
    partition_index: i32,
) -> PartitionResponse {
    let response = PartitionResponse { partition_index, ..Default::default() };
    if let Err((error_code, error_message)) = granted {
        return PartitionResponse { error_code: *error_code, error_message: error_message.clone(), ..response };
    }
    let found = broker.partitions.find_by_name(topic, partition_index);
    match found.and_then(|partition| partition.check_leader().map(|()| partition)) {
        Ok(partition) => {
            let producers = partition.with_log(|log| log.describe_producers());
            PartitionResponse { active_producers: producers.iter().map(state).collect(), ..response }
        }
        Err(error_code) => PartitionResponse { error_code, ..response },
    }
}

fn state(producer: &storage::ProducerState) -> ProducerState {
    ProducerState {
        producer_id: producer.producer_id,
        producer_epoch: i32::from(producer.producer_epoch),
        last_sequence: producer.last_sequence(),
        last_timestamp: producer.last_timestamp,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.current_txn_first_offset.unwrap_or(-1),
    }
}

#[cfg(test)]
mod tests {
    use wire::Uuid;
    use wire::api::describe_producers::TopicRequest;

    use super::*;
    use crate::api::test_support::{TestBroker, context, led_by, registration};

    fn asked(name: &str, partition_indexes: &[i32]) -> TopicRequest {
        TopicRequest { name: name.to_owned(), partition_indexes: partition_indexes.to_vec() }
    }

    async fn ask(broker: &TestBroker, topics: Vec<TopicRequest>) -> Vec<(String, Vec<PartitionResponse>)> {
        let response = handle(broker, &context(0), DescribeProducersRequest { topics }).await;
        response.topics.into_iter().map(|topic| (topic.name, topic.partitions)).collect()
    }

    #[tokio::test]
    async fn only_the_leader_tells_of_producers() {
        let broker = TestBroker::start().await;
        broker.commit([registration(2).into()]).await;
        let partitions = [led_by(1, &[1, 2]), led_by(2, &[1, 2]), led_by(2, &[2])];
        broker.create("t", Uuid([7; 16]), &partitions).await;
        let told = ask(&broker, vec![asked("t", &[0, 1, 2, 3, -1])]).await;
        let codes: Vec<_> =
            told[0].1.iter().map(|partition| (partition.partition_index, partition.error_code)).collect();
        let (no_leader, unknown) = (ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        assert_eq!(codes, [(0, ErrorCode::NONE), (1, no_leader), (2, no_leader), (3, unknown), (-1, unknown)]);
    }

    #[tokio::test]
    async fn a_partition_that_is_named_again_is_left_out() {
        let broker = TestBroker::start().await;
        broker.create("t", Uuid([7; 16]), &[led_by(1, &[1]), led_by(1, &[1])]).await;
        let topics = vec![asked("t", &[1, 1]), asked("u", &[1]), asked("t", &[0, 1])];
        let told = ask(&broker, topics).await;
        let indexes = |partitions: &[PartitionResponse]| partitions.iter().map(|p| p.partition_index).collect();
        let told: Vec<(&str, Vec<i32>)> = told.iter().map(|(name, there)| (name.as_str(), indexes(there))).collect();
        assert_eq!(told, [("t", vec![1]), ("u", vec![1]), ("t", vec![0])]);
    }

    #[tokio::test]
    async fn why_a_name_is_no_topics_is_said_with_its_first_partition() {
        let broker = TestBroker::start().await;
        let told = ask(&broker, vec![asked("a/b", &[0, 1]), asked("", &[5])]).await;
        for (name, partitions) in told {
            for (at, partition) in partitions.iter().enumerate() {
                assert_eq!(partition.error_code, ErrorCode::INVALID_TOPIC_EXCEPTION, "{name}");
                assert_eq!(partition.error_message.is_some(), at == 0, "{name}");
            }
        }
    }
}
