//! `parshall topic describe`, in the layout of `kafka-topics.sh --describe`.

use std::collections::HashMap;
use std::fmt::Write;

use anyhow::Result;
use client::{Client, EligibleLeaders, Metadata, Placement, Reassignment, TopicPartition};
use serde::Serialize;

use super::{changed_settings, named_or_all};
use crate::cmd::args::{self, Connection};
use crate::cmd::output::{self, visible};

/// Show the partitions, replicas and changed settings of topics.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall topic describe
  parshall topic describe orders payments
  parshall topic describe orders --json
  parshall topic describe --regex 'orders.*'
  parshall topic describe --under-replicated-partitions

Elr are the eligible leader replicas (KIP-966): out of the ISR, but with all that was acknowledged.")]
pub(super) struct Describe {
    /// Names of the topics; all where none is given
    #[arg(value_name = "TOPIC", value_parser = args::name)]
    topics: Vec<String>,
    /// Take the names for regular expressions, each of a whole name
    #[arg(long, short = 'r', requires = "topics")]
    regex: bool,
    /// Leave out the brokers' own topics
    #[arg(long)]
    exclude_internal: bool,
    #[command(flatten)]
    only: Only,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Only {
    /// Show only partitions with fewer replicas in the ISR than they have
    #[arg(long)]
    under_replicated_partitions: bool,
    /// Show only partitions without a leader
    #[arg(long)]
    unavailable_partitions: bool,
    /// Show only partitions with fewer replicas in the ISR than min.insync.replicas
    #[arg(long)]
    under_min_isr_partitions: bool,
    /// Show only partitions with just as many replicas in the ISR as min.insync.replicas
    #[arg(long)]
    at_min_isr_partitions: bool,
}

impl Only {
    fn needs_min_isr(&self) -> bool {
        self.under_min_isr_partitions || self.at_min_isr_partitions
    }

    fn is_all(&self) -> bool {
        !(self.under_replicated_partitions || self.unavailable_partitions || self.needs_min_isr())
    }

