//! A log and a clock in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{BufMut, Bytes, BytesMut};
use configuration::{BrokerConfig, ConfigMap};
use parking_lot::Mutex;
use platform::Random;
use storage::VerificationGuard;
use tokio::sync::oneshot;
use wire::batch::Batch;
use wire::{ErrorCode, Uuid};

use crate::group::records::{self, Stored};
use crate::group::{GroupConfig, GroupCoordinator, OffsetsLog, Topic, TopicSnapshot, Topics};
use crate::test_support::{Entry, TestClock, end_offset, for_each_record, stamp};
use crate::topic_log::{BoxFuture, TopicLog};

#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Random for Counter {
    fn bytes(&self) -> [u8; 16] {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let mut bytes = [0; 16];
        bytes[8..].copy_from_slice(&number.to_be_bytes());
        bytes
    }
}

/// The partitions of the offsets topic. Appends are durable at once unless [`FakeLog::hold`] was called.
#[derive(Default)]
pub(super) struct FakeLog(Mutex<State>);

#[derive(Default)]
struct State {
    logs: BTreeMap<i32, Vec<Entry>>,
    held: bool,
    may_have_moved: bool,
    refuse: Option<ErrorCode>,
    appends: usize,
    /// What came with the batches of transactions, and with markers.
    guards: Vec<Option<VerificationGuard>>,
    marker_versions: Vec<i8>,
}

impl FakeLog {
    /// From now on appends wait for [`Self::release`].
    pub(super) fn hold(&self) {
        self.0.lock().held = true;
    }

    /// Makes the oldest `count` waiting batches of each partition durable.
    pub(super) fn release(&self, count: usize) {
        for log in self.0.lock().logs.values_mut() {
            let waiting = log.iter_mut().filter(|entry| entry.waiting.is_some()).take(count);
            for entry in waiting {
                let sender = entry.waiting.take().unwrap();
                sender.send(Ok(entry.batch.header.base_offset)).ok();
            }
        }
    }

    /// Reports the youngest waiting batch of each partition as durable before the older ones.
    pub(super) fn release_youngest(&self) {
        for log in self.0.lock().logs.values_mut() {
            if let Some(entry) = log.iter_mut().rfind(|entry| entry.waiting.is_some()) {
                let sender = entry.waiting.take().unwrap();
                sender.send(Ok(entry.batch.header.base_offset)).ok();
            }
        }
    }

    /// The waiting batches stay in the log, and their appends end with an error.
    pub(super) fn fail_waiting(&self, error: ErrorCode) {
        for entry in self.0.lock().logs.values_mut().flatten() {
            if let Some(sender) = entry.waiting.take() {
                sender.send(Err(error)).ok();
            }
        }
    }

    pub(super) fn release_all(&self) {
        self.0.lock().held = false;
        self.release(usize::MAX);
    }

    /// From now on appends fail and leave nothing behind.
    pub(super) fn refuse(&self, error: Option<ErrorCode>) {
        self.0.lock().refuse = error;
    }

    /// The power fails: of the batches that are not durable, only the first `kept` are there afterwards.
    pub(super) fn crash(&self, kept: usize) {
        for log in self.0.lock().logs.values_mut() {
            let durable = log.iter().take_while(|entry| entry.waiting.is_none()).count();
            log.truncate(durable + kept);
            for entry in log {
                entry.waiting = None;
            }
        }
    }

    pub(super) fn appends(&self) -> usize {
        self.0.lock().appends
    }

    pub(super) fn guards(&self) -> Vec<Option<VerificationGuard>> {
        self.0.lock().guards.clone()
    }

    pub(super) fn marker_versions(&self) -> Vec<i8> {
        self.0.lock().marker_versions.clone()
    }

    pub(super) fn put(&self, partition: i32, batch: Batch) {
        let mut state = self.0.lock();
        let log = state.logs.entry(partition).or_default();
        let batch = stamp(batch, end_offset(log));
        log.push(Entry { batch, waiting: None });
    }

    pub(super) fn may_have_moved(&self, may_have_moved: bool) {
        self.0.lock().may_have_moved = may_have_moved;
    }

    /// All bytes of a partition.
    pub(super) fn bytes(&self, partition: i32) -> Bytes {
        let state = self.0.lock();
        let mut all = BytesMut::new();
        for entry in state.logs.get(&partition).into_iter().flatten() {
            all.put_slice(&entry.batch.bytes);
        }
        all.freeze()
    }

