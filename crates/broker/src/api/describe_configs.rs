//! DescribeConfigs (key 32), versions 1-4: settings of topics, brokers and groups, and where their values come from.
//!
//! Behaviour:
//! - Null and an empty list of keys are all settings; a key that does not exist is left out.
//! - A broker is this one, by its id; no id stands for what was set for all brokers while they ran.
//! - A group need not exist: it has the settings that it would start with.
//! - Passwords are never shown.
//! - Needs: DESCRIBE_CONFIGS on the topic, the group, or else the cluster (TOPIC_, GROUP_,
//!   CLUSTER_AUTHORIZATION_FAILED).
//! - A resource that is named twice with the same keys is answered once.
//! - A request is answered up to 150,000 settings, or 16 MiB of them; resources beyond are POLICY_VIOLATION. Kafka has
//!   no such bound.
//! - The loggers of this broker have their levels (KIP-412).
//!
//! Skipped: client metrics subscriptions (KIP-714) have no settings here.

use std::collections::HashSet;
use std::sync::Arc;

use configuration::describe::{self, Include};
use metadata::acl::AclOperation;
use metadata::{ConfigResource, MetadataImage, ResourceKind, validate_name};
use wire::ErrorCode;
use wire::api::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult,
};

use super::{Pace, RequestContext, loggers};
use crate::Broker;
use crate::memory::{DESCRIBED_BYTES_MAX, LargeAnswer};

/// Settings of one answer: those of some four thousand topics. A few bytes of a request can ask for all of a topic's.
const SETTINGS_MAX: usize = 150_000;
/// About what a setting takes, what is said of its meaning, and how many a resource has, before they are looked up.
const SETTING_BYTES: usize = 100;
const DOCUMENTATION_BYTES: usize = 250;
const TOPIC_SETTINGS: usize = 40;
const BROKER_SETTINGS: usize = 300;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let mut size = context.answer_size(broker, LargeAnswer::Described);
    let include = Include { synonyms: request.include_synonyms, documentation: request.include_documentation };
    let image = broker.metadata.load_full();
    let access = context.access(broker);
    let (mut settings, mut bytes) = (0, 0);
    let mut pace = Pace::default();
    let mut named = HashSet::new();
    let mut results = Vec::with_capacity(request.resources.len());
    for resource in request.resources {
        let DescribeConfigsResource { resource_type, resource_name, configuration_keys } = &resource;
        if !named.insert((*resource_type, resource_name.clone(), configuration_keys.clone())) {
            continue;
        }
        size.add(expected_bytes(&resource, include)).await;
        let described = match settings < SETTINGS_MAX && bytes < DESCRIBED_BYTES_MAX {
            false => Err(Refusal::new(ErrorCode::POLICY_VIOLATION, "Too many settings at once.")),
            true => access
                .check_configs(AclOperation::DescribeConfigs, resource.resource_type, &resource.resource_name)
                .map_err(|code| Refusal::new(code, ""))
                .and_then(|()| describe(broker, &image, &resource, include)),
        };
        let result = DescribeConfigsResult {
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            ..Default::default()
        };
        pace.step(described.as_ref().map_or(1, Vec::len)).await;
        results.push(match described {
            Ok(configs) => {
                settings += configs.len();
                bytes += configs.iter().map(size_bytes).sum::<usize>();
                DescribeConfigsResult { error_message: Some(String::new()), configs, ..result }
            }
            Err(Refusal { code, message }) => {
                DescribeConfigsResult { error_code: code, error_message: Some(message), ..result }
            }
        });
    }
    DescribeConfigsResponse { results, ..Default::default() }
}

/// About what a resource will take in the answer.
fn expected_bytes(resource: &DescribeConfigsResource, include: Include) -> usize {
    let is_small =
        matches!(ResourceKind::from_id(resource.resource_type), Some(ResourceKind::Topic | ResourceKind::Group));
    let all = if is_small { TOPIC_SETTINGS } else { BROKER_SETTINGS };
    let settings = match &resource.configuration_keys {
        Some(keys) if !keys.is_empty() => keys.len().min(all),
        _ => all,
    };
    settings * (SETTING_BYTES + if include.documentation { DOCUMENTATION_BYTES } else { 0 })
}

/// About what a setting takes in the answer.
fn size_bytes(config: &DescribeConfigsResourceResult) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let synonyms = config.synonyms.iter().map(|synonym| synonym.name.len() + length(&synonym.value));
    config.name.len() + length(&config.value) + length(&config.documentation) + synonyms.sum::<usize>()
}

/// Why a resource is not described.
struct Refusal {
    code: ErrorCode,
    message: String,
}

impl Refusal {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_REQUEST, message)
    }
}

