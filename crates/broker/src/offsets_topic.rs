//! The group coordinator's way to the rest of the broker: the partitions of `__consumer_offsets`, and the topics.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use configuration::BrokerConfig;
use coordinator::group::{GroupCoordinator, OFFSETS_TOPIC, OffsetsLog, Topic, TopicSnapshot, Topics};
use coordinator::topic_log::{BoxFuture, TopicLog};
use metadata::{Applied, MetadataCache, MetadataDelta, MetadataImage, Partition};
use parking_lot::Mutex;
use storage::{ReadError, VerificationGuard};
use tokio::runtime::Handle;
use tokio::time::sleep;
use wire::api::create_topics::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use wire::batch::Batch;
use wire::{ErrorCode, Uuid};

use crate::controller::Controller;
use crate::partition::{Acks, PartitionTable, PendingCommits, ProduceCompletion, ProduceOutcome};
use crate::threads::spawn_blocking;

/// How often damaged records are read again while they are being repaired.
const MENDING_INTERVAL: Duration = Duration::from_millis(50);

/// The leader epochs in which partitions of `__consumer_offsets` were loaded, by partition. What a coordinator knows is
/// what the log had then, so that it writes in no other epoch.
pub(crate) type LoadedEpochs = Arc<Mutex<BTreeMap<i32, i32>>>;

/// The partitions of `__consumer_offsets` on this node.
#[derive(Clone)]
pub(crate) struct OffsetsPartitions {
    pub(crate) partitions: Arc<PartitionTable>,
    pub(crate) loaded: LoadedEpochs,
}

impl OffsetsPartitions {
    /// Queues a batch in the epoch in which its partition was loaded. It is appended when what is returned is
    /// committed.
    pub(crate) fn enqueue(
        &self,
        partition: i32,
        batch: Batch,
    ) -> Result<(PendingCommits, Arc<ProduceCompletion>), ErrorCode> {
        let leader_epoch = self.loaded.lock().get(&partition).copied();
        let partition = self.partitions.find_by_name(OFFSETS_TOPIC, partition)?;
        let leader_epoch = leader_epoch.ok_or(ErrorCode::NOT_LEADER_OR_FOLLOWER)?;
        let completion = Arc::new(ProduceCompletion::new(1));
        let mut commits = PendingCommits::default();
        partition.enqueue_in_epoch(Some(leader_epoch), batch, Acks::All, &completion, 0, &mut commits);
        Ok((commits, completion))
    }

    /// The first offset of a log, and the offset after its last record.
    pub(crate) fn offsets(&self, partition: i32) -> Result<(i64, i64), ErrorCode> {
        let partition = self.partitions.find_by_name(OFFSETS_TOPIC, partition)?;
        partition.check_leader()?;
        // What is not replicated yet is not taken back as long as this node leads.
        Ok((partition.log_start_offset(), partition.view().log_end_offset()))
    }
}

/// What became of a batch.
pub(crate) fn appended(outcomes: Vec<ProduceOutcome>) -> Result<i64, ErrorCode> {
    match outcomes.into_iter().next() {
        Some(ProduceOutcome::Appended { base_offset, .. }) => Ok(base_offset),
        Some(ProduceOutcome::Refused(refusal)) => Err(refusal.code),
        None => Err(ErrorCode::UNKNOWN_SERVER_ERROR),
    }
}

#[derive(Clone)]
pub(crate) struct OffsetsTopic {
    pub(crate) log: OffsetsPartitions,
    pub(crate) metadata: Arc<MetadataCache>,
    pub(crate) controller: Controller,
    pub(crate) config: Arc<ArcSwap<BrokerConfig>>,
}

impl TopicLog for OffsetsTopic {
    fn append(&self, partition: i32, batch: Batch) -> BoxFuture<Result<i64, ErrorCode>> {
        let enqueued = self.log.enqueue(partition, batch);
        Box::pin(async move {
            let (commits, completion) = enqueued?;
            commits.commit();
            appended(poll_fn(|cx| completion.poll(cx)).await)
        })
    }

