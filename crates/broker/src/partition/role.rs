//! What a partition is on this node: leader, follower, or nothing yet. The metadata says so ([`Partition::take_role`]).
//!
//! A role begins and ends under the log's lock. An append holds that lock and checks the role, so nothing of an older
//! leadership can slip into a newer one. Watermarks move under the role's own lock, which is taken after the log's;
//! what follows from a move, such as answers, happens when it is released.
//!
//! A partition that no other node replicates is *alone*: its appends are replicated by being made, and take no lock
//! for it unless something is withheld from consumers until it is on disk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use configuration::AckDurability;
use storage::{Log, LogError};
use wire::ErrorCode;

use super::Partition;
use super::queue::Queued;
use super::replica::{
    AfterRefusal, Altered, Assignment, FollowerFetch, Leadership, Limits, LocalOffsets, Promised, Proposal,
    Registration,
};

/// Runs of bytes that are remembered one by one; beyond, the newest grows.
const RUNS_MAX: usize = 1024;

/// Looks up a broker in the metadata.
pub type Registrations<'a> = &'a dyn Fn(i32) -> Option<Registration>;

#[derive(Default)]
pub(super) struct RoleState {
    role: Role,
    /// What is appended and not replicated: the offset behind each run, and its bytes.
    unreplicated: VecDeque<(i64, i64)>,
}

#[derive(Default)]
enum Role {
    /// The metadata has not said anything since the start.
    #[default]
    None,
    Leader(Box<Leadership>),
    /// The leader may be none.
    Follower {
        leader: i32,
    },
}

impl RoleState {
    pub(super) fn record_appended(&mut self, end_offset: i64, bytes: i64) {
        let is_full = self.unreplicated.len() >= RUNS_MAX;
        match self.unreplicated.back_mut().filter(|_| is_full) {
            Some(newest) => *newest = (end_offset, newest.1 + bytes),
            None => self.unreplicated.push_back((end_offset, bytes)),
        }
    }

    /// Takes the bytes that a high watermark has passed.
    pub(super) fn take_replicated(&mut self, high_watermark: i64) -> i64 {
        let mut bytes = 0;
        while let Some((_, run)) = self.unreplicated.pop_front_if(|(end, _)| *end <= high_watermark) {
            bytes += run;
        }
        bytes
    }

    pub(super) fn record_truncated(&mut self, end_offset: i64) {
        while self.unreplicated.pop_back_if(|(end, _)| *end > end_offset).is_some() {}
    }
}

/// The effects of a new role.
#[derive(Default)]
struct RoleChange {
    /// Queued batches that were not appended.
    refused: Vec<Queued>,
    /// Of a leader.
    progress: Option<Progress>,
    is_new: bool,
    /// There is something that consumers may read as soon as it is on disk.
    wants_sync: bool,
}

/// How far a leader has got, for waiting requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) high_watermark: i64,
    pub(super) durable_offset: i64,
    /// What would be promised if enough replicas were in sync.
    pub(super) reached_without_enough: Option<LocalOffsets>,
    /// Bytes that consumers may read now; `None` if the high watermark did not move.
    replicated_bytes: Option<i64>,
    has_moved: bool,
}

#[cfg(test)]
impl Progress {
    pub(super) fn at(high_watermark: i64, durable_offset: i64) -> Self {
        Self { high_watermark, durable_offset, reached_without_enough: None, replicated_bytes: None, has_moved: true }
    }
}

