//! Messages that raft must not see. Raft takes it for granted that only correct members send to it, and panics
//! otherwise; and what it has appended has to be written, applied and read back by the next start. So each message is
//! checked against what a member can have sent to a node in this state, and dropped if it is impossible: nothing of it
//! is kept, and it does not count as an error of the disk.
//!
//! A member that lies within these bounds is believed: the caller checks that the sender is a member.

use std::collections::BTreeSet;

use bytes::Bytes;
use protobuf::Message as _;
use raft::eraftpb::{ConfState, Entry, EntryType, Message, MessageType};
use raft::{CAMPAIGN_TRANSFER, GetEntriesContext, INVALID_ID, INVALID_INDEX, StateRole};
use wire::batch::{Attributes, Batch};
use wire::record::RecordReader;

use super::{Node, read_index};
use crate::snapshot::Snapshot;
use crate::{QuorumError, StateMachine, VoterSet, batches};

/// Terms are leader epochs in the log, and each candidate needs the next one.
const TERM_MAX: u64 = i32::MAX as u64 - 1;

/// No node has missed so many elections. A node that knows no term yet accepts any.
const TERM_LEAD_MAX: u64 = 1 << 20;

/// Indexes are counted up from 0, so far they do not get.
const INDEX_MAX: u64 = i64::MAX as u64 / 2;

type CheckResult = Result<(), QuorumError>;

fn refuse<T>(reason: &'static str) -> Result<T, QuorumError> {
    Err(QuorumError::Impossible(reason.into()))
}

fn require(is_so: bool, reason: &'static str) -> CheckResult {
    if is_so { Ok(()) } else { refuse(reason) }
}

impl<M: StateMachine> Node<M> {
    /// Whether a member can have sent a message to this one.
    pub(crate) fn check_message(&self, message: &Message) -> CheckResult {
        let raft = &self.raft.raft;
        let kind = message.get_msg_type();
        let last_index = raft.raft_log.last_index();
        require((1..=TERM_MAX).contains(&message.term), "its term is none")?;
        require(raft.term == 0 || message.term <= raft.term + TERM_LEAD_MAX, "its term is too far ahead")?;
        require(message.from != INVALID_ID && message.request_snapshot == INVALID_INDEX, "it is not filled in")?;
        require(message.index.max(message.commit) <= INDEX_MAX, "there is no such entry")?;
        let is_transfer = kind == MessageType::MsgRequestVote && message.context == CAMPAIGN_TRANSFER;
        let has_known_context = is_transfer || read_index::request_number(message).is_some();
        require(message.context.is_empty() || has_known_context, "it has a context")?;
        require(kind == MessageType::MsgAppend || message.entries.is_empty(), "it has entries")?;
        match kind {
            MessageType::MsgAppend | MessageType::MsgHeartbeat | MessageType::MsgSnapshot => {
                if message.term < raft.term {
                    // It is answered, and no more.
                    return Ok(());
                }
                let is_led_by_another =
                    message.term == raft.term && ![INVALID_ID, message.from].contains(&raft.leader_id);
                require(!is_led_by_another, "another member leads in its term")?;
                match kind {
                    MessageType::MsgAppend => self.check_append(message),
                    MessageType::MsgHeartbeat => {
                        require(message.commit <= last_index, "it commits an entry that this node has never had")
                    }
                    _ => self.check_snapshot(message),
                }
            }
            MessageType::MsgAppendResponse | MessageType::MsgHeartbeatResponse => {
                let is_of_this_leader = message.term == raft.term && raft.state == StateRole::Leader;
                let is_possible =
                    message.index.max(message.commit) <= last_index && message.reject_hint <= message.index;
                require(!is_of_this_leader || is_possible, "it has entries that its leader has not")
            }
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => {
                let is_possible = message.log_term < message.term
                    && message.commit <= message.index
                    && message.commit_term <= message.log_term;
                require(is_possible, "its log ends behind its term or before what it has committed")
            }
            MessageType::MsgTimeoutNow => {
                let is_from_leader = [INVALID_ID, message.from].contains(&raft.leader_id);
                let is_possible = message.term < raft.term || message.term == raft.term && is_from_leader;
                require(is_possible, "only the leader can hand over")
            }
            _ => Ok(()),
        }
    }

    fn check_append(&self, message: &Message) -> CheckResult {
        let log = &self.raft.raft.raft_log;
        // A cluster begins with entry 1, which comes in a snapshot.
        require(message.index > 0 && message.log_term > 0, "its entries begin before the first")?;
        let mut term = message.log_term;
        for (entry, index) in message.entries.iter().zip(message.index + 1..) {
            require(entry.index == index && entry.term >= term, "its entries do not follow each other")?;
            term = entry.term;
        }
        require(term <= message.term, "it has entries of a term that is to come")?;
        if message.index < log.committed || !log.match_term(message.index, message.log_term) {
            // Nothing is appended.
            return Ok(());
        }
        let mut members = None;
        for entry in &message.entries {
            match entry.get_entry_type() {
                EntryType::EntryNormal => self.check_entry(entry)?,
                EntryType::EntryConfChange => {
                    let before = match members.take() {
                        Some(before) => before,
                        None => self.members_before(message.index)?,
                    };
                    members = Some(self.check_change(&before, entry)?);
                }
                EntryType::EntryConfChangeV2 => return refuse("joint changes of the members are not served"),
            }
        }
        Ok(())
    }

