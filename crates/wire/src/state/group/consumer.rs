//! What the keys and values of KIP-848 consumer groups consist of. Several records make a group: its epoch, and for
//! each member its subscription, its target assignment and what it has now.

use bytes::Bytes;

use crate::Uuid;
use crate::codec::{Result, TaggedOption};
use crate::state::{Stored, stored};

crate::message! {
    /// The key of what there is once in a group.
    pub struct ConsumerGroupKey {
        group_id: String, 0..;
    }

    /// The key of what each member has.
    pub struct ConsumerGroupMemberKey {
        group_id: String, 0..;
        member_id: String, 0..;
    }

    pub struct ConsumerGroupRegularExpressionKey {
        group_id: String, 0..;
        regular_expression: String, 0..;
    }

    pub struct ConsumerGroupMetadataValue {
        epoch: i32, 0..;
        metadata_hash: i64, 0.., tag 0;
    }

    /// Written before Kafka 4.1, which has a hash in the group's metadata instead (KIP-1101).
    pub struct ConsumerGroupPartitionMetadataValue {
        topics: Vec<TopicMetadata>, 0..;
    }

    pub struct TopicMetadata {
        topic_id: Uuid, 0..;
        topic_name: String, 0..;
        num_partitions: i32, 0..;
        partition_metadata: Vec<PartitionMetadata>, 0..;
    }

    pub struct PartitionMetadata {
        partition: i32, 0..;
        racks: Vec<String>, 0..;
    }

    pub struct ConsumerGroupMemberMetadataValue {
        instance_id: Option<String>, 0..;
        rack_id: Option<String>, 0..;
        client_id: String, 0..;
        client_host: String, 0..;
        subscribed_topic_names: Vec<String>, 0..;
        subscribed_topic_regex: Option<String>, 0..;
        rebalance_timeout_ms: i32 = -1, 0..;
        server_assignor: Option<String>, 0..;
        /// Null for a member of the consumer protocol, and that is written: a member without the field is one of the
        /// classic protocol.
        classic_member_metadata: TaggedOption<ClassicMemberMetadata>, 0.., tag 0;
    }

    pub struct ClassicMemberMetadata {
        session_timeout_ms: i32, 0..;
        supported_protocols: Vec<ClassicProtocol>, 0..;
    }

    pub struct ClassicProtocol {
        name: String, 0..;
        metadata: Bytes, 0..;
    }

    pub struct ConsumerGroupTargetAssignmentMetadataValue {
        assignment_epoch: i32, 0..;
        assignment_timestamp: i64, 0.., tag 0;
    }

    pub struct ConsumerGroupTargetAssignmentMemberValue {
        topic_partitions: Vec<TargetTopicPartitions>, 0..;
    }

    pub struct TargetTopicPartitions {
        topic_id: Uuid, 0..;
        partitions: Vec<i32>, 0..;
    }

    pub struct ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: i32, 0..;
        previous_member_epoch: i32, 0..;
        state: i8, 0..;
        assigned_partitions: Vec<CurrentTopicPartitions>, 0..;
        partitions_pending_revocation: Vec<CurrentTopicPartitions>, 0..;
    }

    pub struct CurrentTopicPartitions {
        topic_id: Uuid, 0..;
        partitions: Vec<i32>, 0..;
        /// The epoch at which the member got each of the partitions, in their order; null or empty where it is not
        /// known.
        assignment_epochs: Option<Vec<i32>> = Some(Vec::new()), 0.., tag 0;
    }

    pub struct ConsumerGroupRegularExpressionValue {
        topics: Vec<String>, 0..;
        version: i64, 0..;
        timestamp: i64, 0..;
    }
}

stored! {
    ConsumerGroupKey 0..=0, i16::MAX;
    ConsumerGroupMemberKey 0..=0, i16::MAX;
    ConsumerGroupRegularExpressionKey 0..=0, i16::MAX;
    ConsumerGroupMetadataValue 0..=0, 0;
    ConsumerGroupPartitionMetadataValue 0..=0, 0;
    ConsumerGroupMemberMetadataValue 0..=0, 0;
    ConsumerGroupTargetAssignmentMetadataValue 0..=0, 0;
    ConsumerGroupTargetAssignmentMemberValue 0..=0, 0;
    ConsumerGroupCurrentMemberAssignmentValue 0..=0, 0;
    ConsumerGroupRegularExpressionValue 0..=0, 0;
}

macro_rules! from_and_to_bytes {
    ($($name:ident)*) => {$(
        impl $name {
            pub fn from_bytes(bytes: &Bytes) -> Result<Self> {
                Self::read_versioned(bytes)
            }

            pub fn to_bytes(&self) -> Bytes {
                self.write_versioned(0)
            }
        }
    )*};
}

from_and_to_bytes! {
    ConsumerGroupMetadataValue
    ConsumerGroupPartitionMetadataValue
    ConsumerGroupMemberMetadataValue
    ConsumerGroupTargetAssignmentMetadataValue
    ConsumerGroupTargetAssignmentMemberValue
    ConsumerGroupCurrentMemberAssignmentValue
    ConsumerGroupRegularExpressionValue
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::WireError;

    #[test]
    fn what_a_member_may_lack_is_read_back() {
        let current = ConsumerGroupCurrentMemberAssignmentValue {
            member_epoch: 2,
            previous_member_epoch: 1,
            state: 1,
            assigned_partitions: vec![CurrentTopicPartitions {
                topic_id: Uuid([1; 16]),
                partitions: vec![0, 3],
                assignment_epochs: Some(vec![1, 2]),
            }],
            partitions_pending_revocation: vec![CurrentTopicPartitions::default()],
        };
        assert_eq!(ConsumerGroupCurrentMemberAssignmentValue::from_bytes(&current.to_bytes()), Ok(current));
        let protocol = ClassicProtocol { name: "range".into(), metadata: Bytes::from_static(b"m") };
        let classic = ClassicMemberMetadata { session_timeout_ms: 45_000, supported_protocols: vec![protocol] };
        for classic_member_metadata in [Some(classic), Some(ClassicMemberMetadata::default()), None] {
            let classic_member_metadata = TaggedOption(classic_member_metadata);
            let member = ConsumerGroupMemberMetadataValue { classic_member_metadata, ..Default::default() };
            assert_eq!(ConsumerGroupMemberMetadataValue::from_bytes(&member.to_bytes()), Ok(member));
        }
    }

    #[test]
    fn a_newer_version_is_an_error() {
        let newer = Bytes::from_static(&[0, 1, 0, 0, 0, 1, 0]);
        assert_eq!(ConsumerGroupMetadataValue::from_bytes(&newer), Err(WireError::UnknownStoredVersion(1)));
    }
}
