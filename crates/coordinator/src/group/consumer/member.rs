//! What a group knows of a member: what the member says of itself, and what it has.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use wire::Uuid;

use crate::group::assignor::Partitions;

/// Partitions by topic, each with the member's epoch in which it was given to it.
pub type Assigned = BTreeMap<Uuid, BTreeMap<i32, i32>>;

/// All partitions, with their topics.
pub(super) fn all(assigned: &Assigned) -> impl Iterator<Item = (Uuid, i32)> {
    assigned.iter().flat_map(|(topic, partitions)| partitions.keys().map(move |partition| (*topic, *partition)))
}

/// About what partitions take.
pub(super) fn partitions_bytes(partitions: &Partitions) -> usize {
    partitions.values().map(|partitions| TOPIC_BYTES + PARTITION_BYTES * partitions.len()).sum()
}

const TOPIC_BYTES: usize = 64;
const PARTITION_BYTES: usize = 8;

/// What a member takes that has no names.
pub const MEMBER_BYTES_MIN: usize = 600;

/// What a member says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberMetadata {
    pub instance_id: Option<String>,
    pub rack_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub topics: BTreeSet<String>,
    /// A pattern for names of topics; empty or none for no pattern.
    pub regex: Option<String>,
    pub rebalance_timeout_ms: i32,
    pub assignor: Option<String>,
    /// Of a member that uses the classic protocol.
    pub classic: Option<ClassicSettings>,
}

/// What a member of the classic protocol says besides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassicSettings {
    pub session_timeout_ms: i32,
    pub protocols: Vec<ClassicProtocol>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassicProtocol {
    pub name: String,
    pub metadata: Bytes,
}

impl MemberMetadata {
    /// The pattern that it has subscribed with.
    pub fn pattern(&self) -> Option<&str> {
        self.regex.as_deref().filter(|pattern| !pattern.is_empty())
    }

    /// Estimate of the memory that it takes.
    pub(super) fn size_bytes(&self, member_id: &str) -> usize {
        const NAME_BYTES: usize = 48;
        let optional = [&self.instance_id, &self.rack_id, &self.regex, &self.assignor];
        let protocols = self.classic.iter().flat_map(|classic| &classic.protocols);
        MEMBER_BYTES_MIN
            + 5 * member_id.len()
            + self.client_id.len()
            + self.client_host.len()
            + optional.iter().filter_map(|text| text.as_ref()).map(|text| 2 * text.len()).sum::<usize>()
            + self.topics.iter().map(|topic| NAME_BYTES + topic.len()).sum::<usize>()
            + protocols.map(|protocol| NAME_BYTES + protocol.name.len() + protocol.metadata.len()).sum::<usize>()
    }
}

/// How far a member has come on its way to its target (`MemberState`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberState {
    /// It has what it is to have as of its epoch.
    #[default]
    Stable,
    /// It has to give up partitions before its epoch advances.
    UnrevokedPartitions,
    /// It waits for partitions that others have to give up.
    UnreleasedPartitions,
    /// A state that a newer coordinator has written.
    Unknown,
}

impl MemberState {
    pub fn from_stored(state: i8) -> Self {
        match state {
            0 => Self::Stable,
            1 => Self::UnrevokedPartitions,
            2 => Self::UnreleasedPartitions,
            _ => Self::Unknown,
        }
    }

    pub fn to_stored(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::UnrevokedPartitions => 1,
            Self::UnreleasedPartitions => 2,
            Self::Unknown => 127,
        }
    }
}

/// What a member has.
#[derive(Clone, Debug, PartialEq)]
pub struct Current {
    pub epoch: i32,
    /// The epoch before. A member that has not heard of its epoch still sends this one.
    pub previous_epoch: i32,
    pub state: MemberState,
    pub assigned: Assigned,
    /// What it has been told to give up and has not yet.
    pub pending_revocation: Assigned,
}

impl Default for Current {
    /// Of a member that has just come.
    fn default() -> Self {
        Self {
            epoch: super::JOIN_EPOCH,
            previous_epoch: -1,
            state: MemberState::Stable,
            assigned: Assigned::new(),
            pending_revocation: Assigned::new(),
        }
    }
}

impl Current {
    /// Whether there is nothing to be done to get to the target of an epoch.
    pub fn is_reconciled_to(&self, epoch: i32) -> bool {
        self.state == MemberState::Stable && self.epoch == epoch
    }

    /// The epoch in which a partition was given to it, if it has it.
    pub fn assignment_epoch(&self, topic: Uuid, partition: i32) -> Option<i32> {
        let epoch_in = |assigned: &Assigned| assigned.get(&topic)?.get(&partition).copied();
        epoch_in(&self.assigned).or_else(|| epoch_in(&self.pending_revocation))
    }

    pub(super) fn size_bytes(&self) -> usize {
        let topics = self.assigned.values().chain(self.pending_revocation.values());
        topics.map(|partitions| 2 * TOPIC_BYTES + 6 * PARTITION_BYTES * partitions.len()).sum()
    }
}
