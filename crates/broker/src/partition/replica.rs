//! The leader's view of its followers: their offsets, the in-sync replicas, and what all of them have. Pure.
//!
//! [`Partition`](super::Partition) keeps one while it leads, and passes appends, syncs, fetches and changes of the
//! metadata to it. Times are monotonic and come from the caller.
//!
//! Two offsets follow from it, both over the replicas that count: the *durable offset* is the least synced offset, and
//! the *high watermark* is the least log end, but it does not pass batches whose producers wait for the disk before
//! these are durable: see [`Withheld`]. The replicas that count are the maximal in-sync replicas, which are what the
//! metadata has and what a pending change would add (KIP-497), and a follower outside that has caught up and is about
//! to be added.
//!
//! Invariants: neither offset goes back while this lives, and neither moves while fewer replicas are in sync than
//! `min.insync.replicas` wants (KIP-966); the in-sync replicas are among the replicas, and this node is one of them; a
//! follower becomes a candidate only with all that the two offsets promise, and more than its leader began with. A
//! follower that lacks some of it, because its disk lost or damaged it, leaves the in-sync replicas until it has it
//! again; a leader that cannot read all of its own log hands over to a replica that can.

mod withheld;

use wire::ErrorCode;

pub use self::withheld::Withheld;

/// A follower that never caught up: long ago by any clock.
const NEVER_MS: i64 = i64::MIN / 2;
/// An offset that the follower has not sent yet.
const UNKNOWN: i64 = -1;

/// What the metadata says of a partition that this node leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    pub leader_epoch: i32,
    pub partition_epoch: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
}

/// What the metadata says of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    pub epoch: i64,
    /// Neither fenced nor shutting down, and its disk is not full.
    pub is_active: bool,
}

/// The settings that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `min.insync.replicas`.
    pub min_insync_replicas: usize,
    /// `replica.lag.time.max.ms`.
    pub lag_max_ms: i64,
    /// `ack.durability` is `disk`: what may have been written with `acks=all` is not shown before it is durable.
    pub withholds: bool,
}

/// How far this node's own log has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalOffsets {
    pub log_end_offset: i64,
    pub synced_offset: i64,
}

/// The two offsets as they are known from an earlier leadership, here or elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promised {
    pub high_watermark: i64,
    pub durable_offset: i64,
}

/// What a follower says of itself when it fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerFetch {
    /// Where it wants to read: it has everything below.
    pub fetch_offset: i64,
    pub synced_offset: i64,
    pub log_start_offset: i64,
    /// Some of its batches cannot be read.
    pub is_damaged: bool,
    /// -1 if it does not say.
    pub broker_epoch: i64,
    pub now_ms: i64,
}

/// A change of the in-sync replicas for the controller to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub leader_epoch: i32,
    /// Of the state that it would change.
    pub partition_epoch: i32,
    /// The new in-sync replicas, and the epoch in which each has registered as far as it is known.
    pub isr: Vec<(i32, i64)>,
}

/// What the controller made of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Altered {
    pub leader_epoch: i32,
    pub partition_epoch: i32,
    pub isr: Vec<i32>,
}

