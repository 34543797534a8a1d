//! What facts mean: whether the cluster is healthy, and what is wrong with which partition.

use std::collections::{BTreeMap, BTreeSet};

use client::{Placement, QuorumReplica, VoterHealth};
use serde::Serialize;

use super::facts::{Broker, Facts, Partition, Quorum};

#[derive(Debug, Default, Serialize)]
pub(super) struct Status {
    pub(super) is_healthy: bool,
    pub(super) problems: Vec<String>,
    pub(super) cluster_id: Option<String>,
    /// Brokers and partitions are as the broker that was asked last heard of them: the quorum does not answer.
    pub(super) is_last_known: bool,
    /// `None` where nobody tells.
    pub(super) quorum: Option<QuorumStatus>,
    pub(super) brokers: Vec<BrokerStatus>,
    pub(super) partitions: Counts,
    /// Partitions with which something is wrong, or the first of them.
    pub(super) listed: Vec<Listed>,
}

#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct QuorumStatus {
    pub(super) leader: Option<i32>,
    pub(super) epoch: i32,
    pub(super) high_watermark: i64,
    pub(super) voters: Vec<Member>,
    pub(super) observers: Vec<Member>,
}

#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Member {
    pub(super) id: i32,
    pub(super) log_end_offset: i64,
    /// Records behind the leader.
    pub(super) lag: i64,
    /// How long ago it had all that the leader had; `None` where nobody tells, or it never had.
    pub(super) caught_up_ms_ago: Option<i64>,
    /// The leader tells when it heard of others, and has not heard of this one.
    pub(super) is_unheard: bool,
    #[serde(skip)]
    pub(super) health: VoterHealth,
}

#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct BrokerStatus {
    pub(super) id: i32,
    pub(super) address: String,
    pub(super) rack: Option<String>,
    /// `None`: fenced brokers are not told of.
    pub(super) is_fenced: Option<bool>,
    /// It has not answered within two seconds.
    pub(super) is_silent: bool,
    /// Partitions that it leads.
    pub(super) leaders: usize,
    /// Partitions whose first replica it has.
    pub(super) preferred: usize,
    pub(super) replicas: usize,
    /// Of its replicas those that are not in the ISR.
    pub(super) out_of_sync: usize,
}

#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Counts {
    pub(super) topics: usize,
    pub(super) total: usize,
    pub(super) offline: usize,
    pub(super) under_min_isr: usize,
    pub(super) at_min_isr: usize,
    pub(super) under_replicated: usize,
    /// Led by another than the first of their replicas.
    pub(super) non_preferred_leaders: usize,
    /// With which something is wrong.
    pub(super) not_well: usize,
}

#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Listed {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) leader: Option<i32>,
    pub(super) replicas: Vec<i32>,
    pub(super) isr: Vec<i32>,
    pub(super) min_insync_replicas: usize,
    pub(super) states: Vec<&'static str>,
}

impl Status {
    /// At most so many partitions are listed.
    pub(super) fn of(facts: &Facts, listed_max: usize) -> Self {
        let mut problems = Vec::new();
        let quorum = match &facts.quorum {
            Quorum::Unknown => None,
            Quorum::Silent(reason) => {
                problems.push(format!("the quorum cannot be seen: {reason}"));
                None
            }
            Quorum::Described(described) => Some(QuorumStatus::of(described)),
        };
        problems.extend(quorum.iter().flat_map(QuorumStatus::problems));
        let ids = |is_wanted: fn(&Broker) -> bool| {
            let wanted = facts.brokers.iter().filter(|broker| is_wanted(broker));
            wanted.map(|broker| broker.id.to_string()).collect::<Vec<_>>()
        };
        problems.extend(match &ids(|broker| broker.is_silent)[..] {
            [] => None,
            [one] => Some(format!("broker {one} does not answer")),
            several => Some(format!("brokers {} do not answer", several.join(", "))),
        });
        problems.extend(match &ids(|broker| broker.is_fenced == Some(true))[..] {
            [] => None,
            [one] => Some(format!("broker {one} is fenced")),
            several => Some(format!("brokers {} are fenced", several.join(", "))),
        });
        let partitions = Counts::of(facts);
        let Counts { offline, under_min_isr, under_replicated, .. } = partitions;
        for (count, state) in [(offline, OFFLINE), (under_min_isr, UNDER_MIN_ISR), (under_replicated, UNDER_REPLICATED)]
        {
            problems.extend(match count {
                0 => None,
                1 => Some(format!("1 partition is {state}")),
                _ => Some(format!("{count} partitions are {state}")),
            });
        }
        let not_well = facts.partitions.iter().filter(|partition| !states(&partition.placement()).is_empty());
        Self {
            is_healthy: problems.is_empty(),
            problems,
            cluster_id: facts.cluster_id.clone(),
            is_last_known: matches!(facts.quorum, Quorum::Silent(_)),
            quorum,
            brokers: brokers(facts),
            partitions,
            listed: not_well.take(listed_max).map(listed).collect(),
        }
    }
}

