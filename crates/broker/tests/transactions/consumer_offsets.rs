//! Offsets of consumer groups in transactions (KIP-447).

use wire::api::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
};
use wire::api::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};

use super::*;

const GROUP: &str = "g";

fn commit(client: &mut TestClient, producer: &Producer, committed_offset: i64) -> ErrorCode {
    let partitions = vec![TxnOffsetCommitRequestPartition { committed_offset, ..Default::default() }];
    let request = TxnOffsetCommitRequest {
        transactional_id: producer.id.clone(),
        group_id: GROUP.into(),
        producer_id: producer.producer_id,
        producer_epoch: producer.epoch,
        topics: vec![TxnOffsetCommitRequestTopic { name: TOPIC.into(), partitions }],
        ..Default::default()
    };
    ask_again(|| client.call(producer.protocol.txn_offset_commit, &request).topics[0].partitions[0].error_code)
}

/// The group's offset in partition 0, of a client that waits for open transactions, or of one that does not.
fn committed(client: &mut TestClient, require_stable: bool) -> (ErrorCode, i64) {
    let topics =
        vec![OffsetFetchRequestTopics { name: TOPIC.into(), partition_indexes: vec![0], ..Default::default() }];
    let group = OffsetFetchRequestGroup { group_id: GROUP.into(), topics: Some(topics), ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![group], require_stable, ..Default::default() };
    let mut response = OffsetFetchResponse::default();
    let error = ask_again(|| {
        response = client.call(9, &request);
        response.groups[0].error_code
    });
    assert_eq!(error, ErrorCode::NONE);
    let partition = response.groups.remove(0).topics.remove(0).partitions.remove(0);
    (partition.error_code, partition.committed_offset)
}

fn committed_when_stable(client: &mut TestClient) -> i64 {
    loop {
        match committed(client, true) {
            (ErrorCode::UNSTABLE_OFFSET_COMMIT, offset) => assert_eq!(offset, -1),
            (error, offset) => {
                assert_eq!(error, ErrorCode::NONE);
                return offset;
            }
        }
    }
}

#[test]
fn offsets_are_committed_with_the_records_or_not_at_all() {
    for protocol in ALL {
        let mut broker = start(&[]);
        let mut client = broker.connect();
        let request = FindCoordinatorRequest { coordinator_keys: vec![GROUP.to_owned()], ..Default::default() };
        assert_eq!(client.ask(&request).coordinators[0].error_code, ErrorCode::NONE);
        let mut producer = Producer::start(&mut client, "id", protocol);
        let mut expected = -1;
        for (offset, is_committed) in [(5, true), (7, false), (9, true)] {
            producer.write(&mut client, 0, &["a"]);
            if !producer.is_version_2() {
                assert_eq!(producer.add_offsets(&mut client, GROUP), ErrorCode::NONE);
            }
            assert_eq!(commit(&mut client, &producer, offset), ErrorCode::NONE, "{protocol:?}");
            assert_eq!(committed(&mut client, false), (ErrorCode::NONE, expected), "{protocol:?}");
            assert_eq!(committed(&mut client, true), (ErrorCode::UNSTABLE_OFFSET_COMMIT, -1), "{protocol:?}");
            assert_eq!(producer.end(&mut client, is_committed), ErrorCode::NONE);
            if is_committed {
                expected = offset;
            }
            assert_eq!(committed_when_stable(&mut client), expected, "{protocol:?}");
        }
        broker.restart();
        let mut client = broker.connect();
        assert_eq!(client.ask(&request).coordinators[0].error_code, ErrorCode::NONE);
        assert_eq!(committed_when_stable(&mut client), 9, "{protocol:?}");
    }
}

#[test]
fn offsets_are_refused_to_a_group_that_is_not_in_the_transaction() {
    for (protocol, error) in [(OLD, ErrorCode::INVALID_TXN_STATE), (VERSION_1, ErrorCode::TRANSACTION_ABORTABLE)] {
        let broker = start(&[]);
        let mut client = broker.connect();
        let request = FindCoordinatorRequest { coordinator_keys: vec![GROUP.to_owned()], ..Default::default() };
        assert_eq!(client.ask(&request).coordinators[0].error_code, ErrorCode::NONE);
        let mut producer = Producer::start(&mut client, "id", protocol);
        producer.write(&mut client, 0, &["a"]);
        assert_eq!(commit(&mut client, &producer, 5), error, "{protocol:?}");
        assert_eq!(producer.end(&mut client, true), ErrorCode::NONE);
        assert_eq!(committed_when_stable(&mut client), -1);
    }
}
