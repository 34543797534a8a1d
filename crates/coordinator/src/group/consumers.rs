//! Consumer groups (KIP-848) in the coordinator: their heartbeats, their records and their timers.
//!
//! A heartbeat that changes its group is answered when the change is durable. Meanwhile other heartbeats of the group
//! wait, and are then done together with one write: a thousand members that join at once take a few writes. As there is
//! never more than one change on its way, one that cannot be written is taken back exactly.
//!
//! A group of the classic protocol becomes a consumer group with the first member that asks for it, and is one of the
//! classic protocol again when its last such member has gone (`group.consumer.migration.policy`). Either change is one
//! write, and until it is durable the group is what it was before.

use std::sync::Arc;
use std::time::Duration;

use platform::Pace;
use tokio::sync::oneshot;
use wire::api::consumer_group_describe::DescribedGroup;
use wire::api::consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use wire::state::group::GroupMetadataValue;
use wire::{ErrorCode, Uuid};

use super::assignor::Assignor;
use super::consumer::{
    Change, ConsumerGroup, Context, Heartbeat, JOIN_EPOCH, LEAVE_EPOCH, MEMBER_BYTES_MIN, Record, Refusal, Resolution,
    ResolvedRegex, STATIC_LEAVE_EPOCH, Settings,
};
use super::coordinator::{Caller, GroupCoordinator, check_group_id, check_group_id_length, response_error};
use super::core::{Group, State, sync_error};
use super::interfaces::{MayDescribe, TopicSnapshot};
use super::memory::Use;
use super::migration;
use super::queue::{Answer, Consumers, Work};
use super::records::Batcher;
use super::regex::Pattern;
use super::shard::{Shard, ShardState, Slot};

