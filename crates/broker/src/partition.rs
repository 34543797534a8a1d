//! A partition: the only door to its log.
//!
//! Appends go through a queue. The thread that gets the lock appends all that is queued, its own batches and those of
//! other connections, with one write; other threads leave, since the holder looks at the queue again before it releases
//! the lock ([`Partition::append_queued`]). Reads name ranges of files and take no lock of the writer.
//!
//! Invariants: the high watermark never passes the log end and never goes back while this node leads, and no batch
//! whose producer waits for the disk is below it before it is durable; only a leader appends what clients send, only a
//! follower what its leader sends.

mod acknowledgements;
mod damage;
mod deletion;
mod disk_pressure;
mod following;
mod inline_appends;
mod partition_queue;
mod produce_completion;
mod queue;
pub mod replica;
mod role;
mod settings;
mod sync;
mod table;
mod throttle;
mod waiters;

#[cfg(test)]
mod journal_age_tests;
#[cfg(test)]
pub(crate) mod power_loss_tests;
#[cfg(test)]
mod stalled_disk_tests;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

pub use acknowledgements::{Until, Waiting};
use arc_swap::ArcSwap;
use bytes::Bytes;
use configuration::AckDurability;
pub use damage::Damage;
pub use disk_pressure::{DiskPressure, DiskPressureState};
pub use following::FollowError;
pub use inline_appends::InlineAppends;
use parking_lot::Mutex;
pub use partition_queue::PartitionQueue;
use platform::{Env, LogLimit};
pub use produce_completion::{ProduceCompletion, ProduceOutcome, ProduceTimings, Refusal};
pub use queue::Terms;
pub use settings::Settings;
use storage::{
    AppendError, Appended, CompactionLimits, EpochEndOffset, Log, LogError, LogView, Origin, ReadError, Verification,
};
pub use sync::{SyncState, Syncer};
pub use table::{PartitionTable, TopicSummary};
pub use throttle::{Quota, ThrottledReplicas};
use tokio::sync::Notify;
pub use waiters::{FetchWait, Reader, Registration, Waiters};
use wire::batch::Batch;
use wire::{ErrorCode, Uuid};

use self::queue::{AppendQueue, Queued, Sender};
use self::role::RoleState;
use crate::stats::{Stats, Traffic};

/// Bytes that a restart may have to look at for the producers' states.
const SNAPSHOT_INTERVAL_BYTES: u64 = 16 << 20;

/// No write into the page cache takes as long.
const WRITE_MAX: Duration = Duration::from_millis(1);

/// How many acknowledgements a producer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    None,
    Leader,
    All,
}

/// Which records a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
}

/// What a partition and all others of this broker share.
#[derive(Clone)]
pub struct Shared {
    pub env: Env,
    pub node_id: i32,
    /// `replica.lag.time.max.ms`.
    pub lag_max_ms: i64,
    /// Partitions with a change of their in-sync replicas to send to the controller.
    pub isr_changes: Arc<PartitionQueue>,
    /// Partitions with batches that cannot be read.
    pub damaged: Arc<PartitionQueue>,
    /// How often reads that fail may be told in the log.
    pub unreadable: Arc<LogLimit>,
    pub syncer: Arc<Syncer>,
    /// Partitions with unsynced bytes that no request waits for.
    pub dirty: Arc<Mutex<Vec<Arc<Partition>>>>,
    /// Told when a log has failed.
    pub failed: Arc<Notify>,
    pub disk_pressure: Arc<DiskPressureState>,
    pub inline_appends: Arc<InlineAppends>,
    pub stats: Arc<Stats>,
}

impl Shared {
    /// For a broker that has opened no partition yet.
    pub fn new(env: Env, node_id: i32, lag_max_ms: i64, syncer: Arc<Syncer>) -> Self {
        Self {
            env,
            node_id,
            lag_max_ms,
            isr_changes: Arc::default(),
            damaged: Arc::default(),
            unreadable: Arc::default(),
            syncer,
            dirty: Arc::default(),
            failed: Arc::default(),
            disk_pressure: Arc::default(),
            inline_appends: Arc::default(),
            stats: Arc::default(),
        }
    }

