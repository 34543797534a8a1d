//! CreateTopics (key 19), versions 2-7: create topics.
//!
//! Behaviour:
//! - Each topic is created or refused by itself (`ReplicationControlManager`); a name that is there several times is
//!   refused once. More than 10,000 partitions at once are POLICY_VIOLATION.
//! - When the answer comes, the topics can be used.
//! - -1 partitions or replicas are the broker's defaults. Version 5 has all settings of the topic, version 7 its id.
//! - `validate_only` answers as if, and creates nothing.

use std::sync::Arc;

use wire::api::create_topics::{CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse};

use super::{RequestContext, controlled};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    let names: Vec<String> = request.topics.iter().map(|topic| topic.name.clone()).collect();
    let timeout_ms = request.timeout_ms;
    controlled::within(timeout_ms, broker.controller.ask(request)).await.unwrap_or_else(|error_code| {
        let refused = |name| CreatableTopicResult {
            name,
            error_code,
            configs: Some(Vec::new()),
            ..CreatableTopicResult::default()
        };
        CreateTopicsResponse { topics: names.into_iter().map(refused).collect(), ..Default::default() }
    })
}
