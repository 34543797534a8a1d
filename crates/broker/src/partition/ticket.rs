//! The ticket of a Produce request: one place for each of its partitions, answered when all of them are filled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use wire::ErrorCode;

/// What became of the batches for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Appended {
        base_offset: i64,
        /// Milliseconds since 1970, or -1 unless the topic has `message.timestamp.type=LogAppendTime`.
        log_append_time_ms: i64,
        log_start_offset: i64,
    },
    Refused(Refusal),
}

/// Why batches were not appended, as the client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: ErrorCode,
    pub message: Option<String>,
    /// Index in the batch, and what is wrong with the record (KIP-467).
    pub records: Vec<(i32, String)>,
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: None, records: Vec::new() }
    }
}

impl From<ErrorCode> for Outcome {
    fn from(code: ErrorCode) -> Self {
        Self::Refused(code.into())
    }
}

/// When a batch got how far, on the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    pub appended: Duration,
    /// On this node's disk; `None` if nobody waited for that.
    pub synced: Option<Duration>,
    /// Acknowledged.
    pub settled: Duration,
}

impl Passed {
    /// One that is acknowledged as soon as it is appended.
    pub fn appended(at: Duration) -> Self {
        Self { appended: at, synced: None, settled: at }
    }

    /// The later of both in each.
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
pub struct Ticket {
    state: Mutex<State>,
    has_expired: AtomicBool,
}

#[derive(Debug)]
struct State {
    open: usize,
    outcomes: Vec<Option<Outcome>>,
    /// Of the last place in each respect.
    passed: Passed,
    waker: Option<Waker>,
}

impl Ticket {
    pub fn new(places: usize) -> Self {
        let outcomes = vec![None; places];
        let state = State { open: places, outcomes, passed: Passed::default(), waker: None };
        Self { state: Mutex::new(state), has_expired: AtomicBool::new(false) }
    }

    /// Fills a place. The first outcome stays: an append that finishes after its timeout changes nothing, whether that
    /// was answered already or not.
    pub fn fill(&self, place: usize, outcome: Outcome) {
        self.fill_after(Passed::default(), place, outcome);
    }

    /// The same, and tells when the batch got there.
    pub fn fill_after(&self, passed: Passed, place: usize, outcome: Outcome) {
        let mut state = self.state.lock();
        if let Some(open @ None) = state.outcomes.get_mut(place) {
            *open = Some(outcome);
            state.passed = state.passed.latest(passed);
            state.open -= 1;
            if state.open == 0
                && let Some(waker) = state.waker.take()
            {
                drop(state);
                waker.wake();
            }
        }
    }

    /// Fills all places that are still open. Batches whose append has not begun are not appended any more.
    pub fn fill_open(&self, code: ErrorCode) {
        self.has_expired.store(true, Ordering::Release);
        let mut state = self.state.lock();
        for outcome in state.outcomes.iter_mut().filter(|outcome| outcome.is_none()) {
            *outcome = Some(code.into());
        }
        state.open = 0;
    }

    /// Whether nobody waits any more for what is still open.
    pub fn has_expired(&self) -> bool {
        self.has_expired.load(Ordering::Acquire)
    }

    /// When the last batch got how far; zero where none did.
    pub fn passed(&self) -> Passed {
        self.state.lock().passed
    }

    /// All outcomes, in the order of the places, once every place is filled.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<Vec<Outcome>> {
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

    fn poll(ticket: &Ticket) -> Poll<Vec<Outcome>> {
        ticket.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn answers_when_every_place_is_filled_in_order_of_places() {
        let ticket = Ticket::new(2);
        ticket.fill(1, ErrorCode::NOT_LEADER_OR_FOLLOWER.into());
        assert_eq!(poll(&ticket), Poll::Pending);
        ticket.fill(0, ErrorCode::KAFKA_STORAGE_ERROR.into());
        let outcomes = vec![ErrorCode::KAFKA_STORAGE_ERROR.into(), ErrorCode::NOT_LEADER_OR_FOLLOWER.into()];
        assert_eq!(poll(&ticket), Poll::Ready(outcomes));
    }

    #[test]
    fn tells_when_the_last_batch_got_how_far() {
        let ticket = Ticket::new(3);
        let ms = Duration::from_millis;
        ticket.fill_after(Passed { appended: ms(1), synced: Some(ms(9)), settled: ms(10) }, 0, ErrorCode::NONE.into());
        ticket.fill_after(Passed::appended(ms(5)), 1, ErrorCode::NONE.into());
        ticket.fill(2, ErrorCode::KAFKA_STORAGE_ERROR.into());
        assert_eq!(ticket.passed(), Passed { appended: ms(5), synced: Some(ms(9)), settled: ms(10) });
    }

    #[test]
    fn keeps_the_timeout_when_the_append_finishes_later() {
        let ticket = Ticket::new(1);
        ticket.fill_open(ErrorCode::REQUEST_TIMED_OUT);
        let late = Outcome::Appended { base_offset: 1, log_append_time_ms: -1, log_start_offset: 0 };
        ticket.fill(0, late.clone());
        assert_eq!(poll(&ticket), Poll::Ready(vec![ErrorCode::REQUEST_TIMED_OUT.into()]));
        // Nobody asks for the answer any more.
        ticket.fill(0, late);
    }
}
