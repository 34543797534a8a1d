//! Acknowledgements that wait until the log has got to an offset, here or on the other in-sync replicas.
//!
//! They wait in the order of their offsets, so that a sync and a follower's fetch look only at requests that they
//! settle.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use wire::ErrorCode;

use super::role::Progress;
use super::{ProduceCompletion, ProduceOutcome, ProduceTimings, Refusal};

/// What an acknowledgement waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// This node has it on disk, whatever its role.
    Synced,
    /// All in-sync replicas have it on disk.
    Durable,
    /// All in-sync replicas have it.
    Replicated,
}

/// An append whose acknowledgement waits until the log has got to `offset`.
pub struct Waiting {
    pub offset: i64,
    pub until: Until,
    pub timings: ProduceTimings,
    pub completion: Arc<ProduceCompletion>,
    pub slot: usize,
    pub outcome: ProduceOutcome,
}

#[derive(Default)]
pub(super) struct Acknowledgements {
    /// Each in the order of the offsets.
    synced: VecDeque<Waiting>,
    durable: VecDeque<Waiting>,
    replicated: VecDeque<Waiting>,
    /// Up to this offset, requests that wait for this disk have the time of the sync.
    timed_offset: i64,
}

impl Acknowledgements {
    pub(super) fn add(&mut self, waiting: Waiting) {
        let queue = match waiting.until {
            Until::Synced => &mut self.synced,
            Until::Durable => &mut self.durable,
            Until::Replicated => &mut self.replicated,
        };
        if waiting.until != Until::Replicated {
            self.timed_offset = self.timed_offset.min(waiting.offset - 1);
        }
        let index = queue.partition_point(|other| other.offset <= waiting.offset);
        queue.insert(index, waiting);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.synced.is_empty() && self.durable.is_empty() && self.replicated.is_empty()
    }

    /// Whether any waits for what lies behind an offset.
    pub(super) fn want_more_than(&self, offset: i64) -> bool {
        let last = [&self.synced, &self.durable, &self.replicated].map(VecDeque::back);
        last.into_iter().flatten().any(|waiting| waiting.offset > offset)
    }

    /// Records when this disk had what some of them wait for.
    pub(super) fn record_synced(&mut self, synced_offset: i64, now: Duration) {
        for queue in [&mut self.synced, &mut self.durable] {
            let new = queue.partition_point(|waiting| waiting.offset <= self.timed_offset);
            let new = queue.iter_mut().skip(new).take_while(|waiting| waiting.offset <= synced_offset);
            new.for_each(|waiting| _ = waiting.timings.synced.get_or_insert(now));
        }
        self.timed_offset = self.timed_offset.max(synced_offset);
    }

    /// Takes requests that have what they waited for, or that wait for more replicas than there are.
    pub(super) fn take_settled(&mut self, progress: Option<&Progress>, synced_offset: i64) -> Vec<Waiting> {
        let mut settled = Vec::new();
        while let Some(waiting) = self.synced.pop_front_if(|waiting| waiting.offset <= synced_offset) {
            settled.push(waiting);
        }
        if let Some(progress) = progress {
            for queue in [&mut self.durable, &mut self.replicated] {
                while let Some(waiting) = queue.pop_front_if(|waiting| progress.settles(waiting).is_some()) {
                    settled.push(waiting);
                }
            }
        }
        settled
    }

    /// Takes requests that wait for other replicas.
    pub(super) fn take_of_replicas(&mut self) -> Vec<Waiting> {
        self.durable.drain(..).chain(self.replicated.drain(..)).collect()
    }

    pub(super) fn into_all(self) -> impl Iterator<Item = Waiting> {
        self.synced.into_iter().chain(self.durable).chain(self.replicated)
    }
}

impl Progress {
    /// Whether an append is acknowledged, or has to be refused because too few replicas are left in sync
    /// (`Partition.checkEnoughReplicasReachOffset`); `None` as long as neither is known.
    fn settles(&self, waiting: &Waiting) -> Option<Result<(), ErrorCode>> {
        let of = |replicated: i64, durable: i64| match waiting.until {
            Until::Replicated => replicated,
            Until::Durable | Until::Synced => durable,
        };
        if waiting.offset <= of(self.high_watermark, self.durable_offset) {
            return Some(Ok(()));
        }
        let reached = self.reached_without_enough?;
        (waiting.offset <= of(reached.log_end_offset, reached.synced_offset))
            .then_some(Err(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND))
    }
}

/// Answers settled requests.
pub(super) fn answer(settled: Vec<Waiting>, progress: Option<&Progress>, now: Duration) {
    for waiting in settled {
        let refused = match waiting.until {
            Until::Synced => None,
            _ => progress.and_then(|progress| progress.settles(&waiting)).and_then(Result::err),
        };
        let timings = ProduceTimings { settled: now, ..waiting.timings };
        waiting.completion.complete_after(timings, waiting.slot, refused.map_or(waiting.outcome, refused_appended));
    }
}

/// Refuses them.
pub(super) fn refuse(waiting: impl IntoIterator<Item = Waiting>, code: ErrorCode) {
    for waiting in waiting {
        waiting.completion.fill(waiting.slot, refused_appended(code));
    }
}

/// What waits here is in the log.
fn refused_appended(code: ErrorCode) -> ProduceOutcome {
    ProduceOutcome::Refused(Refusal { is_appended: true, ..code.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(offset: i64, until: Until) -> Waiting {
        Waiting {
            offset,
            until,
            timings: ProduceTimings::default(),
            completion: Arc::new(ProduceCompletion::new(1)),
            slot: 0,
            outcome: ProduceOutcome::from(ErrorCode::NONE),
        }
    }

    fn offsets(settled: &[Waiting]) -> Vec<(i64, Until)> {
        settled.iter().map(|waiting| (waiting.offset, waiting.until)).collect()
    }

    /// Threads that append one behind the other may come here the other way round.
    #[test]
    fn each_is_settled_when_its_offset_is_reached_in_whatever_order_they_came() {
        let mut acknowledgements = Acknowledgements::default();
        for (offset, until) in
            [(5, Until::Durable), (3, Until::Durable), (4, Until::Replicated), (9, Until::Synced), (2, Until::Synced)]
        {
            acknowledgements.add(waiting(offset, until));
        }
        assert!(acknowledgements.want_more_than(8) && !acknowledgements.want_more_than(9));
        assert_eq!(offsets(&acknowledgements.take_settled(None, 8)), [(2, Until::Synced)]);
        let mut progress = Progress::at(4, 3);
        assert_eq!(
            offsets(&acknowledgements.take_settled(Some(&progress), 8)),
            [(3, Until::Durable), (4, Until::Replicated)]
        );
        progress.durable_offset = 5;
        assert_eq!(
            offsets(&acknowledgements.take_settled(Some(&progress), 9)),
            [(9, Until::Synced), (5, Until::Durable)]
        );
        assert!(acknowledgements.is_empty());
    }

    #[test]
    fn one_that_comes_behind_its_sync_is_timed_by_the_next() {
        let mut acknowledgements = Acknowledgements::default();
        let second = Duration::from_secs;
        acknowledgements.add(waiting(5, Until::Durable));
        acknowledgements.record_synced(10, second(1));
        acknowledgements.add(waiting(4, Until::Durable));
        acknowledgements.record_synced(10, second(2));
        let timed: Vec<_> = acknowledgements.into_all().map(|waiting| waiting.timings.synced).collect();
        assert_eq!(timed, [Some(second(2)), Some(second(1))]);
    }
}
