//! What is read back from disk, or from another broker: records of the internal topics and snapshots. Damage is an
//! error.

use bytes::Bytes;
use wire::state::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use wire::state::control::ControlType;
use wire::state::group::consumer::{
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue, ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
};
use wire::state::group::{GroupMetadataValue, GroupRecordKey, OffsetCommitValue};
use wire::state::metadata::MetadataRecord;
use wire::state::producer_snapshot::ProducerSnapshot;
use wire::state::transaction_log::{TransactionLogKey, TransactionLogValue};

pub(crate) fn run(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(record) = MetadataRecord::read(&bytes) {
        let written = record.write();
        assert_eq!(MetadataRecord::read(&written).map(|record| record.write()), Ok(written));
    }
    if let Ok(key) = GroupRecordKey::read(&bytes) {
        assert_eq!(GroupRecordKey::read(&key.write()), Ok(key));
    }
    if let Ok(value) = GroupMetadataValue::from_bytes(&bytes) {
        GroupMetadataValue::from_bytes(&value.to_bytes()).expect("what was written can be read");
    }
    if let Ok(value) = OffsetCommitValue::from_bytes(&bytes) {
        OffsetCommitValue::from_bytes(&value.to_bytes()).expect("what was written can be read");
    }
    if let Ok(value) = ConsumerGroupMemberMetadataValue::from_bytes(&bytes) {
        ConsumerGroupMemberMetadataValue::from_bytes(&value.to_bytes()).expect("what was written can be read");
    }
    if let Ok(value) = ConsumerGroupCurrentMemberAssignmentValue::from_bytes(&bytes) {
        ConsumerGroupCurrentMemberAssignmentValue::from_bytes(&value.to_bytes()).expect("what was written can be read");
    }
    if let Ok(value) = TransactionLogValue::from_bytes(&bytes) {
        TransactionLogValue::from_bytes(&value.to_bytes(1)).expect("what was written can be read");
    }
    let _ = ConsumerGroupMetadataValue::from_bytes(&bytes);
    let _ = ConsumerGroupPartitionMetadataValue::from_bytes(&bytes);
    let _ = ConsumerGroupTargetAssignmentMetadataValue::from_bytes(&bytes);
    let _ = ConsumerGroupTargetAssignmentMemberValue::from_bytes(&bytes);
    let _ = ConsumerGroupRegularExpressionValue::from_bytes(&bytes);
    let _ = TransactionLogKey::from_bytes(&bytes);
    let _ = ConsumerProtocolSubscription::from_bytes(&bytes);
    let _ = ConsumerProtocolAssignment::from_bytes(&bytes);
    let _ = ControlType::read(&bytes);
    let _ = ProducerSnapshot::from_bytes(&bytes);
}
