//! ListOffsets, OffsetForLeaderEpoch, DeleteRecords.

use wire::ErrorCode;
use wire::api::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};
use wire::api::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use wire::api::offset_for_leader_epoch::{OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic};
use wire::batch::BatchBuilder;
use wire::compress::Codec;

use crate::common::{TestBroker, TestClient};
use crate::{batch, create, filled, produce, topic, with_config};

const T: i64 = 1_700_000_000_000;

/// Error, offset, timestamp and leader epoch of each partition asked for.
type Found = (ErrorCode, i64, i64, i32);

fn asked(topic: &str, partitions: &[(i32, i64, i32)]) -> ListOffsetsTopic {
    let partitions = partitions.iter().map(|&(partition_index, timestamp, current_leader_epoch)| {
        ListOffsetsPartition { partition_index, current_leader_epoch, timestamp }
    });
    ListOffsetsTopic { name: topic.to_owned(), partitions: partitions.collect() }
}

fn list(client: &mut TestClient, version: i16, topics: Vec<ListOffsetsTopic>) -> Vec<Found> {
    let request = ListOffsetsRequest { replica_id: -1, topics, timeout_ms: 1000, ..Default::default() };
    let response = client.call(version, &request);
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|p| (p.error_code, p.offset, p.timestamp, p.leader_epoch)).collect()
}

fn offset(client: &mut TestClient, version: i16, timestamp: i64) -> Found {
    let found = list(client, version, vec![asked("t", &[(0, timestamp, -1)])]);
    assert_eq!(found.len(), 1);
    found[0]
}

fn delete(client: &mut TestClient, topic: &str, offsets: &[(i32, i64)]) -> Vec<(i32, ErrorCode, i64)> {
    let partitions =
        offsets.iter().map(|&(partition_index, offset)| DeleteRecordsPartition { partition_index, offset }).collect();
    let topics = vec![DeleteRecordsTopic { name: topic.to_owned(), partitions }];
    let response = client.ask(&DeleteRecordsRequest { topics, timeout_ms: 10_000 });
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|p| (p.partition_index, p.error_code, p.low_watermark)).collect()
}

/// Six records in three batches: times 0, 10, 5; 100, 50; 20 after `T`.
fn fill(client: &mut TestClient) {
    create(client, &[topic("t", 2)]);
    assert_eq!(produce(client, "t", 0, &batch(&[T, T + 10, T + 5])), (ErrorCode::NONE, 0));
    assert_eq!(produce(client, "t", 0, &batch(&[T + 100, T + 50])), (ErrorCode::NONE, 3));
    assert_eq!(produce(client, "t", 0, &batch(&[T + 20])), (ErrorCode::NONE, 5));
}

#[test]
fn an_empty_log_begins_and_ends_at_zero() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("t", 1)]);
    for (timestamp, found) in [
        (-1, (ErrorCode::NONE, 0, -1, 0)),
        (-2, (ErrorCode::NONE, 0, -1, 0)),
        (-3, (ErrorCode::NONE, -1, -1, -1)),
        (-4, (ErrorCode::NONE, 0, -1, 0)),
        (-5, (ErrorCode::NONE, -1, -1, -1)),
        (-6, (ErrorCode::NONE, -1, -1, -1)),
        (-7, (ErrorCode::UNSUPPORTED_VERSION, -1, -1, -1)),
        (1000, (ErrorCode::NONE, -1, -1, -1)),
    ] {
        assert_eq!(offset(&mut client, 11, timestamp), found, "{timestamp}");
    }
}

#[test]
fn offsets_are_found_by_time_and_by_place() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    fill(&mut client);
    for (timestamp, found) in [
        (-1, (6, -1)),
        (-2, (0, -1)),
        (-3, (3, T + 100)),
        (-4, (0, -1)),
        (0, (0, T)),
        (T, (0, T)),
        (T + 1, (1, T + 10)),
        (T + 5, (1, T + 10)),
        (T + 11, (3, T + 100)),
        (T + 60, (3, T + 100)),
        (T + 100, (3, T + 100)),
    ] {
        let (offset, at) = found;
        assert_eq!(self::offset(&mut client, 11, timestamp), (ErrorCode::NONE, offset, at, 0), "{timestamp}");
    }
    assert_eq!(offset(&mut client, 11, T + 101), (ErrorCode::NONE, -1, -1, -1));
}

#[test]
fn offsets_are_found_in_compressed_batches() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("t", 1)]);
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let batch = filled(BatchBuilder::new().compression(codec, None), &[T, T + 10]);
        assert_eq!(produce(&mut client, "t", 0, &batch).0, ErrorCode::NONE);
    }
    assert_eq!(offset(&mut client, 11, T + 1), (ErrorCode::NONE, 1, T + 10, 0));
    assert_eq!(offset(&mut client, 11, -3), (ErrorCode::NONE, 1, T + 10, 0));
}

#[test]
fn special_timestamps_are_as_old_as_their_versions() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    fill(&mut client);
    for (timestamp, since) in [(-3, 7), (-4, 8), (-5, 9), (-6, 11)] {
        assert_eq!(offset(&mut client, since - 1, timestamp).0, ErrorCode::UNSUPPORTED_VERSION, "{timestamp}");
        assert_eq!(offset(&mut client, since, timestamp).0, ErrorCode::NONE, "{timestamp}");
    }
}

