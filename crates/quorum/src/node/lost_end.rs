//! A member whose log ends before what it has acknowledged: its disk has lost the end, and the synced offset with it.
//!
//! Raft has no message for this. The leader never goes back before what the member had acknowledged, so the member
//! would be sent nothing that it can append until another node leads. So it says where its log ends, and the leader,
//! which has all that is committed, believes it and sends the rest again.

use raft::eraftpb::{Message, MessageType};
use raft::{INVALID_ID, StateRole};

use super::Node;
use crate::StateMachine;

impl<M: StateMachine> Node<M> {
    /// Answers a leader that commits what this node has acknowledged and does not have. Its message is refused.
    pub(crate) fn admit_lost_end(&mut self, heartbeat: &Message) {
        let (raft, last_index) = (&self.raft.raft, self.last_index());
        let is_from_leader = heartbeat.term == raft.term && [INVALID_ID, heartbeat.from].contains(&raft.leader_id);
        if heartbeat.get_msg_type() != MessageType::MsgHeartbeat || !is_from_leader || heartbeat.commit <= last_index {
            return;
        }
        tracing::error!(
            last_index,
            committed = heartbeat.commit,
            "the metadata log has lost its end; it is fetched again"
        );
        let mut rejection = Message {
            from: heartbeat.to,
            to: heartbeat.from,
            term: heartbeat.term,
            index: last_index + 1,
            reject: true,
            reject_hint: last_index,
            ..Message::default()
        };
        rejection.set_msg_type(MessageType::MsgAppendResponse);
        self.send(vec![rejection]);
    }

    /// Forgets that a member has what it says that it lacks. Raft takes the message for the answer to a probe.
    pub(crate) fn believe_lost_end(&mut self, response: &Message) {
        let raft = &mut self.raft.raft;
        let is_rejection = response.get_msg_type() == MessageType::MsgAppendResponse && response.reject;
        if !is_rejection || raft.state != StateRole::Leader || response.term != raft.term {
            return;
        }
        let Some(progress) = raft.mut_prs().get_mut(response.from) else { return };
        if response.reject_hint < progress.matched {
            tracing::warn!(
                member = response.from,
                had = progress.matched,
                has = response.reject_hint,
                "a member has lost entries"
            );
            progress.matched = response.reject_hint;
            progress.become_probe();
            progress.next_idx = response.index + 1;
        }
    }
}
