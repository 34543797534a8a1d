//! Raft's messages as bytes, for whoever carries them to the other members.

use bytes::Bytes;
use protobuf::Message as _;
use raft::eraftpb::Message;

use super::QuorumError;

/// A message as it goes over the wire.
pub fn encode(message: &Message) -> Result<Bytes, QuorumError> {
    message.write_to_bytes().map(Bytes::from).map_err(|error| QuorumError::Raft(error.to_string().into()))
}

/// What [`encode`] made. What was sent to this node by mistake or malice is an error, or a message that is passed over.
pub fn decode(bytes: &Bytes) -> Result<Message, QuorumError> {
    Message::parse_from_bytes(bytes).map_err(|error| QuorumError::Raft(error.to_string().into()))
}

/// About how much memory a message holds.
pub(super) fn size_bytes(message: &Message) -> usize {
    let entries: usize = message.entries.iter().map(|entry| entry.data.len() + entry.context.len()).sum();
    entries + message.get_snapshot().data.len() + size_of::<Message>()
}
