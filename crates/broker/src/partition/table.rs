//! All partitions of this broker, by topic id and by name, and their directories.
//!
//! The metadata image says which partitions there are, which of them this node replicates and which it leads; this
//! table follows it ([`Applied`]). Logs are opened at the start, but nothing is led or followed, and no directory is
//! taken for a deleted topic's, before the image has the registration of this start of the broker: until then it
//! applies to a former process of the broker, which may have had more records, and the image may be an old one.
//!
//! A directory has Kafka's name, `topic-partition`; names come from [`TopicName`], so none can lead out of the data
//! directory.

mod capacity;
mod directories;
mod journal;
mod pace;
mod summary;
#[cfg(test)]
mod tests;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use configuration::{BrokerConfig, ConfigMap, TopicConfig};
use metadata::{Applied, ConfigResource, MetadataDelta, MetadataImage, ResourceKind, Topic, TopicName};
use parking_lot::{Mutex, RwLock};
use storage::checkpoint::{CLEANER_OFFSET_FILE, Offsets};
use storage::{Log, LogError, OpenOptions, ScrubCursor, partition_metadata};
use wire::{ErrorCode, Uuid};

use self::capacity::Capacity;
use self::directories::Owner;
pub use self::summary::TopicSummary;
use super::replica::Registration;
use super::{Identity, InlineAppends, Partition, Quota, Settings, Shared};
use crate::blocking_pool::BlockingPool;
use crate::stats::Traffic;

/// Threads that open, make and close logs. They mostly wait for the disk. On a simulated one more than one thread would
/// make runs differ.
const LOG_THREADS: usize = if cfg!(test) { 1 } else { 8 };

/// The partitions of one topic, by index.
struct OpenTopic {
    name: TopicName,
    id: Uuid,
    partitions: Vec<Slot>,
    traffic: Arc<Traffic>,
}

#[derive(Clone)]
enum Slot {
    Open(Arc<Partition>),
    /// Its log could not be opened: for good, or for lack of disk space or descriptors.
    Offline {
        is_final: bool,
    },
    /// Its directory holds the log of a topic that may be deleted, which is known once the metadata is current.
    Undecided,
    /// This node does not replicate it.
    Elsewhere,
}

impl Slot {
    fn open(&self) -> Option<&Arc<Partition>> {
        match self {
            Self::Open(partition) => Some(partition),
            Self::Offline { .. } | Self::Undecided | Self::Elsewhere => None,
        }
    }
}

#[derive(Default)]
struct Topics {
    /// In order, so that what is done to all partitions is done in the same order each time.
    by_id: BTreeMap<Uuid, Arc<OpenTopic>>,
    by_name: HashMap<TopicName, Arc<OpenTopic>>,
}

/// Threads that read from the disk what is not in the page cache.
const COLD_READS_MAX: usize = 8;
/// Threads that check large requests.
const LARGE_REQUESTS_MAX: usize = 4;

pub struct PartitionTable {
    shared: Shared,
    /// Of this start of the broker.
    incarnation_id: Uuid,
    /// Whether the image has this start's registration, so that its leaders apply to this process.
    is_registered: AtomicBool,
    data_dir: PathBuf,
    config: Arc<ArcSwap<BrokerConfig>>,
    /// What throttled replicas were sent from here, and fetched by this broker.
    leader_quota: Quota,
    follower_quota: Arc<Quota>,
    topics: RwLock<Topics>,
    /// Directories of deleted topics that wait for their removal, and since when by the monotonic clock.
    deleted: Mutex<Vec<(PathBuf, i64)>>,
    was_clean: bool,
    scrub: Mutex<Scrub>,
    cold_reads: BlockingPool,
    large_requests: BlockingPool,
    capacity: Mutex<Capacity>,
    /// Where the last compaction of each log ended.
    cleaned_to: Mutex<Offsets>,
    /// Ends a compaction that is under way.
    stopping: AtomicBool,
    /// What the checkpoint files hold.
    checkpointed: Mutex<CheckpointedOffsets>,
    /// The checkpoints of the last stop, until all logs are open.
    remembered: Mutex<Remembered>,
    /// Partitions that lack something that was on disk before the start, by the topic's id.
    lost: Mutex<BTreeSet<(Uuid, i32)>>,
}

/// Contents of the checkpoint files.
#[derive(Clone, Default)]
struct CheckpointedOffsets {
    /// Up to where each log is on disk. One from before a truncation may be stored: the log does not believe it.
    recovery_points: Offsets,
    log_start_offsets: Offsets,
    high_watermarks: Offsets,
}

