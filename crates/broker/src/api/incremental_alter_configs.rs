//! IncrementalAlterConfigs (key 44), versions 0-1: set, delete, append to and subtract from single settings (KIP-339).
//!
//! Behaviour:
//! - Each resource is altered as a whole or refused by itself. When the answer comes, the change works.
//! - Brokers: this one, by its id, or all, without one. What cannot change while a broker runs is INVALID_REQUEST.
//! - A setting that does not exist is INVALID_CONFIG, a broker's too (Kafka takes any name there).
//! - `validate_only` answers as if, and changes nothing.
//! - Loggers: this broker's, until it ends ([`super::loggers`]).
//!
//! Skipped: client metrics subscriptions (KIP-714) cannot be altered.

use std::sync::Arc;

use metadata::ResourceKind;
use wire::api::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

use super::{RequestContext, alteration, loggers};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let IncrementalAlterConfigsRequest { resources, validate_only } = request;
    let here = |resource: &AlterConfigsResource| {
        let is_loggers = ResourceKind::from_id(resource.resource_type) == Some(ResourceKind::BrokerLogger);
        is_loggers.then(|| loggers::alter(&broker.env.loggers, broker.node_id, resource, validate_only))
    };
    let altered = alteration::alter(broker.node_id, resources, here, async |resources| {
        let request = IncrementalAlterConfigsRequest { resources, validate_only };
        let answers = broker.controller.ask(request).await?.responses;
        Ok(answers.into_iter().map(|answer| (answer.error_code, answer.error_message)).collect())
    });
    let responses = altered.await.into_iter().map(|(resource_type, resource_name, outcome)| {
        let (error_code, error_message) = outcome;
        AlterConfigsResourceResponse { error_code, error_message, resource_type, resource_name }
    });
    IncrementalAlterConfigsResponse { responses: responses.collect(), ..Default::default() }
}
