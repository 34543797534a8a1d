//! How partitions got their leaders and in-sync replicas: the changes in the committed metadata, as far back as there
//! is room, and what each came from. The records do not say that; it is seen from what else changed with them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use wire::Uuid;

use super::apply::MetadataDelta;
use super::image::{MetadataImage, NO_LEADER, Partition, RegisteredBroker};

/// Of all partitions. The oldest give way.
const CHANGES_MAX: usize = 20_000;

/// A change of a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionChange {
    /// By the controller's clock.
    pub at_ms: i64,
    /// In the metadata log.
    pub offset: i64,
    pub cause: ChangeCause,
    pub before: Arc<Partition>,
    pub after: Arc<Partition>,
}

/// What a change came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeCause {
    Fenced(i32),
    ShutDown(i32),
    Unregistered(i32),
    /// Its process began anew.
    Registered(i32),
    DirectoryFailed(i32),
    DiskFull(i32),
    /// A replica that may lead is there again.
    Returned(i32),
    PreferredElection,
    UncleanElection,
    /// The leader left it to others.
    GivenUp {
        leader: i32,
    },
    Shrunk {
        leader: i32,
        removed: Vec<i32>,
    },
    Expanded {
        leader: i32,
        added: Vec<i32>,
    },
    ReassignmentBegan,
    ReassignmentCompleted,
    ReassignmentCancelled,
    Unknown,
}

impl fmt::Display for ChangeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |ids: &[i32]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        match self {
            Self::Fenced(id) => write!(f, "broker {id} was fenced: the controller did not hear from it"),
            Self::ShutDown(id) => write!(f, "broker {id} shut down"),
            Self::Unregistered(id) => write!(f, "broker {id} was removed from the cluster"),
            Self::Registered(id) => write!(f, "broker {id} was started again"),
            Self::DirectoryFailed(id) => write!(f, "a log directory of broker {id} failed"),
            Self::DiskFull(id) => write!(f, "the disk of broker {id} was full"),
            Self::Returned(id) => write!(f, "broker {id} was back"),
            Self::PreferredElection => {
                f.write_str("preferred election, by a client or by auto.leader.rebalance.enable")
            }
            Self::UncleanElection => f.write_str("unclean election, by a client or by unclean.leader.election.enable"),
            Self::GivenUp { leader } => write!(f, "leader {leader} gave it up: it could not read all of its log"),
            Self::Shrunk { leader, removed } => {
                write!(f, "leader {leader} took broker {} out of the ISR: too far behind", listed(removed))
            }
            Self::Expanded { leader, added } => {
                write!(f, "leader {leader} took broker {} into the ISR: caught up", listed(added))
            }
            Self::ReassignmentBegan => f.write_str("a client asked for a reassignment"),
            Self::ReassignmentCompleted => f.write_str("the reassignment was complete"),
            Self::ReassignmentCancelled => f.write_str("a client cancelled the reassignment"),
            Self::Unknown => f.write_str("not known"),
        }
    }
}

/// The last changes of all partitions.
#[derive(Default)]
pub struct PartitionHistory {
    /// By topic and index, the newest last.
    changes: Mutex<VecDeque<(Uuid, i32, PartitionChange)>>,
}

impl PartitionHistory {
    /// Remembers what one entry of the metadata log changed.
    pub fn note(&self, before: &MetadataImage, after: &MetadataImage, delta: &MetadataDelta, at_ms: i64) {
        let mut changes = self.changes.lock();
        for topic in &delta.changed {
            let pairs = topic.before.partitions.iter().zip(&topic.after.partitions).enumerate();
            for (index, (old, new)) in pairs.filter(|(_, (old, new))| is_changed(old, new)) {
                if changes.len() == CHANGES_MAX {
                    changes.pop_front();
                }
                let change = PartitionChange {
                    at_ms,
                    offset: after.offset(),
                    cause: cause(before, after, old, new),
                    before: Arc::clone(old),
                    after: Arc::clone(new),
                };
                changes.push_back((topic.after.id, index as i32, change));
            }
        }
    }