/// What to do about a proposal that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterRefusal {
    /// Ask again.
    Retry,
    /// It did not happen and will not; other proposals may be made.
    Dropped,
    /// It may have been applied. The metadata will show it.
    WaitForMetadata,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Follower {
    id: i32,
    log_end_offset: i64,
    synced_offset: i64,
    log_start_offset: i64,
    is_damaged: bool,
    last_fetch_ms: i64,
    /// The leader's log end at the last fetch.
    last_leader_end: i64,
    last_caught_up_ms: i64,
    /// As it said with its last fetch; -1 if it did not.
    broker_epoch: i64,
    registration: Option<Registration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PendingChange {
    Expand(i32),
    Shrink(Vec<i32>),
    /// This leader leaves, and those in sync that are not whole.
    HandOver(Vec<i32>),
}

pub struct Leadership {
    node_id: i32,
    assignment: Assignment,
    limits: Limits,
    pending: Option<PendingChange>,
    followers: Vec<Follower>,
    local: LocalOffsets,
    epoch_start_offset: i64,
    /// The least log end and the least synced offset, whether or not enough replicas are in sync.
    reached: LocalOffsets,
    withheld: Withheld,
    high_watermark: i64,
    durable_offset: i64,
}

impl Follower {
    /// `Replica.resetReplicaState`: one outside of the in-sync replicas counts for nothing until it has fetched.
    fn new(id: i32, is_in_sync: bool, now_ms: i64) -> Self {
        Self {
            id,
            log_end_offset: UNKNOWN,
            synced_offset: UNKNOWN,
            log_start_offset: UNKNOWN,
            is_damaged: false,
            last_fetch_ms: NEVER_MS,
            last_leader_end: UNKNOWN,
            last_caught_up_ms: if is_in_sync { now_ms } else { NEVER_MS },
            broker_epoch: -1,
            registration: None,
        }
    }

    /// `Replica.isCaughtUp`.
    fn is_caught_up(&self, leader_end: i64, now_ms: i64, lag_max_ms: i64) -> bool {
        self.log_end_offset == leader_end || now_ms.saturating_sub(self.last_caught_up_ms) <= lag_max_ms
    }

    /// `Partition.isReplicaIsrEligible`.
    fn may_join(&self) -> bool {
        let is_registered = self.registration.is_some_and(|registration| {
            registration.is_active && (self.broker_epoch == -1 || self.broker_epoch == registration.epoch)
        });
        is_registered && !self.is_damaged
    }

    /// Whether it has said that it lacks what all in-sync replicas must have.
    fn has_lost(&self, high_watermark: i64) -> bool {
        self.is_damaged || self.log_end_offset != UNKNOWN && self.log_end_offset < high_watermark
    }
}

impl Leadership {
    /// Begins to lead with what this node knows: its log, which the epoch starts behind, and the two offsets from
    /// before. It is not known which producers wait for records above the high watermark, so all of them count as
    /// written with `acks=all`.
    pub fn begin(
        node_id: i32,
        assignment: Assignment,
        limits: Limits,
        local: LocalOffsets,
        promised: Promised,
        registration: impl Fn(i32) -> Option<Registration>,
        now_ms: i64,
    ) -> Self {
        let high_watermark = promised.high_watermark.min(local.log_end_offset);
        let durable_offset = promised.durable_offset.min(local.synced_offset);
        let mut withheld = Withheld::default();
        if limits.withholds {
            withheld.push(high_watermark, local.log_end_offset);
        }
        let mut leadership = Self {
            node_id,
            assignment: Assignment::default(),
            limits,
            pending: None,
            followers: Vec::new(),
            local,
            epoch_start_offset: local.log_end_offset,
            reached: LocalOffsets { log_end_offset: 0, synced_offset: 0 },
            withheld,
            high_watermark,
            durable_offset,
        };
        leadership.update(assignment, registration, now_ms);
        leadership
    }

    // --- What changes it

    /// Takes over what the metadata says of a partition that this node goes on leading in the same epoch. A state that
    /// is older than what the controller has answered already is ignored, and says so by `false`.
    pub fn update(
        &mut self,
        assignment: Assignment,
        registration: impl Fn(i32) -> Option<Registration>,
        now_ms: i64,
    ) -> bool {
        if assignment.partition_epoch < self.assignment.partition_epoch {
            return false;
        }
        // The pending change was based on the state before: either this is its result, or it is refused.
        if assignment.partition_epoch > self.assignment.partition_epoch {
            self.pending = None;
        }
        let mut known = std::mem::take(&mut self.followers);
        for &id in assignment.replicas.iter().filter(|&&id| id != self.node_id) {
            let follower = match known.iter().position(|follower| follower.id == id) {
                Some(index) => known.swap_remove(index),
                None => Follower::new(id, assignment.isr.contains(&id), now_ms),
            };
            self.followers.push(follower);
        }
        self.assignment = assignment;
        self.update_brokers(registration, now_ms);
        true
    }

    /// Updates which brokers are registered, fenced and shutting down.
    pub fn update_brokers(&mut self, registration: impl Fn(i32) -> Option<Registration>, now_ms: i64) {
        for follower in &mut self.followers {
            follower.registration = registration(follower.id);
        }
        self.advance(now_ms);
    }

    pub fn set_min_insync_replicas(&mut self, min_insync_replicas: usize, now_ms: i64) {
        self.limits.min_insync_replicas = min_insync_replicas;
        self.advance(now_ms);
    }

    /// Updates the offsets of this node's own log.
    pub fn update_local(&mut self, local: LocalOffsets, now_ms: i64) {
        // Calls of two threads may come out of order.
        self.local.log_end_offset = self.local.log_end_offset.max(local.log_end_offset);
        self.local.synced_offset = self.local.synced_offset.max(local.synced_offset);
        self.advance(now_ms);
    }

    /// An append is about to be made at an offset, with batches whose producers wait for the disk.
    pub fn begin_append(&mut self, start_offset: i64) {
        self.withheld.begin(start_offset);
    }

    /// The append has been made: its first batch whose producer waits for the disk, and where it ends. The caller then
    /// passes its own log's offsets by [`Leadership::update_local`].
    pub fn end_append(&mut self, first_offset: i64, end_offset: i64) {
        self.withheld.end(first_offset, end_offset);
    }

    /// Updates a follower by a fetch whose offset is known to be on this log (`Replica.updateFetchStateOrThrow`).
    pub fn update_fetch_state(&mut self, id: i32, fetch: FollowerFetch) -> Result<(), ErrorCode> {
        let leader_end = self.local.log_end_offset;
        let follower =
            self.followers.iter_mut().find(|follower| follower.id == id).ok_or(ErrorCode::UNKNOWN_LEADER_EPOCH)?;
        // A request from before the broker's restart says nothing of what it has now.
        let is_stale = |registration: Registration| fetch.broker_epoch != -1 && registration.epoch > fetch.broker_epoch;
        if follower.registration.is_some_and(is_stale) {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        if fetch.fetch_offset >= leader_end {
            follower.last_caught_up_ms = follower.last_caught_up_ms.max(fetch.now_ms);
        } else if follower.last_leader_end != UNKNOWN && fetch.fetch_offset >= follower.last_leader_end {
            // It has what there was when it fetched before.
            follower.last_caught_up_ms = follower.last_caught_up_ms.max(follower.last_fetch_ms);
        }
        follower.log_end_offset = fetch.fetch_offset;
        follower.synced_offset = fetch.synced_offset.min(fetch.fetch_offset);
        follower.log_start_offset = fetch.log_start_offset;
        follower.is_damaged = fetch.is_damaged;
        follower.last_leader_end = follower.last_leader_end.max(leader_end);
        follower.last_fetch_ms = fetch.now_ms;
        follower.broker_epoch = fetch.broker_epoch;
        self.advance(fetch.now_ms);
        Ok(())
    }

    /// Proposes to add a follower that may enter. Returns whether there is something new to send.
    pub fn propose_to_add(&mut self, id: i32, now_ms: i64) -> bool {
        if self.pending.is_some() || self.follower(id).is_none_or(|follower| !self.may_enter(follower)) {
            return false;
        }
        self.pending = Some(PendingChange::Expand(id));
        self.advance(now_ms);
        true
    }

    /// Whether a follower that has just fetched counts as in sync and has lost what was replicated to it.
    pub fn is_unfit(&self, id: i32) -> bool {
        self.assignment.isr.contains(&id)
            && self.follower(id).is_some_and(|follower| follower.has_lost(self.high_watermark))
    }

    /// Proposes that another replica leads, which is in sync and whole. Returns whether there is something new to send.
    pub fn propose_hand_over(&mut self) -> bool {
        let is_whole = |follower: &&Follower| {
            self.assignment.isr.contains(&follower.id)
                && follower.may_join()
                && follower.log_end_offset >= self.high_watermark
        };
        if self.pending.is_some() || !self.followers.iter().any(|follower| is_whole(&follower)) {
            return false;
        }
        let unfit = self.followers.iter().filter(|follower| !is_whole(follower)).map(|follower| follower.id);
        self.pending = Some(PendingChange::HandOver(unfit.chain([self.node_id]).collect()));
        true
    }

    /// Proposes to do without the followers that have not caught up for too long (`Partition.maybeShrinkIsr`), or have
    /// lost what they had.
    pub fn propose_to_shrink(&mut self, now_ms: i64) -> bool {
        if self.pending.is_some() {
            return false;
        }
        let lags = |follower: &&Follower| {
            self.assignment.isr.contains(&follower.id)
                && (follower.has_lost(self.high_watermark)
                    || !follower.is_caught_up(self.local.log_end_offset, now_ms, self.limits.lag_max_ms))
        };
        let out: Vec<i32> = self.followers.iter().filter(lags).map(|follower| follower.id).collect();
        if out.is_empty() {
            return false;
        }
        self.pending = Some(PendingChange::Shrink(out));
        true
    }

    /// Whether an in-sync replica has not fetched for so long, so that nothing gets replicated to all of them.
    pub fn has_silent_in_sync_replica(&self, silence_ms: i64, now_ms: i64) -> bool {
        let is_silent = |follower: &Follower| {
            let last_seen_ms = follower.last_fetch_ms.max(follower.last_caught_up_ms);
            self.assignment.isr.contains(&follower.id) && now_ms.saturating_sub(last_seen_ms) > silence_ms
        };
        self.followers.iter().any(is_silent)
    }

    /// `Partition.handleAlterPartitionUpdate`. Returns whether the answer was for what is pending.
    pub fn altered(&mut self, proposal: &Proposal, altered: Altered, now_ms: i64) -> bool {
        let is_old = altered.leader_epoch != self.assignment.leader_epoch
            || altered.partition_epoch < self.assignment.partition_epoch
            || !altered.isr.contains(&self.node_id);
        if !self.is_pending(proposal) || is_old {
            return false;
        }
        self.pending = None;
        self.assignment.isr = altered.isr;
        self.assignment.partition_epoch = altered.partition_epoch;
        self.advance(now_ms);
        true
    }

    /// `Partition.handleAlterPartitionError`.
    pub fn alteration_refused(&mut self, proposal: &Proposal, code: ErrorCode, now_ms: i64) -> AfterRefusal {
        if !self.is_pending(proposal) {
            return AfterRefusal::WaitForMetadata;
        }
        match code {
            // The controller says that the partition epoch was right and that it did nothing.
            ErrorCode::OPERATION_NOT_ATTEMPTED | ErrorCode::INELIGIBLE_REPLICA => {
                self.pending = None;
                self.advance(now_ms);
                AfterRefusal::Dropped
            }
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::UNKNOWN_TOPIC_ID
            | ErrorCode::FENCED_LEADER_EPOCH
            | ErrorCode::INVALID_UPDATE_VERSION
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::NEW_LEADER_ELECTED => AfterRefusal::WaitForMetadata,
            _ => AfterRefusal::Retry,
        }
    }

    /// Moves the two offsets as far as all counted replicas have got (`Partition.maybeIncrementLeaderHW`).
    fn advance(&mut self, now_ms: i64) {
        let mut reached = self.local;
        let counts =
            |follower: &&Follower| !storage::injected_fault!(AckBeforeInSyncReplicas) && self.counts(follower, now_ms);
        for follower in self.followers.iter().filter(counts) {
            reached.log_end_offset = reached.log_end_offset.min(follower.log_end_offset);
            reached.synced_offset = reached.synced_offset.min(follower.synced_offset);
        }
        self.reached = reached;
        if !self.is_under_min_isr() {
            self.durable_offset = self.durable_offset.max(reached.synced_offset);
            let limit = self.withheld.limit(self.durable_offset);
            self.high_watermark = self.high_watermark.max(reached.log_end_offset.min(limit));
        }
    }

    // --- What it says

    pub fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// All in-sync replicas have what is below on their disks.
    pub fn durable_offset(&self) -> i64 {
        self.durable_offset
    }

    /// Whether something waits for the disk before consumers may read it.
    pub fn withholds(&self) -> bool {
        !self.withheld.is_empty()
    }

    /// The least log start offset of this node and of all live followers (`Partition.lowWatermarkIfLeader`). A follower
    /// that has not fetched yet holds it back.
    pub fn low_watermark(&self, own_log_start_offset: i64) -> i64 {
        let lives = |follower: &&Follower| follower.registration.is_some_and(|registration| registration.is_active);
        let starts = self.followers.iter().filter(lives).map(|follower| follower.log_start_offset);
        starts.fold(own_log_start_offset, i64::min)
    }

    /// How far all counted replicas have got, even if there are too few of them for the two offsets to move.
    pub fn reached(&self) -> LocalOffsets {
        self.reached
    }

    pub fn leader_epoch(&self) -> i32 {
        self.assignment.leader_epoch
    }

    pub fn epoch_start_offset(&self) -> i64 {
        self.epoch_start_offset
    }

    /// In-sync replicas as the metadata has them: without what is pending.
    pub fn isr(&self) -> &[i32] {
        &self.assignment.isr
    }

    /// Whether fewer replicas are in sync than `min.insync.replicas` wants, or than there are if it wants more
    /// (`Partition.effectiveMinIsr`).
    pub fn is_under_min_isr(&self) -> bool {
        self.assignment.isr.len() < self.limits.min_insync_replicas.min(self.assignment.replicas.len())
    }

    /// The change to propose, until it is answered or overtaken.
    pub fn proposal(&self) -> Option<Proposal> {
        let isr: Vec<i32> = match self.pending.as_ref()? {
            PendingChange::Expand(id) => self.assignment.isr.iter().copied().chain([*id]).collect(),
            PendingChange::Shrink(out) | PendingChange::HandOver(out) => {
                self.assignment.isr.iter().copied().filter(|id| !out.contains(id)).collect()
            }
        };
        let epoch = |id| self.follower(id).map_or(-1, |follower| follower.broker_epoch);
        Some(Proposal {
            leader_epoch: self.assignment.leader_epoch,
            partition_epoch: self.assignment.partition_epoch,
            isr: isr.into_iter().map(|id| (id, epoch(id))).collect(),
        })
    }

    /// Up to where the follower has to sync before it may enter.
    pub fn must_sync_to_enter(&self, id: i32) -> Option<i64> {
        let (follower, offset) = (self.follower(id)?, self.offset_to_sync_to_enter());
        (self.has_caught_up_to_enter(follower) && follower.synced_offset < offset).then_some(offset)
    }

    pub fn is_replica(&self, id: i32) -> bool {
        self.follower(id).is_some()
    }

    /// In-sync followers that have an offset for consumers, and the log end of each.
    pub fn readable_followers(&self, offset: i64) -> impl Iterator<Item = (i32, i64)> {
        let readable = move |follower: &&Follower| {
            self.assignment.isr.contains(&follower.id)
                && follower.log_start_offset <= offset
                && follower.log_end_offset >= offset
        };
        self.followers.iter().filter(readable).map(|follower| (follower.id, follower.log_end_offset))
    }

    fn follower(&self, id: i32) -> Option<&Follower> {
        self.followers.iter().find(|follower| follower.id == id)
    }

    fn is_pending(&self, proposal: &Proposal) -> bool {
        self.pending.is_some()
            && proposal.leader_epoch == self.assignment.leader_epoch
            && proposal.partition_epoch == self.assignment.partition_epoch
    }

    fn is_maximal_isr(&self, id: i32) -> bool {
        let is_going = |pending: &PendingChange| matches!(pending, PendingChange::Shrink(out) if out.contains(&id));
        if storage::injected_fault!(StaleLeaderAcknowledges) && self.pending.as_ref().is_some_and(is_going) {
            return false;
        }
        self.assignment.isr.contains(&id) || self.pending == Some(PendingChange::Expand(id))
    }

    /// Whether the offsets wait for this follower.
    fn counts(&self, follower: &Follower, now_ms: i64) -> bool {
        self.is_maximal_isr(follower.id)
            || (follower.may_join() && follower.is_caught_up(self.local.log_end_offset, now_ms, self.limits.lag_max_ms))
    }

    /// `Partition.isFollowerInSync`, for a follower that may join.
    fn has_caught_up_to_enter(&self, follower: &Follower) -> bool {
        !self.is_maximal_isr(follower.id)
            && follower.may_join()
            && follower.log_end_offset >= self.high_watermark
            && follower.log_end_offset >= self.epoch_start_offset
    }

    /// What is promised is on the disks of all in-sync replicas. All that was there when this node began to lead may be
    /// promised: after a restart nobody has told it how far the leader before had got.
    fn offset_to_sync_to_enter(&self) -> i64 {
        self.durable_offset.max(self.epoch_start_offset)
    }

    fn may_enter(&self, follower: &Follower) -> bool {
        self.has_caught_up_to_enter(follower) && follower.synced_offset >= self.offset_to_sync_to_enter()
    }
}

#[cfg(test)]
mod tests;
