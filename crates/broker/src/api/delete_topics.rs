//! DeleteTopics (key 20), versions 1-6: delete topics, by name or, in version 6, by id.
//!
//! Behaviour:
//! - Each topic is deleted or refused by itself. One that is there several times, by name, by id or by both, is refused
//!   once: INVALID_REQUEST.
//! - When the answer comes, the topics cannot be used any more. Their files go in the background.
//! - Needs: DELETE on the topic (TOPIC_AUTHORIZATION_FAILED). Who may not DESCRIBE a topic that an id is of is not told
//!   its name.
//! - Version 5 answers THROTTLING_QUOTA_EXCEEDED where the client has no `controller_mutation_rate` left for a topic;
//!   before, it is deleted and the client throttled (KIP-599).
//! - TOPIC_DELETION_DISABLED where `delete.topic.enable` is false.

use std::sync::Arc;

use metadata::acl::{AclOperation, ResourceType};
use wire::ErrorCode;
use wire::api::delete_topics::{DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};

use super::access::denied;
use super::mutation_quota::{EXCEEDED, MutationQuota};
use super::{RequestContext, controlled};
use crate::Broker;

/// Topics are given by name or id, instead of only by name, since.
const STATES_SINCE: i16 = 6;

/// A topic that is too much for the client's quota is not deleted since.
const QUOTA_ERROR_SINCE: i16 = 5;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse {
    let mut topics = if context.api_version >= STATES_SINCE {
        request.topics
    } else {
        let named = |name| DeleteTopicState { name: Some(name), ..Default::default() };
        request.topic_names.into_iter().map(named).collect()
    };
    let access = context.access(broker);
    let image = broker.metadata.load_full();
    let name_of = |topic: &DeleteTopicState| match &topic.name {
        Some(name) => Some(name.clone()),
        None => image.topic_by_id(topic.topic_id).map(|topic| topic.name.to_string()),
    };
    let denied = denied(&mut topics, |topic| {
        // What is not there is for the controller to refuse.
        name_of(topic).is_none_or(|name| access.topic(AclOperation::Delete, &name))
    });
    let denied = denied.into_iter().map(|topic| {
        let is_visible = |name: &String| access.shows(AclOperation::Describe, ResourceType::Topic, name);
        let name = topic.name.clone().or_else(|| name_of(&topic).filter(is_visible));
        DeletableTopicResult {
            name,
            topic_id: topic.topic_id,
            error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED,
            error_message: None,
        }
    });
    let denied: Vec<_> = denied.collect();
    let mut quota = MutationQuota::of(broker, context, QUOTA_ERROR_SINCE);
    let partitions = |topic: &DeleteTopicState| {
        let topic = name_of(topic).and_then(|name| image.topic(&name));
        topic.map_or(0, |topic| topic.partitions.len())
    };
    let exceeding = quota.take_exceeding(&mut topics, name_of, partitions);
    let (timeout_ms, topic_names) = (request.timeout_ms, Vec::new());
    let answer =
        context.ask_controller(broker, DeleteTopicsRequest { topics: topics.clone(), topic_names, timeout_ms });
    let mut response = controlled::within(timeout_ms, answer).await.unwrap_or_else(|error_code| {
        let refused = |topic: DeleteTopicState| DeletableTopicResult {
            name: topic.name,
            topic_id: topic.topic_id,
            error_code,
            error_message: None,
        };
        DeleteTopicsResponse { responses: topics.into_iter().map(refused).collect(), ..Default::default() }
    });
    response.responses.extend(denied);
    response.responses.extend(exceeding.into_iter().map(|topic| DeletableTopicResult {
        name: topic.name,
        topic_id: topic.topic_id,
        error_code: ErrorCode::THROTTLING_QUOTA_EXCEEDED,
        error_message: Some(EXCEEDED.to_owned()),
    }));
    response.throttle_time_ms = quota.throttle_time_ms();
    response
}

#[cfg(test)]
mod tests {
    use wire::Uuid;

    use super::*;
    use crate::api::test_support::{TestBroker, context, led_by};

    const TOPIC_ID: Uuid = Uuid([7; 16]);

    fn both(timeout_ms: i32) -> DeleteTopicsRequest {
        let by_id = DeleteTopicState { name: None, topic_id: TOPIC_ID };
        let by_name = DeleteTopicState { name: Some("nope".to_owned()), topic_id: Uuid::ZERO };
        DeleteTopicsRequest { topics: vec![by_id, by_name], topic_names: vec!["u".to_owned()], timeout_ms }
    }

    async fn ask(broker: &TestBroker, version: i16, timeout_ms: i32) -> Vec<(Option<String>, Uuid, ErrorCode)> {
        let response = handle(broker, &context(version), both(timeout_ms)).await;
        response.responses.into_iter().map(|topic| (topic.name, topic.topic_id, topic.error_code)).collect()
    }

    #[tokio::test]
    async fn a_request_that_is_out_of_time_is_answered_as_it_named_the_topics() {
        let broker = TestBroker::start().await;
        broker.create("t", TOPIC_ID, &[led_by(1, &[1])]).await;
        let late = ErrorCode::REQUEST_TIMED_OUT;
        let refused = [(None, TOPIC_ID, late), (Some("nope".to_owned()), Uuid::ZERO, late)];
        assert_eq!(ask(&broker, 6, 0).await, refused);
        assert_eq!(ask(&broker, 5, 0).await, [(Some("u".to_owned()), Uuid::ZERO, late)]);
        assert!(broker.metadata.load().topic("t").is_some());
    }

    #[tokio::test]
    async fn names_alone_count_before_version_6_and_states_since() {
        let broker = TestBroker::start().await;
        broker.create("t", TOPIC_ID, &[led_by(1, &[1])]).await;
        broker.create("u", Uuid([8; 16]), &[led_by(1, &[1])]).await;
        let unknown = (Some("nope".to_owned()), Uuid::ZERO, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        assert_eq!(ask(&broker, 6, 1000).await, [(Some("t".to_owned()), TOPIC_ID, ErrorCode::NONE), unknown]);
        assert!(broker.metadata.load().topic("u").is_some());
        assert_eq!(ask(&broker, 5, 1000).await, [(Some("u".to_owned()), Uuid([8; 16]), ErrorCode::NONE)]);
        assert_eq!(broker.metadata.load().topic_count(), 0);
    }
}