    /// Of a partition, the newest first.
    pub fn of(&self, topic: Uuid, index: i32) -> Vec<PartitionChange> {
        let changes = self.changes.lock();
        let found = changes.iter().rev().filter(|(of, at, _)| (*of, *at) == (topic, index));
        found.map(|(.., change)| change.clone()).collect()
    }
}

/// Whether it differs in what clients and operators see of it.
fn is_changed(old: &Arc<Partition>, new: &Arc<Partition>) -> bool {
    let is_same = || {
        (old.leader, old.leader_epoch, &old.isr) == (new.leader, new.leader_epoch, &new.isr) && moves(old) == moves(new)
    };
    !Arc::ptr_eq(old, new) && !is_same()
}

/// All that a reassignment changes.
fn moves(of: &Partition) -> [&[i32]; 3] {
    [&of.replicas, &of.adding_replicas, &of.removing_replicas]
}

fn cause(before: &MetadataImage, after: &MetadataImage, old: &Partition, new: &Partition) -> ChangeCause {
    let is_moving = |of: &Partition| !of.adding_replicas.is_empty() || !of.removing_replicas.is_empty();
    if moves(old) != moves(new) {
        let has_all = old.adding_replicas.iter().all(|id| new.replicas.contains(id));
        let has_others = old.removing_replicas.iter().any(|id| new.replicas.contains(id));
        return match (is_moving(old), is_moving(new)) {
            (_, true) => ChangeCause::ReassignmentBegan,
            (true, false) if !has_all || has_others => ChangeCause::ReassignmentCancelled,
            // Nothing had to be copied for one that was not under way before.
            (_, false) => ChangeCause::ReassignmentCompleted,
        };
    }
    let is_lost = new.leader_recovery_state > old.leader_recovery_state;
    match new.leader {
        leader if is_lost && leader != NO_LEADER && leader != old.leader => return ChangeCause::UncleanElection,
        leader if old.leader == NO_LEADER && leader != NO_LEADER => return ChangeCause::Returned(leader),
        _ => {}
    }
    let removed: Vec<_> = old.isr.iter().copied().filter(|id| !new.isr.contains(id)).collect();
    let added: Vec<_> = new.isr.iter().copied().filter(|id| !old.isr.contains(id)).collect();
    let deposed = (old.leader != new.leader).then_some(old.leader);
    if let Some(cause) = deposed.iter().chain(&removed).find_map(|id| absence(before, after, *id)) {
        return cause;
    }
    match (deposed, new.leader) {
        (_, NO_LEADER) => ChangeCause::Unknown,
        (Some(deposed), _) if !new.isr.contains(&deposed) => ChangeCause::GivenUp { leader: deposed },
        (Some(_), leader) if new.replicas.first() == Some(&leader) => ChangeCause::PreferredElection,
        (Some(_), _) => ChangeCause::Unknown,
        (None, leader) if !removed.is_empty() => ChangeCause::Shrunk { leader, removed },
        (None, leader) if !added.is_empty() => ChangeCause::Expanded { leader, added },
        (None, leader) => absence(before, after, leader).unwrap_or(ChangeCause::Unknown),
    }
}

