//! Records of `__consumer_offsets`: their keys, and the values of committed offsets and of groups of the classic
//! protocol; `consumer` has those of KIP-848 groups. A key is its type and a body, a value its version and a body; a
//! null value is a tombstone.

pub mod consumer;

use bytes::{Bytes, BytesMut};

use self::consumer::{ConsumerGroupKey, ConsumerGroupMemberKey, ConsumerGroupRegularExpressionKey};
use super::{Stored, split_number, stored};
use crate::Uuid;
use crate::codec::{Result, Wire, WireError, Writer};

crate::message! {
    pub struct OffsetCommitKey {
        group: String, 0..;
        topic: String, 0..;
        partition: i32, 0..;
    }

    pub struct OffsetCommitValue {
        offset: i64, 0..;
        leader_epoch: i32 = -1, 3..;
        metadata: String, 0..;
        commit_timestamp: i64, 0..;
        expire_timestamp: i64 = -1, 1..=1;
        topic_id: Uuid, 4.., tag 0;
    }

    pub struct GroupMetadataKey {
        group: String, 0..;
    }

    pub struct GroupMetadataValue {
        protocol_type: String, 0..;
        generation: i32, 0..;
        protocol: Option<String>, 0..;
        leader: Option<String>, 0..;
        current_state_timestamp: i64 = -1, 2..;
        members: Vec<MemberMetadata>, 0..;
    }

    pub struct MemberMetadata {
        member_id: String, 0..;
        group_instance_id: Option<String>, 3..;
        client_id: String, 0..;
        client_host: String, 0..;
        rebalance_timeout: i32 = -1, 1..;
        session_timeout: i32, 0..;
        subscription: Bytes, 0..;
        assignment: Bytes, 0..;
    }
}

stored! {
    OffsetCommitKey 0..=0, i16::MAX;
    OffsetCommitValue 0..=4, 4;
    GroupMetadataKey 0..=0, i16::MAX;
    GroupMetadataValue 0..=4, 4;
}

/// The key of a record: what it is about.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupRecordKey {
    OffsetCommit(OffsetCommitKey),
    GroupMetadata(GroupMetadataKey),
    ConsumerGroupMetadata(ConsumerGroupKey),
    ConsumerGroupPartitionMetadata(ConsumerGroupKey),
    ConsumerGroupMemberMetadata(ConsumerGroupMemberKey),
    ConsumerGroupTargetAssignmentMetadata(ConsumerGroupKey),
    ConsumerGroupTargetAssignmentMember(ConsumerGroupMemberKey),
    ConsumerGroupCurrentMemberAssignment(ConsumerGroupMemberKey),
    ConsumerGroupRegularExpression(ConsumerGroupRegularExpressionKey),
}

impl GroupRecordKey {
    /// Offsets before Kafka 0.9.
    const LEGACY_OFFSET_COMMIT: i16 = 0;

    /// Reads a key. Share groups and streams groups have types that are unknown here.
    pub fn read(bytes: &Bytes) -> Result<Self> {
        let (key, body) = split_number(bytes)?;
        match key {
            Self::LEGACY_OFFSET_COMMIT | 1 => OffsetCommitKey::read_body(&body, 0).map(Self::OffsetCommit),
            2 => GroupMetadataKey::read_body(&body, 0).map(Self::GroupMetadata),
            3 => ConsumerGroupKey::read_body(&body, 0).map(Self::ConsumerGroupMetadata),
            4 => ConsumerGroupKey::read_body(&body, 0).map(Self::ConsumerGroupPartitionMetadata),
            5 => ConsumerGroupMemberKey::read_body(&body, 0).map(Self::ConsumerGroupMemberMetadata),
            6 => ConsumerGroupKey::read_body(&body, 0).map(Self::ConsumerGroupTargetAssignmentMetadata),
            7 => ConsumerGroupMemberKey::read_body(&body, 0).map(Self::ConsumerGroupTargetAssignmentMember),
            8 => ConsumerGroupMemberKey::read_body(&body, 0).map(Self::ConsumerGroupCurrentMemberAssignment),
            16 => ConsumerGroupRegularExpressionKey::read_body(&body, 0).map(Self::ConsumerGroupRegularExpression),
            key => Err(WireError::UnknownRecord { key: key as u32, version: 0 }),
        }
    }

    /// The number that the key starts with.
    pub fn record_type(&self) -> i16 {
        match self {
            Self::OffsetCommit(_) => 1,
            Self::GroupMetadata(_) => 2,
            Self::ConsumerGroupMetadata(_) => 3,
            Self::ConsumerGroupPartitionMetadata(_) => 4,
            Self::ConsumerGroupMemberMetadata(_) => 5,
            Self::ConsumerGroupTargetAssignmentMetadata(_) => 6,
            Self::ConsumerGroupTargetAssignmentMember(_) => 7,
            Self::ConsumerGroupCurrentMemberAssignment(_) => 8,
            Self::ConsumerGroupRegularExpression(_) => 16,
        }
    }

