//! What the group coordinator needs besides its log: the topics of the cluster, and `__consumer_offsets` among them.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;

use configuration::{BrokerConfig, GroupConfig};
use coordinator::group::{OFFSETS_TOPIC, Topic, TopicSnapshot, Topics};
use coordinator::topic_log::BoxFuture;
use metadata::{ConfigResource, MetadataImage, Partition, ResourceKind};
use wire::api::create_topics::CreatableTopic;
use wire::{ErrorCode, Uuid};

use super::internal_topic::{self, InternalTopic, appended};

pub(super) struct OffsetsTopic(pub(super) Arc<InternalTopic>);

impl Topics for OffsetsTopic {
    fn topic(&self, name: &str) -> Option<Topic> {
        let image = self.0.metadata.load();
        let topic = image.topic(name)?;
        Some(Topic { id: topic.id, partition_count: topic.partitions.len() as i32 })
    }

    fn name(&self, id: Uuid) -> Option<String> {
        self.0.metadata.load().topic_by_id(id).map(|topic| topic.name.to_string())
    }

    fn snapshot(&self) -> Arc<dyn TopicSnapshot> {
        Arc::new(ImageTopics(self.0.metadata.load_full()))
    }

    fn group_config(&self, group_id: &str) -> GroupConfig {
        let broker = self.0.config.load();
        let resource = ConfigResource { kind: ResourceKind::Group, name: group_id.to_owned() };
        let image = self.0.metadata.load();
        // What was set for the group may be beyond what this broker's settings allow.
        GroupConfig::resolve(&broker, image.config(&resource)).unwrap_or_else(|error| {
            tracing::warn!(group_id, %error, "the settings of a group are left out");
            GroupConfig::of_broker(&broker)
        })
    }

    fn make_durable(&self, topic: &str, partition: i32, offset: i64) -> Option<BoxFuture<Result<(), ErrorCode>>> {
        let completion = self.0.partitions.find_by_name(topic, partition).ok()?.make_durable(offset)?;
        Some(Box::pin(async move {
            match appended(poll_fn(|cx| completion.poll(cx)).await) {
                // All in-sync replicas have it; that they are too few does not matter to readers.
                Ok(_) | Err(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND) => Ok(()),
                Err(code) => Err(code),
            }
        }))
    }

    fn offsets_partition_count(&self) -> Option<i32> {
        self.0.partition_count()
    }

    fn create_offsets_topic(&self) -> BoxFuture<Result<(), ErrorCode>> {
        self.0.create(creatable(&self.0.config.load(), self.0.metadata.load().brokers().count()))
    }
}

/// The topics of an image.
struct ImageTopics(Arc<MetadataImage>);

impl TopicSnapshot for ImageTopics {
    fn topic(&self, name: &str) -> Option<Topic> {
        let topic = self.0.topic(name)?;
        Some(Topic { id: topic.id, partition_count: topic.partitions.len() as i32 })
    }

    fn name(&self, id: Uuid) -> Option<String> {
        self.0.topic_by_id(id).map(|topic| topic.name.to_string())
    }

    fn names(&self) -> Vec<String> {
        self.0.topics().map(|topic| topic.name.to_string()).collect()
    }

    fn racks(&self, name: &str) -> Vec<Vec<String>> {
        let Some(topic) = self.0.topic(name) else { return Vec::new() };
        let racks: BTreeMap<i32, &String> =
            self.0.brokers().filter_map(|broker| Some((broker.id, broker.rack.as_ref()?))).collect();
        let of_partition = |partition: &Arc<Partition>| {
            partition.replicas.iter().filter_map(|replica| racks.get(replica).map(|rack| (*rack).clone())).collect()
        };
        topic.partitions.iter().map(of_partition).collect()
    }

    fn version(&self) -> i64 {
        self.0.offset()
    }
}

/// The topic as it comes into being, on a cluster of so many brokers.
pub(crate) fn creatable(config: &BrokerConfig, brokers: usize) -> CreatableTopic {
    let replication_factor = config.internal_replication_factor(
        "offsets.topic.replication.factor",
        config.offsets_topic_replication_factor,
        brokers,
    );
    let configs = [
        ("cleanup.policy", "compact".to_owned()),
        ("compression.type", "producer".to_owned()),
        ("segment.bytes", config.offsets_topic_segment_bytes.to_string()),
    ];
    internal_topic::creatable(OFFSETS_TOPIC, config.offsets_topic_num_partitions, replication_factor, configs)
}
