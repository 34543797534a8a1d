//! `parshall group reset-offsets`: moves a group that is not running to other offsets.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use client::{Client, ClientError, EARLIEST, Group, LATEST, TopicPartition};
use serde::Serialize;

use super::described;
use crate::cmd::args::{self, Connection};
use crate::cmd::failure::Usage;
use crate::cmd::output::{self, columns};
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

/// Where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Earliest,
    Latest,
    Current,
    Offset(i64),
    Time(i64),
    Shift(i64),
}

impl ResetOffsets {
    fn target(&self, now_ms: i64) -> Result<Target, Usage> {
        if let Some(offset) = self.to_offset {
            return Ok(Target::Offset(offset));
        }
        if let Some(text) = &self.to_datetime {
            return time::parse_time(text, now_ms).map(Target::Time).map_err(Usage);
        }
        if let Some(text) = &self.by_duration {
            let span = time::parse_iso_duration(text).or_else(|| time::parse_span(text));
            let span = span.ok_or_else(|| Usage(format!("{text:?} is not a duration; use 1h30m or PT1H30M")))?;
            return Ok(Target::Time(now_ms.saturating_sub(span)));
        }
        if let Some(shift) = self.shift_by {
            return Ok(Target::Shift(shift));
        }
        Ok(match (self.to_earliest, self.to_latest) {
            (true, _) => Target::Earliest,
            (_, true) => Target::Latest,
            _ => Target::Current,
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
    let client = args.connection.client("group").await?;
    let group = Group::new(client.clone(), &args.group);
    // A group that does not exist yet may be given offsets to start from, as with Kafka's tool.
    let state = match described(&client, &args.group).await {
        Ok(group) => group.group_state,
        Err(error) if error.code() == Some(wire::ErrorCode::GROUP_ID_NOT_FOUND) => "Dead".to_owned(),
        Err(error) => return Err(error.into()),
    };
    if state != "Empty" && state != "Dead" {
        bail!("group {} is {state}: its offsets can be reset when its members have stopped", args.group);
    }
    let committed: BTreeMap<_, _> = group.committed().await?.into_iter().map(|(p, c)| (p, c.offset)).collect();
    let partitions = match args.all_topics {
        true => committed.keys().cloned().collect(),
        false => named(&client, &args.topic).await?,
    };
    let offsets = new_offsets(&client, target, &partitions, &committed).await?;
    if args.execute {
        group.commit(&offsets).await?;
    }
    print(&args, &offsets)?;
    if !args.execute && !args.json {
        eprintln!("Nothing was changed; --execute does it.");
    }
    Ok(())
}

/// The partitions of `orders` or `orders:0,2`.
async fn named(client: &Client, topics: &[String]) -> Result<BTreeSet<TopicPartition>> {
    let mut partitions = BTreeSet::new();
    for topic in topics {
        let (name, numbers) = match topic.split_once(':') {
            Some((name, numbers)) => (name, Some(numbers)),
            None => (topic.as_str(), None),
        };
        let metadata = client.existing(&[name]).await?;
        match numbers {
            None => {
                let known = &metadata.topic(name)?.partitions;
                partitions.extend(known.iter().map(|partition| TopicPartition::new(name, partition.index)));
            }
            Some(numbers) => {
                for number in numbers.split(',') {
                    let number = number.trim();
                    let wrong = || Usage(format!("{number:?} is not the number of a partition"));
                    let partition = TopicPartition::new(name, number.parse().map_err(|_| wrong())?);
                    metadata.leader(&partition)?;
                    partitions.insert(partition);
                }
            }
        }
    }
    Ok(partitions)
}

async fn new_offsets(
    client: &Client,
    target: Target,
    partitions: &BTreeSet<TopicPartition>,
    committed: &BTreeMap<TopicPartition, i64>,
) -> Result<BTreeMap<TopicPartition, i64>> {
    let starts = listed(client, partitions, EARLIEST).await?;
    let ends = listed(client, partitions, LATEST).await?;
    let at_time = match target {
        Target::Time(timestamp) => listed(client, partitions, timestamp).await?,
        _ => BTreeMap::new(),
    };
    let mut offsets = BTreeMap::new();
    for partition in partitions {
        let (start, end) = (starts[partition], ends[partition]);
        let current = committed.get(partition).copied();
        let wanted = match target {
            Target::Earliest => start,
            Target::Latest => end,
            Target::Current => current.unwrap_or(end),
            Target::Offset(offset) => offset,
            // Nothing is that young: the end.
            Target::Time(_) => at_time.get(partition).copied().filter(|offset| *offset >= 0).unwrap_or(end),
            Target::Shift(shift) => match current {
                Some(current) => current.saturating_add(shift),
                None => bail!("{partition} cannot be shifted: the group has no offset of it"),
            },
        };
        offsets.insert(partition.clone(), wanted.clamp(start, end.max(start)));
    }
    Ok(offsets)
}

async fn listed(
    client: &Client,
    partitions: &BTreeSet<TopicPartition>,
    timestamp: i64,
) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
    let wanted = partitions.iter().map(|partition| (partition.clone(), timestamp)).collect();
    let found = client.list_offsets(&wanted).await?;
    Ok(found.into_iter().map(|(partition, listed)| (partition, listed.offset)).collect())
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
    let mut table = vec![["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"].map(str::to_owned)];
    table.extend(offsets.iter().map(|(partition, offset)| {
        [group.to_owned(), partition.topic.clone(), partition.partition.to_string(), offset.to_string()]
    }));
    let width = |column: usize| table.iter().map(|row| row[column].len()).max().unwrap_or(0).max(15);
    let widths = [width(0), width(1), 10, 0];
    let lines = table.iter().map(|row| format!("\n{}", columns(&row.each_ref().map(String::as_str), &widths)));
    lines.collect::<String>() + "\n"
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

    fn target(arguments: &[&str]) -> Result<Target, String> {
        let command = ["reset", "g", "--all-topics"].iter().chain(arguments);
        let cli = Cli::try_parse_from(command).map_err(|error| error.to_string())?;
        cli.args.target(1_000_000_000).map_err(|error| error.to_string())
    }

    #[test]
    fn targets_are_read() {
        assert_eq!(target(&["--to-earliest"]), Ok(Target::Earliest));
        assert_eq!(target(&["--to-latest"]), Ok(Target::Latest));
        assert_eq!(target(&["--to-current"]), Ok(Target::Current));
        assert_eq!(target(&["--to-offset", "7"]), Ok(Target::Offset(7)));
        assert_eq!(target(&["--shift-by", "-5"]), Ok(Target::Shift(-5)));
        assert_eq!(target(&["--to-datetime", "1970-01-01T00:00:01Z"]), Ok(Target::Time(1000)));
        assert_eq!(target(&["--to-datetime", "-10s"]), Ok(Target::Time(999_990_000)));
        assert_eq!(target(&["--by-duration", "PT10S"]), Ok(Target::Time(999_990_000)));
        assert_eq!(target(&["--by-duration", "10s"]), Ok(Target::Time(999_990_000)));
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
