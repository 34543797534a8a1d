//! What a client knows of the cluster: brokers, topics, leaders. A plain value, replaced as a whole.

use std::collections::{BTreeMap, HashMap};

use wire::api::metadata::MetadataResponse;
use wire::{ErrorCode, Uuid};

use crate::{ClientError, TopicPartition};

#[derive(Clone, Debug, Default)]
pub struct Metadata {
    pub cluster_id: Option<String>,
    /// A broker that takes requests for the controller, or -1.
    pub controller_id: i32,
    pub brokers: HashMap<i32, Broker>,
    pub topics: BTreeMap<String, Topic>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    pub id: i32,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
}

impl Broker {
    pub fn address(&self) -> String {
        // An IPv6 address needs its brackets to be told from the port.
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Topic {
    pub error_code: ErrorCode,
    pub id: Uuid,
    pub is_internal: bool,
    /// In the order of their numbers, which run from 0.
    pub partitions: Vec<Partition>,
}

impl Topic {
    pub fn partition(&self, index: i32) -> Option<&Partition> {
        let at = self.partitions.binary_search_by_key(&index, |partition| partition.index).ok()?;
        self.partitions.get(at)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Partition {
    pub index: i32,
    /// -1 where there is none.
    pub leader: i32,
    pub leader_epoch: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
}

impl Metadata {
    pub fn from_response(response: MetadataResponse) -> Self {
        let brokers = response.brokers.into_iter().map(|broker| {
            let wire::api::metadata::MetadataResponseBroker { node_id: id, host, port, rack } = broker;
            (id, Broker { id, host, port, rack })
        });
        let topics = response.topics.into_iter().filter_map(|topic| {
            let mut partitions: Vec<_> = topic
                .partitions
                .into_iter()
                .map(|partition| Partition {
                    index: partition.partition_index,
                    leader: partition.leader_id,
                    leader_epoch: partition.leader_epoch,
                    replicas: partition.replica_nodes,
                    isr: partition.isr_nodes,
                })
                .collect();
            partitions.sort_by_key(|partition| partition.index);
            let (error_code, id, is_internal) = (topic.error_code, topic.topic_id, topic.is_internal);
            Some((topic.name?, Topic { error_code, id, is_internal, partitions }))
        });
        Self {
            cluster_id: response.cluster_id,
            controller_id: response.controller_id,
            brokers: brokers.collect(),
            topics: topics.collect(),
        }
    }

    /// Takes over what a later answer says of some topics, and of all brokers.
    pub(crate) fn merge(&mut self, later: &Self) {
        self.cluster_id.clone_from(&later.cluster_id);
        self.controller_id = later.controller_id;
        self.brokers.clone_from(&later.brokers);
        self.topics.extend(later.topics.iter().map(|(name, topic)| (name.clone(), topic.clone())));
    }

    /// The topic, or why there is none.
    pub fn topic(&self, name: &str) -> Result<&Topic, ClientError> {
        let unknown = || ClientError::UnknownTopic { topic: name.to_owned() };
        let topic = self.topics.get(name).ok_or_else(unknown)?;
        match topic.error_code {
            ErrorCode::NONE => Ok(topic),
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Err(unknown()),
            code => Err(ClientError::Refused { subject: format!("topic {name}"), code, message: None }),
        }
    }

    /// The broker that leads a partition.
    pub fn leader(&self, partition: &TopicPartition) -> Result<i32, ClientError> {
        let topic = self.topic(&partition.topic)?;
        match topic.partition(partition.partition) {
            None => Err(ClientError::UnknownPartition(partition.clone())),
            Some(found) if found.leader < 0 => Err(ClientError::NoLeader(partition.clone())),
            Some(found) => Ok(found.leader),
        }
    }

    /// The name of a topic by its id, for responses that carry no name.
    pub fn name_of(&self, id: Uuid) -> Option<&str> {
        self.topics.iter().find(|(_, topic)| topic.id == id && !id.is_zero()).map(|(name, _)| name.as_str())
    }
}
