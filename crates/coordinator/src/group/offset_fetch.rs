//! OffsetFetch: the committed offsets of groups.
//!
//! A reader that wants stable offsets waits for commits that are on their way, which takes no longer than the log does.
//! Of partitions with an open transaction it is told to come again (KIP-447).

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use platform::Pace;
use wire::api::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use wire::{ErrorCode, Uuid};

use super::Topic;
use super::coordinator::{GroupCoordinator, check_group_id_length};
use super::core::{CommittedOffset, Group};
use super::offsets::TOPIC_IDS_SINCE;

/// Partitions that are looked up before others have their turn with the groups.
const PARTITIONS_PER_TURN: usize = 1_000;
/// The most bytes of offsets in one response: further groups are refused. The first is answered in any case.
const FETCHED_BYTES_MAX: usize = 16 * 1024 * 1024;

impl GroupCoordinator {
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
        let state = shard.state.lock();
        state.phase.check()?;
        let slot = state.groups.get(&request.group_id);
        if let Some(consumers) = slot.and_then(|slot| slot.consumers.as_ref()) {
            consumers.group.check_fetch(request.member_id.as_deref(), request.member_epoch)?;
        }
        let group = slot.map(|slot| &slot.group);
        match &request.topics {
            Some(topics) => {
                if let Some(group) = group.filter(|_| require_stable) {
                    let in_flight = |topic: &OffsetFetchRequestTopics| {
                        let name = self.fetched_name(api_version, topic);
                        let in_flight = |p: &i32| name.as_ref().is_some_and(|n| group.offsets.is_in_flight(n, *p));
                        topic.partition_indexes.iter().any(in_flight)
                    };
                    if group.offsets.has_in_flight() && topics.iter().any(in_flight) {
                        return Ok(None);
                    }
                }
                let fetch = |topic| self.fetch_topic(api_version, group, topic, require_stable);
                let fetched = topics.iter().map(fetch);
                let mut fetched: Vec<_> = fetched.collect();
                // Unknown ids come last (`KafkaApis.fetchOffsetsForGroup`).
                let is_unknown = |topic: &OffsetFetchResponseTopics| self.topics.name(topic.topic_id).is_none();
                fetched.sort_by_cached_key(|topic| api_version >= TOPIC_IDS_SINCE && is_unknown(topic));
                Ok(Some(fetched))
            }
            None => match group {
                Some(group) if require_stable && group.offsets.has_in_flight() => Ok(None),
                Some(group) => Ok(Some(self.fetch_all(api_version, group, require_stable))),
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
        require_stable: bool,
    ) -> OffsetFetchResponseTopics {
        let name = self.fetched_name(api_version, topic);
        let current = name.as_ref().and_then(|name| self.topics.topic(name));
        let error_code = if name.is_some() { ErrorCode::NONE } else { ErrorCode::UNKNOWN_TOPIC_ID };
        let partitions = topic.partition_indexes.iter().map(|&partition| {
            let (Some(name), Some(group)) = (&name, group) else {
                return fetched_partition(partition, None, error_code);
            };
            let is_pending = group.offsets.is_pending(name, partition);
            if require_stable && is_pending && !storage::injected_fault!(PendingOffsetIsStable) {
                return unstable_partition(partition);
            }
            let committed = group.offsets.get(name, partition).filter(|committed| is_of(committed, current));
            fetched_partition(partition, committed, error_code)
        });
        OffsetFetchResponseTopics {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: partitions.collect(),
        }
    }

    fn fetch_all(&self, api_version: i16, group: &Group, require_stable: bool) -> Vec<OffsetFetchResponseTopics> {
        let mut topics = Vec::new();
        for (name, partitions) in group.offsets.topics() {
            let current = self.topics.topic(name);
            // Without an id a deleted topic cannot be named.
            if api_version >= TOPIC_IDS_SINCE && current.is_none() {
                continue;
            }
            let partitions = partitions.filter(|(_, committed)| is_of(committed, current));
            let fetched = partitions.map(|(partition, committed)| {
                match require_stable && group.offsets.is_pending(name, partition) {
                    true => unstable_partition(partition),
                    false => fetched_partition(partition, Some(committed), ErrorCode::NONE),
                }
            });
            let partitions: Vec<_> = fetched.collect();
            if !partitions.is_empty() {
                let topic_id = current.map_or(Uuid::ZERO, |topic| topic.id);
                topics.push(OffsetFetchResponseTopics { name: name.to_owned(), topic_id, partitions });
            }
        }
        topics
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

/// An open transaction may change the offset: the reader comes again (KIP-447).
fn unstable_partition(partition_index: i32) -> OffsetFetchResponsePartitions {
    fetched_partition(partition_index, None, ErrorCode::UNSTABLE_OFFSET_COMMIT)
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
