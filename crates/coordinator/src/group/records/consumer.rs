//! The records of consumer groups (`GroupCoordinatorRecordHelpers`).

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::codec::TaggedOption;
use wire::state::group::GroupRecordKey;
use wire::state::group::consumer::{
    ClassicMemberMetadata, ClassicProtocol as StoredProtocol, ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupKey, ConsumerGroupMemberKey, ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue, CurrentTopicPartitions, TargetTopicPartitions,
};
use wire::{Uuid, WireError};

use crate::group::assignor::Partitions;
use crate::group::consumer::{
    Assigned, ClassicProtocol, ClassicSettings, Current, GroupEpoch, MemberMetadata, MemberState, Record,
    ResolvedRegex, TargetEpoch,
};

/// The group of a key, and what the record says of it. Keys of other records are errors.
pub(super) fn read(key: GroupRecordKey, value: Option<&Bytes>) -> Result<(String, Record), WireError> {
    match key {
        GroupRecordKey::ConsumerGroupMetadata(ConsumerGroupKey { group_id }) => {
            let value = value.map(ConsumerGroupMetadataValue::from_bytes).transpose()?;
            let epoch = value.map(|value| GroupEpoch { epoch: value.epoch, metadata_hash: value.metadata_hash });
            Ok((group_id, Record::Epoch(epoch)))
        }
        GroupRecordKey::ConsumerGroupPartitionMetadata(ConsumerGroupKey { group_id }) => {
            Ok((group_id, Record::PartitionMetadata { exists: value.is_some() }))
        }
        GroupRecordKey::ConsumerGroupMemberMetadata(ConsumerGroupMemberKey { group_id, member_id }) => {
            let value = value.map(ConsumerGroupMemberMetadataValue::from_bytes).transpose()?;
            Ok((group_id, Record::Member { member_id, metadata: value.map(read_metadata) }))
        }
        GroupRecordKey::ConsumerGroupTargetAssignmentMetadata(ConsumerGroupKey { group_id }) => {
            let value = value.map(ConsumerGroupTargetAssignmentMetadataValue::from_bytes).transpose()?;
            let epoch = value
                .map(|value| TargetEpoch { epoch: value.assignment_epoch, timestamp_ms: value.assignment_timestamp });
            Ok((group_id, Record::TargetEpoch(epoch)))
        }
        GroupRecordKey::ConsumerGroupTargetAssignmentMember(ConsumerGroupMemberKey { group_id, member_id }) => {
            let value = value.map(ConsumerGroupTargetAssignmentMemberValue::from_bytes).transpose()?;
            Ok((group_id, Record::Target { member_id, partitions: value.map(read_target) }))
        }
        GroupRecordKey::ConsumerGroupCurrentMemberAssignment(ConsumerGroupMemberKey { group_id, member_id }) => {
            let value = value.map(ConsumerGroupCurrentMemberAssignmentValue::from_bytes).transpose()?;
            Ok((group_id, Record::Current { member_id, current: value.map(read_current) }))
        }
        GroupRecordKey::ConsumerGroupRegularExpression(ConsumerGroupRegularExpressionKey {
            group_id,
            regular_expression: pattern,
        }) => {
            let value = value.map(ConsumerGroupRegularExpressionValue::from_bytes).transpose()?;
            let resolved = value.map(|value| ResolvedRegex {
                topics: value.topics.into_iter().collect(),
                version: value.version,
                timestamp_ms: value.timestamp,
            });
            Ok((group_id, Record::Regex { pattern, resolved }))
        }
        key @ (GroupRecordKey::OffsetCommit(_) | GroupRecordKey::GroupMetadata(_)) => {
            Err(WireError::UnknownRecord { key: key.record_type() as u32, version: 0 })
        }
    }
}

