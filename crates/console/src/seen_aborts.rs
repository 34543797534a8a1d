//! Transactions that were aborted, as far as looks at the cluster show it: nobody keeps a list of them.

use std::collections::{BTreeMap, VecDeque};

use crate::snapshot::{Snapshot, Transaction};

/// Aborts of transactional ids that have gone on since then. The oldest give way.
const PAST_MAX: usize = 1000;

/// A transactional id whose last transaction was, or is being, aborted.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct SeenAbort {
    pub transactional_id: String,
    pub producer_id: i64,
    /// Where the coordinator was asked for it.
    pub producer_epoch: Option<i16>,
    /// `PrepareAbort` or `CompleteAbort`, as it was seen last.
    pub state: String,
    /// When the transaction began, where it was seen while it was open.
    pub started_ms: Option<i64>,
    /// The look before it was seen; `None` where it was aborted before the first look.
    pub after_ms: Option<i64>,
    pub first_seen_ms: i64,
    pub last_seen_ms: i64,
}

#[derive(Default)]
pub(crate) struct SeenAborts {
    /// Since when it is looked.
    began_ms: Option<i64>,
    /// By transactional id: those that have gone on to nothing else yet.
    last: BTreeMap<String, SeenAbort>,
    /// The newest last.
    past: VecDeque<SeenAbort>,
}

fn is_aborted(known: &Transaction) -> bool {
    matches!(known.state.as_str(), "PrepareAbort" | "CompleteAbort")
}

fn epoch(known: &Transaction) -> Option<i16> {
    known.described.as_ref().map(|described| described.producer_epoch)
}

impl SeenAborts {
    /// Remembers what a look shows, and when the one before it was.
    pub(crate) fn note(&mut self, before: Option<&Snapshot>, after: &Snapshot) {
        self.began_ms.get_or_insert(after.at_ms);
        let mut now = BTreeMap::new();
        for (id, known) in after.transactions.ids.iter().filter(|(_, known)| is_aborted(known)) {
            let was = before.and_then(|before| before.transactions.ids.get(id));
            let mut seen = match self.last.remove(id) {
                Some(seen) if seen.is_same(known) => seen,
                other => {
                    other.into_iter().for_each(|other| self.keep(other));
                    SeenAbort::new(id, before.map(|before| before.at_ms), was, after.at_ms)
                }
            };
            seen.producer_id = known.producer_id;
            seen.producer_epoch = epoch(known).or(seen.producer_epoch);
            seen.state.clone_from(&known.state);
            seen.last_seen_ms = after.at_ms;
            now.insert(id.clone(), seen);
        }
        for (id, seen) in std::mem::replace(&mut self.last, now) {
            // Who is not told of by a broker that does not answer has not gone on.
            match after.transactions.ids.contains_key(&id) || after.transactions.is_complete {
                true => self.keep(seen),
                false => {
                    self.last.insert(id, seen);
                }
            }
        }
    }

    fn keep(&mut self, seen: SeenAbort) {
        if self.past.len() == PAST_MAX {
            self.past.pop_front();
        }
        self.past.push_back(seen);
    }

    /// Since when it is looked, and what was seen, the newest first.
    pub(crate) fn all(&self) -> (Option<i64>, Vec<SeenAbort>) {
        let mut all: Vec<_> = self.last.values().chain(&self.past).cloned().collect();
        all.sort_by_key(|seen| std::cmp::Reverse((seen.after_ms, seen.first_seen_ms)));
        (self.began_ms, all)
    }
}

impl SeenAbort {
    fn new(id: &str, after_ms: Option<i64>, was: Option<&Transaction>, at_ms: i64) -> Self {
        let while_open = was.filter(|was| was.is_open()).and_then(|was| was.described.as_ref());
        Self {
            transactional_id: id.to_owned(),
            producer_id: -1,
            producer_epoch: None,
            state: String::new(),
            started_ms: while_open.and_then(|described| described.start_ms),
            after_ms,
            first_seen_ms: at_ms,
            last_seen_ms: at_ms,
        }
    }

    /// Whether this is still the abort that was seen. A coordinator may raise the epoch between both of its states.
    fn is_same(&self, known: &Transaction) -> bool {
        let goes_on = self.state == "PrepareAbort";
        let is_same_session = self.producer_id == known.producer_id
            && (self.producer_epoch.is_none() || epoch(known).is_none() || self.producer_epoch == epoch(known));
        goes_on || known.state == "CompleteAbort" && is_same_session
    }
}

#[cfg(test)]
mod tests {
    use client::{Broker, TransactionDescription};

    use super::*;

    fn look(at_ms: i64, state: &str, epoch: i16, start_ms: Option<i64>) -> Snapshot {
        let described = TransactionDescription {
            coordinator: Broker { id: 1, host: "kafka".to_owned(), port: 9092, rack: None },
            producer_id: 4000,
            producer_epoch: epoch,
            state: state.to_owned(),
            timeout_ms: 60_000,
            start_ms,
            partitions: Vec::new(),
        };
        let known =
            Transaction { state: state.to_owned(), producer_id: 4000, coordinator: 1, described: Some(described) };
        let mut snapshot = Snapshot { at_ms, ..Snapshot::empty() };
        snapshot.transactions.is_complete = true;
        snapshot.transactions.ids.insert("t".to_owned(), known);
        snapshot
    }

    /// The look before, the first and the last with it, its state, and when it began.
    type Told = (Option<i64>, i64, i64, String, Option<i64>);

    fn seen(looks: &[Snapshot]) -> Vec<Told> {
        let mut seen = SeenAborts::default();
        let mut before = None;
        for look in looks {
            seen.note(before, look);
            before = Some(look);
        }
        let told = |of: SeenAbort| (of.after_ms, of.first_seen_ms, of.last_seen_ms, of.state, of.started_ms);
        seen.all().1.into_iter().map(told).collect()
    }

    #[test]
    fn an_abort_is_seen_between_two_looks_and_once() {
        let looks = [
            look(10, "Ongoing", 3, Some(7)),
            look(20, "PrepareAbort", 3, Some(7)),
            look(30, "CompleteAbort", 4, None),
            look(40, "CompleteAbort", 4, None),
            look(50, "Ongoing", 4, Some(45)),
            look(60, "CompleteCommit", 4, None),
        ];
        assert_eq!(seen(&looks), [(Some(10), 20, 40, "CompleteAbort".to_owned(), Some(7))]);
    }

    #[test]
    fn another_epoch_in_the_same_state_is_another_abort() {
        let looks = [look(10, "CompleteAbort", 3, None), look(20, "CompleteAbort", 4, None)];
        let state = || "CompleteAbort".to_owned();
        assert_eq!(seen(&looks), [(Some(10), 20, 20, state(), None), (None, 10, 10, state(), None)]);
    }

    #[test]
    fn an_id_that_a_silent_coordinator_does_not_tell_of_is_no_new_abort_afterwards() {
        let silent = Snapshot { at_ms: 20, ..Snapshot::empty() };
        let looks = [look(10, "CompleteAbort", 3, None), silent, look(30, "CompleteAbort", 3, None)];
        assert_eq!(seen(&looks), [(None, 10, 30, "CompleteAbort".to_owned(), None)]);
    }
}
