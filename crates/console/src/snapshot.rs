//! A cluster at a moment: everything that pages show of many things at once.

mod take;
mod transactions;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use tokio::time::Instant;

use client::{Placement, TopicPartition};

use crate::connect::Connectors;
use crate::embedded_broker::Rebalance;
use crate::format::duration;
use crate::journal_figures::JournalFigures;
use crate::node_metrics::{Figures, OwnFigures};

pub(crate) use take::take;
pub(crate) use transactions::{Transaction, Transactions, duration_ms, is_overdue, max_timeout_ms};

#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub at: Instant,
    /// By the wall clock.
    pub at_ms: i64,
    pub cluster_id: Option<String>,
    pub controller_id: i32,
    pub brokers: BTreeMap<i32, Broker>,
    pub topics: BTreeMap<String, Topic>,
    pub groups: BTreeMap<String, Group>,
    pub transactions: Transactions,
    pub quorum: Option<client::Quorum>,
    /// Moves that are under way.
    pub reassignments: BTreeMap<TopicPartition, client::Reassignment>,
    /// Of all groups, oldest first; those that nodes of ours remember.
    pub rebalances: Vec<Rebalance>,
    /// The Connect clusters that belong to it.
    pub connects: Vec<Connectors>,
    /// What could not be asked for, and why.
    pub gaps: Vec<String>,
    /// Why there is no newer one, if the last look has failed.
    pub trouble: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Broker {
    pub id: i32,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
    /// Whether clients are sent there, and it answers. Others are known by the replicas that they have.
    pub is_alive: bool,
    /// Since when it has not answered although clients are sent there.
    pub silent_since: Option<Instant>,
    pub is_controller: bool,
    pub leaders: usize,
    pub replicas: usize,
    pub out_of_sync: usize,
    pub dirs: Vec<Directory>,
    /// Of all replicas there.
    pub size_bytes: i64,
    /// Those that it leads and that have a replica which is not in sync.
    pub under_replicated: usize,
    /// What it tells of itself, if that can be read.
    pub figures: Option<Figures>,
}

#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub path: String,
    pub error: Option<String>,
    pub total_bytes: Option<i64>,
    pub usable_bytes: Option<i64>,
    pub size_bytes: i64,
    pub replicas: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Topic {
    pub id: String,
    pub is_internal: bool,
    /// In the order of their numbers.
    pub partitions: Vec<Partition>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    pub index: i32,
    /// -1 where there is none.
    pub leader: i32,
    pub leader_epoch: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
    /// `min.insync.replicas` of its topic, where one of its partitions has lost an in-sync replica, and else 0.
    pub min_in_sync: usize,
    /// Replicas that are on their way here: that they are not in sync yet is not wrong.
    pub adding: Vec<i32>,
    /// The first offset that there is, and the one behind the last; `None` where nobody could be asked.
    pub start: Option<i64>,
    pub end: Option<i64>,
    /// By broker.
    pub sizes: BTreeMap<i32, client::LogDirReplica>,
    /// By broker: which of its directories it is in.
    pub dirs: BTreeMap<i32, usize>,
    /// By broker: what will take the replica's place from another directory there (KIP-113), and from which.
    pub futures: BTreeMap<i32, (usize, client::LogDirReplica)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub state: String,
    /// `classic`, `consumer` (KIP-848) and the like. Empty from brokers that do not tell.
    pub kind: String,
    pub protocol_type: String,
    /// The assignor of its partitions.
    pub protocol: String,
    pub coordinator: i32,
    /// Of a group of the consumer protocol.
    pub epochs: Option<client::GroupEpochs>,
    pub members: Vec<Member>,
    pub positions: BTreeMap<TopicPartition, Position>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    pub id: String,
    pub instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    /// Sorted.
    pub assigned: Vec<TopicPartition>,
    /// In a group of the consumer protocol.
    pub progress: Option<client::MemberProgress>,
}

/// Where a group stands in a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    /// `None` where it is assigned and nothing was committed.
    pub committed: Option<i64>,
    pub end: Option<i64>,
    pub lag_records: Option<i64>,
    /// Of the first record that is not committed.
    pub lag_age: Option<Age>,
}

/// How old something is, as far as that was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Age {
    pub seconds: f64,
    /// It is older: it was there before the first look.
    pub is_more: bool,
}

impl Age {
    pub(crate) fn exactly(seconds: f64) -> Self {
        Self { seconds, is_more: false }
    }

    pub(crate) fn older(self, other: Self) -> Self {
        if other.seconds > self.seconds { other } else { self }
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.is_more { "more than " } else { "" };
        write!(f, "{more}{}", duration(self.seconds))
    }
}

