//! `parshall transaction describe`: what the coordinator knows of transactional ids.

use anyhow::Result;
use client::TransactionDescription;
use serde_json::{Value, json};

use crate::cmd::args::{self, Connection};
use crate::cmd::table::{Column, table};
use crate::cmd::{failure, output, partitions, time};

const MISSING: &str = "-";

/// Show the states of transactional ids, and the partitions of their open transactions.
///
/// Partitions are those that have no marker of the transaction yet: all of an open one, and the rest of one that is
/// being committed or aborted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall transaction describe billing-7
  parshall transaction describe billing-7 billing-8 --json")]
pub(super) struct Describe {
    /// Transactional ids
    #[arg(required = true, value_name = "TRANSACTIONAL-ID", value_parser = args::name)]
    ids: Vec<String>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Describe) -> Result<()> {
    let client = args.connection.client("transaction").await?;
    let (mut described, mut failed) = (Vec::new(), Vec::new());
    for (id, result) in client.describe_transactions(&args.ids).await {
        match result {
            Ok(of_it) => described.push((id, of_it)),
            Err(error) => failed.push(error),
        }
    }
    let now_ms = time::now_ms();
    if args.json {
        output::print_json(&described.iter().map(|(id, of_it)| row(id, of_it, now_ms)).collect::<Vec<_>>())?;
    } else if !described.is_empty() {
        output::print(&render(&described, now_ms))?;
    }
    failure::all(failed)
}

fn row(id: &str, of_it: &TransactionDescription, now_ms: i64) -> Value {
    let partition = |of: &client::TopicPartition| json!({ "topic": of.topic, "partition": of.partition });
    json!({
        "transactional_id": id,
        "coordinator": of_it.coordinator.id,
        "producer_id": of_it.producer_id,
        "producer_epoch": of_it.producer_epoch,
        "state": of_it.state,
        "timeout_ms": of_it.timeout_ms,
        "start_ms": of_it.start_ms,
        "duration_ms": of_it.start_ms.map(|start_ms| now_ms - start_ms),
        "partitions": of_it.partitions.iter().map(partition).collect::<Vec<_>>(),
    })
}

fn render(described: &[(String, TransactionDescription)], now_ms: i64) -> String {
    let header = [
        "TRANSACTIONAL-ID",
        "COORDINATOR",
        "PRODUCER-ID",
        "EPOCH",
        "STATE",
        "TIMEOUT-MS",
        "STARTED",
        "DURATION-MS",
        "PARTITIONS",
    ];
    let mut rows = vec![header.map(str::to_owned)];
    rows.extend(described.iter().map(|(id, of_it)| {
        let or_missing = |text: Option<String>| text.unwrap_or_else(|| MISSING.to_owned());
        [
            id.clone(),
            of_it.coordinator.id.to_string(),
            of_it.producer_id.to_string(),
            of_it.producer_epoch.to_string(),
            of_it.state.clone(),
            of_it.timeout_ms.to_string(),
            or_missing(of_it.start_ms.map(time::format_time)),
            or_missing(of_it.start_ms.map(|start_ms| (now_ms - start_ms).to_string())),
            partitions::by_topic(&of_it.partitions),
        ]
    }));
    let columns = [
        Column::Fitted(16),
        Column::Right(11),
        Column::Right(11),
        Column::Right(5),
        Column::Fitted(7),
        Column::Right(10),
        Column::Fitted(7),
        Column::Right(11),
        Column::Fixed(0),
    ];
    table(&rows, &columns, "  ")
}

#[cfg(test)]
mod tests {
    use client::{Broker, TopicPartition};

    use super::*;

    fn description(start_ms: Option<i64>, partitions: &[TopicPartition]) -> TransactionDescription {
        TransactionDescription {
            coordinator: Broker { id: 2, host: "kafka-2".to_owned(), port: 9092, rack: None },
            producer_id: 4000,
            producer_epoch: 17,
            state: if start_ms.is_some() { "Ongoing" } else { "Empty" }.to_owned(),
            timeout_ms: 60_000,
            start_ms,
            partitions: partitions.to_vec(),
        }
    }

    #[test]
    fn only_an_open_transaction_has_a_start_and_partitions() {
        let partitions = [TopicPartition::new("orders", 0), TopicPartition::new("orders", 2)];
        let described = [
            ("a".to_owned(), description(Some(1_700_000_000_123), &partitions)),
            ("b".to_owned(), description(None, &[])),
        ];
        let text = render(&described, 1_700_000_001_623);
        let lines: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let started = "2023-11-14T22:13:20.123Z";
        assert_eq!(lines[1], ["a", "2", "4000", "17", "Ongoing", "60000", started, "1500", "orders:0,2"]);
        assert_eq!(lines[2], ["b", "2", "4000", "17", "Empty", "60000", "-", "-", "-"]);
        assert_eq!(row("b", &description(None, &[]), 5)["duration_ms"], Value::Null);
        assert_eq!(row("a", &description(Some(2), &partitions), 5)["duration_ms"], 3);
    }
}
