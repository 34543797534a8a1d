//! Raft's messages on the wire. They have a schema like any other request: a message that is too long, or has a number
//! that raft does not count with, is an error before raft sees it, and only bytes that this node wrote itself are read
//! as protobuf.

use protobuf::Message as _;
use raft::CAMPAIGN_TRANSFER;
use raft::eraftpb::{ConfChange, ConfChangeType, Entry, EntryType, Message, MessageType};
use wire::api::quorum_messages::{QuorumEntry, QuorumMessage};

use super::node::read_index;
use super::snapshot::Snapshot;
use super::{QuorumError, VoterKey};

/// Why a message is not one of raft's.
fn impossible(reason: &'static str) -> QuorumError {
    QuorumError::Impossible(reason.into())
}

/// A message as it goes over the wire.
pub fn to_wire(message: Message) -> Result<QuorumMessage, QuorumError> {
    let entries = message.entries.iter().map(entry_to_wire).collect::<Result<Vec<_>, _>>()?;
    Ok(QuorumMessage {
        message_type: message.get_msg_type() as i8,
        to: message.to as i64,
        from: message.from as i64,
        term: counted(message.term)?,
        log_term: counted(message.log_term)?,
        index: counted(message.index)?,
        commit: counted(message.commit)?,
        commit_term: counted(message.commit_term)?,
        reject: message.reject,
        reject_hint: counted(message.reject_hint)?,
        is_transfer: message.context == CAMPAIGN_TRANSFER,
        question: counted(read_index::request_number(&message).unwrap_or(0))?,
        entries,
        snapshot: message.get_snapshot().data.clone(),
    })
}

/// What [`to_wire`] made. What was sent to this node by mistake or malice is [`QuorumError::Impossible`].
pub fn from_wire(wire: QuorumMessage) -> Result<Message, QuorumError> {
    let kind = message_type(wire.message_type).ok_or_else(|| impossible("members send no messages of this type"))?;
    let mut message = Message {
        to: wire.to as u64,
        from: wire.from as u64,
        term: uncounted(wire.term)?,
        log_term: uncounted(wire.log_term)?,
        index: uncounted(wire.index)?,
        commit: uncounted(wire.commit)?,
        commit_term: uncounted(wire.commit_term)?,
        reject: wire.reject,
        reject_hint: uncounted(wire.reject_hint)?,
        ..Message::default()
    };
    message.set_msg_type(kind);
    if wire.is_transfer {
        message.context = CAMPAIGN_TRANSFER.into();
    } else if wire.question != 0 {
        message.context = read_index::context(uncounted(wire.question)?).into();
    }
    let entries = wire.entries.into_iter().map(entry_from_wire).collect::<Result<Vec<_>, _>>()?;
    message.set_entries(entries.into());
    if !wire.snapshot.is_empty() {
        let snapshot = Snapshot::decode(wire.snapshot.clone()).map_err(|_| impossible("the snapshot is not whole"))?;
        *message.mut_snapshot() = snapshot.to_message(wire.snapshot);
    }
    Ok(message)
}

/// The types that members send each other.
fn message_type(number: i8) -> Option<MessageType> {
    use MessageType::*;
    let all = [
        MsgAppend,
        MsgAppendResponse,
        MsgRequestVote,
        MsgRequestVoteResponse,
        MsgSnapshot,
        MsgHeartbeat,
        MsgHeartbeatResponse,
        MsgTimeoutNow,
        MsgRequestPreVote,
        MsgRequestPreVoteResponse,
    ];
    all.into_iter().find(|kind| *kind as i8 == number)
}

fn entry_to_wire(entry: &Entry) -> Result<QuorumEntry, QuorumError> {
    let (term, index) = (counted(entry.term)?, counted(entry.index)?);
    match entry.get_entry_type() {
        EntryType::EntryNormal => Ok(QuorumEntry { term, index, batch: entry.data.clone(), ..QuorumEntry::default() }),
        EntryType::EntryConfChange => {
            let change = ConfChange::parse_from_bytes(&entry.data).map_err(QuorumError::corrupt)?;
            let batch = entry.context.clone();
            let (change_type, change_of) = (change.get_change_type() as i8, change.node_id as i64);
            Ok(QuorumEntry { term, index, batch, change_type, change_of })
        }
        EntryType::EntryConfChangeV2 => Err(impossible("joint changes of the members are not served")),
    }
}

fn entry_from_wire(wire: QuorumEntry) -> Result<Entry, QuorumError> {
    let mut entry = Entry { term: uncounted(wire.term)?, index: uncounted(wire.index)?, ..Entry::default() };
    if wire.change_type < 0 {
        entry.data = wire.batch;
        return Ok(entry);
    }
    use ConfChangeType::*;
    let kind = [AddNode, RemoveNode, AddLearnerNode].into_iter().find(|kind| *kind as i8 == wire.change_type);
    let mut change = ConfChange { node_id: wire.change_of as u64, ..ConfChange::default() };
    change.set_change_type(kind.ok_or_else(|| impossible("the members do not change in this way"))?);
    entry.set_entry_type(EntryType::EntryConfChange);
    entry.data = change.write_to_bytes().map_err(QuorumError::corrupt)?.into();
    entry.context = wire.batch;
    Ok(entry)
}

fn counted(number: u64) -> Result<i64, QuorumError> {
    i64::try_from(number).map_err(|_| impossible("a number is out of range"))
}

fn uncounted(number: i64) -> Result<u64, QuorumError> {
    u64::try_from(number).map_err(|_| impossible("a number is negative"))
}

/// Whether a member sends a message in its own name.
pub fn is_from(message: &Message, member: VoterKey) -> bool {
    message.from == member.raft_id()
}

/// About how much memory a message holds.
pub(super) fn size_bytes(message: &Message) -> usize {
    let entries: usize = message.entries.iter().map(|entry| entry.data.len() + entry.context.len()).sum();
    entries + message.get_snapshot().data.len() + size_of::<Message>()
}