/// The key and value of a record; without a value it is a tombstone.
pub(super) fn write(group_id: &str, record: &Record) -> (GroupRecordKey, Option<Bytes>) {
    let of_group = || ConsumerGroupKey { group_id: group_id.to_owned() };
    let of_member =
        |member_id: &String| ConsumerGroupMemberKey { group_id: group_id.to_owned(), member_id: member_id.clone() };
    match record {
        Record::Epoch(epoch) => {
            let value =
                epoch.map(|GroupEpoch { epoch, metadata_hash }| ConsumerGroupMetadataValue { epoch, metadata_hash });
            (GroupRecordKey::ConsumerGroupMetadata(of_group()), value.map(|value| value.to_bytes()))
        }
        // Its value is of no use, and nobody writes one.
        Record::PartitionMetadata { .. } => (GroupRecordKey::ConsumerGroupPartitionMetadata(of_group()), None),
        Record::Member { member_id, metadata } => {
            let value = metadata.as_ref().map(|metadata| write_metadata(metadata).to_bytes());
            (GroupRecordKey::ConsumerGroupMemberMetadata(of_member(member_id)), value)
        }
        Record::TargetEpoch(epoch) => {
            let value = epoch.map(|TargetEpoch { epoch, timestamp_ms }| ConsumerGroupTargetAssignmentMetadataValue {
                assignment_epoch: epoch,
                assignment_timestamp: timestamp_ms,
            });
            (GroupRecordKey::ConsumerGroupTargetAssignmentMetadata(of_group()), value.map(|value| value.to_bytes()))
        }
        Record::Target { member_id, partitions } => {
            let value = partitions.as_ref().map(|partitions| write_target(partitions).to_bytes());
            (GroupRecordKey::ConsumerGroupTargetAssignmentMember(of_member(member_id)), value)
        }
        Record::Current { member_id, current } => {
            let value = current.as_ref().map(|current| write_current(current).to_bytes());
            (GroupRecordKey::ConsumerGroupCurrentMemberAssignment(of_member(member_id)), value)
        }
        Record::Regex { pattern, resolved } => {
            let value = resolved.as_ref().map(|resolved| ConsumerGroupRegularExpressionValue {
                topics: resolved.topics.iter().cloned().collect(),
                version: resolved.version,
                timestamp: resolved.timestamp_ms,
            });
            let (group_id, regular_expression) = (group_id.to_owned(), pattern.clone());
            let key = ConsumerGroupRegularExpressionKey { group_id, regular_expression };
            (GroupRecordKey::ConsumerGroupRegularExpression(key), value.map(|value| value.to_bytes()))
        }
    }
}

fn read_metadata(value: ConsumerGroupMemberMetadataValue) -> MemberMetadata {
    let classic = value.classic_member_metadata.0.map(|classic| ClassicSettings {
        session_timeout_ms: classic.session_timeout_ms,
        protocols: classic
            .supported_protocols
            .into_iter()
            .map(|StoredProtocol { name, metadata }| ClassicProtocol { name, metadata })
            .collect(),
    });
    MemberMetadata {
        instance_id: value.instance_id,
        rack_id: value.rack_id,
        client_id: value.client_id,
        client_host: value.client_host,
        topics: value.subscribed_topic_names.into_iter().collect(),
        regex: value.subscribed_topic_regex,
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        assignor: value.server_assignor,
        classic,
    }
}

fn write_metadata(metadata: &MemberMetadata) -> ConsumerGroupMemberMetadataValue {
    let classic = metadata.classic.as_ref().map(|classic| ClassicMemberMetadata {
        session_timeout_ms: classic.session_timeout_ms,
        supported_protocols: classic
            .protocols
            .iter()
            .map(|ClassicProtocol { name, metadata }| StoredProtocol { name: name.clone(), metadata: metadata.clone() })
            .collect(),
    });
    ConsumerGroupMemberMetadataValue {
        instance_id: metadata.instance_id.clone(),
        rack_id: metadata.rack_id.clone(),
        client_id: metadata.client_id.clone(),
        client_host: metadata.client_host.clone(),
        subscribed_topic_names: metadata.topics.iter().cloned().collect(),
        subscribed_topic_regex: metadata.regex.clone(),
        rebalance_timeout_ms: metadata.rebalance_timeout_ms,
        server_assignor: metadata.assignor.clone(),
        classic_member_metadata: TaggedOption(classic),
    }
}

fn read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> Partitions {
    let mut partitions = Partitions::new();
    for topic in value.topic_partitions.into_iter().filter(|topic| !topic.partitions.is_empty()) {
        partitions.entry(topic.topic_id).or_default().extend(topic.partitions);
    }
    partitions
}

fn write_target(partitions: &Partitions) -> ConsumerGroupTargetAssignmentMemberValue {
    let topics = partitions.iter().map(|(topic_id, partitions)| TargetTopicPartitions {
        topic_id: *topic_id,
        partitions: partitions.iter().copied().collect(),
    });
    ConsumerGroupTargetAssignmentMemberValue { topic_partitions: topics.collect() }
}

fn read_current(value: ConsumerGroupCurrentMemberAssignmentValue) -> Current {
    Current {
        epoch: value.member_epoch,
        previous_epoch: value.previous_member_epoch,
        state: MemberState::from_stored(value.state),
        assigned: read_assigned(value.assigned_partitions, value.member_epoch),
        pending_revocation: read_assigned(value.partitions_pending_revocation, value.member_epoch),
    }
}

