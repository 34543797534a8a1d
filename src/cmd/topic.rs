//! `parshall topic`: what topics there are, and changing them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Result, bail};
use clap::Subcommand;
use client::{Client, ClientError, ConfigSource, Metadata, Resource};
use serde::Serialize;
use serde_json::json;
use wire::ErrorCode;
use wire::api::create_topics::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};

use super::args::{self, Connection};
use super::failure::{self, Usage};
use super::{names, output};

mod delete_records;
mod describe;

/// Create, list, describe, alter and delete topics, and delete their records.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Create),
    List(List),
    Describe(describe::Describe),
    Alter(Alter),
    DeleteRecords(delete_records::DeleteRecords),
    Delete(Delete),
}

/// Create a topic.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall topic create orders
  parshall topic create orders --partitions 12 --replication-factor 3 --config retention.ms=86400000
  parshall topic create orders --replica-assignment 1:2,2:3,3:1
  parshall topic create orders --if-not-exists --json")]
struct Create {
    /// Name of the topic
    #[arg(value_parser = args::name)]
    topic: String,
    /// Number of partitions; the broker's num.partitions where none is given
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Replicas of each partition; the broker's default.replication.factor where none is given
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replication_factor: Option<i16>,
    /// A setting of the topic, as often as needed
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = args::pair)]
    config: Vec<(String, String)>,
    /// Brokers of each partition: partitions are separated by commas, the brokers of one by colons
    #[arg(long, value_name = "BROKERS", value_parser = assignment)]
    #[arg(conflicts_with_all = ["partitions", "replication_factor"])]
    replica_assignment: Option<Assignment>,
    /// Succeed when the topic is there already
    #[arg(long)]
    if_not_exists: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// List the names of topics.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall topic list
  parshall topic list --exclude-internal --json
  parshall topic list --regex 'orders.*'")]
struct List {
    /// Names of the topics; all where none is given
    #[arg(value_name = "TOPIC", value_parser = args::name)]
    topics: Vec<String>,
    /// Take the names for regular expressions, each of a whole name
    #[arg(long, short = 'r', requires = "topics")]
    regex: bool,
    /// Leave out the brokers' own topics
    #[arg(long)]
    exclude_internal: bool,
    /// Print one JSON array with names, ids and partition counts
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Change a topic: more partitions, other settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall topic alter orders --partitions 24
  parshall topic alter orders --config retention.ms=3600000 --delete-config segment.bytes")]
struct Alter {
    /// Name of the topic
    #[arg(value_parser = args::name)]
    topic: String,
    /// Number of partitions, more than there are
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Brokers of each new partition: partitions are separated by commas, the brokers of one by colons
    #[arg(long, value_name = "BROKERS", value_parser = assignment, requires = "partitions")]
    replica_assignment: Option<Assignment>,
    /// A setting to change, as often as needed
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = args::pair)]
    config: Vec<(String, String)>,
    /// A setting to put back to its default, as often as needed
    #[arg(long, value_name = "NAME", value_parser = args::name)]
    delete_config: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Delete topics with all of their records.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall topic delete orders
  parshall topic delete orders payments --if-exists
  parshall topic delete --regex 'test-.*'")]
struct Delete {
    /// Names of the topics
    #[arg(required = true, value_name = "TOPIC", value_parser = args::name)]
    topics: Vec<String>,
    /// Take the names for regular expressions, each of a whole name; the brokers' own topics are left out
    #[arg(long, short = 'r')]
    regex: bool,
    /// Succeed for topics that are not there
    #[arg(long)]
    if_exists: bool,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Create(args) => create(args).await,
        Command::List(args) => list(args).await,
        Command::Describe(args) => describe::run(args).await,
        Command::Alter(args) => alter(args).await,
        Command::DeleteRecords(args) => delete_records::run(args).await,
        Command::Delete(args) => delete(args).await,
    }
}

/// By partition the ids of its brokers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Assignment(Vec<Vec<i32>>);

fn assignment(text: &str) -> Result<Assignment, String> {
    let broker = |id: &str| id.trim().parse().map_err(|_| format!("{:?} is not the number of a broker", id.trim()));
    let partition = |brokers: &str| brokers.split(':').map(broker).collect::<Result<Vec<i32>, _>>();
    let partitions = text.split(',').map(partition).collect::<Result<Vec<_>, _>>()?;
    for (i, brokers) in partitions.iter().enumerate() {
        if brokers.iter().collect::<BTreeSet<_>>().len() != brokers.len() {
            return Err(format!("partition {i} names a broker twice"));
        }
        if brokers.len() != partitions[0].len() {
            return Err(format!("partition {i} has another number of replicas than partition 0"));
        }
    }
    Ok(Assignment(partitions))
}

