//! `parshall produce`: lines in, records out.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::ValueEnum;
use client::{Delivery, Producer, ProducerConfig, ProducerRecord};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use wire::compress::Codec;

use super::args::{self, Connection};
use super::{output, time};

mod input;

use input::{Format, LineError};

/// A line may be as long as a request may be.
const LINE_BYTES_MAX: u64 = 100 * 1024 * 1024;
/// Lines that are read ahead, and records whose fate is not known yet.
const LINES_AHEAD: usize = 1024;
const RECORDS_UNDER_WAY: usize = 64 * 1024;
/// What a shell shows for a command that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// Send records to a topic: one per line of stdin.
///
/// Prints nothing when all is well; fails when any record was not delivered.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  echo 'hello' | parshall produce orders
  parshall produce orders --value 'hello' --key 42 --header source=shell
  parshall produce orders --file orders.txt --key-separator : --compression zstd
  echo '{\"key\":\"42\",\"value\":{\"total\":7},\"headers\":{\"source\":\"shell\"}}' | parshall produce orders --json

A line of --json is an object with any of key, value, headers, partition and timestamp. A value of null deletes the key
from a compacted topic. Bytes that are no text come as key_base64 and value_base64. Headers are an object, or a list of
[name, value] where a name occurs twice.")]
pub(crate) struct Args {
    /// Name of the topic
    #[arg(value_parser = args::name)]
    topic: String,
    /// Read the lines from a file
    #[arg(long, short, value_name = "FILE", conflicts_with = "value")]
    file: Option<PathBuf>,
    /// Send this value in place of lines, as often as needed
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
    value: Vec<String>,
    /// Key of every record
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "key_separator")]
    key: Option<String>,
    /// What stands between key and value in each line; \t is a tab
    #[arg(long, short = 'K', value_name = "TEXT", value_parser = input::separator)]
    key_separator: Option<String>,
    /// A header of every record, as often as needed
    #[arg(long, short = 'H', value_name = "NAME=VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// Partition of every record; by the key, or any, where none is given
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Time of every record: RFC 3339, milliseconds since 1970, or -10m for ten minutes ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    timestamp: Option<String>,
    /// When a record counts as delivered: by all in-sync replicas, by the leader (1), or as soon as it is sent (0)
    #[arg(long, short, value_enum, default_value = "all", value_name = "all|1|0", hide_possible_values = true)]
    acks: Acks,
    /// Codec of the batches: none, gzip, snappy, lz4 or zstd
    #[arg(long, short = 'z', value_name = "CODEC", default_value = "none")]
    compression: Codec,
    /// A value that stands for null, which deletes the key from a compacted topic
    #[arg(long, value_name = "TEXT")]
    null_value: Option<String>,
    /// How long a batch waits for more records
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = args::duration)]
    linger: std::time::Duration,
    /// Lines are JSON; prints the place of each record as JSON
    #[arg(long, conflicts_with_all = ["key", "key_separator", "null_value", "value"])]
    json: bool,
    /// Print the place of each record
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Acks {
    #[value(alias = "-1")]
    All,
    #[value(name = "1")]
    Leader,
    #[value(name = "0")]
    None,
}

/// A header keeps the spaces of its value.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is expected")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let timestamp = match &args.timestamp {
        Some(text) => Some(time::parse_time(text, time::now_ms()).map_err(super::failure::Usage)?),
        None => None,
    };
    let format = Format {
        json: args.json,
        key: args.key.clone().map(Bytes::from),
        key_separator: args.key_separator.clone().map(Bytes::from),
        null_value: args.null_value.clone().map(Bytes::from),
        headers: args.header.iter().map(|(name, value)| (name.clone().into(), Some(value.clone().into()))).collect(),
        partition: args.partition,
        timestamp,
    };
    let mut lines = lines(&args)?;
    let client = args.connection.client_for_changes("produce").await?;
    let config = ProducerConfig {
        acks: match args.acks {
            Acks::All => client::Acks::All,
            Acks::Leader => client::Acks::Leader,
            Acks::None => client::Acks::None,
        },
        compression: args.compression,
        linger: args.linger,
        partitioner_seed: time::now_ms() as u64,
        ..ProducerConfig::default()
    };
    // One attempt: a topic that is being created is no mistake.
    let is_new = client.describe(&[&args.topic]).await?.topic(&args.topic).is_err();
    let producer = Producer::start(client, &args.topic, config).await?;
    if is_new {
        eprintln!("topic {} did not exist; the broker has created it (auto.create.topics.enable)", args.topic);
    }
    let (deliveries, receiver) = mpsc::channel(RECORDS_UNDER_WAY);
    let reporter = tokio::spawn(report(receiver, args.topic.clone(), args.json, args.verbose));

    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let mut number = 0u64;
    let mut code = ExitCode::SUCCESS;
    let failed = loop {
        let line = tokio::select! {
            biased;
            _ = &mut interrupted => {
                code = ExitCode::from(INTERRUPTED);
                break None;
            }
            line = lines.recv() => line,
        };
        let line = match line {
            None => break None,
            Some(Err(error)) => break Some(anyhow::Error::from(error).context("cannot read the lines")),
            Some(Ok(line)) => line,
        };
        number += 1;
        let record = match format.record(line, time::now_ms()) {
            Ok(record) => record,
            Err(error) => break Some(anyhow::Error::from(error).context(format!("line {number}"))),
        };
        match send(&producer, record, &deliveries).await {
            Ok(true) => {}
            // Nobody reads what we print.
            Ok(false) => break None,
            Err(error) => break Some(error),
        }
    };
    drop(deliveries);
    // What was taken is delivered, whatever ended the input; a second Ctrl-C ends that, too.
    tokio::select! {
        () = producer.close() => {}
        _ = tokio::signal::ctrl_c() => return Ok(ExitCode::from(INTERRUPTED)),
    }
    finish(reporter, failed).await?;
    Ok(code)
}

