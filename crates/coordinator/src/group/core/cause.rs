//! Why a rebalance begins, and which member caused it.

use super::Group;

/// What made a rebalance necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebalanceCause {
    MemberJoined,
    /// A member has joined again, with other protocols or as the leader.
    MemberRejoined,
    MemberLeft,
    /// A member was silent for too long.
    SessionExpired,
    /// A member has not sent SyncGroup in time.
    SyncExpired,
    /// A static member came back while others were being assigned to, or with other protocols.
    StaticMemberReplaced,
    AssignmentNotStored,
    /// The bound of members was lowered before the broker started.
    TooManyMembers,
}

impl RebalanceCause {
    pub const ALL: [Self; 8] = [
        Self::MemberJoined,
        Self::MemberRejoined,
        Self::MemberLeft,
        Self::SessionExpired,
        Self::SyncExpired,
        Self::StaticMemberReplaced,
        Self::AssignmentNotStored,
        Self::TooManyMembers,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::MemberJoined => "member_joined",
            Self::MemberRejoined => "member_rejoined",
            Self::MemberLeft => "member_left",
            Self::SessionExpired => "session_expired",
            Self::SyncExpired => "sync_expired",
            Self::StaticMemberReplaced => "static_member_replaced",
            Self::AssignmentNotStored => "assignment_not_stored",
            Self::TooManyMembers => "too_many_members",
        }
    }
}

/// A cause, and the member that caused it. Of several, it is the first; the ids are empty if no member did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    pub cause: RebalanceCause,
    pub member_id: String,
    pub client_id: String,
}

impl Trigger {
    /// No member caused it.
    pub(super) fn of_none(cause: RebalanceCause) -> Self {
        Self { cause, member_id: String::new(), client_id: String::new() }
    }
}

impl Group {
    /// Caused by a member. It has to be created before the member is removed.
    pub(super) fn trigger(&self, cause: RebalanceCause, member_id: &str) -> Trigger {
        let client_id = self.members.get(member_id).map(|member| member.client_id.clone()).unwrap_or_default();
        Trigger { cause, member_id: member_id.to_owned(), client_id }
    }
}