    /// Has unsynced bytes that no request waits for brought into their segments, as far as they should be by now.
    pub fn flush_in_background(&self) {
        // Not in the head of the loop, where the lock would be held: some stay.
        let dirty = std::mem::take(&mut *self.dirty.lock());
        dirty.iter().for_each(Partition::flush_in_background);
    }
}

/// What a partition is called, and what its topic counts.
pub struct Identity {
    pub topic: Arc<str>,
    pub topic_id: Uuid,
    pub index: i32,
    pub traffic: Arc<Traffic>,
}

pub struct Partition {
    pub topic: Arc<str>,
    pub topic_id: Uuid,
    pub index: i32,
    /// Of the topic on this node.
    pub traffic: Arc<Traffic>,
    shared: Shared,
    log: Mutex<Log>,
    view: Arc<LogView>,
    queue: Mutex<AppendQueue>,
    /// It waits for a thread that may write.
    waits_to_append: AtomicBool,
    /// Requests that wait for the append under way.
    appending: Mutex<Vec<Sender>>,
    settings: ArcSwap<Settings>,
    role: Mutex<RoleState>,
    // The following mirror `role`, for readers that need not lock it. They change under its lock, and the first three
    // under the log's lock too.
    leader_epoch: AtomicI32,
    is_leader: AtomicBool,
    is_alone: AtomicBool,
    in_sync_replicas: AtomicI32,
    replica_count: AtomicI32,
    high_watermark: AtomicI64,
    durable_offset: AtomicI64,
    /// A request waits until all in-sync replicas have this on disk.
    sync_wanted: AtomicI64,
    /// The leadership withholds something from consumers.
    withholds: AtomicBool,
    /// What a follower's leader has sent last.
    leader_high_watermark: AtomicI64,
    /// See [`Partition::refuse_if_stalled`].
    is_stalled: AtomicBool,
    offline: AtomicBool,
    /// Its topic was deleted, or this node is no replica any more. It is offline, too.
    retired: AtomicBool,
    damage: Damage,
    is_dirty: AtomicBool,
    /// Size of the log when the producers' states were stored last.
    snapshot_size_bytes: AtomicU64,
    waiters: Waiters,
    sync: SyncState,
}

/// Partitions whose queue this request has begun to fill. They are committed when this is dropped, whatever happens
/// before.
#[derive(Default)]
pub struct PendingCommits(Vec<Arc<Partition>>);

impl PendingCommits {
    pub fn commit(self) {
        drop(self);
    }
}

impl Drop for PendingCommits {
    fn drop(&mut self) {
        for partition in self.0.drain(..) {
            partition.commit();
        }
    }
}

impl Partition {
    /// Neither leads nor follows before the metadata says so. The high watermark is the checkpointed one.
    pub fn new(
        identity: Identity,
        log: Log,
        high_watermark: i64,
        settings: Arc<Settings>,
        shared: Shared,
    ) -> Arc<Self> {
        let Identity { topic, topic_id, index, traffic } = identity;
        let view = log.view();
        let high_watermark = high_watermark.clamp(view.log_start_offset(), view.log_end_offset());
        let partition = Arc::new(Self {
            topic,
            topic_id,
            index,
            traffic,
            shared,
            log: Mutex::new(log),
            queue: Mutex::default(),
            waits_to_append: AtomicBool::new(false),
            appending: Mutex::default(),
            settings: ArcSwap::new(settings),
            role: Mutex::default(),
            leader_epoch: AtomicI32::new(-1),
            is_leader: AtomicBool::new(false),
            is_alone: AtomicBool::new(false),
            in_sync_replicas: AtomicI32::new(0),
            replica_count: AtomicI32::new(0),
            high_watermark: AtomicI64::new(high_watermark),
            durable_offset: AtomicI64::new(high_watermark),
            sync_wanted: AtomicI64::new(-1),
            withholds: AtomicBool::new(false),
            leader_high_watermark: AtomicI64::new(-1),
            is_stalled: AtomicBool::new(false),
            offline: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            damage: Damage::default(),
            is_dirty: AtomicBool::new(false),
            snapshot_size_bytes: AtomicU64::new(view.size_bytes()),
            view,
            waiters: Waiters::default(),
            sync: SyncState::default(),
        });
        if !partition.view.bad_ranges().is_empty() {
            partition.report_damage();
        }
        partition
    }

