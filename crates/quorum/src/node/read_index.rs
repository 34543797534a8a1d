//! Whether what a leader knows to be committed is all there is (ReadIndex: Ongaro's thesis on Raft, section 6.4).
//!
//! A leader that has just been elected does not know yet what the one before it has committed, and a leader that was
//! replaced may not know that it was. So a leader answers when it has committed an entry of its own epoch, and most
//! voters have said after the request that they still follow it.

use raft::eraftpb::{Message, MessageType};

use super::Node;
use crate::{QuorumError, StateMachine};

/// How many requests may wait for the voters' confirmation.
pub(crate) const READ_INDEX_REQUESTS_MAX: usize = 64;

/// What a leader knew to be committed when most voters followed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// The epoch that it leads in. What was committed in earlier ones is below the high watermark.
    pub epoch: i32,
    pub high_watermark: i64,
}

/// The request that a heartbeat asks the voters to confirm, or its answer confirms.
pub(crate) fn request_number(message: &Message) -> Option<u64> {
    let is_heartbeat = matches!(message.get_msg_type(), MessageType::MsgHeartbeat | MessageType::MsgHeartbeatResponse);
    let number = message.context[..].try_into().ok().map(u64::from_be_bytes);
    number.filter(|number| is_heartbeat && *number > 0)
}

/// How raft carries a request.
pub(crate) fn context(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Requests are numbered, so that each is confirmed by the answers to its own heartbeat.
#[derive(Default)]
pub(crate) struct ReadIndexRequests {
    last: u64,
    confirmed: Vec<u64>,
}

impl<M: StateMachine> Node<M> {
    /// Asks the voters whether this node still leads, and returns the number of the request. [`Self::take_confirmed`]
    /// has it when most of them have said so, which is never if another one leads.
    pub fn confirm(&mut self) -> Result<u64, QuorumError> {
        self.check()?;
        self.resume()?;
        if storage::injected_fault!(CatchUpBeforeFirstCommit) && self.leads() {
            self.read_index_requests.last += 1;
            self.read_index_requests.confirmed.push(self.read_index_requests.last);
            return Ok(self.read_index_requests.last);
        }
        if self.leader_epoch().is_none() {
            return Err(QuorumError::NotLeader);
        }
        self.read_index_requests.last += 1;
        self.raft.read_index(context(self.read_index_requests.last));
        Ok(self.read_index_requests.last)
    }

    /// ReadIndexRequests that were confirmed since the last call.
    pub fn take_confirmed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.read_index_requests.confirmed)
    }

    /// Records the requests that raft has confirmed.
    pub(crate) fn record_confirmed(&mut self, read_states: Vec<raft::ReadState>) {
        let numbers = read_states.into_iter().filter_map(|state| state.request_ctx.try_into().ok());
        self.read_index_requests.confirmed.extend(numbers.map(u64::from_be_bytes));
    }
}
