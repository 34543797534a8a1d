//! OffsetCommit, OffsetFetch, OffsetDelete, and the end of offsets by age or with their topic.
//!
//! A commit is answered when its records are durable, and visible from then on. A dropped request does not drop its
//! commit: [`InFlight`] finishes what was enqueued.
//!
//! A commit does not outlive what was read before it, or a group would go on behind records that replaced lost ones:
//! the log is first synced up to the committed offset, in partitions that this broker leads.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use platform::Pace;
use wire::api::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitResponse, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};
use wire::api::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use wire::api::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use wire::{ErrorCode, Uuid};

use super::coordinator::{GroupCoordinator, check_group_id, check_group_id_length, response_error};
use super::core::{CommittedOffset, Group, OffsetWrite};
use super::memory::Use;
use super::records::Batcher;
use super::shard::{Shard, ShardState};
use super::{Now, Topic};
use crate::topic_log::BoxFuture;

/// First version of OffsetCommit and OffsetFetch that names topics by id.
const TOPIC_IDS_SINCE: i16 = 10;
/// Partitions that are looked up before others have their turn with the groups.
const PARTITIONS_PER_TURN: usize = 1_000;
/// The most bytes of offsets in one response: further groups are refused. The first is answered in any case.
const FETCHED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Changes of a group's offsets on their way to the log.
pub(super) struct InFlight {
    coordinator: Arc<GroupCoordinator>,
    shard: Arc<Shard>,
    group_id: String,
    incarnation: u64,
    writes: Vec<OffsetWrite>,
    /// Whether the group's own tombstone is among the records.
    deletes_group: bool,
    durable: Option<BoxFuture<Result<(), ErrorCode>>>,
}

impl InFlight {
    /// Waits for the end, for as long as `offsets.commit.timeout.ms` allows. The changes end in any case.
    pub(super) async fn wait(mut self) -> Result<(), ErrorCode> {
        let Some(durable) = &mut self.durable else { return Ok(()) };
        let timeout = Duration::from_millis(self.coordinator.config.offset_commit_timeout_ms.max(1) as u64);
        match tokio::time::timeout(timeout, durable).await {
            Ok(result) => {
                self.durable = None;
                self.finish(result);
                result.map_err(response_error)
            }
            Err(_) => Err(response_error(ErrorCode::REQUEST_TIMED_OUT)),
        }
    }

    fn finish(&mut self, result: Result<(), ErrorCode>) {
        let mut state = self.shard.state.lock();
        let writes = std::mem::take(&mut self.writes);
        let Some(slot) = state.groups.get_mut(&self.group_id) else { return };
        if slot.incarnation != self.incarnation {
            return;
        }
        for write in writes {
            slot.group.offsets.finish(write, result.is_ok());
        }
        slot.offsets_visible.notify_waiters();
        if self.deletes_group {
            match result {
                Ok(()) => state.remove(&self.group_id, &self.coordinator.memory),
                Err(_) => slot.group.revive(),
            }
        }
        self.coordinator.settle(&mut state, &self.group_id);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some(durable) = self.durable.take() else { return };
        let mut rest = Self {
            coordinator: Arc::clone(&self.coordinator),
            shard: Arc::clone(&self.shard),
            group_id: std::mem::take(&mut self.group_id),
            incarnation: self.incarnation,
            writes: std::mem::take(&mut self.writes),
            deletes_group: self.deletes_group,
            durable: None,
        };
        // Without a runtime the broker itself is going down, and its memory with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let result = durable.await;
                rest.finish(result);
            });
        }
    }
}

/// One partition of a commit that may be stored, and the position of its answer.
struct Accepted {
    position: (usize, usize),
    topic: String,
    topic_id: Uuid,
    partition: OffsetCommitRequestPartition,
}

