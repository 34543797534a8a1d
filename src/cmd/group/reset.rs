//! `parshall group reset-offsets`: moves a group that is not running to other offsets.

use std::collections::BTreeMap;

use anyhow::Result;
use client::{ResetTarget, TopicPartition};
use serde::Serialize;

use crate::cmd::args::{self, Connection};
use crate::cmd::failure::Usage;
use crate::cmd::output;
use crate::cmd::partitions;
use crate::cmd::table::Column::{Fitted, Fixed};
use crate::cmd::table::table;
use crate::cmd::time;

/// Move a group to other offsets. Shows what it would do; --execute does it.
///
/// The group must have no members. An offset beyond the start or the end of a partition becomes the start or the end.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall group reset-offsets billing --topic orders --to-earliest
  parshall group reset-offsets billing --topic orders:0,2 --to-offset 1500 --execute
  parshall group reset-offsets billing --all-topics --to-datetime 2026-11-21T10:00:00Z --execute
  parshall group reset-offsets billing --all-topics --shift-by -100 --execute
  parshall group reset-offsets billing --all-topics --by-duration 1h30m --execute")]
#[command(group(clap::ArgGroup::new("target").required(true)), group(clap::ArgGroup::new("scope").required(true)))]
pub(super) struct ResetOffsets {
    /// Name of the group
    #[arg(value_parser = args::name)]
    group: String,
    /// A topic, or some of its partitions, as often as needed
    #[arg(long, value_name = "TOPIC[:PARTITION,...]", value_parser = args::name, group = "scope")]
    topic: Vec<String>,
    /// All topics of which the group has offsets
    #[arg(long, group = "scope")]
    all_topics: bool,
    /// To the start of each partition
    #[arg(long, group = "target")]
    to_earliest: bool,
    /// To the end of each partition
    #[arg(long, group = "target")]
    to_latest: bool,
    /// To the offset that the group has; to the end where it has none
    #[arg(long, group = "target")]
    to_current: bool,
    /// To this offset
    #[arg(long, value_name = "OFFSET", group = "target")]
    to_offset: Option<i64>,
    /// To the first record at or after this time: RFC 3339, milliseconds since 1970, or -10m for ten minutes ago
    #[arg(long, value_name = "TIME", group = "target", allow_hyphen_values = true)]
    to_datetime: Option<String>,
    /// Forward by so many records, backward if negative
    #[arg(long, value_name = "N", group = "target", allow_hyphen_values = true)]
    shift_by: Option<i64>,
    /// To the first record at or after so long ago: 1h30m, or PT1H30M
    #[arg(long, value_name = "DURATION", group = "target")]
    by_duration: Option<String>,
    /// Only show what would be done (the default)
    #[arg(long)]
    dry_run: bool,
    /// Do it
    #[arg(long, conflicts_with = "dry_run")]
    execute: bool,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl ResetOffsets {
    fn target(&self, now_ms: i64) -> Result<ResetTarget, Usage> {
        if let Some(offset) = self.to_offset {
            return Ok(ResetTarget::Offset(offset));
        }
        if let Some(text) = &self.to_datetime {
            return time::parse_time(text, now_ms).map(ResetTarget::Time).map_err(Usage);
        }
        if let Some(text) = &self.by_duration {
            let span = time::parse_iso_duration(text).or_else(|| time::parse_span(text));
            let span = span.ok_or_else(|| Usage(format!("{text:?} is not a duration; use 1h30m or PT1H30M")))?;
            return Ok(ResetTarget::Time(now_ms.saturating_sub(span)));
        }
        if let Some(shift) = self.shift_by {
            return Ok(ResetTarget::Shift(shift));
        }
        Ok(match (self.to_earliest, self.to_latest) {
            (true, _) => ResetTarget::Earliest,
            (_, true) => ResetTarget::Latest,
            _ => ResetTarget::Current,
        })
    }
}

#[derive(Debug, Serialize)]
struct NewOffset<'a> {
    group: &'a str,
    topic: &'a str,
    partition: i32,
    new_offset: i64,
}