    /// Has the background flush visit this partition.
    fn mark_dirty(self: &Arc<Self>) {
        if !self.is_dirty.swap(true, Ordering::AcqRel) {
            self.shared.dirty.lock().push(Arc::clone(self));
        }
    }

    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Puts changed topic settings to work.
    pub fn set_settings(self: &Arc<Self>, settings: Arc<Settings>) {
        self.with_log(|log| log.set_config(settings.log.clone()));
        let min_insync_replicas = settings.min_insync_replicas;
        self.settings.store(settings);
        self.set_min_insync_replicas(min_insync_replicas);
    }

    /// Whether what this replica sends to followers is throttled as long as they are not in sync.
    pub fn is_throttled_as_leader(&self) -> bool {
        self.settings.load().throttled_as_leader.has(self.index)
    }

    pub fn is_throttled_as_follower(&self) -> bool {
        self.settings.load().throttled_as_follower.has(self.index)
    }

    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch.load(Ordering::Acquire)
    }

    /// Whether it has a role: leader or follower.
    fn has_role(&self) -> bool {
        self.leader_epoch() >= 0
    }

    pub fn view(&self) -> &LogView {
        &self.view
    }

    /// The offset below which consumers may read.
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark.load(Ordering::Acquire)
    }

    /// All in-sync replicas have what is below on their disks, as far as this leader knows.
    pub fn durable_offset(&self) -> i64 {
        self.durable_offset.load(Ordering::Acquire)
    }

    pub fn is_leader(&self) -> bool {
        self.is_leader.load(Ordering::Acquire)
    }

    /// Whether this node leads and no other replicates the partition.
    pub fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Acquire)
    }

    /// Refuses what only a leader does.
    pub fn check_leader(&self) -> Result<(), ErrorCode> {
        if self.is_leader() { Ok(()) } else { Err(ErrorCode::NOT_LEADER_OR_FOLLOWER) }
    }

    /// Below it no transaction is open, or ended where not all replicas know of it. Without transactions it is the high
    /// watermark.
    pub fn last_stable_offset(&self) -> i64 {
        self.view.last_stable_offset(self.high_watermark())
    }

    /// The end of what a reader may see.
    pub fn end_offset(&self, isolation: Isolation) -> i64 {
        match isolation {
            Isolation::ReadUncommitted => self.high_watermark(),
            Isolation::ReadCommitted => self.last_stable_offset(),
        }
    }

    pub fn log_start_offset(&self) -> i64 {
        self.view.log_start_offset()
    }

    /// Where a leader epoch ends in this log, as far as consumers may see it (KIP-279).
    pub fn end_offset_for_epoch(&self, epoch: i32) -> EpochEndOffset {
        self.view.end_offset_for_epoch(epoch, self.high_watermark())
    }

    pub fn is_offline(&self) -> bool {
        self.offline.load(Ordering::Acquire)
    }

    /// Refuses what needs a log. Whoever found the partition just before it was retired looks for it elsewhere.
    pub fn check_online(&self) -> Result<(), ErrorCode> {
        match self.is_offline() {
            false => Ok(()),
            true if self.retired.load(Ordering::Acquire) => Err(ErrorCode::NOT_LEADER_OR_FOLLOWER),
            true => Err(ErrorCode::KAFKA_STORAGE_ERROR),
        }
    }

    /// Checks the leader epoch that a client believes in (KIP-320).
    pub fn check_leader_epoch(&self, epoch: i32) -> Result<(), ErrorCode> {
        self.check_online()?;
        match epoch.cmp(&self.leader_epoch()) {
            _ if epoch < 0 => Ok(()),
            std::cmp::Ordering::Less => Err(ErrorCode::FENCED_LEADER_EPOCH),
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
        }
    }

    /// Checks that this node leads, and the epoch that the client believes in.
    pub fn check_leader_in_epoch(&self, epoch: i32) -> Result<(), ErrorCode> {
        self.check_leader_epoch(epoch)?;
        self.check_leader()
    }

    /// Queues a validated batch. It is appended when `commits` commit; the outcome goes to the completion's slot.
    pub fn enqueue(
        self: &Arc<Self>,
        batch: Batch,
        acks: Acks,
        completion: &Arc<ProduceCompletion>,
        slot: usize,
        commits: &mut PendingCommits,
    ) {
        self.enqueue_on(Terms::CLIENT, batch, acks, completion, slot, commits);
    }

    /// The same for a batch of other terms than those of a producer without transactions.
    pub fn enqueue_on(
        self: &Arc<Self>,
        terms: Terms,
        batch: Batch,
        acks: Acks,
        completion: &Arc<ProduceCompletion>,
        slot: usize,
        commits: &mut PendingCommits,
    ) {
        if let Err(refusal) = self.check_writable(acks) {
            return completion.fill(slot, ProduceOutcome::Refused(refusal));
        }
        let mut queue = self.queue.lock();
        if !queue.has_room(&batch) {
            drop(queue);
            return completion.fill(slot, ProduceOutcome::Refused(queue::queue_full()));
        }
        // The request that finds the queue empty commits it.
        if queue.is_empty() {
            commits.0.push(Arc::clone(self));
        }
        queue.push(Queued { batch, sender: Sender { acks, completion: Arc::clone(completion), slot }, terms });
    }

    /// Whether the transaction's coordinator has to be asked before a producer's batch is appended (KIP-890). Waits for
    /// the log. `transaction_version` is what the producer's request stands for.
    pub fn start_verification(
        self: &Arc<Self>,
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
        transaction_version: i8,
    ) -> Result<Verification, Refusal> {
        self.check_writable(Acks::None)?;
        let now = self.shared.env.clock.now();
        let started = self.with_log(|log| {
            log.start_verification(producer_id, producer_epoch, base_sequence, transaction_version, now)
        });
        started.map_err(|error| refusal(&error))
    }

    /// The same for threads of the runtime. `None` if another thread has the log for so long that it may be waiting for
    /// the disk.
    pub fn try_start_verification(
        self: &Arc<Self>,
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
        transaction_version: i8,
    ) -> Result<Option<Verification>, Refusal> {
        self.check_writable(Acks::None)?;
        let now = self.shared.env.clock.now();
        let Some(mut log) = self.log.try_lock_for(WRITE_MAX) else { return Ok(None) };
        let started = log.start_verification(producer_id, producer_epoch, base_sequence, transaction_version, now);
        drop(log);
        // What was queued meanwhile by threads that did not get the lock.
        self.commit();
        started.map(Some).map_err(|error| refusal(&error))
    }

    fn check_writable(&self, acks: Acks) -> Result<(), Refusal> {
        self.check_online()?;
        self.check_disk_space()?;
        self.check_leader()?;
        if acks == Acks::All {
            if self.is_stalled.load(Ordering::Acquire) {
                return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER.into());
            }
            // No more can be in sync than there are (`Partition.effectiveMinIsr`).
            let replicas = self.replica_count.load(Ordering::Acquire);
            let wanted = self.settings.load().min_insync_replicas.min(replicas);
            if self.in_sync_replicas.load(Ordering::Acquire) < wanted {
                return Err(ErrorCode::NOT_ENOUGH_REPLICAS.into());
            }
        }
        Ok(())
    }

    /// Has the queue appended: by a syncing thread if all requests wait for the disk anyway, otherwise here and now.
    fn commit(self: &Arc<Self>) {
        let queue = self.queue.lock();
        if queue.is_empty() {
            return;
        }
        let can_wait = queue.waits_for_disk();
        drop(queue);
        if can_wait && self.settings.load().ack_durability == AckDurability::Disk {
            self.request_sync([]);
        } else {
            self.shared.inline_appends.append(self);
        }
    }

    /// Appends what is queued, unless another thread holds the log: then that thread does it.
    fn append_queued(self: &Arc<Self>) {
        loop {
            let Some(mut log) = self.log.try_lock() else { return };
            let mut queued = self.queue.lock().take();
            while let Some(first) = queued.first() {
                let origin = first.terms.origin;
                let run = queued.iter().take_while(|next| next.terms.origin == origin).count();
                let others = queued.split_off(run);
                self.append(&mut log, origin, queued);
                queued = others;
            }
            drop(log);
            if self.queue.lock().is_empty() {
                return;
            }
        }
    }

    /// Works on the log under its lock. What was queued meanwhile by threads that did not get the lock is appended.
    pub fn with_log<R>(self: &Arc<Self>, work: impl FnOnce(&mut Log) -> R) -> R {
        let result = work(&mut self.log.lock());
        self.append_queued();
        result
    }

    /// Appends as the leader what is of one origin. Both role and epoch are as they are: they change under the log's
    /// lock only.
    fn append(self: &Arc<Self>, log: &mut Log, origin: Origin, mut queued: Vec<Queued>) {
        let leader_epoch = self.leader_epoch();
        let leads = self.is_leader();
        let is_current = |queued: &Queued| leads && queued.terms.leader_epoch.is_none_or(|epoch| epoch == leader_epoch);
        for Queued { sender, .. } in queued.extract_if(.., |queued| !is_current(queued)) {
            sender.completion.fill(sender.slot, ErrorCode::NOT_LEADER_OR_FOLLOWER.into());
        }
        if queued.is_empty() {
            return;
        }
        let is_verified = queued.iter().any(|queued| queued.terms.guard.is_some());
        let guards: Vec<_> =
            if is_verified { queued.iter().map(|queued| queued.terms.guard).collect() } else { Vec::new() };
        let (batches, senders): (Vec<Batch>, Vec<Sender>) =
            queued.into_iter().map(|queued| (queued.batch, queued.sender)).unzip();
        let settings = self.settings.load();
        let is_alone = self.is_alone();
        let is_durable = settings.ack_durability == AckDurability::Disk && !storage::injected_fault!(AckBeforeSync);
        let waits_for_disk = |acks| acks == Acks::All && is_durable;
        let start = self.view.log_end_offset();
        let first_withheld = senders.iter().position(|sender| waits_for_disk(sender.acks));
        let withholds = first_withheld.is_some();
        if withholds {
            // Before the records are visible: consumers may not read them yet, and a follower that fetches them is
            // asked to sync them.
            self.begin_append(start);
            if !is_alone {
                let records: i64 = batches.iter().map(|batch| i64::from(batch.header.last_offset_delta) + 1).sum();
                self.sync_wanted.fetch_max(start + records, Ordering::AcqRel);
            }
        }
        let clock = &self.shared.env.clock;
        let (now, began) = clock.now_and_monotonic();
        // If the disk does not answer they are refused meanwhile.
        *self.appending.lock() = senders;
        let appended = log.append_verified(&batches, &guards, origin, leader_epoch, now);
        let senders = std::mem::take(&mut *self.appending.lock());
        let appended = match appended {
            Ok(appended) => appended,
            Err(error) => {
                // A full disk passes, and so does a lack of descriptors; any other error closes the log for ever.
                if !error.is_retriable() {
                    self.fail(&error);
                }
                if withholds {
                    self.record_appended(self.view.log_end_offset(), 0, Some(start), now.monotonic_ms);
                }
                for sender in senders {
                    sender.completion.fill(sender.slot, ErrorCode::KAFKA_STORAGE_ERROR.into());
                }
                return;
            }
        };
        let end = self.view.log_end_offset();
        let sizes = batches.iter().map(|batch| batch.bytes.len());
        let bytes = if end > start { sizes.sum::<usize>() as i64 } else { 0 };
        let timings = ProduceTimings::appended(clock.monotonic());
        self.shared.stats.appends.observe(timings.settled.saturating_sub(began));
        if end > start {
            self.traffic.records_in.add(end.abs_diff(start));
            self.traffic.bytes_in.add(new_bytes(&appended, &batches, start));
        }
        if let Some(index) = first_withheld {
            // The requests of the batches may have timed out and been refused.
            let mut offsets = appended[index..].iter().flatten().map(|appended| appended.base_offset);
            let first = offsets.find(|offset| *offset >= start).unwrap_or(end);
            self.record_appended(end, bytes, Some(first), now.monotonic_ms);
        } else if end > start && is_alone && !self.withholds.load(Ordering::Acquire) {
            self.high_watermark.store(end, Ordering::Release);
            self.waiters.add(bytes, self.last_stable_offset());
        } else if end > start {
            self.record_appended(end, bytes, None, now.monotonic_ms);
        }
        let high_watermark = self.high_watermark();
        let (mut waiting, mut wait_for_disk) = (Vec::new(), false);
        for (result, Sender { acks, completion, slot }) in appended.into_iter().zip(senders) {
            let (offset, outcome) = match result {
                Ok(appended) => (appended.last_offset + 1, self.outcome(&appended)),
                Err(error) => {
                    if matches!(error, AppendError::DiskFull) {
                        self.shared.disk_pressure.record_refused();
                    }
                    (0, ProduceOutcome::Refused(refusal(&error)))
                }
            };
            if offset > 0 && waits_for_disk(acks) {
                wait_for_disk = true;
                waiting.push(Waiting { offset, until: Until::Durable, timings, completion, slot, outcome });
            } else if acks == Acks::All && offset > high_watermark {
                waiting.push(Waiting { offset, until: Until::Replicated, timings, completion, slot, outcome });
            } else {
                completion.complete_after(timings, slot, outcome);
            }
        }
        if !is_alone {
            self.waiters.appended(bytes, wait_for_disk);
        }
        if wait_for_disk || self.flush_is_due(&settings, end) {
            self.request_sync(waiting);
        } else {
            self.wait_for_replication(waiting);
            if end > start {
                self.mark_dirty();
            }
        }
    }

    /// `flush.messages`, and `flush.ms` where it is shorter than the background flush.
    fn flush_is_due(&self, settings: &Settings, end: i64) -> bool {
        settings.flush_always || end - self.view.durable_offset() >= settings.flush_messages
    }

    fn outcome(&self, appended: &Appended) -> ProduceOutcome {
        ProduceOutcome::Appended {
            base_offset: appended.base_offset,
            log_append_time_ms: appended.log_append_time_ms,
            log_start_offset: self.log_start_offset(),
            is_of_new_producer: appended.is_of_new_producer,
        }
    }

    /// Reads whole batches from `offset` on into memory, at least one, to the end of the log.
    pub fn read(&self, offset: i64, max_bytes: u32) -> Result<Bytes, ReadError> {
        self.view.read(offset, self.view.log_end_offset(), max_bytes)
    }

    /// Has appended bytes synced in the background when no request waits for them.
    fn flush_in_background(self: &Arc<Self>) {
        self.is_dirty.store(false, Ordering::Release);
        if self.may_stay_in_journal() {
            self.mark_dirty();
        } else {
            self.request_background_sync();
        }
    }

    /// Stores the producers' states now and then, so that a restart need not read far back from the recovery point for
    /// them.
    pub fn snapshot_if_due(self: &Arc<Self>) {
        let size_bytes = self.view.size_bytes();
        if size_bytes.abs_diff(self.snapshot_size_bytes.load(Ordering::Relaxed)) >= SNAPSHOT_INTERVAL_BYTES {
            match self.with_log(|log| log.write_snapshot(false)) {
                Ok(()) => self.snapshot_size_bytes.store(size_bytes, Ordering::Relaxed),
                Err(error) if error.is_retriable() => {}
                Err(error) => self.fail(&error),
            }
        }
    }

    /// Compacts the log from where the last compaction ended, if that is due. Returns where it ended now. Where there
    /// is a journal it stays below the recovery point that is noted. Appends go on meanwhile: the lock is held only to
    /// list the segments and to swap in each new one. `moved` gets the bytes that were read or written.
    pub fn compact(
        self: &Arc<Self>,
        first_dirty_offset: i64,
        noted_recovery_point: Option<i64>,
        limits: CompactionLimits,
        stop: &AtomicBool,
        moved: &dyn Fn(u64),
    ) -> Result<i64, LogError> {
        let now = self.shared.env.clock.now();
        let last_stable_offset = self.last_stable_offset();
        let compaction = self.with_log(|log| {
            // The next start replays the journal from where it believes the recovery point, to where things stand now.
            let not_replayed = noted_recovery_point.map_or(i64::MAX, |noted| log.believed_recovery_point(noted));
            let bound = last_stable_offset.min(not_replayed);
            let cleanable = log.cleanable(first_dirty_offset, bound, now)?;
            let is_due = cleanable.is_due(log.config());
            Ok::<_, LogError>(is_due.then(|| log.begin_compaction(&cleanable, limits, now)))
        })?;
        let Some(mut compaction) = compaction else { return Ok(first_dirty_offset) };
        while let Some(cleaned) = compaction.clean_next(stop, moved)? {
            if !self.with_log(|log| log.swap_in(cleaned, now))? {
                return Ok(first_dirty_offset);
            }
        }
        let stats = compaction.stats();
        tracing::info!(
            topic = %self.topic, partition = self.index, records_read = stats.records_read,
            records_kept = stats.records_kept, "compacted a log"
        );
        Ok(if stop.load(Ordering::Relaxed) { first_dirty_offset } else { compaction.next_dirty_offset() })
    }

    /// Ends all use of the partition: its topic was deleted, or this node is no replica any more.
    pub fn retire(self: &Arc<Self>) {
        self.retired.store(true, Ordering::Release);
        self.offline.store(true, Ordering::Release);
        self.with_log(|log| {
            self.drop_role();
            log.retire();
        });
        self.refuse_waiting(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        self.waiters.wake_all();
    }

    /// Closes the log of a broker that stops. No request waits any more.
    pub fn close(self: &Arc<Self>) -> Result<(), LogError> {
        let closed = self.with_log(Log::close);
        self.refuse_waiting(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        self.waiters.wake_all();
        closed.map(|_| ())
    }

    pub fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// Takes the partition offline: nothing is appended, read or acknowledged any more.
    fn fail(&self, error: &LogError) {
        if !self.offline.swap(true, Ordering::AcqRel) {
            tracing::error!(topic = %self.topic, partition = self.index, %error, "the log failed; the partition is offline");
            self.shared.failed.notify_one();
        }
        self.waiters.wake_all();
    }
}

/// The bytes of batches that were appended, neither refused nor duplicates.
fn new_bytes(appended: &[Result<Appended, AppendError>], batches: &[Batch], start: i64) -> u64 {
    let is_new =
        |result: &Result<Appended, AppendError>| result.as_ref().is_ok_and(|appended| appended.base_offset >= start);
    appended.iter().zip(batches).filter(|(result, _)| is_new(result)).map(|(_, batch)| batch.bytes.len() as u64).sum()
}

fn refusal(error: &AppendError) -> Refusal {
    let code = match error {
        AppendError::MessageTooLarge { .. } => ErrorCode::MESSAGE_TOO_LARGE,
        AppendError::RecordListTooLarge { .. } => ErrorCode::RECORD_LIST_TOO_LARGE,
        AppendError::OutOfOrderSequence { .. } => ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        AppendError::InvalidProducerEpoch { .. } => ErrorCode::INVALID_PRODUCER_EPOCH,
        AppendError::InvalidTxnState { .. } => ErrorCode::INVALID_TXN_STATE,
        AppendError::TransactionCoordinatorFenced { .. } => ErrorCode::TRANSACTION_COORDINATOR_FENCED,
        AppendError::OffsetsOutOfOrder { .. } => ErrorCode::UNKNOWN_SERVER_ERROR,
        AppendError::DiskFull | AppendError::Exhausted => ErrorCode::KAFKA_STORAGE_ERROR,
    };
    Refusal { message: Some(error.to_string()), ..code.into() }
}
