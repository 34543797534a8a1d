//! Keys and values of the logs that the broker keeps for itself, in words.

use std::fmt::Debug;

use bytes::Bytes;
use wire::state::Stored;
use wire::state::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use wire::state::control::ControlType;
use wire::state::group::consumer::{
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue, ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
};
use wire::state::group::{GroupMetadataValue, GroupRecordKey, OffsetCommitValue};
use wire::state::metadata::MetadataRecord;

use crate::cmd::bytes::base64;

/// What the records of a log mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoder {
    Plain,
    /// `__cluster_metadata`
    Metadata,
    /// `__consumer_offsets`
    Groups,
}

impl Decoder {
    /// What a record says, or `None` where its bytes are shown as they are.
    pub(super) fn decode(self, key: Option<&Bytes>, value: Option<&Bytes>) -> Option<String> {
        match self {
            Self::Plain => None,
            Self::Metadata => MetadataRecord::read(value?).ok().map(|record| format!("{record:?}")),
            Self::Groups => group_record(key?, value),
        }
    }
}

fn group_record(key: &Bytes, value: Option<&Bytes>) -> Option<String> {
    let key = GroupRecordKey::read(key).ok()?;
    let Some(value) = value else { return Some(format!("{key:?} deleted")) };
    match &key {
        GroupRecordKey::OffsetCommit(_) => {
            OffsetCommitValue::from_bytes(value).ok().map(|value| format!("{key:?} {value:?}"))
        }
        GroupRecordKey::GroupMetadata(key) => {
            let GroupMetadataValue { protocol_type, generation, protocol, leader, current_state_timestamp, members } =
                GroupMetadataValue::from_bytes(value).ok()?;
            // Every field is named here, so that a new one is not forgotten; the opaque ones of the members are opened.
            let members = members.iter().map(|member| {
                let subscription = ConsumerProtocolSubscription::from_bytes(&member.subscription);
                let assignment = ConsumerProtocolAssignment::from_bytes(&member.assignment);
                let subscribed = subscription.map_or_else(|_| "?".to_owned(), |it| it.topics.join(","));
                let assigned = assignment.map_or_else(
                    |_| "-".to_owned(),
                    |it| {
                        let topic = |t: &wire::state::consumer_protocol::TopicPartition| {
                            format!("{}:{:?}", t.topic, t.partitions)
                        };
                        it.assigned_partitions.iter().map(topic).collect::<Vec<_>>().join(",")
                    },
                );
                format!(
                    "{{ member_id: {:?}, group_instance_id: {:?}, client_id: {:?}, client_host: {:?}, \
                     rebalance_timeout: {}, session_timeout: {}, subscription: {subscribed}, assignment: {assigned} }}",
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout,
                    member.session_timeout
                )
            });
            let members = members.collect::<Vec<_>>().join(", ");
            Some(format!(
                "{key:?} protocol_type: {protocol_type:?} generation: {generation} protocol: {protocol:?} leader: \
                 {leader:?} current_state_timestamp: {current_state_timestamp} members: [{members}]"
            ))
        }
        GroupRecordKey::ConsumerGroupPartitionMetadata(_) => {
            of_consumer_group::<ConsumerGroupPartitionMetadataValue>(&key, value)
        }
        GroupRecordKey::ConsumerGroupMetadata(_) => of_consumer_group::<ConsumerGroupMetadataValue>(&key, value),
        GroupRecordKey::ConsumerGroupMemberMetadata(_) => {
            of_consumer_group::<ConsumerGroupMemberMetadataValue>(&key, value)
        }
        GroupRecordKey::ConsumerGroupTargetAssignmentMetadata(_) => {
            of_consumer_group::<ConsumerGroupTargetAssignmentMetadataValue>(&key, value)
        }
        GroupRecordKey::ConsumerGroupTargetAssignmentMember(_) => {
            of_consumer_group::<ConsumerGroupTargetAssignmentMemberValue>(&key, value)
        }
        GroupRecordKey::ConsumerGroupCurrentMemberAssignment(_) => {
            of_consumer_group::<ConsumerGroupCurrentMemberAssignmentValue>(&key, value)
        }
        GroupRecordKey::ConsumerGroupRegularExpression(_) => {
            of_consumer_group::<ConsumerGroupRegularExpressionValue>(&key, value)
        }
    }
}

fn of_consumer_group<T: Stored + Debug>(key: &GroupRecordKey, value: &Bytes) -> Option<String> {
    T::read_versioned(value).ok().map(|value| format!("{key:?} {value:?}"))
}

/// What a control record is.
pub(super) fn control(key: Option<&Bytes>) -> String {
    match key.map(ControlType::read) {
        Some(Ok(control)) => format!("{control:?}"),
        _ => "unreadable".to_owned(),
    }
}

/// Bytes as text where that is readable in a line, else in base64.
pub(super) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(|c: char| c.is_control() && c != '\t') => text.to_owned(),
        _ => format!("base64:{}", base64(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use wire::state::group::consumer::ConsumerGroupKey;
    use wire::state::group::{GroupMetadataKey, OffsetCommitKey};
    use wire::state::metadata::TopicRecord;

    use super::*;

    #[test]
    fn records_of_the_broker_are_told_in_words() {
        let record = MetadataRecord::from(TopicRecord { name: "orders".to_owned(), ..Default::default() }).write();
        let told = Decoder::Metadata.decode(None, Some(&record)).unwrap();
        assert!(told.contains("TopicRecord") && told.contains("\"orders\""), "{told}");

        let key = OffsetCommitKey { group: "g".to_owned(), topic: "orders".to_owned(), partition: 3 };
        let key = GroupRecordKey::OffsetCommit(key).write();
        let value = OffsetCommitValue { offset: 42, ..Default::default() }.to_bytes();
        let told = Decoder::Groups.decode(Some(&key), Some(&value)).unwrap();
        assert!(told.contains("partition: 3") && told.contains("offset: 42"), "{told}");
        assert!(Decoder::Groups.decode(Some(&key), None).unwrap().ends_with("deleted"));

        let key = ConsumerGroupKey { group_id: "g".to_owned() };
        let key = GroupRecordKey::ConsumerGroupMetadata(key).write();
        let value = ConsumerGroupMetadataValue { epoch: 42, ..Default::default() }.write_versioned(0);
        let told = Decoder::Groups.decode(Some(&key), Some(&value)).unwrap();
        assert!(told.contains("group_id: \"g\"") && told.contains("epoch: 42"), "{told}");

        let key = GroupRecordKey::GroupMetadata(GroupMetadataKey { group: "g".to_owned() }).write();
        let value = GroupMetadataValue { generation: 7, ..Default::default() }.to_bytes();
        assert!(Decoder::Groups.decode(Some(&key), Some(&value)).unwrap().contains("generation: 7"));
    }

    #[test]
    fn what_is_not_understood_is_shown_as_it_is() {
        let garbage = Bytes::from_static(&[0xff; 3]);
        assert_eq!(Decoder::Metadata.decode(None, Some(&garbage)), None);
        assert_eq!(Decoder::Groups.decode(Some(&garbage), None), None);
        assert_eq!(Decoder::Plain.decode(Some(&garbage), Some(&garbage)), None);
        assert_eq!(control(Some(&garbage)), "unreadable");
        assert_eq!(text(b"plain \xc3\xa4"), "plain ä");
        assert_eq!(text(&[0xff]), "base64:/w==");
        assert_eq!(text(b"a\nb"), "base64:YQpi");
    }
}