const OFFLINE: &str = "offline";
const UNDER_MIN_ISR: &str = "under min ISR";
const UNDER_REPLICATED: &str = "under-replicated";

/// What is wrong with a partition.
fn states(placement: &Placement<'_>) -> Vec<&'static str> {
    let all = [
        (placement.is_offline(), OFFLINE),
        (placement.is_under_min_isr(), UNDER_MIN_ISR),
        (placement.is_under_replicated(), UNDER_REPLICATED),
    ];
    all.into_iter().filter_map(|(holds, state)| holds.then_some(state)).collect()
}

fn listed(partition: &Partition) -> Listed {
    Listed {
        topic: partition.topic.clone(),
        partition: partition.index,
        leader: partition.leader,
        replicas: partition.replicas.clone(),
        isr: partition.isr.clone(),
        min_insync_replicas: partition.min_in_sync,
        states: states(&partition.placement()),
    }
}

impl Counts {
    fn of(facts: &Facts) -> Self {
        let mut counts = Self { topics: facts.topics, total: facts.partitions.len(), ..Self::default() };
        for placement in facts.partitions.iter().map(Partition::placement) {
            counts.offline += usize::from(placement.is_offline());
            counts.under_min_isr += usize::from(placement.is_under_min_isr());
            counts.at_min_isr += usize::from(placement.is_at_min_isr());
            counts.under_replicated += usize::from(placement.is_under_replicated());
            counts.non_preferred_leaders += usize::from(placement.has_non_preferred_leader());
            counts.not_well += usize::from(!states(&placement).is_empty());
        }
        counts
    }
}

/// Brokers that have replicas and are not told of are there too: nobody knows their address.
fn brokers(facts: &Facts) -> Vec<BrokerStatus> {
    let mut brokers: BTreeMap<i32, BrokerStatus> = BTreeMap::new();
    for known in &facts.brokers {
        let (id, address, rack) = (known.id, known.address.clone(), known.rack.clone());
        let (is_fenced, is_silent) = (known.is_fenced, known.is_silent);
        brokers.insert(id, BrokerStatus { id, address, rack, is_fenced, is_silent, ..Default::default() });
    }
    for partition in &facts.partitions {
        for (place, &id) in partition.replicas.iter().enumerate() {
            let broker = brokers.entry(id).or_insert_with(|| BrokerStatus { id, ..Default::default() });
            broker.replicas += 1;
            broker.preferred += usize::from(place == 0);
            broker.leaders += usize::from(partition.leader == Some(id));
            broker.out_of_sync += usize::from(!partition.isr.contains(&id));
        }
    }
    brokers.into_values().collect()
}

impl QuorumStatus {
    fn of(described: &client::Quorum) -> Self {
        let now_ms = described.answered_at_ms();
        let ago = |(now_ms, then_ms): (i64, i64)| (now_ms - then_ms).max(0);
        let member = |replica: &QuorumReplica| Member {
            id: replica.replica_id,
            log_end_offset: replica.log_end_offset,
            lag: replica.lag,
            caught_up_ms_ago: now_ms.zip(replica.last_caught_up_timestamp_ms).map(ago),
            is_unheard: described.health(replica) == VoterHealth::Silent { for_ms: None },
            health: described.health(replica),
        };
        let members = |replicas: &[QuorumReplica]| {
            let mut members: Vec<_> = replicas.iter().map(member).collect();
            members.sort_by_key(|member| member.id);
            members
        };
        Self {
            leader: described.leader_id,
            epoch: described.leader_epoch,
            high_watermark: described.high_watermark,
            voters: members(&described.voters),
            observers: members(&described.observers),
        }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.leader.is_none() {
            problems.push("the quorum has no leader".to_owned());
        }
        problems.extend(self.voters.iter().filter_map(|voter| match voter.health {
            VoterHealth::Healthy => None,
            VoterHealth::Behind { for_ms } => {
                Some(format!("voter {} has been behind for {} s", voter.id, for_ms / 1000))
            }
            VoterHealth::Silent { for_ms: Some(ms) } => {
                Some(format!("the quorum has not heard of voter {} for {} s", voter.id, ms / 1000))
            }
            VoterHealth::Silent { for_ms: None } => Some(format!("the quorum has not heard of voter {}", voter.id)),
        }));
        // Until the old disk has lost its vote it counts as a voter that is gone.
        let members = || self.voters.iter().chain(&self.observers);
        let has_two_disks = |voter: &&Member| members().filter(|member| member.id == voter.id).count() > 1;
        let replaced: BTreeSet<i32> = self.voters.iter().filter(has_two_disks).map(|voter| voter.id).collect();
        problems.extend(replaced.iter().map(|id| format!("the vote of node {id} is on its way to a new disk")));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voter(replica_id: i32, log_end_offset: i64, fetched_ms: i64, caught_up_ms: i64) -> QuorumReplica {
        QuorumReplica {
            replica_id,
            log_end_offset,
            lag: 100 - log_end_offset,
            last_fetch_timestamp_ms: Some(fetched_ms),
            last_caught_up_timestamp_ms: Some(caught_up_ms),
            ..Default::default()
        }
    }

    fn partition(index: i32, leader: Option<i32>, replicas: &[i32], isr: &[i32]) -> Partition {
        let (replicas, isr) = (replicas.to_vec(), isr.to_vec());
        Partition { topic: "t".to_owned(), index, leader, replicas, isr, adding: Vec::new(), min_in_sync: 2 }
    }

    fn facts() -> Facts {
        let broker = |id| Broker { id, address: format!("h{id}:9092"), is_fenced: Some(false), ..Broker::default() };
        let described = client::Quorum {
            leader_id: Some(2),
            leader_epoch: 7,
            high_watermark: 99,
            voters: vec![voter(1, 98, 99_900, 99_800), voter(2, 100, 100_000, 100_000), voter(3, 100, 98_000, 98_000)],
            ..Default::default()
        };
        Facts {
            cluster_id: Some("c".to_owned()),
            quorum: Quorum::Described(described),
            brokers: [1, 2, 3].map(broker).into(),
            partitions: vec![
                partition(0, Some(1), &[1, 2, 3], &[1, 2, 3]),
                partition(1, Some(3), &[2, 3, 1], &[3, 1, 2]),
            ],
            topics: 1,
        }
    }

    #[test]
    fn a_cluster_where_all_are_in_sync_is_well() {
        let status = Status::of(&facts(), 20);
        assert!(status.is_healthy, "{:?}", status.problems);
        assert_eq!(status.listed, []);
        assert_eq!(status.partitions, Counts { topics: 1, total: 2, non_preferred_leaders: 1, ..Default::default() });
        let quorum = status.quorum.unwrap();
        assert_eq!((quorum.leader, quorum.epoch, quorum.high_watermark), (Some(2), 7, 99));
        let members: Vec<_> = quorum.voters.iter().map(|voter| (voter.lag, voter.caught_up_ms_ago)).collect();
        assert_eq!(members, [(2, Some(200)), (0, Some(0)), (0, Some(2000))]);
        let third = &status.brokers[2];
        assert_eq!((third.leaders, third.preferred, third.replicas, third.out_of_sync), (1, 0, 2, 0));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let mut facts = facts();
        facts.brokers[2].is_fenced = Some(true);
        (facts.brokers[1].is_silent, facts.brokers[2].is_silent) = (true, true);
        facts.partitions = vec![
            partition(0, Some(1), &[1, 2, 3], &[1, 2]),
            partition(1, Some(1), &[3, 1, 2], &[1]),
            partition(2, None, &[3], &[3]),
            partition(3, Some(9), &[9, 1], &[9, 1]),
        ];
        let Quorum::Described(quorum) = &mut facts.quorum else { panic!() };
        (quorum.voters[2].last_fetch_timestamp_ms, quorum.voters[2].lag) = (Some(99_000), 3);
        quorum.voters[2].last_caught_up_timestamp_ms = Some(87_000);
        quorum.voters[0].last_fetch_timestamp_ms = None;
        quorum.observers.push(voter(3, 99, 100_000, 100_000));
        let status = Status::of(&facts, 2);
        assert_eq!(
            status.problems,
            [
                "the quorum has not heard of voter 1",
                "voter 3 has been behind for 13 s",
                "the vote of node 3 is on its way to a new disk",
                "brokers 2, 3 do not answer",
                "broker 3 is fenced",
                "1 partition is offline",
                "2 partitions are under min ISR",
                "2 partitions are under-replicated",
            ]
        );
        assert!(!status.is_healthy);
        let listed: Vec<_> = status.listed.iter().map(|one| (one.partition, one.states.join(", "))).collect();
        assert_eq!(listed, [(0, UNDER_REPLICATED.to_owned()), (1, "under min ISR, under-replicated".to_owned())]);
        assert_eq!((status.partitions.not_well, status.partitions.at_min_isr), (3, 2));
        let stranger = status.brokers.last().unwrap();
        assert_eq!((stranger.id, stranger.leaders, stranger.is_fenced), (9, 1, None));
    }

    #[test]
    fn a_quorum_without_a_leader_is_not_well() {
        let nobody = client::Quorum::default();
        for (quorum, problem) in [
            (Quorum::Described(nobody), "the quorum has no leader"),
            (Quorum::Silent("too late".to_owned()), "the quorum cannot be seen: too late"),
        ] {
            let status = Status::of(&Facts { quorum, ..facts() }, 20);
            assert_eq!((status.is_healthy, &status.problems[..]), (false, &[problem.to_owned()][..]));
            assert_eq!(status.is_last_known, status.quorum.is_none());
        }
        // One that is not a matter of the protocol is not wrong.
        assert!(Status::of(&Facts { quorum: Quorum::Unknown, ..facts() }, 20).is_healthy);
    }

    #[test]
    fn without_times_no_voter_is_late() {
        let mut facts = facts();
        let Quorum::Described(quorum) = &mut facts.quorum else { panic!() };
        for voter in &mut quorum.voters {
            (voter.last_fetch_timestamp_ms, voter.last_caught_up_timestamp_ms) = (None, None);
        }
        assert!(Status::of(&facts, 20).is_healthy);
    }
}
