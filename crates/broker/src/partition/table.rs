//! All partitions of this broker, by topic id and by name, and their directories.
//!
//! The metadata image says which partitions there are; this table follows it ([`Applied`]). A directory is
//! called as Kafka calls it, `topic-partition`; names come from [`TopicName`], so none can lead out of the data
//! directory.

mod directories;
mod upkeep;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use log::checkpoint::{CLEANER_OFFSET_FILE, Offsets};
use log::{Log, LogError, OpenOptions, ScrubCursor};
use parking_lot::{Mutex, RwLock};
use wire::{ErrorCode, Uuid};

use super::{Partition, Settings, Shared};
use crate::config::{BrokerConfig, ConfigMap, TopicConfig};
use crate::meta::{Applied, ConfigResource, MetadataDelta, MetadataImage, ResourceKind, Topic, TopicName};

/// Threads that open or make logs. They mostly wait for the disk.
const OPENING_THREADS: usize = 8;

/// The partitions of one topic, by index. One whose log could not be opened is missing.
struct OpenTopic {
    name: TopicName,
    id: Uuid,
    partitions: Vec<Option<Arc<Partition>>>,
}

#[derive(Default)]
struct Topics {
    by_id: HashMap<Uuid, Arc<OpenTopic>>,
    by_name: HashMap<TopicName, Arc<OpenTopic>>,
}

pub struct PartitionTable {
    shared: Shared,
    data_dir: PathBuf,
    config: Arc<ArcSwap<BrokerConfig>>,
    topics: RwLock<Topics>,
    /// Directories of deleted topics that wait for their end, and since when by the monotonic clock.
    deleted: Mutex<Vec<(PathBuf, i64)>>,
    was_clean: bool,
    scrub: Mutex<Scrub>,
    /// Where the last compaction of each log ended.
    cleaned_to: Mutex<Offsets>,
    /// Ends a compaction that is under way.
    stopping: AtomicBool,
    /// What the checkpoint files hold.
    noted: Mutex<(Offsets, Offsets)>,
}

/// Where the check of what is stored has got to.
#[derive(Default)]
struct Scrub {
    /// Those still to come in this round.
    partitions: Vec<Arc<Partition>>,
    cursor: ScrubCursor,
}

/// What the broker remembers of its logs when it starts.
#[derive(Default)]
struct Remembered {
    recovery_points: Offsets,
    log_start_offsets: Offsets,
    clean_shutdown: bool,
}

impl PartitionTable {
    /// Opens the logs of all partitions of the image, and makes those that are missing.
    pub fn open(
        shared: Shared,
        data_dir: PathBuf,
        config: Arc<ArcSwap<BrokerConfig>>,
        image: &MetadataImage,
    ) -> Result<Self, LogError> {
        let mut table = Self {
            shared,
            data_dir,
            config,
            topics: RwLock::default(),
            deleted: Mutex::default(),
            was_clean: false,
            scrub: Mutex::default(),
            cleaned_to: Mutex::default(),
            stopping: AtomicBool::new(false),
            noted: Mutex::default(),
        };
        let remembered = table.read_remembered()?;
        table.was_clean = remembered.clean_shutdown;
        *table.cleaned_to.get_mut() = table.read_checkpoint(CLEANER_OFFSET_FILE);
        table.set_aside_strays(image)?;
        let topics: Vec<&Arc<Topic>> = image.topics().collect();
        table.open_topics(&topics, image, &remembered);
        Ok(table)
    }

