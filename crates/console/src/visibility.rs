//! What of a cluster a user may see: the topics, groups and transactional ids that the brokers tell that user of, and
//! what it may do to the cluster itself.
//!
//! Samples are taken by the console's own principal, who may see more. A page of a user is made of a sample as
//! [`Visibility::of`] leaves it.

use std::collections::BTreeSet;
use std::sync::Arc;

use client::{Client, ClientError, TopicPartition};
use metadata::acl::AclOperation;
use wire::ErrorCode;

use crate::snapshot::{Broker, Group, Snapshot, Transactions};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Visibility {
    topics: BTreeSet<String>,
    groups: BTreeSet<String>,
    transactional_ids: BTreeSet<String>,
    /// To the cluster itself, as bits.
    operations: i32,
}

impl Visibility {
    /// As the brokers tell the user of a client. What some of them do not tell is not seen.
    pub(crate) async fn ask(client: &Client) -> Result<Self, ClientError> {
        let filter = Default::default();
        let (metadata, groups, transactions, operations) = tokio::join!(
            client.cluster(),
            client.list_groups(),
            client.list_transactions(&filter),
            client.cluster_operations(),
        );
        let metadata = metadata?;
        let topics = metadata.topics.iter().filter(|(_, topic)| topic.error_code == ErrorCode::NONE);
        Ok(Self {
            topics: topics.map(|(name, _)| name.clone()).collect(),
            groups: groups.map(|listed| listed.groups.into_keys().collect()).unwrap_or_default(),
            transactional_ids: transactions.map(|listed| listed.transactions.into_keys().collect()).unwrap_or_default(),
            operations: operations.unwrap_or(0),
        })
    }

    pub(crate) fn has_topic(&self, name: &str) -> bool {
        self.topics.contains(name)
    }

    pub(crate) fn has_group(&self, id: &str) -> bool {
        self.groups.contains(id)
    }

    pub(crate) fn has_transactional_id(&self, id: &str) -> bool {
        self.transactional_ids.contains(id)
    }

    /// Who may alter the cluster may give itself any right, by ACLs.
    pub(crate) fn is_administrator(&self) -> bool {
        self.may(AclOperation::Alter)
    }

    fn may(&self, operation: AclOperation) -> bool {
        self.operations & (1 << operation as i32) != 0
    }

    fn may_describe(&self) -> bool {
        self.may(AclOperation::Describe)
    }

    /// Whether nothing of a sample is hidden.
    pub(crate) fn has_all(&self, snapshot: &Snapshot) -> bool {
        self.is_administrator()
            && self.may_describe()
            && snapshot.topics.keys().all(|topic| self.has_topic(topic))
            && snapshot.groups.keys().all(|group| self.has_group(group))
            && snapshot.transactions.ids.keys().all(|id| self.has_transactional_id(id))
    }

    /// A sample without what is hidden.
    pub(crate) fn of(&self, snapshot: &Arc<Snapshot>) -> Arc<Snapshot> {
        if self.has_all(snapshot) {
            return Arc::clone(snapshot);
        }
        let may_describe = self.may_describe();
        let brokers = snapshot.brokers.iter().map(|(id, broker)| {
            let broker = match may_describe {
                true => broker.clone(),
                false => without_figures(broker),
            };
            (*id, broker)
        });
        let topics = snapshot.topics.iter().filter(|(name, _)| self.has_topic(name));
        let groups = snapshot.groups.iter().filter(|(id, _)| self.has_group(id));
        let transactions = snapshot.transactions.ids.iter().filter(|(id, _)| self.has_transactional_id(id));
        let transactions = transactions.map(|(id, transaction)| {
            let mut transaction = transaction.clone();
            if let Some(described) = &mut transaction.described {
                described.partitions.retain(|of| self.has_topic(&of.topic));
            }
            (id.clone(), transaction)
        });
        let moves = snapshot.reassignments.iter().filter(|(of, _)| may_describe && self.has_topic(&of.topic));
        let rebalances = snapshot.rebalances.iter().filter(|rebalance| self.has_group(&rebalance.group));
        Arc::new(Snapshot {
            at: snapshot.at,
            at_ms: snapshot.at_ms,
            cluster_id: snapshot.cluster_id.clone(),
            controller_id: snapshot.controller_id,
            brokers: brokers.collect(),
            topics: topics.map(|(name, topic)| (name.clone(), topic.clone())).collect(),
            groups: groups.map(|(id, group)| (id.clone(), self.of_group(group))).collect(),
            transactions: Transactions {
                ids: transactions.collect(),
                left_out: 0,
                too_old: snapshot.transactions.too_old.clone(),
                is_complete: snapshot.transactions.is_complete,
                max_timeout_ms: snapshot.transactions.max_timeout_ms,
            },
            quorum: snapshot.quorum.clone().filter(|_| may_describe),
            reassignments: moves.map(|(of, reassignment)| (of.clone(), reassignment.clone())).collect(),
            rebalances: rebalances.cloned().collect(),
            connects: if self.is_administrator() { snapshot.connects.clone() } else { Vec::new() },
            gaps: if may_describe { snapshot.gaps.clone() } else { Vec::new() },
            trouble: snapshot.trouble.clone(),
        })
    }

