//! Consumers that read from the nearest replica (KIP-392).

use wire::ErrorCode;
use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic, PartitionData};
use wire::state::metadata::RegisterBrokerRecord;

use super::cluster::{Cluster, TOPIC_ID};
use crate::api::fetch::{FetchContext, Service, serve};
use crate::partition::Acks;
use crate::simulation::replica::poll;

const NEWEST: i16 = 18;

/// Nodes of these racks, and ten records that all have.
fn cluster(racks: &[&str]) -> Cluster {
    let mut cluster = Cluster::new(1, racks.len() as i32, &[]);
    for (id, rack) in (1..).zip(racks) {
        set_rack(&mut cluster, id, rack);
    }
    for _ in 0..10 {
        cluster.produce(1, Acks::All);
    }
    cluster.settle();
    cluster
}

/// As if the node had registered with a rack.
fn set_rack(cluster: &mut Cluster, id: i32, rack: &str) {
    let broker = cluster.image().broker(id).unwrap();
    let record = RegisterBrokerRecord {
        broker_id: id,
        broker_epoch: broker.epoch,
        incarnation_id: broker.incarnation_id,
        rack: Some(rack.to_owned()),
        fenced: false,
        ..RegisterBrokerRecord::default()
    };
    cluster.commit(&[record.into()]);
}

/// What a node answers to a consumer.
fn consume(cluster: &Cluster, id: i32, rack: &str, fetch_offset: i64, version: i16) -> PartitionData {
    let partition = FetchPartition { fetch_offset, partition_max_bytes: 1000, ..FetchPartition::default() };
    let topic = FetchTopic { topic_id: TOPIC_ID, topic: "t".into(), partitions: vec![partition] };
    let request = FetchRequest {
        max_bytes: 1000,
        session_epoch: -1,
        topics: vec![topic],
        rack_id: rack.to_owned(),
        ..FetchRequest::default()
    };
    let service = Service { selects_by_rack: true, ..cluster.nodes[&id].replica.service() };
    let context = FetchContext { version, listener: "PLAINTEXT", is_inter_broker: false, memory: None, reader: None };
    let (mut response, _) = poll(serve(&service, &context, request));
    response.responses.remove(0).partitions.remove(0)
}

/// The preferred read replica; without one there have to be records.
fn preferred(cluster: &Cluster, rack: &str, offset: i64) -> Option<i32> {
    let answer = consume(cluster, 1, rack, offset, NEWEST);
    assert_eq!(answer.error_code, ErrorCode::NONE);
    let has_records = answer.records.is_some_and(|records| !records.is_empty());
    let replica = Some(answer.preferred_read_replica).filter(|id| *id >= 0);
    assert_ne!(has_records, replica.is_some(), "rack {rack}");
    replica
}

#[test]
fn a_consumer_is_sent_to_a_replica_of_its_rack() {
    let cluster = cluster(&["a", "b", "c"]);
    for (rack, replica) in [("a", None), ("b", Some(2)), ("c", Some(3)), ("d", None), ("", None)] {
        assert_eq!(preferred(&cluster, rack, 0), replica, "{rack}");
    }
    assert_eq!(consume(&cluster, 1, "b", 0, 10).preferred_read_replica, -1, "it would not understand");
    let there = consume(&cluster, 2, "b", 0, NEWEST);
    assert_eq!((there.error_code, there.preferred_read_replica, there.high_watermark), (ErrorCode::NONE, -1, 10));
    assert_eq!(consume(&cluster, 2, "b", 0, 10).error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER);
}

#[test]
fn nobody_is_as_near_as_a_leader_of_the_same_rack() {
    assert_eq!(preferred(&cluster(&["a", "a"]), "a", 0), None);
}

#[test]
fn the_one_that_has_most_is_preferred_and_one_without_the_offset_is_not() {
    for (ahead, behind) in [(2, 3), (3, 2)] {
        let mut cluster = cluster(&["a", "b", "b"]);
        cluster.produce(1, Acks::Leader);
        for _ in 0..2 {
            cluster.fetch(ahead);
        }
        assert_eq!(preferred(&cluster, "b", 5), Some(ahead));
        cluster.crash(ahead, false);
        cluster.apply_all(1);
        assert_eq!(preferred(&cluster, "b", 5), Some(behind), "the other is gone");
    }
}

#[test]
fn one_out_of_sync_is_not_preferred() {
    let mut cluster = cluster(&["a", "b"]);
    assert_eq!(preferred(&cluster, "b", 0), Some(2));
    cluster.crash(2, false);
    cluster.apply_all(1);
    assert_eq!(preferred(&cluster, "b", 0), None);
    cluster.produce(1, Acks::All);
    cluster.start(2);
    set_rack(&mut cluster, 2, "b");
    cluster.apply_all(1);
    cluster.apply_all(2);
    for _ in 0..3 {
        cluster.fetch(2);
        assert_eq!(preferred(&cluster, "b", 0), None);
    }
    cluster.settle();
    assert_eq!(preferred(&cluster, "b", 0), Some(2), "it is in sync again");
}
