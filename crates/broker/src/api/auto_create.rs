//! Topics that come into being because a client asked for them (`kafka.server.AutoTopicCreationManager`).

use metadata::{CONSUMER_OFFSETS, is_internal, validate_name};
use platform::Allowed;
use wire::ErrorCode;
use wire::api::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::api::metadata::MetadataResponseTopic;

use super::{Pace, RequestContext};
use crate::{Broker, offsets_topic};

/// How many topics one request may bring into being. The client asks again, and then it is the turn of the next.
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

/// Failures are the client's to see when it asks again: the topic is still not there.
async fn create(broker: &Broker, context: &RequestContext, names: &[&str]) {
    let topics = names.iter().filter_map(|name| creatable(broker, name)).collect();
    match broker.controller.ask(CreateTopicsRequest { topics, ..Default::default() }).await {
        Ok(answer) => {
            for result in answer.topics.iter().filter(|result| !result.error_code.is_none()) {
                let (topic, error) = (&result.name, result.error_code);
                tracing::debug!(topic, %error, message = result.error_message, "a topic was asked for and is not created");
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

/// The topic as it comes into being by itself. None for one that is reserved for what is not served.
fn creatable(broker: &Broker, name: &str) -> Option<CreatableTopic> {
    match name {
        CONSUMER_OFFSETS => Some(offsets_topic::creatable(&broker.config(), broker.metadata.load().brokers().count())),
        _ if is_internal(name) => None,
        _ => Some(CreatableTopic {
            name: name.to_owned(),
            num_partitions: -1,
            replication_factor: -1,
            ..Default::default()
        }),
    }
}
