//! `parshall partition verify-replicas`: whether the replicas of partitions have the same records.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use anyhow::{Result, bail};
use client::{Client, ClientError, EARLIEST, FetchedBatches, LATEST, Resource, TopicPartition};
use serde::Serialize;
use tokio::time::{Instant, sleep};
use wire::batch::Batch;
use wire::record::RecordReader;

use crate::cmd::args::{self, Connection};
use crate::cmd::{failure, output, partitions};

/// A follower that has not come so far after this time is behind.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(100);
/// What the records of a compressed batch may take.
const RECORDS_BYTES_MAX: usize = 256 << 20;

/// Compare the replicas of partitions: read all of them, and tell where one differs from the leader.
///
/// Batches have to be the same, byte for byte, up to the high watermark of this moment. Replicas of a compacted topic
/// are cleaned each at its own time, so of those the records are compared that both have. The brokers send as much as
/// consumers of all replicas would read.
///
/// Exits with 1 if a replica differs, or cannot be read.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall partition verify-replicas orders
  parshall partition verify-replicas orders:0,2 --last 100000
  parshall partition verify-replicas --all --json")]
pub(super) struct VerifyReplicas {
    /// Topics, or some of their partitions
    #[arg(required_unless_present = "all", value_name = "TOPIC[:PARTITION,...]", value_parser = args::name)]
    topics: Vec<String>,
    /// All partitions
    #[arg(long, conflicts_with = "topics")]
    all: bool,
    /// Compare only the last records of each partition
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    last: Option<i64>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Serialize)]
struct Verified {
    topic: String,
    partition: i32,
    leader: i32,
    /// Offsets from the first to the one behind the last that were compared.
    from: i64,
    to: i64,
    batches: u64,
    /// Those that have what the leader has.
    alike: BTreeSet<i32>,
    /// By broker: what is wrong with its replica.
    problems: BTreeMap<i32, String>,
}

pub(super) async fn run(args: VerifyReplicas) -> Result<()> {
    let client = args.connection.client("partition").await?;
    let topics = match args.all {
        true => client.cluster().await?.topics.keys().cloned().collect(),
        false => args.topics,
    };
    let wanted = partitions::named(&client, &topics).await?;
    let compacted = compacted(&client, &wanted).await?;
    let (mut verified, mut unlike, mut failed) = (Vec::new(), 0, Vec::new());
    for of in &wanted {
        let one = match verify(&client, of, compacted.contains(&of.topic), args.last).await {
            Ok(one) => one,
            Err(error) => {
                failed.push(error);
                continue;
            }
        };
        unlike += usize::from(!one.problems.is_empty());
        if !args.json {
            output::print(&line(&one))?;
        }
        verified.push(one);
    }
    if args.json {
        output::print_json(&verified)?;
    }
    match unlike {
        0 => failure::all(failed),
        _ => bail!("{unlike} of {} partitions have replicas that are not like the leader's", wanted.len()),
    }
}

fn line(one: &Verified) -> String {
    let Verified { topic, partition, leader, from, to, batches, alike, problems } = one;
    let ids = alike.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut text = format!(
        "{topic}-{partition}  offsets {from} to {to}, {batches} batches, leader {leader}: alike on {}\n",
        if ids.is_empty() { "no other broker" } else { &ids }
    );
    for (broker, problem) in problems {
        text.push_str(&format!("{topic}-{partition}  broker {broker}: {problem}\n"));
    }
    text
}

async fn compacted(client: &Client, wanted: &BTreeSet<TopicPartition>) -> Result<HashSet<String>, ClientError> {
    let topics: BTreeSet<_> = wanted.iter().map(|of| of.topic.as_str()).collect();
    let resources: Vec<_> = topics.into_iter().map(Resource::topic).collect();
    let mut compacted = HashSet::new();
    for (topic, described) in client.describe_configs_named(&resources, &["cleanup.policy".to_owned()]).await {
        let policies = described?.into_iter().filter_map(|entry| entry.value);
        if policies.into_iter().any(|policy| policy.contains("compact")) {
            compacted.insert(topic.name);
        }
    }
    Ok(compacted)
}

