//! Settings of topics, brokers and the like: where they come from, and changing them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use wire::ErrorCode;
use wire::api::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
};
use wire::api::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

use super::at_once;
use crate::{Client, ClientError};

const MIN_IN_SYNC_REPLICAS: &str = "min.insync.replicas";
/// Resources whose settings are asked for in one request.
const RESOURCES_AT_ONCE: usize = 500;
/// `AlterConfigOp.OpType`.
const SET: i8 = 0;
const DELETE: i8 = 1;

/// `ConfigResource.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    Topic = 2,
    Broker = 4,
    BrokerLogger = 8,
    ClientMetrics = 16,
    Group = 32,
}

/// What settings belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    pub kind: ResourceKind,
    /// The id of a broker; empty for all brokers.
    pub name: String,
}

impl Resource {
    pub fn topic(name: &str) -> Self {
        Self { kind: ResourceKind::Topic, name: name.to_owned() }
    }

    pub fn broker(id: i32) -> Self {
        Self { kind: ResourceKind::Broker, name: id.to_string() }
    }

    /// What is set for all brokers.
    pub fn all_brokers() -> Self {
        Self { kind: ResourceKind::Broker, name: String::new() }
    }

    /// The levels of a broker's log (KIP-412).
    pub fn loggers(broker: i32) -> Self {
        Self { kind: ResourceKind::BrokerLogger, name: broker.to_string() }
    }

    pub fn group(name: &str) -> Self {
        Self { kind: ResourceKind::Group, name: name.to_owned() }
    }

    /// The broker that alone can answer for its settings.
    fn only_broker(&self) -> Option<i32> {
        match self.kind {
            ResourceKind::Broker | ResourceKind::BrokerLogger => self.name.parse().ok(),
            _ => None,
        }
    }

    /// The source of a setting that was changed for this very resource.
    pub fn own_source(&self) -> ConfigSource {
        match self.kind {
            ResourceKind::Topic => ConfigSource::DynamicTopic,
            ResourceKind::Broker if self.name.is_empty() => ConfigSource::DynamicDefaultBroker,
            ResourceKind::Broker => ConfigSource::DynamicBroker,
            ResourceKind::BrokerLogger => ConfigSource::DynamicBrokerLogger,
            ResourceKind::ClientMetrics => ConfigSource::DynamicClientMetrics,
            ResourceKind::Group => ConfigSource::DynamicGroup,
        }
    }

    /// The resource is not there, or what is said is wrong.
    fn check(
        &self,
        subject: impl FnOnce() -> String,
        code: ErrorCode,
        message: Option<&str>,
    ) -> Result<(), ClientError> {
        match (self.kind, code) {
            (ResourceKind::Topic, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => {
                Err(ClientError::UnknownTopic { topic: self.name.clone() })
            }
            _ => ClientError::check(subject, code, message),
        }
    }
}

/// As Kafka's tool names it.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ResourceKind::Broker if self.name.is_empty() => return f.write_str("brokers in the cluster"),
            ResourceKind::Topic => "topic",
            ResourceKind::Broker => "broker",
            ResourceKind::BrokerLogger => "broker-logger",
            ResourceKind::ClientMetrics => "client-metric",
            ResourceKind::Group => "group",
        };
        write!(f, "{kind} {}", self.name)
    }
}

/// One setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigEntry {
    pub name: String,
    /// `None` also where it is a secret.
    pub value: Option<String>,
    pub source: ConfigSource,
    pub is_read_only: bool,
    pub is_sensitive: bool,
    /// The sources that it could come from; the first one counts.
    pub synonyms: Vec<ConfigSynonym>,
    pub config_type: ConfigType,
    /// Where it was asked for, and the broker has any.
    pub documentation: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigSynonym {
    pub name: String,
    pub value: Option<String>,
    pub source: ConfigSource,
}

/// `DescribeConfigsResponse.ConfigSource`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigSource {
    #[default]
    Unknown,
    DynamicTopic,
    DynamicBroker,
    DynamicDefaultBroker,
    StaticBroker,
    Default,
    DynamicBrokerLogger,
    DynamicClientMetrics,
    DynamicGroup,
}

