//! InitProducerId and DescribeProducers.

use std::collections::HashSet;

use wire::ErrorCode;
use wire::api::describe_producers::{DescribeProducersRequest, ProducerState, TopicRequest};
use wire::api::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use wire::batch::BatchBuilder;

use crate::common::{TestBroker, TestClient};
use crate::{create, filled, produce, topic};

fn init(client: &mut TestClient, producer_id: i64, producer_epoch: i16) -> InitProducerIdResponse {
    client.ask(&InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: 1000,
        producer_id,
        producer_epoch,
    })
}

#[test]
fn producer_ids_are_never_given_twice() {
    let mut broker = TestBroker::start();
    let mut seen = HashSet::new();
    for _ in 0..3 {
        let mut client = broker.connect();
        // More than one block of them.
        for _ in 0..1500 {
            let response = init(&mut client, -1, -1);
            assert_eq!((response.error_code, response.producer_epoch), (ErrorCode::NONE, 0));
            assert!(seen.insert(response.producer_id), "{}", response.producer_id);
        }
        broker.restart();
    }
}

#[test]
fn ids_are_never_given_twice_to_producers_at_the_same_time() {
    let broker = TestBroker::start();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut client = broker.connect();
            std::thread::spawn(move || (0..600).map(|_| init(&mut client, -1, -1).producer_id).collect::<Vec<_>>())
        })
        .collect();
    let mut seen = HashSet::new();
    for id in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
        assert!(id >= 0 && seen.insert(id), "{id}");
    }
}

#[test]
fn an_idempotent_producer_that_shows_its_id_gets_a_new_one() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    let first = init(&mut client, -1, -1);
    for epoch in [0, 5, i16::MAX] {
        let next = init(&mut client, first.producer_id, epoch);
        assert_eq!((next.error_code, next.producer_epoch), (ErrorCode::NONE, 0));
        assert_ne!(next.producer_id, first.producer_id);
    }
    // An id without an epoch, or an epoch without an id.
    for (id, epoch) in [(5, -1), (-1, 3)] {
        let response = init(&mut client, id, epoch);
        assert_eq!((response.error_code, response.producer_id), (ErrorCode::INVALID_REQUEST, -1));
    }
}

#[test]
fn a_partition_tells_of_its_producers() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("t", 1)]);
    let send = |client: &mut TestClient, id, epoch, sequence, timestamps: &[i64]| {
        let batch = filled(BatchBuilder::new().producer(id, epoch, sequence), timestamps);
        assert_eq!(produce(client, "t", 0, &batch).0, ErrorCode::NONE);
    };
    let t = 1_700_000_000_000;
    send(&mut client, 4000, 0, 0, &[t, t + 1]);
    send(&mut client, 4000, 0, 2, &[t + 2, t + 7]);
    send(&mut client, 3000, 3, 0, &[t + 2]);
    let ask = |name: &str, indexes: &[i32]| TopicRequest { name: name.to_owned(), partition_indexes: indexes.to_vec() };
    let topics = vec![ask("t", &[0, 1, -1, 0]), ask("nope", &[0]), ask("a/b", &[0])];
    let response = client.ask(&DescribeProducersRequest { topics });
    let state = |producer_id, producer_epoch, last_sequence, last_timestamp| ProducerState {
        producer_id,
        producer_epoch,
        last_sequence,
        last_timestamp,
        coordinator_epoch: -1,
        current_txn_start_offset: -1,
    };
    let partitions = &response.topics[0].partitions;
    let mut producers = partitions[0].active_producers.clone();
    producers.sort_by_key(|producer| producer.producer_id);
    assert_eq!(producers, [state(3000, 3, 0, t + 2), state(4000, 0, 3, t + 7)]);
    let errors: Vec<_> = response.topics.iter().flat_map(|t| &t.partitions).map(|p| p.error_code).collect();
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(errors, [ErrorCode::NONE, unknown, unknown, unknown, ErrorCode::INVALID_TOPIC_EXCEPTION]);
}
