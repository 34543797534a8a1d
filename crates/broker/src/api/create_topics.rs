//! CreateTopics (key 19), versions 2-7: create topics.
//!
//! Behaviour:
//! - Each topic is created or refused by itself (`ReplicationControlManager`); a name that is there several times is
//!   refused once. More than 10,000 partitions at once are POLICY_VIOLATION.
//! - When the answer comes, the topics can be used.
//! - -1 partitions or replicas are the broker's defaults. Version 5 has all settings of the topic, version 7 its id.
//! - Needs: CREATE on the cluster or on the topic (TOPIC_AUTHORIZATION_FAILED). Who may not DESCRIBE_CONFIGS of the
//!   topic is told that in place of its settings.
//! - `validate_only` answers as if, and creates nothing.
//! - Version 6 answers THROTTLING_QUOTA_EXCEEDED where the client has no `controller_mutation_rate` left for a topic;
//!   before, it is created and the client throttled. What is only validated counts, too (KIP-599).

use std::sync::Arc;

use metadata::acl::{AclOperation, ResourceType};
use wire::ErrorCode;
use wire::api::create_topics::{CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse};

use super::access::denied;
use super::mutation_quota::{EXCEEDED, MutationQuota};
use super::{RequestContext, controlled};
use crate::Broker;

/// A topic that is too much for the client's quota is refused since.
const QUOTA_ERROR_SINCE: i16 = 6;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    mut request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    let access = context.access(broker);
    let denied = denied(&mut request.topics, |topic| access.create_topic(&topic.name));
    let mut quota = MutationQuota::of(broker, context, QUOTA_ERROR_SINCE);
    let exceeding = quota.take_exceeding_new(broker, &mut request.topics);
    let names: Vec<String> = request.topics.iter().map(|topic| topic.name.clone()).collect();
    let timeout_ms = request.timeout_ms;
    let refused = |error_code| {
        move |name| CreatableTopicResult {
            name,
            error_code,
            configs: Some(Vec::new()),
            ..CreatableTopicResult::default()
        }
    };
    let mut response =
        controlled::within(timeout_ms, context.ask_controller(broker, request)).await.unwrap_or_else(|error_code| {
            CreateTopicsResponse { topics: names.into_iter().map(refused(error_code)).collect(), ..Default::default() }
        });
    for topic in response.topics.iter_mut().filter(|topic| topic.error_code.is_none()) {
        if !access.shows(AclOperation::DescribeConfigs, ResourceType::Topic, &topic.name) {
            topic.topic_config_error_code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
            (topic.num_partitions, topic.replication_factor, topic.configs) = (-1, -1, Some(Vec::new()));
        }
    }
    response.topics.extend(denied.into_iter().map(|topic| CreatableTopicResult {
        error_message: Some("Authorization failed.".to_owned()),
        ..refused(ErrorCode::TOPIC_AUTHORIZATION_FAILED)(topic.name)
    }));
    response.topics.extend(exceeding.into_iter().map(|topic| CreatableTopicResult {
        error_message: Some(EXCEEDED.to_owned()),
        ..refused(ErrorCode::THROTTLING_QUOTA_EXCEEDED)(topic.name)
    }));
    response.throttle_time_ms = quota.throttle_time_ms();
    response
}

#[cfg(test)]
mod tests {
    use wire::api::create_topics::CreatableTopic;

    use super::*;
    use crate::api::test_support::{TestBroker, context};

    fn request(timeout_ms: i32, validate_only: bool) -> CreateTopicsRequest {
        let topic = CreatableTopic {
            name: "t".to_owned(),
            num_partitions: -1,
            replication_factor: -1,
            ..CreatableTopic::default()
        };
        CreateTopicsRequest { topics: vec![topic], timeout_ms, validate_only }
    }

    #[tokio::test]
    async fn a_request_that_is_out_of_time_creates_nothing() {
        let broker = TestBroker::start().await;
        let response = handle(&broker, &context(7), request(0, false)).await;
        let [topic] = &response.topics[..] else { panic!("{response:?}") };
        assert_eq!((topic.name.as_str(), topic.error_code), ("t", ErrorCode::REQUEST_TIMED_OUT));
        assert_eq!((topic.num_partitions, topic.replication_factor, &topic.configs), (-1, -1, &Some(Vec::new())));
        assert!(broker.metadata.load().topic("t").is_none());
    }

    #[tokio::test]
    async fn a_topic_that_is_only_validated_is_answered_as_if_it_were_created() {
        let broker = TestBroker::start_with(&[("num.partitions", "3")]).await;
        for (validate_only, topics) in [(true, 0), (false, 1)] {
            let response = handle(&broker, &context(7), request(60_000, validate_only)).await;
            let topic = &response.topics[0];
            assert_eq!((topic.error_code, topic.num_partitions, topic.replication_factor), (ErrorCode::NONE, 3, 1));
            assert_eq!(broker.metadata.load().topic_count(), topics);
        }
    }
}