impl GroupCoordinator {
    pub async fn offset_commit(
        self: &Arc<Self>,
        api_version: i16,
        client_host: IpAddr,
        mut request: OffsetCommitRequest,
    ) -> OffsetCommitResponse {
        let (mut topics, mut accepted) = self.check_committed_topics(api_version, &mut request);
        self.make_durable(&mut accepted, &mut topics).await;
        if !accepted.is_empty() {
            let positions: Vec<_> = accepted.iter().map(|accepted| accepted.position).collect();
            let result = match self.begin_commit(api_version, client_host, &request, &mut accepted, &mut topics) {
                Ok(in_flight) => in_flight.wait().await,
                Err(error) => Err(error),
            };
            for (topic, partition) in positions {
                let error_code = &mut topics[topic].partitions[partition].error_code;
                *error_code = result.err().unwrap_or(*error_code);
            }
        }
        OffsetCommitResponse { topics, ..Default::default() }
    }

    /// Separates what can be committed from partitions that do not exist. The answer has the request's order.
    fn check_committed_topics(
        &self,
        api_version: i16,
        request: &mut OffsetCommitRequest,
    ) -> (Vec<OffsetCommitResponseTopic>, Vec<Accepted>) {
        let mut accepted = Vec::new();
        let mut answers = Vec::with_capacity(request.topics.len());
        for topic in std::mem::take(&mut request.topics) {
            let (found, unknown) = if api_version >= TOPIC_IDS_SINCE {
                let name = self.topics.name(topic.topic_id);
                let found = name.and_then(|name| self.topics.topic(&name).map(|found| (name, found)));
                (found, ErrorCode::UNKNOWN_TOPIC_ID)
            } else {
                let found = self.topics.topic(&topic.name).map(|found| (topic.name.clone(), found));
                (found, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
            };
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for partition in topic.partitions {
                let partition_index = partition.partition_index;
                let error_code = match &found {
                    None => unknown,
                    Some((_, found)) if !(0..found.partition_count).contains(&partition_index) => {
                        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                    }
                    Some((name, found)) => {
                        let position = (answers.len(), partitions.len());
                        accepted.push(Accepted { position, topic: name.clone(), topic_id: found.id, partition });
                        ErrorCode::NONE
                    }
                };
                partitions.push(OffsetCommitResponsePartition { partition_index, error_code });
            }
            answers.push(OffsetCommitResponseTopic { name: topic.name, topic_id: topic.topic_id, partitions });
        }
        (answers, accepted)
    }

    /// Waits until the records below the offsets are durable, for as long as `offsets.commit.timeout.ms` allows.
    /// Partitions where they do not become so are refused, and their consumers try again.
    async fn make_durable(&self, accepted: &mut Vec<Accepted>, answers: &mut [OffsetCommitResponseTopic]) {
        let sync = |commit: &Accepted| {
            let (index, offset) = (commit.partition.partition_index, commit.partition.committed_offset);
            Some((commit.position, self.topics.make_durable(&commit.topic, index, offset)?))
        };
        let syncs: Vec<_> = accepted.iter().filter_map(sync).collect();
        if syncs.is_empty() {
            return;
        }
        let timeout = Duration::from_millis(self.config.offset_commit_timeout_ms.max(1) as u64);
        let deadline = tokio::time::Instant::now() + timeout;
        for ((topic, partition), durable) in syncs {
            if !matches!(tokio::time::timeout_at(deadline, durable).await, Ok(Ok(()))) {
                answers[topic].partitions[partition].error_code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
            }
        }
        accepted.retain(|commit| answers[commit.position.0].partitions[commit.position.1].error_code.is_none());
    }

    fn begin_commit(
        self: &Arc<Self>,
        api_version: i16,
        client_host: IpAddr,
        request: &OffsetCommitRequest,
        accepted: &mut Vec<Accepted>,
        answers: &mut [OffsetCommitResponseTopic],
    ) -> Result<InFlight, ErrorCode> {
        const GROUP_ID_NOT_FOUND_SINCE: i16 = 9;
        let group_id = request.group_id.as_str();
        check_group_id_length(group_id)?;
        let shard = self.shard(group_id)?;
        let mut state = shard.state.lock();
        state.check_active()?;
        let generation = request.generation_id_or_member_epoch;
        if !state.groups.contains_key(group_id) && generation >= 0 {
            return Err(match api_version {
                GROUP_ID_NOT_FOUND_SINCE.. => ErrorCode::GROUP_ID_NOT_FOUND,
                _ => ErrorCode::ILLEGAL_GENERATION,
            });
        }
        let now = self.now();
        let is_new = !state.groups.contains_key(group_id);
        // A simple consumer's first commit creates its group.
        let group = state.group_or_new(group_id, now, client_host);
        let checked = group.check_commit(now, &request.member_id, request.group_instance_id.as_deref(), generation);
        let mut writes: Vec<OffsetWrite> = Vec::with_capacity(accepted.len());
        if checked.is_ok() {
            let mut grown = if is_new { group.own_bytes() } else { 0 };
            let mut positions: HashMap<(String, i32), usize> = HashMap::new();
            for accepted in accepted.drain(..) {
                let (topic, partition) = accepted.position;
                match self.commit_one(group, now, client_host, request.retention_time_ms, &mut grown, accepted) {
                    // Of a partition that is there several times the last offset counts, and is the only one written.
                    Ok(write) => match positions.entry((write.topic.clone(), write.partition)) {
                        Entry::Occupied(position) => {
                            let former = std::mem::replace(&mut writes[*position.get()], write);
                            group.offsets.finish(former, false);
                        }
                        Entry::Vacant(position) => {
                            position.insert(writes.len());
                            writes.push(write);
                        }
                    },
                    Err(error) => answers[topic].partitions[partition].error_code = error,
                }
            }
        }
        let in_flight = self.enqueue(&shard, &mut state, group_id, writes, false);
        self.settle(&mut state, group_id);
        checked.map(|()| in_flight)
    }

    fn commit_one(
        &self,
        group: &mut Group,
        now: Now,
        client_host: IpAddr,
        retention_time_ms: i64,
        grown: &mut usize,
        accepted: Accepted,
    ) -> Result<OffsetWrite, ErrorCode> {
        let Accepted { topic, topic_id, partition, .. } = accepted;
        let metadata = partition.committed_metadata.unwrap_or_default();
        let limit = self.config.offset_metadata_max_bytes;
        // Kafka counts as Java does, in units of UTF-16.
        if metadata.len() > limit && metadata.encode_utf16().count() > limit {
            return Err(ErrorCode::OFFSET_METADATA_TOO_LARGE);
        }
        let growth = group.offsets.growth(&topic, partition.partition_index, &metadata);
        // An existing offset may always change, as long as it takes no more memory.
        if growth > 0
            && !(self.memory.has_room_in_group(group.size_bytes(), *grown + growth)
                && self.memory.has_room(client_host, Use::Offsets, *grown + growth))
        {
            return Err(ErrorCode::INVALID_COMMIT_OFFSET_SIZE);
        }
        *grown += growth;
        let expire_timestamp_ms = match retention_time_ms {
            0.. => now.wall_ms.saturating_add(retention_time_ms),
            _ => -1,
        };
        let committed = CommittedOffset {
            offset: partition.committed_offset,
            leader_epoch: partition.committed_leader_epoch,
            metadata,
            commit_timestamp_ms: now.wall_ms,
            expire_timestamp_ms,
            topic_id,
            known_ms: now.monotonic_ms,
        };
        Ok(group.offsets.begin(&topic, partition.partition_index, Some(committed)))
    }

    /// Gives changes of a group's offsets to the log. `deletes_group` adds the group's tombstone.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        state: &mut ShardState,
        group_id: &str,
        writes: Vec<OffsetWrite>,
        deletes_group: bool,
    ) -> InFlight {
        let mut batcher = Batcher::new(self.now().wall_ms, self.log.max_batch_bytes(), self.config.offsets_topic_codec);
        for write in &writes {
            batcher.push_offset(group_id, write);
        }
        if deletes_group {
            batcher.push_group(group_id, None);
        }
        let batches = batcher.build();
        InFlight {
            coordinator: Arc::clone(self),
            shard: Arc::clone(shard),
            group_id: group_id.to_owned(),
            incarnation: state.groups.get(group_id).map_or(0, |slot| slot.incarnation),
            writes,
            deletes_group,
            durable: (!batches.is_empty()).then(|| self.append(shard.partition, batches)),
        }
    }

