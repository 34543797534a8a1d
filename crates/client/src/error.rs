//! What can go wrong between a client and a cluster, in words that a person at a terminal can use.

use wire::ErrorCode;

use crate::{ConnectionError, TopicPartition};

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClientError {
    #[error("no broker can be reached: {reason}")]
    Unreachable { reason: ConnectionError },
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("{subject}: {}", describe(*code, message.as_deref()))]
    Refused { subject: String, code: ErrorCode, message: Option<String> },
    #[error("topic {topic} does not exist")]
    UnknownTopic { topic: String },
    #[error("topic {} has no partition {}", .0.topic, .0.partition)]
    UnknownPartition(TopicPartition),
    #[error("partition {0} has no leader")]
    NoLeader(TopicPartition),
    #[error("broker {broker} is not part of the cluster")]
    UnknownBroker { broker: i32 },
    #[error("the response of {address} does not say anything about {subject}")]
    Missing { address: String, subject: String },
    #[error("the records of {partition} at offset {offset} cannot be read: {reason}")]
    Records { partition: TopicPartition, offset: i64, reason: String },
    #[error("offset {offset} of {partition} is out of range")]
    OffsetOutOfRange { partition: TopicPartition, offset: i64 },
    #[error("a record of {bytes} bytes is larger than a batch may be ({bytes_max})")]
    RecordTooLarge { bytes: usize, bytes_max: usize },
    #[error("group {group} is {state}: its offsets can be reset when its members have stopped")]
    GroupInUse { group: String, state: String },
    #[error("{0} cannot be shifted: the group has no offset of it")]
    NothingToShift(TopicPartition),
    #[error(
        "{address} knows of no metadata quorum: it is older than Apache Kafka 3.3, or keeps its metadata in ZooKeeper"
    )]
    NoQuorum { address: String },
    #[error("{address} cannot {what}: it is older than Apache Kafka {since}")]
    TooOld { address: String, what: &'static str, since: &'static str },
    #[error(
        "{state:?} is no state of a transaction; they are Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, \
         CompleteAbort and PrepareEpochFence"
    )]
    UnknownTransactionState { state: String },
    #[error("the system has no randomness to give")]
    NoRandomness,
    #[error("the producer has been closed")]
    ProducerClosed,
}

impl ClientError {
    /// The broker's answer to `subject`, unless it is "no error".
    pub fn check(subject: impl FnOnce() -> String, code: ErrorCode, message: Option<&str>) -> Result<(), Self> {
        match code {
            ErrorCode::NONE => Ok(()),
            code => Err(Self::Refused { subject: subject(), code, message: message.map(str::to_owned) }),
        }
    }

    /// Whether the same thing may succeed a moment later.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Connection(error) | Self::Unreachable { reason: error } => error.is_retriable(),
            Self::Refused { code, .. } => code.is_retriable(),
            Self::NoLeader(_) | Self::UnknownTopic { .. } | Self::UnknownPartition(_) => true,
            _ => false,
        }
    }

    /// The error code of the broker, where it is one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// The broker's own words where it has some, and the name of the code, which is what one searches for.
fn describe(code: ErrorCode, message: Option<&str>) -> String {
    match message {
        Some(message) if !message.is_empty() => format!("{} ({code})", message.trim_end_matches('.')),
        _ => code.to_string(),
    }
}
