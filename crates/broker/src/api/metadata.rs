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
//! - A leader that is not registered is LEADER_NOT_AVAILABLE. So is one without the client's listener, which from
//!   version 6 on is LISTENER_NOT_FOUND. Version 0 leaves out replicas that do not serve, and says so with
//!   REPLICA_NOT_AVAILABLE (`KRaftMetadataCache`).
//! - Needs: DESCRIBE on each topic. Where a client may not, all topics are without it, a name is
//!   TOPIC_AUTHORIZATION_FAILED and without an id, an id the same and without a name. What it creates it has to be
//!   allowed to CREATE, the topic or any of the cluster.
//! - The controller is a broker that clients can reach, not the leader of the metadata quorum: requests to the
//!   controller are passed on.
//!
//! Skipped: REBOOTSTRAP_REQUIRED (version 13) is never answered, as in Kafka's brokers.

use std::collections::HashSet;
use std::sync::Arc;

use metadata::acl::{AclOperation, ResourceType};
use metadata::{MetadataImage, NO_LEADER, Partition, Topic, is_internal};
use wire::ErrorCode;
use wire::api::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};

use super::{Access, Pace, RequestContext, auto_create, nodes};
use crate::Broker;
use crate::memory::{AnswerSize, LargeAnswer};

/// Topics can be named by id since.
const TOPIC_IDS_SINCE: i16 = 12;
/// A leader without the client's listener is an error of its own since.
const LISTENER_NOT_FOUND_SINCE: i16 = 6;
/// Replicas are told whether they serve or not since.
const ALL_REPLICAS_SINCE: i16 = 1;
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
    let access = context.access(broker);
    let view = View { image: &image, version, listener: &context.listener, access: &access };
    let mut progress = Progress { pace: Pace::default(), size: context.answer_size(broker, LargeAnswer::Described) };
    let (mut topics, missing) = match &asked {
        None => (all(&view, &mut progress).await, Vec::new()),
        Some(asked) if asked.iter().any(|topic| !topic.topic_id.is_zero()) => {
            (by_id(&view, asked, &mut progress).await, Vec::new())
        }
        Some(asked) => by_name(&view, asked, &mut progress).await,
    };
    drop(progress);
    if !missing.is_empty() {
        let creates = request.allow_auto_topic_creation && broker.config().auto_create_topics_enable;
        let may_create = |name: &&str| !creates || access.create_topic(name);
        let (missing, denied): (Vec<_>, Vec<_>) = missing.into_iter().partition(may_create);
        topics.extend(denied.into_iter().map(denied_name));
        topics.extend(auto_create::answer(broker, context, missing, creates).await);
    }
    if request.include_topic_authorized_operations {
        for topic in topics.iter_mut().filter(|topic| topic.error_code != ErrorCode::TOPIC_AUTHORIZATION_FAILED) {
            if let Some(name) = &topic.name {
                topic.topic_authorized_operations = access.operations(ResourceType::Topic, name);
            }
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
        cluster_authorized_operations: access.cluster_operations(request.include_cluster_authorized_operations),
        ..Default::default()
    }
}

/// The metadata as one client sees it.
struct View<'a> {
    image: &'a MetadataImage,
    version: i16,
    listener: &'a str,
    access: &'a Access<'a>,
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

async fn all(view: &View<'_>, progress: &mut Progress<'_>) -> Vec<MetadataResponseTopic> {
    let mut topics = Vec::new();
    for topic in view.image.topics() {
        if !view.access.shows(AclOperation::Describe, ResourceType::Topic, &topic.name) {
            progress.pace.step(1).await;
            continue;
        }
        progress.topic(Some(&topic.name), topic.partitions.len()).await;
        topics.push(view.topic(topic));
    }
    topics
}

/// The topics that are named by id, each once.
async fn by_id(
    view: &View<'_>,
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
        let topic = view.image.topic_by_id(topic_id);
        progress.topic(topic.map(|topic| &*topic.name), topic.map_or(0, |topic| topic.partitions.len())).await;
        topics.push(match topic {
            Some(topic) if !view.access.topic(AclOperation::Describe, &topic.name) => MetadataResponseTopic {
                error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED,
                topic_id,
                ..Default::default()
            },
            Some(topic) => view.topic(topic),
            None => MetadataResponseTopic { error_code: ErrorCode::UNKNOWN_TOPIC_ID, topic_id, ..Default::default() },
        });
    }
    topics
}

