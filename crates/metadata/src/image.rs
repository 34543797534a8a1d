//! The metadata at one point in time: topics, brokers, settings, features, access control lists, credentials, quotas.
//!
//! An image never changes; [`MetadataImage::apply`](super::apply) makes the next one, which shares with it whatever is
//! the same. Readers get one by [`MetadataCache::load`](super::MetadataCache::load) and keep it for as long as one
//! answer takes.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use configuration::ConfigMap;
use wire::Uuid;

use super::TopicName;
use super::acl::{Acls, CLUSTER_NAME, ResourceType};
use super::features::Feature;
use super::ordered_map::OrderedMap;
use super::quota::ClientQuotas;
use super::replica_counts::ReplicaCounts;
use super::scram::ScramCredentials;

/// No broker leads the partition.
pub const NO_LEADER: i32 = -1;

#[derive(Clone, Debug, PartialEq)]
pub struct MetadataImage {
    pub(super) generation: u64,
    pub(super) offset: i64,
    pub(super) epoch: i32,
    pub(super) topics: OrderedMap<TopicName, Arc<Topic>>,
    pub(super) topics_by_id: OrderedMap<Uuid, Arc<Topic>>,
    /// Topics whose names have a `.` or `_`, by what they have in common with names that would collide.
    pub(super) unified_names: OrderedMap<String, TopicName>,
    pub(super) partition_count: usize,
    pub(super) replica_counts: ReplicaCounts,
    pub(super) brokers: Arc<BTreeMap<i32, RegisteredBroker>>,
    pub(super) configs: OrderedMap<ConfigResource, Arc<ConfigMap>>,
    pub(super) features: Arc<BTreeMap<String, i16>>,
    pub(super) next_producer_id: i64,
    pub(super) acls: Arc<Acls>,
    pub(super) scram: ScramCredentials,
    pub(super) quotas: ClientQuotas,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub name: TopicName,
    pub id: Uuid,
    /// By index: partitions are numbered from 0 without gaps.
    pub partitions: Vec<Arc<Partition>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// In the order of preference for leadership.
    pub replicas: Vec<i32>,
    /// The log directory of each replica, in the same order.
    pub directories: Vec<Uuid>,
    pub isr: Vec<i32>,
    pub removing_replicas: Vec<i32>,
    pub adding_replicas: Vec<i32>,
    /// [`NO_LEADER`] when there is none.
    pub leader: i32,
    /// 1 while the leader recovers from an unclean election.
    pub leader_recovery_state: i8,
    pub leader_epoch: i32,
    pub partition_epoch: i32,
    pub eligible_leader_replicas: Vec<i32>,
    pub last_known_elr: Vec<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredBroker {
    pub id: i32,
    pub epoch: i64,
    pub incarnation_id: Uuid,
    pub endpoints: Vec<BrokerEndpoint>,
    /// Names of features, and the levels that the broker supports.
    pub features: BTreeMap<String, (i16, i16)>,
    pub rack: Option<String>,
    pub fenced: bool,
    pub in_controlled_shutdown: bool,
    pub log_dirs: Vec<Uuid>,
    /// Those in which nothing more is to be stored: they are full.
    pub cordoned_directories: Vec<Uuid>,
}

impl RegisteredBroker {
    /// Whether it can take what is produced.
    pub fn has_room(&self) -> bool {
        self.log_dirs.is_empty() || self.log_dirs.iter().any(|directory| !self.cordoned_directories.contains(directory))
    }

    /// Whether it may lead partitions.
    pub fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }

    pub fn endpoint(&self, listener: &str) -> Option<&BrokerEndpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.name == listener)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerEndpoint {
    /// The listener's name.
    pub name: String,
    pub host: String,
    pub port: u16,
    pub security_protocol: i16,
}

/// What settings belong to (`ConfigResource`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigResource {
    pub kind: ResourceKind,
    /// Empty for all brokers.
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceKind {
    Topic = 2,
    Broker = 4,
    BrokerLogger = 8,
    ClientMetrics = 16,
    Group = 32,
}

impl ResourceKind {
    pub fn from_id(id: i8) -> Option<Self> {
        [Self::Topic, Self::Broker, Self::BrokerLogger, Self::ClientMetrics, Self::Group]
            .into_iter()
            .find(|kind| *kind as i8 == id)
    }

