//! Metadata (key 3), versions 0-13: brokers, and topics with their partitions.
//!
//! Behaviour:
//! - All topics: an empty list in version 0, null from version 1 on. An empty list from version 1 on is no topic.
//! - A topic is named by name, or from version 12 on by id; when one of a request is named by id, names are not looked
//!   at. An id or a missing name before version 12 fails the request as a whole: INVALID_REQUEST for each topic, no
//!   broker.
//! - A topic that is named twice is answered once.
//! - A topic that does not exist is UNKNOWN_TOPIC_OR_PARTITION, and is created when both the client and
//!   `auto.create.topics.enable` allow it. The client asks again, as with Kafka (`AutoTopicCreationManager`).
//! - The controller is a broker that clients can reach, not the leader of the metadata quorum: requests to the
//!   controller are passed on.
//!
//! Skipped: REBOOTSTRAP_REQUIRED (version 13) is never answered, as in Kafka's brokers.

use std::collections::HashSet;
use std::sync::Arc;

use metadata::{MetadataImage, NO_LEADER, Partition, Topic, is_internal};
use wire::ErrorCode;
use wire::api::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};

use super::{Pace, RequestContext, auto_create, nodes, operations};
use crate::Broker;
use crate::memory::{AnswerSize, LargeAnswer};

/// Topics can be named by id since.
const TOPIC_IDS_SINCE: i16 = 12;
/// About what a topic and a partition take of an answer while it is made.
const TOPIC_BYTES: usize = 64;
const PARTITION_BYTES: usize = 128;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: MetadataRequest,
) -> MetadataResponse {
    let version = context.api_version;
    let asked = match request.topics {
        Some(topics) if !(topics.is_empty() && version == 0) => Some(topics),
        _ => None,
    };
    if let Some(topics) = &asked
        && topics.iter().any(|topic| is_malformed(topic, version))
    {
        return refuse(topics);
    }
    let image = broker.metadata.load_full();
    let mut progress = Progress { pace: Pace::default(), size: context.answer_size(broker, LargeAnswer::Described) };
    let (mut topics, missing) = match &asked {
        None => (all(&image, &mut progress).await, Vec::new()),
        Some(asked) if asked.iter().any(|topic| !topic.topic_id.is_zero()) => {
            (by_id(&image, asked, &mut progress).await, Vec::new())
        }
        Some(asked) => by_name(&image, asked, &mut progress).await,
    };
    drop(progress);
    if !missing.is_empty() {
        let creates = request.allow_auto_topic_creation && broker.config().auto_create_topics_enable;
        topics.extend(auto_create::answer(broker, context, missing, creates).await);
    }
    if request.include_topic_authorized_operations {
        for topic in topics.iter_mut().filter(|topic| topic.name.is_some()) {
            topic.topic_authorized_operations = operations::TOPIC;
        }
    }
    MetadataResponse {
        brokers: nodes::active(&image, &context.listener)
            .map(|(broker, endpoint)| MetadataResponseBroker {
                node_id: broker.id,
                host: endpoint.host.clone(),
                port: i32::from(endpoint.port),
                rack: broker.rack.clone(),
            })
            .collect(),
        cluster_id: Some(broker.cluster_id.clone()),
        controller_id: broker.node_id,
        topics,
        cluster_authorized_operations: operations::cluster(request.include_cluster_authorized_operations),
        ..Default::default()
    }
}

/// What was made of an answer.
struct Progress<'a> {
    pace: Pace,
    size: AnswerSize<'a>,
}

impl Progress<'_> {
    /// One more topic is made, with what it is called by and its partitions.
    async fn topic(&mut self, name: Option<&str>, partitions: usize) {
        self.pace.step(1 + partitions).await;
        self.size.add(TOPIC_BYTES + name.map_or(0, str::len) + PARTITION_BYTES * partitions).await;
    }
}

/// A topic that is not named in a way that the version has.
fn is_malformed(topic: &MetadataRequestTopic, version: i16) -> bool {
    match &topic.name {
        Some(_) => version < TOPIC_IDS_SINCE && !topic.topic_id.is_zero(),
        None => version < TOPIC_IDS_SINCE || topic.topic_id.is_zero(),
    }
}

/// `MetadataRequest.getErrorResponse`.
fn refuse(asked: &[MetadataRequestTopic]) -> MetadataResponse {
    let topics = asked.iter().map(|topic| MetadataResponseTopic {
        error_code: ErrorCode::INVALID_REQUEST,
        name: Some(topic.name.clone().unwrap_or_default()),
        topic_id: topic.topic_id,
        ..Default::default()
    });
    MetadataResponse { topics: topics.collect(), ..Default::default() }
}

async fn all(image: &MetadataImage, progress: &mut Progress<'_>) -> Vec<MetadataResponseTopic> {
    let mut topics = Vec::new();
    for topic in image.topics() {
        progress.topic(Some(&topic.name), topic.partitions.len()).await;
        topics.push(describe(image, topic));
    }
    topics
}

/// The topics that are named by id, each once.
async fn by_id(
    image: &MetadataImage,
    asked: &[MetadataRequestTopic],
    progress: &mut Progress<'_>,
) -> Vec<MetadataResponseTopic> {
    let mut seen = HashSet::new();
    let mut topics = Vec::new();
    for topic_id in asked.iter().map(|topic| topic.topic_id) {
        if topic_id.is_zero() || !seen.insert(topic_id) {
            progress.pace.step(1).await;
            continue;
        }
        let topic = image.topic_by_id(topic_id);
        progress.topic(topic.map(|topic| &*topic.name), topic.map_or(0, |topic| topic.partitions.len())).await;
        topics.push(match topic {
            Some(topic) => describe(image, topic),
            None => MetadataResponseTopic { error_code: ErrorCode::UNKNOWN_TOPIC_ID, topic_id, ..Default::default() },
        });
    }
    topics
}

/// The topics that are named, each once, and the names of those that do not exist.
async fn by_name<'a>(
    image: &MetadataImage,
    asked: &'a [MetadataRequestTopic],
    progress: &mut Progress<'_>,
) -> (Vec<MetadataResponseTopic>, Vec<&'a str>) {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for name in asked.iter().filter_map(|topic| topic.name.as_deref()) {
        if !seen.insert(name) {
            progress.pace.step(1).await;
            continue;
        }
        let topic = image.topic(name);
        progress.topic(Some(name), topic.map_or(0, |topic| topic.partitions.len())).await;
        match topic {
            Some(topic) => found.push(describe(image, topic)),
            None => missing.push(name),
        }
    }
    (found, missing)
}

fn describe(image: &MetadataImage, topic: &Topic) -> MetadataResponseTopic {
    MetadataResponseTopic {
        error_code: ErrorCode::NONE,
        name: Some(topic.name.to_string()),
        topic_id: topic.id,
        is_internal: is_internal(&topic.name),
        partitions: (0..)
            .zip(&topic.partitions)
            .map(|(index, partition)| describe_partition(image, index, partition))
            .collect(),
        ..Default::default()
    }
}

fn describe_partition(image: &MetadataImage, partition_index: i32, partition: &Partition) -> MetadataResponsePartition {
    MetadataResponsePartition {
        error_code: if partition.leader == NO_LEADER { ErrorCode::LEADER_NOT_AVAILABLE } else { ErrorCode::NONE },
        partition_index,
        leader_id: partition.leader,
        leader_epoch: partition.leader_epoch,
        replica_nodes: partition.replicas.clone(),
        isr_nodes: partition.isr.clone(),
        offline_replicas: nodes::offline_replicas(image, partition),
    }
}
