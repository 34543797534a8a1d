//! `parshall transaction abort`: the end of a transaction that hangs in a partition.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use client::{AbortTarget, Client, TopicPartition};
use serde_json::json;

use crate::cmd::args::{self, Connection};
use crate::cmd::failure::Usage;
use crate::cmd::{failure, output, partitions, time};

/// Abort a transaction that hangs in a partition.
///
/// It is told by where it begins, as `find-hanging` and `partition producers` show it. Brokers before Apache Kafka 3.0
/// do not tell that; there the producer and both epochs say which one is meant.
///
/// The marker is written past the coordinator. A transaction that the coordinator has is left alone, for it would be
/// aborted in this partition and perhaps committed in the others: `parshall transaction terminate` is for that.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall transaction abort orders:1 --start-offset 42
  parshall transaction abort orders:1 --producer-id 4000 --producer-epoch 3 --coordinator-epoch 0")]
pub(super) struct Abort {
    /// The partition
    #[arg(value_name = "TOPIC:PARTITION", value_parser = args::name)]
    partition: String,
    /// The offset at which the transaction begins
    #[arg(long, value_name = "OFFSET", required_unless_present = "producer_id", value_parser = clap::value_parser!(i64).range(0..))]
    #[arg(conflicts_with_all = ["producer_id", "producer_epoch", "coordinator_epoch"])]
    start_offset: Option<i64>,
    /// The producer of the transaction
    #[arg(long, value_name = "ID", requires_all = ["producer_epoch", "coordinator_epoch"])]
    producer_id: Option<i64>,
    /// Its epoch
    #[arg(long, value_name = "EPOCH", requires = "producer_id")]
    producer_epoch: Option<i16>,
    /// The epoch of the last coordinator that the partition has heard of for it; -1 where there was none
    #[arg(long, value_name = "EPOCH", requires = "producer_id", allow_negative_numbers = true)]
    coordinator_epoch: Option<i32>,
    /// Abort it although its coordinator has it
    #[arg(long, conflicts_with = "producer_id")]
    force: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Abort) -> Result<()> {
    let client = args.connection.client_for_changes("transaction").await?;
    let mut named: Vec<_> =
        partitions::named(&client, std::slice::from_ref(&args.partition)).await?.into_iter().collect();
    let (Some(partition), true) = (named.pop(), named.is_empty() && args.partition.contains(':')) else {
        return Err(Usage(format!("{:?} is not one partition; name it as orders:1", args.partition)).into());
    };
    let target = match (args.start_offset, args.producer_id, args.producer_epoch, args.coordinator_epoch) {
        (Some(start_offset), ..) => beginning_at(&client, &partition, start_offset, args.force).await?,
        (None, Some(producer_id), Some(producer_epoch), Some(coordinator_epoch)) => {
            AbortTarget { partition, producer_id, producer_epoch, coordinator_epoch }
        }
        _ => unreachable!("the parser wants an offset, or a producer with its epochs"),
    };
    let result = client.abort_transaction(&target).await;
    let AbortTarget { partition, producer_id, producer_epoch, .. } = target;
    if args.json {
        output::print_json(&json!({
            "topic": partition.topic, "partition": partition.partition, "producer_id": producer_id,
            "producer_epoch": producer_epoch, "error": failure::text(&result),
        }))?;
    } else if result.is_ok() {
        output::print(&format!("{partition}: the transaction of producer {producer_id} is aborted\n"))?;
    }
    Ok(result?)
}

/// The transaction that begins there, if it hangs or is to be aborted all the same.
async fn beginning_at(
    client: &Client,
    partition: &TopicPartition,
    start_offset: i64,
    is_forced: bool,
) -> Result<AbortTarget> {
    let wanted = BTreeSet::from([partition.clone()]);
    let TopicPartition { topic, partition: number } = partition;
    let mut producers = Vec::new();
    for (_, described) in client.describe_producers(&wanted, None).await {
        producers.extend(described?);
    }
    let Some(producer) = producers.into_iter().find(|one| one.transaction_start_offset == Some(start_offset)) else {
        bail!(
            "no open transaction of {partition} begins at offset {start_offset}; \
             'parshall partition producers {topic}:{number}' shows where they begin"
        );
    };
    if !is_forced {
        let found = client.find_hanging_transactions(&wanted, None, i64::MIN, time::now_ms()).await?;
        if !found.hanging.iter().any(|one| one.producer.transaction_start_offset == Some(start_offset)) {
            bail!(
                "the coordinator has this transaction and will end it; 'parshall transaction terminate' aborts it \
                 in all of its partitions, --force in this one"
            );
        }
    }
    Ok(producer.target(partition))
}
