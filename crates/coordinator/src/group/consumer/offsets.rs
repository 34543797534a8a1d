//! Who may commit and fetch offsets of the group.

use wire::{ErrorCode, Uuid};

use super::ConsumerGroup;
use super::member::Current;

/// First version of OffsetCommit whose senders know epochs of members.
const MEMBER_EPOCH_SINCE: i16 = 9;

/// A commit whose sender is a member, or needs not be one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CommitCheck<'a> {
    /// All partitions may be committed.
    Accepted,
    /// The member has been in another epoch since. It may commit what was its own in both.
    InEpoch { epoch: i32, current: &'a Current, error: ErrorCode },
}

impl CommitCheck<'_> {
    /// Whether an offset of the partition may be committed.
    pub fn partition(&self, topic: Uuid, partition: i32) -> Result<(), ErrorCode> {
        match self {
            Self::Accepted => Ok(()),
            Self::InEpoch { epoch, current, error } => {
                let is_own = current.assignment_epoch(topic, partition).is_some_and(|since| since <= *epoch);
                if is_own { Ok(()) } else { Err(*error) }
            }
        }
    }
}

impl ConsumerGroup {
    /// Whether the sender may commit. `api_version` is that of an OffsetCommit, and none for a TxnOffsetCommit, whose
    /// sender need not say who it is.
    pub fn check_commit(
        &self,
        api_version: Option<i16>,
        member_id: &str,
        instance_id: Option<&str>,
        epoch: i32,
    ) -> Result<CommitCheck<'_>, ErrorCode> {
        if epoch < 0 && self.is_empty() {
            return Ok(CommitCheck::Accepted);
        }
        if api_version.is_none() && epoch == -1 && member_id.is_empty() && instance_id.is_none() {
            return Ok(CommitCheck::Accepted);
        }
        let metadata = self.members.get(member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        let current = self.current.get(member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        let is_classic = metadata.classic.is_some();
        if !is_classic && api_version.is_some_and(|version| version < MEMBER_EPOCH_SINCE) {
            return Err(ErrorCode::UNSUPPORTED_VERSION);
        }
        let error = match api_version {
            Some(_) if !is_classic => ErrorCode::STALE_MEMBER_EPOCH,
            _ => ErrorCode::ILLEGAL_GENERATION,
        };
        match epoch {
            epoch if epoch == current.epoch => Ok(CommitCheck::Accepted),
            epoch if epoch > current.epoch => Err(error),
            epoch => Ok(CommitCheck::InEpoch { epoch, current, error }),
        }
    }

    /// Whether the sender may fetch offsets. Administrators do not say who they are.
    pub fn check_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        if member_id.is_none() && epoch < 0 {
            return Ok(());
        }
        let member_id = member_id.unwrap_or_default();
        let metadata = self.members.get(member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        match self.current.get(member_id) {
            Some(current) if current.epoch == epoch => Ok(()),
            _ if metadata.classic.is_some() => Err(ErrorCode::ILLEGAL_GENERATION),
            _ => Err(ErrorCode::STALE_MEMBER_EPOCH),
        }
    }
}