    fn offsets(&self, partition: i32) -> Result<(i64, i64), ErrorCode> {
        self.log.offsets(partition)
    }

    fn read(&self, partition: i32, from_offset: i64, max_bytes: u32) -> BoxFuture<Result<Bytes, ErrorCode>> {
        let partition = self.log.partitions.find_by_name(OFFSETS_TOPIC, partition);
        Box::pin(async move {
            let partition = partition?;
            let mut from = from_offset;
            loop {
                let reading = Arc::clone(&partition);
                match spawn_blocking(move || reading.read(from, max_bytes)).await {
                    Ok(Ok(bytes)) => return Ok(bytes),
                    Ok(Err(ReadError::Corrupt { first_offset, next_offset })) => {
                        partition.report_damage();
                        if partition.is_being_repaired() {
                            sleep(MENDING_INTERVAL).await;
                            continue;
                        }
                        // What is damaged is lost; the groups in the rest are not.
                        tracing::error!(
                            partition = partition.index,
                            first_offset,
                            next_offset,
                            "damaged records of groups are left out"
                        );
                        from = next_offset;
                    }
                    Ok(Err(error)) => {
                        tracing::error!(%error, "groups cannot be read");
                        return Err(ErrorCode::KAFKA_STORAGE_ERROR);
                    }
                    Err(_) => return Err(ErrorCode::UNKNOWN_SERVER_ERROR),
                }
            }
        })
    }

    fn max_batch_bytes(&self) -> usize {
        match self.log.partitions.any_of(OFFSETS_TOPIC) {
            Some(partition) => partition.settings().rules.max_message_bytes,
            None => self.config.load().message_max_bytes.unsigned_abs() as usize,
        }
    }
}

impl OffsetsLog for OffsetsTopic {
    fn append_transactional(
        &self,
        partition: i32,
        batch: Batch,
        _: Option<VerificationGuard>,
    ) -> BoxFuture<Result<i64, ErrorCode>> {
        self.append(partition, batch)
    }

    fn append_marker(&self, partition: i32, batch: Batch, _: i8) -> BoxFuture<Result<i64, ErrorCode>> {
        self.append(partition, batch)
    }
}

impl Topics for OffsetsTopic {
    fn topic(&self, name: &str) -> Option<Topic> {
        let image = self.metadata.load();
        let topic = image.topic(name)?;
        Some(Topic { id: topic.id, partition_count: topic.partitions.len() as i32 })
    }

    fn name(&self, id: Uuid) -> Option<String> {
        self.metadata.load().topic_by_id(id).map(|topic| topic.name.to_string())
    }

    fn snapshot(&self) -> Arc<dyn TopicSnapshot> {
        Arc::new(ImageTopics(self.metadata.load_full()))
    }

    fn make_durable(&self, topic: &str, partition: i32, offset: i64) -> Option<BoxFuture<Result<(), ErrorCode>>> {
        let completion = self.log.partitions.find_by_name(topic, partition).ok()?.make_durable(offset)?;
        Some(Box::pin(async move {
            match appended(poll_fn(|cx| completion.poll(cx)).await) {
                // All in-sync replicas have it; that they are too few does not matter to readers.
                Ok(_) | Err(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND) => Ok(()),
                Err(code) => Err(code),
            }
        }))
    }

    fn offsets_partition_count(&self) -> Option<i32> {
        self.topic(OFFSETS_TOPIC).map(|topic| topic.partition_count)
    }

