//! What a follower does to its log: append what the leader sends, cut what the leader does not have.
//!
//! The fetcher of the leader calls this. Each call names the epoch in which the leader has answered, and does nothing
//! when the partition has another one by now, or leads.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use storage::{AppendError, BadRange, EpochEndOffset, FetchedError, Log, LogError};
use wire::batch::{Batch, Batches};

use super::replica::Promised;
use super::{Partition, ProduceCompletion, ProduceOutcome, ProduceTimings, Until, Waiting};

/// Where a follower goes on, and its state in the fetch request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub leader_epoch: i32,
    pub fetch_offset: i64,
    /// -1 if the log has no epoch.
    pub last_fetched_epoch: i32,
    pub log_start_offset: i64,
    pub synced_offset: i64,
    /// Some of the log cannot be read.
    pub is_damaged: bool,
    pub high_watermark: i64,
}

/// Why what the leader sent was not taken over.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    #[error("the partition does not follow in this epoch any more")]
    RoleChanged,
    #[error("there is no room on the disk")]
    NoRoom,
    #[error("{0}")]
    Fetched(#[from] FetchedError),
    #[error("{0}")]
    Log(#[from] LogError),
}

impl Partition {
    /// Where this follower goes on; `None` if it does not follow.
    pub fn position(&self) -> Option<Position> {
        if self.is_offline() {
            return None;
        }
        self.followed_leader()?;
        Some(Position {
            leader_epoch: self.leader_epoch(),
            fetch_offset: self.view.log_end_offset(),
            last_fetched_epoch: self.view.latest_epoch().map_or(-1, |latest| latest.epoch),
            log_start_offset: self.log_start_offset(),
            synced_offset: self.view.durable_offset(),
            is_damaged: self.is_damaged(),
            high_watermark: self.high_watermark(),
        })
    }

    /// Whether this follower has all up to the high watermark that its leader sent; false before the first one.
    pub fn has_caught_up(&self) -> bool {
        self.leader_high_watermark.load(Ordering::Acquire) >= 0 && self.offset_lag() == 0
    }

    /// How many offsets this follower lacks to the high watermark that its leader sent; 0 on the leader.
    pub fn offset_lag(&self) -> i64 {
        if self.is_leader() {
            return 0;
        }
        (self.leader_high_watermark.load(Ordering::Acquire) - self.view.log_end_offset()).max(0)
    }

    /// Works on the log as a follower in an epoch.
    fn follow_in<R>(
        self: &Arc<Self>,
        leader_epoch: i32,
        work: impl FnOnce(&mut Log) -> Result<R, FollowError>,
    ) -> Result<R, FollowError> {
        let result = self.with_log(|log| {
            if self.is_leader() || self.leader_epoch() != leader_epoch || self.is_offline() {
                return Err(FollowError::RoleChanged);
            }
            work(log)
        });
        if let Err(FollowError::Log(error)) = &result
            && !error.is_retriable()
        {
            self.fail(error);
        }
        result
    }

    /// Appends what the leader sent for `fetch_offset`, and takes over where its log starts and what it promises. What
    /// precedes a bad batch is appended; the next answer begins with that batch.
    pub fn append_from_leader(
        self: &Arc<Self>,
        leader_epoch: i32,
        fetch_offset: i64,
        fetched: &Bytes,
        leader_promises: Promised,
        leader_log_start_offset: i64,
    ) -> Result<(), FollowError> {
        let (replicated, end) = self.follow_in(leader_epoch, |log| {
            self.leader_high_watermark.store(leader_promises.high_watermark, Ordering::Release);
            let start = log.log_end_offset();
            let result = match fetched.is_empty() {
                true => Ok(()),
                false => self.append_batches(log, leader_epoch, fetch_offset, fetched),
            };
            let end = log.log_end_offset();
            let high_watermark = leader_promises.high_watermark.min(end);
            self.durable_offset.fetch_max(leader_promises.durable_offset.min(end), Ordering::AcqRel);
            let is_news = high_watermark > self.high_watermark();
            if is_news {
                self.high_watermark.store(high_watermark, Ordering::Release);
            }
            if (self.log_start_offset() + 1..=self.high_watermark()).contains(&leader_log_start_offset) {
                log.delete_records(leader_log_start_offset)?;
            }
            let bytes = self.role.lock().take_replicated(self.high_watermark());
            result?;
            Ok((is_news.then_some(bytes), (end > start).then_some(end)))
        })?;
        if let Some(bytes) = replicated {
            self.waiters.replicated(bytes, self.last_stable_offset());
        }
        if let Some(end) = end {
            if self.flush_is_due(&self.settings(), end) {
                self.request_sync([]);
            } else {
                self.mark_dirty();
            }
        }
        Ok(())
    }

    fn append_batches(
        &self,
        log: &mut Log,
        leader_epoch: i32,
        mut fetch_offset: i64,
        fetched: &Bytes,
    ) -> Result<(), FollowError> {
        if self.lacks_space_to_follow() {
            return Err(FollowError::NoRoom);
        }
        let is_empty = self.log_start_offset() == fetch_offset && log.log_end_offset() == fetch_offset;
        if is_empty
            && let Some(Ok(Batch { header, .. })) = Batches::new(fetched.clone()).next()
            && header.base_offset < fetch_offset
            && fetch_offset <= header.last_offset()
        {
            // The leader's log begins within this batch, which is stored whole (`UnexpectedAppendOffsetException`).
            log.truncate_fully_and_start_at(header.base_offset, self.shared.env.clock.now())?;
            fetch_offset = header.base_offset;
        }
        let appended = log.append_fetched(fetch_offset, fetched, leader_epoch, self.shared.env.clock.now());
        if let Err(FetchedError::Append(AppendError::DiskFull)) = &appended {
            self.shared.disk_pressure.record_refused();
        }
        let appended = appended?;
        self.traffic.replication_bytes_in.add(appended.bytes as u64);
        self.role.lock().record_appended(log.log_end_offset(), appended.bytes as i64);
        Ok(())
    }

    /// Cuts what the leader has not: it answered that the follower's last epoch ends elsewhere in its log
    /// (`AbstractFetcherThread.getOffsetTruncationState`). The next fetch finds out whether that was enough.
    pub fn truncate_to_epoch(self: &Arc<Self>, leader_epoch: i32, end: EpochEndOffset) -> Result<(), FollowError> {
        self.follow_in(leader_epoch, |log| {
            let own = self.view.end_offset_for_epoch(end.epoch, log.log_end_offset());
            let offset = match own.epoch {
                // This log knows nothing of the epoch or an older one.
                _ if own.end_offset < 0 => end.end_offset,
                // It ends at the smaller of the two ends.
                epoch if epoch == end.epoch => own.end_offset.min(end.end_offset),
                // An older epoch is the last that both may have.
                _ => own.end_offset,
            };
            self.truncate(log, offset)
        })?;
        self.waiters.wake_all();
        Ok(())
    }

    /// Cuts the log where it is damaged, to fetch from there on again what the leader has: for damage that a replica's
    /// bytes do not fit into. Of a replica in sync only the end of the log is cut, behind which nothing can be read:
    /// what is valid behind other damage may be needed, should the leader be lost. Returns whether it was cut.
    pub fn cut_damage(
        self: &Arc<Self>,
        leader_epoch: i32,
        range: &BadRange,
        is_in_sync: bool,
    ) -> Result<bool, FollowError> {
        let is_cut = self.follow_in(leader_epoch, |log| {
            let is_known = self.view.bad_ranges().contains(range);
            let is_end = range.next_offset >= log.log_end_offset();
            if !is_known || is_in_sync && !is_end {
                return Ok(false);
            }
            tracing::warn!(
                topic = %self.topic, partition = self.index, first_offset = range.first_offset,
                next_offset = range.next_offset, "the log is cut where it is damaged, to be fetched again from there on"
            );
            self.truncate(log, range.first_offset)?;
            Ok(true)
        })?;
        self.waiters.wake_all();
        Ok(is_cut)
    }

    fn truncate(&self, log: &mut Log, offset: i64) -> Result<(), FollowError> {
        let before = log.log_end_offset();
        let end = log.truncate_to(offset, self.shared.env.clock.now())?;
        self.high_watermark.fetch_min(end, Ordering::AcqRel);
        self.durable_offset.fetch_min(end, Ordering::AcqRel);
        self.role.lock().record_truncated(end);
        tracing::info!(
            topic = %self.topic, partition = self.index, leader_epoch = self.leader_epoch(), before, end,
            "cut what the leader does not have"
        );
        Ok(())
    }

    /// Drops everything, to go on at the start of the leader's log.
    pub fn truncate_fully_and_start_at(self: &Arc<Self>, leader_epoch: i32, offset: i64) -> Result<(), FollowError> {
        self.follow_in(leader_epoch, |log| {
            let before = log.log_end_offset();
            log.truncate_fully_and_start_at(offset, self.shared.env.clock.now())?;
            self.high_watermark.store(offset, Ordering::Release);
            self.durable_offset.store(offset, Ordering::Release);
            self.role.lock().record_truncated(-1);
            tracing::warn!(
                topic = %self.topic, partition = self.index, before, offset,
                "the leader has nothing of where this log ends; it starts anew"
            );
            Ok(())
        })?;
        self.waiters.wake_all();
        Ok(())
    }

    /// Has the log synced; the slot of the completion is filled when it is on disk up to its present end.
    pub fn sync_for_leader(self: &Arc<Self>, completion: &Arc<ProduceCompletion>, slot: usize) {
        let offset = self.view.log_end_offset();
        let outcome = ProduceOutcome::Appended {
            base_offset: offset,
            log_append_time_ms: -1,
            log_start_offset: -1,
            is_of_new_producer: false,
        };
        let timings = ProduceTimings::appended(self.shared.env.clock.monotonic());
        self.request_sync([Waiting {
            offset,
            until: Until::Synced,
            timings,
            completion: Arc::clone(completion),
            slot,
            outcome,
        }]);
    }
}
