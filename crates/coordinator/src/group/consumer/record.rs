//! What is stored of a group: a value for each key, or that there is none any more.

use std::collections::BTreeSet;

use super::member::{Current, MemberMetadata};
use crate::group::assignor::Partitions;

/// A record of a consumer group. `None` is a tombstone.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    Epoch(Option<GroupEpoch>),
    /// Kafka before 4.1 kept the topics of a group here. Only its end is still written.
    PartitionMetadata {
        exists: bool,
    },
    Member {
        member_id: String,
        metadata: Option<MemberMetadata>,
    },
    TargetEpoch(Option<TargetEpoch>),
    Target {
        member_id: String,
        partitions: Option<Partitions>,
    },
    Current {
        member_id: String,
        current: Option<Current>,
    },
    Regex {
        pattern: String,
        resolved: Option<ResolvedRegex>,
    },
}

impl Record {
    /// The member that it is about.
    pub fn member_id(&self) -> Option<&str> {
        match self {
            Self::Member { member_id, .. } | Self::Target { member_id, .. } | Self::Current { member_id, .. } => {
                Some(member_id)
            }
            Self::Epoch(_) | Self::PartitionMetadata { .. } | Self::TargetEpoch(_) | Self::Regex { .. } => None,
        }
    }
}

/// The epoch of a group, and what its topics were then (KIP-1101).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEpoch {
    pub epoch: i32,
    pub metadata_hash: i64,
}

/// The epoch of a target assignment, and the wall clock when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetEpoch {
    pub epoch: i32,
    pub timestamp_ms: i64,
}

/// The topics that a pattern has matched, in which version of the metadata, and the wall clock then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedRegex {
    pub topics: BTreeSet<String>,
    pub version: i64,
    pub timestamp_ms: i64,
}

impl ResolvedRegex {
    pub(super) fn size_bytes(&self) -> usize {
        const REGEX_BYTES: usize = 160;
        const NAME_BYTES: usize = 48;
        REGEX_BYTES + self.topics.iter().map(|topic| NAME_BYTES + topic.len()).sum::<usize>()
    }
}
