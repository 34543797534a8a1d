//! `parshall consume`: records out of a topic, to stdout.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use client::{
    Client, ClientError, ConsumedRecord, Consumer, ConsumerConfig, EARLIEST, GroupConfig, IsolationLevel, LATEST,
    Membership, ResetOffset, TopicPartition,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::args::{self, Connection};
use super::failure::Usage;
use super::{output, time};

mod format;

use format::Format;

const COMMIT_INTERVAL: Duration = Duration::from_secs(5);

/// Print the records of a topic.
///
/// Starts at the end, and goes on until it is stopped, unless told otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = concat_help())]
pub(crate) struct Args {
    /// Name of the topic
    #[arg(value_parser = args::name)]
    topic: String,
    /// A partition to read, as often as needed; all where none is given
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Vec<i32>,
    /// Where to start: an offset, beginning, end, or -N for N records before the end
    #[arg(long, short, value_name = "OFFSET", value_parser = start, allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["from_beginning", "from_time"])]
    offset: Option<Start>,
    /// Start at the beginning (with --group: where the group has no offset)
    #[arg(long, short = 'b')]
    from_beginning: bool,
    /// Start at a time: RFC 3339, milliseconds since 1970, or -10m for ten minutes ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with = "from_beginning")]
    from_time: Option<String>,
    /// Share the partitions with the other members of a group, and commit what was printed
    #[arg(long, short, value_name = "GROUP", value_parser = args::name)]
    #[arg(conflicts_with_all = ["partition", "offset", "from_time"])]
    group: Option<String>,
    /// Print all records, or none of transactions that are open or were aborted
    #[arg(long, value_name = "read_uncommitted|read_committed", default_value = "read_uncommitted")]
    isolation_level: IsolationLevel,
    /// Stop after so many records
    #[arg(long, short = 'n', value_name = "N")]
    max_messages: Option<u64>,
    /// Stop at what is the end now
    #[arg(long, short = 'e')]
    until_end: bool,
    /// Stop when no record has come for so long; an error if --max-messages has not been reached
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    timeout: Option<Duration>,
    /// How to print a record (see below)
    #[arg(long, short, value_name = "FORMAT", value_parser = format::parse)]
    #[arg(conflicts_with_all = ["json", "keys", "headers"])]
    format: Option<Format>,
    /// Print each record as a line of JSON
    #[arg(long, conflicts_with_all = ["keys", "headers"])]
    json: bool,
    /// Print the key and a tab before the value
    #[arg(long)]
    keys: bool,
    /// Print the headers and a tab before that
    #[arg(long)]
    headers: bool,
    #[command(flatten)]
    connection: Connection,
}

fn concat_help() -> String {
    format!(
        "\
Examples:
  parshall consume orders
  parshall consume orders --from-beginning --until-end --keys
  parshall consume orders --partition 0 --offset -10 --until-end --json
  parshall consume orders --from-time -1h --format '%p:%o %D %k=%v\\n'
  parshall consume orders --group billing --from-beginning
  parshall consume orders --max-messages 1 --timeout 10s
  parshall consume orders --from-beginning --until-end --isolation-level read_committed

{}",
        format::ESCAPES
    )
}

/// Where to start in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Beginning,
    End,
    At(i64),
    BeforeEnd(i64),
    Time(i64),
}

