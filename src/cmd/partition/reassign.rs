//! `parshall partition reassign` and `reassignments`: partitions move to other brokers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use client::{Client, Reassignment, TopicPartition};
use serde::Deserialize;
use serde_json::json;

use crate::cmd::args::Connection;
use crate::cmd::failure::Usage;
use crate::cmd::table::Column::{Fitted, Fixed};
use crate::cmd::table::table;
use crate::cmd::{output, partitions, properties};

/// Of plans: Kafka's tool has had no other.
const VERSION: i32 = 1;

/// Give partitions other replicas, by a plan as kafka-reassign-partitions.sh writes it. Shows what it would do;
/// --execute begins it.
///
/// The first broker of each list is the preferred leader. Moves go on by themselves: `parshall partition
/// reassignments` lists what is under way, --verify tells whether a plan is done, --cancel stops it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  echo '{\"partitions\":[{\"topic\":\"orders\",\"partition\":0,\"replicas\":[2,3]}]}' >plan.json
  parshall partition reassign plan.json
  parshall partition reassign plan.json --execute
  until parshall partition reassign plan.json --verify; do sleep 1; done")]
#[command(group(clap::ArgGroup::new("what")))]
pub(super) struct Reassign {
    /// The plan: a JSON file
    plan: PathBuf,
    /// Begin the moves
    #[arg(long, group = "what")]
    execute: bool,
    /// Exit with 0 if all partitions have the replicas of the plan, and with 1 if not
    #[arg(long, group = "what")]
    verify: bool,
    /// Stop the moves of the plan that are under way; partitions go back to the replicas that they had
    #[arg(long, group = "what")]
    cancel: bool,
    #[command(flatten)]
    connection: Connection,
}

/// List the partitions that move.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall partition reassignments
  parshall partition reassignments --json")]
