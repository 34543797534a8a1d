//! What waits for a consumer group (KIP-848): requests that its next change is made of, and answers that are given when
//! the change is durable.

use tokio::sync::oneshot;
use wire::ErrorCode;
use wire::api::consumer_group_heartbeat::ConsumerGroupHeartbeatResponse;
use wire::api::join_group::JoinGroupResponse;
use wire::api::leave_group::{MemberIdentity, MemberResponse};
use wire::api::sync_group::{SyncGroupRequest, SyncGroupResponse};

use super::consumer::{ClassicJoin, ConsumerGroup, Heartbeat, Record, ResolvedRegex};
use super::core::{join_error, sync_error};

/// The members of a group, and what they wait for.
pub(super) struct Consumers {
    pub(super) group: ConsumerGroup,
    /// Whether a change is on its way to the log.
    pub(super) is_writing: bool,
    /// What is to be done when it has got there.
    pub(super) waiting: Vec<Work>,
}

pub(super) enum Work {
    Heartbeat {
        heartbeat: Box<Heartbeat>,
        /// Members of the classic protocol that come with it.
        upgrade: Option<Vec<Record>>,
        answering: oneshot::Sender<ConsumerGroupHeartbeatResponse>,
    },
    Join(Box<ClassicJoin>, oneshot::Sender<JoinGroupResponse>),
    Sync(SyncGroupRequest, oneshot::Sender<SyncGroupResponse>),
    Leave(Vec<MemberIdentity>, oneshot::Sender<Left>),
    /// The topics of the group's patterns; none if they could not be found out.
    Resolved(Option<Vec<(String, ResolvedRegex)>>),
}

/// What has become of members that leave.
pub(super) type Left = Result<Vec<MemberResponse>, ErrorCode>;

/// An answer that is given when what it says is durable.
pub(super) enum Answer {
    Heartbeat(oneshot::Sender<ConsumerGroupHeartbeatResponse>, ConsumerGroupHeartbeatResponse),
    Join(oneshot::Sender<JoinGroupResponse>, JoinGroupResponse),
    Sync(oneshot::Sender<SyncGroupResponse>, SyncGroupResponse),
    Leave(oneshot::Sender<Left>, Left),
}

impl Consumers {
    pub(super) fn new(group: ConsumerGroup) -> Self {
        Self { group, is_writing: false, waiting: Vec::new() }
    }

    /// Whether nothing is lost if it is forgotten.
    pub(super) fn is_vacant(&self) -> bool {
        self.is_idle() && !self.group.is_stored()
    }

    /// Whether there are no members, and none that are about to be.
    pub(super) fn is_idle(&self) -> bool {
        self.group.is_empty() && !self.is_writing && self.waiting.is_empty()
    }

    /// When the coordinator has to look at the group. Timers wait for a change that is on its way.
    pub(super) fn wake_ms(&self) -> i64 {
        if self.is_writing { i64::MAX } else { self.group.wake_ms() }
    }

    pub(super) fn check_delete(&self) -> Result<(), ErrorCode> {
        if !self.group.is_empty() {
            return Err(ErrorCode::NON_EMPTY_GROUP);
        }
        // The last member's end may still be on its way.
        if self.is_idle() { Ok(()) } else { Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) }
    }

    /// Refuses what waits for a group that is one of the classic protocol now: who sent it tries again, and then gets
    /// there.
    pub(super) fn refuse_waiting(&mut self) {
        for work in std::mem::take(&mut self.waiting) {
            let answer = match work {
                Work::Heartbeat { answering, .. } => {
                    let response = ConsumerGroupHeartbeatResponse {
                        error_code: ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
                        ..Default::default()
                    };
                    Answer::Heartbeat(answering, response)
                }
                Work::Join(join, sender) => {
                    Answer::Join(sender, join_error(&join.request.member_id, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS))
                }
                // To other errors clients of SyncGroup have no answer.
                Work::Sync(_, sender) => Answer::Sync(sender, sync_error(ErrorCode::REBALANCE_IN_PROGRESS)),
                Work::Leave(_, sender) => Answer::Leave(sender, Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)),
                Work::Resolved(_) => continue,
            };
            answer.give();
        }
    }
}

impl Answer {
    pub(super) fn give(self) {
        // The receiver is dropped with its connection.
        match self {
            Self::Heartbeat(sender, response) => drop(sender.send(response)),
            Self::Join(sender, response) => drop(sender.send(response)),
            Self::Sync(sender, response) => drop(sender.send(response)),
            Self::Leave(sender, left) => drop(sender.send(left)),
        }
    }

    /// The change could not be written.
    pub(super) fn fail(&mut self, error_code: ErrorCode) {
        match self {
            Self::Heartbeat(_, response) => {
                *response = ConsumerGroupHeartbeatResponse { error_code, ..Default::default() };
            }
            Self::Join(_, response) => *response = join_error(&response.member_id, error_code),
            Self::Sync(_, response) => *response = sync_error(error_code),
            Self::Leave(_, left) => *left = Err(error_code),
        }
    }
}