/// The topics that are named, each once, and the names of those that do not exist.
async fn by_name<'a>(
    view: &View<'_>,
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
        if !view.access.topic(AclOperation::Describe, name) {
            progress.topic(Some(name), 0).await;
            found.push(denied_name(name));
            continue;
        }
        let topic = view.image.topic(name);
        progress.topic(Some(name), topic.map_or(0, |topic| topic.partitions.len())).await;
        match topic {
            Some(topic) => found.push(view.topic(topic)),
            None => missing.push(name),
        }
    }
    (found, missing)
}

/// A topic that the client may not know of, whether it is there or not.
fn denied_name(name: &str) -> MetadataResponseTopic {
    MetadataResponseTopic {
        error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED,
        name: Some(name.to_owned()),
        ..Default::default()
    }
}

impl View<'_> {
    fn topic(&self, topic: &Topic) -> MetadataResponseTopic {
        MetadataResponseTopic {
            error_code: ErrorCode::NONE,
            name: Some(topic.name.to_string()),
            topic_id: topic.id,
            is_internal: is_internal(&topic.name),
            partitions: (0..)
                .zip(&topic.partitions)
                .map(|(index, partition)| self.partition(index, partition))
                .collect(),
            ..Default::default()
        }
    }

    fn partition(&self, partition_index: i32, partition: &Partition) -> MetadataResponsePartition {
        let (replica_nodes, isr_nodes) = (self.replicas(&partition.replicas), self.replicas(&partition.isr));
        let is_incomplete = replica_nodes.len() < partition.replicas.len() || isr_nodes.len() < partition.isr.len();
        let error_code = self.check_leader(partition.leader).err();
        let leader_id = if error_code.is_some() { NO_LEADER } else { partition.leader };
        let error_code = error_code.or(is_incomplete.then_some(ErrorCode::REPLICA_NOT_AVAILABLE));
        MetadataResponsePartition {
            error_code: error_code.unwrap_or(ErrorCode::NONE),
            partition_index,
            leader_id,
            leader_epoch: partition.leader_epoch,
            replica_nodes,
            isr_nodes,
            offline_replicas: nodes::offline_replicas(self.image, self.listener, partition),
        }
    }

    fn check_leader(&self, leader: i32) -> Result<(), ErrorCode> {
        match self.image.broker(leader) {
            None => Err(ErrorCode::LEADER_NOT_AVAILABLE),
            Some(_) if nodes::is_reachable(self.image, self.listener, leader) => Ok(()),
            Some(_) if self.version < LISTENER_NOT_FOUND_SINCE => Err(ErrorCode::LEADER_NOT_AVAILABLE),
            Some(_) => Err(ErrorCode::LISTENER_NOT_FOUND),
        }
    }

    fn replicas(&self, ids: &[i32]) -> Vec<i32> {
        let is_told = |id: &i32| self.version >= ALL_REPLICAS_SINCE || nodes::is_online(self.image, self.listener, *id);
        ids.iter().copied().filter(is_told).collect()
    }
}

#[cfg(test)]
mod tests {
    use wire::Uuid;
    use wire::state::metadata::{PartitionRecord, RegisterBrokerRecord};

    use super::*;
    use crate::api::test_support::{TestBroker, context, endpoint, led_by, registration};

    const TOPIC_ID: Uuid = Uuid([7; 16]);

    async fn ask(broker: &TestBroker, version: i16, topics: &[&str]) -> MetadataResponse {
        let named = |name: &&str| MetadataRequestTopic { name: Some((*name).to_owned()), ..Default::default() };
        let topics = Some(topics.iter().map(named).collect());
        let request = MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
        handle(broker, &context(version), request).await
    }

    /// Broker 2 has another listener, broker 3 is fenced, broker 4 serves.
    async fn start() -> TestBroker {
        let broker = TestBroker::start().await;
        let elsewhere = RegisterBrokerRecord { end_points: vec![endpoint("OTHER", 2)], ..registration(2) };
        let fenced = RegisterBrokerRecord { fenced: true, ..registration(3) };
        broker.commit([elsewhere.into(), fenced.into(), registration(4).into()]).await;
        broker
    }

