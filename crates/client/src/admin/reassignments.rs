//! Moving replicas to other brokers (KIP-455).

use std::collections::{BTreeMap, BTreeSet};

use wire::api::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ReassignablePartition, ReassignableTopic,
};
use wire::api::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, ListPartitionReassignmentsTopics,
};

use super::{ByPartition, TIMEOUT_MS, by_topic};
use crate::{Client, ClientError, TopicPartition};

/// A move that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reassignment {
    /// All replicas, also those that come and go.
    pub replicas: Vec<i32>,
    pub adding: Vec<i32>,
    pub removing: Vec<i32>,
}

impl Client {
    /// What is under way, of these partitions or of all.
    pub async fn list_reassignments(
        &self,
        partitions: Option<&BTreeSet<TopicPartition>>,
    ) -> Result<BTreeMap<TopicPartition, Reassignment>, ClientError> {
        let topics = partitions.map(|partitions| {
            let topics = by_topic(partitions.iter().map(|partition| (partition, ())));
            let topics = topics.into_iter().map(|(name, partitions)| ListPartitionReassignmentsTopics {
                name: name.to_owned(),
                partition_indexes: partitions.into_iter().map(|(index, ())| index).collect(),
            });
            topics.collect()
        });
        let request = ListPartitionReassignmentsRequest { timeout_ms: TIMEOUT_MS, topics };
        let code = |response: &ListPartitionReassignmentsResponse| response.error_code;
        let response = self.send_to_controller(&request, code).await?;
        let subject = || "the reassignments of partitions".to_owned();
        ClientError::check(subject, response.error_code, response.error_message.as_deref())?;
        let mut found = BTreeMap::new();
        for topic in response.topics {
            found.extend(topic.partitions.into_iter().map(|partition| {
                let reassignment = Reassignment {
                    replicas: partition.replicas,
                    adding: partition.adding_replicas,
                    removing: partition.removing_replicas,
                };
                (TopicPartition::new(topic.name.clone(), partition.partition_index), reassignment)
            }));
        }
        Ok(found)
    }

    /// Gives each of these partitions other replicas; `None` cancels what is under way. Returns when the moves have
    /// begun.
    pub async fn alter_reassignments(
        &self,
        replicas: &BTreeMap<TopicPartition, Option<Vec<i32>>>,
    ) -> Result<ByPartition<()>, ClientError> {
        let topics = by_topic(replicas).into_iter().map(|(name, partitions)| ReassignableTopic {
            name: name.to_owned(),
            partitions: partitions
                .into_iter()
                .map(|(partition_index, replicas)| ReassignablePartition {
                    partition_index,
                    replicas: replicas.clone(),
                })
                .collect(),
        });
        let request = AlterPartitionReassignmentsRequest {
            timeout_ms: TIMEOUT_MS,
            topics: topics.collect(),
            ..Default::default()
        };
        let code = |response: &AlterPartitionReassignmentsResponse| response.error_code;
        let response = self.send_to_controller(&request, code).await?;
        let subject = || "cannot reassign partitions".to_owned();
        ClientError::check(subject, response.error_code, response.error_message.as_deref())?;
        let mut altered = BTreeMap::new();
        for topic in response.responses {
            altered.extend(topic.partitions.into_iter().map(|answer| {
                let partition = TopicPartition::new(topic.name.clone(), answer.partition_index);
                let subject = || format!("cannot reassign {partition}");
                let result = ClientError::check(subject, answer.error_code, answer.error_message.as_deref());
                (partition, result)
            }));
        }
        Ok(altered)
    }
}
