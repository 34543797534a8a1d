//! A broker whose disk hangs: threads that wait for it stand still, and all others go on.

use raft::eraftpb::MessageType;

use super::{Lane, Process, Said};
use crate::partition::Acks;

impl Process {
    /// Has somebody wait for the disk as long as it hangs, and does what follows when that is long.
    pub(super) fn feel_disk(&mut self, hangs: bool) {
        match self.hanging.take() {
            Some(waiting) if !hangs => self.disk_watch.end(waiting),
            waiting if hangs => self.hanging = waiting.or_else(|| Some(self.disk_watch.begin(0))),
            _ => {}
        }
        let is_stalled = self.disk_watch.is_stalled();
        if self.replica.set_stalled(is_stalled) {
            // A fenced broker must not be silent meanwhile.
            self.heartbeats = Lane::default();
        }
    }

    pub(super) fn leads_quorum(&self) -> bool {
        self.quorum.status().leader == Some(self.id)
    }

    /// Whether something can be heard while the disk hangs: other threads and tasks wait.
    pub(super) fn goes_without_disk(&self, said: &Said) -> bool {
        use MessageType::{MsgAppendResponse, MsgHeartbeatResponse};
        match said {
            Said::Raft(_, message) => {
                self.leads_quorum() && matches!(message.get_msg_type(), MsgAppendResponse | MsgHeartbeatResponse)
            }
            // Who waits for the disk is only queued.
            Said::Produce(_, _, _, acks) => *acks == Acks::All || self.disk_watch.is_stalled(),
            Said::Join(_) | Said::Died(_) | Said::Fetched(..) | Said::Commit(..) => false,
            _ => true,
        }
    }
}
