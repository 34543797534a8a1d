//! `parshall config`: settings of topics, brokers and groups, with where they come from.

use std::fmt::Write;

use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};
use client::{Client, ClientError, ConfigEntry, Resource};
use serde::Serialize;
use serde_json::json;

use super::args::{self, Connection};
use super::failure::Usage;
use super::output::{self, visible};

/// Show and change settings of topics, brokers and groups.
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
    BrokerLogger,
    Group,
}

/// Show the settings of a topic, a broker or a group.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall config describe topic orders
  parshall config describe topic orders --all
  parshall config describe broker 1 --all --json

Each line tells the value and, as synonyms, the sources that it could come from; the first one counts.")]
struct Describe {
    /// What the settings belong to; the loggers of a broker have levels
    kind: Kind,
    /// Name of the topic or group, or id of the broker, or `default` for all brokers
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

/// Change settings of a topic, a broker or a group; the others stay as they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall config alter topic orders --set retention.ms=3600000 --set cleanup.policy=compact
  parshall config alter topic orders --delete retention.ms
  parshall config alter broker 1 --set message.max.bytes=2097152
  parshall config alter group billing --set consumer.session.timeout.ms=60000
  parshall config alter broker-logger 1 --set coordinator=DEBUG")]
struct Alter {
    /// What the settings belong to; the loggers of a broker have levels
    kind: Kind,
    /// Name of the topic or group, or id of the broker, or `default` for all brokers
    #[arg(value_parser = args::name)]
    name: String,
    /// A setting to change, as often as needed
    #[arg(long, value_name = "NAME=VALUE", value_parser = args::pair)]
    set: Vec<(String, String)>,
    /// A setting to put back to its default, as often as needed
    #[arg(long, value_name = "NAME", value_parser = args::name)]
    delete: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Describe(args) => describe(args).await,
        Command::Alter(args) => alter(args).await,
    }
}

fn resource(kind: Kind, name: &str) -> Result<Resource> {
    match kind {
        Kind::Topic => Ok(Resource::topic(name)),
        Kind::Group => Ok(Resource::group(name)),
        Kind::Broker if name == "default" => Ok(Resource::all_brokers()),
        Kind::Broker => match name.parse() {
            Ok(id @ 0..) => Ok(Resource::broker(id)),
            _ => bail!(Usage(format!("{name:?} is not the id of a broker; give a number, or 'default'"))),
        },
        Kind::BrokerLogger => match name.parse() {
            Ok(id @ 0..) => Ok(Resource::loggers(id)),
            _ => bail!(Usage(format!("{name:?} is not the id of a broker; give a number"))),
        },
    }
}

/// One setting in JSON.
#[derive(Debug, Serialize)]
struct Entry<'a> {
    name: &'a str,
    /// `None` also where it is a secret.
    value: Option<&'a str>,
    source: &'static str,
    read_only: bool,
    sensitive: bool,
    synonyms: Vec<Synonym<'a>>,
}

#[derive(Debug, Serialize)]
struct Synonym<'a> {
    name: &'a str,
    value: Option<&'a str>,
    source: &'static str,
}

impl<'a> Entry<'a> {
    fn new(entry: &'a ConfigEntry) -> Self {
        let synonyms = entry.synonyms.iter().map(|synonym| Synonym {
            name: &synonym.name,
            value: synonym.value.as_deref(),
            source: synonym.source.name(),
        });
        Self {
            name: &entry.name,
            value: entry.value.as_deref(),
            source: entry.source.name(),
            read_only: entry.is_read_only,
            sensitive: entry.is_sensitive,
            synonyms: synonyms.collect(),
        }
    }
}

/// All settings of a resource, in the order in which the broker tells them.
async fn describe_resource(client: &Client, resource: Resource) -> Result<Vec<ConfigEntry>, ClientError> {
    let described = client.describe_configs(&[resource], false).await;
    Ok(described.into_values().collect::<Result<Vec<_>, _>>()?.concat())
}

