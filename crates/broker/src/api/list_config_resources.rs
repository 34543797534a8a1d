//! ListConfigResources (key 74), versions 0-1: what has, or can have, settings of its own.
//!
//! Behaviour:
//! - Needs: DESCRIBE_CONFIGS on the cluster (CLUSTER_AUTHORIZATION_FAILED).
//! - Topics and brokers that exist, and groups that have settings of their own (KIP-1142). An empty list of types is
//!   all of them; a type that Kafka does not list is UNSUPPORTED_VERSION.
//! - Version 0 is ListClientMetricsResources (KIP-1000).
//! - A broker is listed as a resource of loggers too, as by Kafka.
//!
//! Skipped: client metrics subscriptions (KIP-714): there are none.

use std::sync::Arc;

use metadata::{MetadataImage, ResourceKind};
use wire::ErrorCode;
use wire::api::list_config_resources::{ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse};

use super::RequestContext;
use crate::Broker;

/// What version 1 can list.
const ALL: [ResourceKind; 5] = [
    ResourceKind::Topic,
    ResourceKind::Broker,
    ResourceKind::BrokerLogger,
    ResourceKind::ClientMetrics,
    ResourceKind::Group,
];

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: ListConfigResourcesRequest,
) -> ListConfigResourcesResponse {
    let kinds = match kinds(context.api_version, &request.resource_types) {
        Ok(kinds) => kinds,
        Err(error_code) => return ListConfigResourcesResponse { error_code, ..Default::default() },
    };
    let image = broker.metadata.load();
    let config_resources = kinds
        .into_iter()
        .flat_map(|kind| {
            let name = move |resource_name| ConfigResource { resource_name, resource_type: kind as i8 };
            names(&image, kind).into_iter().map(name)
        })
        .collect();
    ListConfigResourcesResponse { config_resources, ..Default::default() }
}

/// The kinds that are asked for, each once.
fn kinds(version: i16, asked: &[i8]) -> Result<Vec<ResourceKind>, ErrorCode> {
    if version == 0 {
        return Ok(vec![ResourceKind::ClientMetrics]);
    }
    let mut kinds = Vec::new();
    for id in asked {
        let kind = ResourceKind::from_id(*id).ok_or(ErrorCode::UNSUPPORTED_VERSION)?;
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    Ok(if kinds.is_empty() { ALL.to_vec() } else { kinds })
}

fn names(image: &MetadataImage, kind: ResourceKind) -> Vec<String> {
    match kind {
        ResourceKind::Topic => image.topics().map(|topic| topic.name.to_string()).collect(),
        ResourceKind::Broker | ResourceKind::BrokerLogger => {
            image.brokers().map(|broker| broker.id.to_string()).collect()
        }
        ResourceKind::Group | ResourceKind::ClientMetrics => {
            let configs = image.configs().map(|(resource, _)| resource);
            configs.filter(|resource| resource.kind == kind).map(|resource| resource.name.clone()).collect()
        }
    }
}

/// The answer to who may not.
pub(super) fn refused(_: &ListConfigResourcesRequest, error_code: ErrorCode) -> ListConfigResourcesResponse {
    ListConfigResourcesResponse { error_code, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use wire::state::metadata::{ConfigRecord, RegisterBrokerRecord};

    use super::*;
    use crate::api::test_support::{TestBroker, context, registration};

    async fn ask(broker: &TestBroker, version: i16, types: &[i8]) -> Result<Vec<(i8, String)>, ErrorCode> {
        let request = ListConfigResourcesRequest { resource_types: types.to_vec() };
        let response = handle(broker, &context(version), request).await;
        let listed = response.config_resources.into_iter().map(|listed| (listed.resource_type, listed.resource_name));
        if response.error_code.is_none() { Ok(listed.collect()) } else { Err(response.error_code) }
    }

    /// A second broker, which is fenced, and settings of a group and of all brokers.
    async fn start() -> TestBroker {
        let broker = TestBroker::start().await;
        let setting = |resource_type, resource_name: &str, name: &str| ConfigRecord {
            resource_type,
            resource_name: resource_name.to_owned(),
            name: name.to_owned(),
            value: Some("50000".to_owned()),
        };
        let group = setting(ResourceKind::Group as i8, "g", "consumer.session.timeout.ms");
        let all_brokers = setting(ResourceKind::Broker as i8, "", "message.max.bytes");
        let fenced = RegisterBrokerRecord { fenced: true, ..registration(2) };
        broker.commit([fenced.into(), group.into(), all_brokers.into()]).await;
        broker
    }

    #[tokio::test]
    async fn brokers_are_listed_as_such_and_for_their_loggers() {
        let broker = start().await;
        let both = |kind| vec![(kind, "1".to_owned()), (kind, "2".to_owned())];
        assert_eq!(ask(&broker, 1, &[4]).await, Ok(both(4)), "what all brokers have is no resource of its own");
        assert_eq!(ask(&broker, 1, &[8]).await, Ok(both(8)));
        assert_eq!(ask(&broker, 1, &[8, 32, 8]).await, Ok([both(8), vec![(32, "g".to_owned())]].concat()));
    }

    #[tokio::test]
    async fn no_types_are_all_types_and_an_unknown_one_fails_the_request() {
        let broker = start().await;
        let all = ask(&broker, 1, &[]).await.expect("all types are known");
        assert_eq!(all.len(), 5, "{all:?}");
        for unknown in [0, 1, 64, -1] {
            assert_eq!(ask(&broker, 1, &[4, unknown]).await, Err(ErrorCode::UNSUPPORTED_VERSION), "{unknown}");
        }
        // Version 0 has no types, and lists client metrics.
        assert_eq!(ask(&broker, 0, &[4, 1]).await, Ok(Vec::new()));
    }
}