impl Partition {
    /// Takes the role that the metadata says. What an older leadership has queued or left waiting is refused. Returns
    /// whether it leads in an epoch that it did not lead in before.
    pub fn take_role(self: &Arc<Self>, state: &metadata::Partition, registrations: Registrations<'_>) -> bool {
        let change = self.with_log(|log| {
            if state.leader == self.shared.node_id {
                self.lead(log, state, registrations)
            } else {
                if storage::injected_fault!(TruncateToHighWatermark) {
                    log.truncate_to(self.high_watermark(), self.shared.env.clock.now())?;
                }
                Ok(self.follow(state))
            }
        });
        let change = match change {
            Ok(change) => change,
            Err(error) => {
                self.fail(&error);
                return false;
            }
        };
        for queued in change.refused {
            queued.refuse(ErrorCode::NOT_LEADER_OR_FOLLOWER.into());
        }
        if change.is_new {
            if change.progress.is_none() {
                self.refuse_waiting(ErrorCode::NOT_LEADER_OR_FOLLOWER);
            }
            self.waiters.wake_all();
        }
        // A replica that had not deleted yet may have been removed.
        self.waiters.notify_low_watermark();
        if let Some(progress) = change.progress {
            self.notify_waiters(&progress);
        }
        if change.wants_sync {
            self.request_sync([]);
        }
        change.is_new && change.progress.is_some()
    }

    fn follow(&self, state: &metadata::Partition) -> RoleChange {
        let mut guard = self.role.lock();
        if state.leader_epoch < self.leader_epoch() {
            return RoleChange::default();
        }
        let is_same = matches!(guard.role, Role::Follower { leader } if leader == state.leader)
            && state.leader_epoch == self.leader_epoch();
        guard.role = Role::Follower { leader: state.leader };
        self.is_leader.store(false, Ordering::Release);
        self.is_alone.store(false, Ordering::Release);
        self.leader_epoch.store(state.leader_epoch, Ordering::Release);
        if is_same {
            return RoleChange::default();
        }
        // What is queued is refused by the thread that wants to append it.
        RoleChange { is_new: true, ..RoleChange::default() }
    }

    fn lead(
        &self,
        log: &mut Log,
        state: &metadata::Partition,
        registrations: Registrations<'_>,
    ) -> Result<RoleChange, LogError> {
        let mut guard = self.role.lock();
        if state.leader_epoch < self.leader_epoch() {
            return Ok(RoleChange::default());
        }
        let (node_id, now_ms) = (self.shared.node_id, self.now_ms());
        let is_new_epoch = state.leader_epoch > self.leader_epoch();
        let assignment = Assignment {
            leader_epoch: state.leader_epoch,
            partition_epoch: state.partition_epoch,
            replicas: state.replicas.clone(),
            isr: state.isr.clone(),
        };
        let mut change = RoleChange::default();
        match &mut guard.role {
            Role::Leader(leadership) if !is_new_epoch => {
                // Appends without other replicas were not recorded.
                leadership.update_local(self.local_offsets(), now_ms);
                if !leadership.update(assignment, registrations, now_ms) {
                    return Ok(change);
                }
            }
            role => {
                // Followers that have records of an epoch which left none here must find out (KIP-101).
                log.assign_epoch(state.leader_epoch)?;
                let settings = self.settings.load();
                let limits = Limits {
                    min_insync_replicas: usize::try_from(settings.min_insync_replicas).unwrap_or(0),
                    lag_max_ms: self.shared.lag_max_ms,
                    withholds: settings.ack_durability == AckDurability::Disk,
                };
                let (local, promised) = (self.local_offsets(), self.promised());
                let leadership = Leadership::begin(node_id, assignment, limits, local, promised, registrations, now_ms);
                tracing::debug!(
                    topic = %self.topic, partition = self.index, leader_epoch = state.leader_epoch,
                    start_offset = local.log_end_offset, high_watermark = promised.high_watermark, isr = ?state.isr,
                    "leads the partition"
                );
                // The number of a former leadership does not apply.
                self.in_sync_replicas.store(leadership.isr().len() as i32, Ordering::Release);
                change.wants_sync = leadership.withholds() && local.synced_offset < local.log_end_offset;
                // The followers sync what they have, or it would stay invisible until the next record.
                let sync_wanted = if leadership.withholds() { local.log_end_offset } else { -1 };
                *role = Role::Leader(Box::new(leadership));
                self.sync_wanted.store(sync_wanted, Ordering::Release);
                change.refused = self.queue.lock().take();
                change.is_new = true;
            }
        }
        self.replica_count.store(state.replicas.len() as i32, Ordering::Release);
        self.is_alone.store(state.replicas == [node_id], Ordering::Release);
        self.leader_epoch.store(state.leader_epoch, Ordering::Release);
        change.progress = self.publish(&mut guard);
        self.is_leader.store(true, Ordering::Release);
        Ok(change)
    }

