//! `parshall transaction find-hanging`: transactions that are open in a partition, and nowhere else.

use std::collections::BTreeSet;

use anyhow::Result;
use client::{Client, HangingTransaction, TopicPartition};
use serde_json::{Value, json};

use crate::cmd::args::{self, Connection};
use crate::cmd::table::{Column, table};
use crate::cmd::{failure, output, partitions, time};

const MS_PER_MINUTE: i64 = 60_000;

/// Find transactions that nobody will end, for their coordinators do not have them.
///
/// Consumers of committed records cannot pass the beginning of such a transaction, and compaction neither. What
/// is younger than the longest timeout of a transaction may still be on its way to an end and is left out. Each that
/// is found can be ended with `parshall transaction abort`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall transaction find-hanging --all
  parshall transaction find-hanging orders payments:0,2
  parshall transaction find-hanging --broker-id 1 --max-transaction-timeout 60 --json")]
pub(super) struct FindHanging {
    /// Topics, or some of their partitions
    #[arg(required_unless_present_any = ["all", "broker_id"])]
    #[arg(value_name = "TOPIC[:PARTITION,...]", value_parser = args::name)]
    topics: Vec<String>,
    /// All partitions of the cluster
    #[arg(long, conflicts_with_all = ["topics", "broker_id"])]
    all: bool,
    /// Ask this broker for the replicas that it has, and not the leaders
    #[arg(long, value_name = "ID")]
    broker_id: Option<i32>,
    /// The longest timeout of a transaction (transaction.max.timeout.ms): minutes, or a time like 90s
    #[arg(long, value_name = "TIME", default_value = "15", value_parser = timeout_ms)]
    max_transaction_timeout: i64,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// As `kafka-transactions.sh` has it, in minutes; with a unit, too.
fn timeout_ms(text: &str) -> Result<i64, String> {
    let minutes = text.parse::<i64>().ok().filter(|minutes| *minutes >= 0);
    let span = minutes.and_then(|minutes| minutes.checked_mul(MS_PER_MINUTE)).or_else(|| time::parse_span(text));
    span.ok_or_else(|| "it is a number of minutes, or a time like 90s".to_owned())
}

pub(super) async fn run(args: FindHanging) -> Result<()> {
    let client = args.connection.client("transaction").await?;
    let wanted = wanted(&client, &args).await?;
    let now_ms = time::now_ms();
    let found = client.find_hanging_transactions(&wanted, args.broker_id, args.max_transaction_timeout, now_ms).await?;
    if args.json {
        output::print_json(&found.hanging.iter().map(|one| row(one, now_ms)).collect::<Vec<_>>())?;
    } else if !found.hanging.is_empty() {
        output::print(&render(&found.hanging, now_ms))?;
    } else if found.errors.is_empty() {
        output::print(&format!("no transaction hangs in {} partitions\n", wanted.len()))?;
    }
    failure::all(found.errors.into_values().collect())
}

async fn wanted(client: &Client, args: &FindHanging) -> Result<BTreeSet<TopicPartition>> {
    if !args.topics.is_empty() && args.broker_id.is_none() {
        return partitions::named(client, &args.topics).await;
    }
    let cluster = client.cluster().await?;
    let mut wanted: BTreeSet<_> = if args.topics.is_empty() {
        let topics = cluster.topics.iter();
        let of_topic = |(name, topic): (&String, &client::Topic)| {
            let partitions = topic.partitions.iter();
            partitions.map(|partition| TopicPartition::new(name.clone(), partition.index)).collect::<Vec<_>>()
        };
        topics.flat_map(of_topic).collect()
    } else {
        partitions::named(client, &args.topics).await?
    };
    if let Some(broker) = args.broker_id {
        let has_replica = |of: &TopicPartition| {
            let topic = cluster.topics.get(&of.topic);
            topic.and_then(|topic| topic.partition(of.partition)).is_some_and(|known| known.replicas.contains(&broker))
        };
        wanted.retain(has_replica);
    }
    Ok(wanted)
}

fn row(one: &HangingTransaction, now_ms: i64) -> Value {
    let HangingTransaction { partition, producer } = one;
    json!({
        "topic": partition.topic,
        "partition": partition.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "transaction_start_offset": producer.transaction_start_offset,
        "last_timestamp_ms": producer.last_timestamp_ms,
        "idle_ms": now_ms - producer.last_timestamp_ms,
    })
}

/// With what ends the first of them.
fn render(hanging: &[HangingTransaction], now_ms: i64) -> String {
    let header = ["TOPIC", "PARTITION", "PRODUCER-ID", "EPOCH", "START-OFFSET", "LAST-WRITE", "IDLE-MIN"];
    let mut rows = vec![header.map(str::to_owned)];
    rows.extend(hanging.iter().map(|HangingTransaction { partition, producer }| {
        [
            partition.topic.clone(),
            partition.partition.to_string(),
            producer.producer_id.to_string(),
            producer.producer_epoch.to_string(),
            producer.transaction_start_offset.unwrap_or(-1).to_string(),
            time::format_time(producer.last_timestamp_ms),
            ((now_ms - producer.last_timestamp_ms) / MS_PER_MINUTE).to_string(),
        ]
    }));
    let columns = [
        Column::Fitted(5),
        Column::Right(9),
        Column::Right(11),
        Column::Right(5),
        Column::Right(12),
        Column::Fitted(10),
        Column::Right(8),
    ];
    let mut text = table(&rows, &columns, "  ");
    if let Some(HangingTransaction { partition, producer }) = hanging.first() {
        let TopicPartition { topic, partition } = partition;
        let offset = producer.transaction_start_offset.unwrap_or(-1);
        text.push_str(&format!(
            "End one with: parshall transaction abort {topic}:{partition} --start-offset {offset}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use client::PartitionProducer;

    use super::*;

    #[test]
    fn timeouts_are_kafkas_minutes_or_have_a_unit() {
        assert_eq!(timeout_ms("15"), Ok(900_000));
        assert_eq!(timeout_ms("90s"), Ok(90_000));
        for wrong in ["-1", "1.5", "soon", "9223372036854775807"] {
            assert!(timeout_ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_hangs_comes_with_what_ends_it() {
        let producer = PartitionProducer {
            producer_id: 4000,
            producer_epoch: 3,
            last_sequence: 9,
            last_timestamp_ms: 1_700_000_000_123,
            coordinator_epoch: None,
            transaction_start_offset: Some(42),
        };
        let hanging = [HangingTransaction { partition: TopicPartition::new("orders", 1), producer }];
        assert_eq!(
            render(&hanging, 1_700_001_230_123),
            "TOPIC   PARTITION  PRODUCER-ID  EPOCH  START-OFFSET  LAST-WRITE                IDLE-MIN\n\
             orders          1         4000      3            42  2023-11-14T22:13:20.123Z        20\n\
             End one with: parshall transaction abort orders:1 --start-offset 42\n"
        );
    }
}