    pub fn write(&self) -> Bytes {
        let mut out = BytesMut::new();
        let mut w = Writer::new(&mut out, 0, false);
        self.record_type().write(&mut w);
        match self {
            Self::OffsetCommit(body) => body.write(&mut w),
            Self::GroupMetadata(body) => body.write(&mut w),
            Self::ConsumerGroupMetadata(body)
            | Self::ConsumerGroupPartitionMetadata(body)
            | Self::ConsumerGroupTargetAssignmentMetadata(body) => body.write(&mut w),
            Self::ConsumerGroupMemberMetadata(body)
            | Self::ConsumerGroupTargetAssignmentMember(body)
            | Self::ConsumerGroupCurrentMemberAssignment(body) => body.write(&mut w),
            Self::ConsumerGroupRegularExpression(body) => body.write(&mut w),
        }
        out.freeze()
    }
}

impl OffsetCommitValue {
    pub fn from_bytes(bytes: &Bytes) -> Result<Self> {
        Self::read_versioned(bytes)
    }

    /// Version 4, or 1 when the commit has a time at which it expires (`GroupCoordinatorRecordHelpers`).
    pub fn to_bytes(&self) -> Bytes {
        self.write_versioned(if self.expire_timestamp == -1 { 4 } else { 1 })
    }
}

impl GroupMetadataValue {
    pub fn from_bytes(bytes: &Bytes) -> Result<Self> {
        Self::read_versioned(bytes)
    }

    /// Version 3, which is what Kafka 4.3 writes.
    pub fn to_bytes(&self) -> Bytes {
        self.write_versioned(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back() {
        let offset = OffsetCommitKey { group: "g".into(), topic: "t".into(), partition: 3 };
        let offset = GroupRecordKey::OffsetCommit(offset);
        let bytes = offset.write();
        assert_eq!(bytes[..], [0, 1, 0, 1, b'g', 0, 1, b't', 0, 0, 0, 3]);
        assert_eq!(GroupRecordKey::read(&bytes), Ok(offset.clone()));
        let mut legacy = BytesMut::from(&bytes[..]);
        legacy[1] = 0;
        assert_eq!(GroupRecordKey::read(&legacy.freeze()), Ok(offset));
        let group = GroupRecordKey::GroupMetadata(GroupMetadataKey { group: "g".into() });
        assert_eq!(GroupRecordKey::read(&group.write()), Ok(group));
        let share_group = Bytes::from_static(&[0, 10, 0, 1, b'g']);
        assert_eq!(GroupRecordKey::read(&share_group), Err(WireError::UnknownRecord { key: 10, version: 0 }));
    }

    #[test]
    fn keys_of_consumer_groups_are_read_back() {
        let of_group = |key: fn(ConsumerGroupKey) -> GroupRecordKey| key(ConsumerGroupKey { group_id: "g".into() });
        let of_member = |key: fn(ConsumerGroupMemberKey) -> GroupRecordKey| {
            key(ConsumerGroupMemberKey { group_id: "g".into(), member_id: "m".into() })
        };
        let pattern = ConsumerGroupRegularExpressionKey { group_id: "g".into(), regular_expression: "m".into() };
        let keys = [
            (3, of_group(GroupRecordKey::ConsumerGroupMetadata)),
            (4, of_group(GroupRecordKey::ConsumerGroupPartitionMetadata)),
            (5, of_member(GroupRecordKey::ConsumerGroupMemberMetadata)),
            (6, of_group(GroupRecordKey::ConsumerGroupTargetAssignmentMetadata)),
            (7, of_member(GroupRecordKey::ConsumerGroupTargetAssignmentMember)),
            (8, of_member(GroupRecordKey::ConsumerGroupCurrentMemberAssignment)),
            (16, GroupRecordKey::ConsumerGroupRegularExpression(pattern)),
        ];
        for (record_type, key) in keys {
            let bytes = key.write();
            assert_eq!(bytes[..5], [0, record_type, 0, 1, b'g']);
            assert_eq!(bytes[5..], *if [3, 4, 6].contains(&record_type) { &[][..] } else { &[0, 1, b'm'] });
            assert_eq!(GroupRecordKey::read(&bytes), Ok(key));
        }
    }

    #[test]
    fn an_expiring_offset_keeps_its_time() {
        let lasting = OffsetCommitValue { offset: 7, leader_epoch: 2, topic_id: Uuid([1; 16]), ..Default::default() };
        assert_eq!(lasting.to_bytes()[..2], [0, 4]);
        assert_eq!(OffsetCommitValue::from_bytes(&lasting.to_bytes()), Ok(lasting.clone()));
        let expiring = OffsetCommitValue { expire_timestamp: 99, ..lasting };
        let read = OffsetCommitValue::from_bytes(&expiring.to_bytes()).unwrap();
        assert_eq!((read.offset, read.expire_timestamp), (7, 99));
    }

    #[test]
    fn versions_that_are_not_known_are_errors() {
        let read = |bytes: &'static [u8]| GroupMetadataValue::from_bytes(&Bytes::from_static(bytes));
        assert_eq!(read(&[0, 5, 0]), Err(WireError::UnknownStoredVersion(5)));
        assert_eq!(read(&[0xff, 0xff, 0]), Err(WireError::UnknownStoredVersion(-1)));
        assert_eq!(read(&[0]), Err(WireError::Truncated));
    }
}