/// How far the check of stored batches has got.
#[derive(Default)]
struct Scrub {
    /// Those still to come in this round.
    partitions: Vec<Arc<Partition>>,
    cursor: ScrubCursor,
}

/// What the broker remembers of its logs when it starts.
#[derive(Default)]
struct Remembered {
    checkpointed: CheckpointedOffsets,
    clean_shutdown: bool,
}

impl PartitionTable {
    /// A table of no partitions yet. They are led and followed as soon as an image has the registration of
    /// `incarnation_id`.
    pub fn new(
        shared: Shared,
        data_dir: PathBuf,
        config: Arc<ArcSwap<BrokerConfig>>,
        incarnation_id: Uuid,
    ) -> Result<Self, LogError> {
        let mut table = Self {
            shared,
            incarnation_id,
            is_registered: AtomicBool::new(false),
            data_dir,
            leader_quota: Quota::of_leader(Arc::clone(&config)),
            follower_quota: Arc::new(Quota::of_follower(Arc::clone(&config))),
            config,
            topics: RwLock::default(),
            deleted: Mutex::default(),
            was_clean: false,
            scrub: Mutex::default(),
            capacity: Mutex::default(),
            cleaned_to: Mutex::default(),
            stopping: AtomicBool::new(false),
            checkpointed: Mutex::default(),
            remembered: Mutex::default(),
            lost: Mutex::default(),
            cold_reads: BlockingPool::new(COLD_READS_MAX),
            large_requests: BlockingPool::new(LARGE_REQUESTS_MAX),
        };
        let remembered = table.read_remembered()?;
        table.was_clean = remembered.clean_shutdown;
        table.checkpointed.get_mut().clone_from(&remembered.checkpointed);
        *table.remembered.get_mut() = remembered;
        *table.cleaned_to.get_mut() = table.read_checkpoint(CLEANER_OFFSET_FILE);
        Ok(table)
    }

    /// Opens the logs of all partitions of the first image that this node replicates, and creates missing ones.
    pub fn load(&self, image: &MetadataImage) {
        let mut remembered = self.remembered.lock();
        let topics: Vec<&Arc<Topic>> = image.topics().collect();
        self.open_topics(&topics, image, &remembered);
        self.find_lost();
        if !self.is_waiting_for_space() {
            *remembered = Remembered::default();
        }
    }

    fn is_waiting_for_space(&self) -> bool {
        self.topics.read().by_id.values().any(|topic| topic.waits_for_space())
    }

    /// Partitions of which this node lacks records that it had on disk before it started, or may have had. Other
    /// replicas may have the only copy.
    pub fn lost_replicas(&self) -> Vec<(Uuid, i32)> {
        self.lost.lock().iter().copied().collect()
    }

    /// Logs that opened were looked at then.
    fn find_lost(&self) {
        for topic in self.topics.read().by_id.values() {
            for (index, slot) in (0..).zip(&topic.partitions) {
                if matches!(slot, Slot::Offline { .. } | Slot::Undecided) {
                    self.lost.lock().insert((topic.id, index));
                }
            }
        }
    }

    /// The partition that a client names by its topic's name.
    pub fn find_by_name(&self, topic: &str, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        // A name as long as a client likes is not hashed for each of its partitions.
        if topic.len() > metadata::TOPIC_NAME_BYTES_MAX {
            return Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        }
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
        topics.by_id.values().flat_map(|topic| topic.partitions.iter().filter_map(Slot::open).cloned()).collect()
    }

    /// Any partition of a topic that is open.
    pub fn any_of(&self, topic: &str) -> Option<Arc<Partition>> {
        self.topics.read().by_name.get(topic)?.partitions.iter().find_map(Slot::open).cloned()
    }

    /// Has each partition that this node leads look for followers that lag.
    pub fn shrink_isrs(&self) {
        for partition in self.all().iter().filter(|partition| partition.is_leader()) {
            partition.shrink_isr();
        }
    }

    /// Has leaders whose followers are silent for so long refuse what they cannot promise.
    pub fn refuse_stalled(&self, silence_ms: i64) {
        for partition in self.all().iter().filter(|partition| partition.is_leader()) {
            partition.refuse_if_stalled(silence_ms);
        }
    }

    /// Has logs close files that they did not use since the last time, or all that can be opened again. Returns how
    /// many. Does not block.
    pub fn give_up_files(&self, even_used: bool) -> usize {
        let Some(topics) = self.topics.try_read() else { return 0 };
        let partitions = topics.by_id.values().flat_map(|topic| topic.partitions.iter().filter_map(Slot::open));
        partitions.map(|partition| partition.view().give_up_files(even_used)).sum()
    }