/// Partitions with the epochs in which they were assigned. Where these are not known, the member's own is as old as
/// they can be taken to be (KAFKA-19862).
fn read_assigned(topics: Vec<CurrentTopicPartitions>, member_epoch: i32) -> Assigned {
    let mut assigned = Assigned::new();
    for CurrentTopicPartitions { topic_id, partitions, assignment_epochs } in topics {
        let epochs = assignment_epochs.filter(|epochs| epochs.len() == partitions.len());
        let epochs = epochs.unwrap_or_else(|| vec![member_epoch.max(0); partitions.len()]);
        if !partitions.is_empty() {
            assigned.entry(topic_id).or_default().extend(partitions.into_iter().zip(epochs));
        }
    }
    assigned
}

fn write_current(current: &Current) -> ConsumerGroupCurrentMemberAssignmentValue {
    let topics = |assigned: &Assigned| {
        let of_topic = |(topic_id, partitions): (&Uuid, &BTreeMap<i32, i32>)| CurrentTopicPartitions {
            topic_id: *topic_id,
            partitions: partitions.keys().copied().collect(),
            assignment_epochs: Some(partitions.values().copied().collect()),
        };
        assigned.iter().map(of_topic).collect()
    };
    ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: current.epoch,
        previous_member_epoch: current.previous_epoch,
        state: current.state.to_stored(),
        assigned_partitions: topics(&current.assigned),
        partitions_pending_revocation: topics(&current.pending_revocation),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn records_are_read_back() {
        let topic = Uuid([7; 16]);
        let metadata = MemberMetadata {
            instance_id: Some("i".into()),
            client_id: "c".into(),
            client_host: "/::1".into(),
            topics: BTreeSet::from(["t".to_owned()]),
            regex: Some("a.*".into()),
            rebalance_timeout_ms: 3,
            assignor: Some("range".into()),
            ..MemberMetadata::default()
        };
        let protocol = ClassicProtocol { name: "p".into(), metadata: Bytes::from_static(b"m") };
        let classic = ClassicSettings { session_timeout_ms: 4, protocols: vec![protocol] };
        let old = MemberMetadata { classic: Some(classic), rack_id: Some("r".into()), ..metadata.clone() };
        let current = Current {
            epoch: 5,
            previous_epoch: 4,
            state: MemberState::UnrevokedPartitions,
            assigned: Assigned::from([(topic, BTreeMap::from([(0, 3), (2, 5)]))]),
            pending_revocation: Assigned::from([(topic, BTreeMap::from([(1, 4)]))]),
        };
        let partitions = Partitions::from([(topic, BTreeSet::from([0, 1]))]);
        let resolved = ResolvedRegex { topics: metadata.topics.clone(), version: 8, timestamp_ms: 9 };
        let (member_id, pattern) = ("m".to_owned(), "a.*".to_owned());
        let records = [
            Record::Epoch(Some(GroupEpoch { epoch: 2, metadata_hash: -3 })),
            Record::PartitionMetadata { exists: false },
            Record::Member { member_id: member_id.clone(), metadata: Some(metadata) },
            Record::Member { member_id: member_id.clone(), metadata: Some(old) },
            Record::TargetEpoch(Some(TargetEpoch { epoch: 2, timestamp_ms: 11 })),
            Record::Target { member_id: member_id.clone(), partitions: Some(partitions) },
            Record::Current { member_id: member_id.clone(), current: Some(current) },
            Record::Regex { pattern: pattern.clone(), resolved: Some(resolved) },
            Record::Epoch(None),
            Record::TargetEpoch(None),
            Record::Member { member_id: member_id.clone(), metadata: None },
            Record::Target { member_id: member_id.clone(), partitions: None },
            Record::Current { member_id, current: None },
            Record::Regex { pattern, resolved: None },
        ];
        for record in records {
            let (key, value) = write("g", &record);
            let key = GroupRecordKey::read(&key.write()).unwrap();
            assert_eq!(read(key, value.as_ref()), Ok(("g".to_owned(), record)));
        }
    }

    #[test]
    fn partitions_of_older_brokers_have_the_epoch_of_the_member() {
        let topics = |epochs| {
            vec![CurrentTopicPartitions { topic_id: Uuid([7; 16]), partitions: vec![1, 2], assignment_epochs: epochs }]
        };
        let epochs = |assigned: Assigned| assigned.into_values().flatten().collect::<Vec<_>>();
        assert_eq!(epochs(read_assigned(topics(None), 6)), [(1, 6), (2, 6)]);
        assert_eq!(epochs(read_assigned(topics(Some(vec![4])), 6)), [(1, 6), (2, 6)]);
        assert_eq!(epochs(read_assigned(topics(Some(vec![])), -2)), [(1, 0), (2, 0)]);
        assert_eq!(epochs(read_assigned(topics(Some(vec![4, 5])), 6)), [(1, 4), (2, 5)]);
    }
}
