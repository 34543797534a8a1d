//! ListConfigResources (key 74), versions 0-1: what has, or can have, settings of its own.
//!
//! Behaviour:
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
