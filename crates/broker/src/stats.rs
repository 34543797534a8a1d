//! What the broker counts while it works.
//!
//! A caller holds its counter: counting is an addition to an atomic, without a look-up, a lock or an allocation. What
//! can be computed at a request, such as the size of a log, is not counted: the exposition reads it.

mod disk;
mod histogram;
mod journal;
mod requests;
mod stopwatch;
mod traffic;

pub use disk::{DiskSpace, Space};
pub use histogram::Histogram;
pub use journal::{DIRECT_REASONS, JournalCounts};
use platform::Count;
pub use requests::Requests;
pub use stopwatch::{Stage, Stopwatch};
pub use traffic::Traffic;

use crate::close_reason::{CloseReason, Limit};

/// What all parts of a broker count together. What belongs to a topic is its [`Traffic`].
#[derive(Default)]
pub struct Stats {
    pub requests: Requests,
    pub connections: Connections,
    /// Appends of whatever gathered for a partition; each is one write.
    pub appends: Histogram,
    pub syncs: Histogram,
    pub journal: JournalCounts,
    pub isr_shrinks: Count,
    pub isr_expansions: Count,
    pub disk: DiskSpace,
}

/// What became of connections.
#[derive(Default)]
pub struct Connections {
    pub accepted: Count,
    pub refused: [Count; Limit::ALL.len()],
    pub closed: [Count; CloseReason::NAMES.len()],
    pub received_bytes: Count,
    pub sent_bytes: Count,
}

impl Connections {
    /// Open connections: accepted and not closed.
    pub fn open(&self) -> u64 {
        // Closed ones are read first, so that a connection that comes and goes in between is not missing.
        let closed: u64 = self.closed.iter().map(Count::get).sum();
        self.accepted.get().saturating_sub(closed)
    }
}