pub(super) async fn run(args: ResetOffsets) -> Result<()> {
    let target = args.target(time::now_ms())?;
    let client = match args.execute {
        true => args.connection.client_for_changes("group").await?,
        false => args.connection.client("group").await?,
    };
    let named = match args.all_topics {
        true => None,
        false => Some(partitions::named(&client, &args.topic).await?),
    };
    let plan = client.plan_offset_reset(&args.group, target, named.as_ref()).await?;
    if args.execute {
        client.reset_offsets(&args.group, &plan).await?;
    }
    let offsets = plan.into_iter().map(|(partition, moved)| (partition, moved.to)).collect();
    print(&args, &offsets)?;
    if !args.execute && !args.json {
        eprintln!("Nothing was changed; --execute does it.");
    }
    Ok(())
}

fn print(args: &ResetOffsets, offsets: &BTreeMap<TopicPartition, i64>) -> Result<()> {
    if args.json {
        let rows = offsets.iter().map(|(partition, offset)| NewOffset {
            group: &args.group,
            topic: &partition.topic,
            partition: partition.partition,
            new_offset: *offset,
        });
        return Ok(output::print_json(&rows.collect::<Vec<_>>())?);
    }
    Ok(output::print(&render(&args.group, offsets))?)
}

/// `ConsumerGroupCommand.printOffsetsToReset`.
fn render(group: &str, offsets: &BTreeMap<TopicPartition, i64>) -> String {
    let mut rows = vec![["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"].map(str::to_owned)];
    rows.extend(offsets.iter().map(|(partition, offset)| {
        [group.to_owned(), partition.topic.clone(), partition.partition.to_string(), offset.to_string()]
    }));
    format!("\n{}", table(&rows, &[Fitted(15), Fitted(15), Fixed(10), Fixed(0)], " "))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ResetOffsets,
    }

    fn target(arguments: &[&str]) -> Result<ResetTarget, String> {
        let command = ["reset", "g", "--all-topics"].iter().chain(arguments);
        let cli = Cli::try_parse_from(command).map_err(|error| error.to_string())?;
        cli.args.target(1_000_000_000).map_err(|error| error.to_string())
    }

    #[test]
    fn targets_are_read() {
        assert_eq!(target(&["--to-earliest"]), Ok(ResetTarget::Earliest));
        assert_eq!(target(&["--to-latest"]), Ok(ResetTarget::Latest));
        assert_eq!(target(&["--to-current"]), Ok(ResetTarget::Current));
        assert_eq!(target(&["--to-offset", "7"]), Ok(ResetTarget::Offset(7)));
        assert_eq!(target(&["--shift-by", "-5"]), Ok(ResetTarget::Shift(-5)));
        assert_eq!(target(&["--to-datetime", "1970-01-01T00:00:01Z"]), Ok(ResetTarget::Time(1000)));
        assert_eq!(target(&["--to-datetime", "-10s"]), Ok(ResetTarget::Time(999_990_000)));
        assert_eq!(target(&["--by-duration", "PT10S"]), Ok(ResetTarget::Time(999_990_000)));
        assert_eq!(target(&["--by-duration", "10s"]), Ok(ResetTarget::Time(999_990_000)));
        assert!(target(&[]).is_err());
        assert!(target(&["--to-earliest", "--to-latest"]).is_err());
        assert!(target(&["--by-duration", "soon"]).is_err());
    }

    /// What kafka-consumer-groups.sh of Apache Kafka 4.3.1 printed.
    #[test]
    fn the_layout_is_kafkas() {
        let offsets = BTreeMap::from([(TopicPartition::new("gamma", 1), 100), (TopicPartition::new("gamma", 2), 0)]);
        assert_eq!(
            render("g1", &offsets),
            "
GROUP           TOPIC           PARTITION  NEW-OFFSET
g1              gamma           1          100
g1              gamma           2          0
"
        );
    }
}
