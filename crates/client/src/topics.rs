//! Making and deleting topics.

use wire::ErrorCode;
use wire::api::create_topics::{CreatableTopic, CreateTopicsRequest, CreateTopicsResponse};
use wire::api::delete_topics::{DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};

use crate::{Client, ClientError};

/// Less than what we wait for an answer, so that the broker can say that it took too long.
const TIMEOUT_MS: i32 = 20_000;

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