    /// Refuses as long as the metadata has not said what this partition is here.
    pub fn check_has_role(&self) -> Result<(), ErrorCode> {
        match self.role.lock().role {
            Role::None => Err(ErrorCode::NOT_LEADER_OR_FOLLOWER),
            Role::Leader(_) | Role::Follower { .. } => Ok(()),
        }
    }

    /// Ends the leadership, because this node will be no replica any more.
    pub(super) fn drop_role(&self) {
        let mut guard = self.role.lock();
        guard.role = Role::None;
        self.is_leader.store(false, Ordering::Release);
        self.is_alone.store(false, Ordering::Release);
    }

    /// Updates which brokers are registered, fenced and shutting down.
    pub fn update_brokers(self: &Arc<Self>, registrations: Registrations<'_>) {
        let now_ms = self.now_ms();
        self.with_leadership(|leadership| leadership.update_brokers(registrations, now_ms));
    }

    pub(super) fn set_min_insync_replicas(self: &Arc<Self>, min_insync_replicas: i32) {
        let (count, now_ms) = (usize::try_from(min_insync_replicas).unwrap_or(0), self.now_ms());
        self.with_leadership(|leadership| leadership.set_min_insync_replicas(count, now_ms));
    }

    /// Works on the leader's view of the followers, if this node leads, and does what follows.
    fn with_leadership<R>(&self, work: impl FnOnce(&mut Leadership) -> R) -> Option<R> {
        let mut guard = self.role.lock();
        let Role::Leader(leadership) = &mut guard.role else { return None };
        let log_start_offset = self.log_start_offset();
        let low_watermark = leadership.low_watermark(log_start_offset);
        let result = work(leadership);
        let has_risen = leadership.low_watermark(log_start_offset) > low_watermark;
        let progress = self.publish(&mut guard);
        drop(guard);
        if has_risen {
            self.waiters.notify_low_watermark();
        }
        if let Some(progress) = progress {
            self.notify_waiters(&progress);
        }
        Some(result)
    }