    fn takes(&self, placement: &Placement<'_>, is_live: impl Fn(i32) -> bool) -> bool {
        self.is_all()
            || self.under_replicated_partitions && placement.is_under_replicated()
            || self.unavailable_partitions && placement.is_unavailable(is_live)
            || self.under_min_isr_partitions && placement.is_under_min_isr()
            || self.at_min_isr_partitions && placement.is_at_min_isr()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Topic {
    topic: String,
    topic_id: Option<String>,
    partition_count: usize,
    replication_factor: usize,
    #[serde(serialize_with = "as_object")]
    configs: Vec<(String, String)>,
    partitions: Vec<Partition>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Partition {
    partition: i32,
    leader: Option<i32>,
    replicas: Vec<i32>,
    isr: Vec<i32>,
    adding_replicas: Vec<i32>,
    removing_replicas: Vec<i32>,
    elr: Option<Vec<i32>>,
    last_known_elr: Option<Vec<i32>>,
}

fn as_object<S: serde::Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

pub(super) async fn run(args: Describe) -> Result<()> {
    let client = args.connection.client("topic").await?;
    let cluster = match args.topics.is_empty() || args.regex {
        true => client.cluster().await?,
        false => client.existing(&args.topics.iter().map(String::as_str).collect::<Vec<_>>()).await?,
    };
    let mut topics = collect(&client, &cluster, &args).await?;
    select(&client, &cluster, &args.only, &mut topics).await?;
    if args.json {
        return Ok(output::print_json(&topics)?);
    }
    let render = |topic: &Topic| match args.only.is_all() {
        true => render(topic),
        false => render_partitions(topic),
    };
    Ok(output::print(&topics.iter().map(render).collect::<String>())?)
}

/// Leaves the partitions that were asked for, and the topics that have some.
async fn select(client: &Client, cluster: &Metadata, only: &Only, topics: &mut Vec<Topic>) -> Result<()> {
    if only.is_all() {
        return Ok(());
    }
    let names: Vec<_> = topics.iter().map(|topic| topic.topic.as_str()).collect();
    let min_in_sync = match only.needs_min_isr() {
        true => client.min_in_sync_replicas(&names).await?,
        false => HashMap::new(),
    };
    for topic in topics.iter_mut() {
        let min_in_sync = min_in_sync.get(&topic.topic).copied().unwrap_or(1);
        topic.partitions.retain(|partition| {
            only.takes(&partition.placement(min_in_sync), |broker| cluster.brokers.contains_key(&broker))
        });
    }
    topics.retain(|topic| !topic.partitions.is_empty());
    Ok(())
}

impl Partition {
    fn placement(&self, min_in_sync: usize) -> Placement<'_> {
        let Self { leader, replicas, isr, adding_replicas: adding, .. } = self;
        Placement { leader: *leader, replicas, isr, adding, min_in_sync }
    }
}

async fn collect(client: &Client, cluster: &Metadata, args: &Describe) -> Result<Vec<Topic>> {
    let mut wanted = named_or_all(cluster, &args.topics, args.regex)?;
    wanted.retain(|_, topic| !(args.exclude_internal && topic.is_internal) && topic.error_code.is_none());
    let names: Vec<_> = wanted.keys().map(String::as_str).collect();
    let mut settings = changed_settings(client, &names).await?;
    let mut elrs = client.eligible_leaders(&names).await?;
    let partitions_of = |(name, topic): (&String, &client::Topic)| {
        topic.partitions.iter().map(|partition| TopicPartition::new(name, partition.index)).collect::<Vec<_>>()
    };
    let partitions = wanted.iter().flat_map(partitions_of).collect();
    // A broker that does not tell has none under way as far as we can know, as for Kafka's tool.
    let mut moves = client.list_reassignments(Some(&partitions)).await.unwrap_or_default();
    let topics = wanted.into_iter().map(|(name, topic)| {
        let partitions: Vec<_> = topic
            .partitions
            .into_iter()
            .map(|partition| {
                let key = TopicPartition::new(&name, partition.index);
                let EligibleLeaders { eligible: elr, last_known: last_known_elr } =
                    elrs.remove(&key).unwrap_or_default();
                let Reassignment { adding, removing, .. } = moves.remove(&key).unwrap_or_default();
                Partition {
                    partition: partition.index,
                    leader: (partition.leader >= 0).then_some(partition.leader),
                    replicas: partition.replicas,
                    isr: partition.isr,
                    adding_replicas: adding,
                    removing_replicas: removing,
                    elr,
                    last_known_elr,
                }
            })
            .collect();
        let factor = |first: &Partition| first.replicas.len() - first.adding_replicas.len().min(first.replicas.len());
        Topic {
            topic_id: (!topic.id.is_zero()).then(|| topic.id.to_string()),
            partition_count: partitions.len(),
            replication_factor: partitions.first().map_or(0, factor),
            configs: settings.remove(&name).unwrap_or_default(),
            partitions,
            topic: name,
        }
    });
    Ok(topics.collect())
}

fn join(ids: &[i32]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// `TopicCommand.TopicDescription`, and its partitions.
fn render(topic: &Topic) -> String {
    let mut text = format!("Topic: {}", topic.topic);
    if let Some(id) = &topic.topic_id {
        let _ = write!(text, "\tTopicId: {id}");
    }
    let configs =
        topic.configs.iter().map(|(name, value)| format!("{name}={}", visible(value))).collect::<Vec<_>>().join(",");
    let _ = writeln!(
        text,
        "\tPartitionCount: {}\tReplicationFactor: {}\tConfigs: {configs}",
        topic.partition_count, topic.replication_factor
    );
    text + &render_partitions(topic)
}

/// `TopicCommand.PartitionDescription`.
fn render_partitions(topic: &Topic) -> String {
    let mut text = String::new();
    for partition in &topic.partitions {
        let leader = partition.leader.map_or_else(|| "none".to_owned(), |id| id.to_string());
        let elr = |ids: &Option<Vec<i32>>| ids.as_deref().map_or_else(|| "N/A".to_owned(), join);
        let _ = write!(
            text,
            "\tTopic: {}\tPartition: {}\tLeader: {leader}\tReplicas: {}\tIsr: {}",
            topic.topic,
            partition.partition,
            join(&partition.replicas),
            join(&partition.isr)
        );
        if !partition.adding_replicas.is_empty() || !partition.removing_replicas.is_empty() {
            let (adding, removing) = (join(&partition.adding_replicas), join(&partition.removing_replicas));
            let _ = write!(text, "\tAdding Replicas: {adding}\tRemoving Replicas: {removing}");
        }
        let _ = writeln!(text, "\tElr: {}\tLastKnownElr: {}", elr(&partition.elr), elr(&partition.last_known_elr));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What kafka-topics.sh of Apache Kafka 4.3.1 printed for such topics.
    #[test]
    fn the_layout_is_kafkas() {
        let partition = Partition {
            leader: Some(1),
            replicas: vec![1],
            isr: vec![1],
            elr: Some(vec![]),
            last_known_elr: Some(vec![]),
            ..Default::default()
        };
        let topic = Topic {
            topic: "be.ta".to_owned(),
            topic_id: Some("SKwTE021QTGJurTB8VRO8g".to_owned()),
            partition_count: 1,
            replication_factor: 1,
            configs: vec![
                ("min.insync.replicas".to_owned(), "1".to_owned()),
                ("segment.bytes".to_owned(), "1073741824".to_owned()),
            ],
            partitions: vec![partition],
        };
        assert_eq!(
            render(&topic),
            "Topic: be.ta\tTopicId: SKwTE021QTGJurTB8VRO8g\tPartitionCount: 1\tReplicationFactor: 1\t\
             Configs: min.insync.replicas=1,segment.bytes=1073741824\n\
             \tTopic: be.ta\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n"
        );
    }

    #[test]
    fn what_is_missing_is_said() {
        let partition =
            Partition { partition: 3, replicas: vec![1, 2], adding_replicas: vec![2], ..Default::default() };
        let topic = Topic { topic: "t".to_owned(), partitions: vec![partition], ..Default::default() };
        assert_eq!(
            render(&topic),
            "Topic: t\tPartitionCount: 0\tReplicationFactor: 0\tConfigs: \n\
             \tTopic: t\tPartition: 3\tLeader: none\tReplicas: 1,2\tIsr: \tAdding Replicas: 2\tRemoving Replicas: \t\
             Elr: N/A\tLastKnownElr: N/A\n"
        );
    }
}
