//! A request under way, and the times of its stages.

use std::task::{Context, Poll};

use bytes::Bytes;
use platform::Clock;
use wire::ErrorCode;

use super::throttling::Metered;
use crate::api::Started;
use crate::close_reason::CloseReason;
use crate::frame::Frame;
use crate::memory::Permit;
use crate::partition::ProduceTimings;
use crate::stats::{Stage, Stopwatch};

/// A request that is not answered yet.
pub(super) struct PendingRequest {
    pub(super) started: Started,
    pub(super) watch: Stopwatch,
    /// What it counts for, where there are quotas.
    pub(super) metered: Option<Box<Metered>>,
    /// The frame, charged as long as what was made of it is there. A Produce holds its batches itself.
    pub(super) _frame: Option<Bytes>,
    /// Permits for the answer, and for the decoded frame, if they were waited for.
    pub(super) _permits: [Option<Permit>; 2],
}

impl PendingRequest {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, clock: &dyn Clock) -> Poll<Result<Frame, CloseReason>> {
        let answer = self.started.poll(cx);
        match self.started.timings() {
            Some(timings) => {
                if let Poll::Ready(answer) = &answer {
                    let errors = answer.as_ref().map_or(&[][..], Frame::errors);
                    self.lap_produce(&timings, errors.contains(&ErrorCode::REQUEST_TIMED_OUT), clock);
                }
            }
            // The first poll of a handler takes it to its answer, or to what it waits for.
            None if !self.watch.has(Stage::Process) => self.watch.lap(Stage::Process, clock.monotonic()),
            None if answer.is_ready() => self.watch.lap(Stage::Wait, clock.monotonic()),
            None => {}
        }
        answer
    }

    fn lap_produce(&mut self, timings: &ProduceTimings, timed_out: bool, clock: &dyn Clock) {
        if timed_out {
            return self.watch.lap(Stage::Wait, clock.monotonic());
        }
        if timings.settled.is_zero() {
            // Nothing of it was appended.
            return self.watch.lap(Stage::Append, clock.monotonic());
        }
        self.watch.lap(Stage::Append, timings.appended);
        if let Some(synced) = timings.synced {
            self.watch.lap(Stage::Sync, synced);
        }
        if timings.settled > timings.synced.unwrap_or(timings.appended) {
            self.watch.lap(Stage::Replication, timings.settled);
        }
    }
}
