//! The group coordinator: which groups this broker has, their waiting requests, their timers and their records.
//!
//! Handlers call it, and the broker calls [`GroupCoordinator::load`] and [`GroupCoordinator::unload`] as it becomes or
//! ceases to be the leader of partitions of `__consumer_offsets`. One task runs [`GroupCoordinator::run`].
//!
//! A request changes its group under the lock of the group's partition. Records are enqueued under the same lock, so
//! that the log has them in the order of the changes; waiting for the disk happens without it.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use platform::{Clock, Count, Random};
use storage::VerificationGuard;
use tokio::sync::{Notify, oneshot};
use wire::api::heartbeat::HeartbeatRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupResponse};
use wire::api::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse};
use wire::api::sync_group::{SyncGroupRequest, SyncGroupResponse};
use wire::batch::Batch;
use wire::{ErrorCode, Uuid};

use super::core::{Group, Join, Output, RebalanceCause, RequestId, Write, join_error, sync_error};
use super::history::{Generation, History};
use super::load::LoadedGroup;
use super::memory::{Memory, Use};
use super::queue::{Left, Work};
use super::records::Batcher;
use super::shard::{Shard, ShardState};
use super::{GroupConfig, Now, OffsetsLog, Topics};
use crate::phase::Phase;
use crate::topic_log::BoxFuture;

/// Longest group id. Kafka has no bound but that of its strings.
const MAX_GROUP_ID_BYTES: usize = 4096;
/// How much of a client id goes into a member id.
const MAX_MEMBER_ID_PREFIX_BYTES: usize = 255;

/// The sender of a JoinGroup request.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    pub api_version: i16,
    pub client_id: Option<&'a str>,
    pub client_host: IpAddr,
}

pub struct GroupCoordinator {
    pub(super) config: GroupConfig,
    clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) log: Arc<dyn OffsetsLog>,
    pub(super) topics: Arc<dyn Topics>,
    shards: RwLock<BTreeMap<i32, Arc<Shard>>>,
    last_request: AtomicU64,
    pub(super) memory: Memory,
    pub(super) rebalances: [Count; RebalanceCause::ALL.len()],
    pub(super) history: Mutex<History>,
    /// When [`Self::run`] wakes up, and how to make it look again.
    alarm_ms: AtomicI64,
    alarm: Notify,
}