    #[tokio::test]
    async fn brokers_are_those_that_serve_at_the_clients_listener() {
        let broker = start().await;
        let response = ask(&broker, 13, &[]).await;
        let brokers: Vec<_> =
            response.brokers.iter().map(|node| (node.node_id, &*node.host, node.port, node.rack.as_deref())).collect();
        assert_eq!(brokers, [(1, "broker-1", 9001, Some("rack-1")), (4, "broker-4", 9004, Some("rack-4"))]);
        assert_eq!(response.controller_id, 1, "a broker that the client reaches");

        let at_other = RequestContext { listener: "OTHER".into(), ..context(13) };
        let response = handle(&broker, &at_other, MetadataRequest::default()).await;
        assert_eq!(response.brokers.iter().map(|node| (node.node_id, node.port)).collect::<Vec<_>>(), [(2, 9002)]);
    }

    /// `KRaftMetadataCache.getPartitionMetadata` of Kafka 4.3.1.
    #[tokio::test]
    async fn leaders_and_replicas_are_told_as_far_as_the_client_can_reach_them() {
        let broker = start().await;
        let leaderless = PartitionRecord { leader: NO_LEADER, isr: vec![3], ..led_by(3, &[3, 4]) };
        let partitions =
            [led_by(4, &[4, 1]), led_by(2, &[2, 4]), led_by(3, &[3, 4]), led_by(9, &[9, 4]), led_by(4, &[4, 3])];
        broker.create("t", TOPIC_ID, &[&partitions[..], &[leaderless]].concat()).await;
        let (none, no_leader) = (ErrorCode::NONE, ErrorCode::LEADER_NOT_AVAILABLE);
        let (no_listener, no_replica) = (ErrorCode::LISTENER_NOT_FOUND, ErrorCode::REPLICA_NOT_AVAILABLE);
        for (version, expected) in [
            (0, [(none, 4), (no_leader, -1), (no_replica, 3), (no_leader, -1), (no_replica, 4), (no_leader, -1)]),
            (5, [(none, 4), (no_leader, -1), (none, 3), (no_leader, -1), (none, 4), (no_leader, -1)]),
            (6, [(none, 4), (no_listener, -1), (none, 3), (no_leader, -1), (none, 4), (no_leader, -1)]),
            (13, [(none, 4), (no_listener, -1), (none, 3), (no_leader, -1), (none, 4), (no_leader, -1)]),
        ] {
            let response = ask(&broker, version, &["t"]).await;
            let found = &response.topics[0].partitions;
            assert_eq!(found.iter().map(|p| (p.error_code, p.leader_id)).collect::<Vec<_>>(), expected, "{version}");
            let replicas: Vec<_> = found.iter().map(|p| &*p.replica_nodes).collect();
            let (all, online): ([&[i32]; 6], [&[i32]; 6]) =
                ([&[4, 1], &[2, 4], &[3, 4], &[9, 4], &[4, 3], &[3, 4]], [&[4, 1], &[4], &[4], &[4], &[4], &[4]]);
            assert_eq!(replicas, if version == 0 { online } else { all }, "{version}");
            assert_eq!(found[5].isr_nodes, if version == 0 { vec![] } else { vec![3] }, "{version}");
            let offline: Vec<_> = found.iter().map(|p| &*p.offline_replicas).collect();
            assert_eq!(offline, [&[][..], &[2], &[3], &[9], &[3], &[3]], "{version}");
        }
    }

    #[tokio::test]
    async fn operations_are_told_of_topics_that_have_a_name() {
        let broker = TestBroker::start().await;
        broker.create("t", TOPIC_ID, &[led_by(1, &[1])]).await;
        let by_id = |topic_id| MetadataRequestTopic { topic_id, name: None };
        let request = MetadataRequest {
            topics: Some(vec![by_id(TOPIC_ID), by_id(Uuid([8; 16]))]),
            include_topic_authorized_operations: true,
            ..Default::default()
        };
        let response = handle(&broker, &context(12), request).await;
        let operations: Vec<_> =
            response.topics.iter().map(|topic| (topic.error_code, topic.topic_authorized_operations)).collect();
        assert_eq!(operations, [(ErrorCode::NONE, 3576), (ErrorCode::UNKNOWN_TOPIC_ID, i32::MIN)]);
    }
}