    /// The partition that a client names by its topic's name.
    pub fn find_by_name(&self, topic: &str, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let topics = self.topics.read();
        let topic = topics.by_name.get(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        topic.partition(index)
    }

    /// The partition that a client names by its topic's id (KIP-516).
    pub fn find_by_id(&self, topic: Uuid, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let topics = self.topics.read();
        let topic = topics.by_id.get(&topic).ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?;
        topic.partition(index)
    }

    /// All partitions that are open.
    pub fn all(&self) -> Vec<Arc<Partition>> {
        let topics = self.topics.read();
        topics.by_id.values().flat_map(|topic| topic.partitions.iter().flatten().cloned()).collect()
    }

    /// Whether the last stop was a clean one.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Opens what is not open yet of the given topics.
    fn open_topics(&self, topics: &[&Arc<Topic>], image: &MetadataImage, remembered: &Remembered) {
        let mut work = Vec::new();
        let mut opened: Vec<OpenTopic> = Vec::new();
        for (place, topic) in topics.iter().enumerate() {
            let known = self.topics.read().by_id.get(&topic.id).cloned();
            let mut partitions = known.map_or_else(Vec::new, |known| known.partitions.clone());
            let settings = self.settings(image.topic_config(&topic.name), &topic.name);
            work.extend((partitions.len()..topic.partitions.len()).map(|index| (place, index, Arc::clone(&settings))));
            partitions.resize(topic.partitions.len(), None);
            opened.push(OpenTopic { name: topic.name.clone(), id: topic.id, partitions });
        }
        let work = Mutex::new(work.into_iter());
        let opened = Mutex::new(opened);
        std::thread::scope(|scope| {
            for _ in 0..OPENING_THREADS.min(work.lock().len()) {
                scope.spawn(|| {
                    loop {
                        let Some((place, index, settings)) = work.lock().next() else { return };
                        let partition = self.open_partition(topics[place], index, settings, remembered);
                        opened.lock()[place].partitions[index] = partition;
                    }
                });
            }
        });
        let mut open = self.topics.write();
        for topic in opened.into_inner() {
            let topic = Arc::new(topic);
            open.by_name.insert(topic.name.clone(), Arc::clone(&topic));
            open.by_id.insert(topic.id, topic);
        }
    }

    fn open_partition(
        &self,
        topic: &Topic,
        index: usize,
        settings: Arc<Settings>,
        remembered: &Remembered,
    ) -> Option<Arc<Partition>> {
        let in_image = &topic.partitions[index];
        let index = i32::try_from(index).expect("the metadata numbers partitions as i32");
        match self.open_log(&topic.name, topic.id, index, &settings, remembered) {
            Ok(log) => Some(Partition::new(
                Arc::clone(topic.name.as_arc()),
                topic.id,
                index,
                in_image.leader_epoch,
                log,
                settings,
                self.shared.clone(),
            )),
            Err(error) => {
                tracing::error!(topic = %topic.name, partition = index, %error, "the log cannot be opened; the partition is offline");
                None
            }
        }
    }

    fn open_log(
        &self,
        topic: &TopicName,
        topic_id: Uuid,
        index: i32,
        settings: &Settings,
        remembered: &Remembered,
    ) -> Result<Log, LogError> {
        let disk = Arc::clone(&self.shared.env.disk);
        let now = self.shared.env.clock.now();
        let dir = self.data_dir.join(format!("{topic}-{index}"));
        if !disk.exists(&dir)? {
            return Ok(Log::create(disk, dir, settings.log.clone(), topic_id, now)?.0);
        }
        let key = (topic.to_string(), index);
        let noted = |offsets: &Offsets| offsets.get(&key).copied().unwrap_or(0);
        let options = OpenOptions {
            recovery_point: noted(&remembered.recovery_points),
            log_start_offset: noted(&remembered.log_start_offsets),
            clean_shutdown: remembered.clean_shutdown,
            now,
        };
        let (log, report) = Log::open(disk, dir, settings.log.clone(), options)?;
        if let Some(cut) = report.cut {
            tracing::warn!(
                %topic, partition = index, offset = cut.offset, bytes = cut.bytes,
                "the log was torn behind its last whole batch; the rest was cut"
            );
        }
        for bad in &report.bad_ranges {
            tracing::error!(
                %topic, partition = index, first_offset = bad.first_offset, next_offset = bad.next_offset,
                "a stored batch is damaged and unreadable; the log goes on behind it"
            );
        }
        Ok(log)
    }

    fn settings(&self, overrides: &ConfigMap, topic: &TopicName) -> Arc<Settings> {
        let broker = self.config.load();
        let (config, errors) = TopicConfig::resolve_lenient(&broker, overrides);
        for error in errors {
            tracing::warn!(%topic, %error, "a topic setting is left out");
        }
        Arc::new(Settings::new(&config, &broker))
    }

    fn apply_settings(&self, topic: &Topic, image: &MetadataImage) {
        let known = self.topics.read().by_id.get(&topic.id).cloned();
        let Some(known) = known else { return };
        let settings = self.settings(image.topic_config(&topic.name), &topic.name);
        for partition in known.partitions.iter().flatten() {
            partition.set_settings(Arc::clone(&settings));
        }
    }

    fn follow_leadership(&self, topic: &Topic) {
        let known = self.topics.read().by_id.get(&topic.id).cloned();
        let Some(known) = known else { return };
        for (open, in_image) in known.partitions.iter().zip(&topic.partitions) {
            if let Some(partition) = open {
                partition.lead(in_image.leader_epoch, in_image.isr.len() as i32);
            }
        }
    }

    fn delete_topic(&self, id: Uuid) {
        let topic = {
            let mut topics = self.topics.write();
            let Some(topic) = topics.by_id.remove(&id) else { return };
            if topics.by_name.get(&topic.name).is_some_and(|named| named.id == id) {
                topics.by_name.remove(&topic.name);
            }
            topic
        };
        for (index, partition) in topic.partitions.iter().enumerate() {
            if let Some(partition) = partition {
                partition.retire();
            }
            self.set_aside_deleted(&topic.name, index);
        }
    }
}

impl OpenTopic {
    fn partition(&self, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let place = usize::try_from(index).map_err(|_| ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        match self.partitions.get(place) {
            Some(Some(partition)) => Ok(Arc::clone(partition)),
            Some(None) => Err(ErrorCode::KAFKA_STORAGE_ERROR),
            None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        }
    }
}

impl Applied for PartitionTable {
    /// Logs are made, retired and told their settings before this returns.
    fn apply(&self, image: &Arc<MetadataImage>, delta: &MetadataDelta) {
        for topic in &delta.deleted {
            self.delete_topic(topic.id);
        }
        let grown = delta.changed.iter().map(|change| &change.after);
        let topics: Vec<&Arc<Topic>> = delta.created.iter().chain(grown).collect();
        self.open_topics(&topics, image, &Remembered::default());
        for change in &delta.changed {
            self.follow_leadership(&change.after);
        }
        let is_broker = |resource: &ConfigResource| resource.kind == ResourceKind::Broker;
        if delta.configs.iter().any(is_broker) {
            image.topics().for_each(|topic| self.apply_settings(topic, image));
        } else {
            let of_topic = |resource: &ConfigResource| {
                image.topic(&resource.name).filter(|_| resource.kind == ResourceKind::Topic)
            };
            delta.configs.iter().filter_map(of_topic).for_each(|topic| self.apply_settings(topic, image));
        }
    }
}
