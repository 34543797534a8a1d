//! The topics of a case: made before it and deleted behind it, unless the scenario names one to keep.

use std::collections::BTreeMap;

use client::{Client, ClientError, LATEST, TopicPartition};
use wire::ErrorCode;
use wire::api::create_topics::{CreatableTopic, CreatableTopicConfig};

use super::CaseError;
use crate::scenario::Load;

pub(super) struct Topics {
    pub(super) names: Vec<String>,
    is_kept: bool,
}

impl Topics {
    /// Makes what is missing. A topic that is there already has to be what the case wants.
    pub(super) async fn make(client: &Client, load: &Load, unique: &str) -> Result<Self, CaseError> {
        let is_kept = !load.topic.is_empty();
        let name = |number: u32| match (is_kept, load.topics) {
            (true, 1) => load.topic.clone(),
            (true, _) => format!("{}-{number}", load.topic),
            (false, _) => format!("parshall-lab-{unique}-{number}"),
        };
        let names: Vec<_> = (1..=load.topics).map(name).collect();
        let configs = load.topic_settings.iter();
        let configs =
            configs.map(|(name, value)| CreatableTopicConfig { name: name.clone(), value: Some(value.clone()) });
        let configs: Vec<_> = configs.collect();
        let mut topics = Self { names: Vec::new(), is_kept };
        for name in names {
            let topic = CreatableTopic {
                name: name.clone(),
                num_partitions: load.partitions as i32,
                replication_factor: load.replicas.min(i16::MAX as u32) as i16,
                configs: configs.clone(),
                ..Default::default()
            };
            let made = match client.create_topic(topic).await {
                Err(ClientError::Refused { code: ErrorCode::TOPIC_ALREADY_EXISTS, .. }) if is_kept => {
                    agrees(client, &name, load).await
                }
                made => made.map_err(CaseError::from),
            };
            if let Err(error) = made {
                topics.delete(client).await;
                return Err(error);
            }
            topics.names.push(name);
        }
        if let Err(error) = topics.wait_for_leaders(client).await {
            topics.delete(client).await;
            return Err(error.into());
        }
        Ok(topics)
    }

    /// A broker may not know yet that it leads what others say that it leads.
    async fn wait_for_leaders(&self, client: &Client) -> Result<(), ClientError> {
        let names: Vec<_> = self.names.iter().map(String::as_str).collect();
        let metadata = client.existing(&names).await?;
        let mut ends = BTreeMap::new();
        for name in &self.names {
            let partitions = &metadata.topic(name)?.partitions;
            ends.extend(partitions.iter().map(|partition| (TopicPartition::new(name, partition.index), LATEST)));
        }
        client.list_offsets(&ends).await?;
        Ok(())
    }

    pub(super) async fn delete(&self, client: &Client) {
        for name in self.names.iter().filter(|_| !self.is_kept) {
            match client.delete_topic(name).await {
                Ok(()) | Err(ClientError::UnknownTopic { .. }) => {}
                Err(error) => tracing::warn!(%error, topic = name, "the topic is left behind"),
            }
        }
    }
}

async fn agrees(client: &Client, name: &str, load: &Load) -> Result<(), CaseError> {
    let metadata = client.existing(&[name]).await?;
    let partitions = &metadata.topic(name)?.partitions;
    let (found, replicas) = (partitions.len(), partitions.first().map_or(0, |partition| partition.replicas.len()));
    if found == load.partitions as usize && replicas == load.replicas as usize {
        return Ok(());
    }
    Err(CaseError::OtherTopic {
        topic: name.to_owned(),
        partitions: found,
        replicas,
        wanted_partitions: load.partitions,
        wanted_replicas: load.replicas,
    })
}
