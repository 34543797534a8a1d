//! Where the time of one request went.

use std::time::Duration;

/// A part of a request's time. They follow one another; which of them a request has depends on its API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From its last byte until it is started: requests before it on the connection were not answered yet.
    Queue,
    /// Its handler works, until it is done or waits for the first time.
    Process,
    /// The handler waits: for records to fetch, for members of a group, for the controller. A Produce that ran out of
    /// time has spent it here.
    Wait,
    /// Of Produce: batches are checked and appended.
    Append,
    /// Of Produce with acks=all: until this node has them on disk.
    Sync,
    /// Of Produce with acks=all: until the other replicas in sync have them.
    Replication,
    /// From the answer until the socket has taken it: answers leave in the order of their requests.
    Response,
}

impl Stage {
    pub const ALL: [Self; 7] =
        [Self::Queue, Self::Process, Self::Wait, Self::Append, Self::Sync, Self::Replication, Self::Response];

    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Process => "process",
            Self::Wait => "wait",
            Self::Append => "append",
            Self::Sync => "sync",
            Self::Replication => "replication",
            Self::Response => "response",
        }
    }
}

/// Measures the stages of a request, without a gap between them. Requests that came, were appended and left together
/// have equal ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopwatch {
    /// Of its API in [`wire::api::TABLE`].
    pub(super) row: usize,
    /// Which stages there were, a bit for each.
    entered: u8,
    began_ns: u64,
    lapped_ns: u64,
    stages_ns: [u64; Stage::ALL.len()],
}

impl Stopwatch {
    /// Begins when the request has arrived.
    pub fn new(row: usize, arrived: Duration) -> Self {
        let began_ns = nanoseconds(arrived);
        Self { row, entered: 0, began_ns, lapped_ns: began_ns, stages_ns: Default::default() }
    }

    /// Ends a stage: the time since the last one ended was spent in it.
    pub fn lap(&mut self, stage: Stage, now: Duration) {
        let now_ns = nanoseconds(now).max(self.lapped_ns);
        self.stages_ns[stage as usize] += now_ns - self.lapped_ns;
        self.entered |= 1 << stage as u8;
        self.lapped_ns = now_ns;
    }

    pub fn has(&self, stage: Stage) -> bool {
        self.entered & 1 << stage as u8 != 0
    }

    /// For how long this broker was busy with it.
    pub fn busy(&self) -> Duration {
        let busy = [Stage::Process, Stage::Append].map(|stage| self.stages_ns[stage as usize]);
        Duration::from_nanos(busy.iter().sum())
    }

    pub(super) fn total_ns(&self) -> u64 {
        self.lapped_ns - self.began_ns
    }

    /// What was spent in each stage that there was.
    pub(super) fn stages_ns(&self) -> impl Iterator<Item = (Stage, u64)> {
        Stage::ALL.into_iter().zip(self.stages_ns).filter(|(stage, _)| self.has(*stage))
    }
}

/// Enough for centuries on the monotonic clock.
fn nanoseconds(at: Duration) -> u64 {
    at.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(at.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_add_up_whatever_the_order_of_their_ends() {
        let ms = Duration::from_millis;
        let mut watch = Stopwatch::new(0, ms(10));
        // A sync that ended before the last append did, and a stage in two parts.
        let laps =
            [(Stage::Queue, 11), (Stage::Append, 20), (Stage::Sync, 15), (Stage::Append, 21), (Stage::Response, 30)];
        for (stage, at_ms) in laps {
            watch.lap(stage, ms(at_ms));
        }
        const MS: u64 = 1_000_000;
        let stages: Vec<_> = watch.stages_ns().collect();
        let expected = [(Stage::Queue, MS), (Stage::Append, 10 * MS), (Stage::Sync, 0), (Stage::Response, 9 * MS)];
        assert_eq!(stages, expected);
        assert_eq!(watch.total_ns(), 20 * MS);
        assert_eq!(stages.iter().map(|(_, took_ns)| *took_ns).sum::<u64>(), watch.total_ns());
        assert_eq!(watch.busy(), ms(10), "what waited is not busy");
    }
}
