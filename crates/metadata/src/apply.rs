//! From one image to the next: what each record of the metadata log means. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use configuration::ConfigMap;
use wire::Uuid;
use wire::state::metadata::{
    AccessControlEntryRecord, BrokerEndpoint as EndpointRecord, BrokerFeature, BrokerRegistrationChangeRecord,
    ConfigRecord, FeatureLevelRecord, MetadataRecord, PartitionChangeRecord, PartitionRecord, ProducerIdsRecord,
    RegisterBrokerRecord, TopicRecord,
};

use super::acl::{Acl, InvalidAcl};
use super::image::{
    BrokerEndpoint, ConfigResource, MetadataImage, NO_LEADER, Partition, RegisteredBroker, ResourceKind, Topic,
};
use super::name::{InvalidTopicName, TopicName};
use super::quota::InvalidQuota;
use super::scram::InvalidCredential;

/// A change record's leader when the leader stays.
pub(super) const LEADER_UNCHANGED: i32 = -2;

/// Why records do not fit the image that they follow. Only a damaged log or a newer version leads to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("topic id {0} is not in the metadata")]
    UnknownTopic(Uuid),
    #[error("topic {0} is not in the metadata")]
    UnknownTopicName(String),
    #[error("topic {0} is in the metadata already")]
    TopicExists(String),
    #[error("partition {index} of topic {topic} does not follow the ones that are there")]
    PartitionOutOfOrder { topic: String, index: i32 },
    #[error("broker {0} is not in the metadata")]
    UnknownBroker(i32),
    #[error("resource type {0} has no settings")]
    UnknownResource(i8),
    #[error("{0}")]
    TopicName(#[from] InvalidTopicName),
    #[error("an access control entry is none: {0}")]
    InvalidAcl(#[from] InvalidAcl),
    #[error("access control entry {0} is in the metadata already, or another that says the same")]
    AclExists(Uuid),
    #[error("access control entry {0} is not in the metadata")]
    UnknownAcl(Uuid),
    #[error("{0}")]
    Credential(#[from] InvalidCredential),
    #[error("{0}")]
    Quota(#[from] InvalidQuota),
    #[error("a record of a kind that this version does not serve: {0}")]
    Unsupported(&'static str),
}

/// What is different between an image and the one before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataDelta {
    pub created: Vec<Arc<Topic>>,
    /// Topics with other partitions than before: more of them, or other leaders, epochs and replicas.
    pub changed: Vec<TopicChange>,
    pub deleted: Vec<Arc<Topic>>,
    /// Resources whose settings changed. A created or deleted topic's are not among them.
    pub configs: BTreeSet<ConfigResource>,
    pub brokers_changed: bool,
    pub features_changed: bool,
    pub acls_changed: bool,
    /// SCRAM credentials.
    pub scram_changed: bool,
    pub quotas_changed: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TopicChange {
    pub before: Arc<Topic>,
    pub after: Arc<Topic>,
}

impl TopicChange {
    /// Indexes of partitions that were added.
    pub fn added(&self) -> std::ops::Range<usize> {
        self.before.partitions.len()..self.after.partitions.len()
    }
}

impl MetadataDelta {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An image under change.
struct Change {
    image: MetadataImage,
    /// Topics changed by records of this batch. They are put into the image at the end: a topic of ten thousand
    /// partitions has so many records.
    touched: BTreeMap<Uuid, Topic>,
    configs: BTreeSet<ConfigResource>,
    deleted: Vec<Arc<Topic>>,
    brokers_changed: bool,
    features_changed: bool,
    acls_changed: bool,
    scram_changed: bool,
    quotas_changed: bool,
}

impl MetadataImage {
    /// The image after these records, the last of which is at `offset` and was written in `epoch`.
    pub fn apply(
        &self,
        records: &[MetadataRecord],
        offset: i64,
        epoch: i32,
    ) -> Result<(Self, MetadataDelta), ApplyError> {
        let mut change = Change {
            image: self.clone(),
            touched: BTreeMap::new(),
            configs: BTreeSet::new(),
            deleted: Vec::new(),
            brokers_changed: false,
            features_changed: false,
            acls_changed: false,
            scram_changed: false,
            quotas_changed: false,
        };
        for record in records {
            change.record(record)?;
        }
        let (mut image, delta) = change.finish(self);
        image.generation = self.generation + 1;
        image.offset = offset;
        image.epoch = epoch;
        Ok((image, delta))
    }

    /// Makes an image that was read from a snapshot the successor of `before`; `delta`, which is to the empty image,
    /// becomes the one to `before`.
    pub fn continue_after(&mut self, before: &Self, delta: &mut MetadataDelta) {
        self.generation = before.generation + 1;
        delta.created.clear();
        for topic in self.topics() {
            match before.topic_by_id(topic.id) {
                None => delta.created.push(topic.clone()),
                Some(old) if old != topic => {
                    delta.changed.push(TopicChange { before: old.clone(), after: topic.clone() });
                }
                Some(_) => {}
            }
        }
        delta.deleted = before.topics().filter(|topic| self.topic_by_id(topic.id).is_none()).cloned().collect();
        let resources = self.configs().chain(before.configs()).map(|(resource, _)| resource);
        let changed = resources.filter(|resource| self.config(resource) != before.config(resource));
        delta.configs = changed.cloned().collect();
        delta.brokers_changed = self.brokers != before.brokers;
        delta.features_changed = self.features != before.features;
        delta.acls_changed = self.acls != before.acls;
        if !delta.acls_changed {
            self.acls = Arc::clone(&before.acls);
        }
        delta.scram_changed = self.scram != before.scram;
        delta.quotas_changed = self.quotas != before.quotas;
    }

    /// Records that make this image out of the empty one.
    pub fn to_records(&self) -> Vec<MetadataRecord> {
        let mut records: Vec<MetadataRecord> = Vec::new();
        for (name, level) in self.features.iter() {
            records.push(FeatureLevelRecord { name: name.clone(), feature_level: *level }.into());
        }
        records.extend(self.brokers.values().map(|broker| broker.to_record().into()));
        for topic in self.topics() {
            records.push(TopicRecord { name: topic.name.to_string(), topic_id: topic.id }.into());
            let partitions = topic.partitions.iter().enumerate();
            records.extend(partitions.map(|(index, partition)| partition.to_record(topic.id, index as i32).into()));
        }
        for (resource, settings) in self.configs() {
            records.extend(settings.iter().map(|(name, value)| resource.to_record(name, Some(value)).into()));
        }
        records.extend(self.acls.to_records().map(MetadataRecord::from));
        records.extend(self.scram.to_records());
        records.extend(self.quotas.to_records());
        if self.next_producer_id > 0 {
            let next_producer_id = self.next_producer_id;
            records.push(ProducerIdsRecord { broker_id: -1, broker_epoch: -1, next_producer_id }.into());
        }
        records
    }
}

impl Change {
    fn record(&mut self, record: &MetadataRecord) -> Result<(), ApplyError> {
        match record {
            MetadataRecord::Topic(record) => self.create_topic(record),
            MetadataRecord::Partition(record) => self.partition(record),
            MetadataRecord::PartitionChange(record) => self.change_partition(record),
            MetadataRecord::RemoveTopic(record) => self.remove_topic(record.topic_id),
            MetadataRecord::Config(record) => self.config(record),
            MetadataRecord::RegisterBroker(record) => {
                self.brokers_changed = true;
                let broker = RegisteredBroker::from_record(record);
                Arc::make_mut(&mut self.image.brokers).insert(broker.id, broker);
                Ok(())
            }
            MetadataRecord::UnregisterBroker(record) => {
                self.brokers_changed = true;
                let removed = Arc::make_mut(&mut self.image.brokers).remove(&record.broker_id);
                removed.map(|_| ()).ok_or(ApplyError::UnknownBroker(record.broker_id))
            }
            MetadataRecord::BrokerRegistrationChange(record) => self.change_broker(record),
            MetadataRecord::ProducerIds(record) => {
                self.image.next_producer_id = record.next_producer_id;
                Ok(())
            }
            MetadataRecord::FeatureLevel(record) => {
                self.features_changed = true;
                let features = Arc::make_mut(&mut self.image.features);
                match record.feature_level {
                    0 => _ = features.remove(&record.name),
                    level => _ = features.insert(record.name.clone(), level),
                }
                Ok(())
            }
            MetadataRecord::NoOp(_) => Ok(()),
            MetadataRecord::UserScramCredential(record) => {
                self.scram_changed = true;
                Ok(self.image.scram.set(record)?)
            }
            MetadataRecord::RemoveUserScramCredential(record) => {
                self.scram_changed = true;
                Ok(self.image.scram.remove(record)?)
            }
            MetadataRecord::AccessControlEntry(record) => self.create_acl(record),
            MetadataRecord::RemoveAccessControlEntry(record) => self.remove_acl(record.id),
            MetadataRecord::ClientQuota(record) => {
                self.quotas_changed = true;
                Ok(self.image.quotas.apply(record)?)
            }
            MetadataRecord::BeginTransaction(_)
            | MetadataRecord::EndTransaction(_)
            | MetadataRecord::AbortTransaction(_) => Err(ApplyError::Unsupported("metadata transactions")),
            MetadataRecord::RegisterController(_) => Err(ApplyError::Unsupported("registrations of controllers")),
            MetadataRecord::ClearElr(record) => self.clear_eligible_leaders(&record.topic_name),
        }
    }

    fn create_topic(&mut self, record: &TopicRecord) -> Result<(), ApplyError> {
        let name = TopicName::new(&record.name)?;
        if self.image.topic(&name).is_some() || self.image.topic_by_id(record.topic_id).is_some() {
            return Err(ApplyError::TopicExists(record.name.clone()));
        }
        let topic = Topic { name, id: record.topic_id, partitions: Vec::new() };
        self.put(Arc::new(topic.clone()));
        self.touched.insert(topic.id, topic);
        Ok(())
    }

    /// Adds a topic to the image, or replaces it.
    fn put(&mut self, topic: Arc<Topic>) {
        if topic.name.has_collision_chars() {
            self.image.unified_names.insert(topic.name.unified(), topic.name.clone());
        }
        self.image.topics_by_id.insert(topic.id, topic.clone());
        self.image.topics.insert(topic.name.clone(), topic);
    }

    fn touch(&mut self, id: Uuid) -> Result<&mut Topic, ApplyError> {
        if !self.touched.contains_key(&id) {
            let topic = self.image.topic_by_id(id).ok_or(ApplyError::UnknownTopic(id))?;
            self.touched.insert(id, Topic::clone(topic));
        }
        self.touched.get_mut(&id).ok_or(ApplyError::UnknownTopic(id))
    }

    fn partition(&mut self, record: &PartitionRecord) -> Result<(), ApplyError> {
        let topic = self.touch(record.topic_id)?;
        let out_of_order =
            || ApplyError::PartitionOutOfOrder { topic: topic.name.to_string(), index: record.partition_id };
        let index = usize::try_from(record.partition_id).map_err(|_| out_of_order())?;
        let partition = Arc::new(Partition::from_record(record));
        match topic.partitions.len().checked_sub(index) {
            None => return Err(out_of_order()),
            Some(0) => {
                topic.partitions.push(partition);
                self.image.partition_count += 1;
            }
            Some(_) => topic.partitions[index] = partition,
        }
        Ok(())
    }

    fn change_partition(&mut self, record: &PartitionChangeRecord) -> Result<(), ApplyError> {
        let topic = self.touch(record.topic_id)?;
        let name = topic.name.clone();
        let partition = usize::try_from(record.partition_id)
            .ok()
            .and_then(|index| topic.partitions.get_mut(index))
            .ok_or_else(|| ApplyError::PartitionOutOfOrder { topic: name.to_string(), index: record.partition_id })?;
        Arc::make_mut(partition).change(record);
        Ok(())
    }

    /// Of one topic, or of all when the name is empty.
    fn clear_eligible_leaders(&mut self, name: &str) -> Result<(), ApplyError> {
        let ids: Vec<Uuid> = if name.is_empty() {
            self.image.topics().map(|topic| topic.id).collect()
        } else {
            vec![self.image.topic(name).ok_or_else(|| ApplyError::UnknownTopicName(name.to_owned()))?.id]
        };
        for id in ids {
            let topic = self.touched.get(&id).or_else(|| self.image.topic_by_id(id).map(|topic| &**topic));
            if topic.is_some_and(|topic| topic.partitions.iter().any(|partition| partition.has_eligible_leaders())) {
                let with_some = self.touch(id)?.partitions.iter_mut().filter(|p| p.has_eligible_leaders());
                for partition in with_some {
                    Arc::make_mut(partition).change(&PartitionChangeRecord {
                        eligible_leader_replicas: Some(Vec::new()),
                        last_known_elr: Some(Vec::new()),
                        ..PartitionChangeRecord::default()
                    });
                }
            }
        }
        Ok(())
    }

    fn remove_topic(&mut self, id: Uuid) -> Result<(), ApplyError> {
        let topic = self.image.topics_by_id.remove(&id).ok_or(ApplyError::UnknownTopic(id))?;
        let partitions = self.touched.remove(&id).map_or(topic.partitions.len(), |touched| touched.partitions.len());
        self.image.partition_count -= partitions;
        self.image.topics.remove(&topic.name);
        self.image.unified_names.remove(&topic.name.unified());
        let resource = ConfigResource::topic(&topic.name);
        self.image.configs.remove(&resource);
        self.configs.remove(&resource);
        self.deleted.push(topic);
        Ok(())
    }

    fn config(&mut self, record: &ConfigRecord) -> Result<(), ApplyError> {
        let kind =
            ResourceKind::from_id(record.resource_type).ok_or(ApplyError::UnknownResource(record.resource_type))?;
        let resource = ConfigResource { kind, name: record.resource_name.clone() };
        let mut settings = ConfigMap::clone(self.image.config(&resource));
        match &record.value {
            Some(value) => _ = settings.insert(record.name.clone(), value.clone()),
            None => _ = settings.remove(&record.name),
        }
        if settings.is_empty() {
            self.image.configs.remove(&resource);
        } else {
            self.image.configs.insert(resource.clone(), Arc::new(settings));
        }
        self.configs.insert(resource);
        Ok(())
    }

    fn change_broker(&mut self, record: &BrokerRegistrationChangeRecord) -> Result<(), ApplyError> {
        self.brokers_changed = true;
        let broker = Arc::make_mut(&mut self.image.brokers)
            .get_mut(&record.broker_id)
            .ok_or(ApplyError::UnknownBroker(record.broker_id))?;
        match record.fenced {
            0 => {}
            fenced => broker.fenced = fenced > 0,
        }
        broker.in_controlled_shutdown |= record.in_controlled_shutdown > 0;
        if !record.log_dirs.is_empty() {
            broker.log_dirs = record.log_dirs.clone();
        }
        if let Some(cordoned) = &record.cordoned_log_dirs {
            broker.cordoned_directories.clone_from(cordoned);
        }
        Ok(())
    }

    fn create_acl(&mut self, record: &AccessControlEntryRecord) -> Result<(), ApplyError> {
        let acl = Acl::from_record(record)?;
        self.acls_changed = true;
        let is_new = Arc::make_mut(&mut self.image.acls).insert(record.id, acl);
        is_new.then_some(()).ok_or(ApplyError::AclExists(record.id))
    }

    fn remove_acl(&mut self, id: Uuid) -> Result<(), ApplyError> {
        self.acls_changed = true;
        let was_there = Arc::make_mut(&mut self.image.acls).remove(id);
        was_there.then_some(()).ok_or(ApplyError::UnknownAcl(id))
    }

    /// Counts the replicas of a topic again, which has no partitions before it is made, and none when it is gone.
    fn count_replicas(&mut self, before: &[Arc<Partition>], after: &[Arc<Partition>]) {
        fn replicas(partition: Option<&Arc<Partition>>) -> &[i32] {
            partition.map_or(&[], |partition| &partition.replicas)
        }
        for index in 0..before.len().max(after.len()) {
            let (before, after) = (before.get(index), after.get(index));
            if !before.zip(after).is_some_and(|(before, after)| Arc::ptr_eq(before, after)) {
                self.image.replica_counts.update(replicas(before), replicas(after));
            }
        }
    }

    fn finish(mut self, before: &MetadataImage) -> (MetadataImage, MetadataDelta) {
        let mut delta = MetadataDelta {
            brokers_changed: self.brokers_changed,
            features_changed: self.features_changed,
            acls_changed: self.acls_changed,
            scram_changed: self.scram_changed,
            quotas_changed: self.quotas_changed,
            ..MetadataDelta::default()
        };
        let removed = self.deleted.iter().map(|topic| topic.id).filter(|id| !self.touched.contains_key(id));
        for id in removed.collect::<BTreeSet<Uuid>>() {
            let gone = before.topic_by_id(id).map_or(&[][..], |topic| &topic.partitions);
            self.count_replicas(gone, &[]);
        }
        for topic in std::mem::take(&mut self.touched).into_values() {
            let old = before.topic_by_id(topic.id).map_or(&[][..], |topic| &topic.partitions);
            self.count_replicas(old, &topic.partitions);
            let topic = Arc::new(topic);
            self.put(topic.clone());
            match before.topic_by_id(topic.id) {
                None => delta.created.push(topic),
                Some(old) if *old != topic => delta.changed.push(TopicChange { before: old.clone(), after: topic }),
                Some(_) => {}
            }
        }
        // A topic that came and went within the batch was never there.
        delta.deleted = self.deleted.into_iter().filter(|topic| before.topic_by_id(topic.id).is_some()).collect();
        let created: BTreeSet<&str> = delta.created.iter().map(|topic| &*topic.name).collect();
        let is_new =
            |resource: &ConfigResource| resource.kind == ResourceKind::Topic && created.contains(&*resource.name);
        delta.configs = self.configs.into_iter().filter(|resource| !is_new(resource)).collect();
        (self.image, delta)
    }
}

impl Partition {
    fn from_record(record: &PartitionRecord) -> Self {
        Self {
            replicas: record.replicas.clone(),
            directories: record.directories.clone(),
            isr: record.isr.clone(),
            removing_replicas: record.removing_replicas.clone(),
            adding_replicas: record.adding_replicas.clone(),
            leader: record.leader,
            leader_recovery_state: record.leader_recovery_state,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
            eligible_leader_replicas: record.eligible_leader_replicas.clone().unwrap_or_default(),
            last_known_elr: record.last_known_elr.clone().unwrap_or_default(),
        }
    }

    pub(super) fn to_record(&self, topic_id: Uuid, partition_id: i32) -> PartitionRecord {
        let some = |list: &[i32]| (!list.is_empty()).then(|| list.to_vec());
        PartitionRecord {
            partition_id,
            topic_id,
            replicas: self.replicas.clone(),
            isr: self.isr.clone(),
            removing_replicas: self.removing_replicas.clone(),
            adding_replicas: self.adding_replicas.clone(),
            leader: self.leader,
            leader_recovery_state: self.leader_recovery_state,
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            directories: self.directories.clone(),
            eligible_leader_replicas: some(&self.eligible_leader_replicas),
            last_known_elr: some(&self.last_known_elr),
        }
    }

    fn has_eligible_leaders(&self) -> bool {
        !self.eligible_leader_replicas.is_empty() || !self.last_known_elr.is_empty()
    }

    /// `PartitionRegistration.merge`: every change is a new partition epoch, every record with a leader a new leader
    /// epoch.
    pub(super) fn change(&mut self, record: &PartitionChangeRecord) {
        fn put<T: Clone>(field: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                field.clone_from(value);
            }
        }
        put(&mut self.isr, &record.isr);
        put(&mut self.replicas, &record.replicas);
        put(&mut self.removing_replicas, &record.removing_replicas);
        put(&mut self.adding_replicas, &record.adding_replicas);
        put(&mut self.directories, &record.directories);
        put(&mut self.eligible_leader_replicas, &record.eligible_leader_replicas);
        put(&mut self.last_known_elr, &record.last_known_elr);
        if record.leader != LEADER_UNCHANGED {
            self.leader = record.leader.max(NO_LEADER);
            self.leader_epoch += 1;
        }
        if record.leader_recovery_state >= 0 {
            self.leader_recovery_state = record.leader_recovery_state;
        }
        self.partition_epoch += 1;
    }
}

impl RegisteredBroker {
    fn from_record(record: &RegisterBrokerRecord) -> Self {
        let endpoints = record.end_points.iter().map(|endpoint| BrokerEndpoint {
            name: endpoint.name.clone(),
            host: endpoint.host.clone(),
            port: endpoint.port,
            security_protocol: endpoint.security_protocol,
        });
        let features = record
            .features
            .iter()
            .map(|feature| (feature.name.clone(), (feature.min_supported_version, feature.max_supported_version)));
        Self {
            id: record.broker_id,
            epoch: record.broker_epoch,
            incarnation_id: record.incarnation_id,
            endpoints: endpoints.collect(),
            features: features.collect(),
            rack: record.rack.clone(),
            fenced: record.fenced,
            in_controlled_shutdown: record.in_controlled_shutdown,
            log_dirs: record.log_dirs.clone(),
            cordoned_directories: record.cordoned_log_dirs.clone().unwrap_or_default(),
        }
    }

    pub(super) fn to_record(&self) -> RegisterBrokerRecord {
        let end_points = self.endpoints.iter().map(|endpoint| EndpointRecord {
            name: endpoint.name.clone(),
            host: endpoint.host.clone(),
            port: endpoint.port,
            security_protocol: endpoint.security_protocol,
        });
        let features = self.features.iter().map(|(name, (min, max))| BrokerFeature {
            name: name.clone(),
            min_supported_version: *min,
            max_supported_version: *max,
        });
        RegisterBrokerRecord {
            broker_id: self.id,
            broker_epoch: self.epoch,
            incarnation_id: self.incarnation_id,
            end_points: end_points.collect(),
            features: features.collect(),
            rack: self.rack.clone(),
            fenced: self.fenced,
            in_controlled_shutdown: self.in_controlled_shutdown,
            log_dirs: self.log_dirs.clone(),
            cordoned_log_dirs: Some(self.cordoned_directories.clone()).filter(|cordoned| !cordoned.is_empty()),
            ..RegisterBrokerRecord::default()
        }
    }
}

impl ConfigResource {
    pub(super) fn to_record(&self, name: &str, value: Option<&String>) -> ConfigRecord {
        ConfigRecord {
            resource_type: self.kind as i8,
            resource_name: self.name.clone(),
            name: name.to_owned(),
            value: value.cloned(),
        }
    }
}

#[cfg(test)]
mod tests;
