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
    context: &RequestContext,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    let AlterConfigsRequest { resources, validate_only } = request;
    let access = context.access(broker);
    let altered = alteration::alter(
        broker.node_id,
        &access,
        resources,
        |_| None,
        async |resources| {
            let request = AlterConfigsRequest { resources, validate_only };
            let answers = context.ask_controller(broker, request).await?.responses;
            Ok(answers.into_iter().map(|answer| (answer.error_code, answer.error_message)).collect())
        },
    );
    let responses = altered.await.into_iter().map(|(resource_type, resource_name, outcome)| {
        let (error_code, error_message) = outcome;
        AlterConfigsResourceResponse { error_code, error_message, resource_type, resource_name }
    });
    AlterConfigsResponse { responses: responses.collect(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use metadata::ResourceKind;
    use wire::api::alter_configs::{AlterConfigsResource, AlterableConfig};
    use wire::{ErrorCode, Uuid};

    use super::*;
    use crate::api::test_support::{TestBroker, context, led_by};

    async fn replace(broker: &TestBroker, kind: ResourceKind, configs: &[&str], validate_only: bool) -> ErrorCode {
        let config = |name: &&str| AlterableConfig { name: (*name).to_owned(), value: Some("9000".to_owned()) };
        let resource = AlterConfigsResource {
            resource_type: kind as i8,
            resource_name: "1".to_owned(),
            configs: configs.iter().map(config).collect(),
        };
        let request = AlterConfigsRequest { resources: vec![resource], validate_only };
        handle(broker, &context(2), request).await.responses[0].error_code
    }

    #[tokio::test]
    async fn what_is_only_validated_stays_as_it_was() {
        let broker = TestBroker::start().await;
        broker.create("1", Uuid([7; 16]), &[led_by(1, &[1])]).await;
        let names = |broker: &TestBroker| broker.metadata.load().topic_config("1").keys().cloned().collect::<Vec<_>>();
        assert_eq!(replace(&broker, ResourceKind::Topic, &["segment.ms"], false).await, ErrorCode::NONE);
        assert_eq!(replace(&broker, ResourceKind::Topic, &["retention.ms"], true).await, ErrorCode::NONE);
        assert_eq!(names(&broker), ["segment.ms"]);
        assert_eq!(replace(&broker, ResourceKind::Topic, &["bogus"], true).await, ErrorCode::INVALID_CONFIG);
        assert_eq!(replace(&broker, ResourceKind::Topic, &["retention.ms"], false).await, ErrorCode::NONE);
        assert_eq!(names(&broker), ["retention.ms"]);
    }

    #[tokio::test]
    async fn loggers_are_not_altered_by_this_request() {
        let broker = TestBroker::start().await;
        assert_eq!(replace(&broker, ResourceKind::BrokerLogger, &["root"], false).await, ErrorCode::INVALID_REQUEST);
    }
}
