//! Rebalances in words: what their causes mean, and which groups rebalance all the time.

use std::collections::BTreeMap;

use crate::snapshot::Snapshot;

/// What is often is counted over this time.
const WINDOW_MS: i64 = 10 * 60 * 1000;
/// More of them than this are too many.
const OFTEN: usize = 10;

/// A group that rebalances all the time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unrest<'a> {
    pub group: &'a str,
    /// In the last ten minutes.
    pub times: usize,
    /// The most frequent cause.
    pub cause: &'a str,
}

/// A cause in words, of the names that `parshall_group_rebalances` has.
pub(crate) fn cause_text(cause: &str) -> &str {
    match cause {
        "member_joined" => "a member joined",
        "member_rejoined" => "a member joined again: it leads the group, or its topics or assignors have changed",
        "member_left" => "a member left",
        "session_expired" => "a member sent no heartbeat for its whole session timeout",
        "sync_expired" => "a member did not ask for its assignment in time",
        "static_member_replaced" => "another process took the place of a static member",
        "assignment_not_stored" => "the assignment could not be stored",
        "too_many_members" => "the group had more members than group.max.size allows",
        other => other,
    }
}

/// What to do where this happens all the time.
pub(crate) fn advice(cause: &str) -> &'static str {
    match cause {
        "member_joined" | "member_left" => {
            "Consumers come and go. Look in their logs for restarts, and for polls that took longer than \
             max.poll.interval.ms: fewer records per poll (max.poll.records) help. With a group.instance.id of its own \
             a consumer may restart without a rebalance."
        }
        "member_rejoined" => {
            "Look whether the topics that a pattern matches change all the time, or their partitions, and whether all \
             members are configured with the same topics and assignors."
        }
        "session_expired" | "sync_expired" => {
            "Members are silent for too long: look for long pauses (garbage collection, a machine without free \
             processors, a network that fails), or give them a longer session.timeout.ms."
        }
        "static_member_replaced" => "Look whether two consumers are configured with the same group.instance.id.",
        "assignment_not_stored" => "Look at the partitions of __consumer_offsets: their replicas have to be in sync.",
        _ => "Look in the logs of its members.",
    }
}

/// The groups that rebalance all the time, the worst first.
pub(crate) fn unrest(snapshot: &Snapshot) -> Vec<Unrest<'_>> {
    let mut causes = BTreeMap::<&str, BTreeMap<&str, usize>>::new();
    for rebalance in snapshot.rebalances.iter().filter(|of| of.began_ms >= snapshot.at_ms - WINDOW_MS) {
        *causes.entry(&rebalance.group).or_default().entry(&rebalance.cause).or_default() += 1;
    }
    let groups = causes.into_iter().filter_map(|(group, causes)| {
        // Who was put out joins again: of two that are equally frequent that is the effect of the other.
        let (cause, _) = causes.iter().max_by_key(|(cause, times)| (**times, **cause != "member_joined"))?;
        Some(Unrest { group, times: causes.values().sum(), cause })
    });
    let mut often: Vec<_> = groups.filter(|group| group.times > OFTEN).collect();
    often.sort_by_key(|group| std::cmp::Reverse(group.times));
    often
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded_broker::Rebalance;

    fn rebalance(group: &str, began_ms: i64, cause: &str) -> Rebalance {
        Rebalance {
            group: group.to_owned(),
            began_ms,
            generation: 1,
            cause: cause.to_owned(),
            member_id: None,
            client_id: None,
            members: 1,
            took_ms: Some(3),
        }
    }

    #[test]
    fn groups_that_rebalance_all_the_time_are_told_with_the_cause() {
        let mut snapshot = Snapshot { at_ms: WINDOW_MS + 1000, ..Snapshot::empty() };
        let causes = ["session_expired", "member_joined"].into_iter().cycle();
        snapshot.rebalances = causes.take(12).map(|cause| rebalance("restless", 2000, cause)).collect();
        // As many, but some are long ago.
        snapshot.rebalances.extend((0..12).map(|at| rebalance("calm", 998 + at, "member_left")));
        let found = unrest(&snapshot);
        assert_eq!(found, [Unrest { group: "restless", times: 12, cause: "session_expired" }]);
    }
}