    pub async fn offset_fetch(&self, api_version: i16, request: OffsetFetchRequest) -> OffsetFetchResponse {
        const GROUPS_SINCE: i16 = 8;
        let require_stable = request.require_stable;
        if api_version >= GROUPS_SINCE {
            let mut groups = Vec::with_capacity(request.groups.len());
            let (mut named, mut fetched_bytes) = (HashSet::new(), 0);
            let mut pace = Pace::default();
            for group in request.groups {
                pace.step(1).await;
                let refusal = if !named.insert(group.group_id.clone()) {
                    Some(ErrorCode::INVALID_REQUEST)
                } else if fetched_bytes >= FETCHED_BYTES_MAX {
                    Some(ErrorCode::POLICY_VIOLATION)
                } else {
                    None
                };
                groups.push(match refusal {
                    Some(error_code) => {
                        OffsetFetchResponseGroup { group_id: group.group_id, error_code, ..Default::default() }
                    }
                    None => self.fetch_group(api_version, group, require_stable).await,
                });
                fetched_bytes += groups.last().map_or(0, size_bytes);
            }
            return OffsetFetchResponse { groups, ..Default::default() };
        }
        let by_name = |topic: wire::api::offset_fetch::OffsetFetchRequestTopic| OffsetFetchRequestTopics {
            name: topic.name,
            partition_indexes: topic.partition_indexes,
            ..Default::default()
        };
        let topics: Option<Vec<_>> = request.topics.map(|topics| topics.into_iter().map(by_name).collect());
        let requested = topics.clone().unwrap_or_default();
        let group = OffsetFetchRequestGroup { group_id: request.group_id, topics, ..Default::default() };
        let fetched = self.fetch_group(api_version, group, require_stable).await;
        single_group_response(api_version, fetched, requested)
    }