async fn create(args: Create) -> Result<()> {
    let client = args.connection.client_for_changes("topic").await?;
    let assignments = args.replica_assignment.iter().flat_map(|assignment| &assignment.0).zip(0..);
    let topic = CreatableTopic {
        name: args.topic.clone(),
        num_partitions: args.partitions.unwrap_or(-1),
        replication_factor: args.replication_factor.unwrap_or(-1),
        assignments: assignments
            .map(|(broker_ids, partition_index)| CreatableReplicaAssignment {
                partition_index,
                broker_ids: broker_ids.clone(),
            })
            .collect(),
        configs: args
            .config
            .into_iter()
            .map(|(name, value)| CreatableTopicConfig { name, value: Some(value) })
            .collect(),
    };
    let is_created = match client.create_topic(topic).await {
        Err(ClientError::Refused { code: ErrorCode::TOPIC_ALREADY_EXISTS, .. }) if args.if_not_exists => false,
        created => created.map(|()| true)?,
    };
    if args.json {
        output::print_json(&json!({ "topic": args.topic, "is_created": is_created }))?;
    } else if is_created {
        output::print(&format!("Created topic {}.\n", args.topic))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Listed<'a> {
    topic: &'a str,
    topic_id: String,
    partitions: usize,
    replication_factor: usize,
    internal: bool,
}

async fn list(args: List) -> Result<()> {
    let client = args.connection.client("topic").await?;
    let cluster = client.cluster().await?;
    let mut topics = named_or_all(&cluster, &args.topics, args.regex)?;
    topics.retain(|_, topic| !(args.exclude_internal && topic.is_internal));
    if args.json {
        let listed = topics.iter().map(|(name, topic)| Listed {
            topic: name,
            topic_id: topic.id.to_string(),
            partitions: topic.partitions.len(),
            replication_factor: topic.partitions.first().map_or(0, |partition| partition.replicas.len()),
            internal: topic.is_internal,
        });
        return Ok(output::print_json(&listed.collect::<Vec<_>>())?);
    }
    let names: String = topics.keys().map(|name| format!("{name}\n")).collect();
    Ok(output::print(&names)?)
}

async fn alter(args: Alter) -> Result<()> {
    if args.partitions.is_none() && args.config.is_empty() && args.delete_config.is_empty() {
        bail!(Usage("nothing to change; give --partitions, --config or --delete-config".to_owned()));
    }
    let client = args.connection.client_for_changes("topic").await?;
    client.existing(&[&args.topic]).await?;
    if let Some(count) = args.partitions {
        client.create_partitions(&args.topic, count, args.replica_assignment.map(|assignment| assignment.0)).await?;
    }
    if !args.config.is_empty() || !args.delete_config.is_empty() {
        client.alter_configs(&Resource::topic(&args.topic), &args.config, &args.delete_config, false).await?;
    }
    if args.json {
        let set: Vec<_> = args.config.iter().map(|(name, _)| name).collect();
        output::print_json(&json!({
            "topic": args.topic, "partitions": args.partitions, "set": set, "deleted": args.delete_config,
        }))?;
    }
    Ok(())
}

async fn delete(args: Delete) -> Result<()> {
    let client = args.connection.client_for_changes("topic").await?;
    let topics = match args.regex {
        true => matching_own(client.cluster().await?.as_ref(), &args.topics, args.if_exists)?,
        false => args.topics,
    };
    let mut deleted = Vec::new();
    // One at a time: the versions before 6 say less of each, and one failure must not hide the others.
    for topic in &topics {
        let result = match client.delete_topic(topic).await {
            Err(ClientError::UnknownTopic { .. }) if args.if_exists => Ok(false),
            result => result.map(|()| true),
        };
        deleted.push((topic, result));
    }
    if args.json {
        let rows = deleted.iter().map(|(topic, result)| {
            let is_deleted = result.as_ref().is_ok_and(|is_deleted| *is_deleted);
            json!({ "topic": topic, "is_deleted": is_deleted, "error": failure::text(result) })
        });
        output::print_json(&rows.collect::<Vec<_>>())?;
    } else {
        for (topic, _) in deleted.iter().filter(|(_, result)| matches!(result, Ok(true))) {
            output::print(&format!("Deleted topic {topic}.\n"))?;
        }
    }
    failure::all(deleted.into_iter().filter_map(|(_, result)| result.err()).collect())
}

/// The settings of topics that are not at their defaults, in the order in which the broker tells them.
async fn changed_settings(client: &Client, topics: &[&str]) -> Result<HashMap<String, Vec<(String, String)>>> {
    let resources: Vec<_> = topics.iter().map(|topic| Resource::topic(topic)).collect();
    let mut settings = HashMap::new();
    for (topic, entries) in client.describe_configs(&resources, false).await {
        let changed = entries?.into_iter().filter(|entry| entry.source != ConfigSource::Default);
        let pairs = changed.map(|entry| (entry.name, entry.value.unwrap_or_else(|| "null".to_owned())));
        settings.insert(topic.name, pairs.collect());
    }
    Ok(settings)
}

/// Those topics of the cluster that were named, or all, or the first that is not there.
fn named_or_all(cluster: &Metadata, names: &[String], regex: bool) -> Result<BTreeMap<String, client::Topic>> {
    if names.is_empty() {
        return Ok(cluster.topics.clone());
    }
    let matching = match regex {
        true => names::matching(names, cluster.topics.keys().map(String::as_str))?,
        false => names.to_vec(),
    };
    matching.into_iter().map(|name| Ok((name.clone(), cluster.topic(&name)?.clone()))).collect()
}

/// The topics of users that patterns match.
fn matching_own(cluster: &Metadata, patterns: &[String], may_be_none: bool) -> Result<Vec<String>> {
    let own = || cluster.topics.iter().filter(|(_, topic)| !topic.is_internal).map(|(name, _)| name.as_str());
    match names::matching(patterns, own()) {
        Err(error) if may_be_none && !error.is::<Usage>() => Ok(Vec::new()),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_read_as_kafka_writes_them() {
        assert_eq!(assignment("0:1,1:2"), Ok(Assignment(vec![vec![0, 1], vec![1, 2]])));
        assert_eq!(assignment(" 5 "), Ok(Assignment(vec![vec![5]])));
        for wrong in ["", "a", "1:1", "1:2,3", "1,,2"] {
            assert!(assignment(wrong).is_err(), "{wrong}");
        }
    }
}
