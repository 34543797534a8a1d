//! `parshall config`: settings of topics and brokers, with where they come from.

use std::fmt::Write;

use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};
use client::{Client, ClientError};
use serde::Serialize;
use wire::ErrorCode;
use wire::api::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse};
use wire::api::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

use super::args::{self, Connection};
use super::failure::Usage;
use super::output;

/// `ConfigResource.Type`.
pub(crate) const TOPIC: i8 = 2;
const BROKER: i8 = 4;
/// `AlterConfigOp.OpType`.
const SET: i8 = 0;
const DELETE: i8 = 1;
/// `DescribeConfigsResponse.ConfigSource`, from 1 on.
const SOURCES: [&str; 6] = [
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "DYNAMIC_BROKER_LOGGER_CONFIG",
];
const DYNAMIC_TOPIC_CONFIG: i8 = 1;
const DYNAMIC_BROKER_CONFIG: i8 = 2;
const DYNAMIC_DEFAULT_BROKER_CONFIG: i8 = 3;
const DEFAULT_CONFIG: i8 = 5;

/// Show and change settings of topics and brokers.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Describe(Describe),
    Alter(Alter),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Topic,
    Broker,
}

/// Show the settings of a topic or a broker.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall config describe topic orders
  parshall config describe topic orders --all
  parshall config describe broker 1 --all --json

Each line tells the value and, as synonyms, the sources that it could come from; the first one counts.")]
struct Describe {
    /// What the settings belong to
    kind: Kind,
    /// Name of the topic, or id of the broker, or `default` for all brokers
    #[arg(value_parser = args::name)]
    name: String,
    /// Show all settings, not only those that were changed here
    #[arg(long)]
    all: bool,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Change settings of a topic or a broker; the others stay as they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall config alter topic orders --set retention.ms=3600000 --set cleanup.policy=compact
  parshall config alter topic orders --delete retention.ms
  parshall config alter broker 1 --set message.max.bytes=2097152")]
struct Alter {
    /// What the settings belong to
    kind: Kind,
    /// Name of the topic, or id of the broker, or `default` for all brokers
    #[arg(value_parser = args::name)]
    name: String,
    /// A setting to change, as often as needed
    #[arg(long, value_name = "NAME=VALUE", value_parser = args::pair)]
    set: Vec<(String, String)>,
    /// A setting to put back to its default, as often as needed
    #[arg(long, value_name = "NAME", value_parser = args::name)]
    delete: Vec<String>,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Describe(args) => describe(args).await,
        Command::Alter(args) => alter(args).await,
    }
}

/// What settings belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    kind: i8,
    name: String,
}

impl Resource {
    pub(crate) fn topic(name: &str) -> Self {
        Self { kind: TOPIC, name: name.to_owned() }
    }

    fn new(kind: Kind, name: &str) -> Result<Self> {
        match kind {
            Kind::Topic => Ok(Self::topic(name)),
            Kind::Broker if name == "default" => Ok(Self { kind: BROKER, name: String::new() }),
            Kind::Broker if name.parse::<i32>().is_ok_and(|id| id >= 0) => {
                Ok(Self { kind: BROKER, name: name.to_owned() })
            }
            Kind::Broker => bail!(Usage(format!("{name:?} is not the id of a broker; give a number, or 'default'"))),
        }
    }

    /// The broker that alone can answer for its settings.
    fn broker(&self) -> Option<i32> {
        (self.kind == BROKER).then(|| self.name.parse().ok()).flatten()
    }

    /// As Kafka's tool names it.
    fn describe(&self) -> String {
        match (self.kind, self.name.as_str()) {
            (BROKER, "") => "brokers in the cluster".to_owned(),
            (BROKER, id) => format!("broker {id}"),
            (_, name) => format!("topic {name}"),
        }
    }

    /// The source of a setting that was changed for this very resource.
    fn own_source(&self) -> i8 {
        match (self.kind, self.name.is_empty()) {
            (BROKER, true) => DYNAMIC_DEFAULT_BROKER_CONFIG,
            (BROKER, false) => DYNAMIC_BROKER_CONFIG,
            _ => DYNAMIC_TOPIC_CONFIG,
        }
    }
}

/// One setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// `None` also where it is a secret.
    pub(crate) value: Option<String>,
    #[serde(serialize_with = "source_name")]
    source: i8,
    read_only: bool,
    sensitive: bool,
    synonyms: Vec<Synonym>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Synonym {
    name: String,
    value: Option<String>,
    #[serde(serialize_with = "source_name")]
    source: i8,
}

impl Entry {
    pub(crate) fn is_default(&self) -> bool {
        self.source == DEFAULT_CONFIG
    }
}

fn source_text(source: i8) -> &'static str {
    let index = usize::try_from(source).ok().and_then(|source| source.checked_sub(1));
    index.and_then(|index| SOURCES.get(index)).copied().unwrap_or("UNKNOWN")
}

fn source_name<S: serde::Serializer>(source: &i8, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(source_text(*source))
}