impl GroupCoordinator {
    /// Without `may_describe` the member may know of all topics.
    pub async fn consumer_group_heartbeat(
        self: &Arc<Self>,
        caller: Caller<'_>,
        request: ConsumerGroupHeartbeatRequest,
        may_describe: Option<MayDescribe>,
    ) -> ConsumerGroupHeartbeatResponse {
        let answer = match self.begin_consumer_heartbeat(caller, request, may_describe) {
            Ok(answer) => answer,
            Err(refusal) => return refused(refusal),
        };
        let timeout = Duration::from_millis(self.config.offset_commit_timeout_ms.max(1) as u64);
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => failed(ErrorCode::NOT_COORDINATOR),
            Err(_) => failed(response_error(ErrorCode::REQUEST_TIMED_OUT)),
        }
    }

    fn begin_consumer_heartbeat(
        self: &Arc<Self>,
        caller: Caller<'_>,
        mut request: ConsumerGroupHeartbeatRequest,
        may_describe: Option<MayDescribe>,
    ) -> Result<oneshot::Receiver<ConsumerGroupHeartbeatResponse>, Refusal> {
        check_form(caller.api_version, &request, &self.config.consumer_assignors)?;
        check_group_id(&request.group_id).map_err(failure)?;
        let metadata_bytes = metadata_bytes(&request);
        if metadata_bytes > self.config.max_member_metadata_bytes {
            return Err(Refusal::new(ErrorCode::INVALID_REQUEST, "The subscription is too large."));
        }
        let shard = self.shard(&request.group_id).map_err(failure)?;
        let mut state = shard.state.lock();
        state.phase.check().map_err(failure)?;
        let group_id = std::mem::take(&mut request.group_id);
        if request.member_id.is_empty() {
            request.member_id = Uuid::from_random(self.random.bytes()).to_string();
        }
        let slot = state.groups.get(&group_id);
        let upgrade = self.check_protocol(&group_id, slot, request.member_epoch)?;
        let may_grow = metadata_bytes > MEMBER_BYTES_MIN;
        let is_member = || slot.is_some_and(|slot| slot.has_consumer(&request.member_id));
        if request.member_epoch == JOIN_EPOCH || may_grow && is_member() {
            self.check_memory_for_consumer(&caller, slot, &request.member_id, metadata_bytes).map_err(failure)?;
        }
        if upgrade.is_some() {
            self.change(&shard, &mut state, &group_id, |group, _, out| group.interrupt(out));
        }
        let slot = state.slot_or_new(&group_id, self.now(), caller.client_host);
        let consumers = slot.consumers.get_or_insert_with(|| Consumers::new(ConsumerGroup::default()));
        let heartbeat = Box::new(Heartbeat {
            client_id: caller.client_id.unwrap_or_default().to_owned(),
            client_host: format!("/{}", caller.client_host),
            request,
            may_describe,
        });
        let (answering, answer) = oneshot::channel();
        consumers.waiting.push(Work::Heartbeat { heartbeat, upgrade, answering });
        self.serve_consumers(&shard, &mut state, &group_id);
        Ok(answer)
    }

    /// Whether a group may be, or become, one of the consumer group protocol for a heartbeat with this epoch. One with
    /// members of the classic protocol takes them along.
    fn check_protocol(
        &self,
        group_id: &str,
        slot: Option<&Slot>,
        member_epoch: i32,
    ) -> Result<Option<Vec<Record>>, Refusal> {
        let not_found = |message: String| Err(Refusal::new(ErrorCode::GROUP_ID_NOT_FOUND, message));
        let group = match slot {
            // It is being deleted, and there will be another.
            Some(slot) if slot.group.state() == State::Dead => {
                return Err(failure(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
            }
            Some(slot) if slot.consumers.is_some() => return Ok(None),
            None if member_epoch != JOIN_EPOCH => return not_found(format!("Consumer group {group_id} not found.")),
            None => return Ok(None),
            Some(slot) if member_epoch == JOIN_EPOCH => &slot.group,
            Some(_) => return not_found(format!("Group {group_id} is not a consumer group.")),
        };
        if group.state() == State::Empty {
            return Ok(None);
        }
        let refused = |reason: &str| {
            not_found(format!("Cannot upgrade classic group {group_id} to consumer group because {reason}"))
        };
        if !self.config.migration_policy.allows_upgrade() {
            return refused("online upgrade is disabled.");
        }
        if group.member_count() > self.config.consumer_max_size {
            return refused("the group size exceeds the consumer group maximum size.");
        }
        migration::upgrade(group_id, group, &*self.topics.snapshot()).map(Some).or_else(not_found)
    }

    /// Whether there is memory for a new member, or for what one that is there adds to its subscription.
    pub(super) fn check_memory_for_consumer(
        &self,
        caller: &Caller<'_>,
        slot: Option<&Slot>,
        member_id: &str,
        metadata_bytes: usize,
    ) -> Result<(), ErrorCode> {
        /// The approximate memory of a member beside its subscription.
        const MEMBER_BYTES: usize = 2_000;
        let consumers = slot.and_then(|slot| slot.consumers.as_ref());
        let grown = match consumers.and_then(|consumers| consumers.group.member_bytes(member_id)) {
            Some(member_bytes) => metadata_bytes.saturating_sub(member_bytes),
            None => MEMBER_BYTES + 2 * metadata_bytes,
        };
        if grown > 0 && !self.memory.has_room_in_group(slot.map_or(0, Slot::size_bytes), grown) {
            return Err(ErrorCode::GROUP_MAX_SIZE_REACHED);
        }
        // There may be memory later.
        if grown > 0 && !self.memory.has_room(caller.client_host, Use::Members, grown) {
            return Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
        }
        Ok(())
    }

    pub(super) fn consumer_settings(&self, group_id: &str) -> Settings {
        let config = self.topics.group_config(group_id);
        Settings {
            max_size: self.config.consumer_max_size,
            session_timeout_ms: config.consumer_session_timeout_ms,
            heartbeat_interval_ms: config.consumer_heartbeat_interval_ms,
            assignment_interval_ms: config.consumer_assignment_interval_ms,
            assignors: self.config.consumer_assignors.clone(),
        }
    }

    /// Does what is due in a consumer group: its timers, and the requests that wait. Nothing, while a change is on its
    /// way to the log.
    pub(super) fn serve_consumers(self: &Arc<Self>, shard: &Arc<Shard>, state: &mut ShardState, group_id: &str) {
        let (settings, topics) = (self.consumer_settings(group_id), self.topics.snapshot());
        let context = Context { settings: &settings, topics: &*topics, now: self.now() };
        let Some(slot) = state.groups.get_mut(group_id) else { return };
        let Some(consumers) = slot.consumers.as_mut().filter(|consumers| !consumers.is_writing) else { return };
        let mut change = consumers.group.tick(context);
        let (mut answers, mut resolution) = (Vec::new(), None);
        for work in std::mem::take(&mut consumers.waiting) {
            let (answer, made, resolve) = do_work(&mut consumers.group, context, work);
            change.extend(made);
            resolution = resolve.or(resolution);
            answers.extend(answer);
        }
        if change.records.is_empty() {
            answers.into_iter().for_each(Answer::give);
        } else {
            if storage::injected_fault!(MemberAnsweredBeforeWritten) {
                std::mem::take(&mut answers).into_iter().for_each(Answer::give);
            }
            let classic = self.downgraded(&consumers.group, context);
            self.write_consumers(shard, group_id, slot, Written { change, answers, classic });
        }
        let incarnation = state.groups.get(group_id).map_or(0, |slot| slot.incarnation);
        self.settle(state, group_id);
        if let Some(resolution) = resolution {
            self.resolve(shard, group_id, incarnation, resolution, topics);
        }
    }

    /// The group of the classic protocol that a consumer group is to become, if only members of that are left.
    fn downgraded(&self, group: &ConsumerGroup, context: Context<'_>) -> Option<Box<Group>> {
        let is_wanted = self.config.migration_policy.allows_downgrade() && group.is_all_classic();
        if !is_wanted || group.member_count() > self.config.max_size {
            return None;
        }
        migration::downgrade(group, context.topics, context.now).map(Box::new)
    }

    /// Appends a change. A group ends as one of the other protocol with it.
    fn write_consumers(self: &Arc<Self>, shard: &Arc<Shard>, group_id: &str, slot: &mut Slot, written: Written) {
        let Some(consumers) = &mut slot.consumers else { return };
        let mut batcher = Batcher::new(self.now().wall_ms, self.log.max_batch_bytes(), self.config.offsets_topic_codec);
        if slot.group.is_stored() {
            batcher.push_group(group_id, None);
        }
        written.change.records.iter().for_each(|record| batcher.push_consumer(group_id, record));
        if let Some(classic) = &written.classic {
            let deletion = consumers.group.clone().delete();
            deletion.records.iter().for_each(|record| batcher.push_consumer(group_id, record));
            // A coordinator that reads this would not know that the members have still to share what those had who are
            // gone. In this generation, in which none of them is, they join again.
            let value = GroupMetadataValue { generation: classic.generation() + 1, ..classic.value() };
            batcher.push_group(group_id, Some(&value));
        }
        consumers.is_writing = true;
        let durable = self.append(shard.partition, batcher.build());
        let (coordinator, shard, group_id) = (Arc::clone(self), Arc::clone(shard), group_id.to_owned());
        let incarnation = slot.incarnation;
        tokio::spawn(async move {
            let result = durable.await;
            coordinator.consumers_written(&shard, &group_id, incarnation, written, result);
        });
    }

    fn consumers_written(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        group_id: &str,
        incarnation: u64,
        Written { change, mut answers, classic }: Written,
        result: Result<(), ErrorCode>,
    ) {
        let mut state = shard.state.lock();
        let slot = state.groups.get_mut(group_id).filter(|slot| slot.incarnation == incarnation);
        // Whoever leads the partition next reads what there is. Answers that are dropped say so.
        let Some(slot) = slot else { return };
        let Some(consumers) = &mut slot.consumers else { return };
        consumers.is_writing = false;
        if let Err(error) = result {
            tracing::warn!(group_id, %error, "a change of a consumer group could not be written");
            answers.iter_mut().for_each(|answer| answer.fail(response_error(error)));
        }
        match result {
            // It is committed, though later than its senders were to wait.
            Ok(()) | Err(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND) => {
                if let Some(classic) = classic {
                    tracing::info!(group_id, "a consumer group uses the classic protocol again");
                    consumers.refuse_waiting();
                    consumers.group.delete();
                    self.change(shard, &mut state, group_id, |group, now, out| {
                        group.adopt(*classic, &self.config, now, out);
                    });
                } else if slot.group.is_stored() || !slot.group.is_idle() {
                    slot.group.forget_membership(self.now());
                }
            }
            Err(_) => {
                consumers.group.take_back(change);
                // It is one of the classic protocol still.
                if !slot.group.is_idle() {
                    consumers.refuse_waiting();
                }
            }
        }
        answers.into_iter().for_each(Answer::give);
        self.serve_consumers(shard, &mut state, group_id);
        self.settle(&mut state, group_id);
    }

    /// Finds the topics that patterns match, beside everything else, and has the group take them over.
    fn resolve(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        group_id: &str,
        incarnation: u64,
        resolution: Resolution,
        topics: Arc<dyn TopicSnapshot>,
    ) {
        let (coordinator, shard, group_id) = (Arc::clone(self), Arc::clone(shard), group_id.to_owned());
        let timestamp_ms = self.now().wall_ms;
        tokio::spawn(async move {
            let resolved = resolve(&resolution.patterns, &*topics, timestamp_ms).await;
            let mut state = shard.state.lock();
            let slot = state.groups.get_mut(&group_id).filter(|slot| slot.incarnation == incarnation);
            let Some(consumers) = slot.and_then(|slot| slot.consumers.as_mut()) else { return };
            consumers.waiting.push(Work::Resolved(resolved));
            coordinator.serve_consumers(&shard, &mut state, &group_id);
        });
    }

    /// Takes over a group that was read from the log.
    pub(super) fn resume_consumers(&self, state: &mut ShardState, group_id: &str, mut group: ConsumerGroup) {
        let (settings, topics) = (self.consumer_settings(group_id), self.topics.snapshot());
        group.resume(Context { settings: &settings, topics: &*topics, now: self.now() });
        if let Some(slot) = state.groups.get_mut(group_id) {
            slot.consumers = Some(Consumers::new(group));
        }
    }

    /// Topics were created, changed or deleted: groups that consume them look at them with their next heartbeat that
    /// sees that version of the metadata.
    pub fn topics_changed(&self, version: i64, names: &[String], has_new_topics: bool) {
        for shard in self.shards() {
            let mut state = shard.state.lock();
            for consumers in state.groups.values_mut().filter_map(|slot| slot.consumers.as_mut()) {
                if has_new_topics || names.iter().any(|name| consumers.group.is_subscribed_to(name)) {
                    consumers.group.topics_changed(version, has_new_topics);
                }
            }
        }
    }

    pub fn consumer_group_describe(&self, group_id: &str) -> DescribedGroup {
        self.try_describe_consumers(group_id).unwrap_or_else(|error_code| DescribedGroup {
            error_code,
            error_message: (error_code == ErrorCode::GROUP_ID_NOT_FOUND)
                .then(|| format!("Group {group_id} is not a consumer group.")),
            group_id: group_id.to_owned(),
            ..Default::default()
        })
    }

    fn try_describe_consumers(&self, group_id: &str) -> Result<DescribedGroup, ErrorCode> {
        check_group_id_length(group_id)?;
        let shard = self.shard(group_id)?;
        let (settings, topics) = (self.consumer_settings(group_id), self.topics.snapshot());
        let state = shard.state.lock();
        state.phase.check()?;
        let slot = state.groups.get(group_id).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        let consumers = slot.consumers.as_ref().ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        let context = Context { settings: &settings, topics: &*topics, now: self.now() };
        Ok(consumers.group.describe(context, group_id))
    }
}

/// A change that is on its way, with what follows when it is durable.
struct Written {
    change: Change,
    answers: Vec<Answer>,
    /// What the group becomes with it.
    classic: Option<Box<Group>>,
}

/// Does what has waited: its answer, what it changes, and the patterns that are to be resolved.
fn do_work(
    group: &mut ConsumerGroup,
    context: Context<'_>,
    work: Work,
) -> (Option<Answer>, Change, Option<Resolution>) {
    match work {
        Work::Heartbeat { heartbeat, upgrade, answering } => {
            let mut change = upgrade.map(|records| group.take_over(context, records)).unwrap_or_default();
            let (response, resolve) = match beat(group, context, *heartbeat) {
                Ok((response, made, resolve)) => {
                    change.extend(made);
                    (response, resolve)
                }
                Err(refusal) => {
                    group.take_back(std::mem::take(&mut change));
                    (refused(refusal), None)
                }
            };
            (Some(Answer::Heartbeat(answering, response)), change, resolve)
        }
        Work::Join(join, sender) => {
            let (response, change, resolve) = group.join_classic(context, *join);
            (Some(Answer::Join(sender, response)), change, resolve)
        }
        Work::Sync(request, sender) => {
            let response = group.sync_classic(context, request).unwrap_or_else(sync_error);
            (Some(Answer::Sync(sender, response)), Change::default(), None)
        }
        Work::Leave(members, sender) => {
            let (responses, change) = group.leave_classic(context, members);
            (Some(Answer::Leave(sender, Ok(responses))), change, None)
        }
        Work::Resolved(resolved) => (None, group.resolved(context, resolved), None),
    }
}

/// One heartbeat of a member of the consumer group protocol.
fn beat(
    group: &mut ConsumerGroup,
    context: Context<'_>,
    heartbeat: Heartbeat,
) -> Result<(ConsumerGroupHeartbeatResponse, Change, Option<Resolution>), Refusal> {
    match heartbeat.request.member_epoch {
        LEAVE_EPOCH | STATIC_LEAVE_EPOCH => {
            group.leave(context, &heartbeat.request).map(|(response, change)| (response, change, None))
        }
        _ => group.heartbeat(context, heartbeat).map(|answer| (answer.response, answer.change, answer.resolve)),
    }
}

/// The topics that each pattern matches. A pattern that cannot be compiled has none: members' own are checked, but the
/// log may have others.
async fn resolve(
    patterns: &[String],
    topics: &dyn TopicSnapshot,
    timestamp_ms: i64,
) -> Option<Vec<(String, ResolvedRegex)>> {
    let (names, version) = (topics.names(), topics.version());
    let mut pace = Pace::default();
    let mut resolved = Vec::with_capacity(patterns.len());
    for text in patterns {
        let mut matched = ResolvedRegex { version, timestamp_ms, ..Default::default() };
        match Pattern::new(text) {
            Ok(pattern) => {
                for name in &names {
                    if pattern.matches(name) {
                        matched.topics.insert(name.clone());
                    }
                    pace.step(1).await;
                }
            }
            Err(error) => tracing::warn!(%error, "a pattern of a consumer group matches nothing"),
        }
        resolved.push((text.clone(), matched));
    }
    Some(resolved)
}

/// What a heartbeat has to have (`GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid`).
fn check_form(
    api_version: i16,
    request: &ConsumerGroupHeartbeatRequest,
    assignors: &[Assignor],
) -> Result<(), Refusal> {
    /// First version whose members make their ids themselves (KIP-1082).
    const OWN_MEMBER_ID_SINCE: i16 = 1;
    let invalid = |message: &str| Err(Refusal::new(ErrorCode::INVALID_REQUEST, message));
    let is_blank = |text: &str| text.trim().is_empty();
    let is_blank_option = |text: &Option<String>| text.as_deref().is_some_and(is_blank);
    let epoch = request.member_epoch;
    let needs_member_id = api_version >= OWN_MEMBER_ID_SINCE || epoch > JOIN_EPOCH || epoch == LEAVE_EPOCH;
    if needs_member_id && is_blank(&request.member_id) {
        return invalid("MemberId can't be empty.");
    }
    if is_blank(&request.group_id) {
        return invalid("GroupId can't be empty.");
    }
    if is_blank_option(&request.instance_id) {
        return invalid("InstanceId can't be empty.");
    }
    if is_blank_option(&request.rack_id) {
        return invalid("RackId can't be empty.");
    }
    match epoch {
        JOIN_EPOCH if request.rebalance_timeout_ms == -1 => {
            return invalid("RebalanceTimeoutMs must be provided in first request.");
        }
        JOIN_EPOCH if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) => {
            return invalid("TopicPartitions must be empty when (re-)joining.");
        }
        JOIN_EPOCH if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() => {
            return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.");
        }
        STATIC_LEAVE_EPOCH if request.instance_id.is_none() => return invalid("InstanceId can't be null."),
        ..STATIC_LEAVE_EPOCH => return invalid("MemberEpoch is invalid."),
        _ => {}
    }
    match &request.server_assignor {
        Some(name) if !assignors.iter().any(|assignor| assignor.name() == name) => {
            let names: Vec<_> = assignors.iter().map(|assignor| assignor.name()).collect();
            let message = format!("ServerAssignor is not supported. Supported assignors: {}.", names.join(", "));
            Err(Refusal::new(ErrorCode::UNSUPPORTED_ASSIGNOR, message))
        }
        _ => Ok(()),
    }
}

/// About what a member's description of itself takes.
fn metadata_bytes(request: &ConsumerGroupHeartbeatRequest) -> usize {
    const NAME_BYTES: usize = 48;
    let names = request.subscribed_topic_names.iter().flatten();
    let optional = [&request.instance_id, &request.rack_id, &request.subscribed_topic_regex, &request.server_assignor];
    request.member_id.len()
        + names.map(|name| NAME_BYTES + name.len()).sum::<usize>()
        + optional.iter().filter_map(|text| text.as_ref()).map(String::len).sum::<usize>()
}

fn failure(code: ErrorCode) -> Refusal {
    Refusal { code, message: String::new() }
}

fn failed(error_code: ErrorCode) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse { error_code, ..Default::default() }
}

fn refused(refusal: Refusal) -> ConsumerGroupHeartbeatResponse {
    let error_message = Some(refusal.message).filter(|message| !message.is_empty());
    ConsumerGroupHeartbeatResponse { error_message, ..failed(refusal.code) }
}
