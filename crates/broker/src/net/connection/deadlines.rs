//! The deadlines of a connection's peer.

use std::time::Duration;

use tokio::time::Instant;

use super::Connection;
use crate::Broker;
use crate::close_reason::{CloseReason, MEMORY_TIMEOUT};
use crate::memory::SMALL_ANSWER_BYTES_MAX;
use crate::net::transfer_deadline::TransferDeadline;

/// How long a peer may leave the rest of a frame or its answers while others wait for memory, where it holds more than
/// [`SPARED_BYTES`].
const SHORT_TIMEOUT: Duration = Duration::from_secs(1);
const SPARED_BYTES: usize = SMALL_ANSWER_BYTES_MAX;

impl Connection {
    /// One timer serves all deadlines of a connection. It may fire early, never late: then it is set again.
    pub(super) fn arm_timer(&mut self) {
        // A peer that waits for an answer is not idle, and is checked later.
        let is_idle = self.pending.is_empty() || !self.timer.is_elapsed();
        let idle_since = if is_idle { self.last_active } else { Instant::now() };
        // Nor is one that is not read.
        let mut deadline = self.muted_until.unwrap_or(idle_since + idle_timeout(&self.broker));
        if let Some(first) = self.pending.front().and_then(|first| first.started.deadline()) {
            deadline = deadline.min(first);
        }
        if let Some(transfer) = &self.frame_deadline {
            deadline = deadline.min(next_look(transfer, self.input.held_bytes()));
        }
        if let Some(transfer) = &self.send_deadline {
            deadline = deadline.min(next_look(transfer, self.output.memory().max(self.input.held_bytes())));
        }
        if let Some(since) = self.short_since {
            deadline = deadline.min(since + MEMORY_TIMEOUT);
        }
        if let Some(until) = self.phase.deadline() {
            deadline = deadline.min(until);
        }
        // A timer that is set earlier than needed costs one wake-up; setting it for each request would cost more.
        if deadline < self.timer.deadline() || self.timer.is_elapsed() {
            self.timer.as_mut().reset(deadline);
        }
    }

    pub(super) fn check_deadlines(&mut self) -> Result<(), CloseReason> {
        let now = Instant::now();
        self.end_mute(now);
        if let Some(first) = self.pending.front_mut() {
            first.started.expire(now);
        }
        if self.frame_deadline.is_some_and(|transfer| {
            let is_short = self.input.held_bytes() > SPARED_BYTES && self.input.is_short();
            is_over(&transfer, is_short, now)
        }) {
            return Err(CloseReason::SlowFrame);
        }
        if self.send_deadline.is_some_and(|transfer| {
            // What has arrived and cannot start before most of the answers are read is held by them, too.
            let is_short = (self.output.memory() > SPARED_BYTES && self.answers.budget().is_short())
                || (!self.can_start() && self.input.held_bytes() > SPARED_BYTES && self.input.is_short());
            is_over(&transfer, is_short, now)
        }) {
            return Err(CloseReason::SlowReader);
        }
        if self.short_since.is_some_and(|since| now >= since + MEMORY_TIMEOUT) {
            return Err(CloseReason::NoMemory);
        }
        if self.phase.deadline().is_some_and(|until| now >= until) {
            return Err(CloseReason::SlowAuthentication);
        }
        if self.pending.is_empty() && self.muted_until.is_none() && now >= self.last_active + idle_timeout(&self.broker)
        {
            return Err(CloseReason::Idle);
        }
        Ok(())
    }
}

/// When to check a peer's progress. The check also finds out whether memory is short.
fn next_look(transfer: &TransferDeadline, held_bytes: usize) -> Instant {
    if held_bytes <= SPARED_BYTES {
        return transfer.until();
    }
    // Not needed while bytes move, and afterwards once in such an interval.
    let soon = transfer.moved().max(Instant::now()) + SHORT_TIMEOUT;
    transfer.until().min(soon)
}

fn is_over(transfer: &TransferDeadline, is_short: bool, now: Instant) -> bool {
    now >= transfer.until() || (is_short && now >= transfer.moved() + SHORT_TIMEOUT)
}

pub(super) fn idle_timeout(broker: &Broker) -> Duration {
    Duration::from_millis(broker.config().connections_max_idle_ms.unsigned_abs())
}