    /// Refuses all requests that wait for a stalled disk.
    pub fn refuse_for_stall(&self) {
        for partition in self.all().iter().filter(|partition| partition.is_leader()) {
            partition.refuse_for_stall();
        }
    }

    pub fn resume(&self) {
        for partition in self.all() {
            partition.resume();
        }
    }

    /// Whether the last stop was a clean one.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    pub fn inline_appends(&self) -> &Arc<InlineAppends> {
        &self.shared.inline_appends
    }

    /// The threads that read from the disk what is not in the page cache.
    pub fn cold_reads(&self) -> &BlockingPool {
        &self.cold_reads
    }

    /// The threads that check requests too large for a thread of the runtime.
    pub fn large_requests(&self) -> &BlockingPool {
        &self.large_requests
    }

    pub fn leader_quota(&self) -> &Quota {
        &self.leader_quota
    }

    pub fn follower_quota(&self) -> &Arc<Quota> {
        &self.follower_quota
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Opens the partitions of the given topics that are replicated here and not open yet.
    fn open_topics(&self, topics: &[&Arc<Topic>], image: &MetadataImage, remembered: &Remembered) {
        let mut work = Vec::new();
        let mut opened: Vec<OpenTopic> = Vec::new();
        for (topic_index, topic) in topics.iter().enumerate() {
            let known = self.topics.read().by_id.get(&topic.id).cloned();
            let known = known.map(|known| (known.partitions.clone(), Arc::clone(&known.traffic)));
            let (mut partitions, traffic) = known.unwrap_or_default();
            partitions.resize(topic.partitions.len(), Slot::Elsewhere);
            let settings = self.settings(image.topic_config(&topic.name), &topic.name);
            for (index, in_image) in topic.partitions.iter().enumerate() {
                let is_settled = matches!(partitions[index], Slot::Open(_) | Slot::Offline { is_final: true });
                if !is_settled && self.replicates(in_image) {
                    work.push((topic_index, index, Arc::clone(&settings), Arc::clone(&traffic)));
                }
            }
            opened.push(OpenTopic { name: topic.name.clone(), id: topic.id, partitions, traffic });
        }
        let opened = Mutex::new(opened);
        for_each_log(work, |(topic_index, index, settings, traffic)| {
            let slot = self.open_partition(topics[topic_index], index, settings, traffic, image, remembered);
            opened.lock()[topic_index].partitions[index] = slot;
        });
        let mut open = self.topics.write();
        for topic in opened.into_inner() {
            let topic = Arc::new(topic);
            open.by_name.insert(topic.name.clone(), Arc::clone(&topic));
            open.by_id.insert(topic.id, topic);
        }
    }

    /// Opens logs that could not be opened for lack of disk space. The registration changes when this broker has some
    /// again.
    fn try_again(&self, image: &MetadataImage) {
        if !self.is_waiting_for_space() {
            return;
        }
        let waits =
            |topic: &&Arc<Topic>| self.topics.read().by_id.get(&topic.id).is_some_and(|known| known.waits_for_space());
        let topics: Vec<&Arc<Topic>> = image.topics().filter(waits).collect();
        let mut remembered = self.remembered.lock();
        self.open_topics(&topics, image, &remembered);
        for topic in topics {
            self.take_roles(Some(topic), topic, image);
        }
        if !self.is_waiting_for_space() {
            *remembered = Remembered::default();
        }
    }

    fn replicates(&self, in_image: &metadata::Partition) -> bool {
        in_image.replicas.contains(&self.shared.node_id)
    }

    fn open_partition(
        &self,
        topic: &Topic,
        index: usize,
        settings: Arc<Settings>,
        traffic: Arc<Traffic>,
        image: &MetadataImage,
        remembered: &Remembered,
    ) -> Slot {
        let index = i32::try_from(index).expect("the metadata numbers partitions as i32");
        let opened = self.open_log(&topic.name, topic.id, index, &settings, image, remembered).map(|log| {
            let key = (topic.name.to_string(), index);
            let high_watermark = remembered.checkpointed.high_watermarks.get(&key).copied().unwrap_or(0);
            let identity = Identity { topic: Arc::clone(topic.name.as_arc()), topic_id: topic.id, index, traffic };
            Partition::new(identity, log, high_watermark, settings, self.shared.clone())
        });
        match opened {
            Ok(partition) => Slot::Open(partition),
            Err(OpenError::Undecided) => Slot::Undecided,
            Err(error) => {
                tracing::error!(topic = %topic.name, partition = index, %error, "the log cannot be opened; the partition is offline");
                let is_final = !matches!(&error, OpenError::Log(error) if error.is_retriable());
                if !is_final {
                    self.shared.disk_pressure.record_refused();
                }
                Slot::Offline { is_final }
            }
        }
    }

    fn open_log(
        &self,
        topic: &TopicName,
        topic_id: Uuid,
        index: i32,
        settings: &Settings,
        image: &MetadataImage,
        remembered: &Remembered,
    ) -> Result<Log, OpenError> {
        let disk = Arc::clone(&self.shared.env.disk);
        let now = self.shared.env.clock.now();
        let dir = self.data_dir.join(format!("{topic}-{index}"));
        let key = (topic.to_string(), index);
        let create = |disk, dir: PathBuf| {
            // The checkpoints may have those of another log, which had this name.
            self.forget_checkpointed(&key)?;
            self.void_journal(&dir)?;
            Ok(Log::create(disk, dir, settings.log.clone(), topic_id, now)?.0)
        };
        match self.owner(&dir, topic_id, image)? {
            Owner::Nobody => {
                if !self.is_registered.load(Ordering::Acquire) {
                    // Whether it is new, or was there before, the metadata does not say.
                    self.lost.lock().insert((topic_id, index));
                }
                return create(disk, dir);
            }
            Owner::Partition { is_recorded: true } => {}
            Owner::Partition { is_recorded: false } => {
                if let Err(error) = partition_metadata::write_topic_id(&*disk, &dir, topic_id) {
                    tracing::warn!(%topic, partition = index, %error, "partition.metadata cannot be made whole");
                }
            }
            Owner::Deleted(_) if !self.is_registered.load(Ordering::Acquire) => return Err(OpenError::Undecided),
            Owner::Deleted(found) => {
                self.set_aside_stray(&dir, found)?;
                return create(disk, dir);
            }
            Owner::Unknown(found) => {
                return Err(OpenError::OtherTopic { dir, found, topic: topic.clone(), expected: topic_id });
            }
        }
        let offset_of = |offsets: &Offsets| offsets.get(&key).copied().unwrap_or(0);
        let checkpointed = &remembered.checkpointed;
        let options = OpenOptions {
            recovery_point: offset_of(&checkpointed.recovery_points),
            log_start_offset: offset_of(&checkpointed.log_start_offsets),
            clean_shutdown: remembered.clean_shutdown,
            now,
        };
        let (log, report) = Log::open(disk, dir, settings.log.clone(), options)?;
        let durable_offset = report.recovery_point.max(offset_of(&checkpointed.high_watermarks));
        if report.log_end_offset < durable_offset {
            tracing::error!(
                %topic, partition = index, durable_offset, log_end_offset = report.log_end_offset,
                "records that were on disk are gone; this replica leaves it to others that have them to lead"
            );
            self.lost.lock().insert((topic_id, index));
        }
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
        // What a process that was killed had appended may be in the page cache only. Consumers do not read it before it
        // is on disk, so it is brought there before they can ask.
        log.view().sync()?;
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
        for partition in known.partitions.iter().filter_map(Slot::open) {
            partition.set_settings(Arc::clone(&settings));
        }
    }

    /// Gives each changed partition of a topic its role. Returns how many are newly led here.
    fn take_roles(&self, before: Option<&Topic>, topic: &Topic, image: &MetadataImage) -> usize {
        let known = self.topics.read().by_id.get(&topic.id).cloned();
        let Some(known) = known else { return 0 };
        let mut new_leaders = 0;
        for (index, (slot, in_image)) in known.partitions.iter().zip(&topic.partitions).enumerate() {
            let was = before.and_then(|before| before.partitions.get(index));
            if let Slot::Open(partition) = slot
                && (was.is_none_or(|was| was != in_image) || !partition.has_role())
            {
                new_leaders += usize::from(partition.take_role(in_image, &|id| registration(image, id)));
            }
        }
        new_leaders
    }

    /// Ends the partitions of a topic that this node does not replicate any more.
    fn remove_replicas(&self, topic: &Topic) {
        let known = self.topics.read().by_id.get(&topic.id).cloned();
        let Some(known) = known else { return };
        let stays = |(slot, in_image): (&Slot, &Arc<metadata::Partition>)| {
            matches!(slot, Slot::Elsewhere) || self.replicates(in_image)
        };
        if known.partitions.iter().zip(&topic.partitions).all(stays) {
            return;
        }
        let mut partitions = known.partitions.clone();
        for (index, (slot, in_image)) in partitions.iter_mut().zip(&topic.partitions).enumerate() {
            if !matches!(slot, Slot::Elsewhere) && !self.replicates(in_image) {
                tracing::info!(topic = %topic.name, partition = index, "the partition is not replicated here any more");
                self.end(&known, index);
                *slot = Slot::Elsewhere;
            }
        }
        let traffic = Arc::clone(&known.traffic);
        let left = Arc::new(OpenTopic { name: known.name.clone(), id: known.id, partitions, traffic });
        let mut topics = self.topics.write();
        topics.by_name.insert(left.name.clone(), Arc::clone(&left));
        topics.by_id.insert(left.id, left);
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
        for (index, slot) in topic.partitions.iter().enumerate() {
            if !matches!(slot, Slot::Elsewhere) {
                self.end(&topic, index);
            }
        }
    }

    /// Ends a partition and takes its directory out of the way, unless another topic's log is in it.
    fn end(&self, topic: &OpenTopic, index: usize) {
        match &topic.partitions[index] {
            Slot::Open(partition) => partition.retire(),
            _ if self.holds(topic, index) => {}
            _ => return,
        }
        self.set_aside_deleted(&topic.name, index);
    }
}

