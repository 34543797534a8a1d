//! IncrementalAlterConfigs (key 44), versions 0-1: set, delete, append to and subtract from single settings (KIP-339).
//!
//! Behaviour:
//! - Each resource is altered as a whole or refused by itself. When the answer comes, the change works.
//! - Brokers: this one, by its id, or all, without one. What cannot change while a broker runs is INVALID_REQUEST.
//! - A setting that does not exist is INVALID_CONFIG, a broker's too (Kafka takes any name there).
//! - Needs: ALTER_CONFIGS on the topic, the group, or else the cluster (TOPIC_, GROUP_, CLUSTER_AUTHORIZATION_FAILED).
//! - `validate_only` answers as if, and changes nothing.
//! - Loggers: this broker's, until it ends ([`super::loggers`]).
//! - The files of a listener's certificate, set to what they are, are read again ([`super::certificates`]).
//!
//! Skipped: client metrics subscriptions (KIP-714) cannot be altered.

use std::sync::Arc;

use metadata::ResourceKind;
use wire::api::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

use super::{RequestContext, alteration, certificates, loggers};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let IncrementalAlterConfigsRequest { resources, validate_only } = request;
    let here = |resource: &AlterConfigsResource| {
        let is_loggers = ResourceKind::from_id(resource.resource_type) == Some(ResourceKind::BrokerLogger);
        is_loggers.then(|| loggers::alter(&broker.env.loggers, broker.node_id, resource, validate_only))
    };
    let access = context.access(broker);
    let altered = alteration::alter(broker.node_id, &access, resources, here, async |resources| {
        let (mut outcomes, mut others) = (Vec::with_capacity(resources.len()), Vec::with_capacity(resources.len()));
        for resource in resources {
            let outcome = certificates::alter(broker, &resource, validate_only).await;
            others.extend(outcome.is_none().then_some(resource));
            outcomes.push(outcome);
        }
        let request = IncrementalAlterConfigsRequest { resources: others, validate_only };
        let answers = context.ask_controller(broker, request).await?.responses.into_iter();
        let mut answers = answers.map(|answer| (answer.error_code, answer.error_message));
        Ok(outcomes.into_iter().filter_map(|outcome| outcome.or_else(|| answers.next())).collect())
    });
    let responses = altered.await.into_iter().map(|(resource_type, resource_name, outcome)| {
        let (error_code, error_message) = outcome;
        AlterConfigsResourceResponse { error_code, error_message, resource_type, resource_name }
    });
    IncrementalAlterConfigsResponse { responses: responses.collect(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use wire::api::incremental_alter_configs::AlterableConfig;
    use wire::{ErrorCode, Uuid};

    use super::*;
    use crate::api::test_support::{TestBroker, context, led_by};

    fn set(resource_type: ResourceKind, resource_name: &str, name: &str, value: &str) -> AlterConfigsResource {
        let config = AlterableConfig { name: name.to_owned(), config_operation: 0, value: Some(value.to_owned()) };
        let resource_name = resource_name.to_owned();
        AlterConfigsResource { resource_type: resource_type as i8, resource_name, configs: vec![config] }
    }

    #[tokio::test]
    async fn resources_are_answered_in_the_order_of_the_request() {
        let broker = TestBroker::start().await;
        broker.create("t", Uuid([7; 16]), &[led_by(1, &[1])]).await;
        let own = |broker: &TestBroker| {
            let levels = broker.env.loggers.levels();
            let level = levels.all().into_iter().find(|(name, _)| *name == "storage");
            let level = level.map(|(_, level)| level.to_string());
            (level, broker.metadata.load().topic_config("t").get("segment.ms").cloned())
        };
        let before = own(&broker);
        for validate_only in [true, false] {
            let resources = vec![
                set(ResourceKind::Topic, "nope", "segment.ms", "9000"),
                set(ResourceKind::BrokerLogger, "1", "storage", "TRACE"),
                set(ResourceKind::Broker, "2", "message.max.bytes", "9000"),
                set(ResourceKind::Topic, "t", "segment.ms", "9000"),
            ];
            let request = IncrementalAlterConfigsRequest { resources, validate_only };
            let response = handle(&broker, &context(1), request).await;
            let told: Vec<_> = response.responses.iter().map(|r| (&*r.resource_name, r.error_code)).collect();
            let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            let (none, invalid) = (ErrorCode::NONE, ErrorCode::INVALID_REQUEST);
            assert_eq!(told, [("nope", unknown), ("1", none), ("2", invalid), ("t", none)]);
            assert_eq!(own(&broker) == before, validate_only);
        }
        assert_eq!(own(&broker), (Some("trace".to_owned()), Some("9000".to_owned())));
    }
}
