//! OffsetCommit, OffsetDelete, and the end of offsets by age or with their topic.
//!
//! A commit is answered when its records are durable, and visible from then on. A dropped request does not drop its
//! commit: [`InFlight`] finishes what was enqueued.
//!
//! A commit does not outlive what was read before it, or a group would go on behind records that replaced lost ones:
//! the log is first synced up to the committed offset, in partitions that this broker leads.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::future::ready;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use wire::api::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitResponse, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};
use wire::api::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use wire::{ErrorCode, Uuid};

use super::Now;
use super::coordinator::{GroupCoordinator, check_group_id, check_group_id_length, response_error};
use super::core::{CommittedOffset, Group, OffsetWrite};
use super::memory::Use;
use super::queue::Consumers;
use super::records::Batcher;
use super::shard::{Shard, ShardState};
use super::transactions::Producer;
use crate::topic_log::BoxFuture;

/// First version of OffsetCommit and OffsetFetch that names topics by id.
pub(super) const TOPIC_IDS_SINCE: i16 = 10;

/// Changes of a group's offsets on their way to the log.
pub(super) struct InFlight {
    coordinator: Arc<GroupCoordinator>,
    shard: Arc<Shard>,
    group_id: String,
    incarnation: u64,
    writes: Vec<OffsetWrite>,
    /// Whether the group's own tombstone is among the records.
    deletes_group: bool,
    /// The producer whose transaction they are part of.
    producer_id: Option<i64>,
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
        // What fails so is in the log, though its sender is told something else. In a transaction it counts: the marker
        // that ends it would count it after a failover.
        let is_durable = match result {
            Err(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND) => self.producer_id.is_some(),
            result => result.is_ok(),
        };
        for write in writes {
            slot.group.offsets.finish(write, is_durable);
        }
        slot.offsets_visible.notify_waiters();
        if self.deletes_group {
            match result {
                Ok(()) => state.remove(&self.group_id, &self.coordinator.memory),
                Err(_) => slot.group.revive(),
            }
        }
        self.coordinator.settle(&mut state, &self.group_id);
        if let Some(producer_id) = self.producer_id {
            state.forget_ended(producer_id);
        }
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
            producer_id: self.producer_id,
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

/// What the partitions of a commit have in common.
#[derive(Clone, Copy)]
struct Commit {
    now: Now,
    client_host: IpAddr,
    retention_time_ms: i64,
    producer: Option<Producer>,
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
        request: OffsetCommitRequest,
    ) -> OffsetCommitResponse {
        self.commit(api_version, client_host, request, ready(Ok(None))).await
    }