/// `kafka.server.ConfigHelper`.
fn describe(
    broker: &Broker,
    image: &MetadataImage,
    resource: &DescribeConfigsResource,
    include: Include,
) -> Result<Vec<DescribeConfigsResourceResult>, Refusal> {
    let name = resource.resource_name.as_str();
    let keys = resource.configuration_keys.as_deref();
    let config = broker.config();
    match ResourceKind::from_id(resource.resource_type) {
        Some(ResourceKind::Topic) => {
            validate_name(name).map_err(|error| Refusal::new(ErrorCode::INVALID_TOPIC_EXCEPTION, error.to_string()))?;
            if image.topic(name).is_none() {
                return Err(Refusal::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ""));
            }
            Ok(describe::topic(&config, image.topic_config(name), keys, include))
        }
        Some(ResourceKind::Broker) if name.is_empty() => {
            Ok(describe::cluster(image.config(&ConfigResource::all_brokers()), keys, include))
        }
        Some(ResourceKind::Broker) => {
            check_broker(broker.node_id, name, " or empty string,")?;
            Ok(describe::broker(&config, keys, include))
        }
        Some(ResourceKind::Group) if name.is_empty() => Err(Refusal::invalid("Group name must not be empty")),
        Some(ResourceKind::Group) => {
            Ok(describe::group(&config, image.config(&ConfigResource::group(name)), keys, include))
        }
        Some(ResourceKind::BrokerLogger) if name.is_empty() => Err(Refusal::invalid("Broker id must not be empty")),
        Some(ResourceKind::BrokerLogger) => {
            check_broker(broker.node_id, name, "")?;
            Ok(loggers::describe(&broker.env.loggers, keys))
        }
        Some(ResourceKind::ClientMetrics) if name.is_empty() => {
            Err(Refusal::invalid("Client metrics subscription name must not be empty"))
        }
        Some(ResourceKind::ClientMetrics) => Ok(Vec::new()),
        None => Err(Refusal::invalid(format!("Unknown resource type {}", resource.resource_type))),
    }
}

/// Whether a broker's name is this one's id.
fn check_broker(node_id: i32, name: &str, or: &str) -> Result<(), Refusal> {
    match name.parse::<i32>() {
        Ok(id) if id == node_id => Ok(()),
        Ok(id) => Err(Refusal::invalid(format!("Unexpected broker id, expected {node_id}{or} but received {id}"))),
        Err(_) => Err(Refusal::invalid(format!("Broker id must be an integer, but it is: {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::test_support::{TestBroker, context};

    const GROUP: i8 = ResourceKind::Group as i8;

    fn resource(resource_type: i8, name: &str, keys: Option<&[&str]>) -> DescribeConfigsResource {
        DescribeConfigsResource {
            resource_type,
            resource_name: name.to_owned(),
            configuration_keys: keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect()),
        }
    }

    async fn ask(broker: &TestBroker, resources: Vec<DescribeConfigsResource>) -> Vec<DescribeConfigsResult> {
        let request = DescribeConfigsRequest { resources, include_synonyms: true, include_documentation: true };
        handle(broker, &context(4), request).await.results
    }

    #[tokio::test]
    async fn a_resource_is_answered_once_for_the_same_keys() {
        let broker = TestBroker::start().await;
        let key = "consumer.session.timeout.ms";
        let resources = vec![
            resource(GROUP, "g", Some(&[key])),
            resource(GROUP, "g", Some(&[key])),
            resource(GROUP, "h", Some(&[key])),
            resource(GROUP, "g", None),
        ];
        let results = ask(&broker, resources).await;
        let told: Vec<_> = results.iter().map(|result| (&*result.resource_name, result.configs.len() == 1)).collect();
        assert_eq!(told, [("g", true), ("h", true), ("g", false)]);
    }

    #[tokio::test]
    async fn client_metrics_have_no_settings() {
        let broker = TestBroker::start().await;
        let results = ask(&broker, vec![resource(ResourceKind::ClientMetrics as i8, "m", None)]).await;
        assert_eq!((results[0].error_code, results[0].configs.len()), (ErrorCode::NONE, 0));
    }

    #[tokio::test]
    async fn an_answer_has_so_many_bytes_of_settings() {
        let broker = TestBroker::start().await;
        let kind = ResourceKind::Broker as i8;
        let all = ask(&broker, vec![resource(kind, "1", None)]).await.remove(0);
        let names: Vec<String> = all.configs.into_iter().map(|config| config.name).collect();
        // Each of them asks for all settings, and for another one that does not exist.
        let resources = (0..SETTINGS_MAX / names.len()).map(|n| DescribeConfigsResource {
            resource_type: kind,
            resource_name: "1".to_owned(),
            configuration_keys: Some([&names[..], &[n.to_string()]].concat()),
        });
        let results = ask(&broker, resources.collect()).await;
        let refused = results.iter().position(|result| !result.error_code.is_none()).expect("the last are too many");
        let (described, refused) = results.split_at(refused);
        assert!(refused.iter().all(|result| result.error_code == ErrorCode::POLICY_VIOLATION));
        assert!(refused.iter().all(|result| result.configs.is_empty()));
        let settings = described.iter().flat_map(|result| &result.configs);
        assert!(settings.clone().count() < SETTINGS_MAX, "their bytes were too many before");
        let bytes: usize = settings.map(size_bytes).sum();
        let last: usize = described.iter().next_back().map_or(0, |last| last.configs.iter().map(size_bytes).sum());
        assert!(bytes >= DESCRIBED_BYTES_MAX && bytes - last < DESCRIBED_BYTES_MAX, "{bytes}");
    }
}