fn start(text: &str) -> Result<Start, String> {
    match (text, text.parse::<i64>()) {
        ("beginning" | "earliest" | "start", _) => Ok(Start::Beginning),
        ("end" | "latest", _) => Ok(Start::End),
        (_, Ok(offset @ 0..)) => Ok(Start::At(offset)),
        (_, Ok(offset)) => Ok(Start::BeforeEnd(offset.saturating_neg())),
        _ => Err("an offset is a number, beginning, end, or -N".to_owned()),
    }
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let start = match &args.from_time {
        Some(text) => Start::Time(time::parse_time(text, time::now_ms()).map_err(Usage)?),
        None if args.from_beginning => Start::Beginning,
        None => args.offset.unwrap_or(Start::End),
    };
    if args.group.is_some() {
        // It commits offsets.
        args.connection.tell_profile()?;
    }
    let client = args.connection.client("consume").await?;
    let reset = if args.from_beginning { ResetOffset::Earliest } else { ResetOffset::Latest };
    let reset = if matches!(start, Start::At(_)) { ResetOffset::Fail } else { reset };
    let consumer = Consumer::new(
        client.clone(),
        ConsumerConfig { reset, isolation: args.isolation_level, ..ConsumerConfig::default() },
    );
    client.existing(&[&args.topic]).await?;
    let membership = match &args.group {
        Some(group) => {
            // Waiting for records must not hold up the heartbeats.
            let client = args.connection.unconnected("consume")?;
            Some(Membership::new(client, group, vec![args.topic.clone()], GroupConfig::default()))
        }
        None => None,
    };
    let format = match &args.format {
        Some(format) => format.clone(),
        None if args.json => Format::Json,
        None => Format::lines(args.keys, args.headers),
    };
    let mut reading = ConsumerLoop {
        client,
        consumer,
        membership,
        start,
        format,
        args,
        ends: BTreeMap::new(),
        printed: BTreeMap::new(),
        count: 0,
    };
    let result = reading.run().await;
    reading.leave(result.is_ok()).await;
    result.map(|()| ExitCode::SUCCESS)
}

struct ConsumerLoop {
    client: Client,
    consumer: Consumer,
    membership: Option<Membership>,
    start: Start,
    format: Format,
    args: Args,
    /// Where to stop, with --until-end.
    ends: BTreeMap<TopicPartition, i64>,
    /// The offset behind what was printed, for what is not committed yet.
    printed: BTreeMap<TopicPartition, i64>,
    count: u64,
}