    fn create_offsets_topic(&self) -> BoxFuture<Result<(), ErrorCode>> {
        let topic = creatable(&self.config.load(), self.metadata.load().brokers().count());
        let controller = self.controller.clone();
        Box::pin(async move {
            let request = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
            let answer = controller.ask(request).await.map_err(|error| error.code())?;
            match answer.topics.first().map(|result| result.error_code) {
                Some(ErrorCode::NONE | ErrorCode::TOPIC_ALREADY_EXISTS) => Ok(()),
                Some(code) => Err(code),
                None => Err(ErrorCode::UNKNOWN_SERVER_ERROR),
            }
        })
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
    let setting = "offsets.topic.replication.factor";
    CreatableTopic {
        name: OFFSETS_TOPIC.into(),
        num_partitions: config.offsets_topic_num_partitions,
        replication_factor: config.internal_replication_factor(
            setting,
            config.offsets_topic_replication_factor,
            brokers,
        ),
        configs: [
            ("cleanup.policy", "compact".to_owned()),
            ("compression.type", "producer".to_owned()),
            ("segment.bytes", config.offsets_topic_segment_bytes.to_string()),
        ]
        .map(|(name, value)| CreatableTopicConfig { name: name.into(), value: Some(value) })
        .into(),
        ..Default::default()
    }
}

/// Has the group coordinator serve the partitions that this node leads, and no others; reports deleted topics to it. To
/// be subscribed to the metadata behind the partition table, whose roles it reads.
pub(crate) struct GroupFollower {
    pub(crate) groups: Arc<GroupCoordinator>,
    pub(crate) partitions: Arc<PartitionTable>,
    pub(crate) loaded: LoadedEpochs,
    pub(crate) runtime: Handle,
    /// One look at the roles at a time, or an older one might have the last word.
    pub(crate) looking: Mutex<()>,
}

impl GroupFollower {
    /// Loads and unloads as this node leads now.
    pub(crate) fn follow_leadership(&self, image: &MetadataImage) {
        let _looking = self.looking.lock();
        let count = image.topic(OFFSETS_TOPIC).map_or(0, |topic| topic.partitions.len() as i32);
        for partition in 0..count {
            let found = self.partitions.find_by_name(OFFSETS_TOPIC, partition).ok();
            let led_in = found.filter(|partition| partition.is_leader()).map(|partition| partition.leader_epoch());
            self.serve(partition, led_in);
        }
    }

    /// Serves a partition as of a leader epoch, or not at all.
    fn serve(&self, partition: i32, led_in: Option<i32>) {
        let loaded_in = self.loaded.lock().get(&partition).copied();
        if loaded_in == led_in {
            return;
        }
        let Some(leader_epoch) = led_in else {
            self.groups.unload(partition);
            self.loaded.lock().remove(&partition);
            return;
        };
        // From this call on requests get COORDINATOR_LOAD_IN_PROGRESS, and no earlier write is done any more.
        let load = self.groups.load(partition);
        self.loaded.lock().insert(partition, leader_epoch);
        self.runtime.spawn(async move {
            match load.await {
                // It has lost the partition again.
                Ok(()) | Err(ErrorCode::NOT_COORDINATOR | ErrorCode::NOT_LEADER_OR_FOLLOWER) => {}
                Err(code) => tracing::error!(partition, %code, "the groups of a partition cannot be served"),
            }
        });
    }
}

impl Applied for GroupFollower {
    fn apply(&self, image: &Arc<MetadataImage>, delta: &MetadataDelta) {
        for topic in delta.deleted.iter().filter(|topic| &*topic.name == OFFSETS_TOPIC) {
            for partition in 0..topic.partitions.len() {
                self.serve(partition as i32, None);
            }
        }
        let is_offsets = |name: &str| name == OFFSETS_TOPIC;
        let concerns_offsets = delta.created.iter().any(|topic| is_offsets(&topic.name))
            || delta.changed.iter().any(|change| is_offsets(&change.after.name));
        // The registration of this broker gives all partitions their roles.
        if concerns_offsets || delta.brokers_changed {
            self.follow_leadership(image);
        }
        let deleted: Vec<_> = delta.deleted.iter().map(|topic| (topic.name.to_string(), topic.id)).collect();
        if !deleted.is_empty() {
            let _runtime = self.runtime.enter();
            self.groups.topics_deleted(&deleted);
        }
    }
}
