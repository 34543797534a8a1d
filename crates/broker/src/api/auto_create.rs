//! Topics that are created because a client asked for them (`kafka.server.AutoTopicCreationManager`).

use metadata::{CONSUMER_OFFSETS, TRANSACTION_STATE, is_internal, validate_name};
use platform::Allowed;
use wire::ErrorCode;
use wire::api::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::api::metadata::MetadataResponseTopic;

use super::mutation_quota::MutationQuota;
use super::{Pace, RequestContext};
use crate::Broker;
use crate::coordination::{offsets_topic, transaction_topic};

/// How many topics one request creates. The client asks again, and the next are created then.
const CREATED_MAX: usize = 1_000;

/// Answers for topics that do not exist. Those that may exist are created first, if `creates` says so; all the same the
/// client is told UNKNOWN_TOPIC_OR_PARTITION, as by Kafka, where the creation goes on meanwhile: it asks again.
pub(super) async fn answer(
    broker: &Broker,
    context: &RequestContext,
    names: Vec<&str>,
    creates: bool,
) -> Vec<MetadataResponseTopic> {
    let mut valid = Vec::new();
    let mut answers = Vec::with_capacity(names.len());
    let mut pace = Pace::default();
    for name in names {
        pace.step(1).await;
        let is_valid = validate_name(name).is_ok();
        if is_valid && creates && valid.len() < CREATED_MAX {
            valid.push(name);
        }
        answers.push(MetadataResponseTopic {
            error_code: match is_valid {
                true => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                false => ErrorCode::INVALID_TOPIC_EXCEPTION,
            },
            name: Some(name.to_owned()),
            is_internal: is_internal(name),
            ..Default::default()
        });
    }
    if !valid.is_empty() {
        create(broker, context, &valid).await;
    }
    answers
}

/// A client sees a failure when it asks again: the topic is still missing.
async fn create(broker: &Broker, context: &RequestContext, names: &[&str]) {
    let mut topics = names.iter().filter_map(|name| creatable(broker, name)).collect();
    // Nobody is told: what the client's quota has no room for is created when it asks again.
    MutationQuota::of(broker, context, 0).take_exceeding_new(broker, &mut topics);
    match context.ask_controller(broker, CreateTopicsRequest { topics, ..Default::default() }).await {
        Ok(answer) => {
            for result in answer.topics.iter().filter(|result| !result.error_code.is_none()) {
                let (topic, error) = (&result.name, result.error_code);
                let message = &result.error_message;
                tracing::debug!(topic, %error, message, "a topic was asked for and is not created");
            }
        }
        Err(error) => {
            let address = context.client_address;
            if let Some(Allowed { left_out }) = broker.log_limit.allow(address) {
                tracing::warn!(%address, reason = %error, left_out, "topics that were asked for are not created");
            }
        }
    }
}

/// The topic with the broker's defaults. None for an internal topic of APIs that are not served.
fn creatable(broker: &Broker, name: &str) -> Option<CreatableTopic> {
    let brokers = || broker.metadata.load().brokers().count();
    match name {
        CONSUMER_OFFSETS => Some(offsets_topic::creatable(&broker.config(), brokers())),
        TRANSACTION_STATE => Some(transaction_topic::creatable(&broker.config(), brokers())),
        _ if is_internal(name) => None,
        _ => Some(CreatableTopic {
            name: name.to_owned(),
            num_partitions: -1,
            replication_factor: -1,
            ..Default::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use metadata::NO_LEADER;
    use wire::api::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};

    use super::*;
    use crate::api::metadata::handle;
    use crate::api::test_support::{TestBroker, context};

    async fn ask(broker: &TestBroker, names: &[String], allows: bool) -> MetadataResponse {
        let named = |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
        let topics = Some(names.iter().map(named).collect());
        let request = MetadataRequest { topics, allow_auto_topic_creation: allows, ..Default::default() };
        handle(broker, &context(12), request).await
    }

    fn created(broker: &TestBroker) -> usize {
        broker.metadata.load().topic_count()
    }

    #[tokio::test]
    async fn a_topic_comes_into_being_where_both_the_client_and_the_broker_allow_it() {
        for (setting, allows, topics) in [("true", true, 1), ("true", false, 0), ("false", true, 0)] {
            let broker = TestBroker::start_with(&[("auto.create.topics.enable", setting)]).await;
            let response = ask(&broker, &["t".to_owned()], allows).await;
            assert_eq!(response.topics[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
            assert_eq!(created(&broker), topics, "{setting} {allows}");
        }
    }

    #[tokio::test]
    async fn one_request_brings_so_many_topics_into_being_and_the_next_the_others() {
        let broker = TestBroker::start().await;
        // The topics are enough; opening their logs takes long.
        broker.metadata.unsubscribe_all();
        let names: Vec<String> = (0..=CREATED_MAX).map(|n| format!("t{n}")).collect();
        let response = ask(&broker, &names, true).await;
        assert_eq!(response.topics.len(), names.len(), "each of them is answered");
        assert_eq!(created(&broker), CREATED_MAX);
        ask(&broker, &names, true).await;
        assert_eq!(created(&broker), names.len());
    }

    #[tokio::test]
    async fn internal_topics_are_told_as_such_and_created_if_they_are_served() {
        let broker = TestBroker::start_with(&[("offsets.topic.num.partitions", "3"), ("num.partitions", "2")]).await;
        let names = ["__share_group_state", CONSUMER_OFFSETS, "a/b", "t"].map(str::to_owned);
        let response = ask(&broker, &names, true).await;
        let told: Vec<_> = response.topics.iter().map(|topic| (topic.is_internal, topic.error_code)).collect();
        let (unknown, invalid) = (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::INVALID_TOPIC_EXCEPTION);
        assert_eq!(told, [(true, unknown), (true, unknown), (false, invalid), (false, unknown)]);
        let image = broker.metadata.load_full();
        let partitions = |name: &str| image.topic(name).map(|topic| topic.partitions.len());
        assert_eq!((partitions(CONSUMER_OFFSETS), partitions("t")), (Some(3), Some(2)));
        assert_eq!(image.topic_count(), 2);
        assert!(image.topics().flat_map(|topic| &topic.partitions).all(|partition| partition.leader != NO_LEADER));
        assert_eq!(image.topic_config(CONSUMER_OFFSETS).get("cleanup.policy").map(String::as_str), Some("compact"));
    }
}
