//! The rebalances that a coordinator has seen lately, of all its groups. Pure: the caller passes the time.
//!
//! It is a ring, bounded in number and in memory, and begins empty with each start of the broker.

use std::collections::VecDeque;

use wire::api::describe_node::Rebalance;

use super::Now;
use super::core::Trigger;

const REBALANCES_MAX: usize = 1_000;
/// Of all ids together. Clients choose them, and may choose long ones.
const ID_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct History {
    /// The oldest first.
    entries: VecDeque<Entry>,
    id_bytes: usize,
}

#[derive(Debug)]
struct Entry {
    began_monotonic_ms: i64,
    rebalance: Rebalance,
}

impl Entry {
    fn id_bytes(&self) -> usize {
        let Rebalance { group_id, member_id, client_id, .. } = &self.rebalance;
        group_id.len() + member_id.len() + client_id.len()
    }
}

/// The generation of a group, and how many members it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generation {
    pub(super) id: i32,
    pub(super) members: usize,
}

impl Generation {
    fn members(self) -> i32 {
        i32::try_from(self.members).unwrap_or(i32::MAX)
    }
}

impl History {
    /// A rebalance has begun.
    pub(super) fn begin(&mut self, now: Now, group_id: &str, generation: Generation, trigger: &Trigger) {
        let rebalance = Rebalance {
            began_ms: now.wall_ms,
            group_id: group_id.to_owned(),
            generation: generation.id,
            members: generation.members(),
            cause: trigger.cause.name().to_owned(),
            member_id: trigger.member_id.clone(),
            client_id: trigger.client_id.clone(),
            duration_ms: -1,
        };
        let entry = Entry { began_monotonic_ms: now.monotonic_ms, rebalance };
        self.id_bytes += entry.id_bytes();
        self.entries.push_back(entry);
        while self.entries.len() > REBALANCES_MAX || self.id_bytes > ID_BYTES_MAX {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.id_bytes -= oldest.id_bytes();
        }
    }

    /// The last one of a group has come to its end.
    pub(super) fn end(&mut self, now: Now, group_id: &str, generation: Generation) {
        let last = self.entries.iter_mut().rev().find(|entry| entry.rebalance.group_id == group_id);
        if let Some(Entry { began_monotonic_ms, rebalance }) = last.filter(|entry| entry.rebalance.duration_ms < 0) {
            rebalance.generation = generation.id;
            rebalance.members = generation.members();
            rebalance.duration_ms = now.monotonic_ms - *began_monotonic_ms;
        }
    }

    pub(super) fn newest_first(&self) -> Vec<Rebalance> {
        self.entries.iter().rev().map(|entry| entry.rebalance.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::RebalanceCause;

    fn at(monotonic_ms: i64) -> Now {
        Now { monotonic_ms, wall_ms: monotonic_ms + 1_000_000 }
    }

    fn trigger(client_id: &str) -> Trigger {
        let (cause, member_id) = (RebalanceCause::MemberLeft, "m".to_owned());
        Trigger { cause, member_id, client_id: client_id.to_owned() }
    }

    fn generation(id: i32, members: usize) -> Generation {
        Generation { id, members }
    }

    #[test]
    fn a_rebalance_has_its_outcome_when_it_is_over() {
        let mut history = History::default();
        history.begin(at(10), "g", generation(3, 2), &trigger("c"));
        history.begin(at(20), "h", generation(7, 9), &trigger("d"));
        history.end(at(35), "g", generation(4, 1));
        // Of a rebalance that another interrupts, only the other has an end.
        history.begin(at(40), "h", generation(8, 9), &trigger("d"));
        history.end(at(42), "h", generation(9, 8));
        history.end(at(50), "h", generation(0, 0));
        history.end(at(50), "nobody", generation(0, 0));
        let rebalances = history.newest_first();
        let brief = |r: &Rebalance| (r.began_ms - 1_000_000, r.generation, r.members, r.duration_ms);
        assert_eq!(rebalances.iter().map(brief).collect::<Vec<_>>(), [(40, 9, 8, 2), (20, 7, 9, -1), (10, 4, 1, 25)]);
        let first = &rebalances[2];
        assert_eq!((first.group_id.as_str(), first.cause.as_str()), ("g", "member_left"));
        assert_eq!((first.member_id.as_str(), first.client_id.as_str()), ("m", "c"));
    }

    #[test]
    fn the_oldest_give_way() {
        let mut history = History::default();
        for n in 0..1_500 {
            history.begin(at(n), "g", generation(1, 1), &trigger("c"));
        }
        let rebalances = history.newest_first();
        assert_eq!((rebalances.len(), rebalances[0].began_ms, rebalances[999].began_ms), (1_000, 1_001_499, 1_000_500));

        let long = "c".repeat(30_000);
        for n in 0..100 {
            history.begin(at(n), "g", generation(1, 1), &trigger(&long));
        }
        let bytes: usize = history.newest_first().iter().map(|r| r.client_id.len() + 2).sum();
        assert!((900_000..=ID_BYTES_MAX).contains(&bytes) && history.id_bytes == bytes, "{bytes}");
    }
}
