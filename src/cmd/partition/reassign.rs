//! `parshall partition reassign` and `reassignments`: partitions move to other brokers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use client::{ByPartition, Client, Reassignment, ReassignmentPlan, TopicPartition};
use serde_json::json;

use crate::cmd::args::Connection;
use crate::cmd::failure::Usage;
use crate::cmd::table::Column::{Fitted, Fixed};
use crate::cmd::table::table;
use crate::cmd::{failure, output, partitions, properties};

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
    /// Print one JSON array
    #[arg(long)]
    json: bool,
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

pub(super) async fn run(args: Reassign) -> Result<()> {
    let plan = client::read_reassignment_plan(&properties::read_bytes(&args.plan)?).map_err(Usage)?;
    let client = match args.execute || args.cancel {
        true => args.connection.client_for_changes("partition").await?,
        false => args.connection.client("partition").await?,
    };
    let under_way = client.list_reassignments(Some(&plan.keys().cloned().collect())).await?;
    if args.cancel {
        let cancelled = under_way.into_keys().map(|partition| (partition, None)).collect();
        return alter(&client, &cancelled, "goes back to its replicas", args.json).await;
    }
    let current = current(&client, &plan).await?;
    if args.execute {
        let moves = plan.into_iter().map(|(partition, replicas)| (partition, Some(replicas))).collect();
        return alter(&client, &moves, "moves", args.json).await;
    }
    let is_open = |(of, replicas): &(&TopicPartition, &Vec<i32>)| {
        under_way.contains_key(*of) || current.get(*of) != Some(*replicas)
    };
    if args.json {
        let rows = plan.iter().map(|(of, replicas)| {
            json!({
                "topic": of.topic, "partition": of.partition, "replicas": current.get(of), "new_replicas": replicas,
                "is_complete": !is_open(&(of, replicas)),
            })
        });
        output::print_json(&rows.collect::<Vec<_>>())?;
    }
    if args.verify {
        let (open, all) = (plan.iter().filter(is_open).count(), plan.len());
        if open > 0 {
            bail!("{open} of {all} partitions do not have the replicas of the plan");
        }
        if !args.json {
            output::print(&format!("all {all} partitions have the replicas of the plan\n"))?;
        }
    } else if !args.json {
        let mut rows = vec![["PARTITION", "REPLICAS", "NEW-REPLICAS"].map(str::to_owned)];
        rows.extend(plan.iter().map(|(of, replicas)| [of.to_string(), ids(&current[of]), ids(replicas)]));
        output::print(&table(&rows, &[Fitted(0), Fitted(0), Fixed(0)], "  "))?;
        eprintln!("Nothing was changed; --execute does it.");
    }
    Ok(())
}

/// The replicas that partitions of a plan have, all of which have to exist.
async fn current(client: &Client, plan: &ReassignmentPlan) -> Result<ReassignmentPlan> {
    let mut topics: Vec<_> = plan.keys().map(|partition| partition.topic.as_str()).collect();
    topics.dedup();
    let metadata = client.existing(&topics).await?;
    let mut current = ReassignmentPlan::new();
    for of in plan.keys() {
        let partitions = &metadata.topic(&of.topic)?.partitions;
        let known = partitions.iter().find(|partition| partition.index == of.partition);
        current.insert(of.clone(), known.with_context(|| format!("there is no partition {of}"))?.replicas.clone());
    }
    Ok(current)
}

type Moves = BTreeMap<TopicPartition, Option<Vec<i32>>>;

async fn alter(client: &Client, moves: &Moves, what: &str, json: bool) -> Result<()> {
    let altered = match moves.is_empty() {
        true => ByPartition::new(),
        false => client.alter_reassignments(moves).await?,
    };
    if json {
        let rows = altered.iter().map(
            |(of, result)| json!({ "topic": of.topic, "partition": of.partition, "error": failure::text(result) }),
        );
        output::print_json(&rows.collect::<Vec<_>>())?;
    } else if moves.is_empty() {
        output::print("no partition of the plan moves\n")?;
    }
    let (text, result) = partitions::outcome(altered, |partition, ()| format!("{partition} {what}\n"));
    if !json {
        output::print(&text)?;
    }
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
