//! `parshall partition elect`: other replicas become leaders.

use anyhow::Result;
use client::{ByPartition, ClientError, ElectionKind};
use serde_json::json;
use wire::ErrorCode;

use crate::cmd::args::{self, Connection};
use crate::cmd::{failure, output, partitions};

/// Elect leaders: the preferred ones, or with --unclean any that are left.
///
/// The preferred leader is the first replica, where it is in the ISR. An unclean election takes a replica that is not
/// in the ISR where none of the ISR is there: records that only the others had are lost.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall partition elect --all
  parshall partition elect orders payments:0,2
  parshall partition elect orders:1 --unclean")]
pub(super) struct Elect {
    /// Topics, or some of their partitions
    #[arg(required_unless_present = "all", value_name = "TOPIC[:PARTITION,...]", value_parser = args::name)]
    topics: Vec<String>,
    /// All partitions that are not led by their first replica
    #[arg(long, conflicts_with_all = ["topics", "unclean"])]
    all: bool,
    /// Have any replica lead where none of the ISR is there, and lose what it does not have
    #[arg(long)]
    unclean: bool,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Elect) -> Result<()> {
    let client = args.connection.client_for_changes("partition").await?;
    let named = if args.all { None } else { Some(partitions::named(&client, &args.topics).await?) };
    let kind = if args.unclean { ElectionKind::Unclean } else { ElectionKind::Preferred };
    // What is led as it should be is nothing that failed.
    let is_unneeded = |error: &ClientError| error.code() == Some(ErrorCode::ELECTION_NOT_NEEDED);
    let mut elected: ByPartition<()> = client.elect_leaders(kind, named.as_ref()).await?;
    elected.retain(|_, result| !result.as_ref().is_err_and(is_unneeded));
    if args.json {
        let rows = elected.iter().map(|(partition, result)| {
            json!({ "topic": partition.topic, "partition": partition.partition, "error": failure::text(result) })
        });
        output::print_json(&rows.collect::<Vec<_>>())?;
    }
    let is_needed = !elected.is_empty();
    let (text, result) = partitions::outcome(elected, |partition, ()| format!("{partition} has another leader\n"));
    if !args.json {
        output::print(if is_needed { &text } else { "no election was needed\n" })?;
    }
    result
}
