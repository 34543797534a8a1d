//! CreatePartitions (key 37), versions 0-3: add partitions to topics.
//!
//! Behaviour:
//! - A topic gets as many as are missing to `count`, placed by the broker or where the client says.
//! - Each topic is changed or refused by itself; one that is there several times is refused once.
//! - Needs: ALTER on the topic (TOPIC_AUTHORIZATION_FAILED).
//! - Version 3 answers THROTTLING_QUOTA_EXCEEDED where the client has no `controller_mutation_rate` left for a topic;
//!   before, it is changed and the client throttled (KIP-599).
//! - More than 10,000 new partitions at once are POLICY_VIOLATION (Kafka fails: UNKNOWN_SERVER_ERROR).

use std::sync::Arc;

use metadata::acl::AclOperation;
use wire::ErrorCode;
use wire::api::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
};

use super::access::denied;
use super::mutation_quota::{EXCEEDED, MutationQuota};
use super::{RequestContext, controlled};
use crate::Broker;

/// A topic that is too much for the client's quota is not changed since.
const QUOTA_ERROR_SINCE: i16 = 3;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    mut request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let access = context.access(broker);
    let denied = denied(&mut request.topics, |topic| access.topic(AclOperation::Alter, &topic.name));
    let mut quota = MutationQuota::of(broker, context, QUOTA_ERROR_SINCE);
    let image = broker.metadata.load_full();
    let partitions = |topic: &CreatePartitionsTopic| {
        let before = image.topic(&topic.name).map_or(i64::MAX, |topic| topic.partitions.len() as i64);
        usize::try_from(i64::from(topic.count) - before).unwrap_or(0)
    };
    let exceeding = quota.take_exceeding(&mut request.topics, |topic| topic.name.clone(), partitions);
    let names: Vec<String> = request.topics.iter().map(|topic| topic.name.clone()).collect();
    let timeout_ms = request.timeout_ms;
    let refused = |error_code| move |name| CreatePartitionsTopicResult { name, error_code, error_message: None };
    let answer = controlled::within(timeout_ms, context.ask_controller(broker, request)).await;
    let mut response = answer.unwrap_or_else(|error_code| {
        let results = names.into_iter().map(refused(error_code)).collect();
        CreatePartitionsResponse { results, ..Default::default() }
    });
    let denied = denied.into_iter().map(|topic| topic.name);
    response.results.extend(denied.map(refused(ErrorCode::TOPIC_AUTHORIZATION_FAILED)));
    response.results.extend(exceeding.into_iter().map(|topic| CreatePartitionsTopicResult {
        error_message: Some(EXCEEDED.to_owned()),
        ..refused(ErrorCode::THROTTLING_QUOTA_EXCEEDED)(topic.name)
    }));
    response.throttle_time_ms = quota.throttle_time_ms();
    response
}
