//! Making, growing and deleting topics.

use wire::ErrorCode;
use wire::api::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic,
};
use wire::api::create_topics::{CreatableTopic, CreateTopicsRequest, CreateTopicsResponse};
use wire::api::delete_topics::{DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};

use super::TIMEOUT_MS;
use crate::{Client, ClientError};

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
}
