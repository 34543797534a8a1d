//! The decisions of a coordinator, counted for metrics.

use platform::Count;

use super::core::State;

/// How many transactions were decided since the start of the broker.
#[derive(Debug, Default)]
pub struct Decisions {
    pub committed: Count,
    /// By its producer, by the next one with its id, by an administrator, or since it was open for too long.
    pub aborted: Count,
}

impl Decisions {
    /// A decision is durable.
    pub(super) fn add(&self, state: State) {
        match state {
            State::PrepareCommit => self.committed.add(1),
            State::PrepareAbort => self.aborted.add(1),
            _ => {}
        }
    }
}
