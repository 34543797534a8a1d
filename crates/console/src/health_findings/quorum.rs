//! A quorum without a leader, and voters that are late.

use client::VoterHealth;

use super::{Finding, Severity};
use crate::snapshot::Snapshot;

pub(super) fn find(snapshot: &Snapshot) -> Vec<Finding> {
    let Some(quorum) = &snapshot.quorum else { return Vec::new() };
    if quorum.leader_id.is_none() {
        return vec![Finding::new(
            Severity::Bad,
            "The metadata quorum has no leader: nothing can be created, changed or elected.".to_owned(),
            "Most of its voters have to run and to reach each other.",
            "/quorum",
        )];
    }
    // A broker that is down is a finding of its own.
    let is_down = |id| snapshot.brokers.get(&id).is_some_and(|broker| !broker.is_alive);
    let late = quorum.voters.iter().filter(|voter| !is_down(voter.replica_id));
    let late = late.filter_map(|voter| match quorum.health(voter) {
        VoterHealth::Healthy => None,
        VoterHealth::Behind { .. } => Some((voter.replica_id, "behind")),
        VoterHealth::Silent { .. } => Some((voter.replica_id, "silent")),
    });
    let finding = |(id, state)| {
        let what = format!("Voter {id} of the metadata quorum is {state}.");
        Finding::new(Severity::Warn, what, "Look at its process, its disk and its network.", "/quorum")
    };
    late.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use client::{Quorum, QuorumReplica};

    use super::*;
    use crate::snapshot::Broker;

    #[test]
    fn a_late_voter_is_a_finding_unless_its_broker_is_down() {
        let voter = |replica_id, fetched_ms| QuorumReplica {
            replica_id,
            last_fetch_timestamp_ms: Some(fetched_ms),
            last_caught_up_timestamp_ms: Some(fetched_ms),
            ..QuorumReplica::default()
        };
        let voters = vec![voter(1, 10_000), voter(2, 9_900), voter(3, 1_000)];
        let mut snapshot =
            Snapshot { quorum: Some(Quorum { leader_id: Some(1), voters, ..Quorum::default() }), ..Snapshot::empty() };
        let texts = |snapshot: &Snapshot| find(snapshot).into_iter().map(|finding| finding.what).collect::<Vec<_>>();
        assert_eq!(texts(&snapshot), ["Voter 3 of the metadata quorum is silent."]);
        snapshot.brokers.insert(3, Broker { id: 3, is_alive: false, ..Broker::default() });
        assert_eq!(texts(&snapshot), [""; 0]);
        snapshot.quorum.as_mut().unwrap().leader_id = None;
        assert!(texts(&snapshot)[0].contains("no leader"));
    }
}