    /// Commits offsets, in the transaction of a producer if there is one. It is asked for when there is something to
    /// commit.
    pub(super) async fn commit(
        self: &Arc<Self>,
        api_version: i16,
        client_host: IpAddr,
        mut request: OffsetCommitRequest,
        producer: impl Future<Output = Result<Option<Producer>, ErrorCode>>,
    ) -> OffsetCommitResponse {
        let (mut topics, mut accepted) = self.check_committed_topics(api_version, &mut request);
        self.make_durable(&mut accepted, &mut topics).await;
        if !accepted.is_empty() {
            let positions: Vec<_> = accepted.iter().map(|accepted| accepted.position).collect();
            let begun = producer.await.and_then(|producer| {
                self.begin_commit(api_version, client_host, &request, producer, &mut accepted, &mut topics)
            });
            let result = match begun {
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
        producer: Option<Producer>,
        accepted: &mut Vec<Accepted>,
        answers: &mut [OffsetCommitResponseTopic],
    ) -> Result<InFlight, ErrorCode> {
        const GROUP_ID_NOT_FOUND_SINCE: i16 = 9;
        let group_id = request.group_id.as_str();
        check_group_id_length(group_id)?;
        let shard = self.shard(group_id)?;
        let mut state = shard.state.lock();
        state.phase.check()?;
        let generation = request.generation_id_or_member_epoch;
        if !state.groups.contains_key(group_id) && generation >= 0 {
            let is_known = producer.is_none() && api_version >= GROUP_ID_NOT_FOUND_SINCE;
            return Err(if is_known { ErrorCode::GROUP_ID_NOT_FOUND } else { ErrorCode::ILLEGAL_GENERATION });
        }
        // Only a producer that does not wait for the end of its transaction gets here, such as one that was fenced.
        if producer.is_some_and(|producer| state.is_ending(producer.id)) {
            return Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
        }
        let now = self.now();
        let is_new = !state.groups.contains_key(group_id);
        // A simple consumer's first commit creates its group.
        let slot = state.slot_or_new(group_id, now, client_host);
        let (member_id, instance_id) = (request.member_id.as_str(), request.group_instance_id.as_deref());
        let checks = |_: &&Consumers| !storage::injected_fault!(FencedMemberCommits);
        if let Some(consumers) = slot.consumers.as_ref().filter(checks) {
            let api_version = producer.is_none().then_some(api_version);
            let checked = consumers.group.check_commit(api_version, member_id, instance_id, generation)?;
            let is_own = |commit: &Accepted| checked.partition(commit.topic_id, commit.partition.partition_index);
            accepted.iter().try_for_each(is_own)?;
        }
        let group = &mut slot.group;
        let checked = match producer {
            _ if slot.consumers.is_some() => group.check_not_deleted(),
            Some(_) => group.check_transactional_commit(member_id, instance_id, generation),
            None => group.check_commit(now, member_id, instance_id, generation),
        };
        let mut writes: Vec<OffsetWrite> = Vec::with_capacity(accepted.len());
        if checked.is_ok() {
            let mut grown = if is_new { group.own_bytes() } else { 0 };
            let mut positions: HashMap<(String, i32), usize> = HashMap::new();
            for accepted in accepted.drain(..) {
                let (topic, partition) = accepted.position;
                let commit = Commit { now, client_host, retention_time_ms: request.retention_time_ms, producer };
                match self.commit_one(group, commit, &mut grown, accepted) {
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
        let in_flight = self.enqueue(&shard, &mut state, group_id, writes, false, producer);
        self.settle(&mut state, group_id);
        checked.map(|()| in_flight)
    }

    fn commit_one(
        &self,
        group: &mut Group,
        commit: Commit,
        grown: &mut usize,
        accepted: Accepted,
    ) -> Result<OffsetWrite, ErrorCode> {
        let Commit { now, client_host, retention_time_ms, producer } = commit;
        let Accepted { topic, topic_id, partition, .. } = accepted;
        let metadata = partition.committed_metadata.unwrap_or_default();
        let limit = self.config.offset_metadata_max_bytes;
        // Kafka counts as Java does, in units of UTF-16.
        if metadata.len() > limit && metadata.encode_utf16().count() > limit {
            return Err(ErrorCode::OFFSET_METADATA_TOO_LARGE);
        }
        let offsets = &group.offsets;
        let growth = match producer {
            None => offsets.growth(&topic, partition.partition_index, &metadata),
            Some(Producer { id, .. }) => offsets.pending_growth(id, &topic, partition.partition_index, &metadata),
        };
        // An existing offset may always change, as long as it takes no more memory.
        if growth > 0 {
            if !self.memory.has_room_in_group(group.size_bytes(), *grown + growth) {
                return Err(ErrorCode::INVALID_COMMIT_OFFSET_SIZE);
            }
            if !self.memory.has_room(client_host, Use::Offsets, *grown + growth) {
                return Err(match producer {
                    // Others end, and the producer tries again: a lasting error would end it.
                    Some(_) => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
                    None => ErrorCode::INVALID_COMMIT_OFFSET_SIZE,
                });
            }
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
        let (offsets, index) = (&mut group.offsets, partition.partition_index);
        Ok(match producer {
            None => offsets.begin(&topic, index, Some(committed)),
            Some(Producer { id, .. }) => offsets.begin_pending(id, &topic, index, committed),
        })
    }

    /// Gives changes of a group's offsets to the log, as part of a producer's transaction if there is one.
    /// `deletes_group` adds the group's tombstone.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        state: &mut ShardState,
        group_id: &str,
        writes: Vec<OffsetWrite>,
        deletes_group: bool,
        producer: Option<Producer>,
    ) -> InFlight {
        let mut batcher = Batcher::new(self.now().wall_ms, self.log.max_batch_bytes(), self.config.offsets_topic_codec);
        if let Some(producer) = producer {
            batcher = batcher.transactional(producer.id, producer.epoch);
        }
        for write in &writes {
            batcher.push_offset(group_id, write);
        }
        if deletes_group {
            match state.groups.get(group_id).and_then(|slot| slot.consumers.as_ref()) {
                Some(consumers) => {
                    let deletion = consumers.group.clone().delete();
                    deletion.records.iter().for_each(|record| batcher.push_consumer(group_id, record));
                }
                None => batcher.push_group(group_id, None),
            }
        }
        let batches = batcher.build();
        let durable = (!batches.is_empty()).then(|| match producer {
            None => self.append(shard.partition, batches),
            Some(producer) => {
                state.add_to_transaction(producer.id, group_id);
                self.append_transactional(shard.partition, batches, producer.guard)
            }
        });
        InFlight {
            coordinator: Arc::clone(self),
            shard: Arc::clone(shard),
            group_id: group_id.to_owned(),
            incarnation: state.groups.get(group_id).map_or(0, |slot| slot.incarnation),
            writes,
            deletes_group,
            producer_id: producer.map(|producer| producer.id),
            durable,
        }
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
        state.phase.check()?;
        let slot = state.groups.get_mut(group_id).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        slot.group.check_delete_offsets()?;
        let mut writes = Vec::new();
        let mut deleted = HashSet::new();
        let mut answers = Vec::with_capacity(request.topics.len());
        for topic in request.topics {
            let found = self.topics.topic(&topic.name);
            let subscribed = slot.is_subscribed_to(&topic.name);
            let group = &mut slot.group;
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
        let in_flight = self.enqueue(&shard, &mut state, group_id, writes, false, None);
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
                let partitions = group.offsets.partitions_where_all(|topic, offset| is_deleted(topic, offset.topic_id));
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
                let Some(slot) = state.groups.get(&group_id) else { continue };
                let mut expired = slot.group.expired_offsets(now, self.config.offsets_retention_ms);
                if slot.consumers.is_some() {
                    expired.retain(|(topic, _)| !slot.is_subscribed_to(topic));
                }
                if !expired.is_empty() || slot.is_obsolete() {
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
        let Some(slot) = state.groups.get_mut(group_id) else { return };
        let can_be_deleted = slot.is_idle() && slot.is_stored();
        let group = &mut slot.group;
        let removed: BTreeSet<_> = partitions.iter().collect();
        let is_all = group.offsets.partitions().iter().all(|partition| removed.contains(partition));
        let deletes_group = is_all && can_be_deleted;
        if partitions.is_empty() && !deletes_group {
            return;
        }
        let writes = partitions.iter().map(|(topic, p)| group.offsets.begin(topic, *p, None)).collect();
        if deletes_group {
            group.begin_delete(now);
        }
        // Dropping it leaves the rest to a task.
        drop(self.enqueue(shard, state, group_id, writes, deletes_group, None));
        self.settle(state, group_id);
    }
}
