//! Records that are deleted from all replicas (KIP-107).

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use wire::ErrorCode;
use wire::state::metadata::PartitionChangeRecord;

use super::cluster::{Cluster, TOPIC_ID};
use crate::partition::{Acks, Partition};

/// Three nodes with ten records, of which the leader has deleted four.
fn deleted() -> (Cluster, Arc<Partition>) {
    let mut cluster = Cluster::new(1, 3, &[]);
    for _ in 0..10 {
        cluster.produce(1, Acks::All);
    }
    cluster.settle();
    let leader = cluster.nodes[&1].partition();
    assert_eq!(leader.low_watermark(), Ok(0));
    leader.delete_records(4).unwrap();
    (cluster, leader)
}

fn start(cluster: &Cluster, id: i32) -> i64 {
    cluster.nodes[&id].partition().log_start_offset()
}

#[test]
fn who_deletes_waits_for_all_followers() {
    let (mut cluster, leader) = deleted();
    let mut waiting = pin!(leader.wait_until_deleted(4));
    let mut is_deleted = || waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    for id in [2, 3] {
        assert_eq!((start(&cluster, id), is_deleted()), (0, Poll::Pending));
        cluster.fetch(id);
        assert_eq!((start(&cluster, id), is_deleted()), (4, Poll::Pending), "it has not said so yet");
        cluster.fetch(id);
    }
    assert_eq!(is_deleted(), Poll::Ready(Ok(4)));
    cluster.settle();
    cluster.check_healed();
}

#[test]
fn nobody_waits_for_one_that_is_dead() {
    let (mut cluster, leader) = deleted();
    let mut waiting = pin!(leader.wait_until_deleted(4));
    let mut is_deleted = || waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    for _ in 0..2 {
        cluster.fetch(2);
    }
    assert_eq!(is_deleted(), Poll::Pending);
    cluster.crash(3, false);
    cluster.apply_all(1);
    assert_eq!(is_deleted(), Poll::Ready(Ok(4)));
}

#[test]
fn one_that_comes_back_deletes_before_it_may_lead() {
    let (mut cluster, leader) = deleted();
    cluster.settle();
    cluster.nodes[&3].replica.table.write_checkpoints().unwrap();
    cluster.crash(3, false);
    cluster.apply_all(1);
    leader.delete_records(10).unwrap();
    cluster.start(3);
    cluster.apply_all(1);
    cluster.apply_all(3);
    let (_, request) = cluster.fetch_request(3).unwrap();
    assert_eq!(request.topics[0].partitions[0].fetch_offset, 10, "it has everything");
    let response = cluster.answer(1, &request);
    assert!(cluster.isr_request(1).is_none(), "what is deleted is still in its log");
    cluster.take_response(3, 1, response);
    assert_eq!(start(&cluster, 3), 10);
    cluster.settle();
    assert_eq!(cluster.state().isr.len(), 3);
}

#[test]
fn nobody_waits_for_one_that_is_no_replica_any_more() {
    let (mut cluster, leader) = deleted();
    let mut waiting = pin!(leader.wait_until_deleted(4));
    let mut is_deleted = || waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    for _ in 0..2 {
        cluster.fetch(2);
    }
    assert_eq!(is_deleted(), Poll::Pending);
    let without_3 = PartitionChangeRecord {
        partition_id: 0,
        topic_id: TOPIC_ID,
        replicas: Some(vec![1, 2]),
        isr: Some(vec![1, 2]),
        ..PartitionChangeRecord::default()
    };
    cluster.commit(&[without_3.into()]);
    cluster.apply_all(1);
    assert_eq!(is_deleted(), Poll::Ready(Ok(4)));
}

#[test]
fn a_wait_ends_with_the_partition() {
    let (_cluster, leader) = deleted();
    let mut waiting = pin!(leader.wait_until_deleted(4));
    let mut is_deleted = || waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(is_deleted(), Poll::Pending);
    leader.retire();
    assert_eq!(is_deleted(), Poll::Ready(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER)));
}

#[test]
fn a_wait_ends_with_the_leadership() {
    let (mut cluster, leader) = deleted();
    let mut waiting = pin!(leader.wait_until_deleted(4));
    let mut is_deleted = || waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(is_deleted(), Poll::Pending);
    cluster.elect(2);
    cluster.apply_all(1);
    assert_eq!(is_deleted(), Poll::Ready(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER)));
}