async fn verify(
    client: &Client,
    of: &TopicPartition,
    is_compacted: bool,
    last: Option<i64>,
) -> Result<Verified, ClientError> {
    let metadata = client.existing(&[&of.topic]).await?;
    let leader = metadata.leader(of)?;
    let partition = metadata.topic(&of.topic)?.partitions.iter().find(|partition| partition.index == of.partition);
    let replicas = partition.map(|partition| partition.replicas.clone()).unwrap_or_default();
    let bound = async |timestamp| {
        let wanted = BTreeMap::from([(of.clone(), timestamp)]);
        Ok::<_, ClientError>(client.list_offsets(&wanted).await?[of].offset)
    };
    let (start, end) = (bound(EARLIEST).await?, bound(LATEST).await?);
    let from = last.map_or(start, |last| start.max(end - last));
    let mut one = Verified {
        topic: of.topic.clone(),
        partition: of.partition,
        leader,
        from,
        to: from,
        batches: 0,
        alike: replicas.into_iter().filter(|id| *id != leader).collect(),
        problems: BTreeMap::new(),
    };
    for id in one.alike.clone().into_iter().filter(|id| !metadata.brokers.contains_key(id)) {
        one.fails(id, "it is down".to_owned());
    }
    while one.to < end && !one.problems.contains_key(&leader) {
        step(client, of, is_compacted, end, &mut one).await;
    }
    Ok(one)
}

/// Compares what one answer of each replica has, and goes on behind what all of them have sent.
async fn step(client: &Client, of: &TopicPartition, is_compacted: bool, end: i64, one: &mut Verified) {
    let offset = one.to;
    let expected = match chunk(client, one.leader, of, offset, end).await {
        Ok(expected) => expected,
        Err(problem) => return one.fails(one.leader, problem),
    };
    let mut chunks = BTreeMap::new();
    for id in one.alike.clone() {
        match chunk(client, id, of, offset, end).await {
            Ok(chunk) => drop(chunks.insert(id, chunk)),
            Err(problem) => one.fails(id, problem),
        }
    }
    let next = chunks.values().fold(expected.next, |next, chunk| next.min(chunk.next));
    for (id, chunk) in &chunks {
        let difference = match is_compacted {
            true => chunk.differs_in_records(&expected, next),
            false => Ok(chunk.differs_in_batches(&expected, next)),
        };
        match difference {
            Ok(None) => {}
            Ok(Some(at)) => one.fails(*id, format!("it differs from the leader's replica at offset {at}")),
            Err(problem) => one.fails(*id, problem),
        }
    }
    one.batches += expected.batches.iter().filter(|batch| batch.header.next_offset() <= next).count() as u64;
    one.to = next;
}

impl Verified {
    fn fails(&mut self, broker: i32, problem: String) {
        self.alike.remove(&broker);
        self.problems.insert(broker, problem);
    }
}

/// What a replica has from an offset on.
struct Chunk {
    batches: Vec<Batch>,
    /// Behind it.
    next: i64,
}

/// At least one batch, or nothing where there is none before `end`. What does not come in time is a problem.
async fn chunk(client: &Client, broker: i32, of: &TopicPartition, offset: i64, end: i64) -> Result<Chunk, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let fetched = client.fetch_from(broker, of, offset).await.map_err(|error| error.to_string())?;
        let FetchedBatches { batches, damage, high_watermark } = fetched;
        if let Some(batch) = batches.iter().find(|batch| batch.verify_crc().is_err()) {
            return Err(format!("the batch at offset {} is damaged", batch.header.base_offset));
        }
        match (batches.last().map(|batch| batch.header.next_offset()), damage) {
            (Some(next), _) => return Ok(Chunk { batches, next: next.min(end) }),
            (None, Some(damage)) => return Err(format!("what is at offset {offset} is damaged: {damage}")),
            // Compaction has left nothing.
            (None, None) if high_watermark >= end => return Ok(Chunk { batches, next: end }),
            (None, None) if Instant::now() >= deadline => {
                return Err(format!("it ends at offset {high_watermark}, the leader's replica at {end}"));
            }
            (None, None) => sleep(RETRY).await,
        }
    }
}