#[test]
fn bad_questions_fail_alone() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    fill(&mut client);
    let none = |code| (code, -1, -1, -1);
    let topics = vec![
        asked("nope", &[(0, -1, -1)]),
        asked("t", &[(5, -1, -1), (-1, -1, -1), (1, -1, -1), (0, -1, 1), (1, -1, -1), (1, -2, -1)]),
        asked("a/b", &[(0, -1, -1)]),
        asked("t", &[(0, -1, 0)]),
    ];
    let unknown = none(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    let twice = none(ErrorCode::INVALID_REQUEST);
    assert_eq!(list(&mut client, 11, topics), [unknown, unknown, unknown, twice, twice, unknown]);

    let ahead = list(&mut client, 11, vec![asked("t", &[(0, -1, 1)])]);
    assert_eq!(ahead, [none(ErrorCode::UNKNOWN_LEADER_EPOCH)]);
    let right = list(&mut client, 11, vec![asked("t", &[(0, -1, 0)])]);
    assert_eq!(right, [(ErrorCode::NONE, 6, -1, 0)]);
}

#[test]
fn records_below_an_offset_are_deleted() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    fill(&mut client);
    for (offset, answer) in [
        (7, (ErrorCode::OFFSET_OUT_OF_RANGE, -1)),
        (-2, (ErrorCode::OFFSET_OUT_OF_RANGE, -1)),
        (2, (ErrorCode::NONE, 2)),
        (1, (ErrorCode::NONE, 2)),
    ] {
        assert_eq!(delete(&mut client, "t", &[(0, offset)]), [(0, answer.0, answer.1)], "{offset}");
    }
    assert_eq!(offset(&mut client, 11, -2), (ErrorCode::NONE, 2, -1, 0));
    // The record of T + 10 is gone, although its batch is not.
    assert_eq!(offset(&mut client, 11, T + 1), (ErrorCode::NONE, 2, T + 5, 0));
    assert_eq!(offset(&mut client, 11, T + 6), (ErrorCode::NONE, 3, T + 100, 0));

    assert_eq!(delete(&mut client, "t", &[(0, -1)]), [(0, ErrorCode::NONE, 6)]);
    assert_eq!(offset(&mut client, 11, -2), (ErrorCode::NONE, 6, -1, 0));
    assert_eq!(offset(&mut client, 11, 0), (ErrorCode::NONE, -1, -1, -1));
    assert_eq!(produce(&mut client, "t", 0, &batch(&[T])), (ErrorCode::NONE, 6));
}

#[test]
fn deleted_records_stay_deleted() {
    let mut broker = TestBroker::start();
    let mut client = broker.connect();
    fill(&mut client);
    assert_eq!(delete(&mut client, "t", &[(0, 4)]), [(0, ErrorCode::NONE, 4)]);
    broker.restart();
    let mut client = broker.connect();
    assert_eq!(list(&mut client, 11, vec![asked("t", &[(0, -2, -1),])])[0].1, 4);
}

#[test]
fn deletion_obeys_the_cleanup_policy_and_counts_the_last_of_equals() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(
        &mut client,
        &[
            topic("t", 2),
            with_config(topic("compact", 1), "cleanup.policy", Some("compact")),
            with_config(topic("both", 1), "cleanup.policy", Some("compact,delete")),
            with_config(topic("neither", 1), "cleanup.policy", Some("")),
        ],
    );
    assert_eq!(delete(&mut client, "compact", &[(0, 0)]), [(0, ErrorCode::POLICY_VIOLATION, -1)]);
    assert_eq!(delete(&mut client, "both", &[(0, 0)]), [(0, ErrorCode::NONE, 0)]);
    assert_eq!(delete(&mut client, "neither", &[(0, 0)]), [(0, ErrorCode::NONE, 0)]);
    assert_eq!(delete(&mut client, "nope", &[(0, 0)]), [(0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, -1)]);
    assert_eq!(delete(&mut client, "t", &[(1, 9), (1, 0)]), [(1, ErrorCode::NONE, 0)]);
    assert_eq!(delete(&mut client, "t", &[]), []);
}

#[test]
fn a_leader_epoch_ends_at_the_end_of_the_log() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    fill(&mut client);
    let ask = |partition, current_leader_epoch, leader_epoch| OffsetForLeaderPartition {
        partition,
        current_leader_epoch,
        leader_epoch,
    };
    let partitions =
        vec![ask(0, -1, 0), ask(0, 0, 0), ask(0, 1, 0), ask(0, -1, 1), ask(0, -1, -1), ask(1, -1, 0), ask(7, -1, 0)];
    let topics = vec![OffsetForLeaderTopic { topic: "t".into(), partitions }];
    for version in 2..=4 {
        let response =
            client.call(version, &OffsetForLeaderEpochRequest { topics: topics.clone(), ..Default::default() });
        let ends = &response.topics[0].partitions;
        let ends: Vec<_> = ends.iter().map(|p| (p.error_code, p.leader_epoch, p.end_offset)).collect();
        assert_eq!(
            ends,
            [
                (ErrorCode::NONE, 0, 6),
                (ErrorCode::NONE, 0, 6),
                (ErrorCode::UNKNOWN_LEADER_EPOCH, -1, -1),
                (ErrorCode::NONE, -1, -1),
                (ErrorCode::NONE, -1, -1),
                (ErrorCode::NONE, 0, 0),
                (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
            ]
        );
    }
}