async fn describe(args: Describe) -> Result<()> {
    let resource = resource(args.kind, &args.name)?;
    let client = args.connection.client("config").await?;
    let mut entries = describe_resource(&client, resource.clone()).await?;
    if !args.all {
        entries.retain(|entry| entry.source == resource.own_source());
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    if args.json {
        return Ok(output::print_json(&entries.iter().map(Entry::new).collect::<Vec<_>>())?);
    }
    let which = if args.all { "All" } else { "Dynamic" };
    let mut text = format!("{which} configs for {resource} are:\n");
    for entry in &entries {
        text.push_str(&render(entry));
    }
    Ok(output::print(&text)?)
}

/// `ConfigCommand.describeResourceConfig`.
fn render(entry: &ConfigEntry) -> String {
    let value =
        |value: &Option<String>| value.as_deref().map_or_else(|| "null".to_owned(), |v| visible(v).into_owned());
    let synonyms = entry.synonyms.iter().map(|s| format!("{}:{}={}", s.source.name(), s.name, value(&s.value)));
    let synonyms = synonyms.collect::<Vec<_>>().join(", ");
    let mut line = String::new();
    let (name, sensitive) = (&entry.name, entry.is_sensitive);
    let _ = writeln!(line, "  {name}={} sensitive={sensitive} synonyms={{{synonyms}}}", value(&entry.value));
    line
}

async fn alter(args: Alter) -> Result<()> {
    if args.set.is_empty() && args.delete.is_empty() {
        bail!(Usage("nothing to change; give --set or --delete".to_owned()));
    }
    let resource = resource(args.kind, &args.name)?;
    let client = args.connection.client_for_changes("config").await?;
    client.alter_configs(&resource, &args.set, &args.delete, false).await?;
    if args.json {
        let set: Vec<_> = args.set.iter().map(|(name, _)| name).collect();
        return Ok(output::print_json(&json!({
            "kind": args.kind.to_possible_value().map(|kind| kind.get_name().to_owned()), "name": args.name,
            "set": set, "deleted": args.delete,
        }))?);
    }
    let which = if resource == Resource::all_brokers() { "default config" } else { "config" };
    Ok(output::print(&format!("Completed updating {which} for {resource}.\n"))?)
}

#[cfg(test)]
mod tests {
    use client::{ConfigSource, ConfigSynonym};

    use super::*;

    /// Lines that kafka-configs.sh of Apache Kafka 4.3.1 printed.
    #[test]
    fn the_layout_is_kafkas() {
        let synonym = |source, name: &str, value: &str| ConfigSynonym {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            source,
        };
        let entry = ConfigEntry {
            name: "min.insync.replicas".to_owned(),
            value: Some("1".to_owned()),
            source: ConfigSource::DynamicDefaultBroker,
            synonyms: vec![
                synonym(ConfigSource::DynamicDefaultBroker, "min.insync.replicas", "1"),
                synonym(ConfigSource::Default, "min.insync.replicas", "1"),
            ],
            ..Default::default()
        };
        assert_eq!(
            render(&entry),
            "  min.insync.replicas=1 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1, \
             DEFAULT_CONFIG:min.insync.replicas=1}\n"
        );
        let secret = ConfigEntry { name: "password".to_owned(), is_sensitive: true, ..Default::default() };
        assert_eq!(render(&secret), "  password=null sensitive=true synonyms={}\n");
    }

    #[test]
    fn brokers_have_numbers() {
        assert_eq!(resource(Kind::Broker, "3").unwrap(), Resource::broker(3));
        assert_eq!(resource(Kind::Broker, "default").unwrap(), Resource::all_brokers());
        assert_eq!(resource(Kind::Topic, "3").unwrap(), Resource::topic("3"));
        assert_eq!(resource(Kind::Group, "3").unwrap(), Resource::group("3"));
        assert_eq!(resource(Kind::BrokerLogger, "3").unwrap(), Resource::loggers(3));
        assert!(resource(Kind::Broker, "one").is_err() && resource(Kind::Broker, "-1").is_err());
        assert!(resource(Kind::BrokerLogger, "default").is_err());
    }
}
