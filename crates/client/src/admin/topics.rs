//! Making, growing and deleting topics, and who may lead their partitions.

use std::collections::BTreeMap;

use wire::ErrorCode;
use wire::api::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic,
};
use wire::api::create_topics::{CreatableTopic, CreateTopicsRequest, CreateTopicsResponse};
use wire::api::delete_topics::{DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};
use wire::api::describe_topic_partitions::{DescribeTopicPartitionsRequest, TopicRequest};

use super::TIMEOUT_MS;
use crate::{Client, ClientError, TopicPartition};

/// Replicas that are out of the ISR, but with all that was acknowledged (KIP-966).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EligibleLeaders {
    /// `None` where the broker does not know.
    pub eligible: Option<Vec<i32>>,
    /// Those that were in the ISR last, where nobody is eligible.
    pub last_known: Option<Vec<i32>>,
}

impl Client {
    pub async fn create_topic(&self, topic: CreatableTopic) -> Result<(), ClientError> {
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: TIMEOUT_MS, ..Default::default() };
        let code = |response: &CreateTopicsResponse| response.topics.first().map_or(ErrorCode::NONE, |t| t.error_code);
        for result in self.send_to_controller(&request, code).await?.topics {
            let subject = || format!("cannot create topic {}", result.name);
            ClientError::check(subject, result.error_code, result.error_message.as_deref())?;
        }
        Ok(())
    }

    /// Gives a topic so many partitions, more than it has. `assignment` are the brokers of each new one; where there is
    /// none the cluster chooses.
    pub async fn create_partitions(
        &self,
        topic: &str,
        count: i32,
        assignment: Option<Vec<Vec<i32>>>,
    ) -> Result<(), ClientError> {
        let assignments = assignment.map(|partitions| {
            partitions.into_iter().map(|broker_ids| CreatePartitionsAssignment { broker_ids }).collect()
        });
        let request = CreatePartitionsRequest {
            topics: vec![CreatePartitionsTopic { name: topic.to_owned(), count, assignments }],
            timeout_ms: TIMEOUT_MS,
            ..Default::default()
        };
        let code =
            |response: &CreatePartitionsResponse| response.results.first().map_or(ErrorCode::NONE, |r| r.error_code);
        for result in self.send_to_controller(&request, code).await?.results {
            let subject = || format!("cannot alter topic {topic}");
            ClientError::check(subject, result.error_code, result.error_message.as_deref())?;
        }
        Ok(())
    }

    pub async fn delete_topic(&self, topic: &str) -> Result<(), ClientError> {
        let request = DeleteTopicsRequest {
            topics: vec![DeleteTopicState { name: Some(topic.to_owned()), ..Default::default() }],
            topic_names: vec![topic.to_owned()],
            timeout_ms: TIMEOUT_MS,
        };
        let code =
            |response: &DeleteTopicsResponse| response.responses.first().map_or(ErrorCode::NONE, |t| t.error_code);
        for result in self.send_to_controller(&request, code).await?.responses {
            if result.error_code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
                return Err(ClientError::UnknownTopic { topic: topic.to_owned() });
            }
            let subject = || format!("cannot delete topic {topic}");
            ClientError::check(subject, result.error_code, result.error_message.as_deref())?;
        }
        Ok(())
    }

    /// Of each partition the replicas that may lead it besides those in the ISR. Nothing from brokers that do not tell.
    pub async fn eligible_leaders(
        &self,
        topics: &[&str],
    ) -> Result<BTreeMap<TopicPartition, EligibleLeaders>, ClientError> {
        let mut found = BTreeMap::new();
        let connection = self.any_broker().await?;
        if topics.is_empty() || connection.version::<DescribeTopicPartitionsRequest>().is_err() {
            return Ok(found);
        }
        let topics = topics.iter().map(|name| TopicRequest { name: (*name).to_owned() }).collect();
        let mut request = DescribeTopicPartitionsRequest { topics, ..Default::default() };
        loop {
            let response = self.send(&request).await?;
            for topic in response.topics {
                let name = topic.name.unwrap_or_default();
                found.extend(topic.partitions.into_iter().map(|partition| {
                    let (eligible, last_known) = (partition.eligible_leader_replicas, partition.last_known_elr);
                    let key = TopicPartition::new(&name, partition.partition_index);
                    (key, EligibleLeaders { eligible, last_known })
                }));
            }
            match response.next_cursor {
                // A cursor that does not move would never end.
                Some(cursor) if Some(&cursor) != request.cursor.as_ref() => request.cursor = Some(cursor),
                _ => return Ok(found),
            }
        }
    }
}
