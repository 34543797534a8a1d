//! `parshall group delete-offsets`: a group forgets where it stands in some partitions.

use anyhow::Result;
use serde_json::json;

use crate::cmd::args::{self, Connection};
use crate::cmd::{failure, output, partitions};

/// Delete what a group has committed in some topics.
///
/// A group with members keeps the offsets of topics to which it is subscribed. Without an offset a consumer begins
/// where its auto.offset.reset says.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall group delete-offsets billing --topic orders
  parshall group delete-offsets billing --topic orders:0,2 --topic payments")]
pub(super) struct DeleteOffsets {
    /// Name of the group
    #[arg(value_parser = args::name)]
    group: String,
    /// A topic, or some of its partitions, as often as needed
    #[arg(long, required = true, value_name = "TOPIC[:PARTITION,...]", value_parser = args::name)]
    topic: Vec<String>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: DeleteOffsets) -> Result<()> {
    let client = args.connection.client_for_changes("group").await?;
    let named = partitions::named(&client, &args.topic).await?;
    let deleted = client.delete_offsets(&args.group, &named).await?;
    if args.json {
        let rows = deleted.iter().map(|(partition, result)| {
            json!({ "topic": partition.topic, "partition": partition.partition, "error": failure::text(result) })
        });
        output::print_json(&rows.collect::<Vec<_>>())?;
    }
    let (text, result) = partitions::outcome(deleted, |partition, ()| {
        format!("Deleted the offset of group {} in {partition}.\n", args.group)
    });
    if !args.json {
        output::print(&text)?;
    }
    result
}