impl ConsumerLoop {
    async fn run(&mut self) -> Result<()> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        // Joining takes as long as the group's other members take.
        tokio::select! {
            assigned = self.assign() => assigned?,
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        }
        let mut idle_since = Instant::now();
        let mut next_commit = Instant::now() + COMMIT_INTERVAL;
        while !self.is_done() {
            let idle_until = self.args.timeout.map(|timeout| idle_since + timeout);
            tokio::select! {
                biased;
                _ = interrupt.recv() => break,
                _ = terminate.recv() => break,
                () = rejoin_needed(self.membership.as_ref()) => {
                    self.commit().await?;
                    tokio::select! {
                        assigned = self.assign() => assigned?,
                        _ = interrupt.recv() => break,
                        _ = terminate.recv() => break,
                    }
                }
                () = sleep_until(next_commit), if self.membership.is_some() => {
                    self.commit().await?;
                    next_commit = Instant::now() + COMMIT_INTERVAL;
                }
                batch = self.consumer.next() => {
                    let (partition, records) = batch?;
                    if !records.is_empty() {
                        idle_since = Instant::now();
                    }
                    self.print(&partition, &records)?;
                }
                () = sleep_until(idle_until.unwrap_or(idle_since)), if idle_until.is_some() => {
                    if let Some(wanted) = self.args.max_messages {
                        bail!("only {} of {wanted} records have come within the timeout", self.count);
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let enough = self.args.max_messages.is_some_and(|max| self.count >= max);
        let at_end = |(partition, end): (&TopicPartition, &i64)| {
            self.consumer.position(partition).is_none_or(|position| position >= *end)
        };
        enough || (self.args.until_end && self.ends.iter().all(at_end))
    }

    /// Finds what to read and from where. With a group this waits until the group has agreed.
    async fn assign(&mut self) -> Result<(), ClientError> {
        let isolation = self.args.isolation_level;
        let offsets = match &mut self.membership {
            None => {
                let metadata = self.client.existing(&[&self.args.topic]).await?;
                let partitions = match self.args.partition.is_empty() {
                    true => metadata.topic(&self.args.topic)?.partitions.iter().map(|known| known.index).collect(),
                    false => self.args.partition.clone(),
                };
                let partitions = partitions.into_iter().map(|p| TopicPartition::new(self.args.topic.clone(), p));
                let partitions: Vec<_> = partitions.collect();
                partitions.iter().try_for_each(|partition| metadata.leader(partition).map(drop))?;
                starts(&self.client, &partitions, self.start, isolation).await?
            }
            Some(membership) => {
                membership.join().await?;
                let assigned = membership.assigned().to_vec();
                let committed = membership.group().committed().await?;
                let (known, unknown): (Vec<_>, Vec<_>) = assigned.into_iter().partition(|p| committed.contains_key(p));
                let mut offsets = starts(&self.client, &unknown, self.start, isolation).await?;
                offsets.extend(known.into_iter().map(|partition| {
                    let offset = committed[&partition].offset;
                    (partition, offset)
                }));
                offsets
            }
        };
        if self.args.until_end {
            self.ends = listed(&self.client, offsets.keys(), LATEST, isolation).await?;
        }
        self.printed.clear();
        self.consumer.assign(offsets);
        Ok(())
    }

    fn print(&mut self, partition: &TopicPartition, records: &[ConsumedRecord]) -> Result<()> {
        let mut out = output::stdout();
        for record in records {
            if self.args.max_messages.is_some_and(|max| self.count >= max) {
                out.flush()?;
                return Ok(());
            }
            let end = self.ends.get(partition).filter(|_| self.args.until_end);
            if end.is_some_and(|end| record.offset >= *end) {
                break;
            }
            self.format.write(&mut out, &partition.topic, partition.partition, record)?;
            self.count += 1;
            self.printed.insert(partition.clone(), record.offset + 1);
        }
        out.flush()?;
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), ClientError> {
        let Some(membership) = &self.membership else { return Ok(()) };
        membership.commit(&self.printed).await?;
        self.printed.clear();
        Ok(())
    }

    /// Commits what was printed and leaves the group. That the reader of a pipe has gone is no reason to keep the
    /// others waiting.
    async fn leave(&mut self, commit: bool) {
        if commit && let Err(error) = self.commit().await {
            tracing::warn!(%error, "the last offsets are not committed");
        }
        if let Some(membership) = self.membership.take()
            && let Err(error) = membership.leave().await
        {
            tracing::debug!(%error, "leaving the group");
        }
    }
}

async fn rejoin_needed(membership: Option<&Membership>) {
    match membership {
        Some(membership) => membership.rejoin_needed().await,
        None => std::future::pending().await,
    }
}

/// The offsets that a start means.
async fn starts(
    client: &Client,
    partitions: &[TopicPartition],
    start: Start,
    isolation: IsolationLevel,
) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
    let at = |timestamp| listed(client, partitions.iter(), timestamp, isolation);
    match start {
        Start::Beginning => at(EARLIEST).await,
        Start::End => at(LATEST).await,
        Start::At(offset) => Ok(partitions.iter().map(|partition| (partition.clone(), offset)).collect()),
        Start::BeforeEnd(count) => {
            let (first, mut offsets) = (at(EARLIEST).await?, at(LATEST).await?);
            for (partition, offset) in &mut offsets {
                *offset = offset.saturating_sub(count).max(first[partition]);
            }
            Ok(offsets)
        }
        Start::Time(timestamp) => {
            // Where nothing is that young, at the end.
            let (mut offsets, ends) = (at(timestamp).await?, at(LATEST).await?);
            for (partition, offset) in offsets.iter_mut().filter(|(_, offset)| **offset < 0) {
                *offset = ends[partition];
            }
            Ok(offsets)
        }
    }
}

async fn listed(
    client: &Client,
    partitions: impl Iterator<Item = &TopicPartition>,
    timestamp: i64,
    isolation: IsolationLevel,
) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
    let wanted = partitions.map(|partition| (partition.clone(), timestamp)).collect();
    let found = client.list_offsets_as(&wanted, isolation).await?;
    Ok(found.into_iter().map(|(partition, listed)| (partition, listed.offset)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_read() {
        assert_eq!(start("beginning"), Ok(Start::Beginning));
        assert_eq!(start("end"), Ok(Start::End));
        assert_eq!(start("0"), Ok(Start::At(0)));
        assert_eq!(start("-5"), Ok(Start::BeforeEnd(5)));
        for wrong in ["", "middle", "1.5", "--5"] {
            assert!(start(wrong).is_err(), "{wrong}");
        }
    }
}