/// Why a partition has no log.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("the metadata does not tell yet whose log the directory holds")]
    Undecided,
    #[error(
        "{} holds the log of topic id {found}, and topic {topic} has id {expected}; if the log is that of an older topic, \
         move the directory away; if its file partition.metadata is damaged, delete that file; then restart the broker",
        .dir.display()
    )]
    OtherTopic { dir: PathBuf, found: Uuid, topic: TopicName, expected: Uuid },
}

/// What an image says of a broker.
fn registration(image: &MetadataImage, id: i32) -> Option<Registration> {
    let broker = image.broker(id)?;
    Some(Registration { epoch: broker.epoch, is_active: broker.is_active() && broker.has_room() })
}

impl OpenTopic {
    fn waits_for_space(&self) -> bool {
        self.partitions.iter().any(|slot| matches!(slot, Slot::Offline { is_final: false }))
    }

    fn partition(&self, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let index = usize::try_from(index).map_err(|_| ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        match self.partitions.get(index) {
            Some(Slot::Open(partition)) => Ok(Arc::clone(partition)),
            Some(Slot::Offline { .. }) => Err(ErrorCode::KAFKA_STORAGE_ERROR),
            Some(Slot::Undecided | Slot::Elsewhere) => Err(ErrorCode::NOT_LEADER_OR_FOLLOWER),
            None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        }
    }
}

/// Does something with each of many logs, a few at the same time.
fn for_each_log<T: Send>(logs: Vec<T>, work: impl Fn(T) + Sync) {
    let threads = LOG_THREADS.min(logs.len());
    let logs = Mutex::new(logs.into_iter());
    // Not in the condition of a loop, where the lock would be held while the work is done.
    let next = || logs.lock().next();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| std::iter::from_fn(next).for_each(&work));
        }
    });
}