    fn check_entry(&self, entry: &Entry) -> CheckResult {
        require(entry.context.is_empty(), "an entry has a context")?;
        if entry.data.is_empty() {
            return Ok(());
        }
        let batch = self.check_batch(&entry.data, Attributes::default())?;
        let values = batches::values(&batch)?;
        self.machine().check(&values).or_else(|_| refuse("an entry has records that nobody writes"))
    }

    /// A change of the members is one step from one set to the next, and the same that raft is given. Returns the next
    /// set.
    fn check_change(&self, before: &VoterSet, entry: &Entry) -> Result<VoterSet, QuorumError> {
        let batch = self.check_batch(&entry.context, Attributes::default().with_control())?;
        let Ok(Some(set)) = VoterSet::from_batch(&batch) else { return refuse("a change of the members names none") };
        check_members(&set.conf_state())?;
        let change = set.change_from(before);
        let is_same = change.write_to_bytes().is_ok_and(|bytes| bytes == entry.data);
        let is_one_step = before.ids_after(&change) == set.ids();
        require(is_same && is_one_step, "a change of the members is not the step that it says")?;
        Ok(set)
    }

    /// The members after all entries up to an index that this node has.
    fn members_before(&self, index: u64) -> Result<VoterSet, QuorumError> {
        let log = &self.raft.raft.raft_log;
        let entries = log.slice(self.applied() + 1, index + 1, None, GetEntriesContext::empty(false))?;
        let is_change = |entry: &&Entry| entry.get_entry_type() == EntryType::EntryConfChange;
        match entries.iter().rfind(is_change) {
            Some(entry) => {
                let batch = Batch::parse(&entry.context).map_err(QuorumError::corrupt)?;
                Ok(VoterSet::from_batch(&batch)?.unwrap_or_default())
            }
            None => Ok(VoterSet::clone(&self.voters)),
        }
    }

    /// The batch of an entry: whole, and nothing that its log would refuse or its reader not find.
    fn check_batch(&self, bytes: &Bytes, attributes: Attributes) -> Result<Batch, QuorumError> {
        let Ok(batch) = Batch::parse(bytes) else { return refuse("an entry is no batch") };
        let header = &batch.header;
        let is_whole = batch.bytes.len() == bytes.len() && batch.verify_crc().is_ok();
        require(is_whole && bytes.len() <= self.raft.store().entry_bytes_max(), "an entry is not one whole batch")?;
        let is_plain = header.attributes == attributes && !header.has_producer_id() && header.base_offset >= 0;
        require(is_plain, "an entry is a batch of another kind")?;
        let mut next_offset = header.base_offset;
        for record in RecordReader::new(header, batch.section()) {
            let is_next = record.is_ok_and(|record| record.offset == next_offset);
            require(is_next, "an entry has records that cannot be read")?;
            next_offset += 1;
        }
        let is_counted = next_offset > header.base_offset && next_offset == header.next_offset();
        require(is_counted, "an entry does not have as many records as it says")?;
        Ok(batch)
    }

    fn check_snapshot(&self, message: &Message) -> CheckResult {
        let metadata = message.get_snapshot().get_metadata();
        let is_of_its_time = (1..=message.term).contains(&metadata.term) && (1..=INDEX_MAX).contains(&metadata.index);
        require(is_of_its_time, "its snapshot is of no place in the log")?;
        check_members(metadata.get_conf_state())?;
        if metadata.index <= self.applied() {
            return Ok(());
        }
        let Ok(snapshot) = Snapshot::decode(message.get_snapshot().data.clone()) else {
            return refuse("its snapshot is not whole");
        };
        let is_same = snapshot.to_message(Bytes::new()).metadata == message.get_snapshot().metadata;
        // The first snapshot of a cluster has no records, nor has a node that takes it.
        require(is_same && snapshot.id.position().offset >= self.state_offset(), "its snapshot is of another place")?;
        self.machine().check(&snapshot.values).or_else(|_| refuse("its snapshot has records that nobody writes"))
    }
}

/// Each member has one raft id, and there is a voter.
fn check_members(state: &ConfState) -> CheckResult {
    let ids: BTreeSet<u64> = state.voters.iter().chain(&state.learners).copied().collect();
    let is_each_once = ids.len() == state.voters.len() + state.learners.len() && !ids.contains(&INVALID_ID);
    let is_joint = !state.voters_outgoing.is_empty() || !state.learners_next.is_empty() || state.auto_leave;
    require(is_each_once && !state.voters.is_empty() && !is_joint, "its members are none of raft's")
}
