//! Fetch sessions (KIP-227): the broker remembers what a client fetches, so that a request names only what changed.
//!
//! A session's targets are taken out while a request works on them and put back with its answer. A request that is
//! dropped in between ends the session; its client begins a new one.
//!
//! Bounded by `max.incremental.fetch.session.cache.slots` and by the partitions of all sessions together. When the
//! cache is full, sessions that were not used for two minutes are evicted; otherwise the client gets no session and
//! goes on with full requests.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use metadata::TOPIC_NAME_BYTES_MAX;
use parking_lot::Mutex;
use platform::Pace;
use tokio::time::Instant;
use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::{ErrorCode, Uuid};

use crate::partition::{Partition, PartitionTable};

/// The epoch of a request that wants a new session.
const INITIAL_EPOCH: i32 = 0;
/// The epoch of a request that wants none.
const FINAL_EPOCH: i32 = -1;
/// Partitions of all sessions together.
const PARTITIONS_MAX: usize = 200_000;
/// `min.incremental.fetch.session.eviction.ms` of Kafka.
const EVICTION_AGE: Duration = Duration::from_secs(120);

/// One partition that a client fetches.
pub struct Target {
    /// Empty where the request names topics by id.
    pub topic: Arc<str>,
    /// Zero where the request names topics by name.
    pub topic_id: Uuid,
    pub index: i32,
    pub fetch_offset: i64,
    pub max_bytes: i32,
    pub current_leader_epoch: i32,
    pub last_fetched_epoch: i32,
    /// Of a follower: where its log starts, and up to where it is on disk.
    pub log_start_offset: i64,
    pub synced_offset: i64,
    /// Of a follower: some of its batches cannot be read.
    pub is_damaged: bool,
    /// The high watermark that a follower knows, `i64::MAX` for a client that does not want it (KIP-1166).
    pub known_high_watermark: i64,
    pub partition: Result<Arc<Partition>, ErrorCode>,
    /// What the client was sent last.
    pub sent_high_watermark: i64,
    pub sent_log_start_offset: i64,
    pub sent_durable_offset: i64,
}

type Key = (Uuid, Arc<str>, i32);

impl Target {
    fn key(&self) -> Key {
        (self.topic_id, Arc::clone(&self.topic), self.index)
    }
}

/// What the client is sent of a target.
pub struct Sent {
    pub high_watermark: i64,
    pub log_start_offset: i64,
    pub durable_offset: i64,
    pub has_records: bool,
}

/// The targets of a request, in the order in which they are read.
#[derive(Default)]
pub struct Targets {
    list: Vec<Target>,
    /// Where a target stands in the list. Only sessions need it.
    indexes: HashMap<Key, usize>,
    /// The target that is read first. It moves on, so that no partition starves the others.
    first: usize,
}

impl Targets {
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Target> {
        let (before, from) = self.list.split_at(self.first);
        from.iter().chain(before)
    }

    /// The partitions that exist.
    pub fn partitions(&self) -> Vec<Arc<Partition>> {
        self.list.iter().filter_map(|target| target.partition.as_ref().ok().map(Arc::clone)).collect()
    }

    /// Looks up the partitions, which may have been created or deleted since the last request.
    pub async fn find_partitions(&mut self, partitions: &PartitionTable, version: i16) {
        let mut pace = Pace::default();
        for target in &mut self.list {
            pace.step(1).await;
            target.partition = if version >= 13 {
                partitions.find_by_id(target.topic_id, target.index)
            } else {
                partitions.find_by_name(&target.topic, target.index)
            };
        }
    }

    /// Has what may not be read refused, whether it is there or not. Topics stand together mostly, and are asked about
    /// once then.
    pub fn deny(&mut self, may_read: impl Fn(&str) -> bool) {
        let mut last: Option<(Arc<str>, bool)> = None;
        for target in &mut self.list {
            let topic = match &target.partition {
                Ok(partition) => &partition.topic,
                Err(_) if target.topic.is_empty() => continue,
                Err(_) => &target.topic,
            };
            let is_allowed = match &last {
                Some((name, is_allowed)) if name == topic => *is_allowed,
                _ => {
                    let is_allowed = may_read(topic);
                    last = Some((Arc::clone(topic), is_allowed));
                    is_allowed
                }
            };
            if !is_allowed {
                target.partition = Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
            }
        }
    }

