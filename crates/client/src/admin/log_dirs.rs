//! What brokers keep on their disks.

use std::collections::BTreeMap;

use tokio::time::timeout;
use wire::api::describe_log_dirs::{DescribeLogDirsRequest, DescribeLogDirsResult};

use super::at_once;
use crate::{Client, ClientError, ConnectionError, TopicPartition};

/// A directory of a broker (`log.dirs`).
#[derive(Clone, Debug, PartialEq)]
pub struct LogDir {
    pub path: String,
    /// Why the broker does not use it any more.
    pub error: Option<ClientError>,
    /// Of the volume that it is on; `None` from brokers that do not tell (KIP-827).
    pub total_bytes: Option<i64>,
    pub usable_bytes: Option<i64>,
    pub replicas: BTreeMap<TopicPartition, LogDirReplica>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDirReplica {
    pub size_bytes: i64,
    /// How far its end is behind the high watermark, or a future replica's behind the current one's.
    pub offset_lag: i64,
    /// Whether it will take the place of the replica in another directory of the broker (KIP-113).
    pub is_future: bool,
}

impl Client {
    /// The directories of every broker. One that does not answer soon is an error of its own, and holds nobody up.
    pub async fn describe_log_dirs(&self) -> Result<BTreeMap<i32, Result<Vec<LogDir>, ClientError>>, ClientError> {
        let asked = self.brokers().await?.into_iter().map(|(id, broker)| {
            let client = self.clone();
            let asked = async move {
                let late = || ConnectionError::Timeout { address: broker.address() };
                timeout(client.config().patience, client.log_dirs_of(id)).await.unwrap_or_else(|_| Err(late().into()))
            };
            (id, asked)
        });
        Ok(at_once(asked).await)
    }

    async fn log_dirs_of(&self, broker: i32) -> Result<Vec<LogDir>, ClientError> {
        let response = self.broker(broker).await?.send(&DescribeLogDirsRequest::default()).await?;
        ClientError::check(|| format!("the log directories of broker {broker}"), response.error_code, None)?;
        Ok(response.results.into_iter().map(LogDir::from_result).collect())
    }
}

impl LogDir {
    fn from_result(result: DescribeLogDirsResult) -> Self {
        let mut replicas = BTreeMap::new();
        for topic in result.topics {
            replicas.extend(topic.partitions.into_iter().map(|partition| {
                let replica = LogDirReplica {
                    size_bytes: partition.partition_size,
                    offset_lag: partition.offset_lag,
                    is_future: partition.is_future_key,
                };
                (TopicPartition::new(topic.name.clone(), partition.partition_index), replica)
            }));
        }
        let known = |bytes: i64| (bytes >= 0).then_some(bytes);
        let subject = || format!("log directory {}", result.log_dir);
        Self {
            error: ClientError::check(subject, result.error_code, None).err(),
            total_bytes: known(result.total_bytes),
            usable_bytes: known(result.usable_bytes),
            path: result.log_dir,
            replicas,
        }
    }
}
