//! What nodes and clients say to each other.

use raft::eraftpb::Message;
use wire::ErrorCode;
use wire::api::alter_partition::{AlterPartitionRequest, AlterPartitionResponse};
use wire::api::alter_partition_reassignments::AlterPartitionReassignmentsRequest;
use wire::api::broker_heartbeat::{BrokerHeartbeatRequest, BrokerHeartbeatResponse};
use wire::api::broker_registration::{BrokerRegistrationRequest, BrokerRegistrationResponse};
use wire::api::create_topics::CreateTopicsRequest;
use wire::api::fetch::{FetchRequest, FetchResponse};
use wire::batch::Batch;

use super::groups::Commit;
use super::ledger::Place;
use crate::meta::{ControllerError, Decided, Round};
use crate::partition::Acks;
use crate::quorum::Voter;

/// How long a broker waits for an answer.
const ANSWER_MS: i64 = 700;

/// What the controller is asked.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Register(BrokerRegistrationRequest),
    Heartbeat(BrokerHeartbeatRequest),
    Alter(AlterPartitionRequest),
    CreateTopics(CreateTopicsRequest),
    Reassign(AlterPartitionReassignmentsRequest),
}

/// What it answers.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Registered(BrokerRegistrationResponse),
    Heartbeat(BrokerHeartbeatResponse),
    Altered(AlterPartitionResponse),
    Done,
    NotController,
}

/// What nodes and clients say to each other. Numbers tell to which question an answer belongs.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Raft(Voter, Message),
    /// Wants to be a member of the quorum.
    Join(Voter),
    Hello(u64),
    HighWatermark(u64, i64),
    Ask(u64, Ask),
    Told(u64, Told),
    /// The process of a node has ended.
    Died(i32),
    Fetch(u64, FetchRequest),
    Fetched(u64, FetchResponse),
    Produce(u64, Place, Batch, Acks),
    Produced(u64, Result<i64, ErrorCode>),
    Commit(u64, Commit),
    /// A commit has come to its end, good or bad.
    Committed(u64),
    FetchOffset(String, Place),
}

impl Ask {
    /// Has it decided. `is_alive` says of a broker whether it is known to run.
    pub(super) fn decide(self, round: &mut Round, is_alive: &dyn Fn(i32) -> bool) -> Result<Told, ControllerError> {
        match self {
            Self::Register(request) => round.request(request, is_alive).map(Told::Registered),
            Self::Heartbeat(request) => round.request(request, is_alive).map(Told::Heartbeat),
            Self::Alter(request) => round.request(request, is_alive).map(Told::Altered),
            Self::CreateTopics(request) => round.request(request, is_alive).map(|_| Told::Done),
            Self::Reassign(request) => round.request(request, is_alive).map(|_| Told::Done),
        }
    }
}

impl Told {
    /// Whether a request that was answered so shows that the broker of its sender's number is alive.
    pub(super) fn is_sign_of_life(&self) -> bool {
        match self {
            Self::Registered(answer) => BrokerRegistrationRequest::is_sign_of_life(answer),
            Self::Heartbeat(answer) => BrokerHeartbeatRequest::is_sign_of_life(answer),
            _ => true,
        }
    }
}

/// A question that is under way, or when to ask the next one.
#[derive(Default)]
pub(super) struct Lane {
    /// Its number, and since when.
    pub(super) waits_for: Option<(u64, i64)>,
    pub(super) next_ms: i64,
}

impl Lane {
    /// Whether something may be asked now. A question that was not answered in time is given up.
    pub(super) fn is_free(&mut self, now_ms: i64) -> bool {
        if self.waits_for.is_some_and(|(_, since_ms)| now_ms - since_ms >= ANSWER_MS) {
            self.waits_for = None;
        }
        self.waits_for.is_none() && self.next_ms <= now_ms
    }

    /// Whether this is the answer that it waits for.
    pub(super) fn takes(&mut self, number: u64) -> bool {
        let is_it = self.waits_for.is_some_and(|(waited, _)| waited == number);
        if is_it {
            self.waits_for = None;
        }
        is_it
    }
}
