//! Offsets of partitions by time, from the brokers that lead them.

use std::collections::{BTreeMap, HashMap};

use wire::ErrorCode;
use wire::api::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic};

use crate::{Client, ClientError, Metadata, TopicPartition};

/// In place of a timestamp: the end of the log.
pub const LATEST: i64 = -1;
/// In place of a timestamp: the start of the log.
pub const EARLIEST: i64 = -2;

/// An answer to "which offset has the first record at or after this time". Both are -1 when there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    pub offset: i64,
    pub timestamp: i64,
}

impl Client {
    /// The offset for each partition's timestamp, or [`EARLIEST`] or [`LATEST`]. Fails unless every one is found.
    pub async fn list_offsets(
        &self,
        wanted: &BTreeMap<TopicPartition, i64>,
    ) -> Result<BTreeMap<TopicPartition, ListedOffset>, ClientError> {
        let mut found = BTreeMap::new();
        let mut retry = self.retry();
        while found.len() < wanted.len() {
            let missing = wanted.iter().filter(|(partition, _)| !found.contains_key(*partition));
            let missing = missing.map(|(partition, timestamp)| (partition.clone(), *timestamp)).collect();
            if let Err(error) = self.try_list_offsets(&missing, &mut found).await {
                for partition in missing.keys() {
                    self.forget(&partition.topic);
                }
                retry.wait(error).await?;
            }
        }
        Ok(found)
    }

    /// Asks every leader once and adds what they know to `found`.
    async fn try_list_offsets(
        &self,
        wanted: &BTreeMap<TopicPartition, i64>,
        found: &mut BTreeMap<TopicPartition, ListedOffset>,
    ) -> Result<(), ClientError> {
        let mut topics: Vec<_> = wanted.keys().map(|partition| partition.topic.as_str()).collect();
        topics.dedup();
        let metadata = self.existing(&topics).await?;
        let mut pending = Vec::new();
        for (leader, topics) in by_leader(wanted, &metadata)? {
            let connection = self.broker(leader).await?;
            let request = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
            pending.push((connection.address().to_owned(), connection.start(&request)?));
        }
        for (address, response) in pending {
            take_offsets(response.await?, found)?;
            tracing::trace!(address, "listed offsets");
        }
        match wanted.keys().find(|partition| !found.contains_key(*partition)) {
            None => Ok(()),
            Some(partition) => Err(ClientError::Missing {
                address: "the leader".to_owned(),
                subject: format!("the offsets of {partition}"),
            }),
        }
    }
}

fn by_leader(
    wanted: &BTreeMap<TopicPartition, i64>,
    metadata: &Metadata,
) -> Result<HashMap<i32, Vec<ListOffsetsTopic>>, ClientError> {
    let mut leaders = HashMap::<i32, Vec<ListOffsetsTopic>>::new();
    for (partition, timestamp) in wanted {
        let topics = leaders.entry(metadata.leader(partition)?).or_default();
        if topics.last().is_none_or(|topic| topic.name != partition.topic) {
            topics.push(ListOffsetsTopic { name: partition.topic.clone(), partitions: Vec::new() });
        }
        if let Some(topic) = topics.last_mut() {
            topic.partitions.push(ListOffsetsPartition {
                partition_index: partition.partition,
                timestamp: *timestamp,
                ..Default::default()
            });
        }
    }
    Ok(leaders)
}

fn take_offsets(
    response: ListOffsetsResponse,
    found: &mut BTreeMap<TopicPartition, ListedOffset>,
) -> Result<(), ClientError> {
    let mut failed = None;
    for topic in response.topics {
        for answer in topic.partitions {
            let partition = TopicPartition::new(topic.name.clone(), answer.partition_index);
            match answer.error_code {
                ErrorCode::NONE => {
                    found.insert(partition, ListedOffset { offset: answer.offset, timestamp: answer.timestamp });
                }
                code => failed = Some((partition, code)),
            }
        }
    }
    match failed {
        None => Ok(()),
        Some((partition, code)) => ClientError::check(|| format!("the offsets of {partition}"), code, None),
    }
}