    fn of_request(request: FetchRequest) -> Self {
        let names_each_once = names_each_once(&request.topics);
        let mut list = Vec::new();
        for topic in request.topics {
            let name = bounded(&topic.topic);
            for partition in topic.partitions {
                list.push(Target {
                    topic: Arc::clone(&name),
                    topic_id: topic.topic_id,
                    index: partition.partition,
                    fetch_offset: partition.fetch_offset,
                    max_bytes: partition.partition_max_bytes,
                    current_leader_epoch: partition.current_leader_epoch,
                    last_fetched_epoch: partition.last_fetched_epoch,
                    log_start_offset: partition.log_start_offset,
                    synced_offset: partition.synced_offset,
                    is_damaged: partition.is_damaged,
                    known_high_watermark: partition.high_watermark,
                    partition: Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                    sent_high_watermark: i64::MIN,
                    sent_log_start_offset: i64::MIN,
                    sent_durable_offset: i64::MIN,
                });
            }
        }
        if !names_each_once {
            list = last_of_each(list);
        }
        Self { list, ..Self::default() }
    }

    fn index(&mut self) {
        self.indexes = self.list.iter().enumerate().map(|(index, target)| (target.key(), index)).collect();
    }

    /// Takes over what an incremental request names.
    fn update(&mut self, request: FetchRequest) {
        for topic in &request.forgotten_topics_data {
            let name = bounded(&topic.topic);
            for &index in &topic.partitions {
                self.remove(&(topic.topic_id, Arc::clone(&name), index));
            }
        }
        for target in Self::of_request(request).list {
            match self.indexes.get(&target.key()) {
                Some(&index) => {
                    let known = &mut self.list[index];
                    known.fetch_offset = target.fetch_offset;
                    known.max_bytes = target.max_bytes;
                    known.current_leader_epoch = target.current_leader_epoch;
                    known.last_fetched_epoch = target.last_fetched_epoch;
                    known.log_start_offset = target.log_start_offset;
                    known.synced_offset = target.synced_offset;
                    known.is_damaged = target.is_damaged;
                    known.known_high_watermark = target.known_high_watermark;
                    // What a follower sends counts, not what it was sent: it ignores an answer that came too late.
                    if target.known_high_watermark != i64::MAX {
                        known.sent_high_watermark = target.known_high_watermark;
                        known.sent_log_start_offset = target.log_start_offset;
                    }
                }
                None => {
                    self.indexes.insert(target.key(), self.list.len());
                    self.list.push(target);
                }
            }
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(index) = self.indexes.remove(key) {
            self.list.swap_remove(index);
            if let Some(moved) = self.list.get(index) {
                self.indexes.insert(moved.key(), index);
            }
            self.first = 0;
        }
    }

    /// Remembers what the client was sent, and lets the next request begin behind the last partition that had records.
    fn remember(&mut self, sent: &[Sent]) {
        let count = self.list.len();
        let first = self.first;
        for (index, sent) in sent.iter().enumerate().map(|(i, sent)| ((first + i) % count, sent)) {
            self.list[index].sent_high_watermark = sent.high_watermark;
            self.list[index].sent_log_start_offset = sent.log_start_offset;
            self.list[index].sent_durable_offset = sent.durable_offset;
            if self.list[index].known_high_watermark != i64::MAX {
                self.list[index].known_high_watermark = sent.high_watermark;
            }
            if sent.has_records {
                self.first = (index + 1) % count;
            }
        }
    }
}

/// The name of a topic, or the beginning of a longer one, which no topic has: names are looked up for each partition.
fn bounded(name: &str) -> Arc<str> {
    name[..name.floor_char_boundary(TOPIC_NAME_BYTES_MAX + 1)].into()
}

/// Whether no partition is named twice, as far as that can be seen without looking each one up: topics that come twice,
/// as the Java client has them, may well differ in their partitions.
fn names_each_once(topics: &[FetchTopic]) -> bool {
    let mut seen = HashSet::new();
    (topics.len() == 1 || topics.iter().all(|topic| seen.insert((topic.topic_id, &topic.topic))))
        && topics.iter().all(|topic| are_distinct(&topic.partitions))
}

fn are_distinct(partitions: &[FetchPartition]) -> bool {
    if partitions.is_sorted_by(|a, b| a.partition < b.partition) {
        return true;
    }
    let mut indexes: Vec<i32> = partitions.iter().map(|partition| partition.partition).collect();
    indexes.sort_unstable();
    indexes.is_sorted_by(|a, b| a < b)
}

/// Each partition once, in the order in which they are first named (as Kafka's `LinkedHashMap` has them).
fn last_of_each(list: Vec<Target>) -> Vec<Target> {
    let mut indexes: HashMap<Key, usize> = HashMap::with_capacity(list.len());
    let mut targets: Vec<Target> = Vec::with_capacity(list.len());
    for target in list {
        let index = *indexes.entry(target.key()).or_insert(targets.len());
        match targets.get_mut(index) {
            Some(known) => *known = target,
            None => targets.push(target),
        }
    }
    targets
}

/// A request's view of its session.
pub struct Opened {
    pub targets: Targets,
    /// Whether every partition belongs in the answer.
    pub is_full: bool,
    pub session_kind: SessionKind,
}

/// What becomes of the session when the request is answered.
pub enum SessionKind {
    Sessionless,
    New,
    Known(i32),
}

/// All sessions.
pub struct FetchSessions {
    slots_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    sessions: HashMap<i32, Session>,
    last_id: i32,
    partitions: usize,
}

struct Session {
    /// None while a request works on them.
    targets: Option<Targets>,
    /// How many partitions were counted for it.
    counted: usize,
    epoch: i32,
    uses_topic_ids: bool,
    used: Instant,
}

impl Inner {
    fn remove(&mut self, id: i32) {
        if let Some(session) = self.sessions.remove(&id) {
            self.partitions -= session.counted;
        }
    }
}

impl FetchSessions {
    pub fn new(slots_max: usize) -> Self {
        Self { slots_max, inner: Mutex::default() }
    }