/// Why a broker could not go on with a partition, if it could not.
fn absence(before: &MetadataImage, after: &MetadataImage, id: i32) -> Option<ChangeCause> {
    let was = before.broker(id)?;
    let Some(is) = after.broker(id) else { return Some(ChangeCause::Unregistered(id)) };
    let directories = |of: &RegisteredBroker| of.log_dirs.len();
    match is {
        _ if was.incarnation_id != is.incarnation_id => Some(ChangeCause::Registered(id)),
        _ if is.in_controlled_shutdown => Some(ChangeCause::ShutDown(id)),
        _ if is.fenced => Some(ChangeCause::Fenced(id)),
        _ if directories(is) < directories(was) => Some(ChangeCause::DirectoryFailed(id)),
        _ if !is.has_room() => Some(ChangeCause::DiskFull(id)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use configuration::BrokerConfig;
    use wire::api::alter_partition::{AlterPartitionRequest, BrokerState, PartitionRequest, TopicData, TopicRequest};
    use wire::api::alter_partition_reassignments::{
        AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
    };
    use wire::api::broker_heartbeat::BrokerHeartbeatRequest;
    use wire::state::metadata::MetadataRecord;

    use super::*;
    use crate::changes::tests::{Counter, brokers, on, partition, with_setting, with_topic};
    use crate::changes::{Context, alter_partition, elections, heartbeats, reassignments};

    const TOPIC: Uuid = Uuid([1; 16]);

    /// A cluster whose metadata changes, and what is remembered of that.
    struct Cluster {
        image: MetadataImage,
        history: PartitionHistory,
    }

    impl Cluster {
        fn new(replicas: &[i32], leader: i32) -> Self {
            let image = with_topic(&brokers(&[1, 2, 3, 4]), &[partition(replicas, replicas, leader)]);
            Self { image, history: PartitionHistory::default() }
        }

        /// Commits some records, and returns what they came from.
        fn commit(&mut self, records: &[MetadataRecord]) -> String {
            let offset = self.image.offset() + records.len() as i64;
            let (after, delta) = self.image.apply(records, offset, 1).unwrap();
            self.history.note(&self.image, &after, &delta, offset);
            self.image = after;
            self.history.of(TOPIC, 0).first().map(|change| change.cause.to_string()).unwrap_or_default()
        }

        fn heartbeat(&mut self, id: i32, ask: impl FnOnce(&mut BrokerHeartbeatRequest)) -> String {
            let mut request = BrokerHeartbeatRequest { broker_id: id, broker_epoch: 0, ..Default::default() };
            ask(&mut request);
            let records = on(&self.image, |context| heartbeats::heartbeat(context, &request).records);
            self.commit(&records)
        }

        fn fence(&mut self, id: i32) -> String {
            let records = on(&self.image, |context| heartbeats::fence(context, &[(id, 0)]));
            self.commit(&records)
        }

        /// The leader says who is in sync.
        fn alter(&mut self, isr: &[i32]) -> String {
            let of = self.image.partition("t", 0).unwrap();
            let (leader, leader_epoch, partition_epoch) = (of.leader, of.leader_epoch, of.partition_epoch);
            let isr = isr.iter().map(|id| BrokerState { broker_id: *id, broker_epoch: 0 });
            let partitions = vec![PartitionRequest {
                leader_epoch,
                partition_epoch,
                new_isr_with_epochs: isr.collect(),
                ..Default::default()
            }];
            let topics = vec![TopicRequest { topic_id: TOPIC, partitions }];
            let request = AlterPartitionRequest { broker_id: leader, broker_epoch: 0, topics };
            let decision = on(&self.image, |context| alter_partition::alter(context, &request));
            let TopicData { partitions, .. } = &decision.answer.topics[0];
            assert!(!decision.records.is_empty(), "{partitions:?}");
            self.commit(&decision.records)
        }

        fn reassign(&mut self, replicas: Option<&[i32]>) -> String {
            let replicas = replicas.map(<[i32]>::to_vec);
            let partitions = vec![ReassignablePartition { partition_index: 0, replicas }];
            let topics = vec![ReassignableTopic { name: "t".to_owned(), partitions }];
            let request = AlterPartitionReassignmentsRequest { topics, ..Default::default() };
            let records = on(&self.image, |context| reassignments::alter(context, &request).records);
            self.commit(&records)
        }
    }

    #[test]
    fn leaders_go_with_their_brokers_and_come_back() {
        let mut cluster = Cluster::new(&[1, 2], 1);
        assert_eq!(cluster.fence(1), "broker 1 was fenced: the controller did not hear from it");
        let change = &cluster.history.of(TOPIC, 0)[0];
        assert_eq!((change.before.leader, change.after.leader, &change.after.isr[..]), (1, 2, &[2][..]));
        assert_eq!((change.at_ms, change.offset), (cluster.image.offset(), cluster.image.offset()));
        cluster.heartbeat(1, |_| {});
        assert_eq!(cluster.history.of(TOPIC, 0).len(), 1, "it is not in sync yet");
        assert_eq!(cluster.alter(&[1, 2]), "leader 2 took broker 1 into the ISR: caught up");
        let config = BrokerConfig::default();
        let context = Context { image: &cluster.image, config: &config, random: &Counter::default() };
        let records = elections::balance(&context, 10).records;
        assert_eq!(cluster.commit(&records), "preferred election, by a client or by auto.leader.rebalance.enable");
        assert_eq!(cluster.alter(&[1]), "leader 1 took broker 2 out of the ISR: too far behind");
        assert_eq!(cluster.fence(1), "broker 1 was fenced: the controller did not hear from it");
        assert_eq!(cluster.heartbeat(1, |_| {}), "broker 1 was back");
        let leaders: Vec<_> = cluster.history.of(TOPIC, 0).iter().map(|change| change.after.leader).collect();
        assert_eq!(leaders, [1, -1, 1, 1, 2, 2]);
    }

    #[test]
    fn brokers_leave_for_reasons_of_their_own() {
        let mut cluster = Cluster::new(&[1, 2, 3], 1);
        assert_eq!(cluster.heartbeat(1, |request| request.want_shut_down = true), "broker 1 shut down");
        let full = |request: &mut BrokerHeartbeatRequest| request.cordoned_log_dirs = Some(vec![Uuid([102; 16])]);
        assert_eq!(cluster.heartbeat(2, full), "the disk of broker 2 was full");
        // What a leader cannot read it leaves to others.
        let mut cluster = Cluster::new(&[1, 2, 3], 1);
        assert_eq!(cluster.alter(&[2, 3]), "leader 1 gave it up: it could not read all of its log");
        cluster.fence(3);
        cluster.image = with_setting(&cluster.image, "unclean.leader.election.enable", "true");
        let unclean = "unclean election, by a client or by unclean.leader.election.enable";
        assert_eq!(cluster.fence(2), unclean);
        assert_eq!(cluster.image.partition("t", 0).unwrap().leader, 1);
    }

    #[test]
    fn moves_have_a_beginning_and_an_end() {
        let mut cluster = Cluster::new(&[1, 2], 1);
        assert_eq!(cluster.reassign(Some(&[3, 4])), "a client asked for a reassignment");
        assert_eq!(cluster.reassign(None), "a client cancelled the reassignment");
        cluster.reassign(Some(&[2, 3]));
        assert_eq!(cluster.alter(&[1, 2, 3]), "the reassignment was complete");
        assert_eq!(cluster.image.partition("t", 0).unwrap().replicas, [2, 3]);
        // Nothing is copied for another order.
        assert_eq!(cluster.reassign(Some(&[3, 2])), "the reassignment was complete");
    }

    #[test]
    fn the_oldest_changes_give_way() {
        let partitions = vec![partition(&[1, 2], &[1, 2], 1); CHANGES_MAX / 2 + 1];
        let image = with_topic(&brokers(&[1, 2]), &partitions);
        let mut cluster = Cluster { image, history: PartitionHistory::default() };
        cluster.fence(2);
        cluster.heartbeat(2, |_| {});
        cluster.fence(1);
        assert_eq!(cluster.history.changes.lock().len(), CHANGES_MAX);
        assert_eq!(cluster.history.of(TOPIC, 0).len(), 1);
        assert_eq!(cluster.history.of(TOPIC, CHANGES_MAX as i32 / 2).len(), 2);
    }
}
