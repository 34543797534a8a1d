//! Transactions that others than their producer end or ask about.

use wire::api::describe_producers::{DescribeProducersRequest, TopicRequest};
use wire::api::describe_transactions::DescribeTransactionsRequest;
use wire::api::list_transactions::{ListTransactionsRequest, ListTransactionsResponse};
use wire::api::write_txn_markers::{WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest};

use super::*;

/// State, start and partitions of a transactional id.
fn describe(client: &mut TestClient, id: &str) -> (ErrorCode, String, Vec<i32>) {
    let mut response = client.ask(&DescribeTransactionsRequest { transactional_ids: vec![id.to_owned()] });
    let state = response.transaction_states.remove(0);
    assert_eq!(state.transactional_id, id);
    let is_open = state.transaction_state == "Ongoing";
    assert!(state.error_code != ErrorCode::NONE || (state.transaction_start_time_ms >= 0) == is_open);
    let partitions = state.topics.into_iter().flat_map(|topic| topic.partitions).collect();
    (state.error_code, state.transaction_state, partitions)
}

fn list(client: &mut TestClient, request: &ListTransactionsRequest) -> (Vec<String>, ListTransactionsResponse) {
    let response = client.ask(request);
    let mut ids: Vec<_> = response.transaction_states.iter().map(|state| state.transactional_id.clone()).collect();
    ids.sort();
    (ids, response)
}

#[test]
fn a_transaction_that_takes_too_long_is_aborted_and_its_producer_is_fenced() {
    for protocol in ALL {
        let broker = start(&[("transaction.abort.timed.out.transaction.cleanup.interval.ms", "10")]);
        let mut client = broker.connect();
        let mut producer = Producer::start_with_timeout(&mut client, "id", protocol, 1);
        producer.write(&mut client, 0, &["a"]);
        assert_eq!(read_when_stable(&mut client, 0).1, [(producer.producer_id, 0)], "{protocol:?}");
        assert_ne!(producer.end(&mut client, true), ErrorCode::NONE, "{protocol:?}");
        assert_eq!(producer.send(&mut client, 0, &["b"]), ErrorCode::INVALID_PRODUCER_EPOCH, "{protocol:?}");
    }
}

#[test]
fn transactions_are_listed_and_described() {
    let broker = start(&[]);
    let mut client = broker.connect();
    let mut open = Producer::start(&mut client, "open", VERSION_2);
    open.write(&mut client, 0, &["a"]);
    open.write(&mut client, 1, &["a"]);
    let idle = Producer::start(&mut client, "idle", VERSION_2);
    assert_eq!(describe(&mut client, "open"), (ErrorCode::NONE, "Ongoing".into(), vec![0, 1]));
    assert_eq!(describe(&mut client, "idle"), (ErrorCode::NONE, "Empty".into(), vec![]));
    assert_eq!(describe(&mut client, "nobody").0, ErrorCode::TRANSACTIONAL_ID_NOT_FOUND);
    assert_eq!(describe(&mut client, "").0, ErrorCode::INVALID_REQUEST);

    let all = ListTransactionsRequest { duration_filter: -1, ..Default::default() };
    assert_eq!(list(&mut client, &all).0, ["idle", "open"]);
    let states = vec!["Ongoing".to_owned(), "Nonsense".to_owned()];
    let (ids, response) = list(&mut client, &ListTransactionsRequest { state_filters: states, ..all.clone() });
    assert_eq!((ids, response.unknown_state_filters), (vec!["open".into()], vec!["Nonsense".to_owned()]));
    let of_producer = ListTransactionsRequest { producer_id_filters: vec![idle.producer_id, -5], ..all.clone() };
    assert_eq!(list(&mut client, &of_producer).0, ["idle"]);
    let of_days = ListTransactionsRequest { duration_filter: 86_400_000, ..all.clone() };
    assert_eq!(list(&mut client, &of_days).0, ["idle"], "as in Kafka, one that is not open counts as very old");
    for (pattern, ids) in [("o.*", vec!["open"]), ("o", vec![]), ("", vec!["idle", "open"])] {
        let named = ListTransactionsRequest { transactional_id_pattern: Some(pattern.into()), ..all.clone() };
        assert_eq!(list(&mut client, &named).0, ids, "{pattern}");
    }
    let broken = ListTransactionsRequest { transactional_id_pattern: Some("(".into()), ..all };
    assert_eq!(list(&mut client, &broken).1.error_code, ErrorCode::INVALID_REGULAR_EXPRESSION);
}

#[test]
fn an_administrator_ends_a_transaction_in_one_partition() {
    let broker = start(&[]);
    let mut client = broker.connect();
    let mut producer = Producer::start(&mut client, "id", VERSION_1);
    producer.write(&mut client, 0, &["a"]);
    let mut abort = |coordinator_epoch, partition| {
        let topic = WritableTxnMarkerTopic { name: TOPIC.into(), partition_indexes: vec![partition] };
        let marker = WritableTxnMarker {
            producer_id: producer.producer_id,
            producer_epoch: producer.epoch,
            coordinator_epoch,
            topics: vec![topic],
            ..Default::default()
        };
        let request = WriteTxnMarkersRequest { markers: vec![marker] };
        client.ask(&request).markers[0].topics[0].partitions[0].error_code
    };
    assert_eq!(abort(-1, 9), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(abort(3, 0), ErrorCode::NONE);
    assert_eq!(abort(2, 0), ErrorCode::TRANSACTION_COORDINATOR_FENCED);
    assert_eq!(read_when_stable(&mut client, 0).1, [(producer.producer_id, 0)]);
    let topic = TopicRequest { name: TOPIC.into(), partition_indexes: vec![0] };
    let described = client.ask(&DescribeProducersRequest { topics: vec![topic] });
    let state = &described.topics[0].partitions[0].active_producers[0];
    assert_eq!((state.coordinator_epoch, state.current_txn_start_offset), (3, -1));
}