pub(super) struct List {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

type Replicas = BTreeMap<TopicPartition, Vec<i32>>;

/// What `kafka-reassign-partitions.sh` writes and reads.
#[derive(Deserialize)]
struct Plan {
    version: Option<i32>,
    partitions: Vec<Planned>,
}

#[derive(Deserialize)]
struct Planned {
    topic: String,
    partition: i32,
    replicas: Vec<i32>,
}

fn read(text: &[u8]) -> Result<Replicas, Usage> {
    let plan: Plan = serde_json::from_slice(text)
        .map_err(|error| Usage(format!("it is no plan as kafka-reassign-partitions.sh writes it: {error}")))?;
    if let Some(version) = plan.version.filter(|version| *version != VERSION) {
        return Err(Usage(format!("a plan has version {VERSION}, and not {version}")));
    }
    let mut moves = Replicas::new();
    for Planned { topic, partition, replicas } in plan.partitions {
        let partition = TopicPartition::new(topic, partition);
        let is_twice = |(at, id): (usize, &i32)| replicas[..at].contains(id);
        if replicas.iter().enumerate().any(is_twice) {
            return Err(Usage(format!("{partition} is on a broker twice in the plan")));
        }
        if replicas.is_empty() {
            return Err(Usage(format!("{partition} has no replicas in the plan")));
        }
        if moves.contains_key(&partition) {
            return Err(Usage(format!("{partition} is in the plan twice")));
        }
        moves.insert(partition, replicas);
    }
    Ok(moves)
}

pub(super) async fn run(args: Reassign) -> Result<()> {
    let plan = read(&properties::read_bytes(&args.plan)?)?;
    let client = args.connection.client("partition").await?;
    let under_way = client.list_reassignments(Some(&plan.keys().cloned().collect())).await?;
    if args.cancel {
        let cancelled = under_way.into_keys().map(|partition| (partition, None)).collect();
        return alter(&client, &cancelled, "goes back to its replicas").await;
    }
    let current = current(&client, &plan).await?;
    if args.verify {
        let is_open = |(of, replicas): &(&TopicPartition, &Vec<i32>)| {
            under_way.contains_key(*of) || current.get(*of) != Some(*replicas)
        };
        let (open, all) = (plan.iter().filter(is_open).count(), plan.len());
        if open > 0 {
            bail!("{open} of {all} partitions do not have the replicas of the plan");
        }
        return Ok(output::print(&format!("all {all} partitions have the replicas of the plan\n"))?);
    }
    if args.execute {
        let moves = plan.into_iter().map(|(partition, replicas)| (partition, Some(replicas))).collect();
        return alter(&client, &moves, "moves").await;
    }
    let mut rows = vec![["PARTITION", "REPLICAS", "NEW-REPLICAS"].map(str::to_owned)];
    rows.extend(plan.iter().map(|(of, replicas)| [of.to_string(), ids(&current[of]), ids(replicas)]));
    output::print(&table(&rows, &[Fitted(0), Fitted(0), Fixed(0)], "  "))?;
    eprintln!("Nothing was changed; --execute does it.");
    Ok(())
}

/// The replicas that partitions of a plan have, all of which have to exist.
async fn current(client: &Client, plan: &Replicas) -> Result<Replicas> {
    let mut topics: Vec<_> = plan.keys().map(|partition| partition.topic.as_str()).collect();
    topics.dedup();
    let metadata = client.existing(&topics).await?;
    let mut current = Replicas::new();
    for of in plan.keys() {
        let partitions = &metadata.topic(&of.topic)?.partitions;
        let known = partitions.iter().find(|partition| partition.index == of.partition);
        current.insert(of.clone(), known.with_context(|| format!("there is no partition {of}"))?.replicas.clone());
    }
    Ok(current)
}

async fn alter(client: &Client, moves: &BTreeMap<TopicPartition, Option<Vec<i32>>>, what: &str) -> Result<()> {
    if moves.is_empty() {
        return Ok(output::print("no partition of the plan moves\n")?);
    }
    let altered = client.alter_reassignments(moves).await?;
    let (text, result) = partitions::outcome(altered, |partition, ()| format!("{partition} {what}\n"));
    output::print(&text)?;
    result
}

pub(super) async fn list(args: List) -> Result<()> {
    let client = args.connection.client("partition").await?;
    let under_way = client.list_reassignments(None).await?;
    if args.json {
        let rows = under_way.iter().map(|(of, Reassignment { replicas, adding, removing })| {
            json!({
                "topic": of.topic, "partition": of.partition, "replicas": replicas, "adding": adding,
                "removing": removing,
            })
        });
        return Ok(output::print_json(&rows.collect::<Vec<_>>())?);
    }
    if under_way.is_empty() {
        return Ok(output::print("no partition moves\n")?);
    }
    let mut rows = vec![["PARTITION", "REPLICAS", "ADDING", "REMOVING"].map(str::to_owned)];
    rows.extend(under_way.iter().map(|(of, Reassignment { replicas, adding, removing })| {
        [of.to_string(), ids(replicas), ids(adding), ids(removing)]
    }));
    Ok(output::print(&table(&rows, &[Fitted(0), Fitted(0), Fitted(0), Fixed(0)], "  "))?)
}

fn ids(brokers: &[i32]) -> String {
    brokers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_those_of_kafkas_tool() {
        let text = br#"{"version":1,"partitions":[
            {"topic":"t","partition":1,"replicas":[2,3],"log_dirs":["any","any"]},
            {"topic":"t","partition":0,"replicas":[1]}
        ]}"#;
        let expected = [(TopicPartition::new("t", 0), vec![1]), (TopicPartition::new("t", 1), vec![2, 3])];
        assert_eq!(read(text).unwrap(), expected.into());
        let one = r#"{"topic":"t","partition":0,"replicas":[1]}"#;
        for (wrong, part) in [
            ("{}".to_owned(), "no plan"),
            (r#"{"version":2,"partitions":[]}"#.to_owned(), "version 1, and not 2"),
            (format!(r#"{{"partitions":[{}]}}"#, one.replace("[1]", "[1,2,1]")), "t-0 is on a broker twice"),
            (format!(r#"{{"partitions":[{}]}}"#, one.replace("[1]", "[]")), "no replicas"),
            (format!(r#"{{"partitions":[{one},{one}]}}"#), "t-0 is in the plan twice"),
        ] {
            let error = read(wrong.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
