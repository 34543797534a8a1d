//! DeleteTopics (key 20), versions 1-6: delete topics, by name or, in version 6, by id.
//!
//! Behaviour:
//! - Each topic is deleted or refused by itself. One that is there several times, by name, by id or by both, is refused
//!   once: INVALID_REQUEST.
//! - When the answer comes, the topics cannot be used any more. Their files go in the background.
//! - TOPIC_DELETION_DISABLED where `delete.topic.enable` is false.

use std::sync::Arc;

use wire::api::delete_topics::{DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};

use super::{RequestContext, controlled};
use crate::Broker;

/// Topics are given by name or id, instead of only by name, since.
const STATES_SINCE: i16 = 6;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse {
    let topics = if context.api_version >= STATES_SINCE {
        request.topics
    } else {
        let named = |name| DeleteTopicState { name: Some(name), ..Default::default() };
        request.topic_names.into_iter().map(named).collect()
    };
    let (timeout_ms, topic_names) = (request.timeout_ms, Vec::new());
    let answer = broker.controller.ask(DeleteTopicsRequest { topics: topics.clone(), topic_names, timeout_ms });
    controlled::within(timeout_ms, answer).await.unwrap_or_else(|error_code| {
        let refused = |topic: DeleteTopicState| DeletableTopicResult {
            name: topic.name,
            topic_id: topic.topic_id,
            error_code,
            error_message: None,
        };
        DeleteTopicsResponse { responses: topics.into_iter().map(refused).collect(), ..Default::default() }
    })
}