impl Chunk {
    /// Where the first difference is before an offset.
    fn differs_in_batches(&self, expected: &Self, before: i64) -> Option<i64> {
        let of = |chunk: &Self| {
            let headers = chunk.batches.iter().map(|batch| batch.header);
            let headers = headers.filter(|header| header.base_offset < before);
            let prints = headers
                .map(|header| (header.base_offset, header.next_offset(), header.partition_leader_epoch, header.crc));
            prints.collect::<Vec<_>>()
        };
        let (ours, theirs) = (of(self), of(expected));
        let same = ours.iter().zip(&theirs).take_while(|(one, other)| one == other).count();
        [ours.get(same), theirs.get(same)].into_iter().flatten().map(|print| print.0).min()
    }

    /// The same of the records that both have.
    fn differs_in_records(&self, expected: &Self, before: i64) -> Result<Option<i64>, String> {
        let (ours, theirs) = (self.records(before)?, expected.records(before)?);
        let mut differ = ours.iter().filter(|(offset, hash)| theirs.get(offset).is_some_and(|other| other != *hash));
        Ok(differ.next().map(|(offset, _)| *offset))
    }

    /// Hashes by offset.
    fn records(&self, before: i64) -> Result<BTreeMap<i64, u64>, String> {
        let mut hashes = BTreeMap::new();
        for batch in &self.batches {
            let damaged = || format!("the batch at offset {} cannot be read", batch.header.base_offset);
            let section = batch.records(RECORDS_BYTES_MAX).map_err(|_| damaged())?;
            for record in RecordReader::new(&batch.header, &section) {
                let record = record.map_err(|_| damaged())?;
                let mut hasher = DefaultHasher::new();
                (record.timestamp, record.key, record.value).hash(&mut hasher);
                for header in record.headers.iter() {
                    header.hash(&mut hasher);
                }
                if record.offset < before {
                    hashes.insert(record.offset, hasher.finish());
                }
            }
        }
        Ok(hashes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::batch::BatchBuilder;

    fn chunk(batches: &[(i64, &[&str])]) -> Chunk {
        let batches: Vec<_> = batches
            .iter()
            .map(|(offset, values)| {
                let mut builder = BatchBuilder::new().base_offset(*offset);
                values.iter().for_each(|value| builder.push(0, None, Some(value.as_bytes()), &[]));
                builder.build()
            })
            .collect();
        let next = batches.last().map_or(0, |batch| batch.header.next_offset());
        Chunk { batches, next }
    }

    #[test]
    fn batches_have_to_be_the_same() {
        let leader = chunk(&[(0, &["a", "b"]), (2, &["c"]), (3, &["d"])]);
        let differs = |replica: &Chunk, before| replica.differs_in_batches(&leader, before);
        assert_eq!(differs(&chunk(&[(0, &["a", "b"]), (2, &["c"])]), 3), None, "as far as it goes");
        assert_eq!(differs(&chunk(&[(0, &["a", "b"]), (2, &["x"]), (3, &["d"])]), 4), Some(2));
        assert_eq!(differs(&chunk(&[(0, &["a"]), (1, &["b"]), (2, &["c"])]), 3), Some(0), "other batches");
        assert_eq!(differs(&chunk(&[(0, &["a", "b"]), (3, &["d"])]), 4), Some(2), "one is missing");
    }

    #[test]
    fn of_compacted_replicas_the_records_that_both_have_are_compared() {
        let leader = chunk(&[(0, &["a", "b"]), (2, &["c"]), (5, &["d"])]);
        let differs = |replica: &Chunk, before| replica.differs_in_records(&leader, before).unwrap();
        assert_eq!(differs(&chunk(&[(1, &["b", "c"]), (4, &["cleaned"]), (5, &["d"])]), 6), None);
        assert_eq!(differs(&chunk(&[(1, &["b", "x"]), (5, &["y"])]), 6), Some(2));
        assert_eq!(differs(&chunk(&[(1, &["b", "x"]), (5, &["y"])]), 2), None, "behind what was asked for");
    }
}
