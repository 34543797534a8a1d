//! Fetches of followers: replication.
//!
//! Only a broker fetches as one, in the epoch of its registration (KIP-903) and with the number of its process, which
//! no client is told: the others are STALE_BROKER_EPOCH.
//!
//! A follower reads to the end of the log. Where it wants to read says what it has, so each fetch moves what this node
//! knows of it, and with it the high watermark and the durable offset.
//!
//! A request is parked as a consumer's is, but answered
//! - at once, when a producer waits until the follower has on disk what it has in memory only;
//! - at once, when it has not been told yet where this log starts: without that it is not added to those in sync;
//! - soon, when the high watermark has moved since the follower was told: see
//!   [`FetchWait::notify_news`](crate::partition::FetchWait::notify_news).
//!
//! One that is throttled and not in sync gets no records while the quota is exceeded (KIP-73,
//! `ReplicaManager.shouldLeaderThrottle`).

use std::sync::Arc;

use metadata::MetadataImage;
use wire::api::fetch::{FetchRequest, ReplicaState};
use wire::{ErrorCode, Uuid};

use super::{FetchContext, Read, ReadBudget, Reads, find_divergence, read_span};
use crate::fetch_sessions::{Target, Targets};
use crate::partition::replica::FollowerFetch;
use crate::partition::{Partition, Quota};

/// A follower's state is a field of its own since.
const REPLICA_STATE_SINCE: i16 = 15;

/// The broker that follows.
pub(super) struct Follower {
    id: i32,
    broker_epoch: i64,
    incarnation_id: Uuid,
}

impl Follower {
    /// The sender of a request, if it is a follower.
    pub(super) fn of(request: &FetchRequest, version: i16) -> Option<Self> {
        let state = if version >= REPLICA_STATE_SINCE {
            request.replica_state.clone()
        } else {
            ReplicaState { replica_id: request.replica_id, ..ReplicaState::default() }
        };
        let ReplicaState { replica_id: id, replica_epoch: broker_epoch, incarnation_id } = state;
        (id >= 0).then_some(Self { id, broker_epoch, incarnation_id })
    }

    /// Whether this is the broker that is registered under its number now. What another one says that it has must not
    /// count for what this one has.
    pub(super) fn is_registered(&self, image: &MetadataImage) -> bool {
        let claimed = (self.broker_epoch, self.incarnation_id);
        image.broker(self.id).is_some_and(|broker| (broker.epoch, broker.incarnation_id) == claimed)
    }

    /// Whether the certificate of the connection is that of this broker, where it has to be.
    pub(super) fn may_be_from(&self, asked: &FetchContext<'_>, image: &MetadataImage) -> bool {
        let Some((_, context)) = asked.reader else { return true };
        let host = image.broker(self.id).and_then(|broker| broker.endpoint(asked.listener));
        context.origin().may_be(self.id, host.map(|endpoint| endpoint.host.as_str()).into_iter())
    }

    pub(super) fn read(
        &self,
        partition: &Arc<Partition>,
        target: &Target,
        budget: ReadBudget,
        fetched_ms: Option<i64>,
    ) -> Result<Read, ErrorCode> {
        let leader_epoch = partition.leader_epoch();
        partition.check_leader_in_epoch(target.current_leader_epoch)?;
        if !partition.has_follower(self.id)? {
            return Err(ErrorCode::UNKNOWN_LEADER_EPOCH);
        }
        let mut read = Read::of(partition);
        let end_offset = partition.view().log_end_offset();
        match find_divergence(partition, target, end_offset, &mut read) {
            Ok(false) => read_span(partition, target, budget, None, &mut read)?,
            Ok(true) => return Ok(read),
            // It is told where this log starts, to go on there.
            Err(error) => (read.error, read.urgent) = (error, true),
        }
        if !read.error.is_none() {
            return Ok(read);
        }
        if let Some(now_ms) = fetched_ms {
            let fetch = FollowerFetch {
                fetch_offset: target.fetch_offset,
                synced_offset: target.synced_offset,
                log_start_offset: target.log_start_offset,
                is_damaged: target.is_damaged,
                broker_epoch: self.broker_epoch,
                now_ms,
            };
            partition.update_follower_fetch_state(leader_epoch, self.id, fetch)?;
            read.high_watermark = partition.high_watermark();
            read.last_stable_offset = partition.last_stable_offset();
        }
        read.durable_offset = partition.durable_offset();
        read.urgent |= target.log_start_offset.max(target.sent_log_start_offset) < read.log_start_offset;
        if budget.is_quota_exceeded && partition.is_throttled_as_leader() && !partition.is_in_sync(self.id) {
            read.span = None;
        }
        let wanted = partition.sync_wanted_from(self.id);
        if wanted > target.synced_offset {
            read.sync_wanted = Some(wanted);
            // Without anything new it has to sync what it has; with something new that comes first.
            read.urgent = target.fetch_offset > target.synced_offset || read.span.is_some();
        }
        Ok(read)
    }
}

/// Notes what is sent to throttled replicas. Those in sync are not held up, but they count.
pub(super) fn note_sent(quota: &Quota, targets: &Targets, reads: &Reads, now_ms: i64) {
    let throttled =
        |target: &Target| target.partition.as_ref().is_ok_and(|partition| partition.is_throttled_as_leader());
    let sent = targets.iter().zip(&reads.parts).filter(|(target, read)| read.span.is_some() && throttled(target));
    quota.record(sent.map(|(_, read)| read.bytes()).sum(), now_ms);
}

/// Whether there is something that the sender should know soon.
pub(super) fn is_news(target: &Target, read: &Read) -> bool {
    target.known_high_watermark != i64::MAX && target.known_high_watermark != read.high_watermark
}