    async fn fetch_group(
        &self,
        api_version: i16,
        mut request: OffsetFetchRequestGroup,
        require_stable: bool,
    ) -> OffsetFetchResponseGroup {
        let group_id = request.group_id.clone();
        let turns = match request.topics.take() {
            Some(topics) => in_turns(topics).into_iter().map(Some).collect(),
            None => vec![None],
        };
        let mut topics: Vec<OffsetFetchResponseTopics> = Vec::new();
        let mut pace = Pace::default();
        for turn in turns {
            request.topics = turn;
            let result = match self.try_fetch(api_version, &request, require_stable) {
                // Commits that are on their way count: the answer waits for them (KIP-447).
                Ok(None) => self.fetch_stable(api_version, &request).await,
                result => result,
            };
            match result {
                Ok(fetched) => add_turn(&mut topics, fetched.unwrap_or_default()),
                Err(error_code) => {
                    return OffsetFetchResponseGroup { group_id, error_code, ..Default::default() };
                }
            }
            pace.step(PARTITIONS_PER_TURN).await;
        }
        OffsetFetchResponseGroup { group_id, topics, ..Default::default() }
    }

    async fn fetch_stable(
        &self,
        api_version: i16,
        request: &OffsetFetchRequestGroup,
    ) -> Result<Option<Vec<OffsetFetchResponseTopics>>, ErrorCode> {
        let deadline_ms = self.now().monotonic_ms + self.config.offset_commit_timeout_ms;
        loop {
            let visible = {
                let shard = self.shard(&request.group_id)?;
                let state = shard.state.lock();
                state.groups.get(&request.group_id).map(|slot| Arc::clone(&slot.offsets_visible))
            };
            // Registers before it checks, so that no notification is missed.
            let notified = visible.as_ref().map(|visible| visible.notified());
            let mut notified = pin!(notified);
            if let Some(notified) = notified.as_mut().as_pin_mut() {
                notified.enable();
            }
            if let Some(topics) = self.try_fetch(api_version, request, true)? {
                return Ok(Some(topics));
            }
            let Some(notified) = notified.as_pin_mut() else { continue };
            let left_ms = (deadline_ms - self.now().monotonic_ms).max(0) as u64;
            if tokio::time::timeout(Duration::from_millis(left_ms), notified).await.is_err() {
                // Older consumers have no better retriable error (as in Kafka's handleOffsetFetchException).
                return Err(ErrorCode::NOT_COORDINATOR);
            }
        }
    }