impl Applied for PartitionTable {
    /// Logs are created, retired and given their roles and settings before this returns.
    fn apply(&self, image: &Arc<MetadataImage>, delta: &MetadataDelta) {
        for topic in &delta.deleted {
            self.delete_topic(topic.id);
        }
        let grown = delta.changed.iter().map(|change| &change.after);
        let topics: Vec<&Arc<Topic>> = delta.created.iter().chain(grown).collect();
        for topic in &topics {
            self.remove_replicas(topic);
        }
        let own = image.broker(self.shared.node_id);
        let is_registered = own.is_some_and(|own| own.incarnation_id == self.incarnation_id);
        let has_registered = is_registered && !self.is_registered.swap(true, Ordering::AcqRel);
        let mut new_leaders = 0;
        if has_registered {
            // Committed after this start: what was deleted before it is not in the image any more.
            let topics: Vec<&Arc<Topic>> = image.topics().collect();
            self.open_topics(&topics, image, &self.remembered.lock());
            self.report_strays();
            new_leaders += image.topics().map(|topic| self.take_roles(None, topic, image)).sum::<usize>();
        } else {
            self.open_topics(&topics, image, &self.remembered.lock());
        }
        if !has_registered && self.is_registered.load(Ordering::Acquire) {
            if delta.brokers_changed {
                for partition in self.all() {
                    partition.update_brokers(&|id| registration(image, id));
                }
                self.try_again(image);
            }
            new_leaders += delta.created.iter().map(|topic| self.take_roles(None, topic, image)).sum::<usize>();
            for change in &delta.changed {
                new_leaders += self.take_roles(Some(&change.before), &change.after, image);
            }
        }
        if new_leaders > 0 {
            tracing::info!(partitions = new_leaders, "leads partitions that it did not lead before");
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