    /// What one has to be allowed something on to see or alter settings of this kind (`AuthHelper`): the topic or group
    /// that they are of, or the cluster.
    pub fn guarded_by(self, name: &str) -> (ResourceType, &str) {
        match self {
            Self::Topic => (ResourceType::Topic, name),
            Self::Group => (ResourceType::Group, name),
            Self::Broker | Self::BrokerLogger | Self::ClientMetrics => (ResourceType::Cluster, CLUSTER_NAME),
        }
    }
}

impl ConfigResource {
    pub fn topic(name: &str) -> Self {
        Self { kind: ResourceKind::Topic, name: name.to_owned() }
    }

    pub fn broker(id: i32) -> Self {
        Self { kind: ResourceKind::Broker, name: id.to_string() }
    }

    pub fn all_brokers() -> Self {
        Self { kind: ResourceKind::Broker, name: String::new() }
    }

    pub fn group(id: &str) -> Self {
        Self { kind: ResourceKind::Group, name: id.to_owned() }
    }
}

impl Default for MetadataImage {
    /// Before the first record.
    fn default() -> Self {
        Self {
            generation: 0,
            offset: -1,
            epoch: 0,
            topics: OrderedMap::default(),
            topics_by_id: OrderedMap::default(),
            unified_names: OrderedMap::default(),
            partition_count: 0,
            replica_counts: ReplicaCounts::default(),
            brokers: Arc::default(),
            configs: OrderedMap::default(),
            features: Arc::default(),
            next_producer_id: 0,
            acls: Arc::default(),
            scram: ScramCredentials::default(),
            quotas: ClientQuotas::default(),
        }
    }
}

impl MetadataImage {
    /// Grows with every image of this process: two images of the same generation are the same. Answers that depend on
    /// nothing else may be kept by it.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Offset of the last record in it, -1 before the first.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Epoch of the controller that wrote the last record.
    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(name)
    }

    pub fn topic_by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.topics_by_id.get(&id)
    }

    pub fn partition(&self, topic: &str, index: i32) -> Option<&Arc<Partition>> {
        self.topic(topic)?.partition(index)
    }

    /// All topics in the order of their names.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.iter().map(|(_, topic)| topic)
    }

    /// Topics in the order of their names, from the first that is not less than `start`.
    pub fn topics_from(&self, start: &str) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.iter_from(start).map(|(_, topic)| topic)
    }

    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// Partitions of all topics together.
    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    pub fn broker(&self, id: i32) -> Option<&RegisteredBroker> {
        self.brokers.get(&id)
    }

    /// All brokers in the order of their ids.
    pub fn brokers(&self) -> impl Iterator<Item = &RegisteredBroker> {
        self.brokers.values()
    }

    /// What was set for a resource; empty where nothing was.
    pub fn config(&self, resource: &ConfigResource) -> &Arc<ConfigMap> {
        static EMPTY: LazyLock<Arc<ConfigMap>> = LazyLock::new(Arc::default);
        self.configs.get(resource).unwrap_or(&EMPTY)
    }

    pub fn topic_config(&self, name: &str) -> &Arc<ConfigMap> {
        self.config(&ConfigResource::topic(name))
    }

    /// Resources for which something was set, in order.
    pub fn configs(&self) -> impl Iterator<Item = (&ConfigResource, &Arc<ConfigMap>)> {
        self.configs.iter()
    }

    /// Features that are finalized by records, by name, and their levels.
    pub fn features(&self) -> &BTreeMap<String, i16> {
        &self.features
    }

    /// The level of a feature that all brokers have to keep to, 0 where none is finalized.
    pub fn feature_level(&self, feature: Feature) -> i16 {
        let supported = feature.supported();
        if supported.is_fixed { supported.max } else { self.features.get(supported.name).copied().unwrap_or(0) }
    }

    /// The first producer id that no broker was given.
    pub fn next_producer_id(&self) -> i64 {
        self.next_producer_id
    }

    /// Access control lists. As long as none changes, images have the same ones: what was decided by them may be kept
    /// with them.
    pub fn acls(&self) -> &Arc<Acls> {
        &self.acls
    }

    /// What logins by SCRAM are checked with.
    pub fn scram(&self) -> &ScramCredentials {
        &self.scram
    }

    /// Quotas of clients and addresses.
    pub fn quotas(&self) -> &ClientQuotas {
        &self.quotas
    }

    /// The topic whose name differs from this one at most in `.` and `_`.
    pub(super) fn colliding(&self, name: &TopicName) -> Option<&TopicName> {
        name.has_collision_chars().then(|| self.unified_names.get(&name.unified()))?
    }
}

impl Topic {
    pub fn partition(&self, index: i32) -> Option<&Arc<Partition>> {
        self.partitions.get(usize::try_from(index).ok()?)
    }
}