    /// The offsets, or `None` if some are about to change and the reader wants to wait for that.
    fn try_fetch(
        &self,
        api_version: i16,
        request: &OffsetFetchRequestGroup,
        require_stable: bool,
    ) -> Result<Option<Vec<OffsetFetchResponseTopics>>, ErrorCode> {
        check_group_id_length(&request.group_id)?;
        let shard = self.shard(&request.group_id)?;
        let mut state = shard.state.lock();
        state.check_active()?;
        let group = state.group(&request.group_id);
        match &request.topics {
            Some(topics) => {
                if let Some(group) = group.as_deref().filter(|_| require_stable) {
                    let in_flight = |topic: &OffsetFetchRequestTopics| {
                        let name = self.fetched_name(api_version, topic);
                        let in_flight = |p: &i32| name.as_ref().is_some_and(|n| group.offsets.is_in_flight(n, *p));
                        topic.partition_indexes.iter().any(in_flight)
                    };
                    if group.offsets.has_in_flight() && topics.iter().any(in_flight) {
                        return Ok(None);
                    }
                }
                let fetched = topics.iter().map(|topic| self.fetch_topic(api_version, group.as_deref(), topic));
                let mut fetched: Vec<_> = fetched.collect();
                // Unknown ids come last (`KafkaApis.fetchOffsetsForGroup`).
                let is_unknown = |topic: &OffsetFetchResponseTopics| self.topics.name(topic.topic_id).is_none();
                fetched.sort_by_cached_key(|topic| api_version >= TOPIC_IDS_SINCE && is_unknown(topic));
                Ok(Some(fetched))
            }
            None => match group {
                Some(group) if require_stable && group.offsets.has_in_flight() => Ok(None),
                Some(group) => Ok(Some(self.fetch_all(api_version, group))),
                None => Ok(Some(Vec::new())),
            },
        }
    }

    fn fetched_name(&self, api_version: i16, topic: &OffsetFetchRequestTopics) -> Option<String> {
        if api_version >= TOPIC_IDS_SINCE { self.topics.name(topic.topic_id) } else { Some(topic.name.clone()) }
    }

    fn fetch_topic(
        &self,
        api_version: i16,
        group: Option<&Group>,
        topic: &OffsetFetchRequestTopics,
    ) -> OffsetFetchResponseTopics {
        let name = self.fetched_name(api_version, topic);
        let current = name.as_ref().and_then(|name| self.topics.topic(name));
        let error_code = if name.is_some() { ErrorCode::NONE } else { ErrorCode::UNKNOWN_TOPIC_ID };
        let partitions = topic.partition_indexes.iter().map(|&partition| {
            let committed = name.as_ref().and_then(|name| group?.offsets.get(name, partition));
            let committed = committed.filter(|committed| is_of(committed, current));
            fetched_partition(partition, committed, error_code)
        });
        OffsetFetchResponseTopics {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: partitions.collect(),
        }
    }

    fn fetch_all(&self, api_version: i16, group: &Group) -> Vec<OffsetFetchResponseTopics> {
        let mut topics = Vec::new();
        for (name, partitions) in group.offsets.topics() {
            let current = self.topics.topic(name);
            // Without an id a deleted topic cannot be named.
            if api_version >= TOPIC_IDS_SINCE && current.is_none() {
                continue;
            }
            let partitions = partitions.filter(|(_, committed)| is_of(committed, current));
            let partitions: Vec<_> =
                partitions.map(|(p, committed)| fetched_partition(p, Some(committed), ErrorCode::NONE)).collect();
            if !partitions.is_empty() {
                let topic_id = current.map_or(Uuid::ZERO, |topic| topic.id);
                topics.push(OffsetFetchResponseTopics { name: name.to_owned(), topic_id, partitions });
            }
        }
        topics
    }

    pub async fn offset_delete(self: &Arc<Self>, request: OffsetDeleteRequest) -> OffsetDeleteResponse {
        let result = match self.begin_offset_delete(request) {
            Ok((topics, in_flight)) => in_flight.wait().await.map(|()| topics),
            Err(error) => Err(error),
        };
        match result {
            Ok(topics) => OffsetDeleteResponse { topics, ..Default::default() },
            Err(error_code) => OffsetDeleteResponse { error_code, ..Default::default() },
        }
    }

