//! The completion of a Produce request: one slot for each of its partitions, answered when all of them are filled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use wire::ErrorCode;

/// What became of the batches for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProduceOutcome {
    Appended {
        base_offset: i64,
        /// Milliseconds since 1970, or -1 unless the topic has `message.timestamp.type=LogAppendTime`.
        log_append_time_ms: i64,
        log_start_offset: i64,
        /// Nothing was known here of the producer.
        is_of_new_producer: bool,
    },
    Refused(Refusal),
}

/// Why batches were not appended, for the response, or are not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: ErrorCode,
    pub message: Option<String>,
    /// Index in the batch, and what is wrong with the record (KIP-467).
    pub records: Vec<(i32, String)>,
    /// They are in the log, and may stay there: other replicas or the disk did not get there.
    pub is_appended: bool,
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: None, records: Vec::new(), is_appended: false }
    }
}

impl From<ErrorCode> for ProduceOutcome {
    fn from(code: ErrorCode) -> Self {
        Self::Refused(code.into())
    }
}

/// The times of a batch's stages, on the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProduceTimings {
    pub appended: Duration,
    /// On this node's disk; `None` if no request waited for that.
    pub synced: Option<Duration>,
    /// Acknowledged.
    pub settled: Duration,
}

impl ProduceTimings {
    /// A batch that is acknowledged as soon as it is appended.
    pub fn appended(at: Duration) -> Self {
        Self { appended: at, synced: None, settled: at }
    }

    /// The later time of both in each stage.
    fn latest(self, other: Self) -> Self {
        Self {
            appended: self.appended.max(other.appended),
            synced: self.synced.max(other.synced),
            settled: self.settled.max(other.settled),
        }
    }
}

/// Shared by the connection that waits and by the partitions that fill it.
#[derive(Debug)]
pub struct ProduceCompletion {
    state: Mutex<State>,
    has_expired: AtomicBool,
}

#[derive(Debug)]
struct State {
    open: usize,
    outcomes: Vec<Option<ProduceOutcome>>,
    /// The latest time of each stage over all slots.
    timings: ProduceTimings,
    is_of_new_producer: bool,
    waker: Option<Waker>,
}

impl ProduceCompletion {
    pub fn new(slots: usize) -> Self {
        let outcomes = vec![None; slots];
        let state =
            State { open: slots, outcomes, timings: ProduceTimings::default(), is_of_new_producer: false, waker: None };
        Self { state: Mutex::new(state), has_expired: AtomicBool::new(false) }
    }

    /// Fills a slot. The first outcome stays: an append that finishes after its timeout changes nothing, whether that
    /// was answered already or not.
    pub fn fill(&self, slot: usize, outcome: ProduceOutcome) {
        self.complete_after(ProduceTimings::default(), slot, outcome);
    }

    /// The same, and sets the times of the batch's stages.
    pub fn complete_after(&self, timings: ProduceTimings, slot: usize, outcome: ProduceOutcome) {
        let mut state = self.state.lock();
        if let Some(open @ None) = state.outcomes.get_mut(slot) {
            let is_of_new_producer = matches!(outcome, ProduceOutcome::Appended { is_of_new_producer: true, .. });
            *open = Some(outcome);
            state.is_of_new_producer |= is_of_new_producer;
            state.timings = state.timings.latest(timings);
            state.open -= 1;
            if state.open == 0
                && let Some(waker) = state.waker.take()
            {
                drop(state);
                waker.wake();
            }
        }
    }

    /// Fills all slots that are still open. Batches whose append has not begun are not appended any more.
    pub fn fill_open(&self, code: ErrorCode) {
        self.has_expired.store(true, Ordering::Release);
        let mut state = self.state.lock();
        for outcome in state.outcomes.iter_mut().filter(|outcome| outcome.is_none()) {
            *outcome = Some(code.into());
        }
        state.open = 0;
    }

    /// Whether the open slots need not be waited for any more.
    pub fn has_expired(&self) -> bool {
        self.has_expired.load(Ordering::Acquire)
    }

    /// The latest time of each stage; zero for a stage that no batch reached.
    pub fn timings(&self) -> ProduceTimings {
        self.state.lock().timings
    }

    /// Whether there was a partition that did not know the producer.
    pub fn is_of_new_producer(&self) -> bool {
        self.state.lock().is_of_new_producer
    }

    /// All outcomes, in the order of the slots, once every slot is filled.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<Vec<ProduceOutcome>> {
        let mut state = self.state.lock();
        if state.open > 0 {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(state.outcomes.drain(..).flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(completion: &ProduceCompletion) -> Poll<Vec<ProduceOutcome>> {
        completion.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn answers_when_every_slot_is_filled_in_order_of_slots() {
        let completion = ProduceCompletion::new(2);
        completion.fill(1, ErrorCode::NOT_LEADER_OR_FOLLOWER.into());
        assert_eq!(poll(&completion), Poll::Pending);
        completion.fill(0, ErrorCode::KAFKA_STORAGE_ERROR.into());
        let outcomes = vec![ErrorCode::KAFKA_STORAGE_ERROR.into(), ErrorCode::NOT_LEADER_OR_FOLLOWER.into()];
        assert_eq!(poll(&completion), Poll::Ready(outcomes));
    }

    #[test]
    fn tells_when_the_last_batch_got_how_far() {
        let completion = ProduceCompletion::new(3);
        let ms = Duration::from_millis;
        completion.complete_after(
            ProduceTimings { appended: ms(1), synced: Some(ms(9)), settled: ms(10) },
            0,
            ErrorCode::NONE.into(),
        );
        completion.complete_after(ProduceTimings::appended(ms(5)), 1, ErrorCode::NONE.into());
        completion.fill(2, ErrorCode::KAFKA_STORAGE_ERROR.into());
        assert_eq!(completion.timings(), ProduceTimings { appended: ms(5), synced: Some(ms(9)), settled: ms(10) });
    }

    #[test]
    fn keeps_the_timeout_when_the_append_finishes_later() {
        let completion = ProduceCompletion::new(1);
        completion.fill_open(ErrorCode::REQUEST_TIMED_OUT);
        let late = ProduceOutcome::Appended {
            base_offset: 1,
            log_append_time_ms: -1,
            log_start_offset: 0,
            is_of_new_producer: false,
        };
        completion.fill(0, late.clone());
        assert_eq!(poll(&completion), Poll::Ready(vec![ErrorCode::REQUEST_TIMED_OUT.into()]));
        // The connection has dropped the answer.
        completion.fill(0, late);
    }
}
