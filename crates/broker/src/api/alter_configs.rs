//! AlterConfigs (key 33), versions 0-2: replace all settings of topics, brokers and groups.
//!
//! Behaviour:
//! - What is not in the request goes back to its default. Otherwise as [`super::incremental_alter_configs`].
//! - A resource that is there twice is INVALID_REQUEST (Kafka 4.3.1 never answers).

use std::sync::Arc;

use wire::api::alter_configs::{AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse};

use super::{RequestContext, alteration};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    let AlterConfigsRequest { resources, validate_only } = request;
    let altered = alteration::alter(
        broker.node_id,
        resources,
        |_| None,
        async |resources| {
            let request = AlterConfigsRequest { resources, validate_only };
            let answers = broker.controller.ask(request).await?.responses;
            Ok(answers.into_iter().map(|answer| (answer.error_code, answer.error_message)).collect())
        },
    );
    let responses = altered.await.into_iter().map(|(resource_type, resource_name, outcome)| {
        let (error_code, error_message) = outcome;
        AlterConfigsResourceResponse { error_code, error_message, resource_type, resource_name }
    });
    AlterConfigsResponse { responses: responses.collect(), ..Default::default() }
}
