//! Offsets of partitions by time, from the brokers that lead them.

use std::collections::BTreeMap;

use wire::api::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};

use crate::by_partition::{ByPartition, by_topic};
use crate::{Client, ClientError, Connection, IsolationLevel, TopicPartition};

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
        self.list_offsets_as(wanted, IsolationLevel::ReadUncommitted).await
    }

    /// The same as a reader of this level sees it: for one of committed records, [`LATEST`] is the last stable offset,
    /// and nothing behind it has a timestamp.
    pub async fn list_offsets_as(
        &self,
        wanted: &BTreeMap<TopicPartition, i64>,
        isolation: IsolationLevel,
    ) -> Result<BTreeMap<TopicPartition, ListedOffset>, ClientError> {
        let mut found = BTreeMap::new();
        let mut missing = as_seen(wanted, isolation);
        let mut retry = self.retry();
        loop {
            let mut topics: Vec<_> = missing.keys().map(|partition| partition.topic.as_str()).collect();
            topics.dedup();
            let answers = match self.existing(&topics).await {
                Ok(_) => self.ask_leaders(&missing, self.config().deadline, ask).await,
                Err(error) => return Err(error),
            };
            let mut failed = None;
            for (partition, answer) in answers {
                match answer {
                    Ok(offset) => {
                        missing.remove(&partition);
                        found.insert(partition, offset);
                    }
                    Err(error) => {
                        self.forget(&partition.topic);
                        failed = Some(error);
                    }
                }
            }
            match failed {
                None => return Ok(found),
                Some(error) => retry.wait(error).await?,
            }
        }
    }

    /// Like [`Client::list_offsets`], but soon, and partition by partition: one without a leader, or whose leader does
    /// not answer, is an error of its own.
    pub async fn list_offsets_each(&self, wanted: &BTreeMap<TopicPartition, i64>) -> ByPartition<ListedOffset> {
        let wanted = as_seen(wanted, IsolationLevel::ReadUncommitted);
        self.ask_leaders(&wanted, self.config().patience, ask).await
    }
}

fn as_seen(
    wanted: &BTreeMap<TopicPartition, i64>,
    isolation: IsolationLevel,
) -> BTreeMap<TopicPartition, (i64, IsolationLevel)> {
    wanted.iter().map(|(partition, timestamp)| (partition.clone(), (*timestamp, isolation))).collect()
}

/// All of one level.
async fn ask(
    leader: Connection,
    timestamps: BTreeMap<TopicPartition, (i64, IsolationLevel)>,
) -> Result<ByPartition<ListedOffset>, ClientError> {
    let isolation = timestamps.values().next().map_or(IsolationLevel::default(), |(_, isolation)| *isolation);
    let topics = by_topic(timestamps.iter().map(|(partition, (timestamp, _))| (partition, *timestamp)));
    let topics = topics.into_iter().map(|(name, partitions)| ListOffsetsTopic {
        name: name.to_owned(),
        partitions: partitions
            .into_iter()
            .map(|(partition_index, timestamp)| ListOffsetsPartition {
                partition_index,
                timestamp,
                ..Default::default()
            })
            .collect(),
    });
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: isolation.to_wire(),
        topics: topics.collect(),
        ..Default::default()
    };
    let mut found = BTreeMap::new();
    for topic in leader.send(&request).await?.topics {
        for answer in topic.partitions {
            let partition = TopicPartition::new(topic.name.clone(), answer.partition_index);
            let subject = || format!("the offsets of {partition}");
            let listed = ListedOffset { offset: answer.offset, timestamp: answer.timestamp };
            let result = ClientError::check(subject, answer.error_code, None).map(|()| listed);
            found.insert(partition, result);
        }
    }
    Ok(found)
}