    pub(super) fn records(&self, partition: i32) -> Vec<Stored> {
        let mut stored = Vec::new();
        for_each_record(self.bytes(partition), |key, value| stored.push(records::read(key, value).unwrap()));
        stored
    }

    /// Flips a bit in the body of a batch.
    pub(super) fn damage(&self, partition: i32, index: usize) {
        let mut state = self.0.lock();
        let batch = &mut state.logs.get_mut(&partition).unwrap()[index].batch;
        let mut bytes = BytesMut::from(&batch.bytes[..]);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        batch.bytes = bytes.freeze();
    }
}

impl TopicLog for FakeLog {
    fn may_have_moved(&self) -> bool {
        self.0.lock().may_have_moved
    }

    fn append(&self, partition: i32, batch: Batch) -> BoxFuture<Result<i64, ErrorCode>> {
        let mut state = self.0.lock();
        state.appends += 1;
        if let Some(error) = state.refuse {
            return Box::pin(std::future::ready(Err(error)));
        }
        let held = state.held;
        let log = state.logs.entry(partition).or_default();
        let base_offset = end_offset(log);
        let batch = stamp(batch, base_offset);
        if !held {
            log.push(Entry { batch, waiting: None });
            return Box::pin(std::future::ready(Ok(base_offset)));
        }
        let (sender, durable) = oneshot::channel();
        log.push(Entry { batch, waiting: Some(sender) });
        Box::pin(async move { durable.await.unwrap_or(Err(ErrorCode::KAFKA_STORAGE_ERROR)) })
    }

    fn offsets(&self, partition: i32) -> Result<(i64, i64), ErrorCode> {
        Ok((0, self.0.lock().logs.get(&partition).map_or(0, |log| end_offset(log))))
    }

    fn committed(&self, _: i32, _: i64) -> BoxFuture<Result<(), ErrorCode>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn read(&self, partition: i32, from_offset: i64, max_bytes: u32) -> BoxFuture<Result<Bytes, ErrorCode>> {
        let mut bytes = BytesMut::new();
        if let Some(log) = self.0.lock().logs.get(&partition) {
            for entry in log.iter().filter(|entry| entry.batch.header.last_offset() >= from_offset) {
                if !bytes.is_empty() && bytes.len() + entry.batch.bytes.len() > max_bytes as usize {
                    break;
                }
                bytes.put_slice(&entry.batch.bytes);
            }
        }
        Box::pin(std::future::ready(Ok(bytes.freeze())))
    }

    fn max_batch_bytes(&self) -> usize {
        1_000
    }
}

impl OffsetsLog for FakeLog {
    fn append_transactional(
        &self,
        partition: i32,
        batch: Batch,
        guard: Option<VerificationGuard>,
    ) -> BoxFuture<Result<i64, ErrorCode>> {
        self.0.lock().guards.push(guard);
        self.append(partition, batch)
    }

    fn append_marker(&self, partition: i32, batch: Batch, version: i8) -> BoxFuture<Result<i64, ErrorCode>> {
        self.0.lock().marker_versions.push(version);
        self.append(partition, batch)
    }
}

/// Topics `t0`.. of three partitions each; ids are their numbers. Their records are durable unless set otherwise.
#[derive(Default)]
pub(super) struct FakeTopics {
    pub(super) gone: Mutex<Vec<String>>,
    unsynced: Mutex<Unsynced>,
}

/// What is not on disk.
#[derive(Default)]
struct Unsynced {
    /// From an offset on, in each partition of a topic.
    from: Option<(String, i64)>,
    waiting: Vec<oneshot::Sender<Result<(), ErrorCode>>>,
}

impl FakeTopics {
    pub(super) fn unsynced_from(&self, topic: &str, offset: i64) {
        self.unsynced.lock().from = Some((topic.to_owned(), offset));
    }

    /// Ends the syncs that are under way. Returns how many these were.
    pub(super) fn end_syncs(&self, result: Result<(), ErrorCode>) -> usize {
        let waiting = std::mem::take(&mut self.unsynced.lock().waiting);
        waiting.into_iter().filter_map(|waiting| waiting.send(result).ok()).count()
    }
}

pub(super) const TOPIC_COUNT: u8 = 10;

