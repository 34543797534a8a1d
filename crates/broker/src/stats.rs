//! What the broker counts while it works.
//!
//! Whoever counts holds what it counts with: an addition to an atomic, without a look-up, a lock or memory. What can be
//! found out when somebody asks, such as the size of a log, is not counted: the exposition looks at it.

mod disk;
mod histogram;
mod requests;
mod stopwatch;
mod traffic;

pub use disk::{DiskSpace, Space};
pub use histogram::Histogram;
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
    /// Connections that are open: those that were accepted and not closed.
    pub fn open(&self) -> u64 {
        // Those that were closed first, so that one which comes and goes in between is not missing.
        let closed: u64 = self.closed.iter().map(Count::get).sum();
        self.accepted.get().saturating_sub(closed)
    }
}