    /// Looks at the leader's view of the followers.
    pub(super) fn read_leadership<R>(&self, look: impl FnOnce(&Leadership) -> R) -> Result<R, ErrorCode> {
        match &self.role.lock().role {
            Role::Leader(leadership) => Ok(look(leadership)),
            _ => Err(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        }
    }

    /// Publishes the progress of the leadership.
    fn publish(&self, guard: &mut RoleState) -> Option<Progress> {
        let Role::Leader(leadership) = &guard.role else { return None };
        // While the partition is alone, appends move the watermark without asking here.
        let before = self.high_watermark.fetch_max(leadership.high_watermark(), Ordering::AcqRel);
        let high_watermark = before.max(leadership.high_watermark());
        let durable_offset = leadership.durable_offset();
        let durable_before = self.durable_offset.swap(durable_offset, Ordering::AcqRel);
        let in_sync = leadership.isr().len() as i32;
        match in_sync.cmp(&self.in_sync_replicas.swap(in_sync, Ordering::AcqRel)) {
            std::cmp::Ordering::Less => self.shared.stats.isr_shrinks.add(1),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => self.shared.stats.isr_expansions.add(1),
        }
        self.withholds.store(leadership.withholds(), Ordering::Release);
        let reached_without_enough = leadership.is_under_min_isr().then(|| leadership.reached());
        let bytes = guard.take_replicated(high_watermark);
        Some(Progress {
            high_watermark,
            durable_offset,
            reached_without_enough,
            // An append may have been replicated before it was recorded.
            replicated_bytes: (high_watermark > before || bytes > 0).then_some(bytes),
            has_moved: high_watermark > before || durable_offset != durable_before || reached_without_enough.is_some(),
        })
    }

    fn notify_waiters(&self, progress: &Progress) {
        if let Some(bytes) = progress.replicated_bytes {
            self.waiters.replicated(bytes, self.last_stable_offset());
        }
        if progress.has_moved {
            self.answer_waiting(progress);
        }
    }

    /// The progress that waiting requests are answered by.
    pub(super) fn progress(&self) -> Option<Progress> {
        self.publish(&mut self.role.lock())
    }

    pub(super) fn local_offsets(&self) -> LocalOffsets {
        LocalOffsets { log_end_offset: self.view.log_end_offset(), synced_offset: self.view.durable_offset() }
    }

    fn promised(&self) -> Promised {
        Promised { high_watermark: self.high_watermark(), durable_offset: self.durable_offset() }
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.shared.env.clock.now().monotonic_ms
    }

    /// Withholds from consumers what is going to be appended, until [`Partition::record_appended`] is called. Called
    /// under the log's lock.
    pub(super) fn begin_append(&self, start_offset: i64) {
        let mut guard = self.role.lock();
        if let Role::Leader(leadership) = &mut guard.role {
            leadership.begin_append(start_offset);
            self.withholds.store(true, Ordering::Release);
        }
    }

    /// Records an append that consumers may not read at once: other replicas have to follow, or something has to be on
    /// disk before, which is this append from `withheld_from` on. Called under the log's lock.
    pub(super) fn record_appended(&self, end_offset: i64, bytes: i64, withheld_from: Option<i64>, now_ms: i64) {
        let mut guard = self.role.lock();
        if bytes > 0 {
            guard.record_appended(end_offset, bytes);
        }
        let Role::Leader(leadership) = &mut guard.role else { return };
        if let Some(first_offset) = withheld_from {
            leadership.end_append(first_offset, end_offset);
        }
        leadership.update_local(self.local_offsets(), now_ms);
        let progress = self.publish(&mut guard);
        drop(guard);
        if let Some(progress) = progress {
            self.notify_waiters(&progress);
        }
    }

    /// Records that more of the log is on disk. The caller answers the requests that wait for it.
    pub(super) fn record_synced(&self) -> Option<Progress> {
        let now_ms = self.now_ms();
        let mut guard = self.role.lock();
        let Role::Leader(leadership) = &mut guard.role else { return None };
        leadership.update_local(self.local_offsets(), now_ms);
        let progress = self.publish(&mut guard);
        drop(guard);
        if let Some(bytes) = progress.and_then(|progress| progress.replicated_bytes) {
            self.waiters.replicated(bytes, self.last_stable_offset());
        }
        progress
    }

    // --- Followers of this leader

    /// Updates the state of a follower from its fetch, and proposes its return into the in-sync replicas if it may
    /// enter, or its removal if it has lost something. The fetch was compared with the log as it is in `leader_epoch`.
    pub fn update_follower_fetch_state(
        self: &Arc<Self>,
        leader_epoch: i32,
        id: i32,
        fetch: FollowerFetch,
    ) -> Result<(), ErrorCode> {
        let local = self.local_offsets();
        let is_isr_change = self.with_leadership(|leadership| {
            if leadership.leader_epoch() != leader_epoch {
                return Err(ErrorCode::FENCED_LEADER_EPOCH);
            }
            leadership.update_local(local, fetch.now_ms);
            leadership.update_fetch_state(id, fetch)?;
            // Whoever may lead next has deleted what was deleted here: it does not come back (Kafka does not look).
            let has_deleted = fetch.log_start_offset >= self.log_start_offset();
            Ok(has_deleted && leadership.propose_to_add(id, fetch.now_ms)
                || leadership.is_unfit(id) && leadership.propose_to_shrink(fetch.now_ms))
        });
        if is_isr_change.ok_or(ErrorCode::NOT_LEADER_OR_FOLLOWER)?? {
            self.shared.isr_changes.push(Arc::clone(self));
        }
        Ok(())
    }

    /// Whether a broker replicates this partition, which this node leads.
    pub fn has_follower(&self, id: i32) -> Result<bool, ErrorCode> {
        self.read_leadership(|leadership| leadership.is_replica(id))
    }

    /// Whether a follower is in sync as far as the metadata says.
    pub fn is_in_sync(&self, id: i32) -> bool {
        self.read_leadership(|leadership| leadership.isr().contains(&id)).unwrap_or(false)
    }

    /// In-sync followers that have an offset for consumers, and the log end of each.
    pub fn readable_followers(&self, offset: i64) -> Vec<(i32, i64)> {
        self.read_leadership(|leadership| leadership.readable_followers(offset).collect()).unwrap_or_default()
    }

    /// Up to where a follower should sync its log, because a request waits for it.
    pub fn sync_wanted_from(&self, id: i32) -> i64 {
        let to_enter = self.read_leadership(|leadership| leadership.must_sync_to_enter(id));
        let to_enter = to_enter.ok().flatten().unwrap_or(-1);
        self.sync_wanted.load(Ordering::Acquire).max(to_enter)
    }

    /// The first offset of the current epoch: below it, the high watermark may not be that of the leader before.
    pub fn epoch_start_offset(&self) -> Result<i64, ErrorCode> {
        self.read_leadership(Leadership::epoch_start_offset)
    }

    // --- Changes of the in-sync replicas

    /// Proposes to remove followers that lag.
    pub fn shrink_isr(self: &Arc<Self>) {
        let (local, now_ms) = (self.local_offsets(), self.now_ms());
        let proposed = self.with_leadership(|leadership| {
            leadership.update_local(local, now_ms);
            leadership.propose_to_shrink(now_ms)
        });
        if proposed == Some(true) {
            self.shared.isr_changes.push(Arc::clone(self));
        }
    }

    /// Proposes that another replica leads: this one cannot read all of its log.
    pub fn hand_over(self: &Arc<Self>) {
        if self.with_leadership(Leadership::propose_hand_over) == Some(true) {
            tracing::warn!(
                topic = %self.topic, partition = self.index,
                "a leader that cannot read all of its log hands over to a replica that is whole"
            );
            self.shared.isr_changes.push(Arc::clone(self));
        }
    }

    /// Refuses requests that wait for silent followers while the controller is unreachable: the followers may have
    /// another leader by now, which this node would be the last to learn of, and clients are better off looking for it.
    pub fn refuse_if_stalled(&self, silence_ms: i64) {
        let now_ms = self.now_ms();
        let is_stalled =
            self.read_leadership(|leadership| leadership.has_silent_in_sync_replica(silence_ms, now_ms)) == Ok(true);
        self.is_stalled.store(is_stalled, Ordering::Release);
        if is_stalled {
            self.refuse_waiting(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
    }

    /// A controller knows this node as the leader again.
    pub fn resume(&self) {
        self.is_stalled.store(false, Ordering::Release);
    }

    /// The change to propose to the controller.
    pub fn isr_proposal(&self) -> Option<Proposal> {
        self.read_leadership(Leadership::proposal).ok().flatten()
    }

    pub fn isr_altered(&self, proposal: &Proposal, altered: Altered) {
        let now_ms = self.now_ms();
        let isr = altered.isr.clone();
        if self.with_leadership(|leadership| leadership.altered(proposal, altered, now_ms)) == Some(true) {
            tracing::info!(topic = %self.topic, partition = self.index, ?isr, "the in-sync replicas have changed");
        }
    }

    pub fn isr_refused(&self, proposal: &Proposal, code: ErrorCode) -> AfterRefusal {
        let now_ms = self.now_ms();
        let after = self.with_leadership(|leadership| leadership.alteration_refused(proposal, code, now_ms));
        after.unwrap_or(AfterRefusal::WaitForMetadata)
    }

    /// The leader that this node follows, if it does.
    pub fn followed_leader(&self) -> Option<i32> {
        match self.role.lock().role {
            Role::Follower { leader } if leader != metadata::NO_LEADER => Some(leader),
            _ => None,
        }
    }
}