    fn begin_offset_delete(
        self: &Arc<Self>,
        request: OffsetDeleteRequest,
    ) -> Result<(Vec<OffsetDeleteResponseTopic>, InFlight), ErrorCode> {
        let group_id = request.group_id.as_str();
        check_group_id(group_id)?;
        let shard = self.shard(group_id)?;
        let mut state = shard.state.lock();
        state.check_active()?;
        let group = state.group(group_id).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        group.check_delete_offsets()?;
        let mut writes = Vec::new();
        let mut deleted = HashSet::new();
        let mut answers = Vec::with_capacity(request.topics.len());
        for topic in request.topics {
            let found = self.topics.topic(&topic.name);
            let subscribed = group.is_subscribed_to(&topic.name);
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for partition in topic.partitions {
                let partition_index = partition.partition_index;
                let exists = found.is_some_and(|found| (0..found.partition_count).contains(&partition_index));
                let error_code = match (exists, subscribed) {
                    (false, _) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    (true, true) => ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC,
                    (true, false) => ErrorCode::NONE,
                };
                if error_code.is_none()
                    && group.offsets.contains(&topic.name, partition_index)
                    && deleted.insert((topic.name.clone(), partition_index))
                {
                    writes.push(group.offsets.begin(&topic.name, partition_index, None));
                }
                partitions.push(OffsetDeleteResponsePartition { partition_index, error_code });
            }
            answers.push(OffsetDeleteResponseTopic { name: topic.name, partitions });
        }
        let in_flight = self.enqueue(&shard, &mut state, group_id, writes, false);
        self.settle(&mut state, group_id);
        Ok((answers, in_flight))
    }

    /// Removes the offsets of deleted topics, in all groups of this broker. The broker calls it when it learns of the
    /// deletion; it does not wait for the disk.
    pub fn topics_deleted(self: &Arc<Self>, deleted: &[(String, Uuid)]) {
        let is_deleted = |topic: &str, topic_id: Uuid| {
            deleted.iter().any(|(name, id)| name == topic && (topic_id.is_zero() || topic_id == *id))
        };
        for shard in self.shards() {
            let mut state = shard.state.lock();
            for group_id in state.groups.keys().cloned().collect::<Vec<_>>() {
                let Some(group) = state.group(&group_id) else { continue };
                let mut partitions = Vec::new();
                for (topic, offsets) in group.offsets.topics().filter(|(topic, _)| is_deleted(topic, Uuid::ZERO)) {
                    let gone = offsets.filter(|(_, committed)| is_deleted(topic, committed.topic_id));
                    partitions.extend(gone.map(|(partition, _)| (topic.to_owned(), partition)));
                }
                self.remove_offsets(&shard, &mut state, &group_id, partitions);
            }
        }
    }

    /// Removes offsets that have outlived the retention, and groups that have nothing left.
    pub fn expire_offsets(self: &Arc<Self>) {
        let now = self.now();
        for shard in self.shards() {
            let mut state = shard.state.lock();
            for group_id in state.groups.keys().cloned().collect::<Vec<_>>() {
                let Some(group) = state.group(&group_id) else { continue };
                let expired = group.expired_offsets(now, self.config.offsets_retention_ms);
                if !expired.is_empty() || group.is_obsolete() {
                    tracing::debug!(group_id, offsets = expired.len(), "removing expired offsets");
                    self.remove_offsets(&shard, &mut state, &group_id, expired);
                }
            }
        }
    }

    /// Writes tombstones for a group's offsets, and for the group if that is all it has.
    fn remove_offsets(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        state: &mut ShardState,
        group_id: &str,
        partitions: Vec<(String, i32)>,
    ) {
        let now = self.now();
        let Some(group) = state.group(group_id) else { return };
        let removed: BTreeSet<_> = partitions.iter().collect();
        let is_all = group.offsets.partitions().iter().all(|partition| removed.contains(partition));
        let deletes_group = is_all && group.is_idle() && group.is_stored();
        if partitions.is_empty() && !deletes_group {
            return;
        }
        let writes = partitions.iter().map(|(topic, p)| group.offsets.begin(topic, *p, None)).collect();
        if deletes_group {
            group.begin_delete(now);
        }
        // Dropping it leaves the rest to a task.
        drop(self.enqueue(shard, state, group_id, writes, deletes_group));
        self.settle(state, group_id);
    }
}