impl ConfigSource {
    fn from_code(code: i8) -> Self {
        match code {
            1 => Self::DynamicTopic,
            2 => Self::DynamicBroker,
            3 => Self::DynamicDefaultBroker,
            4 => Self::StaticBroker,
            5 => Self::Default,
            6 => Self::DynamicBrokerLogger,
            7 => Self::DynamicClientMetrics,
            8 => Self::DynamicGroup,
            _ => Self::Unknown,
        }
    }

    /// As Kafka's tool prints it (`ConfigEntry.ConfigSource`).
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::DynamicTopic => "DYNAMIC_TOPIC_CONFIG",
            Self::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
            Self::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
            Self::StaticBroker => "STATIC_BROKER_CONFIG",
            Self::Default => "DEFAULT_CONFIG",
            Self::DynamicBrokerLogger => "DYNAMIC_BROKER_LOGGER_CONFIG",
            Self::DynamicClientMetrics => "DYNAMIC_CLIENT_METRICS_CONFIG",
            Self::DynamicGroup => "DYNAMIC_GROUP_CONFIG",
        }
    }
}

/// `DescribeConfigsResponse.ConfigType`. Unknown from brokers that do not tell (KIP-569).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ConfigType {
    #[default]
    Unknown,
    Boolean,
    String,
    Int,
    Short,
    Long,
    Double,
    List,
    Class,
    Password,
}

impl ConfigType {
    fn from_code(code: i8) -> Self {
        match code {
            1 => Self::Boolean,
            2 => Self::String,
            3 => Self::Int,
            4 => Self::Short,
            5 => Self::Long,
            6 => Self::Double,
            7 => Self::List,
            8 => Self::Class,
            9 => Self::Password,
            _ => Self::Unknown,
        }
    }
}

impl ConfigEntry {
    fn from_result(result: DescribeConfigsResourceResult) -> Self {
        let synonyms = result.synonyms.into_iter().map(|synonym| ConfigSynonym {
            name: synonym.name,
            value: synonym.value,
            source: ConfigSource::from_code(synonym.source),
        });
        Self {
            name: result.name,
            value: result.value,
            source: ConfigSource::from_code(result.config_source),
            is_read_only: result.read_only,
            is_sensitive: result.is_sensitive,
            synonyms: synonyms.collect(),
            config_type: ConfigType::from_code(result.config_type),
            documentation: result.documentation,
        }
    }
}

type Described = BTreeMap<Resource, Result<Vec<ConfigEntry>, ClientError>>;

impl Client {
    /// All settings of each of these, in the order in which the broker tells them.
    pub async fn describe_configs(&self, resources: &[Resource], with_documentation: bool) -> Described {
        let request = DescribeConfigsRequest {
            include_synonyms: true,
            include_documentation: with_documentation,
            ..Default::default()
        };
        self.describe_as(resources, None, &request).await
    }

    /// These settings of each of these, and no others.
    pub async fn describe_configs_named(&self, resources: &[Resource], names: &[String]) -> Described {
        self.describe_as(resources, Some(names), &Default::default()).await
    }

    /// The number of replicas that must be in the ISR for acks=all, by topic. A topic that is deleted meanwhile is left
    /// out.
    pub async fn min_in_sync_replicas(&self, topics: &[&str]) -> Result<HashMap<String, usize>, ClientError> {
        let resources: Vec<_> = topics.iter().map(|topic| Resource::topic(topic)).collect();
        let keys = [MIN_IN_SYNC_REPLICAS.to_owned()];
        let mut found = HashMap::new();
        for (topic, described) in self.describe_as(&resources, Some(&keys), &Default::default()).await {
            let entries = match described {
                Err(ClientError::UnknownTopic { .. }) => continue,
                described => described?,
            };
            let entry = entries.into_iter().find(|entry| entry.name == MIN_IN_SYNC_REPLICAS);
            found.extend(entry.and_then(|entry| Some((topic.name, entry.value?.parse().ok()?))));
        }
        Ok(found)
    }

