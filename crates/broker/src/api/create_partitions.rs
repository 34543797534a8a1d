//! CreatePartitions (key 37), versions 0-3: add partitions to topics.
//!
//! Behaviour:
//! - A topic gets as many as are missing to `count`, placed by the broker or where the client says.
//! - Each topic is changed or refused by itself; one that is there several times is refused once.
//! - More than 10,000 new partitions at once are POLICY_VIOLATION (Kafka fails: UNKNOWN_SERVER_ERROR).

use std::sync::Arc;

use wire::api::create_partitions::{CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopicResult};

use super::{RequestContext, controlled};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let names: Vec<String> = request.topics.iter().map(|topic| topic.name.clone()).collect();
    let timeout_ms = request.timeout_ms;
    controlled::within(timeout_ms, broker.controller.ask(request)).await.unwrap_or_else(|error_code| {
        let refused = |name| CreatePartitionsTopicResult { name, error_code, error_message: None };
        CreatePartitionsResponse { results: names.into_iter().map(refused).collect(), ..Default::default() }
    })
}
