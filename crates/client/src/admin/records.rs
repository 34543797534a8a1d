//! Deleting the oldest records of partitions.

use std::collections::BTreeMap;

use wire::api::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};

use super::{ByPartition, TIMEOUT_MS, by_topic};
use crate::{Client, ClientError, Connection, TopicPartition};

impl Client {
    /// Deletes the records before these offsets; -1 stands for the high watermark. The answers are where the partitions
    /// begin now.
    pub async fn delete_records(&self, offsets: &BTreeMap<TopicPartition, i64>) -> ByPartition<i64> {
        self.ask_leaders(offsets, self.config().deadline, ask).await
    }
}

async fn ask(leader: Connection, offsets: BTreeMap<TopicPartition, i64>) -> Result<ByPartition<i64>, ClientError> {
    let topics = by_topic(offsets.iter().map(|(partition, offset)| (partition, *offset)));
    let topics = topics.into_iter().map(|(name, partitions)| DeleteRecordsTopic {
        name: name.to_owned(),
        partitions: partitions
            .into_iter()
            .map(|(partition_index, offset)| DeleteRecordsPartition { partition_index, offset })
            .collect(),
    });
    let request = DeleteRecordsRequest { topics: topics.collect(), timeout_ms: TIMEOUT_MS };
    let mut deleted = BTreeMap::new();
    for topic in leader.send(&request).await?.topics {
        deleted.extend(topic.partitions.into_iter().map(|answer| {
            let partition = TopicPartition::new(topic.name.clone(), answer.partition_index);
            let subject = || format!("cannot delete records of {partition}");
            let result = ClientError::check(subject, answer.error_code, None).map(|()| answer.low_watermark);
            (partition, result)
        }));
    }
    Ok(deleted)
}