    /// A group may stand in topics that are hidden.
    fn of_group(&self, group: &Group) -> Group {
        let is_seen = |of: &TopicPartition| self.has_topic(&of.topic);
        let mut group = group.clone();
        group.positions.retain(|of, _| is_seen(of));
        for member in &mut group.members {
            member.assigned.retain(is_seen);
            if let Some(progress) = &mut member.progress {
                progress.target.retain(is_seen);
                progress.topics.retain(|topic| self.has_topic(topic));
            }
        }
        group
    }
}

/// What clients are told of a broker.
fn without_figures(broker: &Broker) -> Broker {
    let Broker { id, host, port, rack, is_alive, silent_since, is_controller, .. } = broker.clone();
    Broker { id, host, port, rack, is_alive, silent_since, is_controller, ..Broker::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Directory, Member, Position, Topic, Transaction};

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn snapshot() -> Arc<Snapshot> {
        let of = |topic: &str| TopicPartition::new(topic, 0);
        let group = || Group {
            members: vec![Member { assigned: vec![of("open"), of("secret")], ..Member::default() }],
            positions: [of("open"), of("secret")].map(|of| (of, Position::default())).into(),
            ..Group::default()
        };
        let dir = Directory {
            path: "/data".to_owned(),
            error: None,
            total_bytes: None,
            usable_bytes: None,
            size_bytes: 1,
            replicas: 1,
        };
        let broker = Broker { id: 1, dirs: vec![dir], leaders: 2, is_alive: true, ..Broker::default() };
        let transactions = ["billing", "hidden"].map(|id| (id.to_owned(), Transaction::default()));
        Arc::new(Snapshot {
            brokers: [(1, broker)].into(),
            topics: ["open", "secret"].map(|name| (name.to_owned(), Topic::default())).into(),
            groups: ["readers", "others"].map(|id| (id.to_owned(), group())).into(),
            transactions: Transactions { ids: transactions.into(), ..Transactions::default() },
            gaps: vec!["log directories".to_owned()],
            ..Snapshot::empty()
        })
    }

    #[test]
    fn what_a_user_is_not_told_of_is_on_none_of_its_pages() {
        let seen = Visibility {
            topics: names(&["open"]),
            groups: names(&["readers"]),
            transactional_ids: names(&["billing"]),
            operations: 0,
        };
        let of = seen.of(&snapshot());
        assert_eq!(of.topics.keys().collect::<Vec<_>>(), ["open"]);
        assert_eq!(of.groups.keys().collect::<Vec<_>>(), ["readers"]);
        assert_eq!(of.transactions.ids.keys().collect::<Vec<_>>(), ["billing"]);
        let group = &of.groups["readers"];
        assert_eq!(
            (group.topics(), &group.members[0].assigned[..]),
            (vec!["open"], &[TopicPartition::new("open", 0)][..])
        );
        let broker = &of.brokers[&1];
        assert_eq!((broker.is_alive, broker.dirs.len(), broker.leaders, of.gaps.len()), (true, 0, 0, 0));
        assert!(!seen.has_all(&snapshot()) && !seen.is_administrator());
    }

    #[test]
    fn who_may_describe_the_cluster_sees_its_brokers_and_who_sees_all_has_the_sample_itself() {
        let describe = Visibility { operations: 1 << 8, ..Visibility::default() };
        let of = describe.of(&snapshot());
        assert_eq!((of.brokers[&1].dirs.len(), of.gaps.len(), of.topics.len()), (1, 1, 0));
        let all = Visibility {
            topics: names(&["open", "secret"]),
            groups: names(&["readers", "others"]),
            transactional_ids: names(&["billing", "hidden"]),
            operations: 1 << 7 | 1 << 8,
        };
        let snapshot = snapshot();
        assert!(all.is_administrator() && Arc::ptr_eq(&all.of(&snapshot), &snapshot));
    }
}
