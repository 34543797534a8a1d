//! `parshall partition verify-replicas`: whether the replicas of partitions have the same records.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use client::{ReplicaComparison, TopicPartition};
use serde::Serialize;

use crate::cmd::args::{self, Connection};
use crate::cmd::{failure, output, partitions};

/// Compare the replicas of partitions: read all of them, and tell where one differs from the leader.
///
/// Batches have to be the same, byte for byte, up to the high watermark of this moment. Replicas of a compacted topic
/// are cleaned each at its own time, so of those the records are compared that both have. The brokers send as much as
/// consumers of all replicas would read.
///
/// Exits with 1 if a replica differs, or cannot be read.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall partition verify-replicas orders
  parshall partition verify-replicas orders:0,2 --last 100000
  parshall partition verify-replicas --all --json")]
pub(super) struct VerifyReplicas {
    /// Topics, or some of their partitions
    #[arg(required_unless_present = "all", value_name = "TOPIC[:PARTITION,...]", value_parser = args::name)]
    topics: Vec<String>,
    /// All partitions
    #[arg(long, conflicts_with = "topics")]
    all: bool,
    /// Compare only the last records of each partition
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    last: Option<i64>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Serialize)]
struct Verified {
    topic: String,
    partition: i32,
    leader: i32,
    /// Offsets from the first to the one behind the last that were compared.
    from: i64,
    to: i64,
    batches: u64,
    /// Those that have what the leader has.
    alike: BTreeSet<i32>,
    /// By broker: what is wrong with its replica.
    problems: BTreeMap<i32, String>,
}

pub(super) async fn run(args: VerifyReplicas) -> Result<()> {
    let client = args.connection.client("partition").await?;
    let topics = match args.all {
        true => client.cluster().await?.topics.keys().cloned().collect(),
        false => args.topics,
    };
    let wanted = partitions::named(&client, &topics).await?;
    let compacted = client.compacted(&wanted.iter().map(|of| of.topic.as_str()).collect()).await?;
    let (mut verified, mut unlike, mut failed) = (Vec::new(), 0, Vec::new());
    for of in &wanted {
        let mut comparison = match client.compare_replicas(of, compacted.contains(&of.topic), args.last).await {
            Ok(comparison) => comparison,
            Err(error) => {
                failed.push(error);
                continue;
            }
        };
        while !comparison.is_complete() {
            comparison.step().await;
        }
        let one = Verified::new(of, comparison);
        unlike += usize::from(!one.problems.is_empty());
        if !args.json {
            output::print(&line(&one))?;
        }
        verified.push(one);
    }
    if args.json {
        output::print_json(&verified)?;
    }
    match unlike {
        0 => failure::all(failed),
        _ => bail!("{unlike} of {} partitions have replicas that are not like the leader's", wanted.len()),
    }
}

impl Verified {
    fn new(of: &TopicPartition, comparison: ReplicaComparison) -> Self {
        let ReplicaComparison { leader, from, to, batches, alike, problems, .. } = comparison;
        let problems = problems.into_iter().map(|(broker, problem)| (broker, problem.to_string())).collect();
        Self { topic: of.topic.clone(), partition: of.partition, leader, from, to, batches, alike, problems }
    }
}

fn line(one: &Verified) -> String {
    let Verified { topic, partition, leader, from, to, batches, alike, problems } = one;
    let ids = alike.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut text = format!(
        "{topic}-{partition}  offsets {from} to {to}, {batches} batches, leader {leader}: alike on {}\n",
        if ids.is_empty() { "no other broker" } else { &ids }
    );
    for (broker, problem) in problems {
        text.push_str(&format!("{topic}-{partition}  broker {broker}: {problem}\n"));
    }
    text
}