impl Snapshot {
    /// Of a cluster of which nothing is known.
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self {
            at: Instant::now(),
            at_ms: 0,
            cluster_id: None,
            controller_id: -1,
            brokers: BTreeMap::new(),
            topics: BTreeMap::new(),
            groups: BTreeMap::new(),
            transactions: Transactions::default(),
            quorum: None,
            reassignments: BTreeMap::new(),
            rebalances: Vec::new(),
            connects: Vec::new(),
            gaps: Vec::new(),
            trouble: None,
        }
    }

    /// The same cluster, of which these brokers have not answered since then.
    pub(crate) fn with_silent(&self, silent: &BTreeMap<i32, Instant>) -> Self {
        let mut snapshot = self.clone();
        for (id, since) in silent {
            if let Some(broker) = snapshot.brokers.get_mut(id) {
                (broker.is_alive, broker.silent_since) = (false, Some(*since));
            }
        }
        snapshot
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = (&str, &Partition)> {
        self.topics.iter().flat_map(|(name, topic)| topic.partitions.iter().map(move |of| (name.as_str(), of)))
    }

    pub(crate) fn partition(&self, of: &TopicPartition) -> Option<&Partition> {
        self.topics.get(&of.topic)?.partitions.get(usize::try_from(of.partition).ok()?)
    }

    /// What the new replicas of a partition that moves have of it.
    pub(crate) fn copied_bytes(&self, of: &TopicPartition, reassignment: &client::Reassignment) -> i64 {
        let Some(partition) = self.partition(of) else { return 0 };
        reassignment.adding.iter().filter_map(|id| partition.sizes.get(id)).map(|replica| replica.size_bytes).sum()
    }

    pub(crate) fn is_alive(&self, broker: i32) -> bool {
        self.brokers.get(&broker).is_some_and(|broker| broker.is_alive)
    }

    pub(crate) fn alive(&self) -> usize {
        self.brokers.values().filter(|broker| broker.is_alive).count()
    }

    /// Groups that have committed something in a topic, or are assigned some of it.
    pub(crate) fn groups_of<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = (&'a str, &'a Group)> {
        let reads = move |group: &Group| group.positions.keys().any(|partition| partition.topic == topic);
        self.groups.iter().filter(move |(_, group)| reads(group)).map(|(id, group)| (id.as_str(), group))
    }
}

impl Broker {
    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// What it tells of itself, if it is one of ours.
    pub(crate) fn own_figures(&self) -> Option<&OwnFigures> {
        self.figures.as_ref()?.own.as_ref()
    }

    /// What it tells of its journal, if it can be asked.
    pub(crate) fn journal(&self) -> Option<JournalFigures> {
        self.own_figures().filter(|_| self.is_alive)?.journal
    }
}

impl Topic {
    pub(crate) fn replication_factor(&self) -> usize {
        self.partitions.iter().map(|partition| partition.replicas.len()).max().unwrap_or(0)
    }

    /// Partitions with a replica that is not in sync.
    pub(crate) fn under_replicated(&self) -> usize {
        self.partitions.iter().filter(|partition| partition.is_under_replicated()).count()
    }

    pub(crate) fn offline(&self) -> usize {
        self.partitions.iter().filter(|partition| partition.is_offline()).count()
    }

    /// Records from the first to the last offset, as far as they are known. Compaction leaves fewer.
    pub(crate) fn records(&self) -> i64 {
        self.partitions.iter().filter_map(Partition::records).sum()
    }

    /// Of all replicas.
    pub(crate) fn size_bytes(&self) -> i64 {
        self.partitions.iter().flat_map(|partition| partition.sizes.values()).map(|replica| replica.size_bytes).sum()
    }
}

impl Partition {
    fn placement(&self) -> Placement<'_> {
        let Self { leader, replicas, isr, adding, min_in_sync, .. } = self;
        let leader = Some(*leader).filter(|leader| *leader >= 0);
        Placement { leader, replicas, isr, adding, min_in_sync: *min_in_sync }
    }

    pub(crate) fn is_under_min_isr(&self) -> bool {
        self.placement().is_under_min_isr()
    }

    pub(crate) fn is_under_replicated(&self) -> bool {
        self.placement().is_under_replicated()
    }

    pub(crate) fn is_offline(&self) -> bool {
        self.placement().is_offline()
    }

    /// Whether its first replica leads.
    pub(crate) fn is_preferred(&self) -> bool {
        self.replicas.first() == Some(&self.leader)
    }

    pub(crate) fn records(&self) -> Option<i64> {
        Some((self.end? - self.start?).max(0))
    }

    /// What a new replica has to copy: as its leader has it, or, where there is none, the largest replica.
    pub(crate) fn full_bytes(&self) -> i64 {
        let largest = || self.sizes.values().map(|replica| replica.size_bytes).max().unwrap_or(0);
        self.size_bytes().unwrap_or_else(largest)
    }

    /// As its leader has it.
    pub(crate) fn size_bytes(&self) -> Option<i64> {
        self.sizes.get(&self.leader).map(|replica| replica.size_bytes)
    }
}

impl Group {
    /// `None` where nothing is known of any partition.
    pub(crate) fn lag_records(&self) -> Option<i64> {
        self.positions.values().filter_map(|position| position.lag_records).reduce(|sum, lag| sum + lag)
    }

    pub(crate) fn lag_age(&self) -> Option<Age> {
        self.positions.values().filter_map(|position| position.lag_age).reduce(Age::older)
    }

    pub(crate) fn topics(&self) -> Vec<&str> {
        let mut topics: Vec<_> = self.positions.keys().map(|partition| partition.topic.as_str()).collect();
        topics.dedup();
        topics
    }

    /// Who reads which partition.
    pub(crate) fn readers(&self) -> BTreeMap<&TopicPartition, &Member> {
        self.members.iter().flat_map(|member| member.assigned.iter().map(move |of| (of, member))).collect()
    }

    /// Whether nobody is in it, so that its offsets may be changed from outside.
    pub(crate) fn is_unused(&self) -> bool {
        matches!(self.state.as_str(), "Empty" | "Dead")
    }
}

/// Offsets of partitions by topic, shared between points of the history.
pub(crate) type Ends = HashMap<Arc<str>, Box<[i64]>>;