/// All settings of a resource, in the order in which the broker tells them.
pub(crate) async fn describe_resource(client: &Client, resource: &Resource) -> Result<Vec<Entry>, ClientError> {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: resource.kind,
            resource_name: resource.name.clone(),
            configuration_keys: None,
        }],
        include_synonyms: true,
        ..Default::default()
    };
    let response: DescribeConfigsResponse = match resource.broker() {
        Some(id) => client.send_to(id, &request).await?,
        None => client.send(&request).await?,
    };
    let mut entries = Vec::new();
    for result in response.results {
        if result.error_code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
            return Err(ClientError::UnknownTopic { topic: resource.name.clone() });
        }
        let subject = || format!("the settings of {}", resource.describe());
        ClientError::check(subject, result.error_code, result.error_message.as_deref())?;
        entries.extend(result.configs.into_iter().map(|config| {
            Entry {
                name: config.name,
                value: config.value,
                source: config.config_source,
                read_only: config.read_only,
                sensitive: config.is_sensitive,
                synonyms: config
                    .synonyms
                    .into_iter()
                    .map(|synonym| Synonym { name: synonym.name, value: synonym.value, source: synonym.source })
                    .collect(),
            }
        }));
    }
    Ok(entries)
}

async fn describe(args: Describe) -> Result<()> {
    let resource = Resource::new(args.kind, &args.name)?;
    let client = args.connection.client("config").await?;
    let mut entries = describe_resource(&client, &resource).await?;
    if !args.all {
        entries.retain(|entry| entry.source == resource.own_source());
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    if args.json {
        return Ok(output::print_json(&entries)?);
    }
    let which = if args.all { "All" } else { "Dynamic" };
    let mut text = format!("{which} configs for {} are:\n", resource.describe());
    for entry in &entries {
        text.push_str(&render(entry));
    }
    Ok(output::print(&text)?)
}

/// `ConfigCommand.describeResourceConfig`.
fn render(entry: &Entry) -> String {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "null".to_owned());
    let synonyms = entry.synonyms.iter().map(|s| format!("{}:{}={}", source_text(s.source), s.name, value(&s.value)));
    let synonyms = synonyms.collect::<Vec<_>>().join(", ");
    let mut line = String::new();
    let (name, sensitive) = (&entry.name, entry.sensitive);
    let _ = writeln!(line, "  {name}={} sensitive={sensitive} synonyms={{{synonyms}}}", value(&entry.value));
    line
}

async fn alter(args: Alter) -> Result<()> {
    if args.set.is_empty() && args.delete.is_empty() {
        bail!(Usage("nothing to change; give --set or --delete".to_owned()));
    }
    let resource = Resource::new(args.kind, &args.name)?;
    let client = args.connection.client("config").await?;
    alter_resource(&client, &resource, &args.set, &args.delete).await?;
    let which = if resource.name.is_empty() { "default config" } else { "config" };
    Ok(output::print(&format!("Completed updating {which} for {}.\n", resource.describe()))?)
}

/// Sets some settings and puts others back to their defaults.
pub(crate) async fn alter_resource(
    client: &Client,
    resource: &Resource,
    set: &[(String, String)],
    delete: &[String],
) -> Result<(), ClientError> {
    let change =
        |name: &str, config_operation, value| AlterableConfig { name: name.to_owned(), config_operation, value };
    let set = set.iter().map(|(name, value)| change(name, SET, Some(value.clone())));
    let delete = delete.iter().map(|name| change(name, DELETE, None));
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: resource.kind,
            resource_name: resource.name.clone(),
            configs: set.chain(delete).collect(),
        }],
        ..Default::default()
    };
    let code = |response: &IncrementalAlterConfigsResponse| {
        response.responses.first().map_or(ErrorCode::NONE, |r| r.error_code)
    };
    let response = match resource.broker() {
        Some(id) => client.send_to(id, &request).await?,
        None => client.send_to_controller(&request, code).await?,
    };
    for result in response.responses {
        if result.error_code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
            return Err(ClientError::UnknownTopic { topic: resource.name.clone() });
        }
        let subject = || format!("cannot change the settings of {}", resource.describe());
        ClientError::check(subject, result.error_code, result.error_message.as_deref())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that kafka-configs.sh of Apache Kafka 4.3.1 printed.
    #[test]
    fn the_layout_is_kafkas() {
        let synonym =
            |source, name: &str, value: &str| Synonym { name: name.to_owned(), value: Some(value.to_owned()), source };
        let entry = Entry {
            name: "min.insync.replicas".to_owned(),
            value: Some("1".to_owned()),
            source: DYNAMIC_DEFAULT_BROKER_CONFIG,
            synonyms: vec![
                synonym(DYNAMIC_DEFAULT_BROKER_CONFIG, "min.insync.replicas", "1"),
                synonym(DEFAULT_CONFIG, "min.insync.replicas", "1"),
            ],
            ..Default::default()
        };
        assert_eq!(
            render(&entry),
            "  min.insync.replicas=1 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1, \
             DEFAULT_CONFIG:min.insync.replicas=1}\n"
        );
        let secret = Entry { name: "password".to_owned(), sensitive: true, ..Default::default() };
        assert_eq!(render(&secret), "  password=null sensitive=true synonyms={}\n");
    }

    #[test]
    fn resources_know_whom_to_ask() {
        let broker = Resource::new(Kind::Broker, "3").unwrap();
        assert_eq!((broker.broker(), broker.own_source()), (Some(3), DYNAMIC_BROKER_CONFIG));
        let default = Resource::new(Kind::Broker, "default").unwrap();
        assert_eq!((default.broker(), default.own_source()), (None, DYNAMIC_DEFAULT_BROKER_CONFIG));
        let topic = Resource::new(Kind::Topic, "3").unwrap();
        assert_eq!((topic.broker(), topic.own_source()), (None, DYNAMIC_TOPIC_CONFIG));
        assert!(Resource::new(Kind::Broker, "one").is_err());
        assert_eq!(source_text(5), "DEFAULT_CONFIG");
        assert_eq!([i8::MIN, 0, 7].map(source_text), ["UNKNOWN"; 3]);
    }
}