    /// Finds or begins the session of a request.
    pub fn open(&self, request: FetchRequest, version: i16) -> Result<Opened, ErrorCode> {
        let (id, epoch) = (request.session_id, request.session_epoch);
        let mut inner = self.inner.lock();
        if epoch == INITIAL_EPOCH || epoch == FINAL_EPOCH {
            inner.remove(id);
            drop(inner);
            let session_kind = if epoch == INITIAL_EPOCH { SessionKind::New } else { SessionKind::Sessionless };
            return Ok(Opened { targets: Targets::of_request(request), is_full: true, session_kind });
        }
        let session = inner.sessions.get_mut(&id).ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if session.uses_topic_ids != (version >= 13) {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        if session.epoch != epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        let Some(mut targets) = session.targets.take() else {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        };
        session.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        session.used = Instant::now();
        // Other clients do not wait until all that a request names has been looked up.
        drop(inner);
        targets.update(request);
        let grown = targets.len();
        let mut inner = self.inner.lock();
        let session = inner.sessions.get_mut(&id).ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        let counted = std::mem::replace(&mut session.counted, grown);
        inner.partitions = inner.partitions - counted + grown;
        if inner.partitions > PARTITIONS_MAX {
            inner.remove(id);
            return Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
        }
        Ok(Opened { targets, is_full: false, session_kind: SessionKind::Known(id) })
    }

    /// Puts the targets back where the answer tells nothing of them. A session that is new does not begin.
    pub fn close_untold(&self, session_kind: SessionKind, targets: Targets, version: i16) -> i32 {
        match session_kind {
            SessionKind::Known(_) => self.close(session_kind, targets, &[], version),
            SessionKind::Sessionless | SessionKind::New => 0,
        }
    }

    /// Puts the targets back after the answer is known, and returns the session id for it.
    pub fn close(&self, session_kind: SessionKind, mut targets: Targets, sent: &[Sent], version: i16) -> i32 {
        match session_kind {
            SessionKind::Sessionless => 0,
            SessionKind::Known(id) => {
                targets.remember(sent);
                if let Some(session) = self.inner.lock().sessions.get_mut(&id) {
                    session.targets = Some(targets);
                }
                id
            }
            SessionKind::New => {
                if targets.len() > PARTITIONS_MAX {
                    return 0;
                }
                targets.remember(sent);
                targets.index();
                let mut inner = self.inner.lock();
                if !self.make_room(&mut inner, targets.len()) {
                    return 0;
                }
                let id = inner.next_id();
                inner.partitions += targets.len();
                inner.sessions.insert(
                    id,
                    Session {
                        counted: targets.len(),
                        targets: Some(targets),
                        epoch: 1,
                        uses_topic_ids: version >= 13,
                        used: Instant::now(),
                    },
                );
                id
            }
        }
    }

    fn make_room(&self, inner: &mut Inner, partitions: usize) -> bool {
        let has_room =
            |inner: &Inner| inner.sessions.len() < self.slots_max && inner.partitions + partitions <= PARTITIONS_MAX;
        if !has_room(inner) {
            let now = Instant::now();
            let old: Vec<i32> = inner
                .sessions
                .iter()
                .filter(|(_, session)| now.duration_since(session.used) >= EVICTION_AGE)
                .map(|(&id, _)| id)
                .collect();
            for id in old {
                inner.remove(id);
            }
        }
        has_room(inner)
    }
}

impl Inner {
    fn next_id(&mut self) -> i32 {
        loop {
            self.last_id = if self.last_id == i32::MAX { 1 } else { self.last_id + 1 };
            if !self.sessions.contains_key(&self.last_id) {
                return self.last_id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::api::fetch::{FetchPartition, FetchTopic, ForgottenTopic};

    use super::*;

    fn request(session_id: i32, session_epoch: i32, partitions: &[i32]) -> FetchRequest {
        let partitions = partitions.iter().map(|&partition| FetchPartition { partition, ..Default::default() });
        let topic = FetchTopic { topic: "t".into(), partitions: partitions.collect(), ..Default::default() };
        FetchRequest { session_id, session_epoch, topics: vec![topic], ..Default::default() }
    }

    fn sent(with_records: &[bool]) -> Vec<Sent> {
        with_records
            .iter()
            .map(|&has_records| Sent { high_watermark: 7, log_start_offset: 0, durable_offset: -1, has_records })
            .collect()
    }

    fn order(targets: &Targets) -> Vec<i32> {
        targets.iter().map(|target| target.index).collect()
    }

    fn begin(sessions: &FetchSessions, partitions: &[i32]) -> i32 {
        let opened = sessions.open(request(0, 0, partitions), 12).expect("a new session opens");
        assert!(opened.is_full);
        sessions.close(opened.session_kind, opened.targets, &sent(&vec![false; partitions.len()]), 12)
    }

    #[test]
    fn an_incremental_request_adds_and_forgets() {
        let sessions = FetchSessions::new(10);
        let id = begin(&sessions, &[0, 1, 2]);
        assert_ne!(id, 0);
        let mut incremental = request(id, 1, &[3]);
        incremental.forgotten_topics_data =
            vec![ForgottenTopic { topic: "t".into(), partitions: vec![0], ..Default::default() }];
        let opened = sessions.open(incremental, 12).expect("the session is known");
        assert!(!opened.is_full);
        let mut partitions = order(&opened.targets);
        partitions.sort_unstable();
        assert_eq!(partitions, [1, 2, 3]);
    }

    #[test]
    fn the_next_request_begins_behind_the_last_partition_with_records() {
        let sessions = FetchSessions::new(10);
        let id = begin(&sessions, &[0, 1, 2]);
        let opened = sessions.open(request(id, 1, &[]), 12).expect("the session is known");
        assert_eq!(order(&opened.targets), [0, 1, 2]);
        sessions.close(opened.session_kind, opened.targets, &sent(&[true, false, false]), 12);
        let opened = sessions.open(request(id, 2, &[]), 12).expect("the session is known");
        assert_eq!(order(&opened.targets), [1, 2, 0]);
    }

    #[test]
    fn wrong_epochs_and_ids_are_refused() {
        let sessions = FetchSessions::new(10);
        let id = begin(&sessions, &[0]);
        let code = |request, version| sessions.open(request, version).err();
        assert_eq!(code(request(id + 1, 1, &[]), 12), Some(ErrorCode::FETCH_SESSION_ID_NOT_FOUND));
        assert_eq!(code(request(id, 2, &[]), 12), Some(ErrorCode::INVALID_FETCH_SESSION_EPOCH));
        assert_eq!(code(request(id, 1, &[]), 13), Some(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR));
    }

    #[test]
    fn of_a_partition_that_is_named_twice_the_last_mention_counts() {
        let sessions = FetchSessions::new(10);
        let targets = |request| {
            let opened = sessions.open(request, 12).expect("a full request is always served");
            let targets = opened.targets.iter().map(|target| (target.index, target.fetch_offset));
            targets.collect::<Vec<_>>()
        };
        let partition = |partition, fetch_offset| FetchPartition { partition, fetch_offset, ..Default::default() };
        let topic = |partitions| FetchTopic { topic: "t".into(), partitions, ..Default::default() };
        let request = |topics| FetchRequest { session_epoch: -1, topics, ..Default::default() };
        let same_topic = request(vec![topic(vec![partition(1, 5), partition(0, 6), partition(1, 7)])]);
        assert_eq!(targets(same_topic), [(1, 7), (0, 6)]);
        let two_topics = request(vec![topic(vec![partition(1, 5), partition(0, 6)]), topic(vec![partition(0, 7)])]);
        assert_eq!(targets(two_topics), [(1, 5), (0, 7)]);
        assert_eq!(targets(request(vec![topic(vec![partition(1, 5), partition(0, 6)])])), [(1, 5), (0, 6)]);
    }

    #[test]
    fn without_a_free_slot_there_is_no_session() {
        let sessions = FetchSessions::new(1);
        assert_ne!(begin(&sessions, &[0]), 0);
        assert_eq!(begin(&sessions, &[0]), 0);
    }

    #[test]
    fn a_final_epoch_ends_the_session() {
        let sessions = FetchSessions::new(1);
        let id = begin(&sessions, &[0]);
        sessions.open(request(id, -1, &[]), 12).expect("a full request is always served");
        assert_ne!(begin(&sessions, &[0]), 0);
    }
}
