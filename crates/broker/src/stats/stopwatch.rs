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

/// Measures the stages of a request, without a gap between them.
#[derive(Clone, Debug)]
pub struct Stopwatch {
    /// Of its API in [`wire::api::TABLE`].
    pub(super) row: usize,
    began: Duration,
    lapped: Duration,
    stages: [Option<Duration>; Stage::ALL.len()],
}

impl Stopwatch {
    /// Begins when the request has arrived.
    pub fn new(row: usize, arrived: Duration) -> Self {
        Self { row, began: arrived, lapped: arrived, stages: Default::default() }
    }

    /// Ends a stage: the time since the last one ended was spent in it.
    pub fn lap(&mut self, stage: Stage, now: Duration) {
        let took = now.saturating_sub(self.lapped);
        self.lapped = self.lapped.max(now);
        *self.stages[stage as usize].get_or_insert_default() += took;
    }

    pub fn has(&self, stage: Stage) -> bool {
        self.stages[stage as usize].is_some()
    }

    pub(super) fn total(&self) -> Duration {
        self.lapped - self.began
    }

    /// What was spent in each stage that there was.
    pub(super) fn stages(&self) -> impl Iterator<Item = (Stage, Duration)> {
        Stage::ALL.into_iter().zip(self.stages).filter_map(|(stage, took)| Some((stage, took?)))
    }
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
        let stages: Vec<_> = watch.stages().collect();
        let expected = [(Stage::Queue, ms(1)), (Stage::Append, ms(10)), (Stage::Sync, ms(0)), (Stage::Response, ms(9))];
        assert_eq!(stages, expected);
        assert_eq!(watch.total(), ms(20));
        assert_eq!(stages.iter().map(|(_, took)| *took).sum::<Duration>(), watch.total());
    }
}
