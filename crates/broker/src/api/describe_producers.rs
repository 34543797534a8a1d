//! DescribeProducers (key 61), versions 0-0: the idempotent producers that a partition remembers.
//!
//! Behaviour:
//! - In the order of their ids, with the epoch, the last sequence and the last timestamp of each; no transaction and no
//!   coordinator (-1) for a producer that uses none.
//! - Only the leader answers.
//! - A partition that is named twice is answered once.
//! - A request is answered up to 16 MiB of producers; partitions beyond are POLICY_VIOLATION. Kafka has no such bound.
//! - Why a name is no topic's is said once, with the first of its partitions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

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
    let broker = Arc::clone(broker);
    // A log that is being written to has to be waited for.
    let describe = move || {
        // A thread goes on when its client has gone.
        let _permit = permit;
        describe_all(&broker, &request)
    };
    spawn_blocking(describe).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a look at producers ended");
        DescribeProducersResponse::default()
    })
}

fn describe_all(broker: &Broker, request: &DescribeProducersRequest) -> DescribeProducersResponse {
    // Each partition may remember thousands of producers: asking for the same one many times must not multiply them.
    // By a number for each name, which is not looked at again for each partition.
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut answered: HashSet<(usize, i32)> = HashSet::new();
    let mut described_bytes = 0;
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let next = numbers.len();
        let number = *numbers.entry(&topic.name).or_insert(next);
        let mut partitions: Vec<PartitionResponse> = Vec::new();
        for &index in topic.partition_indexes.iter().filter(|index| answered.insert((number, **index))) {
            let mut partition = match described_bytes < DESCRIBED_BYTES_MAX {
                true => describe(broker, &topic.name, index),
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

fn describe(broker: &Broker, topic: &str, partition_index: i32) -> PartitionResponse {
    let response = PartitionResponse { partition_index, ..Default::default() };
    if let Err(error) = validate_name(topic) {
        return PartitionResponse {
            error_code: ErrorCode::INVALID_TOPIC_EXCEPTION,
            error_message: Some(error.to_string()),
            ..response
        };
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
