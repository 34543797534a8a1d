//! What clients can take, and what they cannot.

use std::net::{IpAddr, Ipv4Addr};

use wire::ErrorCode;

use super::fake::{Fate, World};
use super::producer::{END_V1, END_V2, init_request, ready, settle};
use crate::txn::TransactionConfig;
use crate::txn::core::{State, TransactionVersion};

const KIB: usize = 1024;

#[tokio::test(start_paused = true)]
async fn one_address_cannot_take_all_ids() {
    let world = World::with(TransactionConfig { max_memory_bytes: 400 * KIB, ..TransactionConfig::default() }).await;
    let address = |n: u8| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
    let fill = async |n: u8| {
        for count in 0.. {
            let request = init_request(&format!("{n} {count}"), None);
            match world.txn.init_producer_id(5, address(n), request).await.error_code {
                ErrorCode::NONE => {}
                error => {
                    assert_eq!(error, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
                    return count;
                }
            }
        }
        unreachable!()
    };
    let first = fill(1).await;
    assert!((100..200).contains(&first), "{first}");
    assert!(world.txn.memory_bytes() <= 100 * KIB);
    assert_eq!(fill(2).await, first);
    // What is there goes on.
    assert_eq!(ready(&world.txn, "1 0").await.epoch, 1);
    for n in 3..8 {
        fill(n).await;
    }
    assert!((399 * KIB..=400 * KIB).contains(&world.txn.memory_bytes()));
    world.txn.unload(0);
    assert_eq!(world.txn.memory_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_no_larger_than_a_record_that_ends_it() {
    for version in [0, 2] {
        let world = World::new().await;
        world.cluster.finalize(TransactionVersion(version));
        let mut producer = ready(&world.txn, "id").await;
        world.log.limit_batches(400);
        let mut refused = 0;
        for partition in 0..3 {
            for topic in ["t0", "t1", "t2", "t3"] {
                match producer.add(&world.txn, &[(topic, partition)]).await {
                    Ok(()) => {}
                    Err(error) => {
                        assert_eq!(error, ErrorCode::UNKNOWN_SERVER_ERROR);
                        refused += 1;
                    }
                }
            }
        }
        // A refused one is not in the way of those after it.
        assert!(refused < 12);
        world.log.limit_batches(350);
        assert!(producer.add(&world.txn, &[("t0", 0), ("__consumer_offsets", 99)]).await.is_err());
        let before = world.log.bytes().len();
        producer.end(&world.txn, if version == 2 { END_V2 } else { END_V1 }, true).await.unwrap();
        settle().await;
        assert_eq!(world.log.last("id").unwrap().state, State::CompleteCommit);
        assert!(world.log.bytes().len() - before <= 2 * 400);
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_transaction_leaves_room_for_small_ones() {
    let world = World::with(TransactionConfig { max_memory_bytes: 256 * KIB, ..TransactionConfig::default() }).await;
    world.log.limit_batches(1 << 20);
    let producer = ready(&world.txn, "id").await;
    let many: Vec<_> = (0..4_000).map(|n| ("__consumer_offsets", n)).collect();
    assert_eq!(producer.add(&world.txn, &many).await, Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
    assert_eq!(world.log.last("id").unwrap().state, State::Empty);
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap();
    producer.add(&world.txn, &many[..100]).await.unwrap();
    ready(&world.txn, "other").await;
}

#[tokio::test(start_paused = true)]
async fn memory_is_counted_as_it_is_used() {
    let world = World::new().await;
    let mut producer = ready(&world.txn, "id").await;
    let idle = world.txn.memory_bytes();
    assert!(idle > 500);
    world.log.set(Fate::Refused(ErrorCode::NOT_ENOUGH_REPLICAS));
    producer.add(&world.txn, &[("t0", 0)]).await.unwrap_err();
    assert_eq!(world.txn.memory_bytes(), idle);
    world.log.heal();
    producer.add(&world.txn, &[("t0", 0), ("t1", 0)]).await.unwrap();
    assert!(world.txn.memory_bytes() > idle + 200);
    producer.end(&world.txn, END_V1, true).await.unwrap();
    settle().await;
    assert_eq!(world.txn.memory_bytes(), idle);
    let (world, old) = world.fail_over(0).await;
    assert_eq!(world.txn.memory_bytes(), idle);
    old.unload(0);
    assert_eq!(old.memory_bytes(), 0);
}
