//! What is healthy: the definitions that the command line and the console share.

use crate::{Quorum, QuorumReplica};

/// A voter that has not fetched or caught up for longer is told of, in milliseconds. Kafka's default of
/// controller.quorum.fetch.timeout.ms: after as long without an answer the voters elect another leader.
const VOTER_LATE_MS_MAX: i64 = 2_000;

/// What is known of one partition. The definitions are those of Kafka's tools (`TopicCommand.PartitionDescription`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Placement<'a> {
    pub leader: Option<i32>,
    pub replicas: &'a [i32],
    pub isr: &'a [i32],
    /// Replicas that a reassignment adds: they are expected to be behind.
    pub adding: &'a [i32],
    /// `min.insync.replicas` of its topic.
    pub min_in_sync: usize,
}

impl Placement<'_> {
    pub fn is_under_replicated(&self) -> bool {
        self.isr.len() + self.adding.len() < self.replicas.len()
    }

    pub fn is_under_min_isr(&self) -> bool {
        self.leader.is_none() || self.isr.len() < self.min_in_sync
    }

    pub fn is_at_min_isr(&self) -> bool {
        self.isr.len() == self.min_in_sync
    }

    /// Without a leader it can be neither written nor read.
    pub fn is_offline(&self) -> bool {
        self.leader.is_none()
    }

    /// Offline, or led by a broker that is not live.
    pub fn is_unavailable(&self, is_live: impl Fn(i32) -> bool) -> bool {
        !self.leader.is_some_and(is_live)
    }

    /// Whether a replica other than the first leads it.
    pub fn has_non_preferred_leader(&self) -> bool {
        self.leader.is_some() && self.leader != self.replicas.first().copied()
    }
}

/// How a member of the quorum does, by what the leader tells of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VoterHealth {
    #[default]
    Healthy,
    /// It fetches, and has not had all that the leader had for so long.
    Behind { for_ms: i64 },
    /// It has not fetched for so long; `None`: not since the leader was elected.
    Silent { for_ms: Option<i64> },
}

impl Quorum {
    /// When the leader answered, by its own clock, which the times of the others are by. `None` where it tells no times
    /// (before KIP-836), or there is no leader.
    pub fn answered_at_ms(&self) -> Option<i64> {
        let leader = self.voters.iter().find(|voter| Some(voter.replica_id) == self.leader_id);
        leader.and_then(|leader| leader.last_fetch_timestamp_ms)
    }

    /// Healthy where the leader tells no times.
    pub fn health(&self, replica: &QuorumReplica) -> VoterHealth {
        let Some(now_ms) = self.answered_at_ms().filter(|_| self.leader_id != Some(replica.replica_id)) else {
            return VoterHealth::Healthy;
        };
        let age_ms = |at_ms: Option<i64>| at_ms.map(|at_ms| now_ms - at_ms);
        let is_late = |age_ms: Option<i64>| age_ms.is_none_or(|age_ms| age_ms > VOTER_LATE_MS_MAX);
        let (fetched, caught_up) =
            (age_ms(replica.last_fetch_timestamp_ms), age_ms(replica.last_caught_up_timestamp_ms));
        match caught_up {
            _ if is_late(fetched) => VoterHealth::Silent { for_ms: fetched },
            Some(for_ms) if replica.lag > 0 && is_late(caught_up) => VoterHealth::Behind { for_ms },
            _ => VoterHealth::Healthy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_kafkas() {
        let well = Placement { leader: Some(1), replicas: &[1, 2, 3], isr: &[3, 1, 2], adding: &[], min_in_sync: 2 };
        assert!(!well.is_under_replicated() && !well.is_under_min_isr() && !well.is_at_min_isr());
        assert!(!well.is_unavailable(|id| id == 1) && well.is_unavailable(|id| id == 2));
        assert!(!well.has_non_preferred_leader());

        let behind = Placement { leader: Some(2), isr: &[1, 2], ..well };
        assert!(behind.is_under_replicated() && !behind.is_under_min_isr() && behind.is_at_min_isr());
        assert!(behind.has_non_preferred_leader());
        assert!(!Placement { adding: &[3], ..behind }.is_under_replicated());

        let alone = Placement { isr: &[2], ..behind };
        assert!(alone.is_under_min_isr() && !alone.is_at_min_isr());
        // Without a leader none of the ISR takes anything, however many there are.
        let offline = Placement { leader: None, ..well };
        assert!(offline.is_under_min_isr() && offline.is_unavailable(|_| true) && !offline.has_non_preferred_leader());
    }

    #[test]
    fn a_late_voter_is_silent_or_behind() {
        let replica = |replica_id, lag, fetched_ms, caught_up_ms| QuorumReplica {
            replica_id,
            lag,
            last_fetch_timestamp_ms: fetched_ms,
            last_caught_up_timestamp_ms: caught_up_ms,
            ..QuorumReplica::default()
        };
        let leader = replica(1, 0, Some(100_000), None);
        let quorum = Quorum { leader_id: Some(1), voters: vec![leader], ..Quorum::default() };
        for (voter, health) in [
            (leader, VoterHealth::Healthy),
            (replica(2, 5, Some(98_000), Some(98_000)), VoterHealth::Healthy),
            (replica(2, 0, Some(99_900), Some(90_000)), VoterHealth::Healthy),
            (replica(2, 5, Some(99_900), Some(90_000)), VoterHealth::Behind { for_ms: 10_000 }),
            (replica(2, 0, Some(97_999), Some(97_000)), VoterHealth::Silent { for_ms: Some(2_001) }),
            (replica(2, 5, None, None), VoterHealth::Silent { for_ms: None }),
        ] {
            assert_eq!(quorum.health(&voter), health, "{voter:?}");
        }
        let timeless = Quorum { voters: vec![replica(1, 0, None, None)], ..quorum };
        assert_eq!(timeless.health(&replica(2, 5, None, None)), VoterHealth::Healthy);
    }
}
