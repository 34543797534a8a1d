//! The fetch requests of a follower to one leader, and how it applies the answers. No network, no runtime, no clock of
//! its own.
//!
//! Requests are incremental (KIP-227): a partition is named when what it has to say is new. The leader remembers the
//! rest, also which high watermark it has sent, so a new high watermark is no reason to be named.
//!
//! A partition whose answer cannot be used waits on its own, 50 ms and then twice as long each time up to a second, and
//! does not hold up the others. What was sent for a partition must be where it still is when the answer comes, or the
//! answer is left; and whatever changes the log looks at the leader epoch under the log's lock.
//!
//! A throttled partition that has not caught up is not fetched while the follower's quota is exceeded (KIP-73,
//! `RemoteLeaderEndPoint.shouldFollowerThrottle`). Of those partitions, the one whose last records are oldest is
//! fetched first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use configuration::BrokerConfig;
use metadata::MetadataImage;
use storage::EpochEndOffset;
use wire::api::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, PartitionData, ReplicaState,
};
use wire::{ErrorCode, Records, Uuid};

use super::Key;
use crate::partition::replica::Promised;
use crate::partition::{FollowError, Partition, Quota};

/// How long a partition waits after an answer that cannot be used: at first, and at most.
pub(crate) const BACKOFF_MIN_MS: i64 = 50;
pub(crate) const BACKOFF_MAX_MS: i64 = 1000;
/// How often partitions without answers are looked at for something to say: that more of them is on disk, say.
const LOOK_INTERVAL_MS: i64 = 250;

/// The most bytes of a fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) partition_bytes_max: i32,
    pub(crate) response_bytes_max: i32,
    pub(crate) wait_max_ms: i32,
    pub(crate) bytes_min: i32,
}

impl Limits {
    pub(crate) fn new(config: &BrokerConfig) -> Self {
        Self {
            partition_bytes_max: config.replica_fetch_max_bytes,
            response_bytes_max: config.replica_fetch_response_max_bytes,
            wait_max_ms: config.replica_fetch_wait_max_ms,
            bytes_min: config.replica_fetch_min_bytes,
        }
    }
}

/// Why an answer as a whole is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AnswerError {
    /// The next request begins a session.
    #[error("the leader does not know the fetch session any more")]
    SessionLost,
    #[error("the leader refuses to be fetched from: {0}")]
    Refused(ErrorCode),
}

/// The partitions that are fetched from one leader.
pub(crate) struct Follow {
    node_id: i32,
    limits: Limits,
    /// Of what throttled partitions fetch; all fetchers of the node share it.
    quota: Option<Arc<Quota>>,
    /// Answers so far.
    answers: u64,
    partitions: BTreeMap<Key, Followed>,
    /// Partitions that may have something new to say.
    to_look_at: BTreeSet<Key>,
    /// Partitions that the leader's session has and should not.
    to_forget: BTreeSet<Key>,
    looked_at_all_ms: i64,
    session_id: i32,
    /// 0 begins a session, -1 does without.
    session_epoch: i32,
}

struct Followed {
    partition: Arc<Partition>,
    /// What the leader was sent last, as long as its session has it.
    requested: Option<FetchPartition>,
    /// Not fetched before.
    retry_ms: i64,
    backoff_ms: i64,
    /// The answer that had records last.
    fed: u64,
}

impl Follow {
    pub(crate) fn new(node_id: i32, limits: Limits) -> Self {
        Self {
            node_id,
            limits,
            quota: None,
            answers: 0,
            partitions: BTreeMap::new(),
            to_look_at: BTreeSet::new(),
            to_forget: BTreeSet::new(),
            looked_at_all_ms: i64::MIN,
            session_id: 0,
            session_epoch: 0,
        }
    }

    pub(crate) fn throttled_by(self, quota: Arc<Quota>) -> Self {
        Self { quota: Some(quota), ..self }
    }