impl GroupCoordinator {
    pub fn new(
        config: GroupConfig,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        log: Arc<dyn OffsetsLog>,
        topics: Arc<dyn Topics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            memory: Memory::new(config.max_memory_bytes),
            config,
            clock,
            random,
            log,
            topics,
            shards: RwLock::default(),
            last_request: AtomicU64::new(0),
            rebalances: Default::default(),
            history: Mutex::default(),
            alarm_ms: AtomicI64::new(i64::MAX),
            alarm: Notify::new(),
        })
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    /// The partition of `__consumer_offsets` that holds a group (`GroupCoordinator.partitionFor`).
    pub fn partition_for(&self, group_id: &str) -> i32 {
        let count = self.topics.offsets_partition_count().unwrap_or(self.config.offsets_topic_num_partitions);
        partition_of(group_id, count)
    }

    /// Creates `__consumer_offsets` unless it exists.
    pub async fn ensure_offsets_topic(&self) -> Result<(), ErrorCode> {
        match self.topics.offsets_partition_count() {
            Some(_) => Ok(()),
            None => self.topics.create_offsets_topic().await,
        }
    }

    /// Takes over a partition: reads its groups and serves them. From this call on, not only from the first poll,
    /// requests for them fail with COORDINATOR_LOAD_IN_PROGRESS meanwhile. An error means that the partition cannot be
    /// served.
    ///
    /// Nothing that was appended before a former [`Self::unload`] may still be on its way to the log.
    pub fn load(
        self: &Arc<Self>,
        partition: i32,
    ) -> impl Future<Output = Result<(), ErrorCode>> + Send + 'static + use<> {
        let coordinator = Arc::clone(self);
        let shard = self.begin_load(partition);
        async move {
            let groups = super::load::load(&*coordinator.log, partition, &coordinator.config, coordinator.now()).await;
            coordinator.finish_load(&shard, groups)
        }
    }

    fn finish_load(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        groups: Result<BTreeMap<String, LoadedGroup>, ErrorCode>,
    ) -> Result<(), ErrorCode> {
        let mut shards = self.shards.write();
        let mut state = shard.state.lock();
        // It may have been unloaded meanwhile.
        if state.phase != Phase::Loading {
            return Err(ErrorCode::NOT_COORDINATOR);
        }
        let groups = groups.inspect_err(|_| {
            shards.remove(&shard.partition);
            state.phase = Phase::Unloaded;
        })?;
        drop(shards);
        if !groups.is_empty() {
            tracing::info!(partition = shard.partition, groups = groups.len(), "loaded the groups of a partition");
        }
        state.phase = Phase::Active;
        for (group_id, LoadedGroup { group, consumer }) in groups {
            state.insert(group_id.clone(), group, None);
            if let Some(consumer) = consumer {
                self.resume_consumers(&mut state, &group_id, consumer);
            }
            self.change(shard, &mut state, &group_id, |group, now, out| group.resume(&self.config, now, out));
        }
        Ok(())
    }

    pub(super) fn begin_load(&self, partition: i32) -> Arc<Shard> {
        let shard = Arc::new(Shard { partition, state: ShardState::loading().into() });
        let former = self.shards.write().insert(partition, Arc::clone(&shard));
        if let Some(former) = former {
            self.unload_shard(&former);
        }
        shard
    }

    /// Gives up a partition: waiting requests fail with NOT_COORDINATOR.
    pub fn unload(&self, partition: i32) {
        let shard = self.shards.write().remove(&partition);
        if let Some(shard) = shard {
            self.unload_shard(&shard);
        }
    }

    fn unload_shard(&self, shard: &Shard) {
        let mut state = shard.state.lock();
        state.phase = Phase::Unloaded;
        let mut out = Vec::new();
        for slot in state.groups.values_mut() {
            slot.group.unload(&mut out);
            slot.offsets_visible.notify_waiters();
        }
        state.answer(out);
        state.clear(&self.memory);
        state.joins.clear();
        state.syncs.clear();
    }

    pub(super) fn shards(&self) -> Vec<Arc<Shard>> {
        self.shards.read().values().cloned().collect()
    }

    pub(super) fn shard(&self, group_id: &str) -> Result<Arc<Shard>, ErrorCode> {
        self.shard_of(self.partition_for(group_id))
    }

    /// Clients are sent away as long as another broker may have the partition by now: positions and memberships that
    /// they are told may be old.
    pub(super) fn shard_of(&self, partition: i32) -> Result<Arc<Shard>, ErrorCode> {
        if self.log.may_have_moved() {
            return Err(ErrorCode::NOT_COORDINATOR);
        }
        self.shards.read().get(&partition).cloned().ok_or(ErrorCode::NOT_COORDINATOR)
    }

    /// Estimate of the memory of all groups.
    pub fn memory_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Changes a group, if it exists, and does what follows from the change.
    pub(super) fn change<R>(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        state: &mut ShardState,
        group_id: &str,
        change: impl FnOnce(&mut Group, Now, &mut Vec<Output>) -> R,
    ) -> Option<R> {
        let (mut out, now) = (Vec::new(), self.now());
        let group = state.group(group_id)?;
        let result = change(group, now, &mut out);
        let generation = Generation { id: group.generation(), members: group.member_count() };
        for output in &out {
            match output {
                Output::Rebalance(trigger) => {
                    self.rebalances[trigger.cause as usize].add(1);
                    self.history.lock().begin(now, group_id, generation, trigger);
                }
                Output::Rebalanced => self.history.lock().end(now, group_id, generation),
                Output::Joined(..) | Output::Synced(..) | Output::Write(_) => {}
            }
        }
        for write in state.answer(out) {
            self.write(shard, group_id, write);
        }
        self.settle(state, group_id);
        Some(result)
    }

    pub(super) fn settle(&self, state: &mut ShardState, group_id: &str) {
        state.settle(group_id, &self.memory);
        let next_ms = state.next_deadline_ms();
        if next_ms < self.alarm_ms.load(Ordering::SeqCst) {
            self.alarm.notify_one();
        }
    }

    /// Appends a group's record; the group learns of the end.
    fn write(self: &Arc<Self>, shard: &Arc<Shard>, group_id: &str, write: Write) {
        let mut batcher =
            Batcher::new(self.clock.now_ms(), self.log.max_batch_bytes(), self.config.offsets_topic_codec);
        batcher.push_group(group_id, Some(&write.value));
        let durable = self.append(shard.partition, batcher.build());
        let (coordinator, shard, group_id) = (Arc::clone(self), Arc::clone(shard), group_id.to_owned());
        tokio::spawn(async move {
            let timeout = Duration::from_millis(coordinator.config.offset_commit_timeout_ms.max(1) as u64);
            let result = match tokio::time::timeout(timeout, durable).await {
                Ok(result) => result,
                Err(_) => Err(ErrorCode::REQUEST_TIMED_OUT),
            };
            if let Err(error) = result {
                tracing::warn!(group_id, %error, "a group's record could not be written");
            }
            let mut state = shard.state.lock();
            coordinator.change(&shard, &mut state, &group_id, |group, now, out| {
                group.written(&coordinator.config, now, write.then, result.map_err(response_error), out);
            });
        });
    }

    /// Enqueues batches, which gives them their order, and resolves when all are durable.
    pub(super) fn append(&self, partition: i32, batches: Vec<Batch>) -> BoxFuture<Result<(), ErrorCode>> {
        Self::all_durable(batches.into_iter().map(|batch| self.log.append(partition, batch)))
    }

    /// The same for batches of a transaction.
    pub(super) fn append_transactional(
        &self,
        partition: i32,
        batches: Vec<Batch>,
        guard: Option<VerificationGuard>,
    ) -> BoxFuture<Result<(), ErrorCode>> {
        Self::all_durable(batches.into_iter().map(|batch| self.log.append_transactional(partition, batch, guard)))
    }

    /// Resolves when all appends have ended, with the first error.
    fn all_durable(
        appends: impl Iterator<Item = BoxFuture<Result<i64, ErrorCode>>>,
    ) -> BoxFuture<Result<(), ErrorCode>> {
        let mut appends: Vec<_> = appends.map(Some).collect();
        let mut result = Ok(());
        Box::pin(poll_fn(move |cx| {
            for append in &mut appends {
                if let Some(future) = append
                    && let Poll::Ready(appended) = future.as_mut().poll(cx)
                {
                    result = result.and(appended.map(|_| ()));
                    *append = None;
                }
            }
            if appends.iter().any(Option::is_some) { Poll::Pending } else { Poll::Ready(result) }
        }))
    }

    fn next_request(&self) -> RequestId {
        self.last_request.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A new member id: the client id or instance id, and a random part.
    pub(super) fn new_member_id(&self, caller: &Caller<'_>, request: &JoinGroupRequest) -> String {
        let prefix = request.group_instance_id.as_deref().unwrap_or(caller.client_id.unwrap_or_default());
        let prefix = &prefix[..prefix.floor_char_boundary(MAX_MEMBER_ID_PREFIX_BYTES)];
        format!("{prefix}-{}", hyphenated(Uuid::from_random(self.random.bytes())))
    }

    pub async fn join_group(self: &Arc<Self>, caller: Caller<'_>, request: JoinGroupRequest) -> JoinGroupResponse {
        let member_id = request.member_id.clone();
        match self.begin_join(caller, request) {
            Ok(answer) => answer.await.unwrap_or_else(|_| join_error(&member_id, ErrorCode::NOT_COORDINATOR)),
            Err(error) => join_error(&member_id, error),
        }
    }

    fn begin_join(
        self: &Arc<Self>,
        caller: Caller<'_>,
        mut request: JoinGroupRequest,
    ) -> Result<oneshot::Receiver<JoinGroupResponse>, ErrorCode> {
        check_group_id(&request.group_id)?;
        let timeouts = self.config.min_session_timeout_ms..=self.config.max_session_timeout_ms;
        if !timeouts.contains(&request.session_timeout_ms) {
            return Err(ErrorCode::INVALID_SESSION_TIMEOUT);
        }
        let metadata = request.protocols.iter().map(|p| p.name.len() + p.metadata.len()).sum::<usize>();
        let instance_id = request.group_instance_id.as_ref().map_or(0, String::len);
        if metadata + instance_id + request.protocol_type.len() > self.config.max_member_metadata_bytes {
            return Err(ErrorCode::MESSAGE_TOO_LARGE);
        }
        // Version 0 has one timeout for both.
        if caller.api_version == 0 || request.rebalance_timeout_ms < 0 {
            request.rebalance_timeout_ms = request.session_timeout_ms;
        }
        let shard = self.shard(&request.group_id)?;
        let mut state = shard.state.lock();
        state.phase.check()?;
        let group_id = std::mem::take(&mut request.group_id);
        if !request.member_id.is_empty() && !state.groups.contains_key(&group_id) {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        self.end_idle_consumers(&shard, &mut state, &group_id)?;
        let (sender, answer) = oneshot::channel();
        if state.consumers(&group_id).is_some() {
            self.join_consumers(&shard, &mut state, &caller, &group_id, request, sender)?;
            return Ok(answer);
        }
        self.check_memory_for_member(&caller, &request, state.group(&group_id))?;
        state.group_or_new(&group_id, self.now(), caller.client_host);
        let request_id = self.next_request();
        state.joins.insert(request_id, sender);
        let join = Join {
            request_id,
            api_version: caller.api_version,
            client_id: caller.client_id.unwrap_or_default().to_owned(),
            // As Java prints an address without a name.
            client_host: format!("/{}", caller.client_host),
            new_member_id: self.new_member_id(&caller, &request),
            request,
        };
        let new_member_id = join.new_member_id.clone();
        let is_pending = self.change(&shard, &mut state, &group_id, |group, now, out| {
            group.join(&self.config, now, join, out);
            group.is_pending(&new_member_id)
        });
        if is_pending == Some(true) {
            for (group_id, member_id) in state.add_pending(&self.config, &group_id, &new_member_id) {
                self.change(&shard, &mut state, &group_id, |group, now, out| {
                    group.forget_pending_member(&member_id, now, out);
                });
            }
        }
        Ok(answer)
    }

    /// Whether there is memory for a member that joins, or rejoins with more metadata. A group that is too large stays
    /// so; otherwise there may be memory later, when the client retries.
    fn check_memory_for_member(
        &self,
        caller: &Caller<'_>,
        request: &JoinGroupRequest,
        group: Option<&mut Group>,
    ) -> Result<(), ErrorCode> {
        let group = group.as_deref();
        let grown = match group {
            Some(group) => group.growth_by_join(request),
            None => Group::new(self.now()).growth_by_join(request),
        };
        if grown > 0 && !self.memory.has_room_in_group(group.map_or(0, Group::size_bytes), grown) {
            return Err(ErrorCode::GROUP_MAX_SIZE_REACHED);
        }
        if grown > 0 && !self.memory.has_room(caller.client_host, Use::Members, grown) {
            return Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
        }
        Ok(())
    }

    pub async fn sync_group(self: &Arc<Self>, api_version: i16, request: SyncGroupRequest) -> SyncGroupResponse {
        match self.begin_sync(api_version, request) {
            Ok(answer) => answer.await.unwrap_or_else(|_| sync_error(ErrorCode::NOT_COORDINATOR)),
            Err(error) => sync_error(error),
        }
    }

    fn begin_sync(
        self: &Arc<Self>,
        api_version: i16,
        mut request: SyncGroupRequest,
    ) -> Result<oneshot::Receiver<SyncGroupResponse>, ErrorCode> {
        const PROTOCOL_MANDATORY_SINCE: i16 = 5;
        let has_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
        if api_version >= PROTOCOL_MANDATORY_SINCE && !has_protocol {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        check_group_id(&request.group_id)?;
        let shard = self.shard(&request.group_id)?;
        let mut state = shard.state.lock();
        state.phase.check()?;
        let group_id = std::mem::take(&mut request.group_id);
        let (sender, answer) = oneshot::channel();
        if let Some(consumers) = state.consumers(&group_id) {
            // What the leader assigns goes for nothing in such a group.
            request.assignments = Vec::new();
            consumers.waiting.push(Work::Sync(request, sender));
            self.serve_consumers(&shard, &mut state, &group_id);
            return Ok(answer);
        }
        let group = state.group(&group_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        let grown = group.growth_by_sync(&request);
        if grown > 0 && !self.memory.has_room_in_group(group.size_bytes(), grown) {
            return Err(ErrorCode::GROUP_MAX_SIZE_REACHED);
        }
        let request_id = self.next_request();
        state.syncs.insert(request_id, sender);
        self.change(&shard, &mut state, &group_id, |group, _, out| group.sync(request_id, request, out));
        Ok(answer)
    }

    /// Heartbeat. Answers without waiting for anything.
    pub fn heartbeat(&self, request: &HeartbeatRequest) -> ErrorCode {
        self.try_heartbeat(request).unwrap_or_else(|error| match error {
            // The group will be there soon: nothing is gained by making members rejoin.
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => ErrorCode::NONE,
            error => error,
        })
    }

    fn try_heartbeat(&self, request: &HeartbeatRequest) -> Result<ErrorCode, ErrorCode> {
        check_group_id(&request.group_id)?;
        let shard = self.shard(&request.group_id)?;
        let mut state = shard.state.lock();
        state.phase.check()?;
        if let Some(consumers) = state.consumers(&request.group_id) {
            let beat = self.heartbeat_consumers(consumers, request);
            self.settle(&mut state, &request.group_id);
            return beat.map(|()| ErrorCode::NONE);
        }
        let group = state.group(&request.group_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        let instance_id = request.group_instance_id.as_deref();
        let error = group.heartbeat(self.now(), &request.member_id, instance_id, request.generation_id);
        // A heartbeat changes nothing but when its session ends, and rarely makes that earlier than anything else.
        self.settle(&mut state, &request.group_id);
        Ok(error)
    }

    pub async fn leave_group(self: &Arc<Self>, api_version: i16, request: LeaveGroupRequest) -> LeaveGroupResponse {
        const MANY_SINCE: i16 = 3;
        let members = if api_version >= MANY_SINCE {
            request.members
        } else {
            vec![MemberIdentity { member_id: request.member_id, ..Default::default() }]
        };
        let left = match self.begin_leave(&request.group_id, members) {
            Ok(left) => left.await.unwrap_or(Err(ErrorCode::NOT_COORDINATOR)),
            Err(error) => Err(error),
        };
        match left {
            Ok(members) if api_version < MANY_SINCE => {
                let error_code = members.first().map_or(ErrorCode::UNKNOWN_MEMBER_ID, |member| member.error_code);
                LeaveGroupResponse { error_code, ..Default::default() }
            }
            Ok(members) => LeaveGroupResponse { members, ..Default::default() },
            Err(error_code) => LeaveGroupResponse { error_code, ..Default::default() },
        }
    }

    fn begin_leave(
        self: &Arc<Self>,
        group_id: &str,
        members: Vec<MemberIdentity>,
    ) -> Result<oneshot::Receiver<Left>, ErrorCode> {
        check_group_id(group_id)?;
        let shard = self.shard(group_id)?;
        let mut state = shard.state.lock();
        state.phase.check()?;
        if !state.groups.contains_key(group_id) {
            let unknown = |member: MemberIdentity| MemberResponse {
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                error_code: ErrorCode::UNKNOWN_MEMBER_ID,
            };
            return Ok(at_once(Ok(members.into_iter().map(unknown).collect())));
        }
        if let Some(consumers) = state.consumers(group_id) {
            let (sender, answer) = oneshot::channel();
            consumers.waiting.push(Work::Leave(members, sender));
            self.serve_consumers(&shard, &mut state, group_id);
            return Ok(answer);
        }
        let left =
            self.change(&shard, &mut state, group_id, |group, now, out| group.leave(&self.config, now, members, out));
        Ok(at_once(left.unwrap_or(Err(ErrorCode::UNKNOWN_MEMBER_ID))))
    }

    /// Runs the timers for ever: deadlines of groups, and the expiry of offsets.
    pub async fn run(self: Arc<Self>) {
        let mut expiry_ms = self.now().monotonic_ms + self.config.offsets_retention_check_interval_ms;
        loop {
            // A caller that sets a deadline while the earliest is being looked for notifies the timer.
            self.alarm_ms.store(i64::MAX, Ordering::SeqCst);
            let next = self.shards().iter().map(|shard| shard.state.lock().next_deadline_ms()).min();
            let next_ms = next.unwrap_or(i64::MAX).min(expiry_ms);
            self.alarm_ms.store(next_ms, Ordering::SeqCst);
            let until_ms = (next_ms - self.now().monotonic_ms).max(0) as u64;
            tokio::select! {
                // Always in this order, so that a simulation is reproducible.
                biased;
                () = tokio::time::sleep(Duration::from_millis(until_ms)) => {}
                () = self.alarm.notified() => {}
            }
            self.tick();
            if self.now().monotonic_ms >= expiry_ms {
                expiry_ms = self.now().monotonic_ms + self.config.offsets_retention_check_interval_ms;
                self.expire_offsets();
            }
        }
    }

    fn tick(self: &Arc<Self>) {
        let now = self.now();
        for shard in self.shards() {
            let mut state = shard.state.lock();
            while let Some(group_id) = state.pop_due(now) {
                match state.consumers(&group_id) {
                    Some(_) => self.serve_consumers(&shard, &mut state, &group_id),
                    None => {
                        let tick =
                            |group: &mut Group, _: Now, out: &mut Vec<Output>| group.tick(&self.config, now, out);
                        self.change(&shard, &mut state, &group_id, tick);
                    }
                }
            }
        }
    }
}

/// An answer that need not be waited for.
fn at_once(left: Left) -> oneshot::Receiver<Left> {
    let (sender, answer) = oneshot::channel();
    // The receiver is there.
    sender.send(left).ok();
    answer
}

/// Java's `String.hashCode`, whose absolute value is 0 for the one number that has none, in the range of partitions.
pub(crate) fn partition_of(group_id: &str, partition_count: i32) -> i32 {
    let hash = group_id.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    hash.checked_abs().unwrap_or(0) % partition_count.max(1)
}

/// Group ids that members use are not empty (offsets may be kept without one).
pub(super) fn check_group_id(group_id: &str) -> Result<(), ErrorCode> {
    if group_id.is_empty() { Err(ErrorCode::INVALID_GROUP_ID) } else { check_group_id_length(group_id) }
}

pub(super) fn check_group_id_length(group_id: &str) -> Result<(), ErrorCode> {
    if group_id.len() > MAX_GROUP_ID_BYTES { Err(ErrorCode::INVALID_GROUP_ID) } else { Ok(()) }
}

/// What a failed append means to a client of the coordinator (`CoordinatorOperationExceptionHelper`).
pub(super) fn response_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        | ErrorCode::NOT_ENOUGH_REPLICAS
        | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
        | ErrorCode::REQUEST_TIMED_OUT => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::KAFKA_STORAGE_ERROR => ErrorCode::NOT_COORDINATOR,
        ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE | ErrorCode::INVALID_FETCH_SIZE => {
            ErrorCode::UNKNOWN_SERVER_ERROR
        }
        // The transaction's coordinator could not be asked; it is the same as if this one were not ready.
        ErrorCode::NETWORK_EXCEPTION => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        error => error,
    }
}

/// An id as Java's `UUID` prints it, which is what member ids end in.
fn hyphenated(id: Uuid) -> String {
    let hex = |range: std::ops::Range<usize>| id.0[range].iter().map(|b| format!("{b:02x}")).collect::<String>();
    [hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)].join("-")
}
