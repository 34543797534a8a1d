//! `parshall partition producers`: what partitions know of those who write to them.

use anyhow::Result;
use client::{PartitionProducer, TopicPartition};
use serde_json::{Value, json};

use crate::cmd::args::{self, Connection};
use crate::cmd::table::{Column, table};
use crate::cmd::{failure, output, partitions, time};

const MISSING: &str = "-";

/// Show the idempotent and transactional producers that partitions know, and their open transactions.
///
/// A producer is forgotten a day after its last record (producer.id.expiration.ms), and not while a transaction of it
/// is open.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall partition producers orders
  parshall partition producers orders:0,2 --json
  parshall partition producers orders:0 --broker-id 2")]
pub(super) struct Producers {
    /// Topics, or some of their partitions
    #[arg(required = true, value_name = "TOPIC[:PARTITION,...]", value_parser = args::name)]
    topics: Vec<String>,
    /// Ask this broker for its replicas, and not the leaders
    #[arg(long, value_name = "ID")]
    broker_id: Option<i32>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Producers) -> Result<()> {
    let client = args.connection.client("partition").await?;
    let wanted = partitions::named(&client, &args.topics).await?;
    let (mut producers, mut failed) = (Vec::new(), Vec::new());
    for (partition, described) in client.describe_producers(&wanted, args.broker_id).await {
        match described {
            Ok(known) => producers.extend(known.into_iter().map(|producer| (partition.clone(), producer))),
            Err(error) => failed.push(error),
        }
    }
    if args.json {
        output::print_json(&producers.iter().map(|(partition, one)| row(partition, one)).collect::<Vec<_>>())?;
    } else if !producers.is_empty() || failed.is_empty() {
        output::print(&render(&producers))?;
    }
    failure::all(failed)
}

fn row(partition: &TopicPartition, producer: &PartitionProducer) -> Value {
    json!({
        "topic": partition.topic,
        "partition": partition.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp_ms": producer.last_timestamp_ms,
        "transaction_start_offset": producer.transaction_start_offset,
    })
}

fn render(producers: &[(TopicPartition, PartitionProducer)]) -> String {
    let header = [
        "TOPIC",
        "PARTITION",
        "PRODUCER-ID",
        "EPOCH",
        "COORDINATOR-EPOCH",
        "LAST-SEQUENCE",
        "LAST-WRITE",
        "TRANSACTION-START-OFFSET",
    ];
    let mut rows = vec![header.map(str::to_owned)];
    rows.extend(producers.iter().map(|(partition, producer)| {
        let or_missing = |number: Option<String>| number.unwrap_or_else(|| MISSING.to_owned());
        [
            partition.topic.clone(),
            partition.partition.to_string(),
            producer.producer_id.to_string(),
            producer.producer_epoch.to_string(),
            or_missing(producer.coordinator_epoch.map(|epoch| epoch.to_string())),
            producer.last_sequence.to_string(),
            time::format_time(producer.last_timestamp_ms),
            or_missing(producer.transaction_start_offset.map(|offset| offset.to_string())),
        ]
    }));
    let columns = [
        Column::Fitted(5),
        Column::Right(9),
        Column::Right(11),
        Column::Right(5),
        Column::Right(17),
        Column::Right(13),
        Column::Fitted(10),
        Column::Right(24),
    ];
    table(&rows, &columns, "  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_producer_without_a_transaction_has_no_start_offset() {
        let producer = |transaction_start_offset: Option<i64>| PartitionProducer {
            producer_id: 4000,
            producer_epoch: 3,
            last_sequence: 9,
            last_timestamp_ms: 1_700_000_000_123,
            coordinator_epoch: transaction_start_offset.map(|_| 5),
            transaction_start_offset,
        };
        let partition = TopicPartition::new("orders", 1);
        let text = render(&[(partition.clone(), producer(Some(42))), (partition, producer(None))]);
        let lines: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["orders", "1", "4000", "3", "5", "9", "2023-11-14T22:13:20.123Z", "42"]);
        assert_eq!(lines[2], ["orders", "1", "4000", "3", "-", "9", "2023-11-14T22:13:20.123Z", "-"]);
    }
}
