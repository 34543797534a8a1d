//! Every message, in every version, as Apache Kafka 4.3.1 writes it: read and written again byte for byte.

mod common;

use bytes::{Bytes, BytesMut};
use common::{Frame, OWN, frames, key, recode_frame};
use wire::api::{self, Request, Visitor};
use wire::batch::{Batch, BatchBuilder};
use wire::compress::Codec;
use wire::record::{Record, RecordReader};
use wire::state::Stored;
use wire::state::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use wire::state::control::{
    ControlType, EndTxnMarker, KRaftVersionRecord, LeaderChangeMessage, SnapshotFooterRecord, SnapshotHeaderRecord,
    VotersRecord,
};
use wire::state::group::consumer::{
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupKey, ConsumerGroupMemberKey,
    ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue, ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
};
use wire::state::group::{GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue};
use wire::state::metadata::MetadataRecord;
use wire::state::producer_snapshot::ProducerSnapshot;
use wire::state::transaction_log::{TransactionLogKey, TransactionLogValue};
use wire::{Wire, Writer};

#[test]
fn requests_and_responses() {
    for frame in frames(&["request", "response"]) {
        assert_eq!(
            recode_frame(&frame),
            Ok(frame.bytes.clone()),
            "{} {} {} {}",
            frame.kind,
            frame.name,
            frame.version,
            frame.variant
        );
    }
}

#[test]
fn defaults_are_those_of_kafka() {
    // What may be null is null by default here, and empty in Kafka's classes unless they say otherwise.
    const NULL_BY_DEFAULT: [(&str, &str); 23] = [
        ("request", "Metadata"),
        ("request", "OffsetFetch"),
        ("response", "FindCoordinator"),
        ("response", "JoinGroup"),
        ("request", "InitProducerId"),
        ("response", "SaslAuthenticate"),
        ("request", "DescribeLogDirs"),
        ("request", "ElectLeaders"),
        ("response", "ListPartitionReassignments"),
        ("response", "DescribeQuorum"),
        ("response", "AlterPartitionReassignments"),
        ("response", "UpdateFeatures"),
        ("request", "BrokerRegistration"),
        ("response", "UnregisterBroker"),
        ("request", "AddRaftVoter"),
        ("response", "AddRaftVoter"),
        ("request", "RemoveRaftVoter"),
        ("response", "RemoveRaftVoter"),
        ("request", "DescribeAcls"),
        ("response", "DescribeAcls"),
        ("response", "DescribeClientQuotas"),
        ("request", "DescribeUserScramCredentials"),
        ("response", "DescribeUserScramCredentials"),
    ];

    struct Default<'a>(&'a Frame);

    impl Visitor for Default<'_> {
        type Output = Bytes;

        fn visit<R: Request>(self) -> Bytes {
            let (version, flexible) = (self.0.version, R::API.flexible(self.0.version));
            let mut out = BytesMut::new();
            let mut w = Writer::new(&mut out, version, flexible);
            match self.0.kind {
                "request" => R::default().write(&mut w),
                _ => R::Response::default().write(&mut w),
            }
            out.freeze()
        }
    }

    for frame in frames(&["request", "response"]).iter().filter(|frame| frame.variant == "default") {
        let written = api::visit(key(frame.name), Default(frame)).unwrap();
        if !NULL_BY_DEFAULT.contains(&(frame.kind, frame.name)) {
            assert_eq!(written, frame.bytes, "{} {} {}", frame.kind, frame.name, frame.version);
        }
    }
}

#[test]
fn no_version_is_missing() {
    let frames = frames(&["request", "response"]);
    for api in api::TABLE.iter().filter(|api| !OWN.contains(&api.key)) {
        for version in api.versions.clone() {
            for kind in ["request", "response"] {
                let found = frames.iter().any(|f| (f.kind, f.name, f.version) == (kind, api.name, version));
                assert!(found, "{kind} {} {version}", api.name);
            }
        }
        let newest = frames.iter().filter(|f| f.name == api.name).map(|f| f.version).max();
        assert_eq!(newest, Some(*api.versions.end()), "{}", api.name);
    }
}

#[test]
fn metadata_records() {
    let mut unknown = Vec::new();
    let frames = frames(&["metadata"]);
    for frame in &frames {
        let Ok(record) = MetadataRecord::read(&frame.bytes) else {
            unknown.push(frame.name);
            continue;
        };
        let newest = frames.iter().filter(|f| f.name == frame.name).map(|f| f.version).max();
        if newest == Some(frame.version) {
            assert_eq!(record.write(), frame.bytes, "{} {}", frame.name, frame.variant);
        }
    }
    unknown.dedup();
    // Nothing of a cluster that started with Kafka 4 and has no delegation tokens.
    let left_out = [
        "FenceBrokerRecord",
        "UnfenceBrokerRecord",
        "DelegationTokenRecord",
        "ZkMigrationStateRecord",
        "RemoveDelegationTokenRecord",
    ];
    assert_eq!(unknown, left_out);
}

fn restored<T: Stored>(bytes: &Bytes, version: i16) -> Bytes {
    assert!(T::VERSIONS.contains(&version));
    let mut out = BytesMut::new();
    T::read_body(bytes, version).unwrap().write_body(&mut out, version);
    out.freeze()
}