/// The requested partitions, each once, a turn's worth at a time. Each topic is there once, also one without requested
/// partitions.
fn in_turns(topics: Vec<OffsetFetchRequestTopics>) -> Vec<Vec<OffsetFetchRequestTopics>> {
    // By the index of their topic: a name for each partition could be many times the request.
    let mut positions: HashMap<(Uuid, String), usize> = HashMap::with_capacity(topics.len());
    let mut seen: HashSet<(usize, i32)> = HashSet::new();
    let (mut turns, mut turn, mut left) = (Vec::new(), Vec::new(), PARTITIONS_PER_TURN);
    for OffsetFetchRequestTopics { name, topic_id, mut partition_indexes } in topics {
        let next = positions.len();
        let position = *positions.entry((topic_id, name.clone())).or_insert(next);
        partition_indexes.retain(|partition| seen.insert((position, *partition)));
        let mut rest = partition_indexes;
        loop {
            let later = rest.split_off(rest.len().min(left));
            // A topic without partitions takes its part of a turn, too.
            left -= rest.len().max(1).min(left);
            turn.push(OffsetFetchRequestTopics { name: name.clone(), topic_id, partition_indexes: rest });
            if left == 0 {
                turns.push(std::mem::take(&mut turn));
                left = PARTITIONS_PER_TURN;
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !turn.is_empty() || turns.is_empty() {
        turns.push(turn);
    }
    turns
}

/// Adds what a turn has found. A topic may have been begun in the turn before.
fn add_turn(topics: &mut Vec<OffsetFetchResponseTopics>, fetched: Vec<OffsetFetchResponseTopics>) {
    for mut topic in fetched {
        match topics.last_mut() {
            Some(last) if last.topic_id == topic.topic_id && last.name == topic.name => {
                last.partitions.append(&mut topic.partitions);
            }
            _ => topics.push(topic),
        }
    }
}

/// About what a group takes in the answer.
fn size_bytes(group: &OffsetFetchResponseGroup) -> usize {
    const PARTITION_BYTES: usize = 24;
    let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| PARTITION_BYTES + partition.metadata.as_ref().map_or(0, String::len)).sum()
}

/// Whether an offset belongs to the topic that has the name now, as far as both ids are known.
fn is_of(committed: &CommittedOffset, current: Option<Topic>) -> bool {
    committed.topic_id.is_zero() || current.is_none_or(|topic| topic.id.is_zero() || topic.id == committed.topic_id)
}

fn fetched_partition(
    partition_index: i32,
    committed: Option<&CommittedOffset>,
    error_code: ErrorCode,
) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: committed.map_or(-1, |committed| committed.offset),
        committed_leader_epoch: committed.map_or(-1, |committed| committed.leader_epoch),
        metadata: Some(committed.map_or_else(String::new, |committed| committed.metadata.clone())),
        error_code,
    }
}

/// The form before version 8. Version 1 has no field for an error but the partitions'.
fn single_group_response(
    api_version: i16,
    mut fetched: OffsetFetchResponseGroup,
    requested: Vec<OffsetFetchRequestTopics>,
) -> OffsetFetchResponse {
    const ERROR_CODE_SINCE: i16 = 2;
    if !fetched.error_code.is_none() && api_version < ERROR_CODE_SINCE {
        let failed = |topic: OffsetFetchRequestTopics| {
            let partitions = topic.partition_indexes.iter();
            let partitions = partitions.map(|&partition| fetched_partition(partition, None, fetched.error_code));
            OffsetFetchResponseTopics { name: topic.name, partitions: partitions.collect(), ..Default::default() }
        };
        fetched.topics = requested.into_iter().map(failed).collect();
    }
    let topics = fetched.topics.into_iter().map(|topic| OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic
            .partitions
            .into_iter()
            .map(|partition| OffsetFetchResponsePartition {
                partition_index: partition.partition_index,
                committed_offset: partition.committed_offset,
                committed_leader_epoch: partition.committed_leader_epoch,
                metadata: partition.metadata,
                error_code: partition.error_code,
            })
            .collect(),
    });
    OffsetFetchResponse { topics: topics.collect(), error_code: fetched.error_code, ..Default::default() }
}