    /// Fetches these and no others from now on.
    pub(crate) fn assign(&mut self, assigned: &BTreeMap<Key, Arc<Partition>>) {
        let is_same = |key: &Key, followed: &Followed| {
            assigned.get(key).is_some_and(|partition| Arc::ptr_eq(partition, &followed.partition))
        };
        for (key, followed) in self.partitions.extract_if(.., |key, followed| !is_same(key, followed)) {
            if followed.requested.is_some() {
                self.to_forget.insert(key);
            }
        }
        for (key, partition) in assigned {
            self.partitions.entry(*key).or_insert_with(|| {
                self.to_look_at.insert(*key);
                Followed {
                    partition: Arc::clone(partition),
                    requested: None,
                    retry_ms: i64::MIN,
                    backoff_ms: 0,
                    fed: 0,
                }
            });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Begins a new session with the next request, which ends the one before.
    pub(crate) fn begin_session(&mut self) {
        self.session_epoch = 0;
        self.to_forget.clear();
        for (key, followed) in &mut self.partitions {
            followed.requested = None;
            self.to_look_at.insert(*key);
        }
    }

    /// When the first partition in backoff may be fetched again.
    pub(crate) fn next_retry_ms(&self) -> Option<i64> {
        self.partitions.values().filter(|followed| followed.backoff_ms > 0).map(|followed| followed.retry_ms).min()
    }

    /// The next request, unless there is nothing to fetch now. It has the epoch of this broker's registration.
    pub(crate) fn request(&mut self, image: &MetadataImage, now_ms: i64) -> Option<FetchRequest> {
        let is_exceeded = self.quota.as_ref().is_some_and(|quota| quota.is_exceeded(now_ms));
        if is_exceeded || now_ms.saturating_sub(self.looked_at_all_ms) >= LOOK_INTERVAL_MS {
            self.looked_at_all_ms = now_ms;
            self.to_look_at.extend(self.partitions.keys().copied());
        }
        let mut topics: Vec<FetchTopic> = Vec::new();
        for key in self.take_changed() {
            let Some(followed) = self.partitions.get_mut(&key) else { continue };
            if followed.retry_ms > now_ms {
                self.to_look_at.insert(key);
                continue;
            }
            let partition = &followed.partition;
            if is_exceeded && partition.is_throttled_as_follower() && !partition.has_caught_up() {
                self.to_look_at.insert(key);
                if followed.requested.take().is_some() {
                    self.to_forget.insert(key);
                }
                continue;
            }
            let Some(position) = followed.partition.position() else {
                // Its role is about to be known here too.
                if followed.requested.take().is_some() {
                    self.to_forget.insert(key);
                }
                continue;
            };
            let named = FetchPartition {
                partition: key.1,
                current_leader_epoch: position.leader_epoch,
                fetch_offset: position.fetch_offset,
                last_fetched_epoch: position.last_fetched_epoch,
                log_start_offset: position.log_start_offset,
                partition_max_bytes: self.limits.partition_bytes_max,
                high_watermark: position.high_watermark,
                synced_offset: position.synced_offset,
                is_damaged: position.is_damaged,
                ..FetchPartition::default()
            };
            let is_news = followed.requested.as_ref().is_none_or(|requested| {
                named != FetchPartition { high_watermark: named.high_watermark, ..requested.clone() }
            });
            if is_news {
                self.to_forget.remove(&key);
                followed.requested = Some(named.clone());
                match topics.last_mut().filter(|topic| topic.topic_id == key.0) {
                    Some(topic) => topic.partitions.push(named),
                    None => {
                        topics.push(FetchTopic { topic_id: key.0, partitions: vec![named], ..FetchTopic::default() });
                    }
                }
            }
        }
        if self.partitions.values().all(|followed| followed.requested.is_none()) {
            return None;
        }
        let (replica_epoch, incarnation_id) =
            image.broker(self.node_id).map_or((-1, Uuid::ZERO), |own| (own.epoch, own.incarnation_id));
        Some(FetchRequest {
            replica_state: ReplicaState { replica_id: self.node_id, replica_epoch, incarnation_id },
            max_wait_ms: self.limits.wait_max_ms,
            min_bytes: self.limits.bytes_min,
            max_bytes: self.limits.response_bytes_max,
            session_id: self.session_id,
            session_epoch: self.session_epoch,
            topics,
            forgotten_topics_data: self.take_forgotten(),
            ..FetchRequest::default()
        })
    }

    fn take_changed(&mut self) -> Vec<Key> {
        let mut keys: Vec<Key> = std::mem::take(&mut self.to_look_at).into_iter().collect();
        if self.quota.as_ref().is_some_and(|quota| quota.is_limited()) {
            keys.sort_by_cached_key(|key| self.partitions.get(key).map(|followed| followed.fed));
        }
        keys
    }

    fn take_forgotten(&mut self) -> Vec<ForgottenTopic> {
        let mut forgotten: Vec<ForgottenTopic> = Vec::new();
        for (topic_id, index) in std::mem::take(&mut self.to_forget) {
            // A new session knows nothing that is to be forgotten.
            if self.session_epoch <= 0 {
                continue;
            }
            match forgotten.last_mut().filter(|topic| topic.topic_id == topic_id) {
                Some(topic) => topic.partitions.push(index),
                None => {
                    forgotten.push(ForgottenTopic { topic_id, partitions: vec![index], ..ForgottenTopic::default() });
                }
            }
        }
        forgotten
    }

    /// Applies an answer. Returns the partitions that the leader wants to be on disk before the next request.
    pub(crate) fn apply(&mut self, response: FetchResponse, now_ms: i64) -> Result<Vec<Arc<Partition>>, AnswerError> {
        match response.error_code {
            ErrorCode::NONE => {}
            ErrorCode::FETCH_SESSION_ID_NOT_FOUND
            | ErrorCode::INVALID_FETCH_SESSION_EPOCH
            | ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR => {
                self.begin_session();
                return Err(AnswerError::SessionLost);
            }
            code => return Err(AnswerError::Refused(code)),
        }
        self.session_id = response.session_id;
        self.session_epoch = match (response.session_id, self.session_epoch) {
            (0, _) => 0,
            (_, i32::MAX) => 1,
            (_, epoch) => epoch + 1,
        };
        self.answers += 1;
        let mut to_sync = Vec::new();
        for topic in response.responses {
            for data in topic.partitions {
                self.apply_to((topic.topic_id, data.partition_index), data, now_ms, &mut to_sync);
            }
        }
        if self.session_id == 0 {
            // The leader's session cache is full: each request names all.
            self.begin_session();
        }
        Ok(to_sync)
    }

    fn apply_to(&mut self, key: Key, data: PartitionData, now_ms: i64, to_sync: &mut Vec<Arc<Partition>>) {
        let Some(followed) = self.partitions.get_mut(&key) else { return };
        let Some(requested) = followed.requested.clone() else { return };
        self.to_look_at.insert(key);
        let partition = Arc::clone(&followed.partition);
        let bytes = data.records.as_ref().map_or(0, Records::len) as i64;
        if bytes > 0 {
            followed.fed = self.answers;
        }
        if let Some(quota) = self.quota.as_ref().filter(|_| partition.is_throttled_as_follower()) {
            quota.record(bytes, now_ms);
        }
        let is_there = partition.position().is_some_and(|position| {
            position.fetch_offset == requested.fetch_offset && position.leader_epoch == requested.current_leader_epoch
        });
        if !is_there {
            return;
        }
        let sync_wanted = data.sync_wanted_offset;
        match take_over(&partition, &requested, data) {
            Ok(()) => followed.backoff_ms = 0,
            Err(error) => {
                followed.backoff_ms = (2 * followed.backoff_ms).clamp(BACKOFF_MIN_MS, BACKOFF_MAX_MS);
                followed.retry_ms = now_ms + followed.backoff_ms;
                // Not fetched meanwhile, or the same answer would come at once.
                followed.requested = None;
                self.to_forget.insert(key);
                error.report(&partition, followed.backoff_ms);
            }
        }
        let view = partition.view();
        if sync_wanted > view.durable_offset() && view.log_end_offset() > view.durable_offset() {
            to_sync.push(partition);
        }
    }
}

/// Why a partition's answer was not taken over, or not all of it.
#[derive(Debug, thiserror::Error)]
enum PartitionError {
    #[error("the leader answers {0}")]
    Refused(ErrorCode),
    #[error("{0}")]
    Follow(#[from] FollowError),
}

impl PartitionError {
    fn report(&self, partition: &Partition, backoff_ms: i64) {
        let (topic, index) = (&partition.topic, partition.index);
        match self {
            // A change of leaders that one of the two nodes does not know yet.
            Self::Refused(
                ErrorCode::NOT_LEADER_OR_FOLLOWER
                | ErrorCode::FENCED_LEADER_EPOCH
                | ErrorCode::UNKNOWN_LEADER_EPOCH
                | ErrorCode::UNKNOWN_TOPIC_ID
                | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            )
            | Self::Follow(FollowError::RoleChanged) => {
                tracing::debug!(%topic, partition = index, backoff_ms, error = %self, "not replicated for now");
            }
            _ => tracing::warn!(%topic, partition = index, backoff_ms, error = %self, "not replicated for now"),
        }
    }
}

fn take_over(
    partition: &Arc<Partition>,
    requested: &FetchPartition,
    data: PartitionData,
) -> Result<(), PartitionError> {
    let leader_epoch = requested.current_leader_epoch;
    match data.error_code {
        ErrorCode::NONE => {}
        // Either the leader has deleted what comes next, or nothing of this log is in its.
        ErrorCode::OFFSET_OUT_OF_RANGE if data.log_start_offset >= 0 => {
            return Ok(partition.truncate_fully_and_start_at(leader_epoch, data.log_start_offset)?);
        }
        code => return Err(PartitionError::Refused(code)),
    }
    if data.diverging_epoch.end_offset >= 0 {
        let end = EpochEndOffset { epoch: data.diverging_epoch.epoch, end_offset: data.diverging_epoch.end_offset };
        return Ok(partition.truncate_to_epoch(leader_epoch, end)?);
    }
    let bytes = match data.records {
        Some(Records::Inline(bytes)) => bytes,
        _ => bytes::Bytes::new(),
    };
    let promises = Promised { high_watermark: data.high_watermark, durable_offset: data.durable_offset };
    Ok(partition.append_from_leader(leader_epoch, requested.fetch_offset, &bytes, promises, data.log_start_offset)?)
}
