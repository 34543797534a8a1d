//! `parshall topic delete-records`: partitions begin later.

use anyhow::Result;
use serde_json::json;

use crate::cmd::args::{self, Connection};
use crate::cmd::{failure, output, partitions};

/// What DeleteRecords takes for the high watermark.
const HIGH_WATERMARK: i64 = -1;

/// Delete the records of a topic before an offset.
///
/// They cannot be had again. The topic and its later records stay; consumers that stood before the offset begin there.
/// Prints where each partition begins now.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall topic delete-records orders --before end
  parshall topic delete-records orders:0,2 --before 15000")]
pub(super) struct DeleteRecords {
    /// Topics, or some of their partitions
    #[arg(required = true, value_name = "TOPIC[:PARTITION,...]", value_parser = args::name)]
    topics: Vec<String>,
    /// The first offset that stays, or `end` to delete all records
    #[arg(long, value_name = "OFFSET|end", value_parser = offset)]
    before: i64,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

fn offset(text: &str) -> Result<i64, String> {
    match text {
        "end" => Ok(HIGH_WATERMARK),
        _ => text.parse().ok().filter(|offset| *offset >= 0).ok_or_else(|| "an offset is a number, or end".to_owned()),
    }
}

pub(super) async fn run(args: DeleteRecords) -> Result<()> {
    let client = args.connection.client_for_changes("topic").await?;
    let named = partitions::named(&client, &args.topics).await?;
    let deleted = client.delete_records(&named.into_iter().map(|partition| (partition, args.before)).collect()).await;
    if args.json {
        let rows = deleted.iter().map(|(partition, begins)| {
            json!({
                "topic": partition.topic, "partition": partition.partition, "low_watermark": begins.as_ref().ok(),
                "error": failure::text(begins),
            })
        });
        output::print_json(&rows.collect::<Vec<_>>())?;
    }
    let (text, result) =
        partitions::outcome(deleted, |partition, begins| format!("{partition} begins at offset {begins}\n"));
    if !args.json {
        output::print(&text)?;
    }
    result
}