/// Hands a record over. `false` when the reporter has gone.
async fn send(producer: &Producer, record: ProducerRecord, deliveries: &mpsc::Sender<Delivery>) -> Result<bool> {
    let delivery = producer.send(record).await?;
    Ok(deliveries.send(delivery).await.is_ok())
}

async fn finish(reporter: JoinHandle<io::Result<Summary>>, failed: Option<anyhow::Error>) -> Result<()> {
    let Summary { records, failures, first } = reporter.await??;
    match (failed, first) {
        (Some(error), _) => Err(error),
        (None, Some(first)) if records == 1 => Err(first.into()),
        (None, Some(first)) => Err(anyhow::Error::from(first)
            .context(format!("{failures} of {records} records were not delivered; the first"))),
        (None, None) => Ok(()),
    }
}

/// The lines, read by a thread that nobody waits for: a terminal may never send another one.
fn lines(args: &Args) -> Result<mpsc::Receiver<io::Result<Bytes>>> {
    let (sender, lines) = mpsc::channel(LINES_AHEAD);
    if !args.value.is_empty() {
        let values = args.value.clone();
        std::thread::spawn(move || {
            values.into_iter().try_for_each(|value| sender.blocking_send(Ok(value.into())).ok())
        });
        return Ok(lines);
    }
    let input: Box<dyn Read + Send> = match &args.file {
        Some(path) => Box::new(open(path).with_context(|| format!("cannot read {}", path.display()))?),
        None => Box::new(io::stdin()),
    };
    if args.file.is_none() && io::stdin().is_terminal() {
        eprintln!("Each line is a record; Ctrl-D ends.");
    }
    std::thread::spawn(move || {
        let mut input = io::BufReader::with_capacity(256 * 1024, input);
        loop {
            let line = match next_line(&mut input) {
                Ok(None) => return,
                Ok(Some(line)) => Ok(line),
                Err(error) => Err(error),
            };
            let failed = line.is_err();
            if sender.blocking_send(line).is_err() || failed {
                return;
            }
        }
    });
    Ok(lines)
}

#[expect(clippy::disallowed_methods, reason = "a file of the user's, not of a broker")]
fn open(path: &std::path::Path) -> io::Result<std::fs::File> {
    std::fs::File::open(path)
}

/// A line without its end, `\n` or `\r\n`.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Bytes>> {
    let mut line = Vec::new();
    if input.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    } else if line.len() as u64 > LINE_BYTES_MAX {
        return Err(io::Error::other(format!("a line is longer than {LINE_BYTES_MAX} bytes")));
    }
    Ok(Some(line.into()))
}

struct Summary {
    records: u64,
    failures: u64,
    first: Option<client::ClientError>,
}

#[derive(Serialize)]
struct RecordPosition<'a> {
    topic: &'a str,
    partition: i32,
    /// `null` where the broker does not say.
    offset: Option<i64>,
}

/// Tells the place of each record in the order of the lines, and counts the failures.
async fn report(
    mut deliveries: mpsc::Receiver<Delivery>,
    topic: String,
    json: bool,
    verbose: bool,
) -> io::Result<Summary> {
    let mut summary = Summary { records: 0, failures: 0, first: None };
    let mut text = Vec::new();
    while let Some(delivery) = deliveries.recv().await {
        summary.records += 1;
        match delivery.await {
            Ok(delivered) => {
                let offset = (delivered.offset >= 0).then_some(delivered.offset);
                if json {
                    let place = RecordPosition { topic: &topic, partition: delivered.partition, offset };
                    serde_json::to_writer(&mut text, &place)?;
                    text.push(b'\n');
                } else if verbose {
                    let offset = offset.map_or_else(|| "?".to_owned(), |offset| offset.to_string());
                    writeln!(text, "{topic}-{}@{offset}", delivered.partition)?;
                }
            }
            Err(error) => {
                summary.failures += 1;
                summary.first.get_or_insert(error);
            }
        }
        if !text.is_empty() && (deliveries.is_empty() || text.len() > 64 * 1024) {
            output::write(&text)?;
            text.clear();
        }
    }
    Ok(summary)
}

impl std::error::Error for LineError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lose_their_ends_and_nothing_else() {
        let mut input = io::Cursor::new(b"one\ntwo\r\n\n\xff\r\rlast");
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, [&b"one"[..], b"two", b"", b"\xff\r\rlast"]);
    }
}