#[test]
fn stored_records() {
    for frame in frames(&["stored"]) {
        let restored = match frame.name {
            "OffsetCommitKey" => restored::<OffsetCommitKey>,
            "OffsetCommitValue" => restored::<OffsetCommitValue>,
            "GroupMetadataKey" => restored::<GroupMetadataKey>,
            "GroupMetadataValue" => restored::<GroupMetadataValue>,
            "ConsumerGroupMetadataKey"
            | "ConsumerGroupPartitionMetadataKey"
            | "ConsumerGroupTargetAssignmentMetadataKey" => restored::<ConsumerGroupKey>,
            "ConsumerGroupMemberMetadataKey"
            | "ConsumerGroupTargetAssignmentMemberKey"
            | "ConsumerGroupCurrentMemberAssignmentKey" => restored::<ConsumerGroupMemberKey>,
            "ConsumerGroupRegularExpressionKey" => restored::<ConsumerGroupRegularExpressionKey>,
            "ConsumerGroupMetadataValue" => restored::<ConsumerGroupMetadataValue>,
            "ConsumerGroupPartitionMetadataValue" => restored::<ConsumerGroupPartitionMetadataValue>,
            "ConsumerGroupMemberMetadataValue" => restored::<ConsumerGroupMemberMetadataValue>,
            "ConsumerGroupTargetAssignmentMetadataValue" => restored::<ConsumerGroupTargetAssignmentMetadataValue>,
            "ConsumerGroupTargetAssignmentMemberValue" => restored::<ConsumerGroupTargetAssignmentMemberValue>,
            "ConsumerGroupCurrentMemberAssignmentValue" => restored::<ConsumerGroupCurrentMemberAssignmentValue>,
            "ConsumerGroupRegularExpressionValue" => restored::<ConsumerGroupRegularExpressionValue>,
            "TransactionLogKey" => restored::<TransactionLogKey>,
            "TransactionLogValue" => restored::<TransactionLogValue>,
            "ConsumerProtocolSubscription" => restored::<ConsumerProtocolSubscription>,
            "ConsumerProtocolAssignment" => restored::<ConsumerProtocolAssignment>,
            "LeaderChangeMessage" => restored::<LeaderChangeMessage>,
            "EndTxnMarker" => restored::<EndTxnMarker>,
            "SnapshotHeaderRecord" => restored::<SnapshotHeaderRecord>,
            "SnapshotFooterRecord" => restored::<SnapshotFooterRecord>,
            "KRaftVersionRecord" => restored::<KRaftVersionRecord>,
            "VotersRecord" => restored::<VotersRecord>,
            "ProducerSnapshot" => restored::<ProducerSnapshot>,
            name => panic!("{name} has no schema"),
        };
        assert_eq!(restored(&frame.bytes, frame.version), frame.bytes, "{} {}", frame.name, frame.version);
    }
}

fn batch(name: &str) -> Batch {
    let frame = frames(&["batch"]).into_iter().find(|frame| frame.name == name).unwrap();
    let batch = Batch::parse(&frame.bytes).unwrap();
    assert_eq!(batch.bytes, frame.bytes);
    assert_eq!(batch.verify_crc(), Ok(()));
    batch
}

/// The batch that Frames.java builds.
fn built(codec: Codec) -> Batch {
    let mut builder = BatchBuilder::new().compression(codec, None).producer(9, 2, 7).transactional().leader_epoch(3);
    builder.push(1_700_000_000_000, Some(b"key"), None, &[(b"h", None), (b"h", Some(&[1])), (b"", Some(b""))]);
    builder.push(1_699_999_999_000, None, Some(b""), &[]);
    builder.push(1_700_000_000_500, Some(b""), Some(&[0; 200]), &[]);
    if codec != Codec::None {
        (0..150).for_each(|i| builder.push(1_700_000_000_000 + i, None, Some(&[0; 1000]), &[]));
    }
    builder.build()
}

#[test]
fn batches_are_built_as_java_does() {
    assert_eq!(built(Codec::None), batch("none"));
    let mut builder = BatchBuilder::new().base_offset(40).log_append_time(5000).leader_epoch(3);
    builder.push(1, None, Some(&[1]), &[]);
    builder.push(2, None, Some(&[2]), &[]);
    assert_eq!(builder.build(), batch("log-append-time"));
}

#[test]
fn transaction_markers_are_built_as_java_does() {
    let expected = batch("marker");
    let value = EndTxnMarker { coordinator_epoch: 8 }.write_versioned(0);
    let mut builder = BatchBuilder::new().base_offset(50).leader_epoch(3).producer(9, 2, -1).transactional().control();
    builder.push(6000, Some(&ControlType::Commit.write()), Some(&value), &[]);
    assert_eq!(builder.build(), expected);
    let section = expected.records(1000).unwrap();
    let record = RecordReader::new(&expected.header, &section).next().unwrap().unwrap();
    assert_eq!(ControlType::read(&Bytes::copy_from_slice(record.key.unwrap())), Ok(ControlType::Commit));
    let marker = EndTxnMarker::read_versioned(&Bytes::copy_from_slice(record.value.unwrap())).unwrap();
    assert_eq!(marker.coordinator_epoch, 8);
}

#[test]
fn what_java_compressed_is_read() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let (java, ours) = (batch(codec.name()), built(codec));
        assert_eq!(java.header.attributes, ours.header.attributes);
        let section = java.records(1 << 20).unwrap();
        assert_eq!(section, ours.records(1 << 20).unwrap(), "{codec:?}");
        let records: Vec<Record<'_>> = RecordReader::new(&java.header, &section).map(Result::unwrap).collect();
        assert_eq!(records.len(), 153);
    }
}