    /// `request` of many resources: those of one broker asked of that broker, the others of any, at the same time.
    async fn describe_as(
        &self,
        resources: &[Resource],
        keys: Option<&[String]>,
        request: &DescribeConfigsRequest,
    ) -> Described {
        let mut by_broker = BTreeMap::<_, Vec<_>>::new();
        for resource in resources.iter().collect::<BTreeSet<_>>() {
            by_broker.entry(resource.only_broker()).or_default().push(resource);
        }
        let parts =
            by_broker.iter().flat_map(|(broker, of_it)| of_it.chunks(RESOURCES_AT_ONCE).map(move |p| (*broker, p)));
        let asked = parts.enumerate().map(|(part, (broker, resources))| {
            let resources: Vec<_> = resources.iter().copied().cloned().collect();
            let asked = resources.iter().map(|resource| DescribeConfigsResource {
                resource_type: resource.kind as i8,
                resource_name: resource.name.clone(),
                configuration_keys: keys.map(<[_]>::to_vec),
            });
            let (client, request) =
                (self.clone(), DescribeConfigsRequest { resources: asked.collect(), ..request.clone() });
            let asked = async move {
                let response = match broker {
                    Some(id) => client.send_to(id, &request).await,
                    None => client.send(&request).await,
                };
                described(resources, response)
            };
            (part, asked)
        });
        at_once(asked).await.into_values().flatten().collect()
    }

    /// Sets some settings and puts others back to their defaults, or only checks that this could be done.
    pub async fn alter_configs(
        &self,
        resource: &Resource,
        set: &[(String, String)],
        delete: &[String],
        validate_only: bool,
    ) -> Result<(), ClientError> {
        let change =
            |name: &str, config_operation, value| AlterableConfig { name: name.to_owned(), config_operation, value };
        let set = set.iter().map(|(name, value)| change(name, SET, Some(value.clone())));
        let delete = delete.iter().map(|name| change(name, DELETE, None));
        let request = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type: resource.kind as i8,
                resource_name: resource.name.clone(),
                configs: set.chain(delete).collect(),
            }],
            validate_only,
        };
        let code = |response: &IncrementalAlterConfigsResponse| {
            response.responses.first().map_or(ErrorCode::NONE, |r| r.error_code)
        };
        let response = match resource.only_broker() {
            Some(id) => self.send_to(id, &request).await?,
            None => self.send_to_controller(&request, code).await?,
        };
        for result in response.responses {
            let subject = || format!("cannot change the settings of {resource}");
            resource.check(subject, result.error_code, result.error_message.as_deref())?;
        }
        Ok(())
    }
}

/// What an answer says of each of the resources that it was asked for.
fn described(resources: Vec<Resource>, response: Result<DescribeConfigsResponse, ClientError>) -> Described {
    let response = match response {
        Ok(response) => response,
        Err(error) => return resources.into_iter().map(|resource| (resource, Err(error.clone()))).collect(),
    };
    let mut results: HashMap<_, _> = response
        .results
        .into_iter()
        .map(|result| ((result.resource_type, result.resource_name.clone()), result))
        .collect();
    let described = resources.into_iter().map(|resource| {
        let subject = || format!("the settings of {resource}");
        let missing = || ClientError::Missing { address: "a broker".to_owned(), subject: subject() };
        let result = results.remove(&(resource.kind as i8, resource.name.clone())).ok_or_else(missing);
        let entries = result.and_then(|result| {
            resource.check(subject, result.error_code, result.error_message.as_deref())?;
            Ok(result.configs.into_iter().map(ConfigEntry::from_result).collect())
        });
        (resource, entries)
    });
    described.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_know_whom_to_ask_and_what_is_their_own() {
        let known = |resource: Resource| (resource.only_broker(), resource.own_source(), resource.to_string());
        let (own, all) = (ConfigSource::DynamicBroker, ConfigSource::DynamicDefaultBroker);
        assert_eq!(known(Resource::broker(3)), (Some(3), own, "broker 3".to_owned()));
        assert_eq!(known(Resource::all_brokers()), (None, all, "brokers in the cluster".to_owned()));
        assert_eq!(known(Resource::topic("3")), (None, ConfigSource::DynamicTopic, "topic 3".to_owned()));
    }

    #[test]
    fn sources_have_kafkas_names() {
        assert_eq!(ConfigSource::from_code(5).name(), "DEFAULT_CONFIG");
        assert_eq!([i8::MIN, 0, 9].map(|code| ConfigSource::from_code(code).name()), ["UNKNOWN"; 3]);
    }
}