pub(super) fn topic_id(number: u8) -> Uuid {
    Uuid([number + 1; 16])
}

impl Topics for FakeTopics {
    fn topic(&self, name: &str) -> Option<Topic> {
        let number: u8 = name.strip_prefix('t')?.parse().ok().filter(|number| *number < TOPIC_COUNT)?;
        let exists = !self.gone.lock().iter().any(|gone| gone == name);
        exists.then_some(Topic { id: topic_id(number), partition_count: 3 })
    }

    fn name(&self, id: Uuid) -> Option<String> {
        (0..TOPIC_COUNT).find(|number| topic_id(*number) == id).map(|number| format!("t{number}"))
    }

    fn snapshot(&self) -> Arc<dyn TopicSnapshot> {
        let gone = self.gone.lock().clone();
        let names = (0..TOPIC_COUNT).map(|number| format!("t{number}")).filter(|name| !gone.contains(name));
        Arc::new(FakeSnapshot(names.filter_map(|name| Some((name.clone(), self.topic(&name)?))).collect()))
    }

    fn group_config(&self, _: &str) -> configuration::GroupConfig {
        let broker = BrokerConfig::new(ConfigMap::new()).expect("the defaults are good");
        configuration::GroupConfig::resolve(&broker, &ConfigMap::new()).expect("and those of groups")
    }

    fn make_durable(&self, topic: &str, _: i32, offset: i64) -> Option<BoxFuture<Result<(), ErrorCode>>> {
        let mut unsynced = self.unsynced.lock();
        unsynced.from.as_ref().filter(|(name, from)| name == topic && *from < offset)?;
        let (sender, durable) = oneshot::channel();
        unsynced.waiting.push(sender);
        Some(Box::pin(async move { durable.await.unwrap_or(Err(ErrorCode::KAFKA_STORAGE_ERROR)) }))
    }

    fn offsets_partition_count(&self) -> Option<i32> {
        Some(1)
    }

    fn create_offsets_topic(&self) -> BoxFuture<Result<(), ErrorCode>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Topics as they were.
struct FakeSnapshot(BTreeMap<String, Topic>);

impl TopicSnapshot for FakeSnapshot {
    fn topic(&self, name: &str) -> Option<Topic> {
        self.0.get(name).copied()
    }

    fn name(&self, id: Uuid) -> Option<String> {
        self.0.iter().find(|(_, topic)| topic.id == id).map(|(name, _)| name.clone())
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn racks(&self, _: &str) -> Vec<Vec<String>> {
        Vec::new()
    }

    fn version(&self) -> i64 {
        1
    }
}

/// A coordinator with one partition, loaded and running.
pub(super) struct World {
    pub(super) groups: Arc<GroupCoordinator>,
    pub(super) log: Arc<FakeLog>,
    pub(super) clock: Arc<TestClock>,
    pub(super) topics: Arc<FakeTopics>,
    random: Arc<Counter>,
    running: tokio::task::JoinHandle<()>,
}

impl World {
    pub(super) async fn new(config: GroupConfig) -> Self {
        let log = Arc::new(FakeLog::default());
        Self::with(config, log, TestClock::new(), Arc::default(), Arc::default()).await
    }

    async fn with(
        config: GroupConfig,
        log: Arc<FakeLog>,
        clock: Arc<TestClock>,
        topics: Arc<FakeTopics>,
        random: Arc<Counter>,
    ) -> Self {
        let groups = GroupCoordinator::new(config, clock.clone(), random.clone(), log.clone(), topics.clone());
        groups.load(0).await.unwrap();
        let running = tokio::spawn(groups.clone().run());
        Self { groups, log, clock, topics, random, running }
    }

    /// The same broker after a crash, in which `kept` batches survive that were not durable yet.
    pub(super) async fn restart(self, kept: usize) -> Self {
        let config = self.groups.config.clone();
        self.running.abort();
        self.groups.unload(0);
        self.log.crash(kept);
        self.log.release_all();
        Self::with(config, self.log, self.clock, self.topics, self.random).await
    }
}

/// The generation of a group, if it exists.
pub(super) fn generation_of(world: &World, group_id: &str) -> Option<i32> {
    let shard = world.groups.shard(group_id).unwrap();
    let mut state = shard.state.lock();
    state.group(group_id).map(|group| group.generation())
}
