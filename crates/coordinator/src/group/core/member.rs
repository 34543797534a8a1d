//! One member of a group: its protocols, its waiting requests, and its session deadline.

use std::collections::BTreeSet;

use bytes::Bytes;
use wire::api::join_group::JoinGroupRequestProtocol;

use super::RequestId;

/// A deadline that never comes.
pub(super) const NEVER: i64 = i64::MAX;

/// A member, dynamic or static (KIP-345).
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) instance_id: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) session_timeout_ms: i32,
    /// In the member's order of preference.
    pub(super) protocols: Vec<JoinGroupRequestProtocol>,
    /// Empty until the leader has assigned something.
    pub(super) assignment: Bytes,
    /// The JoinGroup that waits for the rebalance.
    pub(super) joining: Option<RequestId>,
    /// The SyncGroup that waits for the leader's assignment.
    pub(super) syncing: Option<RequestId>,
    /// A new member has no member id to heartbeat with until its first JoinGroup is answered.
    pub(super) is_new: bool,
    /// On the monotonic clock.
    pub(super) session_deadline_ms: i64,
}

impl Member {
    /// The member's data for the protocol that the group runs; empty for a protocol it does not know.
    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        self.protocols.iter().find(|p| p.name == protocol).map(|p| p.metadata.clone()).unwrap_or_default()
    }

    /// The first of its protocols that all members know.
    pub(super) fn vote(&self, candidates: &BTreeSet<&str>) -> Option<&str> {
        self.protocols.iter().map(|p| p.name.as_str()).find(|name| candidates.contains(name))
    }

    /// Whether the session may pass its deadline: a member that waits for the group needs no heartbeat.
    pub(super) fn has_satisfied_heartbeat(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }

    /// Estimate of the memory that it takes.
    pub(super) fn size_bytes(&self, member_id: &str) -> usize {
        const MEMBER_BYTES: usize = 400;
        let instance_id = self.instance_id.as_ref().map_or(0, String::len);
        MEMBER_BYTES
            + 3 * member_id.len()
            + 2 * instance_id
            + self.client_id.len()
            + self.client_host.len()
            + protocols_bytes(&self.protocols)
            + self.assignment.len()
    }
}

/// Memory of a member's protocols.
pub(super) fn protocols_bytes(protocols: &[JoinGroupRequestProtocol]) -> usize {
    const PROTOCOL_BYTES: usize = 64;
    protocols.iter().map(|p| PROTOCOL_BYTES + p.name.len() + p.metadata.len()).sum()
}
